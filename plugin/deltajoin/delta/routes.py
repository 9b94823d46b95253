"""The routes of all changes of a query: epoch order, lookup paths, and what stands against these.

    NO_SCOPE          no key leads on from a change: the other side of its join is read whole, once
                      for the rows before and once for those after; by a rebuild once
    TOO_MANY_LOOKUPS  the other side of a join is made by lookups too, for rows before and after,
                      and each takes Spark a tenth of a second to plan:

    t LEFT JOIN (u LEFT JOIN v)                                20 lookups
    t LEFT JOIN (u LEFT JOIN (v LEFT JOIN (w LEFT JOIN ...)))  200, six deep
    t FULL JOIN u USING (k) FULL JOIN v USING (k)              75; with one full join more 430

Runs are exact all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from deltajoin.delta.epoch_order import epoch_order
from deltajoin.delta.lookup_paths import lookup_paths
from deltajoin.delta.path import LookupPath, LookupStep, SourceVersion, reads
from deltajoin.delta.pinning import Pins
from deltajoin.errors import Refusal
from deltajoin.graph import JoinGraph
from deltajoin.planner.solver import Strategy
from deltajoin.planner.statistics import Statistics

#: Lookups that Spark still plans within a minute.
MOST_LOOKUPS = 500
_BY_KEY = "Join on at least one equality between a column of each side, or use mode incremental."
_APART = "Put the inner joins into a model of their own, and join that."


@dataclass(frozen=True)
class Routes:
    """The epoch order, a note where the last one was given up, and the paths of all changes; why a
    rebuild should read less than these."""

    order: tuple[str, ...] = ()
    note: str = ""
    paths: tuple[LookupPath, ...] = ()
    untraced: Refusal | None = None


def routes_of(
    graph: JoinGraph,
    statistics: Statistics,
    versions: Mapping[str, SourceVersion],
    strategy: Strategy,
    pins: Pins,
) -> Routes:
    """The routes of a query; `pins` are the orders of earlier epochs."""
    order, note = epoch_order(graph, statistics, versions, strategy, pins)
    paths = lookup_paths(graph, statistics, order, versions, strategy, pins)
    return Routes(order, note, paths, _untraced(graph, paths, statistics))


def _untraced(
    graph: JoinGraph, paths: tuple[LookupPath, ...], statistics: Statistics
) -> Refusal | None:
    """Why a rebuild should read less than these paths; None where keys lead on, or by little."""
    everything = sum(statistics.table_rows(relation.source) for relation in graph.relations)
    for path in paths:
        steps = _read_whole(path.steps)
        sources = [source for source, _ in reads(steps[:-1])]
        guessed = any(statistics.rows_of(source).source == "guess" for source in sources)
        if steps and (guessed or 2 * sum(map(statistics.table_rows, sources)) > everything):
            names = ", ".join(step.relation for step in steps[:-1])
            message = (
                f"no comparison leads from a change of {path.driver} on to the rows of {names}"
            )
            return Refusal("NO_SCOPE", message, steps[-1].relation, _BY_KEY)
    return None


def _read_whole(steps: tuple[LookupStep, ...]) -> tuple[LookupStep, ...]:
    """The steps from reading a relation whole to the join with what changed; none if all enter."""
    kinds = [step.kind for step in steps]
    if "scan" not in kinds:
        return ()
    start = kinds.index("scan")
    end = next(i for i in range(start, len(steps)) if steps[i].previous)
    return steps[start : end + 1]


def too_many_lookups(paths: Iterable[LookupPath]) -> Refusal | None:
    """Why a rebuild takes less time than to plan the lookups of these paths; None where it is not
    to be expected."""
    found = sum(lookups_of(path.steps) for path in paths)
    if found <= MOST_LOOKUPS:
        return None
    message = (
        f"outer joins within each other take {found:,} lookups to follow these changes, "
        f"over {MOST_LOOKUPS:,}"
    )
    return Refusal("TOO_MANY_LOOKUPS", message, "its joins", _APART)


def lookups_of(steps: Iterable[LookupStep]) -> int:
    """The lookups of some steps, with those that make the other sides of their joins.

    Example:
        >>> step = LookupStep("u", "u", 1, "this", ("`t`.`k` = `u`.`k`",), False, 1)
        >>> lookups_of([step, step])
        2
    """
    return sum(1 + lookups_of(step.inside) + lookups_of(step.previous) for step in steps)
