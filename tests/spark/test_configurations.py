"""The oracle's random models under other settings of Spark and other layouts of tables.

Eleven settings of two values each in twelve configurations, so that every two settings meet in all
four combinations (the Plackett-Burman design). In each a random model goes through its epochs and
is compared as in `test_oracle`; Spark writes the sources. By default one configuration, in which
Spark compiles, plans anew between stages and shuffles; with `--thorough` all, with more models.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable

from deltajoin.names import quote
from deltajoin.runtime.own_session import FEW_ROWS_SETTING
from tests.property.cases import Case, Commit, State, Table
from tests.property.generate import Profile
from tests.property.oracle import draw
from tests.spark.test_oracle import RID, DeltaRs, as_arrow, follow, kept_tree

ADAPTIVE, COMPILED = "spark.sql.adaptive.enabled", "spark.sql.codegen.wholeStage"
PARTITIONS = "spark.sql.shuffle.partitions"
VECTORS, MAPPING = "delta.enableDeletionVectors", "delta.columnMapping.mode"
#: Setting -> its two values; those of Delta are of sources and target.
SETTINGS = (
    (ADAPTIVE, ("false", "true")),
    (VECTORS, ("false", "true")),
    ("spark.sql.ansi.enabled", ("true", "false")),
    (COMPILED, ("false", "true")),
    (PARTITIONS, ("1", "7")),
    (FEW_ROWS_SETTING, ("100000", "0")),
    ("spark.sql.autoBroadcastJoinThreshold", ("10485760", "-1")),
    ("spark.sql.parquet.enableVectorizedReader", ("true", "false")),
    ("spark.sql.join.preferSortMergeJoin", ("true", "false")),
    (MAPPING, ("none", "name")),
    ("partitioned sources", ("false", "true")),
)
_ROW = (1, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0)
DESIGN = (*(_ROW[n:] + _ROW[:n] for n in range(len(_ROW))), (0,) * len(_ROW))
#: The configuration that is tried by default, and the one with as many partitions as Spark has.
QUICK, MANY = 0, 4


@dataclass(frozen=True)
class Configuration:
    """A value for each setting."""

    number: int

    @property
    def values(self) -> dict[str, str]:
        chosen = zip(SETTINGS, DESIGN[self.number], strict=True)
        return {name: values[place] for (name, values), place in chosen}

    @property
    def of_tables(self) -> dict[str, str]:
        return {name: value for name, value in self.values.items() if name.startswith("delta.")}

    def session(self, spark: Any) -> Any:
        own = spark.newSession()
        for name, value in self.values.items():
            if name.startswith("spark."):
                own.conf.set(name, value)
        if self.values[COMPILED] == "true":
            own.conf.unset("spark.sql.codegen.factoryMode")
        if self.number == MANY:
            own.conf.set(PARTITIONS, "200")
        return own


class BySpark(DeltaRs):
    """Spark writes the sources, with the properties and partitions of a configuration."""

    def __init__(self, spark: Any, root: Path, configuration: Configuration) -> None:
        super().__init__(root)
        self._spark, self._of = spark.newSession(), configuration

    def create(self, table: Table, *, feed: bool) -> None:
        self._rows(table, list(table.rows))
        properties = {**self._of.of_tables, "delta.enableChangeDataFeed": str(feed).lower()}
        pairs = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        plain = [name for name in table.names if "." not in name]  # Delta's MERGE wants such ones
        by = f"PARTITIONED BY ({quote(plain[-1])})"
        parts = by if self._of.values["partitioned sources"] == "true" else ""
        fields = self._spark.table("changed_rows").schema.fields
        columns = ", ".join(f"{quote(f.name)} {f.dataType.simpleString()}" for f in fields)
        self._sql(
            f"CREATE TABLE {{t}} ({columns}) USING delta {parts} TBLPROPERTIES ({pairs})", table
        )
        self._sql(f"INSERT INTO {{t}} {ROWS}", table)

    def compact(self, name: str) -> None:
        self._spark.sql(f"OPTIMIZE delta.`{self.root / name}`")

    def reload(self, table: Table, state: State, random: Random) -> None:
        self._rows(table, list(state[table.name].items()))
        if random.random() < 0.5:
            self._sql("DELETE FROM {t}", table)
            self._sql(f"INSERT INTO {{t}} {ROWS}", table)
        else:
            self._sql(f"INSERT OVERWRITE {{t}} {ROWS}", table)

    def write(self, case: Case, commit: Commit) -> None:
        table = case.table(commit.table)
        rows = [(change.rid, change.row) for change in commit.changes]
        ops = [change.kind for change in commit.changes]
        self._rows(table, rows, op=ops)
        if set(ops) == {"insert"}:
            self._sql(f"INSERT INTO {{t}} {ROWS}", table)
        elif set(ops) == {"delete"}:
            rids = ", ".join(str(rid) for rid, _ in rows)
            self._sql(f"DELETE FROM {{t}} WHERE {RID} IN ({rids})", table)
        else:
            sets = ", ".join(f"{quote(name)} = s.{quote(name)}" for name in table.names)
            names = [quote(name) for name in (RID, *table.names)]
            self._sql(
                f"MERGE INTO {{t}} AS t USING changes AS s ON t.{RID} = s.{RID} "
                "WHEN MATCHED AND s.op = 'delete' THEN DELETE "
                f"WHEN MATCHED AND s.op = 'update' THEN UPDATE SET {sets} "
                f"WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) "
                f"VALUES ({', '.join(f's.{name}' for name in names)})",
                table,
            )

    def _rows(self, table: Table, rows: list[Any], **extra: list[str]) -> None:
        """Rows to write, in the view `changes`."""
        frame = self._spark.createDataFrame(as_arrow(table, rows, **extra))
        frame.coalesce(1).createOrReplaceTempView("changes")
        names = ", ".join(quote(name) for name in (RID, *table.names))
        self._spark.sql(f"SELECT {names} FROM changes").createOrReplaceTempView("changed_rows")

    def _sql(self, text: str, table: Table) -> None:
        self._spark.sql(text.replace("{t}", f"delta.`{self.root / table.name}`"))


ROWS = "SELECT * FROM changed_rows"


def with_vectors(table: Path) -> int:
    """Files of a table's history with rows that are marked as deleted."""
    logs = (table / "_delta_log").glob("*.json")
    return sum('"deletionVector":{' in line for log in logs for line in log.read_text().split("\n"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "number" in metafunc.fixturenames:
        thorough = metafunc.config.getoption("--thorough")
        metafunc.parametrize("number", range(len(DESIGN)) if thorough else (QUICK,))
        metafunc.parametrize("model", range(3 if thorough else 1))


@pytest.mark.parametrize("shape", ["joins", pytest.param("tree", marks=pytest.mark.thorough)])
def test_a_random_model_under(
    number: int, model: int, shape: str, spark: Any, tmp_path: Path
) -> None:
    configuration = Configuration(number)
    seed = 500 + 20 * number + model
    epochs = 3 if model else 2
    profile = Profile(epochs=(epochs, epochs), hard_names=False, stars=False, keyed=seed % 2 == 0)
    case = kept_tree(seed, profile) if shape == "tree" else draw(seed, profile)
    session, writer = configuration.session(spark), BySpark(spark, tmp_path, configuration)
    properties = configuration.of_tables
    follow(case, spark, tmp_path, given=session, writer=writer, tblproperties=properties)
    for name in (*(table.name for table in case.tables), "target"):
        found = DeltaTable(tmp_path / name).metadata().configuration
        assert {key: found.get(key, "none") for key in properties} == properties, name
    marked = sum(with_vectors(tmp_path / table.name) for table in case.tables)
    print(f"{marked} files with rows marked as deleted")
    if properties[VECTORS] == "false":
        assert marked == 0
    elif number == QUICK:
        assert marked > 0, "no source has had rows marked as deleted"


def test_every_two_settings_meet_in_every_way() -> None:
    for one, other in combinations(range(len(SETTINGS)), 2):
        assert len({(row[one], row[other]) for row in DESIGN}) == 4


def test_what_few_rows_switch_off_is_on_by_default() -> None:
    values = Configuration(QUICK).values
    assert [values[name] for name in (FEW_ROWS_SETTING, ADAPTIVE, COMPILED)] == [
        "0",
        "true",
        "true",
    ]
    assert int(values[PARTITIONS]) > 1
