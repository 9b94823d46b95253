"""A whole query over pinned versions, in the planner's join order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from deltajoin.delta.clock import micros
from deltajoin.delta.evidence import MOST_PAIRS, compares_rows, compares_too_many
from deltajoin.delta.path import SourceVersion
from deltajoin.delta.plan import DeltaPlan
from deltajoin.delta.state import GroupState, group_state
from deltajoin.emit.ast import aliased, column, expression, named, pretty, table, union_all
from deltajoin.emit.kept_groups import grouped, groups_of_states
from deltajoin.emit.nesting import Arms, add_from
from deltajoin.emit.parts import generated, windowed
from deltajoin.emit.running import running_states
from deltajoin.emit.stream import Statement
from deltajoin.emit.views import Views
from deltajoin.emit.write import count_select, stamped
from deltajoin.errors import DeltaJoinError
from deltajoin.graph import JoinGraph
from deltajoin.layers import INPUT
from deltajoin.names import RESERVED_PREFIX, SHOWN, quote
from deltajoin.planner.full_query import FullQuery
from deltajoin.sql.clock import frozen_query
from deltajoin.sql.dialect import parse
from deltajoin.sql.opaque import over_views
from deltajoin.sql.scope import OF_FILES
from deltajoin.sql.tables import replace_tables


def query_rows(
    graph: JoinGraph,
    query: FullQuery,
    views: Views,
    versions: Mapping[str, int],
    state: GroupState | None = None,
    apart: list[Statement] | None = None,
) -> exp.Query:
    """What a graph gives out, groups as they are stored; `versions`: source -> the one read.

    `apart` gets the queries of one row that this one reads; without, they stand before it.
    """
    lines: dict[str, exp.Query] = {}

    def beside(sql: str) -> str:
        name = views.beside("lines")
        if apart is None:
            lines[name] = parse(sql)
        else:
            apart.append(Statement(name, pretty(parse(sql)), measured=True))
        return name

    def scan(relation: str) -> exp.Table:
        source = graph.by_name[relation].source
        return table(views.scan(source, versions[source]).view, relation)

    selects: list[exp.Query] = []
    for part, plan, missing in query.parts(graph):
        columns = {relation.name: relation.columns for relation in part.relations}
        hints = Arms(plan.broadcast, columns, plan.accelerated, beside)
        if plan.running and graph.grouping:
            made = group_state(graph, views.types)
            assert made is not None  # noqa: S101 - as the planner found
            parts = running_states(part, plan, made, scan, hints)
            return _before(groups_of_states(parts, graph.grouping, made, state), lines)
        nulls = views.nulls(graph, missing)
        select = exp.select(*(named(expression(p.sql, nulls), p.name) for p in part.projections))
        selects.append(add_from(select, plan.hypergraph, plan.plan, scan, hints))
    rows = union_all(*selects)
    if graph.generation:
        rows = generated(aliased(rows, INPUT), graph.generation)
    if graph.windowing:
        rows = windowed(aliased(rows, INPUT), graph.windowing)
    elif graph.grouping:
        rows = grouped(aliased(rows, INPUT), graph.grouping, state)
    return _before(rows, lines)


def _before(rows: exp.Query, queries: Mapping[str, exp.Query]) -> exp.Query:
    """The query with others before those that it has, by name."""
    if not queries:
        return rows
    own = rows.args.get("with_")
    rows.set("with_", None)
    for name, below in queries.items():
        rows = rows.with_(exp.to_identifier(name, quoted=True), as_=below, copy=False)
    for cte in own.expressions if own else ():
        rows.args["with_"].append("expressions", cte)
    return rows


@dataclass(frozen=True)
class Evidence:
    """What the rows of a rebuild are held against: the query as it was written.

    `rows`: compare them too, not only the columns; `because` why not, where it costs too much.
    `rounded`: floats may depend on the order of rows, so that they are compared by sums.
    """

    text: str
    rows: bool
    rounded: bool
    because: str = ""


def evidence_of(plan: DeltaPlan, views: Views) -> Evidence | None:
    """The evidence for a rebuild by our form of the query; none for one by its own text."""
    if plan.graph is None or plan.full_query is None:
        return None
    graph = plan.graph
    rounded = bool(graph.grouping or graph.windowing or graph.derived)
    rows = compares_rows(plan) and at_clock(plan) is not None
    because = ""
    if rows and compares_too_many(plan):
        rows, because = False, f"its text compares more than {MOST_PAIRS:,.0f} pairs of rows"
    return Evidence(own_text(plan, views), rows, rounded, because)


def own_text(plan: DeltaPlan, views: Views) -> str:
    """The query as the user wrote it, over this epoch's versions and by its clock."""
    places = {s.source: views.scan(s.source, s.version).view for s in plan.sources}
    selects = {
        s.source: _visible(s, places[s.source])
        for s in plan.sources
        if any(name.startswith(RESERVED_PREFIX) for name, _ in s.columns)
    }
    if not plan.is_unreadable:
        tables = [s for s in plan.sources if not s.static and s.source not in selects]
        paths = {s.source: s.location for s in tables}
        if _tells_of_files(plan):  # a view hides it
            selects |= {
                s.source: f"delta.{quote(s.location)} VERSION AS OF {s.version}" for s in tables
            }
        return replace_tables(at_clock(plan) or plan.sql, places, selects, paths)
    if selects and (why := plan.rebuilt_because):  # no subquery can take the place of a name
        message = f"{why.message}, and {', '.join(selects)} has hidden columns"
        raise DeltaJoinError.of(replace(why, message=message))
    return over_views(plan.sql, places)


def full_sql(
    plan: DeltaPlan,
    views: Views,
    *,
    stamps: bool = True,
    apart: list[Statement] | None = None,
) -> str:
    """The whole query over this epoch's versions, by its clock; derived sources stand before it by
    name. Without `stamps`: its rows alone; `apart` gets statements to be opened before, if any."""
    if plan.graph is None or plan.full_query is None:
        written = own_text(plan, views)
        if apart is None or plan.target.kind != "bag":
            return written
        view = views.beside("as_written")
        apart.append(Statement(view, written))
        counted = count_select(exp.select("*").from_(table(view)), plan.target)
        return pretty(stamped(counted, plan.target))
    versions = {s.source: s.version for s in plan.all_sources}
    rows = query_rows(plan.graph, plan.full_query, views, versions, plan.state, apart)
    if plan.target.kind == "bag":
        rows = count_select(rows, plan.target)
    if stamps:
        rows = stamped(rows, plan.target)
    below = {
        views.scan(derived.source.source, derived.source.version).view: (
            query_rows(derived.graph, derived.full_query, views, versions)
            if derived.full_query
            else parse(derived.text)
        )
        for derived in plan.derived
    }
    if apart:  # they may read derived sources, too
        apart[:0] = [Statement(view, pretty(query)) for view, query in below.items()]
        return pretty(rows)
    return pretty(_before(rows, below))


def at_clock(plan: DeltaPlan) -> str | None:
    """The query's own text by the epoch's clock; None where the clock can't be told from others."""
    if plan.clock is None:
        return plan.sql
    columns = {name.lower() for source in plan.sources for name, _ in source.columns}
    return frozen_query(plan.sql, micros(plan.clock), columns)


def _tells_of_files(plan: DeltaPlan) -> bool:
    columns = {name.lower() for source in plan.sources for name, _ in source.columns}
    if OF_FILES in columns or OF_FILES not in plan.sql.lower():
        return False
    names = (name.name.lower() for name in parse(plan.sql).find_all(exp.Identifier))
    return OF_FILES in names


def _visible(source: SourceVersion, view: str) -> str:
    """A target with hidden columns as a user sees it."""
    names = [name for name, _ in source.columns]
    select = exp.select(*(column(n) for n in names if not n.startswith(RESERVED_PREFIX)))
    select = select.from_(table(view))
    return f"({pretty(select.where(column(SHOWN)) if SHOWN in names else select)})"
