"""In which order a stream looks up the relations that are joined inner.

Any order is exact in which each relation is linked to those before. It is taken

    by rule      where the model names a strategy other than cost (`planner.solver`)
    as written   where the size of some table is not known
    by cost      otherwise

By cost, each driver's path is ordered for itself, and against that stands what can be shared: all
paths first bind the changed relations, then take the rest together. The cheaper of both is taken,
unless the orders of the last like epoch still hold (`pinning`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from deltajoin.delta.pinning import order_within
from deltajoin.graph import JoinGraph
from deltajoin.planner.cardinality import fan_out, written_order
from deltajoin.planner.kept import holds, replanned
from deltajoin.planner.lookup import LOOKUP, Price, lookup_pricing
from deltajoin.planner.search import JoinOrder, Search
from deltajoin.planner.solver import COST, Strategy, edges_of, solve_path
from deltajoin.planner.statistics import Statistics
from deltajoin.planner.steps import Steps

#: Driver, or relation that is entered -> the order from there.
Orders = Mapping[str, JoinOrder]
#: Ways to share that are weighed against separate orders.
_CORES = 2


@dataclass(frozen=True)
class LookupOrders:
    """Orders of the relations of one inner join; `strategy` None: as written."""

    graph: JoinGraph
    statistics: Statistics
    strategy: Strategy | None = COST

    def alone(self, start: str, rows: float, last: Sequence[str] = ()) -> JoinOrder:
        """The order from one relation, of so many rows; that of the `last` path while it holds."""
        if self.strategy != COST:
            return self._by_rule(start, rows)
        search = Search(self._steps, 1, self._price)
        best, order = search.order((start,), rows), order_within(self.graph, last, start)
        pinned = search.along(order, rows) if order else best
        return pinned if holds(pinned.cost, best.cost) else best

    def together(
        self,
        starts: Mapping[str, float],
        executed: Callable[[Orders], int],
        last: Mapping[str, Sequence[str]],
    ) -> tuple[Orders, dict[str, str]]:
        """The orders of some drivers' paths; and for those that are no more what they were, old and
        new cost of all together.

        Args:
            starts: driver -> rows of its change.
            executed: how many lookups a run makes by some orders.
            last: driver -> its path in the last like epoch.
        """
        if self.strategy != COST or not starts:
            return {driver: self._by_rule(driver, rows) for driver, rows in starts.items()}, {}
        search = Search(self._steps, len(starts), self._price)
        searches = {driver: self._driven(driver, search) for driver in starts}
        found = {driver: searches[driver].order((driver,), rows) for driver, rows in starts.items()}
        candidates: list[Orders] = [found]
        if len(starts) > 1:
            candidates += _aligned(search, found, starts)

        def cost(orders: Orders) -> float:
            lookups = LOOKUP * executed(orders)
            return sum(order.cost for order in orders.values()) + lookups

        best = min(candidates, key=lambda orders: float(f"{cost(orders):.5g}"))
        pinned: dict[str, JoinOrder] = {}
        for driver, rows in starts.items():
            if (order := order_within(self.graph, last[driver], driver)) is None:
                return best, {}
            pinned[driver] = searches[driver].along(order, rows)
        old, new = cost(pinned), cost(best)
        if holds(old, new):
            return pinned, {}
        moved = [d for d in starts if best[d].relations != pinned[d].relations]
        return best, {d: replanned(f"Δ{d}", old, new) for d in moved}

    @cached_property
    def _steps(self) -> Steps:
        return Steps(self.graph, self.statistics)

    @cached_property
    def _price(self) -> Price:
        return lookup_pricing(self._steps)

    def _driven(self, driver: str, search: Search) -> Search:
        """The search for one driver's path, for which its measured lookups count."""
        statistics = self.statistics.driven_by(driver)
        if statistics is self.statistics:
            return search
        return Search(Steps(self.graph, statistics), len(self.graph.relations), search.price)

    def _by_rule(self, start: str, rows: float) -> JoinOrder:
        """The order by a rule, with the rows it should give."""
        if self.strategy is None:
            names = written_order(self.graph, start)
        else:
            written = tuple(relation.name for relation in self.graph.relations)
            names = solve_path(edges_of(self.graph), written, self.strategy, start)
        estimates = [rows]
        for position, name in enumerate(names[1:], start=1):
            bound = frozenset(names[:position])
            estimates.append(estimates[-1] * fan_out(self.graph, self.statistics, bound, name))
        return JoinOrder(names, tuple(estimates), sum(estimates[1:]))


def _aligned(search: Search, alone: Orders, starts: Mapping[str, float]) -> Iterator[Orders]:
    """Orders that first bind the changed relations and what links them, then all go one way."""
    steps, changed = search.steps, frozenset(alone)
    # The shortest beginning of each order that holds all changed relations.
    cores = {
        steps.set_of(frozenset(names[: 1 + max(map(names.index, changed))]))
        for names in (found.relations for found in alone.values())
    }
    cores |= {steps.connected(steps.set_of(changed))}
    for within in sorted(cores - {steps.everything}, key=lambda c: (c.bit_count(), c))[:_CORES]:
        core = steps.names_of(within)
        heads = {d: search.order((d,), rows, within) for d, rows in sorted(starts.items())}
        total = sum(head.rows[-1] for head in heads.values())
        tail = search.order(core, total)
        yield {d: _joined(head, tail, len(core)) for d, head in heads.items()}


def _joined(head: JoinOrder, tail: JoinOrder, core: int) -> JoinOrder:
    """A path's own beginning, then the common end with this path's part of the rows."""
    part = head.rows[-1] / tail.rows[0]
    rows = (*head.rows, *(rows * part for rows in tail.rows[1:]))
    return JoinOrder(head.relations + tail.relations[core:], rows, head.cost + tail.cost * part)
