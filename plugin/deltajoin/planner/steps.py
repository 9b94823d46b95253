"""What one more lookup costs, asked once: the search's view of a graph on bit sets.

Relation i of the sorted names is bit 1 << i. The fan-out of a step depends on what is bound only
through the relations that share a predicate with the new one, and through whether each equality
class of its columns is bound; so it is kept by that part of the bound set and shared by all paths
of a model.

The price of a step is a function of the rows in and out, the table's rows and whether the stream
already lies where the step needs it; `step_price` is the plain one. Prices are never negative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from deltajoin.graph import JoinGraph
from deltajoin.planner.cardinality import Statistics, fan_out

#: A travelling change of at most so many rows is broadcast to a table of at least so many; a
#: smaller table is broadcast itself.
BROADCAST_ROWS, LARGE_TABLE_ROWS = 1_000_000, 200_000
#: Moving a row of the stream to where the table is, against making one by a join.
EXCHANGE = 0.5
#: Where the stream lies after a step: where it lay, by the step's key, anywhere.
KEPT, KEYED, LOST = 0, 1, 2

#: (rows in, rows out, rows of the table, is the stream placed by the step's key) -> (price, place)
Price = Callable[[float, float, float, bool], tuple[float, int]]


def step_price(rows_in: float, rows_out: float, table: float, placed: bool) -> tuple[float, int]:
    """Rows made plus rows of the stream moved; what every order pays alike is left out.

    Example:
        >>> step_price(10.0, 20.0, 1000.0, False), step_price(2e6, 1.0, 1e9, True)
        ((20.0, 0), (1.0, 1))
        >>> step_price(10.0, 20.0, 1e9, False), step_price(2e6, 1.0, 1e9, False)
        ((25.0, 2), (1000001.0, 1))
    """
    if table < LARGE_TABLE_ROWS:
        return rows_out, KEPT
    if rows_in <= BROADCAST_ROWS:
        return rows_out + EXCHANGE * rows_in, LOST
    return (rows_out, KEYED) if placed else (rows_out + EXCHANGE * rows_in, KEYED)


class Move(NamedTuple):
    """A step from a bound set: the set after it, the new relation, its fan-out, key and table."""

    after: int
    new: int
    fan_out: float
    key: int
    table: float


class Steps:
    """Neighbours and fan-outs of one graph, by bit sets."""

    def __init__(self, graph: JoinGraph, statistics: Statistics) -> None:
        self.names = tuple(sorted(relation.name for relation in graph.relations))
        self.bit = {name: 1 << i for i, name in enumerate(self.names)}
        self.everything = (1 << len(self.names)) - 1
        self._statistics = statistics
        self._table = [statistics.table_rows(graph.by_name[n].source) for n in self.names]
        adjacent = [0] * len(self.names)
        for predicate in graph.predicates:
            joined = self.set_of(predicate.relations)
            for name in predicate.relations:
                adjacent[self.number(name)] |= joined
        #: Relation -> those that share a predicate with it.
        self.adjacent = tuple(joined & ~(1 << i) for i, joined in enumerate(adjacent))
        classes: list[set[int]] = [set() for _ in self.names]
        for (relation, _), members in graph.equivalence.items():
            joined = self.set_of(frozenset(name for name, _ in members))
            classes[self.number(relation)].add(joined)
        #: Relation -> the equality classes that hold a column of it, each as the relations in it.
        self.classes = tuple(tuple(sorted(found)) for found in classes)
        self._further = tuple(
            tuple(joined & ~(1 << i) for joined in found if joined & ~self.adjacent[i] & ~(1 << i))
            for i, found in enumerate(self.classes)
        )
        self._graphs = [_around(graph, name) for name in self.names]
        self._fan_outs: list[dict[int, tuple[float, int, int, float]]] = [{} for _ in self.names]
        self._keys: dict[tuple[object, ...], int] = {}
        self._carriers: list[int] = [0]
        self._moves: dict[int, tuple[Move, ...]] = {}

    def number(self, name: str) -> int:
        """The bit number of a relation."""
        return self.bit[name].bit_length() - 1

    def set_of(self, names: frozenset[str]) -> int:
        """The bit set of some relations."""
        joined = 0
        for name in names:
            joined |= self.bit[name]
        return joined

    def names_of(self, joined: int) -> tuple[str, ...]:
        """The relations of a bit set, sorted."""
        return tuple(self.names[i] for i in numbers(joined))

    def neighbours(self, bound: int) -> int:
        """Relations outside a set that share a predicate with it."""
        reached = 0
        for i in numbers(bound):
            reached |= self.adjacent[i]
        return reached & ~bound

    def affected(self, bound: int, new: int) -> int:
        """Relations whose fan-out may differ once `new` joins a set."""
        found = self.adjacent[new]
        for members in self.classes[new]:
            if not members & bound:
                found |= members
        return found & ~(1 << new)

    def moves(self, bound: int) -> tuple[Move, ...]:
        """Every step from a set, by relation name; kept, as many paths come by."""
        found = self._moves.get(bound)
        if found is None:
            found = tuple(self.move(bound, i) for i in numbers(self.neighbours(bound)))
            self._moves[bound] = found
        return found

    def move(self, bound: int, new: int) -> Move:
        """The step from a set to one more relation."""
        fan_out, number, key, table = self.size(bound, new)
        return Move(bound | 1 << new, number, fan_out, key, table)

    def size(self, bound: int, new: int) -> tuple[float, int, int, float]:
        """The step from a set as fan-out, relation, key and rows of the table."""
        met = bound & self.adjacent[new]
        for members in self._further[new]:
            if not met & members:
                met |= bound & members & -(bound & members)
        known = self._fan_outs[new].get(met)
        if known is None:
            graph, name = self._graphs[new], self.names[new]
            names = frozenset(self.names_of(met))
            matches = fan_out(graph, self._statistics, names, name)
            known = matches, new, self._key(graph, names, name), self._table[new]
            self._fan_outs[new][met] = known
        return known

    def usable(self, key: int, joined: int) -> bool:
        """True when a relation outside the set might still be looked up by this key."""
        return self._carriers[key] & ~joined != 0

    def _key(self, graph: JoinGraph, bound: frozenset[str], new: str) -> int:
        """A number for the equality classes that the step matches on; 0 for none."""
        edges = [p for p in graph.decidable(bound, new) if p.kind == "edge" and p.left is not None]
        classes = {
            tuple(sorted(graph.equated(ref))) for p in edges for ref in p.refs if ref[0] == new
        }
        if not classes:
            return 0
        key = tuple(sorted(classes))
        if key not in self._keys:
            self._keys[key] = len(self._carriers)
            carriers = self.everything
            for members in key:
                carriers &= self.set_of(frozenset(relation for relation, _ in members))
            self._carriers.append(carriers)
        return self._keys[key]


def _around(graph: JoinGraph, name: str) -> JoinGraph:
    """The graph with the predicates of one relation only, and all its equality classes."""
    near = tuple(p for p in graph.predicates if name in p.relations)
    part = JoinGraph(graph.relations, near, graph.projections)
    part.__dict__["equivalence"] = graph.equivalence
    return part


def numbers(joined: int) -> list[int]:
    """The bit numbers of a set, ascending."""
    found = []
    while joined:
        low = joined & -joined
        found.append(low.bit_length() - 1)
        joined ^= low
    return found
