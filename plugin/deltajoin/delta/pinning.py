"""Orders that hold: what the last like epoch did is kept until something is clearly cheaper.

An epoch is like today's when the same definition ran with the same changed relations; its record in
the target's log says in which epoch order and by which paths. Both are kept while they hold
(`planner.kept`): plans don't flip from day to day, and measured rows add up on the same steps. The
whole query's order is that of the last epoch, whatever had changed then (`order`).

Caller: `Pins.of` the records; asks them where an order is chosen.
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
    """Earlier orders: changed relations -> the drivers in epoch order, each with its lookups; and
    that of the whole query."""

    runs: Mapping[frozenset[str], Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    order: LastOrder | None = None

    @staticmethod
    def of(runs: Sequence[Paths], order: LastOrder | None = None) -> Pins:
        """The orders of earlier epochs of one definition, newest first (`earlier_paths`), and that
        of the whole query (`last_order`)."""
        found: dict[frozenset[str], dict[str, tuple[str, ...]]] = {}
        for paths in runs:
            orders: dict[str, tuple[str, ...]] = {}
            for path in paths:
                names = (str(step["relation"]) for step in path["steps"])
                orders.setdefault(str(path["driver"]), (str(path["driver"]), *names))
            found.setdefault(frozenset(orders), orders)
        return Pins(found, order)

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


def _whole(graph: JoinGraph, order: tuple[str, ...]) -> bool:
    if sorted(order) != sorted(relation.name for relation in graph.relations):
        return False
    return all(
        name in graph.neighbours(frozenset(order[:position]))
        for position, name in enumerate(order)
        if position
    )
