"""A query's joins on bit sets: which sets of relations may be joined with which.

Relation i is bit 1 << i. Every inner conjunct that spans relations is an edge of its own; a join
that is not inner is one edge over its whole predicate. An edge connects disjoint sets S and T when
its sides lie within them, one in each, its left side within the left set unless it is inner, and
its conflict rules hold on S | T. Caller: build with `build_graph.build_hypergraph`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_

from deltajoin.graph import Predicate

Rule = tuple[int, int]


@dataclass(frozen=True)
class Edge:
    """One operator: `kind` is inner, left, full, semi or anti; `left` and `right` are bit sets.

    `rules`: (a, b) means that a joined set which meets `a` must hold all of `b` (CD-C).
    `predicates` are what the operator applies: one conjunct for an inner edge, all of ON for any
    other; an inner edge without predicates is a cross product. `parts` is set for a conjunct over
    more than two items: any split that leaves each part whole is a join. An implied edge follows
    from others of its equality class: it connects and it filters, but no row depends on it.
    """

    kind: str
    left: int
    right: int
    predicates: tuple[Predicate, ...]
    rules: tuple[Rule, ...] = ()
    parts: tuple[int, ...] = ()
    implied: bool = False

    @cached_property
    def relations(self) -> int:
        """Both sides together."""
        return self.left | self.right

    @property
    def cross(self) -> bool:
        """True for a cross product, which stands only where nothing else connects."""
        return self.kind == "inner" and not self.predicates

    def allows(self, joined: int) -> bool:
        """True when the conflict rules hold on a joined set."""
        return all(not joined & a or joined & b == b for a, b in self.rules)

    def connects(self, left: int, right: int) -> bool:
        """True when this edge may join `left` with `right` in this orientation."""
        if self.parts:
            rest = [part for part in self.parts if part & left != part]
            split = 0 < len(rest) < len(self.parts)
            whole = all(part & right == part for part in rest)
            return split and whole and self.allows(left | right)
        straight = self.left & left == self.left and self.right & right == self.right
        turned = self.left & right == self.left and self.right & left == self.right
        return (straight or (turned and self.kind == "inner")) and self.allows(left | right)

    @cached_property
    def splits(self) -> tuple[tuple[int, int], ...]:
        """The pairs of sets that it connects, each once, smallest first."""
        if not self.parts:
            return ((self.left, self.right),)
        first, rest = self.parts[0], self.parts[1:]
        # All splits of many parts would be too many: then one part apart from the others.
        chosen = range(1 << len(rest)) if len(rest) <= 4 else (0, *_all_but_one(len(rest)))
        splits = []
        for choice in chosen:
            left = first | sum(part for i, part in enumerate(rest) if choice >> i & 1)
            if left != self.relations:
                splits.append((left, self.relations & ~left))
        return tuple(splits)


def _all_but_one(size: int) -> tuple[int, ...]:
    return tuple((1 << size) - 1 - (1 << i) for i in range(size))


@dataclass(frozen=True)
class Filter:
    """A predicate that is no edge: judged as soon as `needs` is within the joined set.

    A plain filter needs its own relation; one on the null-supplied side of an outer join also needs
    that join done.
    """

    needs: int
    predicate: Predicate


@dataclass(frozen=True)
class Hypergraph:
    """`names[i]` is the relation of bit i; edges and filters in canonical order."""

    names: tuple[str, ...]
    edges: tuple[Edge, ...]
    filters: tuple[Filter, ...] = ()

    @property
    def size(self) -> int:
        """Number of relations."""
        return len(self.names)

    @property
    def everything(self) -> int:
        """The set of all relations."""
        return (1 << self.size) - 1

    @cached_property
    def bit(self) -> dict[str, int]:
        """Bit of each relation, by name."""
        return {name: 1 << i for i, name in enumerate(self.names)}

    @cached_property
    def touching(self) -> dict[int, tuple[int, ...]]:
        """Bit of a relation -> the edges that touch it, by their numbers."""
        found: dict[int, list[int]] = {1 << i: [] for i in range(self.size)}
        for number, edge in enumerate(self.edges):
            for bit in bits(edge.relations):
                found[bit].append(number)
        return {bit: tuple(numbers) for bit, numbers in found.items()}

    def contracted(self, units: Sequence[int]) -> Hypergraph:
        """The graph of some joined sets: each is a relation, and edges within one are left out."""
        home = {bit: 1 << number for number, unit in enumerate(units) for bit in bits(unit)}
        pairs = set()
        for edge in self.edges:
            if all(bit in home for bit in bits(edge.relations)):
                for split in edge.splits:
                    one, other = (union(home[bit] for bit in bits(side)) for side in split)
                    pairs |= set() if one & other else {(one, other)}
        edges = tuple(Edge("inner", one, other, ()) for one, other in sorted(pairs))
        return Hypergraph(tuple(map(str, range(len(units)))), edges)

    def set_of(self, names: frozenset[str]) -> int:
        """The bit set of some relations."""
        return sum(self.bit[name] for name in names)


def bits(joined: int) -> Iterator[int]:
    """The one-element sets of a set, lowest first."""
    while joined:
        bit = joined & -joined
        yield bit
        joined ^= bit


def union(sets: Iterable[int]) -> int:
    """All that some sets hold."""
    return reduce(or_, sets, 0)
