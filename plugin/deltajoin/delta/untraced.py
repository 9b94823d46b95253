"""Changes that no key leads on from, so that a run reads the other side of their join whole.

Such a run is exact: both sides of the difference are computed for all rows. It reads that side once
for the rows before and once for those after; a rebuild reads every relation once.
"""

from __future__ import annotations

from deltajoin.delta.path import LookupPath, LookupStep, reads
from deltajoin.errors import Refusal
from deltajoin.graph import JoinGraph
from deltajoin.planner.statistics import Statistics

_REMEDY = "Join on at least one equality between a column of each side, or use mode incremental."


def untraced(
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
            return Refusal("NO_SCOPE", message, steps[-1].relation, _REMEDY)
    return None


def _read_whole(steps: tuple[LookupStep, ...]) -> tuple[LookupStep, ...]:
    """The steps from reading a relation whole to the join with what changed; none if all enter."""
    kinds = [step.kind for step in steps]
    if "scan" not in kinds:
        return ()
    start = kinds.index("scan")
    end = next(i for i in range(start, len(steps)) if steps[i].previous)
    return steps[start : end + 1]
