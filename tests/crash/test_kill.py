"""A run killed by SIGKILL at any named step, started again: right rows, one commit, whole ledger.

Each kill is a real one, of a process group with its own JVM. Sources that change between the kill
and the restart are consumed too, and the epoch that was under way still commits once. The restarts
share the session of the tests, and each goes on to a further run that finds nothing to do.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import deltajoin
from deltajoin.catalog import load_target
from tests.crash.kinds import KINDS, dies, start
from tests.spark import shop as shops
from tests.spark.shop import Shop, assert_right, epochs, never, open_shop, rows_at

pytestmark = pytest.mark.crash

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
#: The named steps at which `make test` kills a first run and a later one.
STEPS = {"first": FIRST, "later": LATER}
QUICK_STEPS = {"first": ("before_merge",), "later": ("after_merge",)}
#: The step of a first kill and that of a second, which hits the run that heals it.
TWICE = tuple((one, two) for one in LATER if one not in COMMITTED for two in LATER)


def kill_at(shop: Shop, step: str) -> list[str]:
    """Run the model in a new process group until it kills itself; the steps that it passed."""
    steps = LATER if (shop.root / "target").exists() else FIRST
    done = start(shop.root, "keyed", steps.index(step) + 1)
    assert done.returncode == -signal.SIGKILL, done.stderr[-3000:]
    return done.stdout.split()


@pytest.fixture(scope="module")
def killed(
    request: pytest.FixtureRequest, spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], Shop]:
    """For each run and step, the folder that a killed process left behind."""
    root, steps = tmp_path_factory.mktemp("killed"), steps_of(request.config)
    jobs: dict[tuple[str, str], Shop] = {}
    for step in steps["first"]:
        jobs["first", step] = open_shop(root / f"first-{step}")
    for step in steps["later"]:
        shop = shops.built(spark, tmp_path_factory, root / f"later-{step}")
        change(shop, 100)
        jobs["later", step] = shop
    for (run, step), passed in kill_all(jobs).items():
        order = STEPS[run]
        assert passed == list(order[: order.index(step) + 1])
    return jobs


def steps_of(config: pytest.Config) -> Mapping[str, tuple[str, ...]]:
    return STEPS if config.getoption("--thorough") else QUICK_STEPS


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


def test_a_first_run_killed_at(killed: dict[tuple[str, str], Shop], spark: Any, first: str) -> None:
    restart(killed["first", first], spark, first, 1)


def test_a_later_run_killed_at(killed: dict[tuple[str, str], Shop], spark: Any, later: str) -> None:
    restart(killed["later", later], spark, later, 2)


@pytest.mark.thorough
def test_killed_again_while_it_heals(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Two kills of a later run, and none of the rows or records that they left is in the way."""
    root = tmp_path_factory.mktemp("killed-twice")
    shops_by_pair = {}
    for pair in TWICE:
        shop = shops.built(spark, tmp_path_factory, root / "-".join(pair))
        change(shop, 100)
        shops_by_pair[pair] = shop
    kill_all({pair[::-1]: shop for pair, shop in shops_by_pair.items()})
    for (_, two), steps in kill_all(shops_by_pair).items():
        assert steps == list(LATER[: LATER.index(two) + 1])
    for (_, two), shop in shops_by_pair.items():
        restart(shop, spark, two, 2)
    print(f"{len(TWICE)} of {len(TWICE)} pairs of kills healed")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kind" in metafunc.fixturenames:
        metafunc.parametrize("kind", [kind for kind in KINDS if kind != "large"])
    for run, steps in steps_of(metafunc.config).items():
        if run in metafunc.fixturenames:
            metafunc.parametrize(run, steps)


@pytest.mark.thorough
def test_killed_at_its_kth_step(kind: str, spark: Any, tmp_path: Path) -> None:
    """k = 1, 2, ... until a run lives: first runs, each in a folder of its own; then later runs of
    one target, each of them healed before the next."""
    for k in count(1):
        if not any(killed_and_healed(kind, open_shop(tmp_path / f"first-{k}"), (k,), 1, spark)):
            break
    shop = open_shop(tmp_path / "later")
    heal(kind, shop, 1, spark)
    for k in count(1):
        change(shop, 101 + k)
        if not any(killed_and_healed(kind, shop, (k,), k + 1, spark)):
            print(f"{kind}: {k - 1} kills of later runs")  # noqa: T201
            break


@pytest.mark.thorough
def test_killed_at_its_kth_step_and_again(kind: str, spark: Any, tmp_path: Path) -> None:
    """Later runs of one target, each killed, and the one after it, which heals it, killed too: at
    the same step, at the one after it and at the one as far from the end."""
    last = 21 if kind == "chain" else 7
    every = ((k, j) for k in range(1, last + 1) for j in sorted({k, k + 1, last + 1 - k}))
    shop = open_shop(tmp_path)
    heal(kind, shop, 1, spark)
    twice = Counter[bool]()
    for epoch, steps in enumerate(every, 2):
        change(shop, 100 + epoch)
        twice[all(killed_and_healed(kind, shop, steps, epoch, spark))] += 1
    print(f"{kind}: {twice[True]} times killed twice, {twice[False]} times once")  # noqa: T201


def killed_and_healed(
    kind: str, shop: Shop, steps: Sequence[int], epoch: int, spark: Any
) -> Sequence[bool]:
    """Run it, each time to die at a step, and then to its end; which of the runs died."""
    died = [dies(shop.root, kind, k) for k in steps]
    heal(kind, shop, epoch, spark)
    return died


def heal(kind: str, shop: Shop, epoch: int, spark: Any) -> None:
    """Run a kind of model to its end, where its catalog is, and look at its targets."""
    if KINDS[kind].conf(shop.root):
        done = start(shop.root, kind, 0)
        assert done.returncode == 0, done.stderr[-3000:]
    else:
        KINDS[kind].run(shop.root, spark)
    KINDS[kind].assert_right(shop.root, epoch, spark)


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
