"""Orders that hold: what the last like epoch did is kept until something is clearly cheaper.

An epoch is like today's when the same definition ran with the same changed relations; its record
says in which epoch order and by which paths. So plans don't flip from day to day, and measured rows
add up on the same steps. The whole query's order is that of the last epoch (`order`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltajoin.graph import JoinGraph
from deltajoin.planner.kept import LastOrder

Paths = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Pins:
    """Earlier orders: changed relations -> the drivers in epoch order, each with its branch and its
    lookups there; and that of the whole query."""

    runs: Mapping[frozenset[str], Mapping[tuple[str, int], tuple[str, ...]]] = field(
        default_factory=dict
    )
    order: LastOrder | None = None

    @staticmethod
    def of(runs: Sequence[Paths], order: LastOrder | None = None) -> Pins:
        """The orders of earlier epochs of one definition, newest first (`earlier_paths`), and that
        of the whole query (`last_order`)."""
        found: dict[frozenset[str], dict[tuple[str, int], tuple[str, ...]]] = {}
        for paths in runs:
            orders: dict[tuple[str, int], tuple[str, ...]] = {}
            for path in paths:
                driver, names = str(path["driver"]), (str(s["relation"]) for s in path["steps"])
                orders[driver, path.get("branch", 0)] = (driver, *names)
            found.setdefault(frozenset(driver for driver, _ in orders), orders)
        return Pins(found, order)

    def epoch_order(self, changed: Sequence[str]) -> tuple[str, ...] | None:
        """The changed relations in the epoch order of the last like epoch."""
        orders = self.runs.get(frozenset(changed))
        return tuple(dict.fromkeys(driver for driver, _ in orders)) if orders else None

    def path(self, driver: str, branch: int, changed: Sequence[str]) -> tuple[str, ...]:
        """What a driver's path led through in the last like epoch; nothing without one."""
        return self.runs.get(frozenset(changed), {}).get((driver, branch), ())


def order_within(graph: JoinGraph, path: Sequence[str], start: str) -> tuple[str, ...] | None:
    """The order in which an earlier path took the relations of a graph; None where it did not begin
    with `start` and join all of them, each after one that a predicate links to it."""
    names = {relation.name for relation in graph.relations}
    order = tuple(name for name in path if name in names)
    if sorted(order) != sorted(names) or order[0] != start:
        return None
    linked = (order[k] in graph.neighbours(frozenset(order[:k])) for k in range(1, len(order)))
    return order if all(linked) else None
