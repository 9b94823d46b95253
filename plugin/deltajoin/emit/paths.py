"""Lookup paths -> their statements.

    path_<driver>_<n>   the travelling change after lookup n; its columns are `relation.column`
    shared_<m>_<n>      the changes of several paths, after n of the lookups that they take together

Filters judge both images of an update (they apply to every weighted row of a change). Each lookup
applies every predicate that became decidable. Paths that share lookups are united before the first
of them, each row with its path's number, so that rows are counted by path all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from deltajoin.delta.path import LookupPath, LookupStep
from deltajoin.delta.sharing import SharedEnd, shared_ends
from deltajoin.emit.ast import (
    broadcast,
    column,
    expression,
    named,
    number,
    pretty,
    table,
    union_all,
)
from deltajoin.emit.narrowing import Within, asked, carried_on, equal_columns, equalities, of_all
from deltajoin.emit.views import Views
from deltajoin.graph import ColumnRef, JoinGraph
from deltajoin.names import PATH, WEIGHT, UniqueNames
from deltajoin.sql.dialect import text

Names = Mapping[ColumnRef, tuple[str, str] | exp.Expr]
#: The alias of what a stream asks a derived source for.
KEYS = "__deltajoin_keys"


@dataclass(frozen=True)
class Statement:
    """One SELECT and the view that its result is read through.

    `relation` is the one looked up, None where none is: the change itself, the output rows.
    """

    view: str
    sql: str
    relation: str | None = None


@dataclass(frozen=True)
class PathProgram:
    """The statements of one lookup path, in order.

    The last gives output rows with a weight, or what goes on into shared lookups, where `number`
    marks its rows.
    """

    driver: str
    feed: str
    statements: tuple[Statement, ...]
    number: int = 0


@dataclass(frozen=True)
class SharedProgram:
    """Lookups that the paths of `drivers` take together.

    `view` is the union (all rows, columns by position) of the views `inputs` that have rows; the
    statements go on from there as a path's do.
    """

    view: str
    drivers: tuple[str, ...]
    inputs: tuple[str, ...]
    statements: tuple[Statement, ...]

    @property
    def sql(self) -> str:
        """The union of all inputs, for people and for engines that take it as text."""
        return pretty(union_all(*(exp.select("*").from_(table(view)) for view in self.inputs)))


def path_statements(
    paths: Iterable[PathProgram], shared: Iterable[SharedProgram]
) -> Iterator[Statement]:
    """All statements of some paths, in order."""
    for path in paths:
        yield from path.statements
    for part in shared:
        yield Statement(part.view, part.sql)
        yield from part.statements


def path_programs(
    graph: JoinGraph, paths: tuple[LookupPath, ...], views: Views
) -> tuple[tuple[PathProgram, ...], tuple[SharedProgram, ...]]:
    """The statements of every path, and of the lookups that several of them share."""
    ends = shared_ends(paths)
    alone = [_own_part(graph, path, i, ends, views) for i, path in enumerate(paths)]
    last = {program.driver: program.statements[-1].view for program in alone}
    by_driver = {path.driver: path for path in paths}
    shared = []
    for i, end in enumerate(ends):
        members = [by_driver[driver] for driver in end.drivers]
        part = _Part(graph, members, views, views.shared(i), end.first, True)
        inputs = tuple(dict.fromkeys(last[driver] for driver in end.drivers))
        statements = part.statements(end.last)
        shared.append(SharedProgram(part.view(end.first), end.drivers, inputs, statements))
        last |= dict.fromkeys(end.drivers, statements[-1].view)
    return tuple(alone), tuple(shared)


def _own_part(
    graph: JoinGraph, path: LookupPath, index: int, ends: Iterable[SharedEnd], views: Views
) -> PathProgram:
    """The change of the driver under its filters, and the lookups that no other path shares."""
    alone = min((e.first for e in ends if path.driver in e.drivers), default=None)
    part = _Part(graph, [path], views, views.path(path.driver), 0, alone is not None)
    filters = [p.sql for p in graph.decidable(frozenset(), path.driver)]
    filters += [p.sql for p in graph.predicates if p.kind == "constant"]
    marks = [] if alone is None else [named(number(index), PATH)]
    first = exp.select(
        *part.columns(1, new=path.driver), column(WEIGHT, path.driver), *marks
    ).from_(table(views.changes(path.source), path.driver))
    if filters:
        first = first.where(*[expression(sql) for sql in filters])
    start = Statement(part.view(0), pretty(first))
    rest = part.statements(len(path.steps) if alone is None else alone)
    return PathProgram(path.driver, views.changes(path.source), (start, *rest), index)


def start_within(graph: JoinGraph, path: LookupPath, views: Views) -> Within:
    """A driver's columns, each held by its change."""
    change = views.changes(path.source)
    names = graph.by_name[path.driver].columns
    return {(path.driver, name): frozenset({(change, name)}) for name in names}


def looked_up_by(
    step: LookupStep, views: Views, stream: str, rename: Names, alias: str, within: Within
) -> exp.Expr:
    """What a step looks up, within what bounds the stream's columns. Of a derived source only the
    groups that the stream asks for: an engine takes the semi join below the making of groups."""
    within_keys = asked(equal_columns(step.on, step.relation), within)
    rows = table(views.looked_up(step.source, step.version, within_keys), step.relation)
    pairs = equalities(step.on, step.relation)
    if not views.is_derived(step.source) or not pairs:
        return rows
    keys = exp.select(
        *(named(expression(text(wanted), rename), f"k{i}") for i, (_, wanted) in enumerate(pairs))
    )
    keys = keys.from_(table(stream, alias)).distinct()
    on = [
        exp.EQ(this=column(mine, step.relation), expression=column(f"k{i}", KEYS))
        for i, (mine, _) in enumerate(pairs)
    ]
    select = exp.select(exp.Column(this=exp.Star(), table=exp.to_identifier(step.relation, True)))
    asked_for = select.from_(rows).join(
        keys.subquery(exp.to_identifier(KEYS, quoted=True)), on=exp.and_(*on), join_type="left semi"
    )
    return asked_for.subquery(exp.to_identifier(step.relation, quoted=True))


def join_on(select: exp.Select, right: exp.Expr, on: list[exp.Expr]) -> exp.Select:
    """The join on all conjuncts; a cross join while no predicate of the relation is decidable."""
    if not on:
        return select.join(right, join_type="cross")
    return select.join(right, on=exp.and_(*on))


class _Part:
    """Some lookups of the paths that take them together; their names and needs of columns.

    All paths have bound the same relations after `first` lookups, where this part begins.
    """

    def __init__(
        self,
        graph: JoinGraph,
        paths: list[LookupPath],
        views: Views,
        prefix: str,
        first: int,
        marked: bool,
    ) -> None:
        self._graph, self._paths, self._views = graph, paths, views
        self._prefix, self._first = prefix, first
        self._steps = paths[0].steps
        self._order = (paths[0].driver, *(step.relation for step in self._steps))
        self._carried = (WEIGHT, PATH) if marked else (WEIGHT,)
        names = UniqueNames()
        self._names: dict[ColumnRef, str] = {
            (relation, name): names.take(f"{relation}.{name}")
            for relation in sorted(self._order)
            for name in graph.by_name[relation].columns
        }

    def view(self, position: int) -> str:
        """The view of the stream after so many lookups of the whole path."""
        return f"{self._prefix}_{position - self._first}"

    def statements(self, last: int) -> tuple[Statement, ...]:
        """The lookups up to `last`, and after the path's last one the output rows."""
        found = [self._lookup(position) for position in range(self._first, last)]
        if last == len(self._steps):
            rename = self._rename(self._order, "stream")
            outputs = [named(expression(p.sql, rename), p.name) for p in self._graph.projections]
            select = exp.select(*outputs, column(WEIGHT, "stream"))
            rows = select.from_(table(self.view(last), "stream"))
            found.append(Statement(f"{self._prefix}_rows", pretty(rows)))
        return tuple(found)

    def _lookup(self, position: int) -> Statement:
        step = self._steps[position]
        stream = "stream" if step.relation.lower() != "stream" else "stream_"
        rename = self._rename(self._order[: position + 1], stream)
        select = exp.select(
            *self.columns(position + 2, new=step.relation, stream=stream),
            *(column(name, stream) for name in self._carried),
        ).from_(table(self.view(position), stream))
        within = of_all(self._within(path, position) for path in self._paths)
        looked_up = looked_up_by(step, self._views, self.view(position), rename, stream, within)
        joined = join_on(select, looked_up, [expression(sql, rename) for sql in step.on])
        before = sum(path.rows_before(position) for path in self._paths)
        bound = self._order[: position + 1]
        if self._views.is_sent(self._graph, bound, before, step.source):
            joined = broadcast(joined, stream)
        return Statement(self.view(position + 1), pretty(joined), step.relation)

    def _within(self, path: LookupPath, position: int) -> Within:
        """What bounds the columns of one path's stream after so many lookups."""
        within: Within = start_within(self._graph, path, self._views)
        for step in path.steps[:position]:
            within = carried_on(within, step.on, step.relation)
        return within

    def columns(self, position: int, *, new: str, stream: str | None = None) -> list[exp.Expr]:
        """Output columns once `position` relations are bound, of which `new` is the last."""
        out: list[exp.Expr] = []
        for relation, name in sorted(self._needed_after(position)):
            travelled = self._names[relation, name]
            if relation == new:
                out.append(named(column(name, relation), travelled))
            else:
                out.append(column(travelled, stream))
        return out

    def _needed_after(self, position: int) -> set[ColumnRef]:
        bound = frozenset(self._order[:position])
        refs = {ref for p in self._graph.projections for ref in p.refs}
        for predicate in self._graph.predicates:
            if not predicate.relations <= bound:
                refs |= set(predicate.refs)
        return {ref for ref in refs if ref[0] in bound}

    def _rename(self, bound: tuple[str, ...], stream: str) -> dict[ColumnRef, tuple[str, str]]:
        """Where the columns of bound relations are found in the stream."""
        return {ref: (stream, name) for ref, name in self._names.items() if ref[0] in bound}
