"""Lookup paths of groups that end with a comparison: by running aggregates where pairs are many.

Such a path gives what it adds to the state of each group, in place of rows (`emit.running`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from deltajoin.delta.path import LookupPath, SourceVersion
from deltajoin.delta.state import GroupState, merged_columns
from deltajoin.graph import JoinGraph
from deltajoin.planner.accelerated import running_aggregates
from deltajoin.planner.statistics import Statistics


def with_running(
    paths: tuple[LookupPath, ...],
    graph: JoinGraph | None,
    statistics: Statistics,
    state: GroupState | None,
    sources: Iterable[SourceVersion],
) -> tuple[LookupPath, ...]:
    """The paths, with running aggregates for the last lookup where they serve it.

    Args:
        state: of the target's groups; without one, or where it doesn't take the change, groups are
            computed anew from their rows.
    """
    if graph is None or state is None or graph.cores or not state.takes(sources):
        return paths
    aggregated = merged_columns(graph, state)
    if aggregated is None:
        return paths
    return tuple(_ended(path, graph, statistics, aggregated) for path in paths)


def _ended(
    path: LookupPath, graph: JoinGraph, statistics: Statistics, aggregated: frozenset[str]
) -> LookupPath:
    if not path.steps:
        return path
    *before, step = path.steps
    if step.kind != "inner" or step.accelerated is not None:
        return path
    stream = {path.driver, *(each.relation for each in before)}
    sizes = max(1.0, path.rows_before(len(before))), statistics.table_rows(step.source)
    for right, rows in (({step.relation}, sizes), (stream, sizes[::-1])):
        found = running_aggregates(graph, statistics, step.on, right, "inner", rows, aggregated)
        if found is not None:
            last = replace(step, accelerated=found, estimated_rows=round(rows[0]))
            return replace(path, steps=(*before, last))
    return path
