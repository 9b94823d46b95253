"""A run killed by SIGKILL at any named step, started again: right rows, one commit, whole ledger.

Each kill is a real one, of a process group with its own JVM. Sources that change between the kill
and the restart are consumed too, and the epoch that was under way still commits once. The restarts
share the session of the tests, and each goes on to a further run that finds nothing to do.
"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import deltajoin
from deltajoin.catalog import load_target
from tests.spark import shop as shops
from tests.spark.shop import Shop, assert_right, epochs, never, open_shop, rows_at

pytestmark = pytest.mark.crash

REPOSITORY = Path(__file__).parents[2]
FIRST = (
    "planned",
    "target_created",
    "plan_frozen",
    "changes_materialised",
    "before_merge",
    "after_merge",
    "verified",
    "audit_written",
)
LATER = tuple(step for step in FIRST if step != "target_created")
COMMITTED = ("after_merge", "verified", "audit_written")
#: The step of the first kill and that of the second, which hits the run that heals it.
TWICE = (("changes_materialised", "before_merge"), ("before_merge", "after_merge"))
EVERY_TWICE = tuple((one, two) for one in LATER if one not in COMMITTED for two in LATER)


def kill_at(shop: Shop, step: str) -> list[str]:
    """Run the model in a new process group until it kills itself; the steps that it passed."""
    child = Path(__file__).with_name("child.py")
    done = subprocess.run(
        [sys.executable, str(child), str(REPOSITORY), str(shop.root), step],
        capture_output=True,
        text=True,
        timeout=300,
        start_new_session=True,
    )
    assert done.returncode == -9, done.stderr[-3000:]
    return done.stdout.split()


@pytest.fixture(scope="module")
def killed(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Shop]:
    """For each run and step, the folder that a killed process left behind."""
    root = tmp_path_factory.mktemp("killed")
    jobs: dict[tuple[str, str], Shop] = {}
    for step in FIRST:
        jobs["first", step] = open_shop(root / f"first-{step}")
    for step in LATER:
        shop = shops.built(spark, tmp_path_factory, root / f"later-{step}")
        change(shop, 100)
        jobs["later", step] = shop
    passed = kill_all(jobs)
    for (run, step), steps in passed.items():
        order = FIRST if run == "first" else LATER
        assert steps == list(order[: order.index(step) + 1])
    return jobs


def kill_all(jobs: dict[tuple[str, str], Shop]) -> dict[tuple[str, str], list[str]]:
    """All kills, two processes at a time; the steps that each passed."""
    with ThreadPoolExecutor(2) as pool:
        passed = pool.map(lambda job: kill_at(job[1], job[0][1]), jobs.items())
        return dict(zip(jobs, passed, strict=True))


def change(shop: Shop, order: int) -> None:
    """An insert, an update that reaches several rows, and a delete."""
    shop.append("orders", (order, 1, 5))
    shop.update("customers", "customer_id = 2", name=f"'changed {order}'")
    shop.delete("orders", f"order_id = {order % 40}")


@pytest.mark.parametrize("step", FIRST)
def test_a_first_run_killed_at(killed: dict[tuple[str, str], Shop], spark: Any, step: str) -> None:
    restart(killed["first", step], spark, step, 1)


@pytest.mark.parametrize("step", LATER)
def test_a_later_run_killed_at(killed: dict[tuple[str, str], Shop], spark: Any, step: str) -> None:
    restart(killed["later", step], spark, step, 2)


def test_killed_again_while_it_heals(
    request: pytest.FixtureRequest, spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Two kills of a later run, and none of the rows or records that they left is in the way."""
    root = tmp_path_factory.mktemp("killed-twice")
    pairs = EVERY_TWICE if request.config.getoption("--thorough") else TWICE
    shops_by_pair = {}
    for pair in pairs:
        shop = shops.built(spark, tmp_path_factory, root / "-".join(pair))
        change(shop, 100)
        shops_by_pair[pair] = shop
    kill_all({pair[::-1]: shop for pair, shop in shops_by_pair.items()})
    for (_, two), steps in kill_all(shops_by_pair).items():
        assert steps == list(LATER[: LATER.index(two) + 1])
    for (_, two), shop in shops_by_pair.items():
        restart(shop, spark, two, 2)
    print(f"{len(pairs)} of {len(pairs)} pairs of kills healed")


def restart(shop: Shop, spark: Any, step: str, epoch: int) -> None:
    """What the kill left, then the same run again, then one more."""
    before = load_target(shop.path("target"))
    done = [] if before is None else epochs(before)
    assert done == list(range(1, epoch + (step in COMMITTED)))
    late = shops.copied(shop, shop.root.with_name(f"{shop.root.name}-late"))
    if step in COMMITTED:
        record = deltajoin.run(shop.model(), never)
        assert (record.strategy, record.epoch) == ("noop", epoch)
    else:
        record = deltajoin.run(shop.model(), spark)
        assert (record.strategy, record.epoch) == ("full" if epoch == 1 else "incremental", epoch)
    assert_right(shop, epoch)
    assert deltajoin.run(shop.model(), never).strategy == "noop"
    if step in ("before_merge", "after_merge"):
        restart_late(late, spark, epoch + (step in COMMITTED))


def restart_late(shop: Shop, spark: Any, last: int) -> None:
    """The same, but the sources have moved on since the kill."""
    before = rows_at(shop.path("target"))
    change(shop, 101)
    record = deltajoin.run(shop.model(mode="incremental"), spark)
    assert (record.epoch, record.strategy) == (last, "full" if last == 1 else "incremental")
    assert rows_at(shop.path("target")) != before
    assert_right(shop, last)
