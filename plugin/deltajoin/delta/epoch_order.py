"""The epoch order, by what it makes a run read.

The first relation is never read at this epoch and the last never at the previous one; in between,
the earlier one stands, the more paths read it at its old version. Every permutation is exact; this
one is the cheapest, in seconds:

    each old version read     its snapshot is rebuilt by a Spark job; the newest is at hand
    each (table, version)     is scanned
    each lookup of an old version     finds less in caches, and nothing to prune by of this epoch

All permutations of up to EXACT changed relations are compared; beyond, the order by size is
improved by swaps. Unchanged relations stand anywhere; they come first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import permutations

from deltajoin.delta.path import SourceVersion
from deltajoin.delta.pinning import Pins
from deltajoin.graph import JoinGraph
from deltajoin.planner.canonical import canonical_names
from deltajoin.planner.kept import holds, replanned
from deltajoin.planner.solver import COST, Strategy, stream_order
from deltajoin.planner.statistics import Statistics

#: Seconds to rebuild an old snapshot, measured on two local cores; a row scanned; a row of a table
#: that a path looks up at its old version. The last only breaks ties: big tables are read at this
#: epoch.
SNAPSHOT, SCANNED, OLD = 0.5, 1e-7, 1e-9
#: Changed relations of which all permutations are compared; rounds of swaps beyond.
EXACT, ROUNDS = 6, 8


def epoch_order(
    graph: JoinGraph,
    statistics: Statistics,
    versions: Mapping[str, SourceVersion],
    strategy: Strategy = COST,
    pins: Pins | None = None,
) -> tuple[tuple[str, ...], str]:
    """All relations in epoch order; and both costs where that of the last like epoch was given up.

    That order (`pinning`) stays while it is not clearly dearer.
    """
    places = {name: place for place, name in enumerate(canonical_names(graph))}

    def size(name: str) -> tuple[float, int]:
        return (statistics.table_rows(graph.by_name[name].source), places[name])

    if strategy != COST:
        written = tuple(relation.name for relation in graph.relations)
        return stream_order(written, strategy), ""
    names = tuple(sorted((relation.name for relation in graph.relations), key=size))
    changed = tuple(n for n in names if versions[graph.by_name[n].source].changed)
    sources = {name: graph.by_name[name].source for name in changed}
    rows = {source: statistics.table_rows(source) for source in sources.values()}

    def rank(order: Sequence[str]) -> float:
        return float(f"{_cost([sources[name] for name in order], rows):.9g}")

    if len(changed) <= EXACT:
        best: tuple[str, ...] = min(permutations(changed), key=rank)
    else:
        best = _improved(changed, rank)
    pinned, note = pins.epoch_order(changed) if pins else None, ""
    if pinned is not None and holds(rank(pinned), rank(best)):
        best = pinned
    elif pinned is not None:
        note = replanned("epoch order", rank(pinned), rank(best))
    return (*(name for name in names if name not in best), *best), note


def _cost(order: list[str], rows: Mapping[str, float]) -> float:
    """Seconds for the reads of all paths; `order` holds the table of each changed relation."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    cost = 0.0
    for position, source in enumerate(order):
        first.setdefault(source, position)
        last[source] = position
        cost += OLD * rows[source] * (len(order) - 1 - position)
    for source in first:
        if first[source] < len(order) - 1:
            cost += SNAPSHOT + SCANNED * rows[source]
        if last[source] > 0:
            cost += SCANNED * rows[source]
    return cost


def _improved(order: tuple[str, ...], rank: Callable[[Sequence[str]], float]) -> tuple[str, ...]:
    """Swap two relations, one of them at an end or both neighbours, while that is cheaper."""
    best, cost, last = order, rank(order), len(order) - 1
    pairs = [(i, j) for i in range(last) for j in range(i + 1, last + 1)]
    pairs = [(i, j) for i, j in pairs if i == 0 or j == last or j == i + 1]
    for _ in range(ROUNDS):
        swaps = []
        for i, j in pairs:
            swapped = list(best)
            swapped[i], swapped[j] = swapped[j], swapped[i]
            swaps.append((rank(swapped), tuple(swapped)))
        cheapest = min(swaps)
        if cheapest[0] >= cost:
            break
        cost, best = cheapest
    return best
