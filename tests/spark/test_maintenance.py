"""Writers and maintenance of sources and target, at every named step of a run.

Whatever happens beside it, a run ends with the rows of the versions that it planned with, or with
a code and an untouched target; the next run has the rows of the newest versions. By default each
event happens at one step, with `--thorough` at every one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

import deltajoin
from tests.spark import shop as shops
from tests.spark.shop import Shop, as_table, assert_right, epochs, expected, rows_at

STEPS = ("planned", "plan_frozen", "changes_materialised", "before_merge", "after_merge")


def append(shop: Shop) -> None:
    shop.append("orders", (500, 2, 7))


def update(shop: Shop) -> None:
    shop.update("customers", "customer_id = 3", name="'meanwhile'")


def overwrite(shop: Shop) -> None:
    table = as_table("customers", [(n, f"again {n}") for n in range(8)])
    write_deltalake(shop.path("customers"), table, mode="overwrite")


def optimize_sources(shop: Shop) -> None:
    for table in shops.SCHEMAS:
        DeltaTable(shop.path(table)).optimize.compact()


def vacuum_sources(shop: Shop) -> None:
    optimize_sources(shop)
    for table in shops.SCHEMAS:
        vacuum(shop.path(table))


def optimize_target(shop: Shop) -> None:
    DeltaTable(shop.path("target")).optimize.compact()


def vacuum_target(shop: Shop) -> None:
    optimize_target(shop)
    vacuum(shop.path("target"))


def vacuum(path: str) -> None:
    """Delete everything that the newest version doesn't need."""
    DeltaTable(path).vacuum(0, dry_run=False, enforce_retention_duration=False)


EVENTS = (
    append,
    update,
    overwrite,
    optimize_sources,
    vacuum_sources,
    optimize_target,
    vacuum_target,
)
#: What may stop a run: versions that it was planned with are gone, and nothing else.
LOST = {vacuum_sources: {"SOURCE_FILES_MISSING"}, vacuum_target: {"SOURCE_FILES_MISSING"}}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "event" not in metafunc.fixturenames:
        return
    every = metafunc.config.getoption("--thorough")
    cases = [
        pytest.param(event, step, id=f"{event.__name__} at {step}")
        for number, event in enumerate(EVENTS)
        for place, step in enumerate(STEPS)
        if every or place == (number + 1) % len(STEPS)
    ]
    metafunc.parametrize(("event", "step"), cases)


def test_meanwhile(
    event: Callable[[Shop], None],
    step: str,
    spark: Any,
    tmp_path_factory: pytest.TempPathFactory,
    tmp_path: Path,
) -> None:
    shop = shops.built(spark, tmp_path_factory, tmp_path)
    shop.append("orders", (100, 1, 5))
    shop.update("customers", "customer_id = 2", name="'changed'")
    shop.delete("orders", "order_id = 4")
    planned, before = expected(shop), rows_at(shop.path("target"))

    def passed(name: str, info: dict[str, Any]) -> None:
        if name == step:
            event(shop)

    try:
        end = deltajoin.run(shop.model(), spark, on_step=passed).strategy
    except deltajoin.DeltaJoinError as error:
        end = error.code
    if end == "incremental":
        assert rows_at(shop.path("target")) == planned
    else:
        assert end in LOST.get(event, ())
        assert rows_at(shop.path("target")) == before
        assert epochs(shop.target()) == [1]
    deltajoin.run(shop.model(), spark)
    assert_right(shop, epochs(shop.target())[-1])
