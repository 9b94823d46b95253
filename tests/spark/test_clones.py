"""A clone is a source like others; that of a target goes on from its original's epoch.

Open Delta makes shallow clones only. A deep one, as Databricks makes it, is made here of a shallow
one: the data files copied below its own folder, the same names.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

import deltajoin
from deltajoin.audit.verify import verify
from deltajoin.catalog import load_target
from tests.spark import shop as shops
from tests.spark.shop import SQL, Shop, never, written


@pytest.fixture
def built(spark: Any, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Shop:
    return shops.built(spark, tmp_path_factory, tmp_path / "shop")


def clone(spark: Any, original: str, location: str) -> None:
    spark.sql(f"CREATE OR REPLACE TABLE delta.`{location}` SHALLOW CLONE delta.`{original}`")


def clone_deeply(spark: Any, original: str, location: str) -> None:
    clone(spark, original, location)
    (log,) = Path(location, "_delta_log").glob("*.json")
    (log.parent / f".{log.name}.crc").unlink(missing_ok=True)
    log.with_suffix(".crc").unlink(missing_ok=True)
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            file = Path(unquote(urlsplit(action["add"]["path"]).path))
            action["add"]["path"] = file.name
            shutil.copy(file, Path(location, file.name))
        action.get("commitInfo", {}).get("operationParameters", {}).pop("isShallow", None)
    log.write_text("\n".join(map(json.dumps, actions)))


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


@pytest.mark.thorough
def test_deep_clones(built: Shop, spark: Any) -> None:
    """Of a source and of the target: both go on without the files of their originals."""
    orders, cloned = built.path("deep_orders"), built.path("deep")
    clone_deeply(spark, built.path("orders"), orders)
    clone_deeply(spark, built.path("target"), cloned)
    ours = built.model(target=cloned)
    assert deltajoin.run(ours, never).epoch == 1
    sources = {"orders": orders, "customers": built.path("customers")}
    other = built.model(sources=sources, target=built.path("other"))
    assert deltajoin.run(other, spark).strategy == "full"
    built.append("orders", (100, 1, 5))
    spark.sql(f"UPDATE delta.`{orders}` SET amount = 7 WHERE order_id = 5")
    for model in (ours, other):
        record = deltajoin.run(model, spark)
        assert (record.strategy, record.epoch) == ("incremental", 2)
        assert_equal(model, spark)
    for name in ("orders", "target"):
        shutil.rmtree(built.path(name))
    assert_equal(other, spark)
    state = load_target(cloned)
    assert state is not None
    assert verify(state) == ()


def test_the_clone_of_a_target(built: Shop, spark: Any) -> None:
    """It goes on from its original's last epoch, and neither sees what the other does later."""
    cloned = built.path("cloned")
    clone(spark, built.path("target"), cloned)
    model = built.model(target=cloned)
    assert deltajoin.run(model, never).epoch == 1
    built.append("orders", (100, 1, 5))
    kept = written(built)
    record = deltajoin.run(model, spark)
    assert (record.strategy, record.epoch, record.rows["inserted"]) == ("incremental", 2, 1)
    assert_equal(model, spark)
    assert written(built) == kept
    built.delete("orders", "order_id = 7")
    assert deltajoin.run(built.model(), spark).epoch == 2
    assert deltajoin.run(model, spark).epoch == 3
    for each in (model, built.model()):
        assert_equal(each, spark)
        state = load_target(each.target)
        assert state is not None
        assert verify(state) == ()
    # A clone of the clone, by which time the original's log no longer holds its epochs.
    for commit in Path(built.path("target"), "_delta_log").glob("*.json"):
        commit.unlink()
    again = built.path("again")
    clone(spark, cloned, again)
    built.delete("orders", "order_id = 8")
    record = deltajoin.run(built.model(target=again), spark)
    assert (record.strategy, record.epoch) == ("incremental", 4)
    assert_equal(built.model(target=again), spark)


@pytest.mark.thorough
def test_the_clone_of_a_named_target(built: Shop, spark: Any) -> None:
    """Its original is known by a name in a catalog, which the log doesn't locate."""
    spark.sql("DROP TABLE IF EXISTS cloned_original")
    deltajoin.run(built.model(target="cloned_original"), spark)
    cloned = built.path("cloned")
    spark.sql(f"CREATE TABLE delta.`{cloned}` SHALLOW CLONE cloned_original")
    built.append("orders", (100, 1, 5))
    assert deltajoin.run(built.model(target=cloned), spark).strategy == "incremental"
    assert_equal(built.model(target=cloned), spark)
    spark.sql("DROP TABLE cloned_original")


@pytest.mark.sampled
@pytest.mark.parametrize("what", ["written by others", "made anew"])
def test_a_clone_that_is_no_target(what: str, built: Shop, spark: Any) -> None:
    """Rows that somebody else changed before, or an original that is not there any more, are found
    before any work; a rebuild makes the clone a target."""
    target, cloned = built.path("target"), built.path("cloned")
    if what == "written by others":
        spark.sql(f"DELETE FROM delta.`{target}` WHERE order_id = 3")
    clone(spark, target, cloned)
    if what == "made anew":
        shutil.rmtree(target)
        deltajoin.run(built.model(), spark)
    built.append("orders", (100, 1, 5))
    model = built.model(target=cloned)
    with pytest.raises(deltajoin.DeltaJoinError, match=r"(DELETE|CLONE) at version") as caught:
        deltajoin.run(model, never)
    assert caught.value.code == "TARGET_FOREIGN_WRITE"
    assert deltajoin.run(built.model(target=cloned, mode="full"), spark).strategy == "full"
    built.delete("orders", "order_id = 7")
    assert deltajoin.run(model, spark).strategy == "incremental"
    assert_equal(model, spark)
