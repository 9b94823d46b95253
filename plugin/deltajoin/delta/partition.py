"""Which output columns identify a row of the target, and whether windows order rows uniquely.

A window function such as `row_number`, and a sum over ROWS, gives rows that tie in its order
whatever Spark happens to give them. It can be kept only if its partition and order columns hold a
key of the joined rows (`delta.identity`): then no rows tie. The statements check that at each run.
Generators repeat rows, so nothing identifies a row above one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from deltajoin.delta.identity import Keys, Types, independent_relations, target_key
from deltajoin.delta.ordered import deciding_relations, undetermined
from deltajoin.errors import Refusal
from deltajoin.graph import JoinGraph


def row_key(graph: JoinGraph, keys: Keys, types: Types) -> tuple[str, ...]:
    """Output columns that are unique in the result, in output order; empty for a bag."""
    if graph.grouping is not None:
        return graph.grouping.key_outputs
    windowing = graph.windowing
    if windowing is not None and windowing.first_of:
        return windowing.first_of
    if graph.generation is not None:
        return ()
    if windowing is None:
        return target_key(graph, keys, types)
    below = {p.name: p for p in graph.projections}
    shown = (
        replace(below[o.column], name=o.name)
        for o in (*windowing.outputs, *windowing.hidden)
        if o.column
    )
    return target_key(replace(graph, projections=tuple(shown)), keys, types)


def ambiguous_order(graph: JoinGraph | None, keys: Keys, types: Types) -> Refusal | None:
    """What stands against keeping windows or aggregates whose order may leave rows tied."""
    if graph is None:
        return None
    if graph.windowing is None:
        return undetermined(graph, keys, types)
    for order in graph.windowing.orders:
        if graph.generation is None and _identify(graph, order.columns, keys, types):
            continue
        return Refusal(
            "WINDOW_TIES",
            "a window function depends on the order of rows that tie, and is not kept "
            "incrementally",
            ", ".join(_shown(graph, order.columns)) or "the window",
            "Declare keys of the tables, and add the columns of the row's key to ORDER BY.",
        )
    return None


def identifying_relations(
    graph: JoinGraph, keys: Keys, types: Types, keyed: bool
) -> tuple[str, ...]:
    """The relations whose keys must be unique, NULL included, for rows to be identified."""
    ordered = graph.windowing is not None and bool(graph.windowing.orders)
    if graph.grouping is not None:
        return deciding_relations(graph, keys, types)
    if not (keyed or ordered):
        return ()
    return independent_relations(graph, keys, types)


def _identify(graph: JoinGraph, columns: Iterable[str], keys: Keys, types: Types) -> bool:
    below = {p.name: p for p in graph.projections}
    projections = tuple(below[name] for name in columns)
    return bool(target_key(replace(graph, projections=projections), keys, types))


def _shown(graph: JoinGraph, columns: Iterable[str]) -> list[str]:
    below = {p.name: p.sql.replace("`", "") for p in graph.projections}
    return [below.get(name, name) for name in columns]
