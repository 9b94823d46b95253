"""Whatever Spark runs is run: queries that nothing here understands, by their own text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import deltajoin
from deltajoin import DeltaJoinError
from tests.spark.shop import Shop, open_shop

JOIN = "FROM orders AS o JOIN customers AS c ON o.customer_id = c.customer_id"
READ_BY_SPARK_ALONE = {
    "another parser": "TABLE orders",
    "pipes": "FROM orders |> WHERE amount > 0 |> SELECT order_id, amount",
    "a CTE of a source's name": "WITH orders AS (SELECT order_id AS h FROM orders) TABLE orders",
    "sorted": "SELECT o.order_id FROM orders AS o SORT BY o.amount",
    "pivoted": "SELECT * FROM (SELECT customer_id, amount FROM orders) "
    "PIVOT (sum(amount) AS s FOR customer_id IN (1.0 AS one, 2 AS two))",
    "without names": "SELECT o.order_id, o.amount + 1 " + JOIN,
    "a literal": "SELECT 1 AS a, 'x' AS b",
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return open_shop(tmp_path_factory.mktemp("as_written"))


@pytest.mark.parametrize("name", READ_BY_SPARK_ALONE)
def test_the_text_itself_is_run(spark: Any, shop: Shop, tmp_path: Path, name: str) -> None:
    sql = READ_BY_SPARK_ALONE[name]
    model = replace(shop.model(sql=sql, keys={}), target=str(tmp_path / "target"))
    record = deltajoin.run(model, spark)
    assert record.strategy == "full"
    own = spark.newSession()
    for source, place in model.sources.items():
        own.read.format("delta").load(place).createOrReplaceTempView(source)
    wanted = own.sql(sql)
    found = deltajoin.read(model, spark)
    assert found.schema.simpleString() == wanted.schema.simpleString()
    assert sorted(map(str, found.collect())) == sorted(map(str, wanted.collect()))
    with pytest.raises(DeltaJoinError):
        deltajoin.plan(replace(model, mode="incremental_strict", target=str(tmp_path / "other")))


def test_a_function_of_the_user_is_run_and_named(spark: Any, shop: Shop, tmp_path: Path) -> None:
    sql = "SELECT o.order_id, rand() >= 0 AS always " + JOIN
    model = replace(shop.model(sql=sql), target=str(tmp_path / "target"))
    record = deltajoin.run(model, spark)
    assert record.strategy == "full"
    assert any("rand()" in warning for warning in record.warnings)
    assert deltajoin.run(model, spark).strategy == "noop"


def test_what_spark_refuses_leaves_nothing(spark: Any, shop: Shop, tmp_path: Path) -> None:
    for sql in ("SELECT o.order_id >>> FROM orders AS o", "TABLE nothing_there"):
        target = tmp_path / "target"
        with pytest.raises(DeltaJoinError) as caught:
            deltajoin.run(replace(shop.model(sql=sql, keys={}), target=str(target)), spark)
        assert caught.value.code == "SPARK_ANALYSIS"
        assert not target.exists()
