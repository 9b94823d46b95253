"""A derived source as views: its rows at both epochs, and its change by touched groups.

    <source>_v<n>               the subquery over the versions of that epoch
    path_rows_<source>          what its own lookup paths give
    touched_<source>            distinct group keys of that
    before_<source>, after_<source>     all rows of those groups at either epoch
    <source>_changes            its groups after minus its groups before

Caller: base tables and their changes are open; derived sources below this one have been put up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from deltajoin.delta.derived import DerivedPlan
from deltajoin.emit.ast import column, named, number, pretty, table
from deltajoin.emit.change import consolidated
from deltajoin.emit.group import touched_groups, touched_sql
from deltajoin.emit.layers import made_rows, net_change
from deltajoin.emit.paths import PathProgram, SharedProgram, Statement, path_statements
from deltajoin.emit.query import query_rows
from deltajoin.emit.route import all_paths, regroup_statements
from deltajoin.emit.views import Views
from deltajoin.layers import INPUT
from deltajoin.names import WEIGHT


@dataclass(frozen=True)
class DerivedProgram:
    """The statements of a derived source; without a change, its rows alone.

    `rows` is the view of all path rows, `regroup` what leads from touched keys to rows.
    """

    source: str
    scans: tuple[Statement, ...]
    paths: tuple[PathProgram, ...] = ()
    shared: tuple[SharedProgram, ...] = ()
    rows: str = ""
    touched: Statement | None = None
    regroup: tuple[Statement, ...] = ()
    change: Statement | None = None

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
    scans = tuple(_scan(plan, views, version) for version in sorted(read))
    if not plan.source.changed:
        return DerivedProgram(name, scans)
    inner = views.within(name)
    paths, shared = all_paths(graph, plan.paths, inner)
    before, after = inner.named("before"), inner.named("after")
    regroup = (
        *regroup_statements(graph, plan.before, inner, before),
        *regroup_statements(graph, plan.after, inner, after),
    )
    return DerivedProgram(
        source=name,
        scans=scans,
        paths=paths,
        shared=shared,
        rows=inner.path_rows,
        touched=Statement(inner.touched, touched_sql(graph, net_change(graph, inner.path_rows))),
        regroup=regroup,
        change=Statement(views.changes(name), _change(plan, inner, before, after)),
    )


def _scan(plan: DerivedPlan, views: Views, version: int) -> Statement:
    rows = query_rows(plan.graph, plan.full_query, views, dict(plan.below(version)))
    return Statement(views.scan(plan.source.source, version).view, pretty(rows))


def _change(plan: DerivedPlan, views: Views, before: str, after: str) -> str:
    used = tuple(name for name, _ in plan.source.columns)
    sides = []
    for view, sign in ((before, -1), (after, 1)):
        rows = made_rows(plan.graph, table(view, INPUT))
        groups = touched_groups(rows, plan.grouping, views.touched)
        select = exp.select(*(column(name) for name in used), named(number(sign), WEIGHT))
        sides.append(select.from_(groups.subquery("groups")))
    union = exp.union(*sides, distinct=False).subquery("sides")
    return consolidated(used, union, column(WEIGHT))
