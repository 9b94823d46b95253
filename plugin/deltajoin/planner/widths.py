"""How many bytes a row takes that is moved: of a table, and of a joined set.

    number, date, boolean    what Spark counts for the type
    string and the like      what the files hold beside these, inflated; Spark's default at least
    a joined set             the columns that something above still needs: outputs, and predicates
                             that reach out of the set

A table of unknown schema is as wide as its files say; nothing of it is left out. Caller: asks for
sets of one hypergraph; a relation's columns are those that the query uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

from deltajoin.graph import ColumnRef, JoinGraph
from deltajoin.planner.hypergraph import Hypergraph
from deltajoin.planner.statistics import Statistics

#: Bytes of a row in memory for each byte in a data file, and what a row of an unknown table has.
INFLATION, UNKNOWN_ROW = 3.0, 100.0
#: Bytes of a file that are no rows: the footer of a table with a handful of columns.
FOOTER = 4096

#: Bytes of a value and of a row's frame, as Spark counts them.
_ROW = 8.0
_TYPES = {"boolean": 1, "tinyint": 1, "smallint": 2, "int": 4, "integer": 4, "float": 4, "date": 4}
_WIDE = {"string": 20, "binary": 100, "array": 100, "map": 100, "struct": 100}
_VALUE, _MOST = 8, 1e4


def row_bytes(statistics: Statistics, source: str) -> float:
    """Bytes of a row of a table in memory, by its files; 8 to 10,000."""
    size = statistics.bytes.get(source)
    if size is None:
        return UNKNOWN_ROW
    return min(max(INFLATION * size / statistics.table_rows(source), 8.0), _MOST)


def used_bytes(statistics: Statistics, source: str, used: Iterable[str]) -> float:
    """Bytes of those columns of a row that are read; of all when the schema is not known."""
    sizes = value_bytes(statistics, source)
    read = set(used)
    if not sizes or not read <= sizes.keys():
        return row_bytes(statistics, source)
    return min(_ROW + sum(sizes[name] for name in sorted(read)), _MOST)


def value_bytes(statistics: Statistics, source: str) -> dict[str, float]:
    """Column -> bytes of a value; empty when the schema is not known."""
    kinds = {
        name: _kind(kind) for (table, name), kind in statistics.types.items() if table == source
    }
    sizes = {name: float(_TYPES.get(k, _WIDE.get(k, _VALUE))) for name, k in sorted(kinds.items())}
    wide = [name for name, kind in kinds.items() if kind in _WIDE]
    size, log = statistics.bytes.get(source), statistics.log.get(source)
    if not wide or size is None:
        return sizes
    rows = max(size - FOOTER * (log.files if log else 1), 0) / statistics.table_rows(source)
    left = INFLATION * rows - sum(sizes[name] for name in sizes if name not in wide)
    share = left / sum(sizes[name] for name in wide)
    return sizes | {name: min(max(sizes[name] * share, sizes[name]), _MOST) for name in wide}


def _kind(kind: str) -> str:
    return kind.lower().split("(")[0].split("<")[0]


class Widths:
    """Bytes of a row of joined sets; each set is summed up once."""

    def __init__(self, graph: JoinGraph, hypergraph: Hypergraph, statistics: Statistics) -> None:
        needs = _needs(graph, hypergraph)
        self._frames: list[float] = []
        self._columns: list[tuple[int, int, float]] = []
        for number, name in enumerate(hypergraph.names):
            relation = graph.by_name[name]
            sizes = value_bytes(statistics, relation.source)
            if not sizes or not sizes.keys() >= set(relation.columns):
                self._frames.append(row_bytes(statistics, relation.source))
                continue
            grouped: dict[int, float] = {}
            for column in relation.columns:
                reach = needs.get((name, column), 0)
                grouped[reach] = grouped.get(reach, 0.0) + sizes[column]
            self._frames.append(grouped.pop(-1, 0.0))
            self._columns += [(1 << number, r, size) for r, size in sorted(grouped.items())]
        #: Bytes of a row of a joined set that are carried on.
        self.of: Callable[[int], float] = cache(self._of)

    def _of(self, joined: int) -> float:
        found = sum(frame for i, frame in enumerate(self._frames) if joined >> i & 1)
        for bit, reach, size in self._columns:
            if joined & bit and reach & ~joined:
                found += size
        return max(found, 0.0) + _ROW


def _needs(graph: JoinGraph, hypergraph: Hypergraph) -> dict[ColumnRef, int]:
    """Column -> the relations that its predicates reach; all and more (-1) for an output."""
    found: dict[ColumnRef, int] = {}
    for edge in hypergraph.edges:
        for predicate in edge.predicates:
            for ref in predicate.refs:
                found[ref] = found.get(ref, 0) | hypergraph.set_of(predicate.relations)
    for judged in hypergraph.filters:
        for ref in judged.predicate.refs:
            found[ref] = found.get(ref, 0) | judged.needs
    for projection in graph.projections:
        found.update(dict.fromkeys(projection.refs, -1))
    return found
