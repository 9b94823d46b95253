"""A source table at one version: identity, schema, size, properties. No Spark.

Rule: deltalake loads the snapshot; nothing is guessed. `rows` is the sum of the files' record
counts less what deletion vectors remove, and None as soon as one file has no count. The version
found here is the one that a run freezes: callers load each source once and pin it. Models that
share a frontier load it again at the pinned version, whatever was committed since.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deltajoin.catalog.files import normalise, open_files
from deltajoin.catalog.log import commit_digest
from deltajoin.catalog.plain import PlainFiles, is_plain, plain_files_of
from deltajoin.catalog.schema import Column, columns_of
from deltajoin.catalog.statistics import FileStatistics
from deltajoin.contract import FEED_PROPERTY
from deltajoin.errors import DeltaJoinError
from deltajoin.storage import options_of

if TYPE_CHECKING:
    from deltalake import DeltaTable


@dataclass(frozen=True)
class StaticFiles:
    """Files that are a source as they are: format, absolute paths, columns as Spark DDL."""

    format: str
    paths: tuple[str, ...]
    schema: str


@dataclass(frozen=True)
class TableState:
    """One version of a source; `bytes` and `files` count the active data files.

    `log` tells of values per file; None for a state that was not loaded from a log. `static` is
    None for a Delta table. `is_plain` tells that a file without deletion vector holds its rows as
    they are, `plain` are all files where they do. `commit` tells the version's commit from another
    one of the same number.
    """

    name: str
    location: str
    table_id: str
    version: int
    columns: tuple[Column, ...]
    rows: int | None
    bytes: int | None
    files: int
    change_feed: bool
    properties: tuple[tuple[str, str], ...]
    log: FileStatistics | None = field(default=None, repr=False, compare=False)
    static: StaticFiles | None = None
    is_plain: bool = False
    plain: PlainFiles | None = None
    commit: str | None = None


@dataclass(frozen=True)
class Consumed:
    """What the last committed epoch consumed of a source; without `commit` where an older release
    recorded it, without `columns` where these differ from today's and the log has lost them."""

    table_id: str
    version: int
    columns: tuple[Column, ...] | None
    commit: str | None = None


@dataclass(frozen=True)
class Opened:
    """deltalake's view of a version, and what tells its commit (see `TableState`)."""

    table: DeltaTable
    commit: str | None


def load_table(
    name: str, location: str, version: int | None = None, opened: Opened | None = None
) -> TableState:
    """A source table at a version, by default the newest, or as it was `opened`.

    `name` is the source's name in the model; errors point at it. Raises SOURCE_MISSING,
    SOURCE_NOT_DELTA, SOURCE_UNREADABLE, and FRONTIER_LOST when the given version is not there.
    """
    location = normalise(location)
    where = f"{name}: {location}"
    _look_before_opening(location, where)
    try:
        opened = opened or open_version(location, version)
        table = opened.table
        metadata = table.metadata()
        columns = columns_of(table.schema().to_json())
        log = FileStatistics.of(table)
        rows = count_rows(table, location, log)
        simple = is_plain(table)
        plain = plain_files_of(table, location, log) if simple else None
    except Exception as failure:
        if version is not None:
            cause = in_one_line(failure)
            raise _refused("FRONTIER_LOST", where, cause, version) from failure
        raise _refusal(failure, where) from failure
    properties = properties_of(metadata.configuration)
    return TableState(
        name=name,
        location=location,
        table_id=str(metadata.id),
        version=table.version(),
        columns=columns,
        rows=rows,
        bytes=log.bytes,
        files=log.files,
        change_feed=feed_is_on(metadata.configuration),
        properties=properties,
        log=log,
        is_plain=simple,
        plain=plain,
        commit=opened.commit,
    )


def open_version(location: str, version: int | None = None) -> Opened:
    """A version with its digest."""
    table = open_table(location, version)
    return Opened(table, commit_digest(open_files(location), table.version()))


def open_table(location: str, version: int | None = None) -> DeltaTable:
    """deltalake's view of a version (default: the newest)."""
    from deltalake import DeltaTable

    return DeltaTable(location, version=version, storage_options=options_of(location))


def plain_files(location: str, version: int) -> PlainFiles | None:
    """`TableState.plain` of an older version; None too where there is none any more."""
    from deltalake.exceptions import DeltaError

    try:
        table = open_table(location, version)
        log = FileStatistics.of(table)
        return plain_files_of(table, location, log) if is_plain(table) else None
    except (DeltaError, OSError):
        return None


def feed_is_on(properties: Mapping[str, str | None]) -> bool:
    """Whether a table with these properties records its changes."""
    return str(properties.get(FEED_PROPERTY)).lower() == "true"


def properties_of(configuration: Mapping[str, str | None]) -> tuple[tuple[str, str], ...]:
    """A table's properties, by name."""
    return tuple(sorted((key, value) for key, value in configuration.items() if value is not None))


def count_rows(table: DeltaTable, location: str, log: FileStatistics) -> int | None:
    """Rows of a version; None where its log doesn't count them."""
    masked = "deletionVectors" in (table.protocol().reader_features or [])
    records = log.records
    return records and records - (_masked_rows(table, location) if masked else 0)


def _masked_rows(table: DeltaTable, location: str) -> int:
    """Rows that deletion vectors hide, by the version's checksum file, else by reading them."""
    checksum = open_files(location).read_text(f"_delta_log/{table.version():020d}.crc")
    if checksum is not None:
        count = json.loads(checksum).get("numDeletedRecordsOpt")
        if count is not None:
            return int(count)
    batches: Any = table.deletion_vectors()
    return sum(
        kept.count(False)
        for batch in batches
        for kept in batch.column("selection_vector").to_pylist()
    )


def _look_before_opening(location: str, where: str) -> None:
    if "://" in location or os.path.isdir(os.path.join(location, "_delta_log")):
        return
    if os.path.isfile(location) or (os.path.isdir(location) and os.listdir(location)):
        raise _refused("SOURCE_NOT_DELTA", where)
    raise _refused("SOURCE_MISSING", where)


def in_one_line(failure: Exception) -> str:
    """What a library says of a failure, shortened, for the end of a sentence."""
    return " ".join(str(failure).split())[:300].rstrip(".")


def _refusal(failure: Exception, where: str) -> DeltaJoinError:
    from deltalake.exceptions import TableNotFoundError

    if isinstance(failure, TableNotFoundError):
        return _refused("SOURCE_MISSING" if "://" in where else "SOURCE_NOT_DELTA", where)
    return _refused("SOURCE_UNREADABLE", where, in_one_line(failure))


def _refused(code: str, where: str, cause: str = "", version: int | None = None) -> DeltaJoinError:
    message, remedy = _REFUSALS[code]
    message = message.format(cause=cause, version=version)
    return DeltaJoinError(code, message, where=where, remedy=remedy)


_REFUSALS = {
    "SOURCE_UNREADABLE": (
        "the Delta log cannot be read: {cause}",
        "Repair the table, or drop the table feature that deltalake does not know.",
    ),
    "FRONTIER_LOST": (
        "version {version}, which the frontier names, cannot be read: {cause}",
        "Freeze a new frontier: start the whole run again.",
    ),
    "SOURCE_MISSING": (
        "there is no table at this location",
        "Check the path of this source in the model, or create the table first.",
    ),
    "SOURCE_NOT_DELTA": (
        "the location holds files but no Delta log",
        "Convert it with CONVERT TO DELTA, or point the source at a Delta table.",
    ),
}
