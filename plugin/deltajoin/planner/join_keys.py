"""What a join of two sets equates: the key by which its sides are distributed.

A key is a set of equality classes, as bits. Both sides hold columns of each class; that is all to
ask where every two members of the class are equated, as they are once implied edges are known.
Elsewhere an equality must lead from one side to the other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from deltajoin.planner.classes import class_numbers
from deltajoin.planner.hypergraph import Hypergraph, bits, union


class JoinKeys:
    """The keys of a hypergraph's joins; classes are over all joins, also nested ones."""

    def __init__(self, hypergraph: Hypergraph) -> None:
        edges = [p for edge in hypergraph.edges for p in edge.predicates if p.left is not None]
        classes = {column: 1 << number for column, number in class_numbers(edges).items()}
        #: Every equated column with its class.
        self.columns = tuple(sorted(classes.items()))
        self._touched = {1 << number: 0 for number in range(hypergraph.size)}
        for (name, _), shared in self.columns:
            self._touched[hypergraph.bit[name]] |= shared
        pairs: dict[int, set[int]] = {shared: set() for shared in classes.values()}
        for edge in edges:
            pairs[classes[edge.refs[0]]].add(hypergraph.set_of(edge.relations))
        members = {
            shared: sum(1 for touched in self._touched.values() if touched & shared)
            for shared in pairs
        }
        #: Classes that two joins may have in common.
        self._thrice = sum(shared for shared, count in members.items() if count > 2)
        self._everything = hypergraph.everything
        #: The classes of which a set holds columns of two relations, and another relation does.
        self.shared: Callable[[int], int] = cache(self._shared)
        #: The classes of which a set holds columns.
        self._touch = cache(self._touched_by)
        #: Classes of which not every two members are equated, with those that are.
        self._partial = {
            shared: tuple(sorted(needs))
            for shared, needs in pairs.items()
            if 2 * len(needs) != members[shared] * (members[shared] - 1)
        }

    def key(self, left: int, right: int) -> int:
        """The classes that a join of two disjoint sets equates; 0 for none."""
        both = self._touch(left) & self._touch(right)
        if both and self._partial:
            joined = left | right
            for shared, pairs in self._partial.items():
                if both & shared and not any(
                    needs & joined == needs and needs & left and needs & right for needs in pairs
                ):
                    both &= ~shared
        return both

    def _shared(self, joined: int) -> int:
        once = found = 0
        for bit in bits(joined) if self._thrice else ():
            touched = self._touched[bit] & self._thrice
            found, once = found | once & touched, once | touched
        return found and found & self._touch(self._everything & ~joined)

    def _touched_by(self, relations: int) -> int:
        return union(self._touched[bit] for bit in bits(relations))
