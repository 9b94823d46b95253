"""How many rows a join step gives.

The estimate of a step depends only on what is bound and what comes next:

    fan-out(bound -> new) = matches x every filter and residual that becomes decidable
    matches = 1                         a declared key of `new` is fully equated with bound columns
            = rows(new) x selectivity   else, per bound relation that `new` is equated with:
                1 / rows of that relation, if its own declared key is equated (a foreign key in new)
                1 / distinct values of each equality, but not below 1 / rows of the larger table

A column's distinct values are the table's rows if it is a key by itself, else rows to the power of
3/4. Nothing is ever below one millionth: a wrong guess can change an order, never silence a path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deltajoin.graph import ColumnRef, JoinGraph, Predicate

_FILTER, _INEQUALITY, _EXPRESSION_EQUALITY = 0.25, 1 / 3, 0.05
_LEAST = 1e-6


@dataclass(frozen=True)
class Statistics:
    """What is known of the sources: row counts (None: unknown) and declared keys."""

    rows: Mapping[str, int | None]
    keys: Mapping[str, tuple[str, ...]]

    def table_rows(self, source: str) -> float:
        """Rows of a source table, 1,000 when the log doesn't say."""
        rows = self.rows.get(source)
        return float(max(1, 1000 if rows is None else rows))


def relation_rows(graph: JoinGraph, statistics: Statistics, relation: str) -> float:
    """Rows of a relation after its own filters."""
    rows = statistics.table_rows(graph.by_name[relation].source)
    for predicate in graph.predicates:
        if predicate.kind == "filter" and relation in predicate.relations:
            rows *= _FILTER
    return max(rows, _LEAST)


def key_is_bound(graph: JoinGraph, statistics: Statistics, bound: frozenset[str], new: str) -> bool:
    """True when each column of a declared key of `new` is equated with a bound column."""
    key = statistics.keys.get(graph.by_name[new].source)
    if not key:
        return False
    return all(any(rel in bound for rel, _ in graph.equated((new, column))) for column in key)


def fan_out(graph: JoinGraph, statistics: Statistics, bound: frozenset[str], new: str) -> float:
    """Expected rows of `new` that match one bound row."""
    filtered = 1.0
    residual = 1.0
    edges: dict[str, list[Predicate]] = {}
    for predicate in sorted(graph.decidable(bound, new), key=lambda p: p.sql):
        if predicate.kind == "filter":
            filtered *= _FILTER
        elif predicate.kind == "edge":
            (partner,) = predicate.relations - {new}
            edges.setdefault(partner, []).append(predicate)
        else:
            residual *= _residual(predicate)
    if key_is_bound(graph, statistics, bound, new):
        matches = 1.0
    else:
        matches = statistics.table_rows(graph.by_name[new].source)
        for partner in sorted(edges):
            matches *= _edges(graph, statistics, new, partner, edges[partner])
    return max(matches * residual * filtered, _LEAST)


def _residual(predicate: Predicate) -> float:
    equality = " = " in predicate.sql or " IS NOT DISTINCT FROM " in predicate.sql
    return _EXPRESSION_EQUALITY if equality else _INEQUALITY


def _edges(
    graph: JoinGraph, statistics: Statistics, new: str, partner: str, edges: list[Predicate]
) -> float:
    """Selectivity of all equalities between two relations together."""
    source = graph.by_name[partner].source
    rows = statistics.table_rows(source)
    equated = {ref for edge in edges for ref in edge.refs if ref[0] == partner}
    key = statistics.keys.get(source)
    if key and all((partner, column) in equated for column in key):
        return 1 / rows
    product = 1.0
    for edge in edges:
        product /= max(_distinct(graph, statistics, ref) for ref in edge.refs)
    return max(product, 1 / max(rows, statistics.table_rows(graph.by_name[new].source)))


def _distinct(graph: JoinGraph, statistics: Statistics, column: ColumnRef) -> float:
    relation, name = column
    source = graph.by_name[relation].source
    rows = statistics.table_rows(source)
    return rows if statistics.keys.get(source) == (name,) else max(1.0, rows**0.75)
