"""The order in which a large target is written: by its key.

A MERGE looks for its rows in the files whose keys may meet those of the change; a large join leaves
its rows spread by a hash, so that all files are read. Here the key is divided into ranges of about
as many rows each, by what the log says of the source's files; the runtime writes a file for each.
Of several columns of a key the one is taken that makes most ranges.

Rows never depend on it. It is left out where the user declares a layout, where the join keeps the
order of its one large source, and for keys whose values are no numbers or times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from deltajoin.catalog import TableState
from deltajoin.delta.layout import Layout
from deltajoin.graph import JoinGraph

#: Sources of fewer rows are broadcast as a rule, which leaves the other side's order as it is.
_MOVED = 100_000
#: A target of less than two such files stays as it comes.
ROWS_A_FILE = 1_000_000
_MOST_FILES = 1_000


@dataclass(frozen=True)
class KeyOrder:
    """A column of the key, and the values that divide it into ranges: literals of Spark SQL,
    ascending."""

    column: str
    bounds: tuple[str, ...]


def key_order(
    graph: JoinGraph | None,
    key: tuple[str, ...],
    layout: Layout,
    tables: Mapping[str, TableState],
) -> KeyOrder | None:
    """How the rows of a whole query are put in order; None where they stay as they come."""
    if graph is None or graph.has_union or graph.grouping or not key:
        return None
    if layout.partition_by or layout.clustered_by:
        return None
    sources = {relation.name: relation.source for relation in graph.relations}
    rows = {s: tables[s].rows or 0 if s in tables else _MOVED for s in sources.values()}
    columns = {
        output.name: (sources[output.column[0]], output.column[1])
        for output in graph.projections
        if output.name in key and output.column is not None
    }
    if sum(each >= _MOVED for each in rows.values()) < 2:
        return None
    most = max((rows[source] for source, _ in columns.values()), default=0)
    orders = []
    for name, (source, column) in columns.items():
        table = tables.get(source)
        if table is None or table.log is None:
            continue
        if values := table.log.quantiles(column, min(_MOST_FILES, most // ROWS_A_FILE)):
            orders.append(KeyOrder(name, tuple(map(_literal, values))))
    return max(orders, key=lambda order: len(order.bounds), default=None)


def _literal(value: Any) -> str:
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}+00:00'"
    return f"DATE '{value.isoformat()}'" if isinstance(value, date) else str(value)
