"""A run whose disk has no room for its files: nothing is committed, and the next run goes on."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import deltajoin
from deltajoin.catalog import load_target
from tests.crash.kinds import start
from tests.spark import shop as shops
from tests.spark.shop import Shop, assert_right, open_shop, written

pytestmark = [pytest.mark.crash, pytest.mark.thorough]

ROOM = 100_000


def run_without_room(shop: Shop) -> list[str]:
    """The steps of a run that may write no file of more bytes than `ROOM`, and its code."""
    done = start(shop.root, "keyed", 0, f"bytes={ROOM}")
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def many(shop: Shop) -> None:
    """Rows that need more than `ROOM` bytes where they are written."""
    pick = random.Random(1).randrange
    shop.append("orders", *((n, n % 7, pick(2**60)) for n in range(1_000, 41_000)))


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_full_disk(
    epoch: int, spark: Any, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if epoch == 1:
        shop = open_shop(tmp_path / "shop")
    else:
        shop = shops.built(spark, tmp_path_factory, tmp_path / "shop")
    many(shop)
    kept = written(shop)
    *steps, end = run_without_room(shop)
    assert steps[0] == "planned"
    assert "after_merge" not in steps
    assert end.startswith("SPARK_FAILED"), end
    if epoch == 2:
        assert written(shop) == kept
    else:
        target = load_target(shop.path("target"))
        assert target is None or shops.epochs(target) == []
    assert deltajoin.run(shop.model(), spark).epoch == epoch
    assert_right(shop, epoch)
