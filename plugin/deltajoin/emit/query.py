"""A whole query over pinned versions, in the planner's join order."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from deltajoin.delta.plan import DeltaPlan
from deltajoin.emit.ast import expression, named, pretty, table
from deltajoin.emit.group import grouped
from deltajoin.emit.layers import generated, windowed
from deltajoin.emit.nesting import Arms, add_from
from deltajoin.emit.views import Views
from deltajoin.emit.write import count_select
from deltajoin.graph import JoinGraph
from deltajoin.layers import INPUT
from deltajoin.planner.full_query import FullQuery
from deltajoin.sql.tables import replace_tables


def query_rows(
    graph: JoinGraph, query: FullQuery, views: Views, versions: Mapping[str, int]
) -> exp.Select:
    """What a graph gives out; `versions`: source -> the version that is read."""

    def scan(relation: str) -> exp.Table:
        source = graph.by_name[relation].source
        return table(views.scan(source, versions[source]).view, relation)

    rows = exp.select(*(named(expression(p.sql), p.name) for p in graph.projections))
    columns = {relation.name: relation.columns for relation in graph.relations}
    rows = add_from(rows, query.hypergraph, query.plan, scan, Arms(query.broadcast, columns))
    if graph.generation:
        rows = generated(rows.subquery(INPUT), graph.generation)
    if graph.windowing:
        return windowed(rows.subquery(INPUT), graph.windowing)
    return grouped(rows.subquery(INPUT), graph.grouping) if graph.grouping else rows


def full_sql(plan: DeltaPlan, views: Views) -> str:
    """The whole query over this epoch's versions; derived sources stand before it by name."""
    if plan.graph is None or plan.full_query is None:
        places = {s.source: views.scan(s.source, s.version).view for s in plan.sources}
        return replace_tables(plan.sql, places)
    versions = {s.source: s.version for s in plan.all_sources}
    rows = query_rows(plan.graph, plan.full_query, views, versions)
    if plan.target.kind == "bag":
        rows = count_select(rows, plan.target)
    for derived in plan.derived:
        name = views.scan(derived.source.source, derived.source.version).view
        below = query_rows(derived.graph, derived.full_query, views, versions)
        rows = rows.with_(exp.to_identifier(name, quoted=True), as_=below)
    return pretty(rows)
