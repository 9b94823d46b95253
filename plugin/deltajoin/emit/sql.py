"""DeltaPlan -> the statements of a run.

A run reads named views only, so that its SQL says what it does and runs on any engine:

    <source>_v<version>     a source at a pinned version
    <source>_changes        its consolidated change: used columns and a weight
    path_<driver>_<n>       the travelling change after lookup n; its columns are `relation.column`
    path_rows, to_write     all paths together; what the MERGE will do, row by row

Filters judge both images of an update (they apply to every weighted row of a change). Each lookup
applies every predicate that became decidable. Rows are netted before they are folded to keys.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from deltajoin.delta.epochs import LookupPath, SourceVersion
from deltajoin.delta.identity import independent_relations
from deltajoin.delta.plan import DeltaPlan
from deltajoin.emit.ast import call, column, expression, named, number, pretty, string, table
from deltajoin.emit.shadow import TARGET_BEFORE, ShadowProgram, compare_sql
from deltajoin.emit.write import count_sql, fold_sql, merge_sql
from deltajoin.graph import ColumnRef, JoinGraph
from deltajoin.names import WEIGHT, UniqueNames, slug
from deltajoin.sql.tables import replace_tables

#: A travelling change of at most so many rows is broadcast to a table of at least so many. Smaller
#: tables are left to Spark, which broadcasts them once for all paths.
BROADCAST_ROWS, LARGE_TABLE_ROWS = 1_000_000, 200_000


@dataclass(frozen=True)
class Scan:
    """A source at a pinned version, under a view name."""

    view: str
    location: str
    version: int


@dataclass(frozen=True)
class Feed:
    """A source's change feed over (first..last), and the SQL that consolidates it."""

    view: str
    raw_view: str
    source: str
    location: str
    first: int
    last: int
    sql: str


@dataclass(frozen=True)
class Statement:
    """One SELECT and the view that its result is read through."""

    view: str
    sql: str
    relation: str | None = None


@dataclass(frozen=True)
class PathProgram:
    """The statements of one lookup path, in order; the last gives output rows with a weight."""

    driver: str
    feed: str
    statements: tuple[Statement, ...]


@dataclass(frozen=True)
class Program:
    """Every statement of a run. `full` and `key_check` are None when not needed, as `shadow`."""

    scans: tuple[Scan, ...]
    feeds: tuple[Feed, ...]
    paths: tuple[PathProgram, ...]
    fold: str | None
    merge: str | None
    full: str | None
    key_check: str | None
    shadow: ShadowProgram | None = None


class Views:
    """View names of a plan's versions and changes, unique and readable."""

    def __init__(self, plan: DeltaPlan) -> None:
        names = UniqueNames()
        self._scans: dict[tuple[str, int], Scan] = {}
        self._changes: dict[str, str] = {}
        self._rows = {source.source: source.rows for source in plan.sources}
        for source in plan.sources:
            base = slug(source.source)
            previous = source.version if source.previous is None else source.previous
            for version in sorted({source.version, previous}):
                view = names.take(f"{base}_v{version}")
                self._scans[source.source, version] = Scan(view, source.location, version)
            self._changes[source.source] = names.take(f"{base}_changes")
        relations = plan.graph.relations if plan.graph else ()
        self._paths = {r.name: names.take(f"path_{slug(r.name)}") for r in relations}

    def scan(self, source: str, version: int) -> Scan:
        """The scan of a source at a version."""
        return self._scans[source, version]

    def is_large(self, source: str) -> bool:
        """True when a change should be brought to the table rather than the table to the change."""
        rows = self._rows[source]
        return rows is None or rows >= LARGE_TABLE_ROWS

    def path(self, driver: str) -> str:
        """What the views of a driver's path begin with."""
        return self._paths[driver]

    def changes(self, source: str) -> str:
        """The view of a source's consolidated change."""
        return self._changes[source]


def build_program(plan: DeltaPlan) -> Program:
    """All statements of a run of this plan; empty for a no-op."""
    views = Views(plan)
    if plan.strategy == "full":
        scans = tuple(views.scan(s.source, s.version) for s in plan.sources)
        return Program(scans, (), (), None, None, full_sql(plan, views), _key_check(plan, views))
    if plan.strategy == "noop" or plan.graph is None:
        return Program((), (), (), None, None, None, None)
    used = sorted({(step.source, step.version) for path in plan.paths for step in path.steps})
    changed = [s for s in plan.sources if s.changed]
    return Program(
        scans=tuple(views.scan(source, version) for source, version in used),
        feeds=tuple(_feed(plan.graph, source, views) for source in changed),
        paths=tuple(path_program(plan.graph, path, views) for path in plan.paths),
        fold=fold_sql(plan.target),
        merge=merge_sql(plan.target),
        full=None,
        key_check=None,
        shadow=_shadow(plan, views, frozenset(used)),
    )


def _shadow(
    plan: DeltaPlan, views: Views, opened: frozenset[tuple[str, int]]
) -> ShadowProgram | None:
    if plan.shadow is None or plan.target.location is None:
        return None
    scans = [views.scan(s.source, s.version) for s in plan.sources]
    known = [views.scan(source, version) for source, version in opened]
    before = Scan(TARGET_BEFORE, plan.target.location, plan.shadow.version)
    return ShadowProgram(
        scans=(*(scan for scan in scans if scan not in known), before),
        full=full_sql(plan, views),
        compare=compare_sql(plan.target, plan.shadow),
    )


def _feed(graph: JoinGraph, source: SourceVersion, views: Views) -> Feed:
    view = views.changes(source.source)
    columns = [column(name) for name in graph.used_columns(source.source)]
    sign = (
        exp.case(column("_change_type"))
        .when(string("insert"), number(1))
        .when(string("update_postimage"), number(1))
        .else_(number(-1))
    )
    weight = call("sum", sign)
    select = (
        exp.select(*columns, named(weight, WEIGHT))
        .from_(table(f"{view}_feed"))
        .group_by(*[c.copy() for c in columns])
        .having(exp.NEQ(this=weight.copy(), expression=number(0)))
    )
    return Feed(
        view=view,
        raw_view=f"{view}_feed",
        source=source.source,
        location=source.location,
        first=(source.previous or 0) + 1,
        last=source.version,
        sql=pretty(select),
    )


def path_program(graph: JoinGraph, path: LookupPath, views: Views) -> PathProgram:
    """The statements of one lookup path: filter the change, look up, ..., project."""
    prefix = views.path(path.driver)
    order = (path.driver, *(step.relation for step in path.steps))
    travelling = _Travelling(graph, order)
    driver_filters = [p.sql for p in graph.decidable(frozenset(), path.driver)]
    driver_filters += [p.sql for p in graph.predicates if p.kind == "constant"]
    first = exp.select(*travelling.columns(1, new=path.driver), column(WEIGHT, path.driver)).from_(
        table(views.changes(path.source), path.driver)
    )
    if driver_filters:
        first = first.where(*[expression(sql) for sql in driver_filters])
    statements = [Statement(f"{prefix}_0", pretty(first), path.driver)]
    for position, step in enumerate(path.steps, start=1):
        stream = travelling.stream_alias(step.relation)
        rename = travelling.rename(order[:position], stream)
        select = exp.select(
            *travelling.columns(position + 1, new=step.relation, stream=stream),
            column(WEIGHT, stream),
        ).from_(table(statements[-1].view, stream))
        looked_up = table(views.scan(step.source, step.version).view, step.relation)
        joined = _join(select, looked_up, [expression(sql, rename) for sql in step.on])
        before = path.steps[position - 2].estimated_rows if position > 1 else path.estimated_rows
        if before <= BROADCAST_ROWS and views.is_large(step.source):
            joined = joined.hint(call("BROADCAST", exp.to_identifier(stream, quoted=True)))
        statements.append(Statement(f"{prefix}_{position}", pretty(joined), step.relation))
    rename = travelling.rename(order, "stream")
    outputs = [named(expression(p.sql, rename), p.name) for p in graph.projections]
    last = exp.select(*outputs, column(WEIGHT, "stream")).from_(
        table(statements[-1].view, "stream")
    )
    statements.append(Statement(f"{prefix}_rows", pretty(last)))
    return PathProgram(path.driver, views.changes(path.source), tuple(statements))


def _join(select: exp.Select, right: exp.Table, on: list[exp.Expr]) -> exp.Select:
    """The join on all conjuncts; a cross join while no predicate of the relation is decidable."""
    if not on:
        return select.join(right, join_type="cross")
    return select.join(right, on=exp.and_(*on))


class _Travelling:
    """Names and need of the columns that travel with a change."""

    def __init__(self, graph: JoinGraph, order: tuple[str, ...]) -> None:
        self._graph = graph
        self._order = order
        names = UniqueNames()
        self._names: dict[ColumnRef, str] = {
            (relation, name): names.take(f"{relation}.{name}")
            for relation in sorted(order)
            for name in graph.by_name[relation].columns
        }

    def _needed_after(self, position: int) -> set[ColumnRef]:
        bound = frozenset(self._order[:position])
        refs = {ref for p in self._graph.projections for ref in p.refs}
        for predicate in self._graph.predicates:
            if not predicate.relations <= bound:
                refs |= set(predicate.refs)
        return {ref for ref in refs if ref[0] in bound}

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

    def rename(self, bound: tuple[str, ...], stream: str) -> dict[ColumnRef, tuple[str, str]]:
        """Where the columns of bound relations are found in the stream."""
        return {ref: (stream, name) for ref, name in self._names.items() if ref[0] in bound}

    @staticmethod
    def stream_alias(relation: str) -> str:
        """An alias for the stream that differs from the relation looked up."""
        return "stream" if relation.lower() != "stream" else "stream_"


def full_sql(plan: DeltaPlan, views: Views) -> str:
    """The whole query over this epoch's versions, in the planner's join order."""
    if plan.graph is None or plan.full_order is None:
        return replace_tables(
            plan.sql, {s.source: views.scan(s.source, s.version).view for s in plan.sources}
        )
    graph, order = plan.graph, plan.full_order.relations
    version = {s.source: s.version for s in plan.sources}

    def scan(relation: str) -> exp.Table:
        source = graph.by_name[relation].source
        return table(views.scan(source, version[source]).view, relation)

    outputs = [named(expression(p.sql), p.name) for p in graph.projections]
    select = exp.select(*outputs).from_(scan(order[0]))
    for position, relation in enumerate(order[1:], start=1):
        on = graph.decidable(frozenset(order[:position]), relation)
        select = _join(select, scan(relation), [expression(p.sql) for p in on])
    filters = [p for p in graph.predicates if p.kind == "constant"]
    filters += graph.decidable(frozenset(), order[0])
    if filters:
        select = select.where(*[expression(p.sql) for p in filters])
    return count_sql(select, plan.target) if plan.target.kind == "bag" else pretty(select)


def _identifying_sources(plan: DeltaPlan) -> frozenset[str]:
    """Sources whose key is part of the target's; a NULL in another one's key matches nothing."""
    graph = plan.graph
    if graph is None or plan.target.kind != "keyed":
        return frozenset()
    types = {(s.source, name): kind for s in plan.sources for name, kind in s.columns}
    relations = independent_relations(graph, dict(plan.keys), types)
    return frozenset(graph.by_name[name].source for name in relations)


def _key_check(plan: DeltaPlan, views: Views) -> str | None:
    if not plan.keys:
        return None
    version = {s.source: s.version for s in plan.sources}
    identifying = _identifying_sources(plan)
    checks = []
    for source, key in plan.keys:
        duplicates = (
            exp.select(named(string(source), "source"))
            .from_(table(views.scan(source, version[source]).view))
            .group_by(*[column(name) for name in key])
            .having(exp.GT(this=call("count", number(1)), expression=number(1)))
        )
        if source not in identifying:
            present = [exp.Is(this=column(name), expression=exp.Null()).not_() for name in key]
            duplicates = duplicates.where(*present)
        checks.append(duplicates.limit(1).subquery())
    selects: list[exp.Query] = [exp.select(column("source")).from_(check) for check in checks]
    return pretty(exp.union(*selects, distinct=False) if len(selects) > 1 else selects[0])
