"""How many rows a lookup gives: fan-outs from what is bound to the next relation.

    fan-out(bound -> new) = rows of `new` under its own filters x share of the pairs that match

The estimate depends only on what is bound and what comes next. Where earlier runs took this step on
the same driver's path it is the measured one, drawn towards the estimate as if that had been
measured on one row more. Nothing is below one millionth: a wrong guess can change an order, never
silence a path. Caller: passes `statistics.driven_by(driver)` for a driver's path, and starts it
with the rows of the change times `kept_share_of` the driver; keeps `written_order` unless
`statistics.known(graph)`.
"""

from __future__ import annotations

from deltajoin.graph import JoinGraph
from deltajoin.planner.classes import LEAST
from deltajoin.planner.statistics import Estimate, Measured, Statistics


def relation_rows(graph: JoinGraph, statistics: Statistics, relation: str) -> float:
    """Rows of a relation after its own filters."""
    return max(statistics.matching(graph).rows(relation), LEAST)


def kept_share_of(graph: JoinGraph, statistics: Statistics, relation: str) -> float:
    """Share of a relation's rows, and of its changes, that its own filters keep."""
    return statistics.matching(graph).kept(relation)


def key_is_bound(graph: JoinGraph, statistics: Statistics, bound: frozenset[str], new: str) -> bool:
    """True when each column of a declared key of `new` is equated with a bound column."""
    key = statistics.keys.get(graph.by_name[new].source)
    if not key:
        return False
    return all(any(rel in bound for rel, _ in graph.equated((new, column))) for column in key)


def fan_out(graph: JoinGraph, statistics: Statistics, bound: frozenset[str], new: str) -> float:
    """Expected rows of `new` that match one bound row."""
    return fan_out_estimate(graph, statistics, bound, new).value


def fan_out_estimate(
    graph: JoinGraph, statistics: Statistics, bound: frozenset[str], new: str
) -> Estimate:
    """The fan-out, and what it stands on: one of `statistics.TRUST`."""
    matching = statistics.matching(graph)
    before, number = matching.mask(bound), matching.mask((new,)).bit_length() - 1
    expected = max(matching.rows(new) * matching.pairs(before, 1 << number).share, LEAST)
    relevant = before & matching.relevant(number)
    seen = matching.measured(statistics.driver).get((relevant, number))
    if seen is None:
        return Estimate(expected, matching.source(before, 1 << number))
    return Estimate(drawn(seen, expected), "measured")


def drawn(seen: Measured, expected: float) -> float:
    """A measured fan-out, drawn towards what was expected."""
    return max((seen.rows_out + expected) / (seen.rows_in + 1), LEAST)


def written_order(graph: JoinGraph, start: str | None = None) -> tuple[str, ...]:
    """The relations as written, each as soon as a predicate links it to those before.

    The order of a graph with a table of unknown size. `start`: the first relation, by default the
    first written; a relation that nothing links follows when all linked ones are placed.
    """
    written = [relation.name for relation in graph.relations]
    order = [start or written[0]]
    while len(order) < len(written):
        left = [name for name in written if name not in order]
        linked = set(graph.neighbours(frozenset(order)))
        order.append(next((name for name in left if name in linked), left[0]))
    return tuple(order)
