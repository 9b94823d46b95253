"""What one more lookup gives, asked once: the search's view of a graph on bit sets.

Relation i of the canonical names (`canonical`) is bit 1 << i, so that names break no ties. The
fan-out of a step depends on what is bound only through the relations that share a predicate or an
equality class with the new one, so it is kept by that part of the bound set. What a step costs says
`planner.lookup`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from deltajoin.graph import JoinGraph
from deltajoin.planner.canonical import canonical_names
from deltajoin.planner.cardinality import drawn
from deltajoin.planner.classes import LEAST, numbers
from deltajoin.planner.hypergraph import union
from deltajoin.planner.statistics import Statistics

#: A step from a bound set: the set after it, the new relation, its fan-out and key.
Move = tuple[int, int, float, int]
#: Its fan-out and key alone.
Step = tuple[float, int]


class Steps:
    """Neighbours and fan-outs of one graph, by bit sets."""

    def __init__(self, graph: JoinGraph, statistics: Statistics) -> None:
        self.graph, self.statistics = graph, statistics
        self.names = canonical_names(graph)
        self.bit = {name: 1 << i for i, name in enumerate(self.names)}
        self.everything = (1 << len(self.names)) - 1
        self._matching = statistics.matching(graph)
        self._measured = self._matching.measured(statistics.driver)
        adjacent = [0] * len(self.names)
        for joined in (self.set_of(predicate.relations) for predicate in graph.predicates):
            for number in numbers(joined):
                adjacent[number] |= joined & ~(1 << number)
        #: Relation -> those that share a predicate with it.
        self.adjacent = tuple(adjacent)
        #: Relation -> those that its fan-out depends on.
        self._relevant = [self._matching.relevant(number) for number in range(len(self.names))]
        #: Relation -> the equality classes that hold a column of it, each as the relations in it.
        self._classes = [self._matching.spans_of(number) for number in range(len(self.names))]
        self._rows = tuple(self._matching.rows(name) for name in self.names)
        self._estimate = cache(self._estimated)
        #: Every step from a set, by canonical order; kept, as many paths come by.
        self.moves: Callable[[int], tuple[Move, ...]] = cache(self._moves)

    def number(self, name: str) -> int:
        """The bit number of a relation."""
        return self.bit[name].bit_length() - 1

    def set_of(self, names: frozenset[str]) -> int:
        """The bit set of some relations."""
        return sum(self.bit[name] for name in names)

    def names_of(self, joined: int) -> tuple[str, ...]:
        """The relations of a bit set, in canonical order."""
        return tuple(self.names[i] for i in numbers(joined))

    def neighbours(self, bound: int) -> int:
        """Relations outside a set that share a predicate with it."""
        return union(self.adjacent[number] for number in numbers(bound)) & ~bound

    def connected(self, wanted: int) -> int:
        """A connected set that holds the wanted relations, and few others that link them."""
        joined = wanted & -wanted
        while wanted & ~joined:
            rings = [joined]
            while not rings[-1] & wanted & ~joined:
                reached = rings[-1] | self.neighbours(rings[-1])
                if reached == rings[-1]:
                    return self.everything
                rings.append(reached)
            found = rings.pop() & wanted & ~joined
            link = found & -found
            joined |= link
            for k in range(len(rings) - 1, 0, -1):
                near = self.neighbours(link) & rings[k] & ~rings[k - 1]
                link = near & -near
                joined |= link
        return joined

    def affected(self, bound: int, new: int) -> int:
        """Relations whose fan-out changes much once `new` joins a set.

        Those that share a predicate with it, or a class that nothing bound holds yet.
        """
        fresh = union(members for members in self._classes[new] if not members & bound)
        return (self.adjacent[new] | fresh) & ~(1 << new)

    def _moves(self, bound: int) -> tuple[Move, ...]:
        near = numbers(self.neighbours(bound))
        return tuple([(bound | 1 << new, new, *self.size(bound, new)) for new in near])

    def size(self, bound: int, new: int) -> Step:
        """The step from a set to one more relation: fan-out and key.

        The key is the set of equality classes that the step matches on; 0 for none.
        """
        return self._estimate(bound & self._relevant[new], new)

    def _estimated(self, met: int, new: int) -> Step:
        pairs, seen = self._matching.lookup(met, new), self._measured.get((met, new))
        expected = max(self._rows[new] * pairs.share, LEAST)
        return drawn(seen, expected) if seen else expected, pairs.classes

    def usable(self, key: int, joined: int) -> bool:
        """True when a relation outside the set might still be looked up by this key."""
        return self._matching.spans(key) & ~joined != 0
