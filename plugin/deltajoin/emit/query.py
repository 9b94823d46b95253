"""A whole query over pinned versions, in the planner's join order."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from deltajoin.delta.plan import DeltaPlan
from deltajoin.emit.ast import expression, named, pretty, table
from deltajoin.emit.group import grouped
from deltajoin.emit.nesting import Arms, add_from
from deltajoin.emit.route import null_columns
from deltajoin.emit.views import Views
from deltajoin.emit.write import count_select
from deltajoin.graph import JoinGraph
from deltajoin.planner.arms import arm
from deltajoin.planner.full_query import FullQuery
from deltajoin.sql.group import INPUT
from deltajoin.sql.tables import replace_tables


def query_rows(
    graph: JoinGraph, query: FullQuery, views: Views, versions: Mapping[str, int]
) -> exp.Query:
    """What a graph gives out; `versions`: source -> the version that is read."""

    def scan(relation: str) -> exp.Table:
        source = graph.by_name[relation].source
        return table(views.scan(source, versions[source]).view, relation)

    arms: list[tuple[JoinGraph, FullQuery, tuple[str, ...]]] = [(graph, query, ())]
    if graph.has_union:
        cores = zip(graph.cores, query.arms, strict=True)
        arms = [(arm(graph, core), plan, core.nulls) for core, plan in cores]
    selects: list[exp.Query] = []
    for part, plan, missing in arms:
        nulls = null_columns(graph, missing, views)
        rows = exp.select(*(named(expression(p.sql, nulls), p.name) for p in part.projections))
        columns = {relation.name: relation.columns for relation in part.relations}
        hints = Arms(plan.broadcast, columns)
        selects.append(add_from(rows, plan.hypergraph, plan.plan, scan, hints))
    whole = exp.union(*selects, distinct=False) if len(selects) > 1 else selects[0]
    return grouped(whole.subquery(INPUT), graph.grouping) if graph.grouping else whole


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
