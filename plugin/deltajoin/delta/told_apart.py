"""Values that GROUP BY calls equal and that are not the same: -0.0 and 0.0.

Rule: a change is consolidated, netted and matched by such a column's text besides. That holds for
source columns of floating-point numbers and for what is computed of them row by row; sums, groups
and windows take -0.0 for 0.0, as Spark does where it groups by them.
"""

from __future__ import annotations

from collections.abc import Mapping

from deltajoin.graph import ColumnRef, JoinGraph

_FLOATS = ("double", "float")


def holds_floats(kind: str) -> bool:
    """True for a type whose values may hold -0.0."""
    return any(name in kind for name in _FLOATS)


def told_apart(
    graph: JoinGraph, types: Mapping[ColumnRef, str], key: tuple[str, ...]
) -> tuple[str, ...]:
    """Output columns that are told apart by their text.

    Args:
        types: (source, column) -> type.
    """
    if graph.grouping or graph.generation or graph.windowing or graph.has_union:
        return ()
    return tuple(
        p.name
        for p in graph.projections
        if p.name not in key
        and any(holds_floats(types.get((graph.by_name[r].source, c), "")) for r, c in p.refs)
    )
