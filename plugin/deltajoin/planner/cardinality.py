"""How many rows a join step gives.

The estimate of a step depends only on what is bound and what comes next:

    fan-out(bound -> new) = rows(new) x selectivity of every predicate that becomes decidable
    and at most 1 (x its filters) when a declared key of `new` is fully equated with bound columns

An equality is 1 / max(distinct values of both sides), where a column's distinct values are the
table's rows if it is a key by itself, else rows to the power of 3/4. Nothing is ever below one
millionth, so a wrong guess can change the order but not silence a path.
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
    rows = statistics.table_rows(graph.by_name[new].source)
    filtered = 1.0
    matches = rows
    for predicate in sorted(graph.decidable(bound, new), key=lambda p: p.sql):
        if predicate.kind == "filter":
            filtered *= _FILTER
        else:
            matches *= _selectivity(graph, statistics, predicate)
    if key_is_bound(graph, statistics, bound, new):
        matches = min(matches, 1.0)
    return max(matches * filtered, _LEAST)


def _selectivity(graph: JoinGraph, statistics: Statistics, predicate: Predicate) -> float:
    if predicate.left is not None and predicate.right is not None:
        return 1 / max(
            _distinct(graph, statistics, predicate.left),
            _distinct(graph, statistics, predicate.right),
        )
    equality = " = " in predicate.sql or " IS NOT DISTINCT FROM " in predicate.sql
    return _EXPRESSION_EQUALITY if equality else _INEQUALITY


def _distinct(graph: JoinGraph, statistics: Statistics, column: ColumnRef) -> float:
    relation, name = column
    source = graph.by_name[relation].source
    rows = statistics.table_rows(source)
    return rows if statistics.keys.get(source) == (name,) else max(1.0, rows**0.75)
