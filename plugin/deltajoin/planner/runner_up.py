"""The best plan of the whole query whose join tree is another than the chosen one's.

Within the exact budget each set keeps its two cheapest trees: the second best over a pair of sets
has at most one side that is not the best, so the two of the root are the two best of all bushy
plans, where costs depend on the joined sets. Beyond the budget: the cheapest of the other plans
from which the search started. Two plans have one tree when they join the same sets, whichever side
builds. Caller: explain; planning itself does not need it.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltajoin.planner.combine import Combiner, SubPlan
from deltajoin.planner.enumerate import walk_pairs
from deltajoin.planner.trace import Trace


@dataclass(frozen=True)
class RunnerUp:
    """The plan, None when there is no other; `among`: what it was the best of, or why none."""

    plan: SubPlan | None
    among: str


def tree_of(plan: SubPlan) -> frozenset[int]:
    """The sets that a plan joins: its tree, whichever side is left or right."""
    return frozenset(node.relations for node in plan.nodes())


def two_best(combiner: Combiner) -> tuple[SubPlan, ...]:
    """The cheapest bushy plan and the cheapest of another tree, which may be missing."""
    graph = combiner.graph
    best: dict[int, tuple[SubPlan, ...]] = {1 << i: (combiner.leaf(i),) for i in range(graph.size)}

    def visit(one: int, other: int) -> bool:
        here, there = best[one], best[other]
        sides = [(here[0], there[0])]
        sides += [(second, there[0]) for second in here[1:]]
        sides += [(here[0], second) for second in there[1:]]
        found = [plan for a, b in sides if (plan := combiner.join(a, b)) is not None]
        if not found:
            return False
        known = (*best.get(one | other, ()), *found)
        best[one | other] = tuple(sorted(known, key=lambda plan: plan.rank)[:2])
        return True

    walk_pairs(graph, visit)
    return best[graph.everything]


def exact_runner_up(combiner: Combiner, chosen: SubPlan, pairs: int) -> RunnerUp:
    """The best of all bushy plans but the chosen one."""
    tree = tree_of(chosen)
    other = next((plan for plan in two_best(combiner) if tree_of(plan) != tree), None)
    if other is None:
        return RunnerUp(None, "there is one join tree only")
    return RunnerUp(other, f"all plans over {pairs:,} pairs")


def started_runner_up(trace: Trace, chosen: SubPlan) -> RunnerUp:
    """The cheapest of the plans from which a search set out."""
    tree = tree_of(chosen)
    others = [start.plan for start in trace.starts if tree_of(start.plan) != tree]
    if not others:
        return RunnerUp(None, "all starts led to the same join tree")
    among = f"{len(others)} other starts, before they are improved"
    return RunnerUp(min(others, key=lambda plan: plan.rank), among)
