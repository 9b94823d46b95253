"""The best left-deep order from a given start: exact up to 12 relations, a beam beyond.

    cost(order) = sum of the rows after each step
    rows(S)     = min over the last relation j of rows(S - j) x fan-out(S - j -> j)

Rows and step cost depend only on (set, next), so dynamic programming over connected sets is exact
(Held-Karp; checked against all permutations in tests). Steps follow predicates: a relation that no
predicate links to the bound set waits. Ties go to the smaller cost, then to relation names, so the
same graph gives the same order whatever order it was written in.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltajoin.graph import JoinGraph
from deltajoin.planner.cardinality import Statistics, fan_out, relation_rows

EXACT_LIMIT = 12
BEAM_WIDTH = 32


@dataclass(frozen=True)
class JoinOrder:
    """Relations in join order with the estimated rows after each step, and the summed cost."""

    relations: tuple[str, ...]
    rows: tuple[float, ...]
    cost: float


@dataclass(frozen=True)
class _State:
    cost: float
    order: tuple[str, ...]
    rows: tuple[float, ...]

    @property
    def rank(self) -> tuple[float, tuple[str, ...]]:
        return (_rounded(self.cost), self.order)


def _rounded(value: float) -> float:
    """Six digits: estimates that differ only by the order of multiplication are equal."""
    return float(f"{value:.6g}")


def best_order(
    graph: JoinGraph, statistics: Statistics, start: str, start_rows: float
) -> JoinOrder:
    """The cheapest connected left-deep order that begins with `start`.

    Args:
        start_rows: rows of the start relation: of its change for a lookup path, all for a backfill.
    """
    exact = len(graph.relations) <= EXACT_LIMIT
    layer = {frozenset({start}): _State(0.0, (start,), (start_rows,))}
    fan_outs: dict[tuple[frozenset[str], str], float] = {}
    for _ in range(len(graph.relations) - 1):
        layer = _grow(graph, statistics, layer, fan_outs)
        if not exact and len(layer) > BEAM_WIDTH:
            kept = sorted(layer.items(), key=lambda entry: entry[1].rank)[:BEAM_WIDTH]
            layer = dict(kept)
    best = min(layer.values(), key=lambda state: state.rank)
    return JoinOrder(best.order, tuple(_rounded(rows) for rows in best.rows), _rounded(best.cost))


def _grow(
    graph: JoinGraph,
    statistics: Statistics,
    layer: dict[frozenset[str], _State],
    fan_outs: dict[tuple[frozenset[str], str], float],
) -> dict[frozenset[str], _State]:
    rows: dict[frozenset[str], float] = {}
    steps: list[tuple[frozenset[str], str, _State]] = []
    for bound, state in layer.items():
        for new in graph.neighbours(bound):
            step = (bound, new)
            if step not in fan_outs:
                fan_outs[step] = fan_out(graph, statistics, bound, new)
            after = bound | {new}
            estimate = state.rows[-1] * fan_outs[step]
            rows[after] = min(rows.get(after, estimate), estimate)
            steps.append((after, new, state))
    grown: dict[frozenset[str], _State] = {}
    for after, new, state in steps:
        candidate = _State(
            state.cost + rows[after], (*state.order, new), (*state.rows, rows[after])
        )
        if after not in grown or candidate.rank < grown[after].rank:
            grown[after] = candidate
    return grown


def full_order(graph: JoinGraph, statistics: Statistics) -> JoinOrder:
    """The cheapest order for the whole query: the best over every start relation."""
    orders = (
        best_order(graph, statistics, r.name, relation_rows(graph, statistics, r.name))
        for r in graph.relations
    )
    return min(orders, key=lambda order: (order.cost, order.relations))
