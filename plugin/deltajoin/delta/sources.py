"""What changed in each source since the last epoch, how its change is read, and what that costs.

The catalog judges each source on its own; one that can't give its change is an obstacle, and never
stops the others from being judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from deltajoin.catalog import (
    Changes,
    Column,
    Consumed,
    TableState,
    TargetState,
    plain_files,
    read_changes,
)
from deltajoin.catalog.history import metadata_at
from deltajoin.catalog.plain import MOST_FILES
from deltajoin.delta.history import Record
from deltajoin.delta.path import LookupPath, SourceVersion, schema_of
from deltajoin.delta.strategy import FEW_ROWS, LARGEST_SHARE
from deltajoin.errors import Refusal
from deltajoin.graph import JoinGraph
from deltajoin.names import COUNT, RESERVED_PREFIX, SHOWN

#: Two versions of so many bytes together are compared, whatever the other sources are.
CHEAP_BYTES = 8 * 2**20

_REMEDIES = {
    "NO_CHANGE_FEED": "ALTER TABLE ... SET TBLPROPERTIES (delta.enableChangeDataFeed = true).",
    "FEED_GAP": "Run more often than the table's retention, or run once with mode full.",
    "STATIC_SOURCE_CHANGED": "Run once with mode full; write a Delta table to be incremental.",
    "SOURCE_RECREATED": "Run once with mode full.",
    "SOURCE_ROLLED_BACK": "Run once with mode full.",
    "SOURCE_SCHEMA_CHANGED": "Adapt the model if need be, then run once with mode full.",
}


def source_versions(
    tables: Mapping[str, TableState],
    graph: JoinGraph | None,
    last: Record | None,
) -> tuple[tuple[SourceVersion, ...], tuple[Refusal, ...]]:
    """The frontier's sources by name, and what rules an incremental run out."""
    frontier = last["frontier"] if last else {}
    obstacles: list[Refusal] = []
    versions: list[SourceVersion] = []
    for name, table in sorted(tables.items()):
        used = graph.used_columns(name) if graph else tuple(c.name for c in table.columns)
        columns = tuple((c.name, c.type) for c in table.columns if c.name in used)
        changes: Changes | None = None
        if name in frontier:
            consumed = _consumed(frontier[name], table, columns)
            changes = read_changes(table, consumed, used, whole=graph is None)
            if changes.problem:
                obstacles.append(_source_obstacle(name, table, changes.problem, changes.detail))
        versions.append(
            SourceVersion(
                source=name,
                location=table.location,
                table_id=table.table_id,
                version=table.version,
                previous=changes.previous if changes else None,
                columns=columns,
                rows=table.rows,
                bytes=table.bytes,
                static=table.static,
                commit=table.commit,
                bag=_is_ours(table) and any(column.name == COUNT for column in table.columns),
                **_how_changed(changes, used),
            )
        )
    return tuple(versions), tuple(obstacles)


def with_files(source: SourceVersion, table: TableState) -> SourceVersion:
    """The source with the files of its versions where these may be read as they are: of a table
    that is no bag, by its used columns."""
    if source.static is not None or source.bag or not source.columns:
        return source
    before, files = source.at("previous"), {source.version: table.plain}
    if before not in files and table.files <= MOST_FILES:
        files[before] = plain_files(source.location, before)
    return replace(
        source, plain=tuple((version, found) for version, found in sorted(files.items()) if found)
    )


def readable(table: TableState) -> tuple[str, ...]:
    """The columns of a source that a query reads: all, but of one of our targets no hidden ones;
    SHOWN stays where it is, and filters the rows."""
    ours = _is_ours(table)
    names = (column.name for column in table.columns)
    return tuple(
        name for name in names if not ours or name == SHOWN or not name.startswith(RESERVED_PREFIX)
    )


def _is_ours(table: TableState) -> bool:
    return any(name == "deltajoin.model" for name, _ in table.properties)


def _how_changed(changes: Changes | None, used: tuple[str, ...]) -> dict[str, Any]:
    if changes is None:
        return {}
    by_files = changes.method == "files"
    return {
        "change_rows": changes.rows,
        "change_kind": changes.kind,
        "why": changes.why,
        # Files are read by their columns.
        "method": "difference" if by_files and not used else changes.method,
        "files": changes.files if used else None,
    }


def _consumed(
    entry: Mapping[str, Any], table: TableState, columns: tuple[tuple[str, str], ...]
) -> Consumed:
    """What was consumed of a table; the columns used then as its log has them, if others."""
    version, commit = int(entry["version"]), entry.get("commit")
    then: tuple[Column, ...] | None = table.columns
    if entry.get("schema") != schema_of(columns):
        past = metadata_at(table.location, version)
        then = None if past is None else past.columns
    return Consumed(str(entry["id"]), version, then, None if commit is None else str(commit))


def _source_obstacle(name: str, table: TableState, code: str, detail: str) -> Refusal:
    return Refusal(code, f"source '{name}': {detail}", f"{name}: {table.location}", _REMEDIES[code])


def share(sources: tuple[SourceVersion, ...]) -> float | None:
    """Changed rows by all rows. What was exchanged as a whole doesn't count: its log tells what
    was written, not what is different."""
    changed = [s for s in sources if s.changed and s.change_kind != "replaced"]
    if any(s.rows is None for s in sources) or any(s.change_rows is None for s in changed):
        return None
    total = sum(s.rows or 0 for s in sources)
    return sum(s.change_rows or 0 for s in changed) / max(1, total)


def reach(
    sources: tuple[SourceVersion, ...], paths: Sequence[LookupPath], target: TargetState | None
) -> str | None:
    """Why following the change costs more than a rebuild, or None: a few rows of a dimension may
    lead to most of the target. An update counts by both its images; small tables don't count."""
    found = sum(path.given_rows for path in paths)
    most = max((s.rows or 0 for s in sources), default=0)
    if target is None or found < FEW_ROWS or found <= 2 * LARGEST_SHARE * most:
        return None  # before the target's log is read
    most = max(most, target.rows or 0)
    if found <= 2 * LARGEST_SHARE * most:
        return None
    return f"its lookups should give {found:,} rows, where there are {most:,}"


def cost_of_finding(sources: tuple[SourceVersion, ...]) -> str | None:
    """Why finding the change costs more than a rebuild, or None: by bytes, as both versions of
    exchanged tables are read, and all sources once by a rebuild. A few bytes are always read: a
    seed that is loaded again mostly has the same rows, or nearly."""
    whole = [s for s in sources if s.changed and (s.change_kind == "replaced" or s.read_whole)]
    if not whole or any(s.bytes is None for s in sources):
        return None
    twice, once = 2 * sum(s.bytes or 0 for s in whole), sum(s.bytes or 0 for s in sources)
    if twice <= max(once, CHEAP_BYTES):
        return None
    names = ", ".join(s.source for s in whole)
    return f"two versions of {names} are {twice:,} bytes, all sources {once:,}"
