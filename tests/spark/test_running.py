"""Groups of rows that one comparison joins: by running aggregates, with the rows of the text.

The data sets are those of `test_accelerated`: all at once, by an equality beside the
comparison, and without it, so that a row may match any other.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

import deltajoin
from deltajoin.accelerate import choose
from tests.spark.test_accelerated import (
    DATA_SETS,
    SCHEMA,
    accelerated_rows,
    counted,
    session,
    tables,
)
from tests.spark.test_accelerated_paths import ROWS
from tests.spark.test_narrowing import as_written, shown

__all__ = ["session", "tables"]  # fixtures

VALUES = {"inner": (">=", ">", "<=", "<"), "left": ("<", "<=", ">", ">=")}
COMPARED = [
    ("a.lo", "b.hi"),
    ("a.d", "b.e"),
    ("a.f", "b.f"),
    ("a.m", "b.m"),
    ("a.day", "date_add(b.day, 2)"),
    ("a.t", "b.t - INTERVAL 1 HOUR"),
    ("a.n", "b.n"),
    ("a.s", "b.s"),
    ("CAST(a.t AS DATE)", "b.day"),
]
AGGREGATES = {
    "inner": "count(*) AS n, count(b.k) AS ks, sum(b.lo + b.k) AS s, avg(b.hi) AS h, "
    "min(b.day) AS day, max(b.m) AS m, sum(b.m) + count(b.s) AS total, avg(b.m) AS mean, "
    "sum(b.k) FILTER (WHERE b.lo > 3) AS some, count_if(b.d > 1) AS c, sum(2) AS two",
    "left": "count(*) AS n, count(b.k) AS ks, sum(b.lo) AS s, avg(b.hi) AS h, sum(b.m) AS m, "
    "coalesce(sum(b.k), -1) AS some",
}


def _query(kind: str, on: str, by: str, end: str = "") -> str:
    joined = f"FROM a {kind.upper()} JOIN b ON {on} GROUP BY {by}"
    return f"SELECT {by}, {AGGREGATES[kind]} {joined}{end}"


def test_each_data_set_has_the_groups_of_the_text(
    session: SparkSession, tables: Path, thorough: bool
) -> None:
    texts = []
    for number, (mine, other) in enumerate(COMPARED):
        for at, (kind, operators) in enumerate(VALUES.items()):
            some = operators if thorough else operators[number % 4 :][: (number + at) % 2]
            for operator in some:
                on = f"a.case_id = b.case_id AND {mine} {operator} {other}"
                texts.append(_query(kind, on, "a.case_id, a.id"))
    on = "b.lo < a.hi AND b.case_id = a.case_id AND a.k > 1 AND b.k < 3"
    texts += [
        _query("inner", on, "a.case_id, a.k"),
        _query("left", f"{on} AND a.s = b.s", "a.case_id, a.k, a.words"),
        _query("inner", on, "a.case_id, a.d", " HAVING count(*) > 2 AND max(b.lo) > 4"),
        _query("left", on, "a.case_id", " HAVING sum(b.k) > 2 OR a.case_id = 3"),
    ]
    found = Counter[str]()
    for text in texts:
        own = _compared(session, tables, text)
        found.update({list(DATA_SETS)[case] for case, _ in own})
    print(f"\n{len(texts) * len(DATA_SETS):,} cases; {sum(found.values()):,} have rows")
    assert set(found) == {*DATA_SETS} - {"empty left"}


@pytest.mark.parametrize(("kind", "operator"), list(product(VALUES, ("<=", ">"))))
def test_any_row_may_match_any_other(
    session: SparkSession, tables: Path, kind: str, operator: str
) -> None:
    for number, (mine, other) in enumerate(COMPARED):
        if number % 3 == (kind == "left") + (operator == ">"):
            text = _query(kind, f"{mine} {operator} {other}", "a.case_id, a.k")
            _compared(session, tables, text)


def test_a_total_of_no_pairs_has_one_row(session: SparkSession, tables: Path) -> None:
    for on in ("a.lo >= b.lo", "a.lo > b.lo + 100000"):
        own = _compared(
            session, tables, f"SELECT 0 AS case_id, {AGGREGATES['inner']} FROM a JOIN b ON {on}"
        )
        assert own.total() == 1


def test_groups_below_joins_and_windows(session: SparkSession, tables: Path) -> None:
    groups = _query("inner", "a.lo >= b.lo", "a.case_id, a.id")
    ranked = "row_number() OVER (PARTITION BY case_id ORDER BY n, id) AS r"
    for text in (
        f"SELECT g.case_id, g.n, c.s FROM ({groups}) g JOIN a AS c ON g.id = c.id",
        f"SELECT g.*, {ranked} FROM ({groups}) g",
        "SELECT a.case_id, a.id, c.words, count(*) AS n, max(b.lo) AS lo FROM a "
        "JOIN b ON a.lo >= b.lo JOIN a AS c ON a.id = c.id WHERE b.hi IS NOT NULL GROUP BY ALL",
    ):
        _compared(session, tables, text)


def test_what_pairs_are_needed_for_is_joined(session: SparkSession, tables: Path) -> None:
    for values, joined in (
        ("a.id, count(b.d) / avg(b.d) AS v", "a JOIN b ON a.lo >= b.lo"),
        ("a.id, sum(a.lo) AS v", "a JOIN b ON a.lo >= b.lo"),
        ("b.id, count(*) AS v", "a JOIN b ON a.lo >= b.lo"),
        ("a.id, count(DISTINCT b.k) AS v", "a JOIN b ON a.lo >= b.lo"),
        ("a.id, sum(coalesce(b.k, 1)) AS v", "a LEFT JOIN b ON a.lo >= b.lo"),
        ("a.id, count(*) AS v", "a JOIN b ON a.lo >= b.d"),
        ("a.id, count(*) AS v", "a JOIN b ON a.lo >= b.lo AND a.k <> b.k"),
        ("a.id, count(*) AS v", "a LEFT JOIN b ON a.lo >= b.lo WHERE b.k > 1 OR a.k > 2"),
    ):
        text = f"SELECT a.case_id, {values} FROM {joined} GROUP BY ALL"
        served, ours = accelerated_rows(session, tables, text, {"a", "b"})
        assert served == [], text
        if "avg" not in text:  # whose last digit depends on the order of pairs
            assert ours == counted(session.sql(text)), text


def test_a_change_of_either_side_is_kept(session: SparkSession, tmp_path: Path) -> None:
    """Built by running aggregates, kept by pairs, rebuilt again."""
    session.sql("SELECT id AS day FROM range(50)").write.format("delta").save(
        str(tmp_path / "days")
    )
    events = "SELECT id, id % 45 AS day, CAST(id AS DECIMAL(9,2)) AS v FROM range(200)"
    session.sql(events).write.format("delta").save(str(tmp_path / "events"))
    text = (
        "SELECT d.day, count(*) AS n, sum(e.v) AS v, max(e.id) AS last FROM days d "
        "LEFT JOIN events e ON e.day <= d.day GROUP BY d.day"
    )
    sources = {name: str(tmp_path / name) for name in ("days", "events")}
    model = deltajoin.Model(
        "upto",
        text,
        sources,
        str(tmp_path / "upto"),
        {"events": ["id"], "days": ["day"]},
        "incremental",
    )
    changes = [
        f"DELETE FROM delta.`{sources['events']}` WHERE id IN (3, 199)",
        f"INSERT INTO delta.`{sources['days']}` VALUES (50), (-1)",
        f"UPDATE delta.`{sources['events']}` SET day = 0 WHERE id = 100",
    ]
    with patch.object(choose, "FEW_PAIRS", 0):
        for change in ("", *changes):
            if change:
                session.sql(change)
            record = deltajoin.run(model, session).to_dict()
            assert record["strategy"] == ("incremental" if change else "full")
            for name, place in sources.items():
                session.read.format("delta").load(place).createOrReplaceTempView(name)
            own = sorted(map(str, session.sql(text).collect()))
            assert sorted(map(str, deltajoin.read(model, session).collect())) == own
        model = deltajoin.Model(model.name, text, sources, model.target, model.keys, "full")
        session.sql(f"DELETE FROM delta.`{sources['events']}` WHERE id > 150")
        deltajoin.run(model, session)
        session.read.format("delta").load(sources["events"]).createOrReplaceTempView("events")
        own = sorted(map(str, session.sql(text).collect()))
        assert sorted(map(str, deltajoin.read(model, session).collect())) == own


#: Groups by one comparison, with what their paths end in, by driver.
KEPT = {
    "SELECT a.k, a.lo, count(*) AS n, sum(b.lo) AS l, avg(b.m) AS m, count(b.s) AS s "
    "FROM a JOIN b ON a.lo >= b.hi GROUP BY a.k, a.lo": {"a": True, "b": True},
    "SELECT a.s, sum(b.m) AS m, sum(b.k + b.lo) AS lo FROM a JOIN b ON a.t < b.t AND a.k = b.k "
    "WHERE b.lo > 0 AND a.hi > 0 GROUP BY a.s HAVING count(*) > 3": {"a": True, "b": True},
    "SELECT count(*) AS n, sum(b.m) AS m FROM a JOIN b ON b.d > a.d": {"a": True, "b": True},
    "SELECT c.s, a.k, sum(b.lo) AS lo, count(*) AS n FROM a JOIN c ON a.id = c.id JOIN b "
    "ON a.day <= b.day GROUP BY c.s, a.k": {"a": True, "b": False, "c": True},
}
#: The same, as long as rows only come.
GROWING = (
    "SELECT a.k, max(b.m) AS m, min(b.s) AS s, sum(b.lo) AS lo FROM a JOIN b ON a.lo >= b.hi "
    "GROUP BY a.k"
)


def test_changes_are_added_without_their_pairs(
    spark: SparkSession, tmp_path: Path, thorough: bool
) -> None:
    """Sources change by themselves, then all together."""
    source = random.Random(11)
    places = {name: str(tmp_path / name) for name in "abc"}
    tables = {name: f"delta.`{place}`" for name, place in places.items()}

    def append(name: str, numbers: range) -> None:
        made = [(0, number, *ROWS.row(source)) for number in numbers]
        frame = spark.createDataFrame(made, SCHEMA).coalesce(1)
        frame.write.format("delta").mode("append").save(places[name])

    def model(number: int, text: str) -> deltajoin.Model:
        read = {name: place for name, place in places.items() if f"{name}." in text}
        keys = {name: ["id"] for name in read}
        return deltajoin.Model("m", text, read, str(tmp_path / f"t{number}"), keys, "incremental")

    def run(texts: Iterable[str], changed: str) -> None:
        for text in texts:
            record = deltajoin.run(models[text], spark).to_dict()
            assert shown(deltajoin.read(models[text], spark)) == as_written(spark, tables, text)
            for path in record["paths"]:
                expected = KEPT.get(text, {}).get(path["driver"], True)
                last = path["steps"][-1].get("accelerated") or {}
                assert last.get("kind") == ("inequality" if expected else None), (text, changed)
                assert record["strategy"] == "incremental"

    for name in places:
        append(name, range(15))
    models = {text: model(number, text) for number, text in enumerate([*KEPT, GROWING])}
    with patch.object(choose, "FEW_PAIRS", 0), patch.object(choose, "FEW_PER_KEY", 0):
        run(models, "")
        for number, changed in enumerate(("a", "b", "c", "abc") if thorough else ("b", "abc")):
            for name in changed:
                append(name, range(15 + 3 * number, 18 + 3 * number))
            run([GROWING], changed)
            for name in changed:
                spark.sql(f"DELETE FROM {tables[name]} WHERE id % 7 = {number}")
                later = "lo = lo + 2, hi = hi - 1, t = u, d = d + 1, m = -m, s = 'b'"
                spark.sql(f"UPDATE {tables[name]} SET {later} WHERE id % 5 = {number}")
            run(KEPT, changed)
            deltajoin.run(models[GROWING], spark)


def _compared(session: SparkSession, folder: Path, text: str) -> Counter[tuple[int, str]]:
    """The rows of a query: the same by running aggregates."""
    own = counted(session.sql(text))
    served, ours = accelerated_rows(session, folder, text, {"a", "b"})
    assert "inequality" in served, text
    lost, added = own - ours, ours - own
    assert (lost, added) == (Counter(), Counter()), text
    return own
