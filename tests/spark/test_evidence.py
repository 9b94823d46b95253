"""A first build is held against the user's own text, and our form of a query that fails is not run.

A wrong form of ours is made by altering the job's statement.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

import deltajoin
from deltajoin.emit import job as jobs
from deltajoin.runtime.own_session import COMPARE_ROWS_SETTING
from tests.spark import shop as shops
from tests.spark.shop import SQL, as_rows, expected, open_shop

BAG = "SELECT c.name, o.amount FROM orders o JOIN customers c ON o.customer_id = c.customer_id"
GROUPS = """
SELECT c.name, avg(o.amount) AS x, count(*) AS n
FROM orders o JOIN customers c ON o.customer_id = c.customer_id GROUP BY c.name HAVING count(*) > 1
"""
WRONG = {
    "a lost row": (SQL, "SELECT * FROM ({}) LIMIT 39", "has 39 rows, its text 40"),
    "another value": (
        SQL,
        "SELECT order_id, if(order_id = 7, 0L, amount) AS amount, name FROM ({})",
        "has other rows",
    ),
    "values of other rows": (
        BAG,
        "SELECT name, 9 - amount AS amount, `__deltajoin_count` FROM ({})",
        "has other rows",
    ),
    "another type": (
        SQL,
        "SELECT order_id, CAST(amount AS int) AS amount, name FROM ({})",
        "amount is int, not bigint",
    ),
    "another name": (
        SQL,
        "SELECT order_id, amount, name AS Name FROM ({})",
        "other columns than its text, which has order_id, amount, name",
    ),
    "no query": (SQL, "SELECT nothing FROM ({})", "our form of it fails: [UNRESOLVED_COLUMN"),
    "a failure": (
        SQL,
        "SELECT order_id, amount DIV (amount - amount) AS amount, name FROM ({})",
        "our form of it fails: ",
    ),
}


def altered(monkeypatch: pytest.MonkeyPatch, alter: Callable[[str], str]) -> None:
    right = jobs.describe_job

    def wrong(plan: Any) -> dict[str, Any]:
        job = right(plan)
        job["program"]["full"] = alter(job["program"]["full"])
        return job

    monkeypatch.setattr(jobs, "describe_job", wrong)


@pytest.mark.sampled
@pytest.mark.parametrize("case", WRONG)
def test_what_differs_is_built_from_its_own_text(
    spark: Any, tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql, around, message = WRONG[case]
    shop = open_shop(tmp_path)
    model = shop.model(sql=sql, mode="auto")
    with monkeypatch.context() as patch:
        altered(patch, around.format)
        with pytest.raises(deltajoin.DeltaJoinError, match="MEANING_DIFFERS") as caught:
            deltajoin.run(shop.model(sql=sql, mode="incremental_strict"), spark)
        assert message in caught.value.message
        assert not Path(shop.path("target")).exists()
        record = deltajoin.run(model, spark)
    assert record.evidence is not None
    assert message in record.evidence["differs"]
    assert any("MEANING_DIFFERS" in warning for warning in record.warnings)
    assert (record.kind, record.key) == ("plain", ())
    assert as_rows(deltajoin.read(model, spark).toArrow()) == expected(shop, sql)


def test_it_stays_so_until_the_definition_changes(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = open_shop(tmp_path)
    model = shop.model(sql=BAG, mode="auto")
    with monkeypatch.context() as patch:
        altered(patch, "SELECT * FROM ({}) LIMIT 1".format)
        deltajoin.run(model, spark)
    assert deltajoin.plan(model).strategy == "noop"
    for epoch in (2, 3):
        shop.append("orders", (100 + epoch, 1, 5))
        record = deltajoin.run(model, spark)
        assert (record.reason, record.kind, record.epoch) == ("MEANING_DIFFERS", "plain", epoch)
        assert as_rows(deltajoin.read(model, spark).toArrow()) == expected(shop, BAG)
    with pytest.raises(deltajoin.DeltaJoinError, match="MEANING_DIFFERS"):
        deltajoin.plan(shop.model(sql=BAG, mode="incremental_strict"))
    other = shop.model(sql=BAG + " WHERE o.amount > 0", mode="auto")
    record = deltajoin.run(other, spark)
    assert (record.reason, record.kind) == ("MODEL_CHANGED", "bag")
    assert record.evidence == {"compared": "columns and rows", "rows": 41}
    shop.append("orders", (200, 1, 5))
    assert deltajoin.plan(other).strategy == "incremental"


def test_groups_are_compared_as_they_are_seen(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of floats within a tolerance; hidden groups and columns not at all."""
    shop = open_shop(tmp_path)
    shop.append("customers", (100, "alone"))
    shop.append("orders", (100, 100, 5))
    model = shop.model(sql=GROUPS, mode="auto")
    seen = sum(expected(shop, GROUPS).values())
    assert seen == sum(expected(shop, GROUPS.partition("HAVING")[0]).values()) - 1
    record = deltajoin.run(model, spark)
    assert record.kind == "keyed"
    assert record.evidence == {"compared": "columns and rows", "rows": seen}
    with monkeypatch.context() as patch:
        altered(patch, lambda full: full.replace(" AS `x`", " * 1.0001D AS `x`"))
        record = deltajoin.run(shop.model(sql=GROUPS, target=shop.path("values")), spark)
    assert record.evidence is not None
    assert "other values of x" in record.evidence["differs"]
    with_state = shop.model(sql=GROUPS.replace("avg", "sum"), target=shop.path("state"))
    record = deltajoin.run(with_state, spark)
    assert record.kind == "grouped"
    assert record.evidence == {"compared": "columns and rows", "rows": seen}


def test_how_far_it_goes(spark: Any, tmp_path: Path) -> None:
    shop = open_shop(tmp_path)
    session = spark.newSession()
    session.conf.set(COMPARE_ROWS_SETTING, "40")
    record = deltajoin.run(shop.model(), session)
    assert record.evidence == {
        "compared": "columns",
        "because": "the sources have more rows than spark.deltajoin.compareRows",
    }
    record = deltajoin.run(shop.model(mode="full"), spark)
    assert record.evidence == {"compared": "columns"}


def test_a_text_that_spark_compares_only_as_the_first_side(spark: Any, tmp_path: Path) -> None:
    """Spark renames the columns of a union's second side, and misses those that LATERAL reads."""
    shop = open_shop(tmp_path)
    model = shop.model(sql="SELECT o.order_id, q.x FROM orders o, LATERAL (SELECT amount) q(x)")
    assert deltajoin.run(model, spark).evidence == {"compared": "columns and rows", "rows": 40}
    shop.append("orders", (100, 1, 5))
    assert deltajoin.run(model, spark).strategy == "incremental"
    plain = "SELECT order_id, amount FROM orders"
    assert as_rows(deltajoin.read(model, spark).toArrow()) == expected(shop, plain)


def test_what_spark_refuses_is_refused_before_anything_is_there(spark: Any, tmp_path: Path) -> None:
    shop = open_shop(tmp_path)
    with pytest.raises(deltajoin.DeltaJoinError, match="SPARK_ANALYSIS") as caught:
        deltajoin.run(shop.model(sql=SQL.replace("c.name", "array_max(c.name) AS name")), spark)
    assert "DATATYPE_MISMATCH" in caught.value.message
    assert not DeltaTable.is_deltatable(shop.path("target"))
    assert shops.files_of(shop.path("orders"))
