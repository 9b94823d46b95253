"""What was in force at each commit of a range: identity, schema, partitioning, change feed.

Rule: a table's metadata is that of its newest `metaData` action. Where a range has none, today's
holds for all of it; else the metadata before the range is read from the snapshot there, and each
action in the range replaces it from its own commit on. CREATE OR REPLACE and RESTORE give a table
another id in the *same* history: a table was recreated only if the log's own past does not know the
id that was consumed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deltajoin.catalog.log import Commit
from deltajoin.catalog.schema import Column, columns_of, identities_of
from deltajoin.catalog.table import feed_is_on, open_table


@dataclass(frozen=True)
class InForce:
    """A table's metadata at one version."""

    table_id: str
    columns: tuple[Column, ...]
    identities: Mapping[str, str]
    partition_columns: tuple[str, ...]
    change_feed: bool


def metadata_at(location: str, version: int) -> InForce | None:
    """The metadata of a version, or None when the log no longer reaches it."""
    from deltalake.exceptions import DeltaError

    try:
        table = open_table(location, version)
    except (DeltaError, OSError):
        return None
    found, schema = table.metadata(), table.schema().to_json()
    return _in_force(found.id, schema, found.partition_columns, found.configuration)


def metadata_over(before: InForce, commits: Sequence[Commit]) -> tuple[InForce, ...]:
    """The metadata in force after each of these commits, which follow `before` directly."""
    found = []
    for commit in commits:
        before = before if commit.metadata is None else _from_action(commit.metadata)
        found.append(before)
    return tuple(found)


def same_columns(old: InForce, new: InForce, used: frozenset[str]) -> str | None:
    """What changed of the used columns (lower case) from `old` to `new`, or None."""
    there = {name.lower(): identity for name, identity in new.identities.items()}
    for column in old.columns:
        name = column.name.lower()
        if name in used and name not in there:
            return f"column '{column.name}' is gone"
        if name in used and there[name] != old.identities[column.name]:
            return f"column '{column.name}' was replaced by another one"
    return None


def feed_breaks(old: InForce, new: InForce) -> str | None:
    """Why Spark cannot read rows written under `old` through the schema of `new`, or None.

    Its change feed takes added columns only: any dropped, renamed or retyped column, used or not,
    stops it.
    """
    nullable = {column.name: column.nullable for column in new.columns}
    for column in old.columns:
        if new.identities.get(column.name) != old.identities[column.name]:
            return f"column '{column.name}' was dropped, renamed or retyped between changes"
        if column.nullable and not nullable[column.name]:
            return f"column '{column.name}' became NOT NULL between changes"
    if old.partition_columns != new.partition_columns:
        return "the partition columns changed between changes"
    return None


def _from_action(action: Mapping[str, Any]) -> InForce:
    partitions, properties = action.get("partitionColumns"), action.get("configuration")
    return _in_force(action["id"], action["schemaString"], partitions or (), properties or {})


def _in_force(
    table_id: str, schema: str, partitions: Sequence[str], properties: Mapping[str, str]
) -> InForce:
    columns, identities = columns_of(schema), identities_of(schema)
    feed = feed_is_on(properties)
    return InForce(str(table_id), columns, identities, tuple(partitions), feed)
