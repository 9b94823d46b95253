"""Which paths a declared reference leaves without rows.

A foreign key of F refers to a key of D, and D only gained rows. A gained row has a key that D did
not hold before, so no row of F as it was before refers to it: the path from D into F at the
previous epoch, or into an unchanged F, gives nothing. That rests on the reference having held, and
a reference is declared, not proven: the path is executed all the same, as it costs little, and a
row that comes out of it is right and is reported.
"""

from __future__ import annotations

from deltajoin.graph import JoinGraph
from deltajoin.planner.statistics import Statistics

Columns = tuple[str, tuple[str, ...]]
Reference = tuple[Columns, Columns]


def expected_empty(
    graph: JoinGraph, statistics: Statistics, driver: str, kind: str, frozen: frozenset[str]
) -> str:
    """Why the path of a driver should give no row, "" when it may.

    Args:
        kind: what happened to the driver's table: none, insert_only or mutating.
        frozen: relations that the path reads as they were at the previous epoch.
    """
    source = graph.by_name[driver].source
    key = statistics.keys.get(source)
    if kind != "insert_only" or not key:
        return ""
    references: tuple[Reference, ...] = getattr(statistics, "references", ())
    for (table, columns), (referred, referred_key) in sorted(references):
        if referred != source or sorted(referred_key) != sorted(key):
            continue
        for name in sorted(frozen):
            if graph.by_name[name].source == table and all(
                (driver, there) in graph.equated((name, here))
                for here, there in zip(columns, referred_key, strict=True)
            ):
                return (
                    f"{table} refers to {source} by {', '.join(columns)}, {source} only gained "
                    f"rows, and {table} is read as it was before"
                )
    return ""
