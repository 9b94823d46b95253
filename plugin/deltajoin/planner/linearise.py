"""Acyclic inner graphs beyond the exact budget: linear orders first, bushy plans within them.

IKKBZ finds, for each first relation, the left-deep order of least summed intermediate rows that
keeps to the tree of edges, in O(n log n): a chain of relations is judged by (T - 1) / C, T its rows
per row that enters and C its summed rows (the adjacent sequence interchange property). Linearised
dynamic programming then takes such an order and finds the best bushy plan whose joins are all of
adjacent intervals, in O(n^3). Source: Neumann and Radke, Adaptive Optimization of Very Large Join
Queries. For a graph with cycles a spanning tree gives orders that may be good, but needn't be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from deltajoin.planner.combine import Combiner, Plans, SubPlan, is_plain
from deltajoin.planner.hypergraph import bits

_LEAST, _MOST = 1e-300, 1e300


@dataclass(frozen=True)
class LinearOrder:
    """Bit numbers in join order, and the rows of all its joins summed, by edge selectivities."""

    relations: tuple[int, ...]
    cost: float

    @property
    def rank(self) -> tuple[float, tuple[int, ...]]:
        """Smaller is better; estimates that differ only by rounding tie."""
        return (float(f"{self.cost:.9g}"), self.relations)


@dataclass(frozen=True)
class _Chain:
    """Relations that follow each other: rows per entering row, and rows summed per entering row."""

    relations: tuple[int, ...]
    rows: float
    cost: float

    @property
    def rank(self) -> float:
        return (self.rows - 1) / self.cost

    def then(self, other: _Chain) -> _Chain:
        return _Chain(
            self.relations + other.relations,
            min(self.rows * other.rows, _MOST),
            min(self.cost + self.rows * other.cost, _MOST),
        )


def spanning_tree(combiner: Combiner) -> tuple[int, ...] | None:
    """Per relation its neighbours in the spanning tree of the most selective written edges.

    None when an edge is not inner, has conflict rules or spans more than two relations.
    """
    graph = combiner.graph
    written = [edge for edge in graph.edges if not edge.implied]
    if not all(is_plain(edge) for edge in written):
        return None
    near = [0] * graph.size
    part = [1 << number for number in range(graph.size)]

    def selectivity(joined: int) -> float:
        apart = math.fsum(math.log(combiner.rows(bit)) for bit in bits(joined))
        return round(math.log(combiner.rows(joined)) - apart, 9)

    pairs = {edge.relations for edge in written}
    for joined in sorted(pairs, key=lambda joined: (selectivity(joined), joined)):
        one, other = (bit.bit_length() - 1 for bit in bits(joined))
        if not part[one] >> other & 1:
            near[one] |= 1 << other
            near[other] |= 1 << one
            merged = part[one] | part[other]
            for bit in bits(merged):
                part[bit.bit_length() - 1] = merged
    return tuple(near) if part[0] == graph.everything else None


def linear_orders(combiner: Combiner, tree: Sequence[int]) -> tuple[LinearOrder, ...]:
    """The best left-deep order from each first relation (IKKBZ), best first.

    Args:
        tree: per relation the bit set of its neighbours; a tree over all relations.
    """
    known: dict[tuple[int, int], tuple[_Chain, ...]] = {}

    def below(relation: int, parent: int) -> tuple[_Chain, ...]:
        """What hangs on a relation in ascending rank, whatever of it must come first, first."""
        chains: list[_Chain] = []
        for bit in bits(tree[relation] & ~(1 << parent if parent >= 0 else 0)):
            child = bit.bit_length() - 1
            if (child, relation) not in known:
                known[child, relation] = with_head(child, relation)
            chains += known[child, relation]
        return tuple(sorted(chains, key=lambda chain: (chain.rank, chain.relations)))

    def with_head(relation: int, parent: int) -> tuple[_Chain, ...]:
        rows = combiner.rows(1 << relation | 1 << parent) / combiner.rows(1 << parent)
        rows = min(max(rows, _LEAST), _MOST)
        chains = [_Chain((relation,), rows, rows), *below(relation, parent)]
        while len(chains) > 1 and chains[0].rank >= chains[1].rank:
            chains[:2] = [chains[0].then(chains[1])]
        return tuple(chains)

    def from_first(relation: int) -> LinearOrder:
        rows = combiner.rows(1 << relation)
        whole = _Chain((relation,), rows, 0.0)
        for chain in below(relation, -1):
            whole = whole.then(chain)
        return LinearOrder(whole.relations, whole.cost)

    orders = (from_first(relation) for relation in range(len(tree)))
    return tuple(sorted(orders, key=lambda order: order.rank))


def best_bushy(
    combiner: Combiner, order: Sequence[int], most: float = math.inf
) -> tuple[SubPlan | None, int]:
    """The best plan whose every join is of two adjacent intervals of an order; pairs tried.

    None when no such plan is legal, or none costs less than `most`.
    """
    size = len(order)
    plans: list[list[Plans]] = [[()] * size for _ in order]
    ends: list[list[int]] = [[position] for position in range(size)]
    for position, relation in enumerate(order):
        plans[position][position] = (combiner.leaf(relation),)
    pairs = 0
    for width in range(1, size):
        for first in range(size - width):
            last = first + width
            best: Plans = ()
            for middle in ends[first]:
                ones, others = plans[first][middle], plans[middle + 1][last]
                if others:
                    pairs += 1
                    best = combiner.better(best, ones, others, most)
            if best:
                plans[first][last] = best
                ends[first].append(last)
    return next(iter(plans[0][-1]), None), pairs


def linearised_plan(
    combiner: Combiner, tree: Sequence[int], budget: int
) -> tuple[SubPlan | None, int]:
    """The best plan over the best linear orders, as many as the budget allows; pairs tried.

    At least one order is tried. None when none gives a legal plan.
    """
    best: SubPlan | None = None
    spent = 0
    for relations in dict.fromkeys(order.relations for order in linear_orders(combiner, tree)):
        plan, pairs = best_bushy(combiner, relations, best.cost if best else math.inf)
        spent += pairs
        if plan is not None and (best is None or plan.rank < best.rank):
            best = plan
        if spent >= budget:
            break
    return best, spent
