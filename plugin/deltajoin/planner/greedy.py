"""Bushy plans for any graph: greedy operator ordering, then exact windows over the tree.

Greedy operator ordering joins the two sub-plans whose join looks best until one is left. Its early
choices are never taken back, so windows follow (iterative dynamic programming): some neighbouring
joins of the tree are cut out with what is below them as units, and put together anew by exact
enumeration. The old way is among those tried, so a window never makes a plan worse and never an
illegal one. Both are bounded by pairs tried, not by time: the same graph gives the same plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush

from deltajoin.planner.combine import Combiner, SubPlan, bits

Score = Callable[[SubPlan], float]

WINDOW_UNITS = (14, 12, 10, 9, 8, 7, 6, 5)
WINDOW_PAIRS = 1500


def fewest_rows(plan: SubPlan) -> float:
    """The join with the fewest rows first."""
    return plan.rows


def least_growth(plan: SubPlan) -> float:
    """The join that adds the fewest rows to those of its two sides first."""
    sides = sum(side.rows for side in (plan.left, plan.right) if side is not None)
    return plan.rows - sides


SCORES: tuple[Score, ...] = (fewest_rows, least_growth)


def merge_greedily(
    combiner: Combiner,
    units: Iterable[SubPlan],
    score: Score,
    forbidden: frozenset[int] = frozenset(),
) -> tuple[SubPlan, ...]:
    """Join the units until no two may be joined; more than one plan is left at a dead end.

    Args:
        forbidden: sets that must not be formed.
    """
    live = {unit.relations: unit for unit in units}
    waiting: list[tuple[float, str, SubPlan]] = []

    def candidates(unit: SubPlan, others: Iterable[SubPlan]) -> Iterator[tuple[float, str, SubPlan]]:
        for other in others:
            plan = combiner.join(unit, other)
            if plan is not None and plan.relations not in forbidden:
                yield float(f"{score(plan):.9g}"), plan.text, plan

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


def connected_pairs(adjacency: Sequence[int]) -> Iterator[tuple[int, int]]:
    """All pairs of disjoint connected sets with an edge between, smaller sets before larger (DPccp).

    Args:
        adjacency: per vertex the bit set of its neighbours.
    """

    def around(joined: int, beyond: int) -> int:
        found = 0
        for bit in bits(joined):
            found |= adjacency[bit.bit_length() - 1]
        return found & ~beyond

    def grow(joined: int, beyond: int) -> Iterator[int]:
        near = around(joined, beyond | joined)
        part = near & -near
        while part:
            yield joined | part
            part = (part - near) & near
        part = near & -near
        while part:
            yield from grow(joined | part, beyond | near)
            part = (part - near) & near

    def partners(joined: int) -> Iterator[tuple[int, int]]:
        beyond = joined | ((joined & -joined) - 1)
        near = around(joined, beyond)
        for bit in sorted(bits(near), reverse=True):
            yield joined, bit
            for grown in grow(bit, beyond | (near & (bit - 1)) | bit):
                yield joined, grown

    for number in reversed(range(len(adjacency))):
        bit = 1 << number
        yield from partners(bit)
        for grown in grow(bit, (bit << 1) - 1):
            yield from partners(grown)


class Windows:
    """Exact windows over a plan's tree under one budget of pairs; see the module."""

    def __init__(self, combiner: Combiner, budget: int) -> None:
        self._combiner = combiner
        self._tried: set[tuple[int, ...]] = set()
        self.left = budget

    def improve(self, plan: SubPlan) -> SubPlan:
        """The plan with its windows re-optimised until none improves it or the budget is spent."""
        improved = True
        while improved and self.left > 0:
            improved = False
            for join in plan.joins():
                if self.left <= 0:
                    break
                better = self._window(plan, join.relations)
                if better is not None and better.rank < plan.rank:
                    plan, improved = better, True
        return plan

    def _window(self, plan: SubPlan, top: int) -> SubPlan | None:
        """The plan with the best tree over one window; None when there is nothing new to try."""
        node = next((node for node in plan.nodes() if node.relations == top), None)
        if node is None:
            return None
        units, pairs = self._cut(node)
        key = tuple(sorted(unit.relations for unit in units))
        if len(units) < 3 or key in self._tried:
            return None
        self._tried.add(key)
        self.left -= len(pairs)
        best = self._exact(units, pairs)
        if best is None or best.rank >= node.rank:
            return None
        return self._replaced(plan, best)

    def _cut(self, node: SubPlan) -> tuple[list[SubPlan], list[tuple[int, int]]]:
        """The largest window below a join that has few enough pairs: its units and these pairs."""
        for size in WINDOW_UNITS:
            units = _units(node, size)
            pairs: list[tuple[int, int]] = []
            for pair in connected_pairs(self._adjacency(units)):
                pairs.append(pair)
                if len(pairs) > WINDOW_PAIRS:
                    break
            else:
                break
        return units, pairs

    def _adjacency(self, units: Sequence[SubPlan]) -> list[int]:
        size = self._combiner.graph.size
        reach = [self._combiner.reach(unit.relations) for unit in units]
        return [
            sum(
                1 << other
                for other, unit in enumerate(units)
                if other != number and (mine & unit.relations or (mine & reach[other]) >> size)
            )
            for number, mine in enumerate(reach)
        ]

    def _exact(
        self, units: Sequence[SubPlan], pairs: Iterable[tuple[int, int]]
    ) -> SubPlan | None:
        best: dict[int, SubPlan] = {1 << number: unit for number, unit in enumerate(units)}
        for left, right in pairs:
            one, other = best.get(left), best.get(right)
            if one is not None and other is not None:
                plan = self._combiner.better(best.get(left | right), one, other)
                if plan is not None:
                    best[left | right] = plan
        return best.get((1 << len(units)) - 1)

    def _replaced(self, plan: SubPlan, part: SubPlan) -> SubPlan | None:
        """The plan with its sub-plan of the same relations replaced."""
        path = []
        node = plan
        while node.relations != part.relations:
            if node.left is None or node.right is None:
                return None
            inside = node.left.relations & part.relations
            node, beside = (node.left, node.right) if inside else (node.right, node.left)
            path.append(beside)
        result: SubPlan | None = part
        for beside in reversed(path):
            result = result and self._combiner.join(result, beside)
        return result


def _units(node: SubPlan, size: int) -> list[SubPlan]:
    """What is below the topmost joins of a tree, the costliest opened first."""
    units = [node]
    while len(units) < size:
        opened = max(units, key=lambda unit: (bool(unit.kind), unit.cost, unit.text))
        if opened.left is None or opened.right is None:
            break
        units.remove(opened)
        units += (opened.left, opened.right)
    return units
