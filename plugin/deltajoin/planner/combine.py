"""Two joined sets -> one: the only place where an enumerator asks for edges, rows and cost.

Every enumerator (exact, linearised, greedy) builds plans by `Combiner.leaf` and `Combiner.join`,
so legality, estimates and tie-breaking are the same for all of them. The rows of a set depend on
the set alone, the cost of a join on its two sets and on how each of them lies (`SubPlan.place`): so
dynamic programming is exact that keeps, for each set, the cheapest plan of each place.

An edge is applied at the one join that first holds all its relations, in whatever way they are
spread over the two sides; a join at which a predicate would be lost is no join. Caller: each of the
two sets is itself a legal plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Protocol

from deltajoin.planner.hypergraph import Edge, Hypergraph, bits, union

_LEAST, _MOST = 1e-300, 1e300
#: Costs further apart than this differ in their first nine digits.
CLEARLY = 1e-8


class Estimator(Protocol):
    """What the combiner needs to know of sizes."""

    def rows(self, joined: int) -> float:
        """Expected rows of a joined set with all that is decidable on it applied; above zero."""
        ...


class CostModel(Protocol):
    """What one join costs, its inputs' own cost apart, and how its rows lie; any unit that adds up.

    A key is a bit set, whatever its bits stand for; 0 is none.
    """

    def join(self, kind: str, left: SubPlan, right: SubPlan, rows: float) -> tuple[float, int]:
        """Cost and place of joining two sets to `rows` rows; `right` is the build side."""
        ...

    def places(self, joined: int) -> int:
        """All keys by which plans of a set may lie to the use of a join above it, united."""
        return 0


@dataclass(frozen=True)
class SubPlan:
    """A joined set and a way to it: rows, summed cost; a leaf has no sides.

    `text` is the nesting over bit numbers; it breaks ties. `place` is the key by which the rows
    lie, 0 where that is of no use to any join above.
    """

    relations: int
    rows: float
    cost: float
    text: str
    kind: str = ""
    left: SubPlan | None = None
    right: SubPlan | None = None
    place: int = 0
    graph: Hypergraph | None = field(default=None, repr=False, compare=False)

    @property
    def rank(self) -> tuple[float, str]:
        """Smaller is better; estimates that differ only by rounding tie."""
        return (float(f"{self.cost:.9g}"), self.text)

    def comes_before(self, other: SubPlan) -> bool:
        """True when its rank is the smaller one."""
        if self.cost == other.cost:
            return self.text < other.text
        if abs(self.cost - other.cost) > CLEARLY * other.cost:
            return self.cost < other.cost
        return self.rank < other.rank

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """What this join applies; see `applied`."""
        if self.graph is None or self.left is None or self.right is None:
            return ()
        return applied(self.graph, self.left.relations, self.right.relations)

    @cached_property
    def tree(self) -> frozenset[int]:
        """The sets that it joins, whichever side is left or right."""
        sides = (side.tree for side in (self.left, self.right) if side is not None)
        return frozenset((self.relations,)).union(*sides)

    def nodes(self) -> Iterator[SubPlan]:
        """Its joins and leaves, each before what is below it, left before right."""
        waiting = [self]
        while waiting:
            plan = waiting.pop()
            yield plan
            waiting += (side for side in (plan.right, plan.left) if side is not None)

    def leaves(self) -> Iterator[int]:
        """Bit numbers of the relations, left to right."""
        return (plan.relations.bit_length() - 1 for plan in self.nodes() if not plan.kind)

    def joins(self) -> tuple[SubPlan, ...]:
        """Its joins, each after the joins below it."""
        return tuple(reversed([plan for plan in self.nodes() if plan.kind]))


#: Plans of one set by rank, each lying otherwise; only the first may lie by no key.
Plans = tuple[SubPlan, ...]


def with_plan(plans: Plans, plan: SubPlan) -> Plans:
    """The plans of a set, one more among them unless another is better and lies alike."""
    first = 0
    for known in plans:
        if plan.comes_before(known):
            break
        if plan.place in (0, known.place):
            return plans
        first += 1
    rest = (known for known in plans[first:] if known.place not in (0, plan.place))
    return (*plans[:first], plan, *rest)


def applied(graph: Hypergraph, left: int, right: int) -> tuple[Edge, ...]:
    """What a legal join of two sets applies: one edge that is not inner, or all inner ones.

    These are all whose relations lie within both sets together, but not within one. Implied edges
    are among them where their rules hold; a cross product only on its own.
    """
    joined = left | right
    side = left if left.bit_count() < right.bit_count() else right
    near = {number for bit in bits(side) for number in graph.touching[bit]}
    found = tuple(
        edge
        for edge in map(graph.edges.__getitem__, sorted(near))
        if edge.relations & left and edge.relations & right and not edge.relations & ~joined
    )
    outer = tuple(edge for edge in found if edge.kind != "inner")
    judged = tuple(
        edge for edge in found if not edge.cross and (not edge.implied or edge.allows(joined))
    )
    return outer or judged or found[:1]


class Combiner:
    """Joins sub-plans of one hypergraph under one estimator and one cost model."""

    def __init__(self, graph: Hypergraph, estimator: Estimator, cost: CostModel) -> None:
        self.graph = graph
        self._estimator = estimator
        self.cost = cost
        #: Expected rows of a set; finite and above zero whatever the estimator says.
        self.rows: Callable[[int], float] = cache(self._expected)
        self._special = tuple(edge for edge in graph.edges if not is_plain(edge))
        #: Special edges that demand something of a join; the others connect, and that is all.
        self._demanding = sum(
            1 << number + graph.size
            for number, edge in enumerate(self._special)
            if edge.kind != "inner" or not (edge.implied or edge.cross)
        )
        self._reach = self._reach_of_relations()

    def _reach_of_relations(self) -> dict[int, int]:
        """Per set what it touches: its neighbours by plain edges, above them its special edges."""
        reach = {1 << number: 0 for number in range(self.graph.size)}
        for edge in self.graph.edges:
            if is_plain(edge):
                reach[edge.left] |= edge.right
                reach[edge.right] |= edge.left
        for number, edge in enumerate(self._special, self.graph.size):
            for bit in bits(edge.relations):
                reach[bit] |= 1 << number
        return reach

    def reach(self, joined: int) -> int:
        """Neighbours of a set by plain edges; above these bits, the other edges that touch it."""
        known = self._reach.get(joined)
        if known is None:
            known = self._reach[joined] = union(self._reach[bit] for bit in bits(joined))
        return known

    def _expected(self, joined: int) -> float:
        return min(max(_LEAST, self._estimator.rows(joined)), _MOST)

    def leaf(self, number: int) -> SubPlan:
        """The plan of one relation."""
        return SubPlan(1 << number, self.rows(1 << number), 0.0, str(number), graph=self.graph)

    def kind(self, left: int, right: int) -> str:
        """Kind of the join of two disjoint sets in this orientation; empty when none is legal.

        At least one edge must connect them by its own sides. An edge that is not inner stands alone
        at its join. A written inner edge whose conflict rules do not hold forbids the join: its
        predicate would be lost. Implied edges and cross products connect, and demand nothing.
        """
        kind, turned = self._operator(left, right)
        return "" if turned else kind

    def _operator(self, left: int, right: int) -> tuple[str, bool]:
        """The kind, and whether only the other orientation is legal."""
        reach = self.reach(left)
        connected = bool(reach & right)
        special = reach & self.reach(right) & ~self.graph.everything
        if not special:
            return ("inner" if connected else "", False)
        joined, judged, outer = left | right, connected, ""
        turned = False
        for edge in self._within(special & self._demanding, joined):
            if edge.kind != "inner":
                turned = not edge.connects(left, right)
                if outer or (turned and not edge.connects(right, left)):
                    return ("", False)
                outer = edge.kind
                continue
            if edge.rules and not edge.allows(joined):
                return ("", False)
            judged = True
            connected = connected or edge.connects(left, right)
        if outer:
            return ("", False) if judged else (outer, turned)
        if not connected:
            loose = self._within(special & ~self._demanding, joined)
            connected = any(edge.connects(left, right) for edge in loose)
        return ("inner" if connected else "", False)

    def _within(self, special: int, joined: int) -> Iterator[Edge]:
        """Those of some special edges that lie within a set."""
        while special:
            low = special & -special
            special ^= low
            edge = self._special[low.bit_length() - 1 - self.graph.size]
            if not edge.relations & ~joined:
                yield edge

    def join(self, one: SubPlan, other: SubPlan) -> SubPlan | None:
        """The cheaper legal orientation of joining two disjoint sets; None when there is none."""
        return next(iter(self.better((), (one,), (other,))), None)

    def join_as(self, left: SubPlan, right: SubPlan) -> SubPlan | None:
        """The join of two disjoint sets in this orientation; None when it is not legal."""
        apart = not left.relations & right.relations
        kind = self.kind(left.relations, right.relations) if apart else ""
        if not kind:
            return None
        rows = self.rows(left.relations | right.relations)
        return self._plan(kind, left, right, rows, *self.cost.join(kind, left, right, rows))

    def _plan(
        self, kind: str, left: SubPlan, right: SubPlan, rows: float, cost: float, place: int
    ) -> SubPlan:
        """The plan of a join that costs so much, its inputs' own cost apart."""
        joined, text = left.relations | right.relations, f"({left.text} {right.text})"
        cost += left.cost + right.cost
        return SubPlan(joined, rows, cost, text, kind, left, right, place, self.graph)

    def better(self, best: Plans, ones: Plans, others: Plans, most: float = math.inf) -> Plans:
        """`best`, plans of a set, and the joins of two of its parts that are better than these.

        Args:
            most: what both parts together may cost.
        """
        one, other = ones[0].relations, others[0].relations
        joined, least = one | other, ones[0].cost + others[0].cost
        if least > most * (1 + CLEARLY) or self._is_late(best, least, joined):
            return best
        kind, turned = self._operator(one, other)
        if not kind:
            return best
        if joined not in self._reach:
            self._reach[joined] = self.reach(one) | self.reach(other)
        rows, price = self.rows(joined), self.cost.join
        if turned:
            ones, others = others, ones
        sides = [(a, b) for a in ones for b in others]
        if kind == "inner":
            sides += [(b, a) for a, b in sides]
        for left, right in sides:
            cost, place = price(kind, left, right, rows)
            whole = cost + left.cost + right.cost
            for known in best:
                if whole > known.cost * (1 + CLEARLY) and (not place or place == known.place):
                    break
            else:
                best = with_plan(best, self._plan(kind, left, right, rows, cost, place))
        return best

    def _is_late(self, best: Plans, least: float, joined: int) -> bool:
        """True when some plans of a set hold a cheaper one than `least` for each place."""
        if not best or least <= best[-1].cost * (1 + CLEARLY):
            return False
        places = self.cost.places(joined)
        return not places or (best[-1].place != 0 and places & (places - 1) == 0)


def is_plain(edge: Edge) -> bool:
    """True for a written inner edge between two relations that no rule binds."""
    two = edge.left.bit_count() == 1 and edge.right.bit_count() == 1
    demands = not edge.implied and not edge.cross
    return edge.kind == "inner" and two and demands and not edge.rules
