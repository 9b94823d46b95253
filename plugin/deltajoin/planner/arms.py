"""A branch of a query with unions as a query of its own, to be planned and emitted by itself."""

from __future__ import annotations

from deltajoin.graph import Core, JoinGraph
from deltajoin.sql.normalise import as_block


def arms(graph: JoinGraph) -> tuple[JoinGraph, ...]:
    """The parts of a query that are planned by themselves: its branches, or itself."""
    return tuple(arm(graph, core) for core in graph.cores) if graph.has_union else (graph,)


def arm(graph: JoinGraph, core: Core) -> JoinGraph:
    """The graph of one branch; columns of its `nulls` stay in its projections, as NULL."""
    root = as_block(core)
    below = frozenset(core.everything)
    return JoinGraph(
        relations=tuple(r for r in graph.occurrences if r.name in below),
        predicates=root.predicates,
        projections=graph.outputs(core),
        joins=tuple(item for item in root.items if not isinstance(item, str)),
        derived=graph.derived,
    )
