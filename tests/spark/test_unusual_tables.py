"""Tables that few writers make: each history against Spark's rows of the query, after every step.

A step is a statement, or a change of the session or the table by other means. `{a}` is the table.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import AddAction

import deltajoin

Step = str | Callable[["Place"], object]
ROWS = "SELECT a.id, a.v FROM a"
NTZ = {"spark.sql.timestampType": "TIMESTAMP_NTZ", "spark.sql.session.timeZone": "Asia/Tokyo"}
FEED = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
NEW_YEAR = "TIMESTAMP_LTZ'2020-01-01 00:00:00'"


@dataclass(frozen=True)
class Place:
    """The session, and the folder with the tables."""

    spark: Any
    folder: Path

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def do(self, step: Step) -> None:
        if isinstance(step, str):
            names = {name: f"delta.`{self.path(name)}`" for name in "ab"}
            self.spark.sql(step.format(**names))
        else:
            step(self)


@dataclass(frozen=True)
class Case:
    """A query, what makes its tables, and the steps after each of which it is run."""

    sql: str
    made: tuple[Step, ...]
    steps: tuple[tuple[Step, ...], ...]
    keys: Mapping[str, list[str]] = field(default_factory=lambda: {"a": ["id"]})
    conf: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


def retyped(place: Place) -> None:
    rows = place.spark.sql(f"SELECT id, v, 7 AS p FROM delta.`{place.path('a')}`")
    writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    writer.partitionBy("p").save(place.path("a"))


def hidden(place: Place) -> None:
    """A commit of another writer, whose file begins with an underline."""
    table, file = DeltaTable(place.path("a")), place.folder / "a" / "_new.parquet"
    rows = pa.table({"id": pa.array([7], pa.int32()), "v": pa.array([7], pa.int32())})
    pq.write_table(rows, file)
    action = AddAction(file.name, file.stat().st_size, {}, 1, True, '{"numRecords":1}')
    table.create_write_transaction([action], "append", table.schema(), [])


def empty(*ids: int) -> Step:
    rows = pa.table({"id": pa.array(ids, pa.int32()), "p": [""] * len(ids)})
    return lambda place: write_deltalake(place.path("a"), rows, mode="append", partition_by=["p"])


def conf(key: str, value: str) -> Step:
    return lambda place: place.spark.conf.set(key, value)


TRACKED = "ALTER TABLE {a} SET TBLPROPERTIES (delta.enableRowTracking = true)"
CASES = {
    "row tracking after an insert": Case(
        ROWS,
        ("CREATE TABLE {a} (id INT, v INT) USING delta",),
        (("INSERT INTO {a} VALUES (1, 1)", TRACKED), ("INSERT INTO {a} VALUES (2, 2)",)),
    ),
    "row tracking after an overwrite": Case(
        ROWS,
        ("CREATE TABLE {a} (id INT, v INT) USING delta", "INSERT INTO {a} VALUES (1, 1), (2, 2)"),
        (("INSERT OVERWRITE {a} VALUES (1, 1), (3, 3)", TRACKED),),
    ),
    "TIMESTAMP is NTZ in the session": Case(
        "SELECT a.id, a.ts, CAST(a.ts AS STRING) AS t, b.v FROM a LEFT JOIN b ON a.ts = b.ts",
        (
            "CREATE TABLE {a} (id INT, ts TIMESTAMP_LTZ) USING delta",
            f"INSERT INTO {{a}} VALUES (1, {NEW_YEAR})",
            "CREATE TABLE {b} (ts TIMESTAMP_LTZ, v INT) USING delta",
            f"INSERT INTO {{b}} VALUES ({NEW_YEAR}, 1)",
        ),
        ((f"INSERT INTO {{a}} VALUES (2, {NEW_YEAR})",), ("UPDATE {b} SET v = 3",)),
        keys={"a": ["id"], "b": ["ts"]},
        conf=NTZ,
    ),
    "a key of timestamps where TIMESTAMP is NTZ": Case(
        "SELECT a.ts, a.v FROM a",
        (
            f"CREATE TABLE {{a}} (ts TIMESTAMP_LTZ, v INT) USING delta {FEED}",
            f"INSERT INTO {{a}} VALUES ({NEW_YEAR}, 1), (TIMESTAMP_LTZ'2020-06-01 00:00:00', 1)",
        ),
        (("UPDATE {a} SET v = 3 WHERE month(ts) = 1",),),
        keys={"a": ["ts"]},
        conf=NTZ,
    ),
    "CHAR becomes VARCHAR": Case(
        "SELECT a.id, concat(a.k, '|') AS t, a.k = 'ab' AS f FROM a",
        ("CREATE TABLE {a} (id INT, k CHAR(5)) USING delta", "INSERT INTO {a} VALUES (1, 'ab')"),
        (("ALTER TABLE {a} ALTER COLUMN k TYPE VARCHAR(5)",), ("INSERT INTO {a} VALUES (2, 'c')",)),
    ),
    "an empty text as partition": Case(
        "SELECT a.id, a.p FROM a",
        (empty(1), empty(2)),
        ((empty(3),), (lambda place: DeltaTable(place.path("a")).delete("id = 1"),)),
    ),
    "a partition column of another type": Case(
        ROWS,
        (
            "CREATE TABLE {a} (id INT, v INT, p STRING) USING delta PARTITIONED BY (p)",
            "INSERT INTO {a} VALUES (1, 1, 'x')",
        ),
        (("INSERT INTO {a} VALUES (2, 2, 'y')", retyped), ("INSERT INTO {a} VALUES (3, 3, 8)",)),
    ),
    "a file with a hidden name": Case(
        ROWS,
        ("CREATE TABLE {a} (id INT, v INT) USING delta", "INSERT INTO {a} VALUES (1, 1)"),
        ((hidden,), ("INSERT INTO {a} VALUES (8, 8)",)),
    ),
    "another setting of upper and lower case": Case(
        "SELECT a.id, initcap(a.s) AS i FROM a",
        ("CREATE TABLE {a} (id INT, s STRING) USING delta", "INSERT INTO {a} VALUES (1, 'ŉ ß ﬃ')"),
        (("INSERT INTO {a} VALUES (2, 'ŉ ß ﬃ')",),),
        conf={"spark.sql.icu.caseMappings.enabled": "false"},
    ),
    "dynamic partitions": Case(
        ROWS,
        ("CREATE TABLE {a} (id INT, v INT) USING delta", "INSERT INTO {a} VALUES (1, 1), (2, 2)"),
        (("DELETE FROM {a} WHERE id = 1",),),
        conf={"spark.sql.sources.partitionOverwriteMode": "dynamic"},
        options={"partition_by": ["v"], "mode": "full"},
    ),
    "a column named _metadata": Case(
        ROWS,
        (
            "CREATE TABLE {a} (id INT, v INT, `_metadata` STRING, p INT) USING delta "
            "PARTITIONED BY (p)",
            "INSERT INTO {a} VALUES (1, 1, 'x', 1)",
        ),
        (("INSERT INTO {a} VALUES (2, 2, 'y', 1)",),),
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_the_rows_are_those_of_the_query(spark: Any, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    place = Place(spark.newSession(), tmp_path)
    for key, value in case.conf.items():
        place.spark.conf.set(key, value)
    for step in case.made:
        place.do(step)
    sources = {each: place.path(each) for each in "ab" if (tmp_path / each).exists()}
    model = deltajoin.Model("m", case.sql, sources, place.path("target"), case.keys)
    model = replace(model, **{"mode": "incremental", **case.options})
    for steps in ((), *case.steps):
        for step in steps:
            place.do(step)
        record = deltajoin.run(model, place.spark)
        assert record.reason not in ("EVALUATION_FAILED", "NO_CHANGE")
        found = sorted(map(str, deltajoin.read(model, place.spark).collect()))
        assert found == sorted(map(str, rows_of(place.spark, case.sql, sources))), steps


def rows_of(spark: Any, sql: str, sources: Mapping[str, str], kind: str = "delta") -> list[Any]:
    for name, path in sources.items():
        spark.read.format(kind).load(path).createOrReplaceTempView(name)
    return list(spark.sql(sql).collect())


PLAIN = "SELECT k, v FROM t"
KINDS = {
    "a bag becomes keyed": ((PLAIN, {}), ("SELECT id, k, v FROM t", {"t": ["id"]})),
    "a bag becomes groups": ((PLAIN, {}), ("SELECT k, max(v) AS v FROM t GROUP BY k", {})),
    "what is keyed becomes a bag": (("SELECT id, k, v FROM t", {"t": ["id"]}), (PLAIN, {})),
    "a bag is no longer kept": ((PLAIN, {}), (PLAIN + " LIMIT 100", {})),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_source_that_is_a_target_of_another_kind_now(
    spark: Any, tmp_path: Path, name: str
) -> None:
    (sql, keys), (later, later_keys) = KINDS[name]
    place = Place(spark.newSession(), tmp_path)
    place.do("CREATE TABLE {a} (id INT, k INT, v INT) USING delta")
    place.do("INSERT INTO {a} VALUES (1, 1, 5), (2, 1, 5), (3, 2, 7)")
    above = deltajoin.Model("above", sql, {"t": place.path("a")}, place.path("above"), keys)
    counted = "SELECT x.v, count(*) AS n FROM x GROUP BY x.v"
    below = deltajoin.Model("below", counted, {"x": above.target}, place.path("below"))
    for model in (above, below):
        deltajoin.run(model, place.spark)
    above = replace(above, sql=later, keys=later_keys)
    deltajoin.run(above, place.spark)
    record = deltajoin.run(below, place.spark)
    assert (record.strategy, record.reason) == ("full", "SOURCE_SCHEMA_CHANGED")
    deltajoin.read(above, place.spark).createOrReplaceTempView("x")
    wanted = sorted(map(tuple, place.spark.sql(counted).collect()))
    assert sorted(map(tuple, deltajoin.read(below, place.spark).collect())) == wanted


def test_types_of_parquet_files(spark: Any, tmp_path: Path) -> None:
    """Numbers without a sign, at any depth; moments, whatever TIMESTAMP means in the session."""
    own = spark.newSession()
    for key, value in NTZ.items():
        own.conf.set(key, value)
    numbers = {f"u{bits}": pa.array([2**bits - 1], f"uint{bits}") for bits in (8, 16, 32, 64)}
    within = pa.array([[{"u": 200}]], pa.list_(pa.struct([("u", pa.uint8())])))
    moment = pa.array([dt.datetime(2020, 1, 1, tzinfo=dt.UTC)], pa.timestamp("us", "UTC"))
    file = str(tmp_path / "x.parquet")
    pq.write_table(pa.table({**numbers, "within": within, "at": moment}), file)
    sql = "SELECT *, CAST(at AS STRING) AS t, typeof(at) AS kind FROM x"
    model = deltajoin.Model("m", sql, {"x": file}, str(tmp_path / "target"))
    deltajoin.run(model, own)
    (row,) = rows_of(own, sql, model.sources, "parquet")
    assert list(deltajoin.read(model, own).collect()) == [row]
    assert (row["u8"], row["u16"], row["kind"]) == (255, 65535, "timestamp")
