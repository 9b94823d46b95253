"""Every pair of connected sets that an edge joins, each once: DPhyp.

Moerkotte, Neumann: Dynamic programming strikes back, SIGMOD 2008. A set grows from its smallest
relation by subsets of its neighbours; its partners grow in the same way from its own neighbours, so
that a pair comes after all pairs of which its two sides are made. Edges over more than two
relations give one relation of their far side as the neighbour, and growth reaches the rest.

`count_pairs` walks without plans, to know beforehand what a search would cost; `best_plans` is the
search itself, of whole graphs and of windows over a plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

from deltajoin.planner.combine import Combiner, Plans, SubPlan
from deltajoin.planner.hypergraph import Hypergraph, bits, union
from deltajoin.planner.trace import Trace

#: Plans of a set, and those of two of its parts, which may cost so much -> plans of the set.
Better = Callable[[Plans, Plans, Plans, float], Plans]
#: Work that a counted pair may take: subsets looked at, and sets grown, which cost as much as some.
_WORK_PER_PAIR, _GROWN = 30, 8


class _Enough(Exception):
    """The limit is passed."""


def count_pairs(graph: Hypergraph, limit: int) -> int:
    """How many pairs of sets the enumeration visits.

    `limit + 1` when it is more than the limit, or when few pairs are found for the sets looked at:
    then enumeration would take as long.
    """
    pairs = 0

    def visit(one: int, other: int) -> bool:
        nonlocal pairs
        pairs += 1
        if pairs > limit:
            raise _Enough
        return True

    walk = _Walk(graph, visit, work=_WORK_PER_PAIR * (limit + graph.size + 1))
    try:
        walk.run()
    except _Enough:
        return limit + 1
    return pairs


def exact_plan(
    combiner: Combiner, trace: Trace | None = None, known: SubPlan | None = None
) -> SubPlan:
    """The cheapest bushy plan of the combiner's graph; ties go to the smaller `SubPlan.rank`.

    Args:
        known: a plan. Sides that cost more together are not joined, but for a trace.
    """
    graph = combiner.graph
    leaves = [combiner.leaf(number) for number in range(graph.size)]
    most = math.inf if known is None or trace is not None else known.cost
    best = best_plans(combiner.better, graph, leaves, most)
    if trace is not None:
        plans = (each[0] for each in best.values())
        trace.sets = sorted(plans, key=lambda p: (p.relations.bit_count(), p.relations))
    if known is None:
        return best[graph.everything][0]
    return min((*best.get(graph.everything, ()), known), key=lambda plan: plan.rank)


def best_plans(
    better: Better, graph: Hypergraph, units: Sequence[SubPlan], most: float
) -> dict[int, Plans]:
    """The plans that `better` keeps of each set of units: of relations, or of joined sets.

    Args:
        graph: over the units, each a bit.
        most: what two sides that are joined may cost together.
    """
    best: dict[int, Plans] = {1 << number: (unit,) for number, unit in enumerate(units)}

    def visit(one: int, other: int) -> bool:
        plans, ones, others = best.get(one | other, ()), best.get(one), best.get(other)
        if ones and others:
            plans = better(plans, ones, others, most)
        if plans:
            best[one | other] = plans
        return bool(plans)

    _Walk(graph, visit).run()
    return best


class _Walk:
    """One enumeration; `visit` says whether the union of a pair can be built."""

    def __init__(
        self, graph: Hypergraph, visit: Callable[[int, int], bool], work: int | None = None
    ) -> None:
        self._size, self._everything = graph.size, graph.everything
        self._visit = visit
        self._work = work
        self._near = [0] * graph.size
        far: set[tuple[int, int]] = set()
        for edge in graph.edges:
            for one, other in edge.splits:
                self._link(one, other, far)
                self._link(other, one, far)
        self._plain = not far and not any(edge.rules for edge in graph.edges)
        #: Edges over more than two relations, under the smallest relation of their near side.
        self._far: dict[int, list[tuple[int, int]]] = {}
        for pair in far:
            self._far.setdefault(pair[0] & -pair[0], []).append(pair)
        self._has_far = union(self._far)
        self._near_of = cache(self._near_of_all)
        self._far_of = cache(self._far_of_any)
        self._built: set[int] = {1 << i for i in range(graph.size)}

    def _link(self, one: int, other: int, far: set[tuple[int, int]]) -> None:
        if one & (one - 1) or other & (other - 1):
            far.add((one, other))
        else:
            self._near[one.bit_length() - 1] |= other

    def run(self) -> None:
        """Visit all pairs."""
        for number in reversed(range(self._size)):
            start = 1 << number
            self._partners(start)
            self._grow(start, (start << 1) - 1, self._partners)

    def _near_of_all(self, joined: int) -> int:
        """All relations that an edge over two relations links with one of the set."""
        low = joined & -joined
        return self._near[low.bit_length() - 1] | self._near_of(joined ^ low) if joined else 0

    def _far_of_any(self, joined: int) -> tuple[int, ...]:
        """The far sides of all larger edges whose near side lies within the set."""
        pairs = (pair for bit in bits(joined & self._has_far) for pair in self._far[bit])
        return tuple(sorted({b for a, b in pairs if a & joined == a and not b & joined}))

    def _neighbours(self, joined: int, apart: int) -> int:
        """Neighbours of a set outside `apart`; of a far side, its smallest relation."""
        apart |= joined
        found = self._near_of(joined) & ~apart
        if joined & self._has_far:
            for other in self._far_of(joined):
                if not other & apart:
                    found |= other & -other
        return found

    def _grow(self, joined: int, apart: int, found: Callable[[int], None]) -> None:
        """Hand over all connected sets that hold `joined` and nothing of `apart`."""
        near = self._neighbours(joined, apart)
        if not near:
            return
        if self._work is not None:
            self._work -= _GROWN + (1 << near.bit_count())
            if self._work < 0:
                raise _Enough
        built, plain = self._built, self._plain
        part = near & -near
        while part:
            if plain or joined | part in built:
                found(joined | part)
            part = (part - near) & near
        apart |= near
        part = near & -near if self._everything & ~(apart | joined) else 0
        while part:
            self._grow(joined | part, apart, found)
            part = (part - near) & near

    def _partners(self, joined: int) -> None:
        """All sets that this one is joined with, of those whose smallest relation is larger."""

        def pair(partner: int) -> None:
            if (plain or self._joins(joined, partner)) and self._visit(joined, partner):
                built.add(joined | partner)

        built, plain = self._built, self._plain
        apart = joined | ((joined & -joined) << 1) - 1
        near = self._neighbours(joined, apart)
        rest = near
        while rest:
            high = 1 << (rest.bit_length() - 1)
            rest ^= high
            pair(high)
            self._grow(high, apart | (near & (high << 1) - 1), pair)

    def _joins(self, one: int, other: int) -> bool:
        """True when an edge connects the two sets, its rules apart."""
        if self._near_of(one) & other:
            return True
        return any(side & other == side for side in self._far_of(one))
