"""Values that Spark's GROUP BY calls equal and a user can tell apart, and other odd ones.

Each kind is a column of a source. Rows are updated to what is equal and looks different, and
to NULL and back; after each epoch the target must look as the query does, value by value.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import deltajoin
from tests.spark.test_groups import quick_spark

__all__ = ["quick_spark"]

#: kind -> type, three values, and what the first is updated to.
KINDS = {
    "zero": ("double", "0.0D", "1.5D", "-0.0D", "-0.0D"),
    "minus zero": ("float", "CAST('-0.0' AS float)", "1.5F", "0.0F", "0.0F"),
    "NaN": ("double", "1.0D", "double('NaN')", "double('-Infinity')", "double('NaN')"),
    "zero in an array": ("array<double>", "array(0.0D)", "array(1.0D)", "NULL", "array(-0.0D)"),
    "decimal": (
        "decimal(38,10)",
        "9999999999999999999999999999.9999999999BD",
        "CAST(0 AS decimal(38,10))",
        "-9999999999999999999999999999.9999999999BD",
        "9999999999999999999999999999.9999999998BD",
    ),
    "struct": (
        "struct<a:int,b:string>",
        "named_struct('a', 1, 'b', CAST(NULL AS string))",
        "named_struct('a', CAST(NULL AS int), 'b', 'x')",
        "NULL",
        "named_struct('a', CAST(NULL AS int), 'b', CAST(NULL AS string))",
    ),
    "map": ("map<string,int>", "map('a', 1, 'b', NULL)", "map()", "NULL", "map('b', 1)"),
    "char": ("char(4)", "'a'", "'b '", "'c   '", "' a'"),
    "binary": ("binary", "X'00'", "X''", "X'0001'", "X'0000'"),
    "date": ("date", "DATE'2026-01-01'", "DATE'0001-01-01'", "NULL", "DATE'1582-10-10'"),
    "timestamp": (
        "timestamp_ntz",
        "TIMESTAMP_NTZ'2026-01-01 00:00:00'",
        "TIMESTAMP_NTZ'1582-10-10 00:00:00'",
        "NULL",
        "TIMESTAMP_NTZ'2026-01-01 00:00:00.000001'",
    ),
}
SELECTS = {
    "keyed": "SELECT s.id, s.v, CAST(s.v AS string) AS t, o.name FROM s JOIN o ON s.k = o.k",
    "bag": "SELECT s.v, o.name FROM s JOIN o ON s.k = o.k",
}


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS)
def test_the_target_looks_as_the_query_does(spark: Any, tmp_path: Path, kind: str) -> None:
    column, *values, other = KINDS[kind]
    s, o = (f"delta.`{tmp_path / name}`" for name in "so")
    feed = "USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    spark.sql(f"CREATE TABLE {s} (id int, k int, v {column}) {feed}")
    spark.sql(f"CREATE TABLE {o} (k int, name string) {feed}")
    rows = ", ".join(f"({n}, {n % 2}, {value})" for n, value in enumerate((*values, values[0])))
    spark.sql(f"INSERT INTO {s} VALUES {rows}")
    spark.sql(f"INSERT INTO {o} VALUES (0, 'x'), (1, 'y')")
    models = [
        deltajoin.Model(
            name=name,
            sql=sql,
            sources={"s": str(tmp_path / "s"), "o": str(tmp_path / "o")},
            target=str(tmp_path / name),
            keys={} if name == "bag" else {"s": ["id"], "o": ["k"]},
            mode="incremental",
        )
        for name, sql in SELECTS.items()
    ]
    for change in (None, f"v = CASE id WHEN 0 THEN {other} END WHERE id < 2"):
        if change is not None:
            spark.sql(f"UPDATE {s} SET {change}")
        for model in models:
            record = deltajoin.run(model, spark)
            wanted = seen(spark.sql(model.sql.replace("FROM s JOIN o", f"FROM {s} s JOIN {o} o")))
            found = seen(deltajoin.read(model, spark))
            assert found == wanted, (model.name, change, record.strategy, record.reason)


def seen(rows: Any) -> Counter[tuple[str, ...]]:
    """The rows as they look, whatever Spark calls equal."""
    texts = [f"CAST(`{name}` AS string) COLLATE UTF8_BINARY" for name in rows.columns]
    return Counter(map(tuple, rows.selectExpr(*texts).collect()))


#: What is made of rows that differ in -0.0 alone, or in the case of a letter; its declared keys.
MADE = {
    "groups": (
        "SELECT k, max(d) AS m, max(w) AS w, max(CAST(d AS string)) AS t, count(*) AS n FROM s "
        "GROUP BY k",
        {},
    ),
    "groups by it": ("SELECT d, w, count(*) AS n FROM s GROUP BY d, w", {}),
    "having": ("SELECT k FROM s GROUP BY k HAVING max(CAST(d AS string)) = '-0.0'", {}),
    "windows": ("SELECT id, d, max(f) OVER (PARTITION BY k) AS m FROM s", {"s": ["id"]}),
    "windows, a bag": ("SELECT d, count(*) OVER (PARTITION BY k) AS n FROM s", {}),
    "partitions": ("SELECT id, d, sum(i) OVER (PARTITION BY d) AS n FROM s", {"s": ["id"]}),
    "a row of each": (
        "SELECT d, id, f FROM s QUALIFY row_number() OVER (PARTITION BY d ORDER BY id) = 1",
        {"s": ["id"]},
    ),
    "a key": ("SELECT o.d, o.name, s.id FROM o LEFT JOIN s ON s.k = o.k", {"o": ["d"], "s": ["k"]}),
    "groups below": (
        "SELECT k, name, q.m FROM o JOIN (SELECT k, max(d) AS m FROM s GROUP BY k) AS q USING (k)",
        {"o": ["k"]},
    ),
    "groups below a bag": (
        "SELECT o.name, q.m FROM o JOIN (SELECT k, max(d) AS m FROM s GROUP BY k) AS q USING (k)",
        {},
    ),
    "windows below": (
        "SELECT o.name, q.d FROM o JOIN (SELECT k, d, count(*) OVER (PARTITION BY k) AS n FROM s) "
        "AS q USING (k)",
        {},
    ),
    "generators below": (
        "SELECT o.name, q.e FROM o JOIN (SELECT k, explode(a) AS e FROM s) AS q USING (k)",
        {},
    ),
    "generated groups": (
        "SELECT id, max(e) AS m FROM s LATERAL VIEW explode(a) AS e GROUP BY id",
        {},
    ),
    "a union": ("SELECT d, n FROM s UNION ALL SELECT d, name FROM o", {}),
    "a quotient": ("SELECT 0 / i AS z, -0.0D AS y, n FROM s", {}),
    "a scalar": ("SELECT id, (SELECT max(d) FROM o WHERE o.k = s.k) AS m FROM s", {"s": ["id"]}),
    "a collated condition": (
        "SELECT a.id, b.n FROM s AS a LEFT JOIN s AS b ON collate(a.n, 'UTF8_LCASE') = b.n",
        {},
    ),
    "groups by a collation": ("SELECT k FROM s GROUP BY collate(n, 'UTF8_LCASE'), k", {}),
    "a collation below": (
        "SELECT CAST(n AS string) AS n, c FROM (SELECT n COLLATE UTF8_LCASE AS n, count(*) AS c "
        "FROM s GROUP BY 1)",
        {},
    ),
    "a type's collation": (
        "SELECT CAST(n AS string) AS n FROM (SELECT DISTINCT CAST(n AS STRING COLLATE UTF8_LCASE) "
        "AS n FROM s)",
        {},
    ),
    "collated windows": (
        "SELECT id, n, count(*) OVER (PARTITION BY collate(n, 'UTF8_LCASE')) AS c FROM s",
        {"s": ["id"]},
    ),
    "groups by an interval": ("SELECT count(*) AS n FROM s GROUP BY make_dt_interval(i)", {}),
    "groups by a map": ("SELECT map('a', i) AS m, count(*) AS c FROM s GROUP BY map('a', i)", {}),
}
REBUILT = {
    "groups by a collation": "COLUMN_TYPE",
    "a collation below": "COLUMN_TYPE",
    "a type's collation": "COLUMN_TYPE",
    "collated windows": "COLUMN_TYPE",
    "groups by a map": "COLUMN_TYPE",
    "groups by an interval": "MEANING_DIFFERS",
}


def test_what_is_made_of_values_looks_as_the_query_does(
    spark: Any, tmp_path: Path, thorough: bool
) -> None:
    """In `make test`, every third query."""
    feed = "USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    s, o = (f"delta.`{tmp_path / name}`" for name in "so")
    columns = "id int, k int, d double, f float, a array<double>, w struct<x:double>, n string"
    spark.sql(f"CREATE TABLE {s} ({columns}, i int) {feed}")
    spark.sql(f"CREATE TABLE {o} (k int, d double, name string) {feed}")
    spark.sql(f"INSERT INTO {s} VALUES {_row(1, '0.0D', 'a')}, {_row(2, '-0.0D', 'B')}")
    nan = "double('NaN')"
    spark.sql(f"INSERT INTO {s} VALUES {_row(3, nan, 'c')}, {_row(4, '1.5D', 'd')}")
    spark.sql(f"INSERT INTO {o} VALUES (1, -0.0D, 'x'), (2, 2.5D, 'y'), (3, double('NaN'), 'z')")
    models = [
        deltajoin.Model(
            name=name,
            sql=sql,
            sources={"s": str(tmp_path / "s"), "o": str(tmp_path / "o")},
            target=str(tmp_path / "targets" / name),
            keys=keys,
            mode="incremental",
        )
        for name, (sql, keys) in list(MADE.items())[:: 1 if thorough else 3]
    ]
    for model in models:
        deltajoin.run(model, spark)
    swapped = "d = -d, f = -f, a = array(-d), w = struct(-d AS x), i = -i, n = if(n < 'a', lower(n)"
    spark.sql(f"UPDATE {s} SET {swapped}, upper(n)) WHERE id < 3")
    spark.sql(f"UPDATE {o} SET d = 0.0D WHERE k = 1")
    for model in models:
        record = deltajoin.run(model, spark)
        for name, place in (("s", s), ("o", o)):
            spark.table(place).createOrReplaceTempView(name)
        found, wanted = seen(deltajoin.read(model, spark)), seen(spark.sql(model.sql))
        assert found == wanted, (model.name, found - wanted, wanted - found)
        reason = REBUILT.get(model.name, "CHANGES")
        assert record.reason == reason, (model.name, record.reason)


def test_extremes_that_tie_are_one_in_every_epoch(spark: Any, tmp_path: Path) -> None:
    """0.0 and -0.0 in one group below a target without key: either, but the same one each time."""
    feed = "USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    s, o = (f"delta.`{tmp_path / name}`" for name in "so")
    spark.sql(f"CREATE TABLE {s} (k int, d double) {feed}")
    spark.sql(f"CREATE TABLE {o} (k int, name string) {feed}")
    spark.sql(f"INSERT INTO {s} VALUES (1, 0.0D), (2, 1.5D), (2, double('NaN')), (3, NULL)")
    spark.sql(f"INSERT INTO {o} VALUES (1, 'x'), (2, 'y'), (3, 'z')")
    groups = "SELECT k, max(d) AS m, min(d) AS l FROM s GROUP BY k"
    model = deltajoin.Model(
        name="ties",
        sql=f"SELECT o.name, q.m, q.l FROM o JOIN ({groups}) AS q USING (k)",
        sources={"s": str(tmp_path / "s"), "o": str(tmp_path / "o")},
        target=str(tmp_path / "target"),
        mode="incremental_strict",
    )
    deltajoin.run(model, spark)
    for change in (
        f"INSERT INTO {s} VALUES (1, -0.0D)",
        f"INSERT INTO {o} VALUES (1, 'v'), (1, 'w')",
        f"DELETE FROM {o} WHERE name = 'x'",
        f"INSERT INTO {s} VALUES (1, 0.0D), (3, -0.0D), (3, 0.0D)",
        f"DELETE FROM {s} WHERE k < 3 AND CAST(d AS string) = '0.0'",
    ):
        spark.sql(change)
        assert deltajoin.run(model, spark).strategy == "incremental"
        for name, place in (("s", s), ("o", o)):
            spark.table(place).createOrReplaceTempView(name)
        rows, wanted = deltajoin.read(model, spark), spark.sql(model.sql)
        assert Counter(map(repr, map(_unsigned, rows.collect()))) == Counter(
            map(repr, map(_unsigned, wanted.collect()))
        )
    assert seen(rows.where("name = 'w'")) == Counter({("w", "-0.0", "-0.0"): 1})


def _unsigned(row: Any) -> tuple[Any, ...]:
    return tuple(abs(value) if isinstance(value, float) else value for value in row)


def _row(number: int, value: str, text: str) -> str:
    sign = -1 if "-" in value else 1
    values = f"{value}, CAST({value} AS float), array({value}), struct({value} AS x)"
    return f"({number}, {number}, {values}, '{text}', {sign * number})"


CHARS = (
    "SELECT id FROM s WHERE c IN (SELECT c FROM o)",
    "SELECT c FROM s EXCEPT SELECT c FROM o",
    "SELECT * FROM (SELECT c, k FROM o) PIVOT (max(k) FOR c IN ('a', 'b'))",
    "SELECT q.k FROM (SELECT c, k FROM s UNION ALL SELECT c, k FROM o) q WHERE q.c = 'z'",
    "SELECT c, grouping(c) AS g, count(*) AS n FROM o GROUP BY ROLLUP (c) HAVING c = 'a'",
)
PLAIN_CHARS = (
    "SELECT s.id, o.name FROM s JOIN o USING (c)",
    "SELECT c, count(*) AS n FROM o GROUP BY c HAVING c = 'a'",
    "SELECT id FROM s WHERE EXISTS (SELECT 1 FROM o WHERE o.c = s.c) AND c IN ('a', 'b')",
)


@pytest.mark.thorough
def test_padded_text_is_compared_as_written(spark: Any, tmp_path: Path) -> None:
    """The first rows are read alike both ways, the later ones aren't."""
    own = spark.newSession()
    s, o = (f"delta.`{tmp_path / name}`" for name in "so")
    feed = "USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    own.sql(f"CREATE TABLE {s} (id INT, k INT, c CHAR(4)) {feed}")
    own.sql(f"CREATE TABLE {o} (k INT, c CHAR(6), name STRING) {feed}")
    own.sql(f"INSERT INTO {s} VALUES (1, 1, 'a'), (2, 1, 'b'), (3, 2, 'a')")
    models = [
        deltajoin.Model(
            name=f"m{number}",
            sql=sql,
            sources={name: str(tmp_path / name) for name in "so"},
            target=str(tmp_path / f"target_{number}"),
            keys={"s": ["id"]},
            mode="incremental",
        )
        for number, sql in enumerate((*CHARS, *PLAIN_CHARS))
    ]
    for model in models:
        deltajoin.run(model, spark)
    own.sql(f"INSERT INTO {o} VALUES (1, 'a', 'x'), (2, 'b', 'a'), (3, 'c', 'a   '), (7, 'z', 'q')")
    own.sql(f"INSERT INTO {s} VALUES (5, 2, 'a'), (6, 1, 'c')")
    for name, table in (("s", s), ("o", o)):
        own.sql(f"CREATE TEMP VIEW {name} AS SELECT * FROM {table}")
    for model in models:
        record = deltajoin.run(model, spark)
        kept = ("incremental", "CHANGES") if model.sql in PLAIN_CHARS else ("full", "COLUMN_TYPE")
        assert (record.strategy, record.reason) == kept, model.sql
        found = sorted(map(str, deltajoin.read(model, spark).collect()))
        assert found == sorted(map(str, own.sql(model.sql).collect())), model.sql
