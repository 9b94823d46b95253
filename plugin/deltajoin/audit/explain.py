"""Why a plan is as it is: what `deltajoin explain` says beyond the plan itself.

    graph        relations with rows, predicates between them
    full_query   runner-up and gap; where sides are broadcast or exchanged; what each estimate
                 stands on
    paths        expected rows, their source, files and exchange of each lookup
    operators    how each is kept, or why it is rebuilt and what to change
    layout       which tables to cluster by which column
    bag_because  why the rows of the target are counted, not known by a key

All of it follows from the plan and the statistics that it was made from; the runner-up is searched
for here, not while planning. In a query with unions each branch has its graph and order: those of
the first stand here, the others' in `further`.
Caller: the plan was just made (`api.plan`); one read back from the ledger has no statistics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from deltajoin.accelerate.choose import why_compared
from deltajoin.audit.estimates import path_estimates
from deltajoin.audit.layout import layout_advice
from deltajoin.audit.operators import operators
from deltajoin.delta.derived import describe
from deltajoin.delta.identity import why_a_bag
from deltajoin.delta.path import types_of
from deltajoin.delta.plan import DeltaPlan
from deltajoin.graph import JoinGraph
from deltajoin.planner.accelerated import join_of
from deltajoin.planner.combine import Combiner, SubPlan
from deltajoin.planner.cost import SparkCost
from deltajoin.planner.enumerate import count_pairs
from deltajoin.planner.estimate import SetEstimator
from deltajoin.planner.full import BUDGET, full_plan, written_plan
from deltajoin.planner.full_query import FullQuery
from deltajoin.planner.hypergraph import bits
from deltajoin.planner.runner_up import RunnerUp, exact_runner_up, started_runner_up
from deltajoin.planner.search import Search
from deltajoin.planner.statistics import Statistics
from deltajoin.planner.steps import Steps
from deltajoin.planner.trace import Trace, capped


def explanation(planned: DeltaPlan) -> dict[str, Any]:
    """What is to be said of a plan, as plain values; see the module for the keys."""
    stop, graph, statistics = planned.rebuilt_because, planned.graph, planned.statistics
    found: dict[str, Any] = {
        "operators": operators(planned),
        "rebuilt_because": stop.to_dict() if stop else None,
        **{"graph": None, "full_query": None, "further": [], "paths": []},
        "bag_because": _bag_because(planned),
        "layout": layout_advice(planned),
    }
    if graph is None or statistics is None:
        return found
    found["paths"] = [path_estimates(graph, statistics, path) for path in planned.paths]
    orders = _orders(graph, planned.full_query, statistics)
    branches = [{"graph": one.graph_values(), "full_query": one.values()} for one in orders]
    return {**found, **branches[0], "further": branches[1:]} if branches else found


def _bag_because(planned: DeltaPlan) -> str | None:
    """Why the target is a bag; None for another."""
    if planned.graph is None or planned.target.kind != "bag":
        return None
    described = describe(planned.graph, dict(planned.keys), types_of(planned.sources))
    why = why_a_bag(planned.graph, described.keys, described.types)
    return why or "it was one under its view: mode full makes it a table"


def trace_text(planned: DeltaPlan) -> str:
    """What was considered: sets of the whole query, then steps of each path; at most 500 lines of
    each are shown, and how many more there are is said."""
    graph, full, statistics = planned.graph, planned.full_query, planned.statistics
    if graph is None or full is None or statistics is None:
        return "nothing was considered: the query is only rebuilt as it is written"
    if unknown := statistics.unknown(graph):
        return f"nothing was considered: no row count of {', '.join(unknown)}"
    orders = _orders(graph, full, statistics)
    lines = [line for order in orders for line in capped(order.trace_lines())]
    for path in planned.paths:
        core, driven = graph.branches[path.branch], statistics.driven_by(path.driver)
        if path.driver not in core.inner:
            lines.append(f"Δ{path.driver}: what its keys lead on to is not traced")
            continue
        lines.append(f"Δ{path.driver}: steps considered; * kept")
        rows, part = float(path.estimated_rows), graph.inner_part(core)
        lines += capped(list(_path_trace(part, driven, path.driver, rows)))
    return "\n".join(lines)


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


def _orders(graph: JoinGraph, full: FullQuery | None, statistics: Statistics) -> list[_Order]:
    parts = full.parts(graph) if full else ()
    return [_Order(part, plan, statistics) for part, plan, _ in parts]


@dataclass(frozen=True)
class _Order:
    """The order of the whole query, or of one branch of it, with what it was chosen by."""

    graph: JoinGraph
    full: FullQuery
    statistics: Statistics

    @cached_property
    def estimator(self) -> SetEstimator:
        return SetEstimator(self.graph, self.full.hypergraph, self.statistics)

    @cached_property
    def cost(self) -> SparkCost:
        return SparkCost(self.graph, self.full.hypergraph, self.statistics)

    @cached_property
    def combiner(self) -> Combiner:
        return Combiner(self.full.hypergraph, self.estimator, self.cost)

    def graph_values(self) -> dict[str, Any]:
        """Relations with their rows, and predicates between them."""
        nodes = []
        for name in self.full.hypergraph.names:
            source = self.graph.by_name[name].source
            rows = self.statistics.rows_of(source)
            nodes.append(
                {"name": name, "source": source, "rows": round(rows.value), "known_by": rows.source}
            )
        edges = [
            {
                "kind": "cross" if edge.cross else edge.kind,
                "left": self._names(edge.left),
                "right": self._names(edge.right),
                "on": sorted(p.sql for p in edge.predicates),
            }
            for edge in self.full.hypergraph.edges
            if not edge.implied
        ]
        return {"nodes": nodes, "edges": edges}

    def values(self) -> dict[str, Any]:
        """The tree, how each join is made and what its estimate stands on, the runner-up."""
        joins = [
            self._join(join, join.left, join.right)
            for join in self.full.plan.joins()
            if join.left is not None and join.right is not None
        ]
        runner = self._runner_up()
        other: dict[str, Any] = {"order": None, "among": runner.among, "tree": None}
        if runner.plan is not None:
            cost = runner.plan.cost
            gap = cost / self.full.plan.cost if self.full.plan.cost else 1.0
            other |= {
                "order": self._nesting(runner.plan),
                "cost": float(f"{cost:.4g}"),
                "gap": float(f"{gap:.4g}"),
                "tree": self._tree(runner.plan),
            }
        return {"tree": self._tree(self.full.plan), "joins": joins, "runner_up": other}

    def trace_lines(self) -> list[str]:
        """The best plan of each set, and the plans that other methods started from."""
        trace = Trace()
        written = written_plan(self.combiner, self.graph.root)
        found = full_plan(self.combiner, written=written, trace=trace)
        sets = [
            f"  {{{', '.join(self._names(plan.relations))}}}  rows {plan.rows:,.0f}  "
            f"cost {plan.cost:.4g}  {self._nesting(plan)}"
            for plan in trace.sets
        ]
        starts = [f"  start: cost {p.cost:.4g}  {self._nesting(p)}" for p in trace.starts]
        return [f"full query ({found.method}): the best plan of each set", *sets, *starts]

    def _join(self, join: SubPlan, left: SubPlan, right: SubPlan) -> dict[str, Any]:
        way = self.cost.way(join.kind, left, right)
        names, compared = self._names(right.relations), ""
        served = self.full.serving(join)
        if served is None:
            on = [p.sql for e in join.edges if not e.implied for p in e.predicates]
            rows = (left.rows, right.rows)
            sides = join_of(self.graph, self.statistics, on, names, join.kind, rows)
            compared = why_compared(on, *sides)
        return {
            "source": self.estimator.source(join.relations),
            "broadcast": names if way.broadcast and served is None else [],
            "exchanged": [self._names(getattr(join, side).relations) for side in way.exchanged],
            "compared": compared,
        }

    def _runner_up(self) -> RunnerUp:
        if unknown := self.statistics.unknown(self.graph):
            return RunnerUp(None, f"no costs without a row count of {', '.join(unknown)}")
        pairs = count_pairs(self.full.hypergraph, BUDGET)
        if pairs <= BUDGET:
            return exact_runner_up(self.combiner, self.full.plan, pairs)
        trace = Trace()
        full_plan(self.combiner, written=written_plan(self.combiner, self.graph.root), trace=trace)
        return started_runner_up(trace, self.full.plan)

    def _names(self, joined: int) -> list[str]:
        return [self.full.hypergraph.names[bit.bit_length() - 1] for bit in bits(joined)]

    def _nesting(self, plan: SubPlan) -> str:
        return replace(self.full, plan=plan).nesting()

    def _tree(self, plan: SubPlan) -> dict[str, Any]:
        """A plan as a nested value: a relation, or a kind with two sides; rows, summed cost."""
        rows = {"rows": float(f"{plan.rows:.4g}"), "cost": float(f"{plan.cost:.4g}")}
        if plan.left is None or plan.right is None:
            return {"relation": self._names(plan.relations)[0], **rows}
        sides = {"left": self._tree(plan.left), "right": self._tree(plan.right)}
        return {"kind": plan.kind, **sides, **rows}
