"""Exact windows over the tree of a plan (iterative dynamic programming).

Some neighbouring joins of the tree are cut out with what is below them as units, and these are put
together anew by exact enumeration. The old way is among those tried, so a window never makes a plan
worse and never an illegal one. Bounded by pairs tried, not by time: the same graph gives the same
plan.
"""

from __future__ import annotations

from deltajoin.planner.combine import Combiner, Plans, SubPlan
from deltajoin.planner.enumerate import best_plans, count_pairs
from deltajoin.planner.hypergraph import Hypergraph

SMALLEST, FIRST_SIZE, LARGEST = 5, 7, 14
WINDOW_PAIRS = 1500


class Windows:
    """Exact windows over a plan's tree under one budget of pairs; see the module."""

    def __init__(self, combiner: Combiner, budget: int) -> None:
        self._combiner = combiner
        self._tried: set[tuple[int, ...]] = set()
        self._size = FIRST_SIZE
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
        units, graph, pairs = self._cut(node)
        key = tuple(sorted(unit.relations for unit in units))
        if len(units) < 3 or key in self._tried:
            return None
        self._tried.add(key)
        self.left -= pairs
        best = best_plans(self._combiner.better, graph, units, plan.cost)
        found = best.get(graph.everything, ())
        if all(p.rank >= node.rank and p.place in (0, node.place) for p in found):
            return None
        return self._replaced(plan, found)

    def _cut(self, node: SubPlan) -> tuple[list[SubPlan], Hypergraph, int]:
        """A window below a join that has few enough pairs: its units, their graph and its pairs.

        Its size is what the last window bore, or one more.
        """
        size = min(self._size + 1, LARGEST)
        while True:
            units = _units(node, size)
            graph = self._combiner.graph.contracted([unit.relations for unit in units])
            pairs = count_pairs(graph, WINDOW_PAIRS)
            if pairs <= WINDOW_PAIRS or size <= SMALLEST:
                break
            size -= 1
        if len(units) == size:
            self._size = size
        return units, graph, pairs

    def _replaced(self, plan: SubPlan, parts: Plans) -> SubPlan | None:
        """The cheapest plan with its sub-plan of the same relations replaced by one of some."""
        path = []
        node = plan
        while node.relations != parts[0].relations:
            if node.left is None or node.right is None:
                return None
            inside = node.left.relations & parts[0].relations
            node, beside = (node.left, node.right) if inside else (node.right, node.left)
            path.append(beside)
        for beside in reversed(path):
            parts = parts and self._combiner.better((), parts, (beside,))
        return next(iter(parts), None)


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
