"""Bushy plans for any graph: greedy operator ordering, and the best plans over greedy orders.

Greedy operator ordering joins the two sub-plans whose join has the fewest rows until one is left.
Its early choices are never taken back: `windows` mends them. Under conflict rules they may lead to
a dead end, where more than one is left. Over a linear order dynamic programming finds the best plan
that joins adjacent intervals only, in O(n^3) (linearised DP; Neumann and Radke, Adaptive
Optimization of Very Large Join Queries).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush

from deltajoin.planner.combine import Combiner, Plans, SubPlan
from deltajoin.planner.hypergraph import bits


def merge_greedily(combiner: Combiner, units: Iterable[SubPlan]) -> tuple[SubPlan, ...]:
    """Join the units until no two may be joined; more than one plan is left at a dead end."""
    live = {unit.relations: unit for unit in units}
    waiting: list[tuple[float, str, SubPlan]] = []

    def candidates(
        unit: SubPlan, others: Iterable[SubPlan]
    ) -> Iterator[tuple[float, str, SubPlan]]:
        for other in others:
            plan = combiner.join(unit, other)
            if plan is not None:
                yield float(f"{plan.rows:.9g}"), plan.text, plan

    plans = tuple(live.values())
    for position, unit in enumerate(plans):
        waiting += candidates(unit, plans[:position])
    heapify(waiting)
    while waiting:
        _, _, plan = heappop(waiting)
        left, right = plan.left, plan.right
        if left is None or right is None:
            continue
        if live.get(left.relations) is not left or live.get(right.relations) is not right:
            continue
        del live[left.relations], live[right.relations]
        for candidate in candidates(plan, live.values()):
            heappush(waiting, candidate)
        live[plan.relations] = plan
    return tuple(live.values())


def greedy_plan(combiner: Combiner) -> SubPlan | None:
    """A plan by greedy operator ordering; None when it ends in a dead end."""
    leaves = [combiner.leaf(number) for number in range(combiner.graph.size)]
    plans = merge_greedily(combiner, leaves)
    return plans[0] if len(plans) == 1 else None


def greedy_orders(combiner: Combiner, starts: int) -> tuple[tuple[int, ...], ...]:
    """Left-deep orders that take the relation with the fewest rows after it next, cheapest first.

    Args:
        starts: how many first relations are tried, the smallest first.
    """
    size = combiner.graph.size
    firsts = sorted(range(size), key=lambda number: (combiner.rows(1 << number), number))
    found: list[tuple[float, tuple[int, ...]]] = []
    for first in firsts[:starts]:
        order, joined, cost = [first], 1 << first, 0.0
        rest = combiner.graph.everything & ~joined
        while rest:
            steps = [
                (combiner.rows(joined | bit), bit)
                for bit in bits(rest)
                if combiner.kind(joined, bit)
            ]
            if not steps:
                break
            rows, bit = min(steps)
            order.append(bit.bit_length() - 1)
            joined, rest, cost = joined | bit, rest & ~bit, cost + rows
        else:
            found.append((float(f"{cost:.9g}"), tuple(order)))
    return tuple(order for _, order in sorted(found))


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
