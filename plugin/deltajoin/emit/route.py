"""The steps of a path through outer, semi and anti joins -> one SELECT per step.

    change     the driver's weighted rows, filtered
    enter      a relation LEFT SEMI JOIN the distinct keys of the stream: a new stream of weight 1
    inner      the stream JOIN a relation
    left ...   the stream LEFT (SEMI, ANTI) JOIN a relation, or what further steps make of several
    flip       the stream twice, with weight +1 and -1, joined after and before the change

The stream's columns are named `relation.column`; only those that a later step needs travel on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from deltajoin.delta.epochs import LookupPath, LookupStep
from deltajoin.delta.route import TOUCHED, own_filters
from deltajoin.emit.ast import (
    broadcast,
    column,
    expression,
    named,
    null,
    number,
    pretty,
    table,
    union_all,
)
from deltajoin.emit.group import REGROUPED
from deltajoin.emit.narrowing import Within, asked, carried_on
from deltajoin.emit.paths import (
    PathProgram,
    SharedProgram,
    Statement,
    looked_up_by,
    path_programs,
    start_within,
)
from deltajoin.emit.views import Views
from deltajoin.graph import ColumnRef, JoinGraph
from deltajoin.names import WEIGHT, UniqueNames
from deltajoin.sql.keys import NOT_IN, not_in_match

_SIGN = "__deltajoin_sign"
_JOIN = {"left": "left", "semi": "left semi", "anti": "left anti"}


@dataclass(frozen=True)
class _Stream:
    """A view of travelling rows, the columns in it, about how many rows, what bounds columns."""

    view: str
    refs: frozenset[ColumnRef]
    rows: float
    within: Within


def all_paths(
    graph: JoinGraph, paths: tuple[LookupPath, ...], views: Views
) -> tuple[tuple[PathProgram, ...], tuple[SharedProgram, ...]]:
    """The statements of all paths. Lookups are shared where all joins are inner; other routes go
    each on their own."""
    if graph.cores:
        return tuple(route_program(graph, path, views) for path in paths), ()
    return path_programs(graph, paths, views)


def route_program(graph: JoinGraph, path: LookupPath, views: Views) -> PathProgram:
    """The statements of one path: filter the change, take each step, project."""
    return _Route(graph, path.branch, views.path(path.driver, path.branch), views).program(path)


def regroup_statements(
    graph: JoinGraph,
    paths: Sequence[LookupPath],
    chains: Sequence[Sequence[LookupStep]],
    views: Views,
    name: str = REGROUPED,
) -> tuple[Statement, ...]:
    """From the group keys that the paths touch to the rows of their groups; the last view is
    `name`."""
    statements: list[Statement] = []
    touched = float(sum(path.rows_before(len(path.steps)) for path in paths))
    for branch, steps in enumerate(chains):
        route = _Route(graph, branch, f"{name}_{branch}", views)
        statements += route.rows_of_groups(steps, touched)
    if statements:
        ends = [exp.select("*").from_(table(f"{name}_{b}_rows")) for b in range(len(chains))]
        statements.append(Statement(name, pretty(union_all(*ends))))
    return tuple(statements)


def null_columns(
    graph: JoinGraph, missing: Sequence[str], views: Views
) -> dict[ColumnRef, exp.Expr]:
    """A typed NULL for each column of the relations that a branch misses."""
    return {
        (relation.name, name): null(views.type_of(relation.source, name))
        for relation in graph.relations
        if relation.name in missing
        for name in relation.columns
    }


class _Route:
    def __init__(self, graph: JoinGraph, branch: int, prefix: str, views: Views) -> None:
        self._graph, self._views, self._prefix = graph, views, prefix
        self._core = graph.branches[branch]
        names = UniqueNames()
        self._names: dict[ColumnRef, str] = {
            (relation.name, name): names.take(f"{relation.name}.{name}")
            for relation in sorted(graph.occurrences, key=lambda r: r.name)
            for name in relation.columns
        }
        self._statements: list[Statement] = []

    def rows_of_groups(self, steps: Sequence[LookupStep], touched: float) -> list[Statement]:
        """From so many touched keys, or from a whole relation, to input rows."""
        keys = self._graph.part_keys
        self._names |= {(TOUCHED, key): key for key in keys}
        refs = frozenset((TOUCHED, key) for key in keys)
        view = self._views.touched
        within = {(TOUCHED, key): frozenset({(view, key)}) for key in keys}
        stream = _Stream(view, refs, touched, within)
        self._project(self._chain(steps, stream, self._end(), nested=True))
        return self._statements

    def _end(self) -> set[ColumnRef]:
        return {ref for p in self._graph.outputs(self._core) for ref in p.refs}

    def program(self, path: LookupPath) -> PathProgram:
        """From the driver's change to output rows."""
        driver, end = path.driver, self._end()
        needed = self._needed(path.steps, end)
        first = exp.select(*self._own(driver, needed), column(WEIGHT, driver)).from_(
            table(self._views.changes(path.source), driver)
        )
        filters = own_filters(self._core, driver)
        if filters:
            first = first.where(*(expression(p.sql) for p in filters))
        within = start_within(self._graph, path, self._views)
        rows = float(path.estimated_rows)
        stream = self._emit(first, self._of(driver, needed), None, rows, within)
        stream = self._chain(path.steps, stream, end)
        self._project(stream)
        return PathProgram(driver, self._views.changes(path.source), tuple(self._statements))

    def _project(self, stream: _Stream) -> None:
        nulls = null_columns(self._graph, self._core.nulls, self._views)
        rename = {**self._columns(stream, "stream"), **nulls}
        wanted = self._graph.outputs(self._core)
        outputs = [named(expression(p.sql, rename), p.name) for p in wanted]
        last = exp.select(*outputs, column(WEIGHT, "stream")).from_(table(stream.view, "stream"))
        self._statements.append(Statement(f"{self._prefix}_rows", pretty(last)))

    # steps ---------------------------------------------------------------------------------------

    def _chain(
        self,
        steps: Sequence[LookupStep],
        stream: _Stream,
        end: set[ColumnRef],
        *,
        nested: bool = False,
    ) -> _Stream:
        for at, step in enumerate(steps, start=1):
            needed = self._needed(steps[at:], end)
            label = None if nested else step.relation
            stream = self._step(step, stream, needed, label)
        return stream

    def _step(
        self, step: LookupStep, stream: _Stream, needed: set[ColumnRef], label: str | None
    ) -> _Stream:
        if step.kind == "scan":
            return self._scan(step, needed, label)
        if step.kind == "enter":
            return self._enter(step, stream, needed, label)
        if step.kind == "filter":
            return self._filter(step, stream, needed, label)
        if step.previous:
            return self._flip(step, stream, needed, label)
        if step.inside:
            return self._outer(step, stream, needed, label)
        return self._lookup(step, stream, needed, label)

    def _scan(self, step: LookupStep, needed: set[ColumnRef], label: str | None) -> _Stream:
        select = exp.select(*self._own(step.relation, needed), named(number(1), WEIGHT))
        select = select.from_(
            table(self._views.scan(step.source, step.version).view, step.relation)
        )
        if step.on:
            select = select.where(*(expression(sql) for sql in step.on))
        rows = self._views.rows(step.source)
        return self._emit(select, self._of(step.relation, needed), label, rows, {})

    def _enter(
        self, step: LookupStep, stream: _Stream, needed: set[ColumnRef], label: str | None
    ) -> _Stream:
        travelling = self._columns(stream, "stream")
        keys = exp.select(
            *(
                named(expression(other, travelling), f"k{i}")
                for i, (other, _, _) in enumerate(step.keys)
            )
        )
        keys = keys.from_(table(stream.view, "stream")).distinct()
        alias = "keys" if step.relation.lower() != "keys" else "keys_"
        on = [
            _compared(operator, expression(mine), column(f"k{i}", alias))
            for i, (_, mine, operator) in enumerate(step.keys)
        ]
        mine = _entered(step, stream.within)
        view = self._views.looked_up(step.source, step.version, asked(mine, stream.within))
        select = exp.select(*self._own(step.relation, needed), named(number(1), WEIGHT))
        select = select.from_(table(view, step.relation))
        select = select.join(
            keys.subquery(exp.to_identifier(alias, quoted=True)),
            on=exp.and_(*on),
            join_type="left semi",
        )
        if self._is_sent(stream, step):
            select = broadcast(select, alias)
        if step.on:
            select = select.where(*(expression(sql) for sql in step.on))
        within = {(step.relation, name): stream.within[ref] for name, ref in mine}
        return self._emit(select, self._of(step.relation, needed), label, stream.rows, within)

    def _filter(
        self, step: LookupStep, stream: _Stream, needed: set[ColumnRef], label: str | None
    ) -> _Stream:
        rename = self._columns(stream, "stream")
        select = exp.select(*self._travel(stream, needed, "stream"), column(WEIGHT, "stream"))
        select = select.from_(table(stream.view, "stream"))
        select = select.where(*(expression(sql, rename) for sql in step.on))
        return self._emit(select, stream.refs & needed, label, stream.rows, stream.within)

    def _lookup(
        self, step: LookupStep, stream: _Stream, needed: set[ColumnRef], label: str | None
    ) -> _Stream:
        """A relation joined as it is."""
        alias = _other_than(step.relation)
        rename = self._columns(stream, alias)
        on = [expression(sql, rename) for sql in step.on]
        columns = self._travel(stream, needed, alias)
        refs = stream.refs & needed
        if step.kind in ("inner", "left"):
            columns += self._own(step.relation, needed)
            refs |= self._of(step.relation, needed)
        select = exp.select(*columns, column(WEIGHT, alias)).from_(table(stream.view, alias))
        right = looked_up_by(step, self._views, stream.view, rename, alias, stream.within)
        select = _join(select, right, on, _JOIN.get(step.kind, ""))
        if step.kind != "inner":
            return self._emit(select, refs, label, stream.rows, stream.within)
        if self._is_sent(stream, step):
            select = broadcast(select, alias)
        # within a side, estimates are for one row that enters it
        rows = stream.rows * max(1, step.estimated_rows) if label is None else step.estimated_rows
        within = carried_on(stream.within, step.on, step.relation)
        return self._emit(select, refs, label, float(rows), within)

    def _is_sent(self, stream: _Stream, step: LookupStep) -> bool:
        bound = {name for name, _ in stream.refs} & self._graph.by_name.keys()
        return self._views.is_sent(self._graph, sorted(bound), stream.rows, step.source)

    def _outer(
        self, step: LookupStep, stream: _Stream, needed: set[ColumnRef], label: str | None
    ) -> _Stream:
        """What further steps make of one or several relations, joined to the stream."""
        side = self._side(step, step.inside, stream, needed)
        rename = {**self._columns(stream, "stream"), **self._columns(side, "side")}
        on = [expression(sql, rename) for sql in step.on]
        columns, refs = self._joined(step, stream, side, needed)
        select = exp.select(*columns, column(WEIGHT, "stream")).from_(table(stream.view, "stream"))
        select = _join(select, table(side.view, "side"), on, _JOIN[step.kind])
        return self._emit(select, refs, label, stream.rows, stream.within)

    def _flip(
        self, step: LookupStep, stream: _Stream, needed: set[ColumnRef], label: str | None
    ) -> _Stream:
        """The stream joined after the change with weight +1, and before it with weight -1."""
        after = self._side(step, step.inside, stream, needed)
        before = self._side(step, step.previous, stream, needed)
        signs = exp.union(_sign(1), _sign(-1), distinct=False).subquery("signs")
        travelling = [column(self._names[ref], "s") for ref in sorted(stream.refs)]
        twice = exp.select(*travelling, column(WEIGHT, "s"), column(_SIGN, "signs"))
        twice = twice.from_(table(stream.view, "s")).join(signs, join_type="cross")
        names = [self._names[ref] for ref in sorted(after.refs)]
        sides = [
            exp.select(*(column(name) for name in names), named(number(sign), _SIGN)).from_(
                table(view)
            )
            for view, sign in ((after.view, 1), (before.view, -1))
        ]
        rename = {**self._columns(stream, "stream"), **self._columns(after, "side")}
        on = [expression(sql, rename) for sql in step.on]
        on.append(exp.EQ(this=column(_SIGN, "side"), expression=column(_SIGN, "stream")))
        columns, refs = self._joined(step, stream, after, needed)
        weight = exp.Mul(this=column(WEIGHT, "stream"), expression=column(_SIGN, "stream"))
        select = exp.select(*columns, named(weight, WEIGHT)).from_(twice.subquery("stream"))
        side = exp.union(*sides, distinct=False).subquery("side")
        joined = _join(select, side, on, _JOIN[step.kind])
        return self._emit(joined, refs, label, stream.rows, stream.within)

    def _side(
        self,
        step: LookupStep,
        inside: Sequence[LookupStep],
        stream: _Stream,
        needed: set[ColumnRef],
    ) -> _Stream:
        wanted = _refs(step.on) | (needed if step.kind == "left" else set())
        below = {ref for ref in wanted if ref not in stream.refs}
        return self._chain(inside, stream, below, nested=True)

    def _joined(
        self, step: LookupStep, stream: _Stream, side: _Stream, needed: set[ColumnRef]
    ) -> tuple[list[exp.Expr], frozenset[ColumnRef]]:
        columns = self._travel(stream, needed, "stream")
        if step.kind != "left":
            return columns, stream.refs & needed
        return columns + self._travel(side, needed, "side"), (stream.refs | side.refs) & needed

    # columns -------------------------------------------------------------------------------------

    def _needed(self, steps: Sequence[LookupStep], end: set[ColumnRef]) -> set[ColumnRef]:
        """Columns that later steps read from the stream."""
        found: set[ColumnRef] = set()
        for step in steps:
            if step.kind == "enter":
                return found | _refs(other for other, _, _ in step.keys)
            found |= _refs(step.on)
            for chain in (step.inside, step.previous):
                found |= _refs(other for first in chain[:1] for other, _, _ in first.keys)
        return found | end

    def _of(self, relation: str, needed: set[ColumnRef]) -> frozenset[ColumnRef]:
        return frozenset(ref for ref in needed if ref[0] == relation)

    def _own(self, relation: str, needed: set[ColumnRef]) -> list[exp.Expr]:
        return [
            named(column(name, relation), self._names[relation, name])
            for _, name in sorted(self._of(relation, needed))
        ]

    def _travel(self, stream: _Stream, needed: set[ColumnRef], alias: str) -> list[exp.Expr]:
        return [column(self._names[ref], alias) for ref in sorted(stream.refs & needed)]

    def _columns(self, stream: _Stream, alias: str) -> dict[ColumnRef, exp.Expr]:
        return {ref: column(self._names[ref], alias) for ref in stream.refs}

    def _emit(
        self,
        select: exp.Select,
        refs: frozenset[ColumnRef],
        label: str | None,
        rows: float,
        within: Within,
    ) -> _Stream:
        view = f"{self._prefix}_{len(self._statements)}"
        self._statements.append(Statement(view, pretty(select), label))
        return _Stream(view, refs, rows, within)


def _entered(step: LookupStep, within: Within) -> list[tuple[str, ColumnRef]]:
    """The columns by which a relation is entered, each with the stream's column that bounds it."""
    pairs = []
    for other, mine, operator in step.keys:
        one, two = expression(mine), expression(other)
        if operator in ("=", "<=>") and isinstance(one, exp.Column) and isinstance(two, exp.Column):
            pairs.append((one.name, (two.table, two.name)))
    return [(name, ref) for name, ref in pairs if ref in within]


def _refs(texts: Iterable[str]) -> set[ColumnRef]:
    found: set[ColumnRef] = set()
    for sql in texts:
        found |= {(c.table, c.name) for c in expression(sql).find_all(exp.Column)}
    return found


def _sign(value: int) -> exp.Select:
    return exp.select(named(number(value), _SIGN))


_COMPARISONS = {
    "=": exp.EQ,
    "<=>": exp.NullSafeEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
    "<>": exp.NEQ,
}


def _compared(operator: str, one: exp.Expr, other: exp.Expr) -> exp.Expr:
    closed = exp.Paren(this=one)
    if operator == NOT_IN:
        return not_in_match(closed, other)
    return _COMPARISONS[operator](this=closed, expression=other)


def _join(select: exp.Select, right: exp.Expr, on: list[exp.Expr], kind: str) -> exp.Select:
    if not on and not kind:
        return select.join(right, join_type="cross")
    condition = exp.and_(*on) if on else exp.true()
    return select.join(right, on=condition, join_type=kind or None)


def _other_than(relation: str) -> str:
    return "stream" if relation.lower() != "stream" else "stream_"
