"""Yardsticks for plans, slow on purpose and blind to how the planner works.

all trees     every bushy tree in every orientation, each priced as a whole: no sub-plan is left
              out for another one of its set, and how rows lie is never forgotten
long search   annealing from many starts, seeded: a move takes a sub-plan out of the tree and
              joins it in at another place; it is kept when it makes the plan cheaper, or by
              chance when it makes it a little dearer
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from functools import cache

from deltajoin.graph import JoinGraph
from deltajoin.planner.build_graph import build_hypergraph
from deltajoin.planner.combine import Combiner, SubPlan
from deltajoin.planner.cost import SparkCost
from deltajoin.planner.estimate import SetEstimator
from deltajoin.planner.statistics import Statistics


class EveryPlace(SparkCost):
    """The planner's cost, in which rows lie by a key whether that is of use above or not."""

    def places(self, joined: int) -> int:
        """All keys."""
        return -1


def spark_combiner(
    graph: JoinGraph, statistics: Statistics, model: type[SparkCost] = SparkCost
) -> Combiner:
    """A combiner with the estimates and the cost that the planner uses."""
    types = {(r.source, column): "bigint" for r in graph.relations for column in r.columns}
    hypergraph = build_hypergraph(graph, types)
    estimator = SetEstimator(graph, hypergraph, statistics)
    return Combiner(hypergraph, estimator, model(graph, hypergraph, statistics))


def best_tree(graph: JoinGraph, statistics: Statistics) -> SubPlan:
    """The cheapest of all trees; for a handful of relations."""
    return min(all_trees(graph, statistics), key=lambda plan: plan.rank)


def all_trees(graph: JoinGraph, statistics: Statistics) -> tuple[SubPlan, ...]:
    """Every tree under the real cost."""
    combiner = spark_combiner(graph, statistics, EveryPlace)

    @cache
    def trees(joined: int) -> tuple[SubPlan, ...]:
        if not joined & (joined - 1):
            return (combiner.leaf(joined.bit_length() - 1),)
        found: list[SubPlan] = []
        part = (joined - 1) & joined
        while part:
            pairs = ((left, right) for left in trees(part) for right in trees(joined ^ part))
            plans = (combiner.join_as(left, right) for left, right in pairs)
            found += (plan for plan in plans if plan is not None)
            part = (part - 1) & joined
        return tuple(found)

    return trees(combiner.graph.everything)


def random_plan(combiner: Combiner, rng: random.Random) -> SubPlan:
    """A plan of random legal joins; the graph is connected and inner."""
    live = [combiner.leaf(number) for number in range(combiner.graph.size)]
    while len(live) > 1:
        one, other = rng.sample(live, 2)
        plan = combiner.join(one, other)
        if plan is not None:
            live = [unit for unit in live if unit is not one and unit is not other] + [plan]
    return live[0]


def long_search(
    combiner: Combiner, starts: Iterable[SubPlan], restarts: int, moves: int, seed: int
) -> SubPlan:
    """The best plan seen from the given starts and as many random ones, some moves each."""
    rng = random.Random(seed)
    plans = [*starts, *(random_plan(combiner, rng) for _ in range(restarts))]
    found = [_anneal(combiner, plan, moves, rng) for plan in plans]
    best = min(found, key=lambda plan: plan.rank)
    return min(_anneal(combiner, best, 2 * moves, rng), best, key=lambda plan: plan.rank)


def _anneal(combiner: Combiner, plan: SubPlan, moves: int, rng: random.Random) -> SubPlan:
    best = plan
    nodes = [node.relations for node in plan.nodes()]
    for move in range(moves):
        heat = 0.5 * (1 - move / moves) ** 2
        moved = _move(combiner, plan, rng.choice(nodes), rng.choice(nodes))
        if moved is None:
            continue
        dearer = math.log(moved.cost) - math.log(plan.cost)
        if dearer <= 0 or (heat > 0 and rng.random() < math.exp(-dearer / heat)):
            plan = moved
            nodes = [node.relations for node in plan.nodes()]
            if plan.cost < best.cost:
                best = plan
    return best


def _move(combiner: Combiner, plan: SubPlan, part: int, place: int) -> SubPlan | None:
    """The plan with the sub-plan of `part` joined to that of `place` instead; None if illegal."""
    if part & place or part == plan.relations:
        return None
    taken: list[SubPlan] = []

    def rebuilt(node: SubPlan) -> SubPlan | None:
        if node.relations == part:
            taken.append(node)
            return None
        if node.left is None or node.right is None or not node.relations & part:
            return node
        left, right = rebuilt(node.left), rebuilt(node.right)
        return combiner.join(left, right) if left and right else left or right

    def inserted(node: SubPlan) -> SubPlan | None:
        if node.relations == place:
            return combiner.join(node, taken[0])
        if node.left is None or node.right is None or node.relations & place != place:
            return None
        inside, beside = node.left, node.right
        if not inside.relations & place:
            inside, beside = beside, inside
        grown = inserted(inside)
        return combiner.join(grown, beside) if grown else None

    rest = rebuilt(plan)
    return inserted(rest) if rest is not None and rest.relations == plan.relations & ~part else None
