"""The classic delta-join solver: lookup paths by rule, from a join order and the joins' keys.

    arrange   left_first | right_first: among several candidates, the one that stands first (last)
              in the join order is looked up
    stream    left_this_epoch | right_this_epoch: the end of the join order whose path reads
              everything at this epoch; each next path reads the ones before at the previous epoch

A path takes what matches on the key by which its stream already lies (no exchange), as long as
there is any; then it changes the key. After RisingWave's `delta_join_solver.rs`. Caller: the
default strategy `cost` prices exchanges instead and comes from `planner.search`; these are for
those who want a rule that they can follow by hand.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltajoin.errors import DeltaJoinError
from deltajoin.graph import JoinGraph

ARRANGE = ("left_first", "right_first")
STREAM = ("left_this_epoch", "right_this_epoch")


@dataclass(frozen=True)
class Strategy:
    """How paths are ordered: by cost when both are None, else by rule."""

    arrange: str | None = None
    stream: str | None = None

    @property
    def name(self) -> str:
        """`cost`, or arrangement and stream with a comma between."""
        return f"{self.arrange},{self.stream}" if self.arrange else "cost"


COST = Strategy()
STRATEGIES = (COST, *(Strategy(arrange, stream) for arrange in ARRANGE for stream in STREAM))


@dataclass(frozen=True)
class JoinEdge:
    """Two tables that are joined, each by its key columns; no columns where no equality joins."""

    left: str
    right: str
    left_key: tuple[str, ...] = ()
    right_key: tuple[str, ...] = ()

    @property
    def reversed(self) -> JoinEdge:
        """The same from the other side."""
        return JoinEdge(self.right, self.left, self.right_key, self.left_key)


def parse_strategy(name: str) -> Strategy:
    """The strategy of a name.

    Example:
        >>> parse_strategy("left_first, left_this_epoch").arrange, parse_strategy("cost") == COST
        ('left_first', True)

    Raises:
        DeltaJoinError: UNKNOWN_STRATEGY.
    """
    wanted = name.replace(" ", "").lower()
    for strategy in STRATEGIES:
        if strategy.name == wanted:
            return strategy
    raise DeltaJoinError(
        "UNKNOWN_STRATEGY",
        f"'{name}' is no strategy for lookup paths",
        where=name,
        remedy="Use one of: " + "; ".join(strategy.name for strategy in STRATEGIES) + ".",
    )


def edges_of(graph: JoinGraph) -> tuple[JoinEdge, ...]:
    """An edge for each pair of relations that share a predicate, by all their equalities."""
    keys: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for predicate in (p for p in graph.predicates if p.kind != "cross"):
        names = sorted(predicate.relations)
        for i, left in enumerate(names):
            for right in names[i + 1 :]:
                columns = keys.setdefault((left, right), set())
                if predicate.left is not None and predicate.right is not None:
                    one, other = sorted((predicate.left, predicate.right))
                    columns.add((one[1], other[1]))
    return tuple(
        JoinEdge(
            left, right, tuple(a for a, _ in sorted(pairs)), tuple(b for _, b in sorted(pairs))
        )
        for (left, right), pairs in sorted(keys.items())
    )


def stream_order(order: tuple[str, ...], strategy: Strategy) -> tuple[str, ...]:
    """The epoch order of a strategy by rule."""
    return order if strategy.stream == "left_this_epoch" else order[::-1]


def solve_path(
    edges: tuple[JoinEdge, ...], order: tuple[str, ...], strategy: Strategy, driver: str
) -> tuple[str, ...]:
    """The path of one driver, which comes first.

    Example:
        >>> edge = JoinEdge("a", "b", ("x",), ("y",))
        >>> solve_path((edge,), ("a", "b"), Strategy("left_first", "right_this_epoch"), "b")
        ('b', 'a')

    Raises:
        DeltaJoinError: UNCONNECTED_RELATIONS.
    """
    arranged = order if strategy.arrange == "left_first" else order[::-1]
    both_ways = (*edges, *(edge.reversed for edge in edges))
    path = [driver]
    lies_by: set[tuple[str, tuple[str, ...]]] = set()
    while len(path) < len(order):
        reached = [e for e in both_ways if e.left in path and e.right not in path]
        same = [e for e in reached if e.left_key and (e.left, e.left_key) in lies_by]
        found = same or reached
        if not found:
            left = ", ".join(name for name in order if name not in path)
            raise DeltaJoinError(
                "UNCONNECTED_RELATIONS",
                f"no predicate connects {', '.join(path)} with {left}",
                where=left,
                remedy="Add a join condition.",
            )
        edge = min(found, key=lambda e: (arranged.index(e.right), path.index(e.left)))
        if not same:
            lies_by = set()
        if edge.left_key:
            lies_by |= {(edge.left, edge.left_key), (edge.right, edge.right_key)}
        path.append(edge.right)
    return tuple(path)
