"""A plan -> one FROM clause that says the join order by its brackets, and a WHERE.

    ((a b) (c d))       FROM a JOIN b ON .. JOIN (c LEFT JOIN d ON ..) ON .. WHERE ..

A node's edges are its ON. A filter goes into the lowest place that needs no subquery: from the
right side of an inner, left, semi or anti join into its ON, from the left side upwards, at last
into WHERE; engines push it down from there. Below a full join neither is legal: a table is filtered
in a subquery under its own alias, a join by an inner join with one row whose ON is the filter.
Written conjuncts are applied where both sides meet. An implied equality is added where its class
has no written one, so that the join has a key.

Caller: switches the engine's own reordering off; names outputs as `relation`.`column`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from deltajoin.emit.ast import expression, named, number
from deltajoin.graph import ColumnRef, Predicate
from deltajoin.names import UniqueNames
from deltajoin.planner.combine import SubPlan
from deltajoin.planner.hypergraph import Hypergraph

Scan = Callable[[str], exp.Table]

_WORDS = {
    "inner": {"kind": "INNER"},
    "cross": {"kind": "CROSS"},
    "left": {"side": "LEFT"},
    "full": {"side": "FULL", "kind": "OUTER"},
    "semi": {"side": "LEFT", "kind": "SEMI"},
    "anti": {"side": "LEFT", "kind": "ANTI"},
    "right": {"side": "RIGHT"},
}
#: Deeper brackets on the right are turned to the left, where a chain of joins needs none.
_DEEPEST = 16
_TURNED = {"inner": "inner", "full": "full", "left": "right"}


def add_from(select: exp.Select, graph: Hypergraph, plan: SubPlan, scan: Scan) -> exp.Select:
    """The select over the plan's nested joins; `scan` gives a relation's table under its alias."""
    tree = _Nesting(graph, scan).tree(plan)
    select.set("from_", exp.From(this=tree.first))
    select.set("joins", tree.joins)
    if tree.pending:
        select = select.where(*[expression(p.sql) for p in tree.pending])
    return select


@dataclass
class _Tree:
    """A table, what is joined to it in turn, and the filters that still have to be placed."""

    first: exp.Expr
    joins: list[exp.Join]
    pending: list[Predicate]
    depth: int = 0

    def item(self) -> exp.Expr:
        """As one side of a join; in brackets when it is a join itself."""
        if not self.joins:
            return self.first
        self.first.set("joins", self.joins)
        return exp.Paren(this=self.first)


class _Nesting:
    def __init__(self, graph: Hypergraph, scan: Scan) -> None:
        self._graph = graph
        self._scan = scan
        self._classes = _classes(graph)
        self._aliases = UniqueNames(graph.names)

    def tree(self, plan: SubPlan) -> _Tree:
        """The joins of a sub-plan."""
        if plan.left is None or plan.right is None:
            name = self._graph.names[plan.relations.bit_length() - 1]
            return _Tree(self._scan(name), [], self._filters(plan))
        left, right = self.tree(plan.left), self.tree(plan.right)
        on = self._conjuncts(plan)
        if plan.kind == "full":
            left, right = self._settled(left), self._settled(right)
        judged = self._filters(plan)
        on += right.pending + (judged if plan.kind == "inner" else [])
        pending = left.pending + ([] if plan.kind == "inner" else judged)
        kind = plan.kind
        if kind in _TURNED and max(left.depth, _DEEPEST) < right.depth:
            left, right, kind = right, left, _TURNED[kind]
        depth = max(left.depth, right.depth + bool(right.joins))
        joins = [*left.joins, _join(kind, right.item(), on)]
        return _Tree(left.first, joins, pending, depth)

    def _filters(self, plan: SubPlan) -> list[Predicate]:
        """Filters that become decidable at this node and in neither side."""
        sides = [side.relations for side in (plan.left, plan.right) if side is not None]
        return [
            f.predicate
            for f in self._graph.filters
            if f.needs & ~plan.relations == 0 and all(f.needs & ~side for side in sides)
        ]

    def _conjuncts(self, plan: SubPlan) -> list[Predicate]:
        written = [p for edge in plan.edges if not edge.implied for p in edge.predicates]
        if plan.kind != "inner":
            return written
        keyed = {self._classes[p.left] for p in written if p.left is not None}
        for edge in plan.edges:
            for predicate in edge.predicates if edge.implied else ():
                if predicate.left is not None and self._classes[predicate.left] not in keyed:
                    keyed.add(self._classes[predicate.left])
                    written.append(predicate)
        return written

    def _settled(self, tree: _Tree) -> _Tree:
        """The tree with its filters applied below whatever comes next."""
        if not tree.pending:
            return tree
        conditions = [expression(predicate.sql) for predicate in tree.pending]
        if not tree.joins and isinstance(tree.first, exp.Table):
            rows = exp.select("*").from_(tree.first).where(*conditions)
            return _Tree(rows.subquery(exp.to_identifier(tree.first.alias, quoted=True)), [], [])
        one = exp.select(named(number(1), "one")).subquery(
            exp.to_identifier(self._aliases.take("one_row"), quoted=True)
        )
        join = exp.Join(this=one, on=exp.and_(*conditions, copy=False), **_WORDS["inner"])
        return _Tree(tree.first, [*tree.joins, join], [])


def _join(kind: str, right: exp.Expr, on: list[Predicate]) -> exp.Join:
    if kind == "inner" and not on:
        return exp.Join(this=right, **_WORDS["cross"])
    conditions = [expression(predicate.sql) for predicate in on] or [exp.true()]
    return exp.Join(this=right, on=exp.and_(*conditions, copy=False), **_WORDS[kind])


def _classes(graph: Hypergraph) -> dict[ColumnRef, ColumnRef]:
    """Column -> the smallest column that equalities link it with, over the whole query."""
    members: dict[ColumnRef, frozenset[ColumnRef]] = {}
    for edge in graph.edges:
        for predicate in edge.predicates if edge.kind == "inner" else ():
            if predicate.left is not None and predicate.right is not None:
                one = members.get(predicate.left, frozenset({predicate.left}))
                other = members.get(predicate.right, frozenset({predicate.right}))
                members.update(dict.fromkeys(one | other, one | other))
    return {column: min(group) for column, group in members.items()}
