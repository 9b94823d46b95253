"""Why a plan is as it is: what `deltajoin explain` says beyond the plan itself.

    graph        relations with rows, predicates between them
    full_query   runner-up and gap; where sides are broadcast or exchanged; what each estimate
                 stands on
    paths        expected rows, their source, files and exchange of each lookup
    operators    how each is kept, or why it is rebuilt and what to change

All of it follows from the plan and the statistics that it was made from; the runner-up is searched
for here, not while planning. In a query with unions each branch has its graph and order: those of
the first stand here, the others' in `further`.
Caller: the plan was just made (`api.plan`); one read back from the ledger has no statistics.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deltajoin.accelerate.choose import why_compared
from deltajoin.audit.estimates import path_estimates
from deltajoin.audit.operators import operators
from deltajoin.delta.plan import DeltaPlan
from deltajoin.graph import JoinGraph
from deltajoin.planner.accelerated import join_of
from deltajoin.planner.arms import arms
from deltajoin.planner.combine import Combiner, SubPlan
from deltajoin.planner.cost import SparkCost
from deltajoin.planner.enumerate import count_pairs
from deltajoin.planner.estimate import SetEstimator
from deltajoin.planner.full import BUDGET, full_plan, written_plan
from deltajoin.planner.full_query import FullQuery
from deltajoin.planner.hypergraph import Hypergraph, bits
from deltajoin.planner.runner_up import RunnerUp, exact_runner_up, started_runner_up
from deltajoin.planner.search import Search
from deltajoin.planner.statistics import Statistics
from deltajoin.planner.steps import Steps
from deltajoin.planner.trace import Trace, capped


def explanation(planned: DeltaPlan) -> dict[str, Any]:
    """What is to be said of a plan, as plain values; see the module for the keys."""
    found: dict[str, Any] = {"operators": operators(planned), "rebuilt_because": None}
    stop = planned.rebuilt_because
    if stop is not None:
        found["rebuilt_because"] = dict(vars(stop))
    graph, full, statistics = planned.graph, planned.full_query, planned.statistics
    found |= {"graph": None, "full_query": None, "further": [], "paths": []}
    if graph is None or statistics is None:
        return found
    found["paths"] = [path_estimates(graph, statistics, path) for path in planned.paths]
    if full is not None:
        first, *further = (
            {
                "graph": _graph(branch, order.hypergraph, statistics),
                "full_query": _full(branch, order, statistics),
            }
            for branch, order in zip(arms(graph), full.arms, strict=True)
        )
        found |= {**first, "further": further}
    return found


def _graph(graph: JoinGraph, hypergraph: Hypergraph, statistics: Statistics) -> dict[str, Any]:
    nodes = []
    for name in hypergraph.names:
        source = graph.by_name[name].source
        rows = statistics.rows_of(source)
        nodes.append(
            {"name": name, "source": source, "rows": round(rows.value), "known_by": rows.source}
        )
    edges = [
        {
            "kind": "cross" if edge.cross else edge.kind,
            "left": _names(hypergraph, edge.left),
            "right": _names(hypergraph, edge.right),
            "on": sorted(p.sql for p in edge.predicates),
        }
        for edge in hypergraph.edges
        if not edge.implied
    ]
    return {"nodes": nodes, "edges": edges}


def _full(graph: JoinGraph, full: FullQuery, statistics: Statistics) -> dict[str, Any]:
    estimator = SetEstimator(graph, full.hypergraph, statistics)
    cost = SparkCost(graph, full.hypergraph, statistics)
    runner = _runner_up(graph, full, statistics, Combiner(full.hypergraph, estimator, cost))
    joins = []
    for join in full.plan.joins():
        assert join.left is not None  # noqa: S101 - a join has two sides
        assert join.right is not None  # noqa: S101
        way = cost.way(join.kind, join.left, join.right)
        on = [p.sql for e in join.edges if not e.implied for p in e.predicates]
        right, rows = (
            _names(full.hypergraph, join.right.relations),
            (join.left.rows, join.right.rows),
        )
        served = join.right.relations in dict(full.accelerated)
        joins.append(
            {
                "source": estimator.source(join.relations),
                "broadcast": _names(full.hypergraph, join.right.relations) if way.broadcast else [],
                "exchanged": [
                    _names(full.hypergraph, getattr(join, side).relations) for side in way.exchanged
                ],
                "compared": ""
                if served
                else why_compared(on, *join_of(graph, statistics, on, right, join.kind, rows)),
            }
        )
    return {
        "tree": _tree(full.hypergraph, full.plan),
        "joins": joins,
        "runner_up": _told(full, runner),
    }


def _told(full: FullQuery, runner: RunnerUp) -> dict[str, Any]:
    told: dict[str, Any] = {"order": None, "among": runner.among, "tree": None}
    if runner.plan is not None:
        other = FullQuery(full.hypergraph, runner.plan, "", 0, "", 0.0)
        cost = runner.plan.cost
        gap = cost / full.plan.cost if full.plan.cost else 1.0
        told |= {
            "order": other.nesting(),
            "cost": float(f"{cost:.4g}"),
            "gap": float(f"{gap:.4g}"),
            "tree": _tree(full.hypergraph, runner.plan),
        }
    return told


def _runner_up(
    graph: JoinGraph, full: FullQuery, statistics: Statistics, combiner: Combiner
) -> RunnerUp:
    if unknown := statistics.unknown(graph):
        return RunnerUp(None, f"no costs without a row count of {', '.join(unknown)}")
    pairs = count_pairs(full.hypergraph, BUDGET)
    if pairs <= BUDGET:
        return exact_runner_up(combiner, full.plan, pairs)
    trace = Trace()
    full_plan(combiner, written=written_plan(combiner, graph.root), trace=trace)
    return started_runner_up(trace, full.plan)


def _names(graph: Hypergraph, joined: int) -> list[str]:
    return [graph.names[bit.bit_length() - 1] for bit in bits(joined)]


def _tree(graph: Hypergraph, plan: SubPlan) -> dict[str, Any]:
    """A plan as a nested value: a relation, or a kind with two sides; rows and summed cost."""
    rows = {"rows": float(f"{plan.rows:.4g}"), "cost": float(f"{plan.cost:.4g}")}
    if plan.left is None or plan.right is None:
        return {"relation": _names(graph, plan.relations)[0], **rows}
    sides = {"left": _tree(graph, plan.left), "right": _tree(graph, plan.right)}
    return {"kind": plan.kind, **sides, **rows}


def trace_text(planned: DeltaPlan) -> str:
    """What was considered: sets of the whole query, then steps of each path; at most 500 lines of
    each are shown, and how many more there are is said."""
    graph, full, statistics = planned.graph, planned.full_query, planned.statistics
    if graph is None or full is None or statistics is None:
        return "nothing was considered: the query is only rebuilt as it is written"
    if unknown := statistics.unknown(graph):
        return f"nothing was considered: no row count of {', '.join(unknown)}"
    lines = [
        line
        for branch, order in zip(arms(graph), full.arms, strict=True)
        for line in capped(_full_trace(branch, order, statistics))
    ]
    for path in planned.paths:
        core, driven = graph.branches[path.branch], statistics.driven_by(path.driver)
        if path.driver not in core.inner:
            lines.append(f"Δ{path.driver}: what its keys lead on to is not traced")
            continue
        lines.append(f"Δ{path.driver}: steps considered; * kept")
        rows, part = float(path.estimated_rows), graph.inner_part(core)
        lines += capped(list(_path_trace(part, driven, path.driver, rows)))
    return "\n".join(lines)


def _full_trace(graph: JoinGraph, full: FullQuery, statistics: Statistics) -> list[str]:
    hypergraph, trace = full.hypergraph, Trace()
    estimator = SetEstimator(graph, hypergraph, statistics)
    cost = SparkCost(graph, hypergraph, statistics)
    combiner = Combiner(hypergraph, estimator, cost)
    found = full_plan(combiner, written=written_plan(combiner, graph.root), trace=trace)
    sets = [
        f"  {{{', '.join(_names(hypergraph, p.relations))}}}  rows {p.rows:,.0f}  "
        f"cost {p.cost:.4g}  {FullQuery(hypergraph, p, '', 0, '', 0.0).nesting()}"
        for p in trace.sets
    ]
    starts = [
        f"  start: cost {p.cost:.4g}  {FullQuery(hypergraph, p, '', 0, '', 0.0).nesting()}"
        for p in trace.starts
    ]
    return [f"full query ({found.method}): the best plan of each set", *sets, *starts]


def _path_trace(
    graph: JoinGraph, statistics: Statistics, driver: str, rows: float
) -> Iterator[str]:
    trace, steps = Trace(), Steps(graph, statistics)
    search = Search(steps, 1, trace=trace)
    search.order((driver,), rows * statistics.matching(graph).kept(driver))
    for step in trace.steps:
        mark = " *" if step.kept else ""
        yield (
            f"  {', '.join(step.bound)} → {step.new}  rows {step.rows:,.0f}  "
            f"cost {step.cost:.4g}{mark}"
        )
