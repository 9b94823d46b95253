"""What is expected of each lookup: rows, what the figure stands on, files read, how sides meet.

Told for inner lookups, whose fan-out the planner estimates; a step that enters by keys starts its
stream anew. A plan is made before the change is read, so that files are left out by the query's own
filters alone; the change's keys may leave out more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deltajoin.accelerate.choose import why_compared
from deltajoin.delta.path import LookupPath, LookupStep
from deltajoin.graph import ColumnRef, Core, JoinGraph
from deltajoin.planner.accelerated import join_of
from deltajoin.planner.cardinality import fan_out_estimate
from deltajoin.planner.lookup import (
    KEPT,
    KEYED,
    Arrangement,
    arrangement,
    lookup_cost,
    stream_bytes,
)
from deltajoin.planner.statistics import Statistics

Key = tuple[tuple[ColumnRef, ...], ...]


def path_estimates(graph: JoinGraph, statistics: Statistics, path: LookupPath) -> dict[str, Any]:
    """A path's driver, branch, text, and what is expected of each of its lookups, in order."""
    walk = _Walk(graph, statistics.driven_by(path.driver), path)
    return {
        "driver": path.driver,
        "branch": path.branch,
        "text": path.text,
        "replanned": path.replanned,
        "steps": [walk.expected(number, step) for number, step in enumerate(path.steps)],
    }


class _Walk:
    """The stream of a path: what is bound in each core, by which key it lies."""

    def __init__(self, graph: JoinGraph, statistics: Statistics, path: LookupPath) -> None:
        self._graph, self._statistics, self._path = graph, statistics, path
        core = graph.branches[path.branch]
        self._inner = {
            name: part
            for found in _cores(core)
            if (part := graph.inner_part(found))
            for name in found.relations
        }
        self._bound = [path.driver]
        self._key: Key | None = None

    def expected(self, number: int, step: LookupStep) -> dict[str, Any]:
        """What is expected of one lookup; only its name and kind where nothing is estimated."""
        plain: dict[str, Any] = {"relation": step.relation, "kind": step.kind}
        if step.on and step.accelerated is None and not step.inside:
            plain["compared"] = self._compared(number, step)
        if step.kind in ("enter", "scan"):
            self._bound, self._key = [step.relation], None
        if step.kind == "filter" or step.inside:
            return plain
        table = self._arranged(step)
        plain["arrangement"] = table.text
        part = self._inner.get(step.relation)
        if step.kind != "inner" or part is None:
            return plain
        bound = frozenset(self._bound) & frozenset(r.name for r in part.relations)
        self._bound.append(step.relation)
        if not bound:
            return plain
        estimate = fan_out_estimate(part, self._statistics, bound, step.relation)
        rows_in, key = float(self._path.rows_before(number)), self._key_of(part, bound, step)
        near = key != () and key == self._key
        width = stream_bytes(self._graph, self._statistics, self._bound[:-1])
        cost = lookup_cost(table, rows_in, float(step.estimated_rows), width, near)
        self._key = {KEPT: self._key, KEYED: key}.get(cost.place)
        return {
            **plain,
            "rows": step.estimated_rows,
            "fan_out": float(f"{estimate.value:.4g}"),
            "source": estimate.source,
            "exchange": cost.exchange,
            "seconds": float(f"{cost.seconds:.3g}"),
        }

    def _compared(self, number: int, step: LookupStep) -> str:
        """Why the lookup's rows are compared one by one; empty where they aren't."""
        known = self._statistics
        rows = float(self._path.rows_before(number) or 1), known.table_rows(step.source)
        join = join_of(self._graph, known, step.on, [step.relation], step.kind, rows)
        return why_compared(step.on, *join)

    def _arranged(self, step: LookupStep) -> Arrangement:
        part = self._inner.get(step.relation)
        own = [p.sql for p in part.predicates if p.relations == {step.relation}] if part else []
        return arrangement(self._statistics, step.source, own, step.unique)

    def _key_of(self, part: JoinGraph, bound: frozenset[str], step: LookupStep) -> Key:
        edges = [p for p in part.decidable(bound, step.relation) if p.left is not None]
        refs = {ref for p in edges for ref in p.refs if ref[0] == step.relation}
        return tuple(sorted({tuple(sorted(part.equated(ref))) for ref in refs}))


def _cores(core: Core) -> Iterator[Core]:
    yield core
    for attachment in core.attachments:
        yield from _cores(attachment.core)
