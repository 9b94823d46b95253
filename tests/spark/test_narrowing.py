"""Reads within the ranges of what a change asks for: never a row less than the join would meet.

Ranges of each type hold its odd values, taken one by one or told in parts. A key of times, two of
which have one name, is driven through updates, inserts and deletes on either side of a join.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import deltajoin
from deltajoin.accelerate import choose
from deltajoin.delta import lookup_paths
from deltajoin.planner import lookup
from deltajoin.runtime import narrowing
from deltajoin.runtime.narrowing import Narrowing, _kind, ranges_of
from tests.spark.test_oracle import compiled

#: Type -> five values of a key; the third is updated to the last.
KEYS = {
    "bigint": ("-9223372036854775808L", "9223372036854775807L", "0L", "-1L", "7L"),
    "smallint": ("-32768S", "32767S", "0S", "-5S", "9S"),
    "date": (
        "DATE'0001-01-01'",
        "DATE'9999-12-31'",
        "DATE'1582-10-14'",
        "DATE'1970-01-01'",
        "date_from_unix_date(4000000)",
    ),
    "timestamp": (
        "TIMESTAMP'2026-10-25 00:30:00.000001Z'",
        "TIMESTAMP'2026-10-25 01:30:00.000001Z'",
        "TIMESTAMP'1900-01-01 00:00:00Z'",
        "TIMESTAMP'1969-12-31 23:59:59.999999Z'",
        "timestamp_micros(290000000000000000)",
    ),
    "string": ("'it''s'", "'a\\\\\\'b'", "''", "'\U0001f600'", "'\uffee'"),
    "decimal(20,0)": ("1BD", "-99999999999999999999BD", "0BD", "3BD", "5BD"),
    "double": ("0.0D", "double('NaN')", "-0.0D", "double('-Infinity')", "1.5D"),
    "timestamp_ntz": tuple(f"TIMESTAMP_NTZ'2026-01-0{day} 00:00:00'" for day in range(1, 6)),
}
QUERIES = {
    "left": "SELECT f.id, f.k, d.name FROM f LEFT JOIN d ON f.k <=> d.k",
    "groups": "SELECT f.k, count(*) AS n, max(d.name) AS m FROM f JOIN d ON f.k = d.k GROUP BY 1",
}


@pytest.mark.parametrize("taken", [0, 20_000], ids=["by-parts", "by-values"])
def test_ranges_hold_every_value(spark: Any, monkeypatch: pytest.MonkeyPatch, taken: int) -> None:
    monkeypatch.setattr(narrowing, "_TAKEN", taken)
    monkeypatch.setattr(narrowing, "RANGES", 2)
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    checks = []
    for kind, values in KEYS.items():
        for some in (values, values[:2], values[2:3], (values[0], "NULL", values[4]), ("NULL",)):
            view = f"held_{len(checks)}"
            rows = ", ".join(f"(CAST({value} AS {kind}))" for value in some)
            session.sql(f"SELECT * FROM VALUES {rows} AS v (k)").createOrReplaceTempView(view)
            wanted = {(view, "k"): _kind(session.table(view), "k")}
            if not wanted[view, "k"]:
                assert kind in ("decimal(20,0)", "double", "timestamp_ntz")
                continue
            (found,) = ranges_of(session, wanted, {view: len(some)}).values()
            assert bool(found.values) == (len(some) > 3) or not taken
            condition = found.listed("k")
            lost = f"count_if(NOT coalesce({condition}, FALSE)) AS lost"
            checks.append(f"SELECT '{view} {kind}' AS what, {lost} FROM {view}")
    session.sql("SELECT CAST(X'61FF' AS STRING) AS k").createOrReplaceTempView("held_bytes")
    assert not ranges_of(session, {("held_bytes", "k"): "string"}, {"held_bytes": 1})
    lost = [row for row in session.sql(" UNION ALL ".join(checks)).collect() if row["lost"]]
    assert not lost


def test_a_narrowed_lookup_meets_all_rows(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (lookup, lookup_paths):
        monkeypatch.setattr(module, "LARGE_TABLE_ROWS", 0)
    monkeypatch.setattr(narrowing, "RANGES", 1)  # so that several values are listed
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    one, two, three, four, five = KEYS["timestamp"]
    places = {name: f"delta.`{tmp_path / name}`" for name in "fd"}
    for name, column in (("f", "id int"), ("d", "name string")):
        feed = "USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
        session.sql(f"CREATE TABLE {places[name]} ({column}, k timestamp) {feed}")
    f, d = places["f"], places["d"]
    rows = [f"({i}, {key})" for i, key in enumerate((one, two, three, four, "NULL"))]
    session.sql(f"INSERT INTO {f} VALUES {', '.join(rows)}")
    session.sql(f"INSERT INTO {d} VALUES ('a', {one}), ('b', {three}), ('c', NULL), ('d', {four})")
    models = {name: model_of(tmp_path, name, sql) for name, sql in QUERIES.items()}
    for model in models.values():
        assert deltajoin.run(model, session).strategy == "full"
    epochs = (
        (f"UPDATE {f} SET k = {five} WHERE id = 2", f"INSERT INTO {f} VALUES (5, {one})"),
        (f"INSERT INTO {d} VALUES ('e', {five}), ('f', {two})",),
        (f"UPDATE {d} SET name = upper(name) WHERE k IS NULL OR k = {four}",),
        (f"UPDATE {f} SET k = NULL WHERE id = 0", f"DELETE FROM {d} WHERE k = {five}"),
    )
    listed: list[int] = []
    for number, statements in enumerate(epochs):
        for statement in statements:
            session.sql(statement)
        for name, model in models.items():
            record = deltajoin.run(model, session)
            assert record.strategy == "incremental", record.detail
            tables = set(record.narrowed or {})
            listed += [
                at["values"]
                for table in tables - {"target"}
                for at in (record.narrowed or {})[table].values()
                if "values" in at
            ]
            assert tables & {
                f"{table} version {at['version']}" for table, at in record.frontier.items()
            }
            assert shown(deltajoin.read(model, session)) == as_written(
                session, places, QUERIES[name]
            ), f"{name}, epoch {number}"
    assert 2 in listed


def model_of(folder: Path, name: str, sql: str) -> deltajoin.Model:
    sources = {table: str(folder / table) for table in "fd"}
    target = str(folder / f"target {name}")
    return deltajoin.Model(name, sql, sources, target, {"f": ("id",), "d": ("name",)})


def as_written(session: Any, places: dict[str, str], sql: str) -> Counter[str]:
    for table, place in places.items():
        session.read.table(place).createOrReplaceTempView(table)
    return shown(session.sql(sql))


def shown(rows: Any) -> Counter[str]:
    texts = rows.selectExpr(*(f"CAST(`{name}` AS string)" for name in rows.columns))
    return Counter(map(str, texts.collect()))


def test_a_narrowed_scan_leaves_files_out(spark: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    rows = spark.range(0, 80, 1, 8).selectExpr("id", "CAST(id AS STRING) AS s")
    rows.write.format("delta").save(place)
    spark.read.format("delta").load(place).createOrReplaceTempView("narrowed_t")
    spark.sql("SELECT * FROM VALUES (3L), (75L) AS t (k)").createOrReplaceTempView("narrowed_k")
    key = {"column": "id", "held": [("narrowed_k", "k")], "bound": ""}
    scans = [{"view": "narrowed_some", "of": "narrowed_t", "keys": [key], "table": "t version 0"}]

    narrowed = Narrowing(spark, scans)
    narrowed.hold({"narrowed_k": 2})

    assert narrowed.used == {"t version 0": {"id": {"ranges": 2}}}
    found = spark.table("narrowed_some")
    assert len(found.inputFiles()) == 2
    assert {row["id"] for row in found.collect()} == {3, 75}


def test_a_scan_by_few_values_leaves_pages_out(spark: Any, tmp_path: Path) -> None:
    """Of pages of 20,000 rows, as Spark writes them, in one file."""
    place, session = str(tmp_path / "t"), spark.newSession()
    rows = session.range(0, 600_000, 1, 1).selectExpr("id", "CAST(id AS STRING) AS s")
    rows.write.format("delta").save(place)
    session.read.format("delta").load(place).createOrReplaceTempView("paged_t")
    wanted = [*range(10_000, 600_000, 40_000), None]
    held = ", ".join(f"(CAST({value or 'NULL'} AS BIGINT))" for value in wanted)
    session.sql(f"SELECT * FROM VALUES {held} AS t (k)").createOrReplaceTempView("paged_k")
    key = {"column": "id", "held": [("paged_k", "k")], "bound": ""}
    scans = [{"view": "paged_some", "of": "paged_t", "keys": [key], "table": "t version 0"}]

    narrowed = Narrowing(session, scans)
    narrowed.hold({"paged_k": len(wanted)})

    assert narrowed.used == {"t version 0": {"id": {"ranges": 1, "values": 15}}}
    found = session.table("paged_some")
    assert {row["id"] for row in found.collect()} == {value for value in wanted if value}
    leaves = found._jdf.queryExecution().executedPlan().collectLeaves()
    assert leaves.head().metrics().apply("numOutputRows").value() == 15 * 20_000


def test_a_merge_by_few_values_writes_the_right_rows(spark: Any, tmp_path: Path) -> None:
    """Where pages are left out, rows must still be numbered as deletion vectors number them."""
    spark = compiled(spark)
    places = {name: f"delta.`{tmp_path / name}`" for name in "fd"}
    columns = {"f": "id, id % 5 AS k, id AS n", "d": "id AS k, CAST(id AS STRING) AS name"}
    for name, rows in (("f", spark.range(0, 600_000, 1, 1)), ("d", spark.range(5))):
        rows = rows.selectExpr(*columns[name].split(", ")).write.format("delta")
        rows.option("delta.enableChangeDataFeed", "true").save(str(tmp_path / name))
    sql = "SELECT f.id, f.n, d.name FROM f JOIN d ON f.k = d.k"
    sources = {name: str(tmp_path / name) for name in "fd"}
    keys = {"f": ("id",), "d": ("k",)}
    model = deltajoin.Model("m", sql, sources, str(tmp_path / "m"), keys, mode="incremental")
    deltajoin.run(model, spark)
    for epoch in range(2):
        few = f"id % 40000 = {7000 + epoch}"
        spark.sql(f"UPDATE {places['f']} SET n = -n WHERE {few}")
        spark.sql(f"DELETE FROM {places['f']} WHERE id = {90_000 + epoch}")
        for name, place in places.items():
            spark.read.table(place).createOrReplaceTempView(name)
        record = deltajoin.run(model, spark)
        assert record.strategy == "incremental"
        assert (record.narrowed or {})["target"]["id"] == {"ranges": 1, "values": 16}
        there, wanted = deltajoin.read(model, spark), spark.sql(sql)
        assert there.exceptAll(wanted).isEmpty()
        assert wanted.exceptAll(there).isEmpty()


def test_a_merge_lists_keys_of_several_columns(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups by a value of each type, NULLs too, are found by the hash of their key."""
    monkeypatch.setattr(narrowing, "_MANY", 0)
    kinds = [kind for kind in KEYS if kind != "double"]
    names = [f"k{number}" for number in range(len(kinds))]
    place, session = f"delta.`{tmp_path / 't'}`", spark.newSession()
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))
    feed = "USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    session.sql(f"CREATE TABLE {place} ({columns}, b boolean, v int) {feed}")
    rows = []
    for number in range(5):
        row = [KEYS[kind][number] for kind in kinds]
        for each in (row, ["NULL" if at == number else value for at, value in enumerate(row)]):
            rows.append(f"({', '.join(each)}, {number} > 2, {number})")
    session.sql(f"INSERT INTO {place} VALUES {', '.join(rows)}")
    sql = f"SELECT {', '.join(names)}, b, sum(v) AS v FROM t GROUP BY ALL"
    sources, target = {"t": str(tmp_path / "t")}, str(tmp_path / "m")
    model = deltajoin.Model("m", sql, sources, target, mode="incremental")
    assert deltajoin.run(model, session).strategy == "full"
    for statement in (
        f"UPDATE {place} SET v = v + 10 WHERE v % 2 = 0",
        f"UPDATE {place} SET b = NULL WHERE v = 1",
        f"DELETE FROM {place} WHERE v = 3 OR k1 IS NULL",
        f"INSERT INTO {place} SELECT * FROM {place} WHERE b",
    ):
        session.sql(statement)
        record = deltajoin.run(model, session)
        assert record.strategy == "incremental", record.detail
        assert ", ".join([*names, "b"]) in (record.narrowed or {})["target"]
        assert shown(deltajoin.read(model, session)) == as_written(session, {"t": place}, sql)


#: Queries by ranges over points `f` and intervals `d`; the columns by whose values a run leaves out
#: files of `d` when points have come, and of `f` when an interval has. Rows of a window are read
#: whole, as its partitions must be.
BY_RANGES = {
    "intervals": (
        "SELECT f.id, d.name FROM f LEFT JOIN d ON f.at >= d.lo AND f.at < d.hi",
        {"d": {"lo", "hi"}, "f": {"at"}},
    ),
    "last before": (
        "SELECT f.id, d.name FROM f LEFT JOIN (SELECT name, k, lo, "
        "lead(lo) OVER (PARTITION BY k ORDER BY lo) AS next FROM d) d "
        "ON f.k = d.k AND f.at >= d.lo AND (f.at < d.next OR d.next IS NULL)",
        {"f": {"k", "at"}},
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", BY_RANGES)
def test_an_accelerated_lookup_leaves_files_out(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Tables of forty files in the order of the range: the same rows, from fewer files."""
    for module in (lookup, lookup_paths):
        monkeypatch.setattr(module, "LARGE_TABLE_ROWS", 0)
    for limit in ("FEW_PAIRS", "FEW_PER_KEY"):
        monkeypatch.setattr(choose, limit, 0)
    sql, narrowed = BY_RANGES[name]
    places = {table: f"delta.`{tmp_path / table}`" for table in "fd"}
    columns = {
        "f": ("id", "id % 2 AS k", "id * 10 AS at"),
        "d": ("CAST(id AS string) AS name", "id % 2 AS k", "id * 10 AS lo", "id * 10 + 15 AS hi"),
    }
    for table, some in columns.items():
        rows = spark.range(0, 80, 1, 40).selectExpr(*some).write.format("delta")
        rows.option("delta.enableChangeDataFeed", "true").save(str(tmp_path / table))
    keys = {"f": ("id",), "d": ("k", "lo")}
    models = {way: model_of(tmp_path, f"{name}, {way}", sql) for way in ("narrowed", "whole")}
    models = {way: replace(m, mode="incremental", keys=keys) for way, m in models.items()}
    for model in models.values():
        assert deltajoin.run(model, spark).strategy == "full"
    changes = {
        "d": f"INSERT INTO {places['f']} VALUES (100, 0, 333), (101, 1, 345), (102, 0, NULL)",
        "f": f"INSERT INTO {places['d']} VALUES ('new', 0, 505, 520)",
    }
    for table, statement in changes.items():
        spark.sql(statement)
        own = as_written(spark, places, sql)
        for way, model in models.items():
            with files_read(monkeypatch, narrowed=way == "narrowed") as files:
                record = deltajoin.run(model, spark)
            assert record.strategy == "incremental"
            assert "range" in served(record)
            assert shown(deltajoin.read(model, spark)) == own
            if table in narrowed:
                version = f"{table} version {record.frontier[table]['version']}"
                told, (read, of) = (record.narrowed or {}).get(version, {}), files[version]
                by = set(told)
                print(f"\n{model.name}: {read} of {of} files of {version}, by {sorted(by)}")
                assert by == (narrowed[table] if way == "narrowed" else set())
                assert read < of / 2 if way == "narrowed" else read == of
                for column in told.values():
                    assert (column["files"], column["of_files"]) == (read, of)


def served(record: Any) -> set[str]:
    """The accelerators of a run's lookups, those inside others too."""
    found = set[str]()
    steps = [step for path in record.to_dict()["paths"] for step in path["steps"]]
    while steps:
        step = steps.pop()
        steps += [*step.get("inside", ()), *step.get("previous", ())]
        if accelerated := step.get("accelerated"):
            assert accelerated["serves"]
            if step["kind"] == "inner" and step["rows_out"] is not None:
                assert step["candidates"] >= step["rows_out"]
            found.add(accelerated["kind"])
    return found


@contextmanager
def files_read(
    monkeypatch: pytest.MonkeyPatch, narrowed: bool
) -> Iterator[dict[str, tuple[int, int]]]:
    """Table -> the files that are read of it for a lookup, and all its files. Where lookups are not
    to be `narrowed`, the values of the change are kept from their scans."""
    files: dict[str, tuple[int, int]] = {}
    real = Narrowing._open

    def opened(self: Any, scan: dict[str, Any], keys: list[Any]) -> None:
        real(self, scan, keys if narrowed else [])
        counts = (len(self._spark.table(scan[view]).inputFiles()) for view in ("view", "of"))
        files[scan["table"]] = (next(counts), next(counts))

    with monkeypatch.context() as patched:
        patched.setattr(Narrowing, "_open", opened)
        yield files
