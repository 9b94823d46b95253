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
