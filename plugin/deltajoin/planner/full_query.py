"""The join order of the whole query: for the backfill, mode full and every rebuild.

    reordering off, or a table of unknown size    the joins as the query nests them
    an order is given                             left-deep in that order, or refused; in a query
                                                  with unions each branch in its part of it
    otherwise                                     `full_plan` under the estimates and Spark's costs,
                                                  or the last order while it holds (`kept`)

Branches are planned and emitted by themselves: those of unions always, those of full joins where an
accelerator serves what they leave: the left join, and the right side's rows without a match.

The query as written is costed beside the chosen plan, so that explain can say what reordering won.
Caller: emits the plan as explicit nesting, with the engine's own reordering switched off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deltajoin.accelerate import choose
from deltajoin.accelerate.protocol import Candidates, Running
from deltajoin.errors import DeltaJoinError
from deltajoin.graph import Core, JoinGraph
from deltajoin.planner.accelerated import accelerated_joins, running_join
from deltajoin.planner.build_graph import Types, build_hypergraph
from deltajoin.planner.combine import Combiner, SubPlan
from deltajoin.planner.cost import SparkCost
from deltajoin.planner.estimate import SetEstimator
from deltajoin.planner.full import full_plan, written_plan
from deltajoin.planner.hypergraph import Hypergraph
from deltajoin.planner.kept import SIGNS, LastOrder, holds, nested_plan, replanned
from deltajoin.planner.statistics import Statistics
from deltajoin.sql.normalise import as_block


@dataclass(frozen=True)
class Choice:
    """What a user says of orders: `reorder` off keeps the query's own, `order` forces one.

    `aggregated`: columns of the joined rows of which only aggregates are given out that can be made
    of others; None where that isn't so.
    """

    reorder: bool = True
    order: tuple[str, ...] = ()
    aggregated: frozenset[str] | None = None


#: Pairs of rows that take as long to compare interpreted as a plan takes to compile.
MANY_PAIRS = 500_000


@dataclass(frozen=True)
class FullQuery:
    """A plan of the whole query.

    `method` is exact, greedy, pinned, written or forced; `pairs` the csg-cmp-pairs
    counted; `fallback` why the plan is not exact; `written_cost` the cost of the query as it is
    written; `broadcast` the right sides to broadcast, as sets of relations; `accelerated` those
    that no equality finds, with the pairs that can match; `compared` the pairs of rows that the
    join with most of them compares; `replanned` old and new cost where the
    last order was given up; `kept` what was kept of it; `further` the plans of
    further branches, where each is planned by itself: this one is then the first branch's.
    """

    hypergraph: Hypergraph
    plan: SubPlan
    method: str
    pairs: int
    fallback: str
    written_cost: float
    broadcast: tuple[int, ...] = ()
    accelerated: tuple[tuple[int, Candidates], ...] = ()
    compared: float = 0.0
    replanned: str = ""
    kept: LastOrder | None = None
    further: tuple[FullQuery, ...] = ()

    @property
    def arms(self) -> tuple[FullQuery, ...]:
        """The plans of all branches that are planned by themselves."""
        return (self, *self.further)

    @property
    def running(self) -> tuple[SubPlan, SubPlan, Running] | None:
        """The left and the right side of the last join and the order of the right's rows, where
        its aggregates are running ones; an inner join may be turned round."""
        found, plan = dict(self.accelerated), self.plan
        if plan.left is None or plan.right is None:
            return None
        for left, right in ((plan.left, plan.right), (plan.right, plan.left)):
            if (served := found.get(right.relations)) is not None and served.running is not None:
                return left, right, served.running
        return None

    def serving(self, join: SubPlan) -> Candidates | None:
        """What serves one of its joins, if anything."""
        right = self.running[1] if join is self.plan and self.running else join.right
        return dict(self.accelerated).get(right.relations) if right is not None else None

    def parts(self, graph: JoinGraph) -> Iterator[tuple[JoinGraph, FullQuery, tuple[str, ...]]]:
        """What is planned by itself, with its plan and the relations that are NULL in it."""
        if not graph.has_union and not self.further:
            yield graph, self, ()
            return
        for core, plan in zip(graph.branches, self.arms, strict=True):
            yield arm(graph, core), plan, core.nulls

    def nesting(self) -> str:
        """The order with names, estimated rows apart.

        Example: `((orders ⨝ customers) ⟕ regions)`.
        """
        return _nested(self.hypergraph, self.plan)

    def to_dict(self) -> dict[str, Any]:
        """The order as plain values; a join's `rows` are estimated."""
        notes: dict[str, Any] = {"replanned": self.replanned} if self.replanned else {}
        if self.kept is not None:
            notes["rows_when_chosen"] = dict(self.kept.rows)
        if self.further:
            notes["further"] = [branch.to_dict() for branch in self.further]
        if self.compared > MANY_PAIRS:
            notes["compared"] = _short(self.compared)
        return notes | {
            "order": self.nesting(),
            "method": self.method,
            "pairs": self.pairs,
            "fallback": self.fallback,
            "cost": _short(self.plan.cost),
            "written_cost": _short(self.written_cost),
            "joins": list(_joins(self)),
        }


def arm(graph: JoinGraph, core: Core) -> JoinGraph:
    """The graph of one branch; columns of its `nulls` stay in its projections, as NULL."""
    root = as_block(core)
    below = frozenset(core.everything)
    return JoinGraph(
        relations=tuple(r for r in graph.occurrences if r.name in below),
        predicates=root.predicates,
        projections=graph.outputs(core),
        joins=tuple(item for item in root.items if not isinstance(item, str)),
        derived=graph.derived,
    )


def _nested(graph: Hypergraph, plan: SubPlan) -> str:
    if plan.left is None or plan.right is None:
        return graph.names[plan.relations.bit_length() - 1]
    left, right = _nested(graph, plan.left), _nested(graph, plan.right)
    return f"({left} {SIGNS[plan.kind]} {right})"


def _joins(query: FullQuery) -> Iterator[dict[str, Any]]:
    graph = query.hypergraph
    for join in query.plan.joins():
        if join.left is None or join.right is None:
            continue
        predicates = [p.sql for edge in join.edges if not edge.implied for p in edge.predicates]
        served = query.serving(join)
        yield {
            "kind": "cross" if any(edge.cross for edge in join.edges) else join.kind,
            "left": _nested(graph, join.left),
            "right": _nested(graph, join.right),
            "on": sorted(predicates),
            "broadcast": "right" if join.right.relations in query.broadcast else "",
            "rows": _short(join.rows),
            "cost": _short(join.cost),
            **({"accelerated": served.to_dict()} if served else {}),
        }


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def plan_full_query(
    graph: JoinGraph,
    statistics: Statistics,
    types: Types,
    choice: Choice | None = None,
    last: LastOrder | None = None,
) -> FullQuery:
    """The order of the whole query.

    No accelerator serves a full join, but one may serve both branches that it is the sum of: the
    left join, and the right rows without a match.

    Args:
        types: (source, column) -> type.
        last: the order in the last epoch of this definition.

    Raises:
        DeltaJoinError: INVALID_ORDER when a forced order does not name each relation once, or asks
            for a join that would change the rows.
    """
    choice = choice or Choice()
    if graph.has_union:
        return _by_branches(graph, statistics, types, choice)
    whole = _by_joins(graph, statistics, types, choice, last)
    kinds = {join.kind for join in whole.plan.joins()}
    if "full" not in kinds or choice.order or whole.compared < choose.FEW_PAIRS:
        return whole
    branches = _by_branches(graph, statistics, types, choice)
    served = max(len(part.accelerated) for part in branches.arms)
    return branches if served > len(whole.accelerated) else whole


def _by_joins(
    graph: JoinGraph,
    statistics: Statistics,
    types: Types,
    choice: Choice,
    last: LastOrder | None,
) -> FullQuery:
    hypergraph = build_hypergraph(graph, types)
    combiner, cost = _combiner(graph, hypergraph, statistics)
    written = written_plan(combiner, graph.root)
    if choice.order:
        forced = _left_deep(combiner, choice.order)
        query = FullQuery(hypergraph, forced, "forced", 0, "an order is given", written.cost)
        return _joined(query, graph, statistics, choice, cost)
    unknown = statistics.unknown(graph)
    if unknown or not choice.reorder:
        reason = f"no row count of {', '.join(unknown)}" if unknown else "reordering is off"
        query = FullQuery(hypergraph, written, "written", 0, reason, written.cost)
        return _joined(query, graph, statistics, choice)
    found = full_plan(combiner, written=written)
    best = FullQuery(
        hypergraph, found.plan, found.method, found.pairs, found.fallback, written.cost
    )
    old = nested_plan(combiner, last.nesting) if last else None
    if last and old and old.text != best.plan.text:
        costs = old.cost, best.plan.cost
        if holds(*costs) or _held(graph, statistics, best, last):
            reason = f"the last order holds: cost {costs[0]:.1e}, the best {costs[1]:.1e}"
            best = replace(best, plan=old, method="pinned", fallback=reason, kept=last)
        else:
            best = replace(best, replanned=replanned("full query", *costs))
    return _joined(best, graph, statistics, choice, cost)


def _joined(
    query: FullQuery,
    graph: JoinGraph,
    statistics: Statistics,
    choice: Choice,
    cost: SparkCost | None = None,
) -> FullQuery:
    """The plan with how its joins are made."""
    joins = graph, query.hypergraph, query.plan, statistics
    found, compared = accelerated_joins(*joins)
    served = {right for right, _ in found}
    last = query.plan.right
    if choice.aggregated is not None and last is not None and last.relations not in served:
        running = running_join(*joins, choice.aggregated)
        served |= {last.relations} if running else set()
        found += running
    hints = _broadcast(cost, query.plan) if cost else ()
    sent = tuple(right for right in hints if right not in served)
    return replace(query, broadcast=sent, accelerated=found, compared=compared)


def _combiner(
    graph: JoinGraph, hypergraph: Hypergraph, statistics: Statistics
) -> tuple[Combiner, SparkCost]:
    cost = SparkCost(graph, hypergraph, statistics)
    return Combiner(hypergraph, SetEstimator(graph, hypergraph, statistics), cost), cost


def _held(graph: JoinGraph, statistics: Statistics, best: FullQuery, last: LastOrder) -> bool:
    """Whether the last order holds over the rows of its time, and those were nearly today's."""
    if not last.is_near({source: statistics.rows.get(source) for source in graph.sources}):
        return False
    then = replace(statistics, rows={**statistics.rows, **last.rows})
    combiner, _ = _combiner(graph, best.hypergraph, then)
    old, new = (nested_plan(combiner, text) for text in (last.nesting, best.nesting()))
    return old is not None and new is not None and holds(old.cost, new.cost)


def _by_branches(
    graph: JoinGraph, statistics: Statistics, types: Types, choice: Choice
) -> FullQuery:
    branches = [arm(graph, core) for core in graph.branches]
    if choice.order:
        _check_names(choice.order, [r.name for branch in branches for r in branch.relations])
    found = []
    for branch in branches:
        order = tuple(name for name in choice.order if name in branch.by_name)
        found.append(
            plan_full_query(
                branch, statistics, types, replace(choice, order=order, aggregated=None)
            )
        )
    return replace(found[0], further=tuple(found[1:]))


def _broadcast(cost: SparkCost, plan: SubPlan) -> tuple[int, ...]:
    """The right sides that the cost model broadcasts by an equality.

    Spark must be told: it multiplies the sizes of what it joins, takes a joined or filtered side
    for large, and exchanges the other one.
    """
    found = [
        join.right.relations
        for join in plan.joins()
        if join.left is not None
        and join.right is not None
        and any(p.left is not None for edge in join.edges for p in edge.predicates)
        and cost.way(join.kind, join.left, join.right).broadcast
    ]
    return tuple(sorted(found))


def _left_deep(combiner: Combiner, order: tuple[str, ...]) -> SubPlan:
    _check_names(order, combiner.graph.names)
    leaves = [combiner.leaf(combiner.graph.bit[name].bit_length() - 1) for name in order]
    plan = leaves[0]
    for name, leaf in zip(order[1:], leaves[1:], strict=True):
        step = combiner.join(plan, leaf)
        if step is None:
            raise _invalid(f"{name} can't be joined at its place without changing the rows")
        plan = step
    return plan


def _check_names(order: Sequence[str], names: Sequence[str]) -> None:
    if sorted(order) != sorted(names):
        raise _invalid(f"the order names {', '.join(order)}; the query joins {', '.join(names)}")


def _invalid(message: str) -> DeltaJoinError:
    return DeltaJoinError(
        "INVALID_ORDER",
        message,
        where="order",
        remedy="Name every relation once, each linked to those before it, or leave the order out.",
    )
