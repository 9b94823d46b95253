"""The hash by which a MERGE finds the rows of a bag: values that are equal have the same one, and
rows that share one are found all the same."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame, functions
from pyspark.sql.types import StructType

import deltajoin
from deltajoin.names import COUNT, ROW_HASH
from deltajoin.runtime import execute, row_hash
from tests.spark import shop as shops
from tests.spark.shop import expected, open_shop

NAMES = "SELECT c.name, o.amount FROM orders o JOIN customers c ON o.customer_id = c.customer_id"
#: Without a column by whose ranges the MERGE leaves out rows.
TEXTS = NAMES.replace("o.amount", "CAST(o.amount AS STRING) AS amount")
#: Type of the target's column -> values that a change may bring, some in other types.
VALUES = {
    "bigint": ("1", "1L", "1Y", "-9223372036854775808L"),
    "int": ("7", "7S", "0"),
    "decimal(25,4)": ("1.5BD", "1BD", "CAST(1.5 AS DECIMAL(30, 8))", "-99999999999999999999BD"),
    "double": ("0.0D", "-0.0D", "double('NaN')", "float('NaN')", "1", "double('-Infinity')"),
    "float": ("float(0)", "float('-0.0')", "float('NaN')", "float(0.1)"),
    "string": ("'a'", "'A'", "''", "'a '", "CAST(X'61FF' AS STRING)"),
    "binary": ("X''", "X'00'", "X'6100'"),
    "boolean": ("true", "false"),
    "date": ("DATE'0001-01-01'", "DATE'1582-10-10'", "TIMESTAMP_NTZ'2026-01-01 00:00:00'"),
    "timestamp": ("TIMESTAMP'1582-10-10 00:00:00Z'", "TIMESTAMP'2026-01-01 00:00:00+01:00'"),
    "timestamp_ntz": ("TIMESTAMP_NTZ'2026-01-01 00:00:00'", "DATE'2026-01-01'"),
    "array<double>": ("array(0.0D)", "array(-0.0D)", "array(NULL, 1.0D)", "array(1.0D, NULL)"),
    "struct<a:int,b:string>": ("named_struct('a', 1, 'b', 'x')", "named_struct('x', 1, 'y', NULL)"),
}


def as_bag(rows: DataFrame, kind: str | None = None) -> DataFrame:
    """Rows (v) with the hash of v, as a target stores them whose column is of the kind."""
    table = kind and StructType.fromDDL(f"v {kind}, {COUNT} bigint, {ROW_HASH} bigint")
    hashed = row_hash.with_row_hash(rows, {"kind": "bag", "columns": ["v"]}, table)
    return hashed.withColumn("v", functions.col("v").cast(kind)) if kind else hashed


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "interpreted"])
def test_equal_values_have_one_hash(spark: Any, compiled: bool) -> None:
    session = spark.newSession()
    if not compiled:
        session.conf.set("spark.sql.codegen.wholeStage", "false")
        session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    for kind, values in VALUES.items():
        some = [as_bag(session.sql(f"SELECT {v} AS v"), kind) for v in (*values, "NULL")]
        both = reduce(DataFrame.union, some).repartition(2)
        pairs = both.alias("a").join(both.alias("b"), functions.expr("a.v <=> b.v"))
        found = pairs.selectExpr(
            "count(*) AS pairs", f"count_if(NOT a.{ROW_HASH} <=> b.{ROW_HASH}) AS lost"
        ).collect()[0]
        assert found["pairs"] > len(values), kind
        assert found["lost"] == 0, kind


def test_rows_that_can_not_be_hashed_have_none(spark: Any) -> None:
    for value in ("map(1, 2)", "parse_json('1')", "'a' COLLATE UTF8_LCASE"):
        assert ROW_HASH not in as_bag(spark.sql(f"SELECT {value} AS v")).columns
    assert ROW_HASH in as_bag(spark.sql("SELECT 1 AS v")).columns


def stored_hash(path: str) -> bool:
    return ROW_HASH in (field.name for field in DeltaTable(path).schema().fields)


@pytest.mark.sampled
@pytest.mark.parametrize("different", [1, 3], ids=["all-rows", "a-third"])
def test_rows_that_share_a_hash_are_kept(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, different: int
) -> None:
    """Of one that comes with those that are there, of two that come, of two that go."""

    def poor(*values: Column) -> Column:
        return functions.pmod(functions.xxhash64(*values), functions.lit(different))

    monkeypatch.setattr(row_hash, "hash_of", poor)
    shop = open_shop(tmp_path)
    model = shop.model(sql=TEXTS)
    assert deltajoin.run(model, spark).kind == "bag"
    assert stored_hash(model.target)
    for change in range(4):
        shop.append("orders", (100 + change, 1, 5))
        if change:
            shop.append("orders", (200 + change, 2, 7))
            shop.delete("orders", f"order_id = {change + 1} OR order_id = {198 + change}")
        assert deltajoin.run(model, spark).strategy == "incremental"
        assert shops.as_rows(deltajoin.read(model, spark).toArrow()) == expected(shop, model.sql)


def test_a_bag_without_hashes_is_kept_and_has_them_when_it_is_rebuilt(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = open_shop(tmp_path)
    model = shop.model(sql=NAMES)
    with monkeypatch.context() as before:
        before.setattr(execute, "with_row_hash", lambda rows, *_: rows)
        deltajoin.run(model, spark)
    assert not stored_hash(model.target)
    shop.append("orders", (100, 1, 5), (101, 2, 5))
    assert deltajoin.run(model, spark).strategy == "incremental"
    assert shops.as_rows(deltajoin.read(model, spark).toArrow()) == expected(shop, model.sql)
    deltajoin.run(shop.model(sql=NAMES, mode="full"), spark)
    assert stored_hash(model.target)
    shop.delete("orders", "order_id = 100")
    record = deltajoin.run(model, spark)
    assert record.strategy == "incremental"
    assert record.narrowed["target"][ROW_HASH]
    assert shops.as_rows(deltajoin.read(model, spark).toArrow()) == expected(shop, model.sql)


def test_what_reads_a_bag_sees_no_hash(spark: Any, tmp_path: Path) -> None:
    shop = open_shop(tmp_path)
    bag = shop.model(sql=NAMES, name="bag", target=shop.path("bag"))
    deltajoin.run(bag, spark)
    for name, text in (("kept", "SELECT * FROM b"), ("text", "SELECT *, rand() < 2 AS r FROM b")):
        model = deltajoin.Model(name, text, {"b": bag.target}, shop.path(name))
        deltajoin.run(model, spark)
        wanted = ["name", "amount"] + ["r"] * (name == "text")
        assert deltajoin.read(model, spark).columns == wanted
