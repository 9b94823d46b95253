"""What joins cost on Spark, in seconds of a small machine: bytes touched, bytes moved, rows made.

    join      broadcast the build side when it is small and sure to be, else exchange each side that
              does not lie by the join's key yet, sort, merge; where an accelerator finds the pairs,
              exchange both, the build side several times

Lookups are costed with the same weights (`planner.lookup`).

Each weight says how it was measured: `examples/measure_cost.py` on two idle local cores, tables in
the page cache; the name in quotes is its line. Only their ratios matter. What every order pays
alike is left out: a leaf is free.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from deltajoin.accelerate import choose
from deltajoin.graph import JoinGraph
from deltajoin.planner.accelerated import served_sides
from deltajoin.planner.bounds import Bounds
from deltajoin.planner.combine import SubPlan
from deltajoin.planner.hypergraph import Hypergraph
from deltajoin.planner.join_keys import JoinKeys
from deltajoin.planner.statistics import Statistics
from deltajoin.planner.widths import Widths

#: Seconds a byte of data files read, "scan": 4 M rows of numbers, less an empty job.
SCAN = 1 / 150e6
#: Seconds a file opened, "file": 202 files against 2 with the same rows.
FILE = 0.0024
#: Seconds an exchange takes whatever it moves, three times "a job": an empty one takes its stages'
#: start, one of a query also its planning anew. A joined side that is broadcast is waited for as
#: long; tables are broadcast side by side.
STAGE = 0.2
#: Seconds a byte of rows exchanged, "shuffle": the scan with and without `repartition(4, k)`.
SHUFFLE = 1 / 190e6
#: Seconds a byte and a row that is collected, hashed and handed out, "broadcast bytes" and
#: "broadcast rows": 1 M rows of one number and of seventeen, 10 probe.
BROADCAST, BROADCAST_ROW = 1 / 210e6, 1 / 3.2e6
#: Seconds a row that probes a hash table, or that a join makes. "probe" gives 137 M rows a second
#: over tables that a core's cache holds; over larger ones, and with columns to carry on, it is a
#: fifth: what three joins of 0.9 M rows more cost TPC-H's Q5.
PROBE = 1 / 25e6
#: Seconds a row that probes by a key that Spark can't hold in eight bytes of whole numbers: what a
#: query with 3 M such probes took longer than one with an order that has few of them.
PROBE_WIDE = 1 / 8e6
#: Times that an accelerator repeats a row of the right side, about.
REPEATED = 5
#: Seconds a row sorted and merged, of either side, "sort-merge join": less both exchanges.
SORT_MERGE = 1 / 25e6

#: Bytes of rows up to which a build side is broadcast (Spark's own default) if it is as expected.
BUILD_LIMIT = 10 * 2**20
#: The same if the estimate is as wrong as can be: Spark obeys a hint whatever the size is, and
#: collects what it broadcasts. A quarter of what it lets a driver collect by default.
MOST_SENT = 256 * 2**20

#: Bytes of a key that Spark looks up fastest, and of the types that one is made of.
_LONG, _WHOLE = 8, {"tinyint": 1, "smallint": 2, "int": 4, "integer": 4, "bigint": 8, "long": 8}
_BUILDS_RIGHT = ("inner", "left", "semi", "anti")
#: What is exchanged, by whether the left and the right side lie by the join's key.
_EXCHANGED = {
    (False, False): ("left", "right"),
    (False, True): ("left",),
    (True, False): ("right",),
    (True, True): (),
}


class Way(NamedTuple):
    """How a join is made: seconds, the side that is broadcast ("" for none), those exchanged; and
    the key by which its rows then lie (0 for none that a join above could have too)."""

    seconds: float
    broadcast: str
    exchanged: tuple[str, ...]
    place: int


class SparkCost:
    """The cost model of a full query's joins; rows are as wide as what is still needed of them."""

    def __init__(self, graph: JoinGraph, hypergraph: Hypergraph, statistics: Statistics) -> None:
        self._bounds = Bounds(graph, hypergraph, statistics)
        #: Bytes of a row of a joined set, without the columns that nothing above it needs.
        self.width: Callable[[int], float] = Widths(graph, hypergraph, statistics).of
        self._size = cache(self._size_of)
        self._keys = JoinKeys(hypergraph)
        self._served = served_sides(graph, hypergraph, statistics)
        self._key_bytes: dict[int, int] = {}
        for (name, column), shared in self._keys.columns:
            kind = statistics.types.get((graph.by_name[name].source, column), "bigint").lower()
            size = _WHOLE.get(kind, 2 * _LONG)
            self._key_bytes[shared] = max(self._key_bytes.get(shared, 0), size)

    def join(self, kind: str, left: SubPlan, right: SubPlan, rows: float) -> tuple[float, int]:
        """Seconds of one join, its inputs' own cost apart, and its place; `right` is built."""
        way = self.way(kind, left, right)
        return way.seconds + PROBE * rows, way.place

    def places(self, joined: int) -> int:
        """The keys by which an exchange may leave a set, as far as a join above has the same."""
        return self._keys.shared(joined)

    def way(self, kind: str, left: SubPlan, right: SubPlan) -> Way:
        """How a join is made, without the rows that it gives."""
        build, small = self._size(right.relations, right.rows)
        places = self.places(left.relations | right.relations)
        if self._served and self._is_served(left, right):
            moved = self._size(left.relations, left.rows)[0] + REPEATED * build
            seconds = SHUFFLE * moved + SORT_MERGE * (left.rows + REPEATED * right.rows)
            return Way(seconds + 2 * STAGE, "", _EXCHANGED[False, False], 0)
        if small and kind in _BUILDS_RIGHT:
            key = self._keys.key(left.relations, right.relations)
            probed = 1.0 if key else max(right.rows, 1.0)
            seconds = BROADCAST * build + BROADCAST_ROW * right.rows
            seconds += STAGE if right.kind else 0.0
            probe = PROBE_WIDE if self._is_wide(key) else PROBE
            place = 0 if left.place & ~places else left.place
            return Way(seconds + probe * left.rows * probed, "right", (), place)
        key = 0
        if left.place or right.place or places:
            key = self._keys.key(left.relations, right.relations)
        here, there = key != 0 and left.place == key, key != 0 and right.place == key
        moved = 0.0 if here else self._size(left.relations, left.rows)[0]
        moved += 0.0 if there else build
        exchanged = _EXCHANGED[here, there]
        seconds = SHUFFLE * moved + SORT_MERGE * (left.rows + right.rows)
        seconds += STAGE * len(exchanged)
        return Way(seconds, "", exchanged, 0 if kind == "full" or key & ~places else key)

    def _is_served(self, left: SubPlan, right: SubPlan) -> bool:
        """Whether an accelerator finds the pairs of a join without a key."""
        if left.rows * right.rows < choose.FEW_PAIRS:
            return False
        sides = left.relations, right.relations
        return any(
            not one & ~here and not other & ~there
            for one, other in self._served
            for here, there in (sides, sides[::-1])
        ) and not self._keys.key(*sides)

    def _is_wide(self, key: int) -> bool:
        """Whether a key takes more than a long: several columns, or no whole number."""
        size = 0
        while key:
            size += self._key_bytes[key & -key]
            key &= key - 1
        return size > _LONG

    def _size_of(self, relations: int, rows: float) -> tuple[float, bool]:
        """Bytes of a part; whether it may be broadcast by what is expected and what is possible."""
        width = self.width(relations)
        if rows * width > BUILD_LIMIT:
            return rows * width, False
        return rows * width, self._bounds.most_rows(relations) * width <= MOST_SENT
