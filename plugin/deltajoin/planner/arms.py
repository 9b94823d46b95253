"""A branch of a query as a query of its own, to be planned and emitted by itself.

Branches of unions always are; those of full joins where an accelerator serves what they leave: the
left join, and the rows of the right side without a match.
"""

from __future__ import annotations

from deltajoin.graph import Core, JoinGraph
from deltajoin.sql.normalise import as_block


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
