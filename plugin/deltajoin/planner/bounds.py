"""What a joined set can't have more rows than, whatever its predicates keep.

A lookup by a unique key adds no rows: a relation and all that it looks up by keys, one after the
other, has no more rows than the relation has. A semi or anti join's right side adds none either; a
row that a left join preserves is there at least once, so that the way leads from left to right
only. What no one relation leads to is the product of all.

Rows of tables are those of the log; a hint is no bound. Declared keys are trusted here: where no
row of the result rests on one, that of a large table is not checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

from deltajoin.graph import ColumnRef, JoinGraph
from deltajoin.planner.hypergraph import Edge, Hypergraph, union
from deltajoin.planner.statistics import Statistics


class Bounds:
    """Bounds on the rows of joined sets; each set is judged once."""

    def __init__(self, graph: JoinGraph, hypergraph: Hypergraph, statistics: Statistics) -> None:
        names = hypergraph.names
        sources = [graph.by_name[name].source for name in names]
        counts = [statistics.rows.get(source) for source in sources]
        self._rows = [math.inf if count is None else max(float(count), 1.0) for count in counts]
        self._smallest = sorted(range(len(names)), key=lambda number: (self._rows[number], number))
        self._silent = [(e.left, e.right) for e in hypergraph.edges if e.kind in ("semi", "anti")]
        leads = _leads(hypergraph)
        self._lookups = [
            tuple(leads.get((name, column), 0) for column in statistics.keys.get(source, ()))
            for name, source in zip(names, sources, strict=True)
        ]
        everything = (1 << len(names)) - 1
        self._led = [self._reached(1 << number, everything) for number in range(len(names))]
        #: Rows of a set at most; infinite when a table's size is not known.
        self.most_rows: Callable[[int], float] = cache(self._most_rows)

    def _most_rows(self, joined: int) -> float:
        silent = joined & union(right for left, right in self._silent if left & joined)
        heard = [n for n in self._smallest if joined & ~silent & 1 << n]
        for number in heard:
            if joined & ~silent & ~self._led[number] == 0:
                if self._reached(1 << number | silent, joined) == joined:
                    return self._rows[number]
        one = len(heard) == 1
        return self._rows[heard[0]] if one else math.prod(self._rows[n] + 1 for n in heard)

    def _reached(self, reached: int, joined: int) -> int:
        """What lookups by keys within a set lead to."""
        waiting = [n for n in self._smallest if joined & ~reached & 1 << n]
        while found := [n for n in waiting if self._is_led(n, reached)]:
            waiting = [n for n in waiting if n not in found]
            reached |= sum(1 << n for n in found)
        return reached

    def _is_led(self, number: int, reached: int) -> bool:
        lookups = self._lookups[number]
        return bool(lookups) and all(way & reached for way in lookups)


def _leads(hypergraph: Hypergraph) -> dict[ColumnRef, int]:
    """Column -> the relations whose row gives its value."""
    found: dict[ColumnRef, int] = {}
    for edge in hypergraph.edges:
        for predicate in edge.predicates:
            if predicate.left is None or predicate.right is None:
                continue
            for here, there in (
                (predicate.left, predicate.right),
                (predicate.right, predicate.left),
            ):
                one, other = hypergraph.bit[here[0]], hypergraph.bit[there[0]]
                if _leads_to(edge, one, other):
                    found[there] = found.get(there, 0) | one
    return found


def _leads_to(edge: Edge, one: int, other: int) -> bool:
    if edge.kind == "inner":
        return True
    return edge.kind == "left" and bool(edge.left & one and edge.right & other)
