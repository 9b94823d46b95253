"""A query's joins on bit sets: which sets of relations may be joined with which.

Relation i is bit 1 << i. Every inner conjunct that spans relations is an edge of its own; a join
that is not inner is one edge over its whole predicate. An edge connects disjoint sets S and T when
its sides lie within them, one in each, its left side within the left set unless it is inner, and
its conflict rules hold on S | T. Caller: build with `build_hypergraph`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from deltajoin.graph import Predicate

Rule = tuple[int, int]


@dataclass(frozen=True)
class Edge:
    """One operator: `kind` is inner, left, full, semi or anti; `left` and `right` are bit sets.

    `rules`: (a, b) means that a joined set which meets `a` must hold all of `b` (CD-C).
    `predicates` are what the operator applies: one conjunct for an inner edge, all of ON for any
    other.
    """

    kind: str
    left: int
    right: int
    predicates: tuple[Predicate, ...]
    rules: tuple[Rule, ...] = ()

    @property
    def relations(self) -> int:
        """Both sides together."""
        return self.left | self.right

    def allows(self, joined: int) -> bool:
        """True when the conflict rules hold on a joined set."""
        return all(not joined & a or joined & b == b for a, b in self.rules)

    def connects(self, left: int, right: int) -> bool:
        """True when this edge may join `left` with `right` in this orientation."""
        straight = self.left & left == self.left and self.right & right == self.right
        turned = self.left & right == self.left and self.right & left == self.right
        return (straight or (turned and self.kind == "inner")) and self.allows(left | right)


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

    def set_of(self, names: frozenset[str]) -> int:
        """The bit set of some relations."""
        return sum(self.bit[name] for name in names)
