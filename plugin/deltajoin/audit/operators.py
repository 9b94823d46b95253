"""How each operator of a query is kept: by lookup paths, by scope, by branches, by groups, or not.

    inner join                 lookup paths: the change travels through the other tables
    cross join                 lookup paths too, which meet every row; with rows and cost
    left, semi, anti join      scope: the join keys that the change touches, both versions
    full join                  branches: the left join, and the right rows without a match
    UNION ALL                  branches: each SELECT with the joins around it
    LATERAL VIEW, explode      row by row: the change itself goes through the generator
    GROUP BY, DISTINCT, total  the groups that the change touches, or state and change together
    windows                    the partitions that the change touches
    the last row before each   neighbours: no pairs, where keys tell the rows apart
    filters, computed columns  row by row
    these below a join         as a source
    anything else              rebuilt: code, message, place, what to change

Caller: gives a plan just made, which still knows what stood against keeping it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlglot import exp

from deltajoin.delta.derived import describe
from deltajoin.delta.path import types_of
from deltajoin.delta.plan import DeltaPlan
from deltajoin.delta.state import kept_aggregates
from deltajoin.emit.ast import expression
from deltajoin.graph import Block, Grouping, Join, JoinGraph
from deltajoin.layers import INPUT, Windowing
from deltajoin.names import RESERVED_PREFIX
from deltajoin.planner.full_query import FullQuery
from deltajoin.sql.clocked import judging
from deltajoin.sql.dialect import text

_SCOPE = "by scope: rows of the join keys that a change touches are compared before and after"
_KEPT = {
    **dict.fromkeys(("left", "semi", "anti"), _SCOPE),
    "full": "in branches: the left join, and rows of the right side without a match",
    "union": "in branches: each SELECT is kept by itself, with the joins around it",
}
_INNER = "by lookup paths: a change travels through the other tables"
_CROSS = "by lookup paths; no condition connects them: every row with every row"
_ROWS = "row by row: each changed row gives its generated rows, with its weight"
_PARTITIONS = (
    "by touched partitions: partitions that a change reaches are computed anew from their rows"
)
_UNTIED = "; from the first rows on that differ and tie in its order the query is rebuilt"
_GROUPS = "by touched groups: groups that a change reaches are computed anew from their rows"
_STATE = "by state: what a change adds to counts and sums is added to those stored with each group"
_AGGREGATES = {
    "linear": "linear",
    "inserts": "merged while rows only come, else affected groups",
    "groups": "affected groups",
}

_DAILY = "as a literal within a day; the query is rebuilt when the date moves"
_CROSSING = "as a source: rows that cross between two clocks enter and leave"
_NEIGHBOURS = "by neighbours: it is the one whose neighbour is beyond, not the best of all pairs"
_STAMP = "beside the row: written when its row is"
_EACH = "row by row: each changed row gives its own"
_DERIVED = "as a source: what a change reaches is computed before and after it"


def operators(planned: DeltaPlan) -> list[dict[str, Any]]:
    """Every operator with how it is kept, from the innermost; a refused one with its reason."""
    stop = planned.rebuilt_because
    refused = stop.to_dict() if stop is not None else None
    found = [] if planned.graph is None else _kept(planned, planned.graph)
    for operator in found:
        if stop is not None and _is_at(operator, stop.where):
            operator |= {"kept": "rebuilt", "refused": refused}
            break
    else:
        if stop is not None:
            rebuilt = {"operator": "query", "over": stop.where, "kept": "rebuilt"}
            found.append({**rebuilt, "refused": refused})
    return found


def _kept(planned: DeltaPlan, graph: JoinGraph) -> list[dict[str, Any]]:
    """Every operator as it is kept where nothing stands against it."""
    found: list[dict[str, Any]] = []
    orders = {derived.source.source: derived.full_query for derived in planned.derived}
    for derived in graph.all_derived:
        below = [*_crossed(orders.get(derived.name)), *_operators(derived.graph, _DERIVED)]
        found += [{**one, "within": derived.name} for one in below]
        if derived.asof:
            found.append({"operator": "ASOF join", "over": derived.asof, "kept": _NEIGHBOURS})
        if derived.clocked:
            over = " AND ".join(judging(derived))
            found.append({"operator": "clock", "over": over, "kept": _CROSSING})
    if planned.daily:
        found.append({"operator": "clock", "over": "the whole query", "kept": _DAILY})
    found += _crossed(planned.full_query)
    found += _operators(graph, _GROUPS if planned.state is None else _STATE)
    if graph.grouping is not None:
        aggregates = _aggregates(planned, graph)
        found[-1] |= {"aggregates": aggregates}
        found[-1]["kept"] += _held_back(aggregates) if planned.state is None else ""
    return found + [
        {"operator": "stamp", "over": stamp.name, "kept": _STAMP} for stamp in graph.stamps
    ]


def _crossed(full: FullQuery | None) -> list[dict[str, Any]]:
    """Joins of the whole query without a condition, with what they give and cost there."""
    return [
        {
            "operator": "cross join",
            "over": f"{join['left']} with {join['right']}",
            "kept": f"{_CROSS}; {join['rows']:,.0f} rows, cost {join['cost']:.3g}",
        }
        for order in (full.arms if full else ())
        for join in order.to_dict()["joins"]
        if join["kind"] == "cross"
    ]


def _operators(graph: JoinGraph, groups: str) -> list[dict[str, Any]]:
    found = list(_block(graph.root))
    for generator in graph.generation.generators if graph.generation else ():
        call = generator.call.partition("(")[0]
        found.append({"operator": "generator", "over": call, "kept": _ROWS})
    if graph.windowing is not None:
        keys = ", ".join(_partition_keys(graph, graph.windowing))
        open_order = any(order.compared for order in graph.windowing.orders)
        kept = _PARTITIONS + (_UNTIED if open_order else "")
        found.append({"operator": "window", "over": keys, "kept": kept})
    if graph.grouping is not None:
        found.append(_grouped(graph, graph.grouping, groups))
    each = {"operator": "rows", "over": ", ".join(graph.root.relations), "kept": _EACH}
    return found or [each]


def _partition_keys(graph: JoinGraph, windowing: Windowing) -> Iterator[str]:
    """The partition's columns as they are given out; a hidden one by what it is."""
    below = {p.name: p.sql.replace("`", "") for p in graph.projections}
    for key, output in zip(windowing.keys, windowing.key_outputs, strict=True):
        yield below.get(key, key) if output.startswith(RESERVED_PREFIX) else output


def _is_at(operator: dict[str, Any], where: str | None) -> bool:
    """True for the join whose right side a reason names."""
    right = ", ".join(sorted((where or "").split(", ")))
    return bool(where) and str(operator["over"]).endswith(f" with {right}")


def _block(block: Block) -> Iterator[dict[str, Any]]:
    for item in block.items:
        if isinstance(item, Join):
            yield from _block(item.left)
            yield from _block(item.right)
            left, right = item.left.relations, sorted(item.right.relations)
            over = f"{', '.join(left)} with {', '.join(right)}"
            name = "UNION ALL" if item.kind == "union" else f"{item.kind} join"
            yield {"operator": name, "over": over, "kept": _KEPT[item.kind]}
    if len(block.items) > 1:
        over = ", ".join(block.relations)
        yield {"operator": "inner join", "over": over, "kept": _INNER}


def _grouped(graph: JoinGraph, grouping: Grouping, how: str) -> dict[str, Any]:
    rows = {p.name: p.sql for p in graph.projections}
    if graph.generation is not None:
        rows = {o.name: rows.get(o.column or "", o.sql) for o in graph.generation.outputs}
    keys = [rows[name].replace("`", "") for name in grouping.keys]
    given = zip(keys, grouping.key_outputs, strict=False)
    named = [key if name in grouping.hidden_keys else name for key, name in given]
    over = ", ".join(named) or "one group of all rows"
    plain = all(isinstance(expression(sql), exp.Column) for _, sql in grouping.outputs)
    name = "DISTINCT" if plain and grouping.keys and not grouping.having else "GROUP BY"
    return {"operator": name, "over": over, "kept": how}


def _held_back(aggregates: list[dict[str, str]]) -> str:
    """Which aggregates keep the others from a state, as text after how the groups are kept."""
    groups = [a["aggregate"] for a in aggregates if a["kept"] == _AGGREGATES["groups"]]
    if not groups or len(groups) == len(aggregates):
        return ""
    return f"; without {', '.join(groups)} a state would do"


def _aggregates(planned: DeltaPlan, graph: JoinGraph) -> list[dict[str, str]]:
    """Every aggregate on top with how it is kept."""
    rows = {(INPUT, p.name): expression(p.sql) for p in graph.projections}
    if graph.generation is not None:
        outputs = graph.generation.outputs
        rows = {(INPUT, output.name): expression(output.sql, rows) for output in outputs}

    def shown(sql: str) -> str:
        return text(expression(sql, rows)).replace("`", "")

    described = describe(graph, {}, types_of(planned.sources))
    found = kept_aggregates(graph, described.types, described.inexact)
    return [{"aggregate": shown(a.call), "kept": _AGGREGATES[a.kept]} for a in found]
