"""The plan of a whole query: exact where it is affordable, else the best of several good ways.

    csg-cmp-pairs within the budget     exact     all bushy plans
    beyond                              greedy    joins, and the best bushy plans over greedy
                                                  left-deep orders

The latter is then improved by exact windows and by the best bushy plan over the order of its
leaves, in turn, until neither helps or the work allowed is done. Pairs are counted before any plan
is made; work is bounded in pairs too, in proportion to the number of relations, and less where each
has so many partners that a set takes long to estimate. With dozens of partners each, only the query
as written is improved.

The query as written is always a legal plan: one of the starts, so that no plan is dearer. Greedy
joins may end where conflict rules leave no join; where it is then the only start, `fallback` says
so. Caller: pass it, else such a dead end means that all plans are enumerated.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltajoin.graph import Block
from deltajoin.planner.combine import Combiner, SubPlan
from deltajoin.planner.enumerate import count_pairs, exact_plan
from deltajoin.planner.greedy import best_bushy, greedy_orders, greedy_plan, merge_greedily
from deltajoin.planner.hypergraph import Hypergraph
from deltajoin.planner.trace import Trace
from deltajoin.planner.windows import Windows

BUDGET = 10_000
#: A linear order of more relations has too many intervals, also where a set takes long to estimate.
_LINEAR_LIMIT, _CROWDED_LIMIT = 200, 56
_LEFT_DEEP_STEPS = 60_000
#: Partners of a relation, on average, up to which a set is estimated in the time that pairs take.
_PARTNERS = 8
#: Times that as many partners, from which on there is no time for several starts.
_CROWDED = 6


@dataclass(frozen=True)
class FullPlan:
    """A plan and how it was found.

    `method` is exact or greedy; `pairs` the pairs counted, one above the budget when
    there are more; `fallback` why the plan is not exact, empty when it is.
    """

    plan: SubPlan
    method: str
    pairs: int
    fallback: str = ""


def full_plan(
    combiner: Combiner,
    budget: int = BUDGET,
    written: SubPlan | None = None,
    trace: Trace | None = None,
) -> FullPlan:
    """A cheap bushy plan of the combiner's graph.

    Args:
        budget: csg-cmp-pairs up to which all plans are enumerated.
        written: the query as written (`written_plan`); no plan is dearer.
        trace: records what is considered.
    """
    pairs = count_pairs(combiner.graph, budget)
    if pairs <= budget:
        start = greedy_plan(combiner) or written
        known = start and _cheapest(start, written)
        return FullPlan(exact_plan(combiner, trace, known), "exact", pairs)
    reason, work = f"more than {budget:,} pairs", _work(combiner.graph, budget)
    starts, spent = list[SubPlan](), 0
    if written is not None and _is_crowded(combiner.graph):
        reason += "; with so many partners the query as written is improved"
        if combiner.graph.size <= _limit(combiner.graph):
            plan, spent = best_bushy(combiner, tuple(written.leaves()), written.cost)
            starts += [plan] if plan else []
    else:
        starts, spent = _greedy_plans(combiner, work // 2)
        if not starts:
            reason += "; greedy joins ended where conflict rules leave none: "
            reason += "all plans tried" if written is None else "the query as written is improved"
    starts += [] if written is None else [written]
    if trace is not None:
        trace.starts += starts
    if not starts:
        return FullPlan(exact_plan(combiner, trace), "exact", pairs, reason)
    best = _improved(combiner, _cheapest(*starts), work - spent)
    return FullPlan(best, "greedy", pairs, reason)


def _cheapest(*plans: SubPlan | None) -> SubPlan:
    return min((plan for plan in plans if plan), key=lambda plan: plan.rank)


def _work(graph: Hypergraph, budget: int) -> int:
    """Pairs that may be tried beyond the budget: as many again, more from 16 relations on."""
    return max(budget, 1) * max(4, graph.size - 12) // (4 * _crowd(graph))


def _crowd(graph: Hypergraph) -> int:
    """How many times longer than usual a set takes to estimate."""
    partners = sum(1 if edge.implied else 2 for edge in graph.edges) // graph.size
    return max(1, partners // _PARTNERS)


def _is_crowded(graph: Hypergraph) -> bool:
    """True where there is no time for several starts: each relation has dozens of own edges."""
    written = sum(not edge.implied for edge in graph.edges)
    return 2 * written // graph.size >= _CROWDED * _PARTNERS


def written_plan(combiner: Combiner, block: Block) -> SubPlan:
    """The joins as the query nests them; the items of a block from left to right, each as soon as
    it may be joined."""
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
    plan, waiting = units[0], units[1:]
    while waiting:
        steps = ((combiner.join(plan, unit), unit) for unit in waiting)
        step, used = next((step for step in steps if step[0] is not None), (None, plan))
        if step is None:
            return _merged(combiner, units, block)
        plan = step
        waiting.remove(used)
    return plan


def _merged(combiner: Combiner, units: list[SubPlan], block: Block) -> SubPlan:
    """The items of a block in any order that leads to an end."""
    plans = merge_greedily(combiner, units)
    if len(plans) > 1:
        raise AssertionError(f"the graph was not built from this block: {block.relations}")
    return plans[0]


def _greedy_plans(combiner: Combiner, work: int) -> tuple[list[SubPlan], int]:
    """Legal plans from several greedy starts, of few kinds in a crowded graph; pairs tried."""
    graph, spent = combiner.graph, 0
    found = [greedy_plan(combiner)]
    starts = _LEFT_DEEP_STEPS // (graph.size**2 * _crowd(graph))
    for order in greedy_orders(combiner, max(1, starts)) if graph.size <= _limit(graph) else ():
        plan, pairs = best_bushy(combiner, order)
        found.append(plan)
        spent += pairs
        if spent >= work:
            break
    return [plan for plan in found if plan is not None], spent


def _limit(graph: Hypergraph) -> int:
    """Relations of a linear order that has few enough intervals."""
    return _LINEAR_LIMIT if _crowd(graph) < _CROWDED else _CROWDED_LIMIT


def _improved(combiner: Combiner, plan: SubPlan, work: int) -> SubPlan:
    """The plan after windows and the best bushy plan over its leaves, in turn."""
    windows = Windows(combiner, work)
    limit = _limit(combiner.graph)
    while True:
        plan = windows.improve(plan)
        if combiner.graph.size > limit or windows.left <= 0:
            return plan
        bushy, pairs = best_bushy(combiner, tuple(plan.leaves()), plan.cost)
        windows.left -= pairs
        if bushy is None or bushy.rank >= plan.rank:
            return plan
        plan = bushy
