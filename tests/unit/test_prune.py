"""Files that a query's own filters leave: counted from the log, and never too few."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from random import Random

import duckdb
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from deltajoin.audit.explain import explanation
from deltajoin.catalog import load_table
from deltajoin.catalog.statistics import FileStatistics
from deltajoin.planner.prune import pruned
from tests.unit import flights

FILES = 10


@pytest.fixture(scope="module")
def parts() -> list[pa.Table]:
    """Ten files: temp 0-9, 10-19 ...; a day each; a name by decade; a value of no order."""
    rng, first = Random(5), dt.date(2024, 1, 1)
    return [
        pa.table(
            {
                "temp": pa.array(range(10 * n, 10 * n + 10)),
                "day": [first + dt.timedelta(days=n)] * 10,
                "name": [f"{'abcdefghij'[n]}{i}" if i else None for i in range(10)],
                "misc": [rng.randrange(100) for _ in range(10)],
            }
        )
        for n in range(FILES)
    ]


@pytest.fixture(scope="module")
def log(parts: list[pa.Table], tmp_path_factory: pytest.TempPathFactory) -> FileStatistics:
    """The log of a table of these files."""
    folder = tmp_path_factory.mktemp("table")
    for part in parts:
        write_deltalake(str(folder), part, mode="append")
    found = load_table("t", str(folder)).log
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("filters", "column", "files"),
    [
        (["`t`.`temp` BETWEEN 12 AND 25"], "temp", 2),
        (["`t`.`temp` >= 12", "`t`.`temp` <= 25"], "temp", 2),
        (["`t`.`temp` >= 12", "`t`.`temp` >= 95"], "temp", 1),
        (["`t`.`temp` IN (3, 57, 1000)"], "temp", 2),
        (["(`t`.`temp` = 3 OR `t`.`temp` BETWEEN 90 AND 95)"], "temp", 2),
        (["(`t`.`temp` = 3 OR `t`.`misc` = 9)", "`t`.`temp` < 50"], "temp", 6),
        (["`t`.`temp` < 50", "`t`.`day` = CAST('2024-01-02' AS DATE)"], "day", 1),
        (["`t`.`name` = 'c5'"], "name", 1),
        (["`t`.`temp` > 200"], "temp", 0),
    ],
)
def test_the_best_column_is_told(
    log: FileStatistics, filters: list[str], column: str, files: int
) -> None:
    found = pruned(log, filters)
    assert found is not None
    assert (found[0], found[1].files, found[1].of) == (column, files, FILES)


@pytest.mark.parametrize(
    "sql", ["`t`.`temp` <> 5", "upper(`t`.`name`) = 'A1'", "`t`.`temp` IS NULL"]
)
def test_what_gives_no_range_prunes_nothing(log: FileStatistics, sql: str) -> None:
    assert pruned(log, [sql]) is None


def test_no_file_with_a_row_that_is_kept_is_left_out(
    log: FileStatistics, parts: list[pa.Table]
) -> None:
    con = duckdb.connect()
    for number, part in enumerate(parts):
        con.register(f"f{number}", part)
    fewer = 0
    for seed in range(150):
        filters = _random_filters(Random(seed))
        where = " AND ".join(f"({sql})" for sql in filters).replace("`t`.", "").replace("`", "")
        held = sum(
            con.execute(f"SELECT count(*) > 0 FROM f{n} WHERE {where}").fetchone() == (True,)
            for n in range(FILES)
        )
        found = pruned(log, filters)
        assert found is None or found[1].files >= held, filters
        fewer += found is not None and found[1].files < FILES
    assert fewer > 75


def _random_filters(rng: Random) -> list[str]:
    def one() -> str:
        x, y = sorted(rng.randrange(-10, 110) for _ in range(2))
        day = f"CAST('2024-01-{1 + x % 12:02}' AS DATE)"
        kind = "temp" if rng.random() < 0.6 else "misc"
        return rng.choice(
            (
                f"`t`.`{kind}` > {x}",
                f"`t`.`{kind}` <= {y}",
                f"`t`.`{kind}` IN ({x}, {y})",
                f"`t`.`{kind}` BETWEEN {x} AND {y}",
                f"NOT `t`.`{kind}` = {x}",
                f"`t`.`day` < {day}",
                f"`t`.`name` >= '{rng.choice('abcdefghij')}5'",
            )
        )

    def several() -> str:
        parts = [one() for _ in range(rng.choice((1, 1, 2, 3)))]
        return f"({rng.choice((' OR ', ' AND ')).join(parts)})"

    return [several() for _ in range(rng.randint(1, 3))]


def test_explain_counts_the_files_of_a_lookup(log: FileStatistics) -> None:
    model = flights.model(f"{flights.SQL} WHERE w.temp BETWEEN 12 AND 25 AND f.dep_delay > 9")
    plan = flights.daily_plan({"planes": 5}, flights.first_plan(model))
    assert plan.statistics is not None
    known = replace(plan.statistics, log={"weather": log}, bytes={"weather": 10_000})
    (path,) = (
        path
        for path in explanation(replace(plan, statistics=known))["paths"]
        if path["driver"] == "p"
    )
    (weather,) = (step for step in path["steps"] if step["relation"] == "w")
    assert weather["arrangement"] == f"weather: 2 of {FILES} files by temp ranges, unique"
