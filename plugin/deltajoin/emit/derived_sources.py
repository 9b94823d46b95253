"""A derived source as views: its rows at both epochs, and its change by what is touched.

    <source>_v<n>               the subquery over the versions of that epoch
    path_rows_<source>          what its own lookup paths give
    touched_<source>            distinct keys of its groups or partitions in that
    before_<source>, after_<source>     all rows of those at either epoch
    <source>_changes            what is made of the rows after, minus what was made of them before

What generators alone make needs no look at other rows: its change is the net of the paths. So is
that of a table under a condition on the clock, and the rows of the last epoch that cross between
clocks: +1 those that meet the condition now and not before, -1 those that met it before and not
now. A source of literals is its text, whose change is what is in it by one clock and not by the
other.

Caller: base tables and their changes are open; derived sources below this one have been put up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from deltajoin.delta.derived import DerivedPlan
from deltajoin.delta.path import types_of
from deltajoin.delta.signed_zeros import holds_floats
from deltajoin.emit.ast import expression, is_null, number, pretty, table, union_all, weighted
from deltajoin.emit.parts import net_change, touched_parts, touched_sql
from deltajoin.emit.paths import (
    PathProgram,
    SharedProgram,
    path_programs,
    path_statements,
    regroup_statements,
)
from deltajoin.emit.stream import Statement
from deltajoin.emit.views import Views
from deltajoin.emit.whole_query import query_rows
from deltajoin.emit.write import net
from deltajoin.sql.dialect import parse


@dataclass(frozen=True)
class DerivedProgram:
    """The statements of a derived source; without a change, its rows alone.

    `rows` is the view of all path rows, `regroup` what leads from touched keys to rows; `touched`
    is None where rows stand for themselves. `crossing` is the change where no path has rows.
    """

    source: str
    scans: tuple[Statement, ...]
    paths: tuple[PathProgram, ...] = ()
    shared: tuple[SharedProgram, ...] = ()
    rows: str = ""
    touched: Statement | None = None
    regroup: tuple[Statement, ...] = ()
    change: Statement | None = None
    crossing: Statement | None = None

    def statements(self) -> Iterator[Statement]:
        """All of them, in order."""
        yield from self.scans
        yield from path_statements(self.paths, self.shared)
        yield from [self.touched] if self.touched else []
        yield from self.regroup
        yield from [self.change] if self.change else []


def derived_program(plan: DerivedPlan, views: Views, read: frozenset[int]) -> DerivedProgram:
    """The statements of one derived source; `read`: the versions of it that are read."""
    name, graph = plan.source.source, plan.graph
    program = DerivedProgram(name, tuple(_scan(plan, views, version) for version in sorted(read)))
    if not plan.source.changed:
        return program
    if plan.earlier_text:
        alone = Statement(views.changes(name), _net(plan, _between_texts(plan)))
        return replace(program, crossing=alone, change=alone)
    inner = views.within(name)
    paths, shared = path_programs(graph, plan.paths, inner)
    program = replace(program, paths=paths, shared=shared, rows=inner.part.rows)
    net_rows = net_change(graph, types_of(plan.versions), inner.part.rows)
    if graph.grouping is None and graph.windowing is None:
        return _by_rows(plan, views, program, net_rows)
    before, after = inner.part.before, inner.part.after
    return replace(
        program,
        touched=Statement(inner.part.touched, touched_sql(graph, net_rows)),
        regroup=(
            *regroup_statements(graph, plan.paths, plan.before, inner, before),
            *regroup_statements(graph, plan.paths, plan.after, inner, after),
        ),
        change=Statement(views.changes(name), _difference(plan, inner, before, after)),
    )


def _by_rows(
    plan: DerivedPlan, views: Views, program: DerivedProgram, net_rows: exp.Select
) -> DerivedProgram:
    view, crossing = views.changes(plan.source.source), _crossing(plan, views)
    if crossing is None:
        return replace(program, change=Statement(view, _net(plan, net_rows)))
    alone = Statement(view, _net(plan, crossing))
    both = Statement(view, _net(plan, union_all(net_rows, crossing)))
    return replace(program, crossing=alone, change=both if plan.paths else alone)


def _crossing(plan: DerivedPlan, views: Views) -> exp.Query | None:
    """The rows of the last epoch that one clock takes and the other doesn't, as weighted rows; of a
    table in two scans that file statistics cut down, of what is computed in one."""
    if plan.earlier is None:
        return None
    (relation,), (version,) = plan.graph.relations, plan.versions
    place = table(views.scan(version.source, version.at("previous")).view, relation.name)
    now, before = (
        exp.paren(exp.and_(*(exp.paren(expression(p.sql)) for p in graph.predicates)))
        for graph in (plan.graph, plan.earlier[0])
    )
    enters, leaves = _only(now, before), _only(before, now)

    def rows(weight: exp.Expr, where: exp.Expr) -> exp.Select:
        return weighted(plan.graph.row_names, weight, place, relation.name).where(where)

    if views.is_derived(version.source):
        weight = exp.case().when(now, number(1)).else_(number(-1))
        return rows(weight, exp.or_(enters, leaves))
    return union_all(rows(number(1), enters), rows(number(-1), leaves))


def _between_texts(plan: DerivedPlan) -> exp.Query:
    """The rows by this clock, and those by the last one, to be subtracted."""
    sides = ((plan.text, 1), (plan.earlier_text, -1))
    return union_all(
        *(weighted(_used(plan), number(by), parse(sql).subquery("made")) for sql, by in sides)
    )


def _only(one: exp.Expr, other: exp.Expr) -> exp.Expr:
    """A condition where another is not TRUE."""
    return exp.and_(one, exp.paren(exp.or_(exp.not_(other), is_null(other))))


def _scan(plan: DerivedPlan, views: Views, version: int) -> Statement:
    view = views.scan(plan.source.source, version).view
    graph, full_query = plan.query(version)
    if full_query is None:
        now = version == plan.source.version or not plan.earlier_text
        return Statement(view, plan.text if now else plan.earlier_text)
    rows = query_rows(graph, full_query, views, dict(plan.below(version)))
    return Statement(view, pretty(rows))


def _difference(plan: DerivedPlan, views: Views, before: str, after: str) -> str:
    """Touched groups or partitions after, minus those before."""
    sides = (
        weighted(
            _used(plan),
            number(sign),
            touched_parts(plan.graph, view, views.part.touched).subquery("made"),
        )
        for view, sign in ((before, -1), (after, 1))
    )
    return _net(plan, union_all(*sides))


def _net(plan: DerivedPlan, rows: exp.Query) -> str:
    exactly = tuple(name for name, kind in plan.source.columns if holds_floats(kind))
    return pretty(net(_used(plan), rows.subquery("rows"), exactly))


def _used(plan: DerivedPlan) -> tuple[str, ...]:
    return tuple(name for name, _ in plan.source.columns)
