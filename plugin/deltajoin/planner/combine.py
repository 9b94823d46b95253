"""Two joined sets -> one: the only place where an enumerator asks for edges, rows and cost.

Every enumerator (exact, linearised, greedy) builds plans by `Combiner.leaf` and `Combiner.join`,
so legality, estimates and tie-breaking are the same for all of them. The rows of a set depend on
the set alone, which is what makes dynamic programming exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from deltajoin.planner.hypergraph import Edge, Hypergraph


class Estimator(Protocol):
    """What the combiner needs to know of sizes."""

    def rows(self, joined: int) -> float:
        """Expected rows of a joined set with all that is decidable on it applied; above zero."""
        ...


class CostModel(Protocol):
    """What one join costs, its inputs' own cost apart; any unit that adds up."""

    def join(self, kind: str, left: SubPlan, right: SubPlan, rows: float) -> float:
        """Cost of joining two sets to `rows` rows; `right` is the build side."""
        ...


@dataclass(frozen=True)
class SubPlan:
    """A joined set with its best way so far: rows, summed cost; a leaf has no sides.

    `text` is the nesting over bit numbers; it breaks ties.
    """

    relations: int
    rows: float
    cost: float
    text: str
    kind: str = ""
    left: SubPlan | None = None
    right: SubPlan | None = None
    edges: tuple[Edge, ...] = ()

    @property
    def rank(self) -> tuple[float, str]:
        """Smaller is better; estimates that differ only by rounding tie."""
        return (float(f"{self.cost:.9g}"), self.text)

    def leaves(self) -> Iterator[int]:
        """Bit numbers of the relations, left to right."""
        if self.left is None or self.right is None:
            yield self.relations.bit_length() - 1
        else:
            yield from self.left.leaves()
            yield from self.right.leaves()


class Combiner:
    """Joins sub-plans of one hypergraph under one estimator and one cost model."""

    def __init__(self, graph: Hypergraph, estimator: Estimator, cost: CostModel) -> None:
        self.graph = graph
        self._estimator = estimator
        self._cost = cost
        self._rows: dict[int, float] = {}

    def rows(self, joined: int) -> float:
        """Expected rows of a set, asked once."""
        if joined not in self._rows:
            self._rows[joined] = self._estimator.rows(joined)
        return self._rows[joined]

    def leaf(self, number: int) -> SubPlan:
        """The plan of one relation."""
        return SubPlan(1 << number, self.rows(1 << number), 0.0, str(number))

    def edges(self, left: int, right: int) -> tuple[Edge, ...]:
        """The edges that join `left` with `right` in this orientation; empty when none may.

        One edge that is not inner excludes all others, and an inner edge whose rules do not hold
        excludes the join: its predicate would be lost.
        """
        joined = left | right
        found: list[Edge] = []
        for edge in self.graph.edges:
            if edge.relations & joined != edge.relations:
                continue
            if edge.relations & left == edge.relations or edge.relations & right == edge.relations:
                continue
            if not edge.connects(left, right):
                if edge.kind == "inner" and edge.allows(joined):
                    found.append(edge)  # spans both sides in another way; applied here all the same
                    continue
                return ()
            found.append(edge)
        if any(edge.kind != "inner" for edge in found) and len(found) > 1:
            return ()
        return tuple(found)

    def join(self, one: SubPlan, other: SubPlan) -> SubPlan | None:
        """The cheaper legal orientation of joining two disjoint sets; None when there is none."""
        best: SubPlan | None = None
        for left, right in ((one, other), (other, one)):
            edges = self.edges(left.relations, right.relations)
            if not any(edge.connects(left.relations, right.relations) for edge in edges):
                continue
            kind = edges[0].kind if len(edges) == 1 else "inner"
            rows = self.rows(left.relations | right.relations)
            plan = SubPlan(
                left.relations | right.relations,
                rows,
                left.cost + right.cost + self._cost.join(kind, left, right, rows),
                f"({left.text} {right.text})",
                kind,
                left,
                right,
                edges,
            )
            if best is None or plan.rank < best.rank:
                best = plan
        return best
