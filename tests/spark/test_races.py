"""Two runs of one model, their named steps in every order: one commit an epoch, the loser is told.

Each run goes on until its next step and then waits for its turn. By default a few of the 252 orders
of five steps each are tried; `--thorough` tries all.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from threading import Condition
from typing import Any

import pytest

import deltajoin
from deltajoin.runtime import execute
from deltajoin.runtime.commits import LAST_COMMIT
from deltajoin.runtime.own_session import commit_marks
from tests.spark import shop as shops
from tests.spark.shop import Shop, assert_right

STEPS = ("planned", "plan_frozen", "before_merge", "after_merge")
TURNS = len(STEPS) + 1
ORDERS = tuple(
    "".join("A" if turn in first else "B" for turn in range(2 * TURNS))
    for first in combinations(range(2 * TURNS), TURNS)
)


class Turns:
    """Who may go on: a letter of the order a turn; who has ended is passed over."""

    def __init__(self, order: str) -> None:
        self._waiting, self._ended = list(order), set[str]()
        self._free = True
        self._changed = Condition()

    def take(self, who: str) -> None:
        """Wait for the next turn of a run."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._is_next(who), timeout=300):
                raise TimeoutError(f"{who} waits for {self._waiting}")
            self._waiting.pop(0)
            self._free = False

    def give(self) -> None:
        """The turn is over."""
        with self._changed:
            self._free = True
            self._changed.notify_all()

    def end(self, who: str) -> None:
        """The run is over."""
        with self._changed:
            self._ended.add(who)
        self.give()

    def _is_next(self, who: str) -> bool:
        while self._waiting and self._waiting[0] in self._ended:
            self._waiting.pop(0)
        return self._free and self._waiting[:1] == [who]


def run(shop: Shop, spark: Any, turns: Turns, who: str) -> str:
    """A run that waits at each of its steps; its strategy, or the code of its refusal."""

    def passed(step: str, info: dict[str, Any]) -> None:
        if step in STEPS:
            turns.give()
            turns.take(who)

    turns.take(who)
    try:
        return deltajoin.run(shop.model(), spark, on_step=passed).strategy
    except deltajoin.DeltaJoinError as error:
        return error.code
    finally:
        turns.end(who)


def test_two_runs_in_every_order(
    spark: Any, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, thorough: bool
) -> None:
    found: dict[tuple[str, ...], int] = {}
    for order in ORDERS if thorough else ORDERS[5::48]:
        shop = shops.built(spark, tmp_path_factory, tmp_path / order)
        shop.append("orders", (100, 1, 5))
        shop.update("customers", "customer_id = 2", name="'changed'")
        turns = Turns(order)
        with ThreadPoolExecutor(2) as pool:
            ends = tuple(pool.map(lambda who: run(shop, spark, turns, who), "AB"))  # noqa: B023
        assert sorted(ends) in (["CONCURRENT_RUN", "incremental"], ["incremental", "noop"]), order
        assert_right(shop, 2)
        assert deltajoin.run(shop.model(), shops.never).strategy == "noop"
        found[ends] = found.get(ends, 0) + 1
    print(f"{sum(found.values())} orders: {found}")  # noqa: T201


def test_an_epoch_is_committed_between_the_last_look_and_the_write(
    spark: Any,
    tmp_path_factory: pytest.TempPathFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Delta passes over the write; the caller's last commit, of another table, tells nothing."""
    shop = shops.built(spark, tmp_path_factory, tmp_path)
    shop.append("orders", (100, 1, 5))
    caller = spark.newSession()
    caller.conf.set(LAST_COMMIT, "57")
    others: list[str] = []

    def looked(*arguments: Any) -> Any:
        if not others:
            others.append("begun")
            others.append(deltajoin.run(shop.model(), spark).strategy)
        return commit_marks(*arguments)

    monkeypatch.setattr(execute, "commit_marks", looked)
    with pytest.raises(deltajoin.DeltaJoinError) as caught:
        deltajoin.run(shop.model(), caller)
    assert (caught.value.code, others[1:]) == ("CONCURRENT_RUN", ["incremental"])
    assert_right(shop, 2)


def test_all_orders_of_steps_are_there() -> None:
    assert len(set(ORDERS)) == 252
    assert {len(order) for order in ORDERS} == {10}
