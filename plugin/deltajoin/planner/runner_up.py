"""The best plan of the whole query whose join tree is another than the chosen one's.

Within the exact budget each set keeps its two cheapest trees for each placement: whatever holds a
third one is not cheaper than with either of the first two, so the two of the root are the two best
of all bushy plans. Beyond the budget: the cheapest of the other plans from which the search
started. Two plans have one tree when they join the same sets, whichever side builds. Caller:
explain; planning itself does not need it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

from deltajoin.planner.combine import CLEARLY, Combiner, Plans, SubPlan
from deltajoin.planner.enumerate import best_plans
from deltajoin.planner.trace import Trace


@dataclass(frozen=True)
class RunnerUp:
    """The plan, None when there is no other; `among`: what it was the best of, or why none."""

    plan: SubPlan | None
    among: str


def two_best(combiner: Combiner) -> tuple[SubPlan, ...]:
    """The cheapest bushy plan and the cheapest of another tree, which may be missing."""
    graph, places = combiner.graph, combiner.cost.places

    def better(plans: Plans, ones: Plans, others: Plans, most: float) -> Plans:
        if len(plans) > 1 and not places(plans[0].relations):
            most = plans[-1].cost * (1 + CLEARLY)
        for one, other in product(ones, others):
            if one.cost + other.cost <= most:
                for plan in (combiner.join_as(one, other), combiner.join_as(other, one)):
                    plans = _with_tree(plans, plan) if plan else plans
        return plans

    leaves = [combiner.leaf(number) for number in range(graph.size)]
    return best_plans(better, graph, leaves, math.inf)[graph.everything][:2]


def _with_tree(plans: Plans, plan: SubPlan) -> Plans:
    """The plans of a set, one more among them unless two trees, or its own, are better and lie
    alike."""
    if not _is_third(plans, plan):
        plans = tuple(sorted((*plans, plan), key=lambda p: p.rank))
        return tuple(p for n, p in enumerate(plans) if not _is_third(plans[:n], p))
    return plans


def _is_third(plans: Plans, plan: SubPlan) -> bool:
    before = [p for p in plans if plan.place in (0, p.place) and p.comes_before(plan)]
    return any(p.tree != before[0].tree or p.tree == plan.tree for p in before)


def exact_runner_up(combiner: Combiner, chosen: SubPlan, pairs: int) -> RunnerUp:
    """The best of all bushy plans but the chosen one."""
    other = next((plan for plan in two_best(combiner) if plan.tree != chosen.tree), None)
    if other is None:
        return RunnerUp(None, "there is one join tree only")
    return RunnerUp(other, f"all plans over {pairs:,} pairs")


def started_runner_up(trace: Trace, chosen: SubPlan) -> RunnerUp:
    """The cheapest of the plans from which a search set out."""
    others = [plan for plan in trace.starts if plan.tree != chosen.tree]
    if not others:
        return RunnerUp(None, "all starts led to the same join tree")
    among = f"{len(others)} other starts, before they are improved"
    return RunnerUp(min(others, key=lambda plan: plan.rank), among)
