"""The target table and its own history: what deltajoin committed, and what others did.

Rule: the truth about epochs is the target's commits, newest first, as far back as the log has
files, each read when it is asked for. Spark and delta-rs both keep a writer's text under
`commitInfo.userMetadata` (delta-rs: a custom key of that name). A clone of a target goes on from
its original's commits. A folder that holds only the ledger is no target yet: a plan is frozen there
before the first commit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count, islice
from typing import Any

from deltajoin.catalog.files import Files, normalise, open_files
from deltajoin.catalog.log import Commit, commit_versions, paths_of, read_commit
from deltajoin.catalog.schema import Column, columns_of
from deltajoin.catalog.statistics import FileStatistics
from deltajoin.catalog.table import count_rows, in_one_line, open_table, properties_of
from deltajoin.contract import LEDGER
from deltajoin.errors import DeltaJoinError

_BY_PATH = re.compile(r"delta\.`(.*)`")


@dataclass(frozen=True)
class TargetCommit:
    """One commit of the target; `metrics` as the writer spelled them (Spark writes strings).

    `original` is the table of whose log it is, where the target is a clone of it; `clusters` are
    those of `Commit`.
    """

    version: int
    timestamp_ms: int
    operation: str
    metrics: Mapping[str, Any]
    user_metadata: str | None
    data_change: bool
    original: str | None = None
    clusters: tuple[str, ...] | None = None


@dataclass(frozen=True)
class TargetState:
    """The target's newest version and its commits, newest first."""

    location: str
    table_id: str
    version: int
    columns: tuple[Column, ...]
    properties: tuple[tuple[str, str], ...]
    commits: Iterable[TargetCommit]
    partition_by: tuple[str, ...] = ()
    _opened: Any = field(default=None, repr=False, compare=False)

    @cached_property
    def rows(self) -> int | None:
        """Rows of the newest version; None where its log doesn't count them."""
        return count_rows(self._opened, self.location, self.log) if self.log else None

    @cached_property
    def records(self) -> int | None:
        """Rows in the files of the newest version, with those that are marked as deleted; None
        where its log doesn't count them."""
        return self.log.records if self.log else None

    @cached_property
    def log(self) -> FileStatistics | None:
        """What its files say of their values; None for a state that was not loaded from a log."""
        return FileStatistics.of(self._opened) if self._opened else None

    def has(self, column: str) -> bool:
        """Whether the table has a column of this name."""
        return any(each.name == column for each in self.columns)

    def transaction(self, app_id: str) -> int | None:
        """The highest `txnVersion` that this application committed, up to this version."""
        table = self._opened or open_table(self.location, self.version)
        found: int | None = table.transaction_version(app_id)
        return found


class Commits(Iterable[TargetCommit]):
    """Commits, newest first, each read when it is first asked for and kept."""

    def __init__(self, unread: Iterator[TargetCommit]) -> None:
        self._unread = unread
        self._read: list[TargetCommit] = []

    def __iter__(self) -> Iterator[TargetCommit]:
        for at in count():
            if at == len(self._read):
                self._read += islice(self._unread, 1)
            if at == len(self._read):
                return
            yield self._read[at]


def load_target(location: str) -> TargetState | None:
    """The target, or None when nothing is there; TARGET_NOT_DELTA, TARGET_UNREADABLE otherwise."""
    from deltalake.exceptions import TableNotFoundError

    location = normalise(location)
    if not _has_log(location):
        return None
    try:
        table = open_table(location)
        metadata = table.metadata()
        columns = columns_of(table.schema().to_json())
    except TableNotFoundError:
        return None
    except Exception as failure:
        raise _unreadable(location, failure) from failure
    return TargetState(
        location=location,
        table_id=str(metadata.id),
        version=table.version(),
        columns=columns,
        properties=properties_of(metadata.configuration),
        commits=Commits(_commits(open_files(location), location, table.version())),
        partition_by=tuple(metadata.partition_columns),
        _opened=table,
    )


def _has_log(location: str) -> bool:
    if "://" in location or os.path.isdir(os.path.join(location, "_delta_log")):
        return True
    if not os.path.lexists(location):
        return False
    if os.path.isdir(location) and set(os.listdir(location)) <= {LEDGER}:
        return False
    raise DeltaJoinError(
        "TARGET_NOT_DELTA",
        "the target's location holds files that are not a Delta table",
        where=location,
        remedy="Choose an empty folder or an existing target of this model.",
    )


def _commits(
    files: Files, location: str, newest: int, of_original: bool = False
) -> Iterator[TargetCommit]:
    """The commits that have a file, newest first; the log is listed where one has none. Behind the
    commit that made a clone come those of its original."""
    there: Container[int] = range(newest + 1)
    for version in range(newest, -1, -1):
        if version not in there:
            continue
        try:
            commit = read_commit(files, version)
            if commit is None:
                there = set(commit_versions(files)[0])
                continue
        except Exception as failure:
            raise _unreadable(location, failure) from failure
        made = _target_commit(commit, location if of_original else None)
        original = _original(commit)
        if original is None:
            yield made
            continue
        yield replace(made, data_change=False)
        yield from _commits(open_files(original[0]), *original, of_original=True)
        return


def _original(commit: Commit) -> tuple[str, int] | None:
    """Of which table and version this commit made the target a clone; None where it did not, or
    where what is there now has other files at that version, or can't be read."""
    if commit.info.get("operation") != "CLONE":
        return None
    with suppress(Exception):
        parameters = commit.info["operationParameters"]
        version = int(parameters["sourceVersion"])
        path = _BY_PATH.fullmatch(str(parameters["source"]))
        # A table by name is found by its files, which have absolute paths in a clone.
        places = [path[1].replace("``", "`")] if path else _folders_of(commit.adds[:1])
        for location in map(normalise, places):
            if read_commit(open_files(location), version) is not None:
                files = _names(open_table(location, version).file_uris())
                same = files == _names(str(add["path"]) for add in commit.adds)
                return (location, version) if same else None
    return None


def _names(paths: Iterable[str]) -> set[str]:
    """The names of data files, which are unique."""
    return {path.rpartition("/")[2] for path in paths}


def _folders_of(files: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The folders that a file is in, the innermost first."""
    for file in files:
        folder, _, name = paths_of(file)[0].rpartition("/")
        while name and folder:
            yield folder
            folder, _, name = folder.rpartition("/")


def _unreadable(location: str, failure: Exception) -> DeltaJoinError:
    return DeltaJoinError(
        "TARGET_UNREADABLE",
        f"the target's Delta log cannot be read: {in_one_line(failure)}",
        where=location,
        remedy="Repair the table, or choose another target.",
    )


def _target_commit(commit: Commit, original: str | None) -> TargetCommit:
    info = commit.info
    text = info.get("userMetadata")
    return TargetCommit(
        version=commit.version,
        timestamp_ms=int(info.get("inCommitTimestamp") or info.get("timestamp") or 0),
        operation=str(info.get("operation") or ""),
        metrics=dict(info.get("operationMetrics") or {}),
        user_metadata=None if text is None else str(text),
        data_change=commit.data_change,
        original=original,
        clusters=commit.clusters,
    )
