"""A source that is a shallow clone is a source like others; the clone of a target is no target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import deltajoin
from deltajoin.audit.verify import verify
from tests.spark import shop as shops
from tests.spark.shop import SQL, Shop, never, written


@pytest.fixture
def built(spark: Any, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Shop:
    return shops.built(spark, tmp_path_factory, tmp_path / "shop")


def clone(spark: Any, original: str, location: str) -> None:
    spark.sql(f"CREATE OR REPLACE TABLE delta.`{location}` SHALLOW CLONE delta.`{original}`")


def assert_equal(model: deltajoin.Model, spark: Any) -> None:
    """The target holds what Spark gives for the model's text over its sources."""
    session = spark.newSession()
    for name, location in model.sources.items():
        session.read.format("delta").load(location).createOrReplaceTempView(name)
    found = deltajoin.read(model, spark).collect()
    assert sorted(found) == sorted(session.sql(SQL).collect())


def test_a_source_that_is_a_clone(built: Shop, spark: Any) -> None:
    """Its rows are in its original's files, but what that one does later is none of its changes."""
    cloned = built.path("cloned")
    clone(spark, built.path("orders"), cloned)
    sources = {"orders": cloned, "customers": built.path("customers")}
    model = built.model(sources=sources, target=built.path("other"))
    assert deltajoin.run(model, spark).strategy == "full"
    built.delete("orders", "order_id = 5")
    assert deltajoin.run(model, never).strategy == "noop"
    spark.sql(f"UPDATE delta.`{cloned}` SET amount = 7 WHERE order_id = 5")
    record = deltajoin.run(model, spark)
    assert (record.strategy, record.rows["updated"]) == ("incremental", 1)
    assert_equal(model, spark)
    spark.sql(f"DELETE FROM delta.`{cloned}`")
    clone(spark, built.path("orders"), cloned)  # made again in its place
    assert deltajoin.run(model, spark).epoch == 3
    assert_equal(model, spark)


def test_the_clone_of_a_target(built: Shop, spark: Any) -> None:
    """It has rows of epochs that its own history doesn't show: refused before any work, and a
    rebuild makes it a target. The original isn't touched by it."""
    cloned = built.path("cloned")
    clone(spark, built.path("target"), cloned)
    built.append("orders", (100, 1, 5))
    model = built.model(target=cloned)
    with pytest.raises(deltajoin.DeltaJoinError, match="CLONE at version 0") as caught:
        deltajoin.run(model, never)
    assert caught.value.code == "TARGET_FOREIGN_WRITE"
    kept = written(built)
    assert deltajoin.run(built.model(target=cloned, mode="full"), spark).strategy == "full"
    built.delete("orders", "order_id = 7")
    assert deltajoin.run(model, spark).strategy == "incremental"
    assert_equal(model, spark)
    assert written(built) == kept
    assert deltajoin.run(built.model(), spark).strategy == "incremental"
    assert verify(built.target()) == ()
    assert_equal(built.model(), spark)
