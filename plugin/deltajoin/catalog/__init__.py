"""What the Delta logs say, without Spark: sources, their changes, the target, the ledger."""

from __future__ import annotations

from deltajoin.catalog.changes import Changes, read_changes
from deltajoin.catalog.difference import ChangedFiles
from deltajoin.catalog.files import normalise, open_files, overlap
from deltajoin.catalog.plain import PlainFiles
from deltajoin.catalog.schema import Column, zoned
from deltajoin.catalog.static import load_source
from deltajoin.catalog.table import (
    Consumed,
    StaticFiles,
    TableState,
    load_table,
    plain_files,
)
from deltajoin.catalog.target import TargetCommit, TargetState, load_target

__all__ = [
    "ChangedFiles",
    "Changes",
    "Column",
    "Consumed",
    "PlainFiles",
    "StaticFiles",
    "TableState",
    "TargetCommit",
    "TargetState",
    "load_source",
    "load_table",
    "load_target",
    "normalise",
    "open_files",
    "overlap",
    "plain_files",
    "read_changes",
    "zoned",
]
