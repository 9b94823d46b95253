"""What a join of two sets equates: the key by which its sides are distributed.

A key is a set of equality classes, as bits. Both sides hold columns of each class; that is all to
ask where every two members of the class are equated, as they are once implied edges are known.
Elsewhere an equality must lead from one side to the other.
"""

from __future__ import annotations

from deltajoin.graph import JoinGraph
from deltajoin.planner.classes import numbers
from deltajoin.planner.hypergraph import Hypergraph


class JoinKeys:
    """The keys of a hypergraph's joins; classes are over all joins, also nested ones."""

    def __init__(self, graph: JoinGraph, hypergraph: Hypergraph) -> None:
        edges = [p for edge in hypergraph.edges for p in edge.predicates if p.left is not None]
        # Which side is written first plays no part.
        whole = JoinGraph(graph.relations, tuple(edges), ())
        columns = [
            (hypergraph.set_of(predicate.relations), min(whole.equated(predicate.left)))
            for predicate in edges
            if predicate.left is not None
        ]
        classes = {column: 1 << i for i, column in enumerate(sorted({c for _, c in columns}))}
        refs = sorted({ref for predicate in edges for ref in predicate.refs})
        #: Every equated column with its class.
        self.columns = tuple((ref, classes[min(whole.equated(ref))]) for ref in refs)
        self._touched = {1 << number: 0 for number in range(hypergraph.size)}
        pairs: dict[int, set[int]] = {shared: set() for shared in classes.values()}
        for needs, column in columns:
            pairs[classes[column]].add(needs)
            for number in numbers(needs):
                self._touched[1 << number] |= classes[column]
        members = {
            shared: sum(1 for touched in self._touched.values() if touched & shared)
            for shared in pairs
        }
        #: Classes that two joins may have in common, and per set those that one in it may leave.
        self._thrice = sum(shared for shared, count in members.items() if count > 2)
        self._shared: dict[int, int] = {}
        self._everything = hypergraph.everything
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

    def shared(self, joined: int) -> int:
        """The classes of which a set holds columns of two relations, and another relation does."""
        found = self._shared.get(joined)
        if found is None:
            once = found = 0
            for number in numbers(joined) if self._thrice else ():
                touched = self._touched[1 << number] & self._thrice
                found, once = found | once & touched, once | touched
            found = found and found & self._touch(self._everything & ~joined)
            self._shared[joined] = found
        return found

    def _touch(self, relations: int) -> int:
        """The classes of which a set holds columns."""
        found = self._touched.get(relations)
        if found is None:
            found = 0
            for number in numbers(relations):
                found |= self._touched[1 << number]
            self._touched[relations] = found
        return found
