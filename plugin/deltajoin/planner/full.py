"""The plan of a whole query: exact where it is affordable, else the best of several good ways.

    csg-cmp-pairs within the budget          exact      all bushy plans
    beyond, written inner edges are a tree   linearised IKKBZ orders, the best bushy plan over each
    beyond, anything else                    greedy     joins, and the best bushy plan over greedy
                                                        left-deep orders

Both of the latter are then improved by exact windows and by the best bushy plan over the order of
their leaves, in turn, until neither helps or the work allowed is done. Pairs are counted before any
plan is made; work is bounded in pairs too, in proportion to the number of relations.

Greedy joins may end where conflict rules leave no join. The query as written is always a legal
plan: it is improved instead, and `fallback` says so. Caller: pass it for a graph with other joins
than inner ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from deltajoin.graph import Block
from deltajoin.planner.combine import Combiner, SubPlan, bits, is_plain
from deltajoin.planner.enumerate import count_pairs, exact_plan
from deltajoin.planner.greedy import SCORES, greedy_orders, greedy_plan, merge_greedily
from deltajoin.planner.linearise import best_bushy, linearised_plan
from deltajoin.planner.windows import Windows

BUDGET = 10_000
#: Up to so many relations the work beyond the budget equals the budget; then it grows with them.
_SMALL = 16
#: A linear order of more relations has too many intervals.
_LINEAR_LIMIT = 200
_LEFT_DEEP_STEPS = 60_000
_ORDERS = 4


@dataclass(frozen=True)
class FullPlan:
    """A plan and how it was found.

    `method` is exact, linearised or greedy; `pairs` the pairs counted, one above the budget when
    there are more; `fallback` why the plan is not exact, empty when it is.
    """

    plan: SubPlan
    method: str
    pairs: int
    fallback: str = ""


def full_plan(
    combiner: Combiner, budget: int = BUDGET, written: Block | None = None
) -> FullPlan:
    """A cheap bushy plan of the combiner's graph.

    Args:
        budget: csg-cmp-pairs up to which all plans are enumerated.
        written: the block that the graph was built from; legal whatever the conflict rules are.
    """
    graph = combiner.graph
    pairs = count_pairs(graph, budget)
    if pairs <= budget:
        return FullPlan(exact_plan(combiner), "exact", pairs)
    work = max(budget, 1) * max(_SMALL, graph.size) // _SMALL
    reason = f"more than {budget:,} pairs"
    tree = _written_tree(combiner)
    if tree is not None and graph.size <= _LINEAR_LIMIT:
        plan, spent = linearised_plan(combiner, tree, work // 2)
        if plan is not None:
            better = _improved(combiner, [plan], work - spent)
            return FullPlan(better, "linearised", pairs, f"{reason}; inner edges form a tree")
    plans = _greedy_plans(combiner, work)
    if not plans:
        reason += "; greedy joins ended where conflict rules leave none"
        if written is None:
            return FullPlan(exact_plan(combiner), "exact", pairs, f"{reason}; all plans tried")
        plans = [written_plan(combiner, written)]
        reason += "; started from the query as written"
    return FullPlan(_improved(combiner, plans, work), "greedy", pairs, reason)


def written_plan(combiner: Combiner, block: Block) -> SubPlan:
    """The joins as the query nests them; the items of each block are joined greedily."""
    bit = combiner.graph.bit
    units = []
    for item in block.items:
        if isinstance(item, str):
            units.append(combiner.leaf(bit[item].bit_length() - 1))
            continue
        sides = (written_plan(combiner, side) for side in (item.left, item.right))
        joined = combiner.join(*sides)
        if joined is None:
            raise AssertionError(f"the graph was not built from this block: {item.relations}")
        units.append(joined)
    plans = merge_greedily(combiner, units, SCORES[0])
    if len(plans) > 1:
        raise AssertionError(f"the graph was not built from this block: {block.relations}")
    return plans[0]


def _written_tree(combiner: Combiner) -> list[int] | None:
    """Neighbours of each relation by written edges when these form a tree of inner ones."""
    graph = combiner.graph
    written = [edge for edge in graph.edges if not edge.implied]
    if any(not is_plain(edge) for edge in written):
        return None
    if len({edge.relations for edge in written}) != graph.size - 1:
        return None
    near = [0] * graph.size
    for edge in written:
        near[edge.left.bit_length() - 1] |= edge.right
        near[edge.right.bit_length() - 1] |= edge.left
    reached, fresh = 1, 1
    while fresh:
        around = 0
        for bit in bits(fresh):
            around |= near[bit.bit_length() - 1]
        fresh = around & ~reached
        reached |= fresh
    return near if reached == graph.everything else None


def _greedy_plans(combiner: Combiner, work: int) -> list[SubPlan]:
    """Legal plans from several greedy starts, best first."""
    size = combiner.graph.size
    found = [greedy_plan(combiner, score) for score in SCORES]
    if size <= _LINEAR_LIMIT:
        spent = 0
        for order in greedy_orders(combiner, max(1, _LEFT_DEEP_STEPS // size**2))[:_ORDERS]:
            plan, pairs = best_bushy(combiner, order)
            found.append(plan)
            spent += pairs
            if spent > work // 2:
                break
    return sorted((plan for plan in found if plan is not None), key=lambda plan: plan.rank)


def _improved(combiner: Combiner, plans: Iterable[SubPlan], work: int) -> SubPlan:
    """The best plan after windows and linear orders over its leaves, in turn."""
    plan = min(plans, key=lambda plan: plan.rank)
    windows = Windows(combiner, work)
    while True:
        improved = windows.improve(plan)
        if combiner.graph.size <= _LINEAR_LIMIT and windows.left > 0:
            again, pairs = best_bushy(combiner, tuple(improved.leaves()))
            windows.left -= pairs
            if again is not None and again.rank < improved.rank:
                plan = again
                continue
        return improved
