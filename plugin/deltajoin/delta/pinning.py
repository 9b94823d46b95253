"""Orders that hold: what the last like epoch did is kept until something is clearly cheaper.

An epoch is like today's when the same definition ran with the same changed relations; its record in
the target's log says in which epoch order and by which paths. Both are kept while their cost under
today's statistics is at most `KEEP` times the best that is found. Every order is exact, so this is
about stability alone: plans don't flip from day to day, and measured rows add up on the same steps.
A figure that halves can make the best order half as dear, hence 2; growing by half does less.

The whole query's order is not pinned: it is for rebuilds, which are rare and start anew.
Caller: `Pins.of` the records; asks them where an order is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltajoin.graph import JoinGraph

#: How many times dearer than the best an order may be that is kept.
KEEP = 2.0

Paths = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Pins:
    """Earlier orders: changed relations -> the drivers in epoch order, each with its lookups."""

    runs: Mapping[frozenset[str], Mapping[str, tuple[str, ...]]] = field(default_factory=dict)

    @staticmethod
    def of(runs: Sequence[Paths]) -> Pins:
        """The orders of earlier epochs of one definition, newest first (`earlier_paths`)."""
        found: dict[frozenset[str], dict[str, tuple[str, ...]]] = {}
        for paths in runs:
            orders: dict[str, tuple[str, ...]] = {}
            for path in paths:
                names = (str(step["relation"]) for step in path["steps"])
                orders.setdefault(str(path["driver"]), (str(path["driver"]), *names))
            found.setdefault(frozenset(orders), orders)
        return Pins(found)

    def epoch_order(self, changed: Sequence[str]) -> tuple[str, ...] | None:
        """The changed relations in the epoch order of the last like epoch."""
        orders = self.runs.get(frozenset(changed))
        return tuple(orders) if orders else None

    def paths(self, graph: JoinGraph, drivers: Sequence[str]) -> dict[str, tuple[str, ...]] | None:
        """The paths of the last like epoch; None without one that joins all relations of the graph,
        each after one that a predicate links to it."""
        orders = self.runs.get(frozenset(drivers))
        if not orders or not drivers:
            return None
        found = {driver: orders[driver] for driver in drivers}
        return found if all(_whole(graph, order) for order in found.values()) else None


def holds(old: float, new: float) -> bool:
    """True when an order of cost `old` is kept though `new` is the best."""
    return old <= KEEP * new


def replanned(what: str, old: float, new: float) -> str:
    """The note on an order that was given up.

    Example:
        >>> replanned("Δorders", 1234567.0, 400000.0)
        'Δorders: old cost 1.2e+06, new cost 4.0e+05'
    """
    return f"{what}: old cost {old:.1e}, new cost {new:.1e}"


def _whole(graph: JoinGraph, order: tuple[str, ...]) -> bool:
    if sorted(order) != sorted(relation.name for relation in graph.relations):
        return False
    return all(
        name in graph.neighbours(frozenset(order[:position]))
        for position, name in enumerate(order)
        if position
    )
