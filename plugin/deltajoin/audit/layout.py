"""Which tables to cluster by which column, by what the last epochs read and where values lie.

A run reads a large table within the ranges of what changed (`runtime/narrowing.py`), which leaves
out the files whose bounds don't meet them. Where each file holds values from everywhere, none is
left out. Told is the column with most values, if for each that was asked for the files that may
hold one value are over WORTH of the table; of a SMALL one nothing is told.

Caller: the plan was just made; one read back from the ledger knows no files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from deltajoin.catalog.statistics import FileStatistics
from deltajoin.delta.plan import DeltaPlan
from deltajoin.names import RESERVED_PREFIX

WORTH, SMALL = 0.5, 64 * 2**20


def layout_advice(planned: DeltaPlan) -> list[dict[str, Any]]:
    """Tables that would be read in part if they were clustered.

    Returns:
        [{"table": name in the query or "target", "is_target", "column": to cluster by, "bytes": of
        the table, "bytes_of_a_value": of the files that may hold one, "epochs": that asked for its
        values, "of": so many last incremental epochs}].
    """
    recent = planned.recent
    if recent is None or planned.statistics is None:
        return []
    asked: dict[tuple[str, bool], Counter[str]] = {}
    for tables in recent.reads:
        for read, columns in tables.items():
            source, of_source, _ = read.rpartition(" version ")
            asked.setdefault((source or read, not of_source), Counter()).update(set(columns))
    layout, found = planned.target.layout, []
    for (table, is_target), columns in sorted(asked.items()):
        log = recent.target_log() if is_target else planned.statistics.log.get(table)
        declared = is_target and (layout.partition_by or layout.clustered_by)
        if log is None or declared:
            continue
        held = _bytes_by_spread_column(log, columns)
        if held:
            column = max(held, key=lambda name: (log.column(name).domain or 0, name))
            found.append(
                {
                    "table": table,
                    "is_target": is_target,
                    "column": column,
                    "bytes": log.bytes,
                    "bytes_of_a_value": held[column],
                    "epochs": columns[column],
                    "of": len(recent.reads),
                }
            )
    return found


def _bytes_by_spread_column(log: FileStatistics, columns: Iterable[str]) -> dict[str, int]:
    """Bytes of the files that may hold a value, by column; empty if files lie by one of them."""
    size = log.bytes
    if size < SMALL:
        return {}
    names = (name for name in columns if not name.startswith(RESERVED_PREFIX))
    known = ((name, log.bytes_of_a_value(name)) for name in names)
    held = {name: found for name, found in known if found is not None}
    return {} if any(found <= WORTH * size for found in held.values()) else held
