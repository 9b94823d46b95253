"""A plan -> one FROM clause that says the join order by its brackets, and a WHERE.

    ((a b) (c d))       FROM a JOIN b ON .. JOIN (c LEFT JOIN d ON ..) ON .. WHERE ..

A node's edges are its ON. A filter goes into the lowest place that needs no subquery: from the
right side of an inner, left, semi or anti join into its ON, from the left side upwards, at last
into WHERE; engines push it down from there. Below a full join neither is legal: a table is filtered
in a subquery under its own alias, a join by an inner join with one row whose ON is the filter.
Written conjuncts are applied where both sides meet. An implied equality is added where its class
has no written one, so that the join has a key. What is broadcast is named by a hint: a relation by
its alias, a join as a subquery that gives its columns names of their own.

Caller: switches the engine's own reordering off; names outputs as `relation`.`column`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from sqlglot import exp

from deltajoin.accelerate.protocol import Candidates
from deltajoin.emit.ast import (
    aliased,
    broadcast,
    column,
    expression,
    join,
    moved,
    named,
    number,
    refs_in,
)
from deltajoin.emit.candidates import Side, candidates_of
from deltajoin.graph import ColumnRef, JoinGraph, Predicate
from deltajoin.names import UniqueNames
from deltajoin.planner.combine import SubPlan
from deltajoin.planner.hypergraph import Hypergraph

Scan = Callable[[str], exp.Table]

#: Deeper brackets on the right are turned to the left, where a chain of joins needs none.
_DEEPEST = 16
_TURNED = {"inner": "inner", "full": "full", "left": "right"}


@dataclass(frozen=True)
class Arms:
    """Right sides to broadcast, and those that an accelerator finds, as sets of relations; relation
    -> columns that are read. `beside` names a query of one row that stands beside this one: its
    text -> its name."""

    broadcast: tuple[int, ...] = ()
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    accelerated: tuple[tuple[int, Candidates], ...] = ()
    beside: Callable[[str], str] | None = None


def add_from(
    select: exp.Select, graph: Hypergraph, plan: SubPlan, scan: Scan, arms: Arms | None = None
) -> exp.Select:
    """The select over the plan's nested joins; `scan` gives a relation's table under its alias."""
    tree = _Nesting(graph, scan, arms or Arms()).tree(plan)
    select.set("expressions", [_renamed(output, tree.names) for output in select.expressions])
    return _over(select, tree)


@dataclass
class _Tree:
    """A table, what is joined to it in turn, and the filters that still have to be placed.

    `names` are columns that a subquery renamed; `hinted` what the select around has to broadcast.
    """

    first: exp.Expr
    joins: list[exp.Join]
    pending: list[Predicate]
    depth: int = 0
    names: dict[ColumnRef, exp.Expr] = field(default_factory=dict)
    hinted: tuple[str, ...] = ()

    def item(self) -> exp.Expr:
        """As one side of a join; in brackets when it is a join itself."""
        if not self.joins:
            return self.first
        self.first.set("joins", self.joins)
        return exp.Paren(this=self.first)


class _Nesting:
    def __init__(self, graph: Hypergraph, scan: Scan, arms: Arms) -> None:
        self._graph = graph
        self._scan = scan
        self._arms = arms
        inner = tuple(p for edge in graph.edges if edge.kind == "inner" for p in edge.predicates)
        self._classes = JoinGraph((), inner, ()).equivalence
        self._aliases = UniqueNames(graph.names)

    def tree(self, plan: SubPlan) -> _Tree:
        """The joins of a sub-plan."""
        if plan.left is None or plan.right is None:
            name = self._graph.names[plan.relations.bit_length() - 1]
            return _Tree(self._scan(name), [], self._filters(plan))
        left, right = self.tree(plan.left), self.tree(plan.right)
        served = dict(self._arms.accelerated).get(plan.right.relations)
        if served is not None:  # a line is measured on rows that pass their own filters
            left, right = (side if side.joins else self._settled(side) for side in (left, right))
        measured = self._one_table(served, left) if served else None
        if served is not None:
            if measured is None:
                left = self._arm(plan.left, left)
            right = self._arm(plan.right, right)
        elif plan.right.relations in self._arms.broadcast:
            right = self._arm(plan.right, right)
            right.hinted = (right.first.alias,)
        on = self._conjuncts(plan)
        if plan.kind == "full":
            left, right = self._settled(left), self._settled(right)
        judged, kind = self._filters(plan), plan.kind
        on += right.pending + (judged if kind == "inner" else [])
        pending = left.pending + ([] if kind == "inner" else judged)
        if kind in _TURNED and max(left.depth, _DEEPEST) < right.depth:
            left, right, kind = right, left, _TURNED[kind]
        depth = max(left.depth, right.depth + bool(right.joins))
        names, hinted = {**left.names, **right.names}, (*left.hinted, *right.hinted)
        conditions = [expression(predicate.sql, names) for predicate in on]
        if served is None:
            added = [join(kind, right.item(), conditions)]
        else:
            read = partial(expression, rename=names)
            one = measured or left.first
            sides = (
                Side(one, one.alias, read, measured is not None),
                Side(right.first, right.first.alias, read, plan.right.left is None),
            )
            added = self._found(kind, served, *sides, conditions)
        joins = [*left.joins, *added]
        return _Tree(left.first, joins, pending, depth, names, hinted)

    def _one_table(self, served: Candidates, left: _Tree) -> exp.Expr | None:
        """The table that the left values of an accelerated join are of, which may be read by itself
        to measure them; None where they are of several."""
        refs = {ref for sql in served.left for ref in refs_in(sql) if ref[0]}
        relations = {relation for relation, _ in refs}
        if len(relations) > 1 or refs & left.names.keys():
            return None
        name = min(relations)
        return left.first if not left.joins and left.first.alias == name else self._scan(name)

    def _arm(self, plan: SubPlan, tree: _Tree) -> _Tree:
        """A side under one name."""
        if not tree.joins:
            return tree
        alias, outputs = self._aliases.take("arm"), UniqueNames()
        inside: list[exp.Expr] = []
        names: dict[ColumnRef, exp.Expr] = {}
        for relation in _visible(self._graph, plan):
            for name in self._arms.columns[relation]:
                ref = (relation, name)
                output = outputs.take(f"{relation}.{name}")
                inside.append(named(tree.names.get(ref, column(name, relation)), output))
                names[ref] = column(output, alias)
        rows = _over(exp.select(*inside), tree)
        return _Tree(aliased(rows, alias), [], [], names=names)

    def _found(
        self, kind: str, served: Candidates, left: Side, right: Side, on: list[exp.Expr]
    ) -> list[exp.Join]:
        """The join by candidates, and what is joined before it."""
        assert self._arms.beside is not None  # noqa: S101 - beside accelerators
        found = candidates_of(served, left, right, on, self._arms.beside)
        before = (join("cross", each, ()) for each in found.before)
        return [*before, join(kind, found.right, found.on)]

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
        conditions = [expression(predicate.sql, tree.names) for predicate in tree.pending]
        if not tree.joins and isinstance(tree.first, exp.Table):
            rows = exp.select("*").from_(tree.first).where(*conditions)
            return _Tree(aliased(rows, tree.first.alias), [], [])
        one = aliased(exp.select(named(number(1), "one")), self._aliases.take("one_row"))
        joins = [*tree.joins, join("inner", one, conditions)]
        return replace(tree, joins=joins, pending=[], depth=0)


def _over(select: exp.Select, tree: _Tree) -> exp.Select:
    """The select with the tree as its FROM, WHERE and hints."""
    select.set("from_", exp.From(this=tree.first))
    select.set("joins", tree.joins)
    if tree.pending:
        filters = (expression(p.sql, tree.names) for p in tree.pending)
        select = select.where(*filters, copy=False)
    if tree.hinted:
        select = broadcast(select, *tree.hinted)
    return select


def _renamed(output: exp.Expr, names: Mapping[ColumnRef, exp.Expr]) -> exp.Expr:
    """An output over renamed columns, under the name that it has."""
    if isinstance(output, exp.Column):
        to = names.get((output.table, output.name))
        return named(to, output.name) if to else output
    return moved(output, names)


def _visible(graph: Hypergraph, plan: SubPlan) -> Iterator[str]:
    """Relations whose columns a sub-plan gives, in order."""
    if plan.left is None or plan.right is None:
        yield graph.names[plan.relations.bit_length() - 1]
        return
    yield from _visible(graph, plan.left)
    if plan.kind not in ("semi", "anti"):
        yield from _visible(graph, plan.right)
