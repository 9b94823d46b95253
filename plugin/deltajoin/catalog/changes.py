"""What happened to a source since the last committed epoch, and whether its feed can tell.

Rule: walk the commits after the consumed version. Those that change no rows before the first one
that does only move `previous`: that version holds exactly the consumed rows, so the change feed is
read from `previous + 1` to `this`. Then look, in this order, for what makes an incremental run
wrong or impossible: another table under the same path, a rollback, changed columns, a feed that was
off, files or commits that are gone. A range without changed rows never raises the last two. No
Spark, no data read.

The caller rebuilds in full, or refuses, when `problem` is set: `kind` and `rows` are then only a
guess.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from deltajoin.catalog.estimate import changed_rows
from deltajoin.catalog.files import open_files
from deltajoin.catalog.history import (
    InForce,
    feed_breaks,
    metadata_at,
    metadata_over,
    same_columns,
)
from deltajoin.catalog.log import Commit, read_commit
from deltajoin.catalog.retention import first_lost_file, log_reaches
from deltajoin.catalog.table import Consumed, TableState

Kind = Literal["noop", "insert_only", "mutating", "replaced"]


@dataclass(frozen=True)
class Changes:
    """A source's change; its feed is read from `previous + 1` to `this`, both included.

    `kind`: noop (no row came or went), insert_only, replaced (the whole content was exchanged at
    least once), mutating (anything else). `rows` estimates changed rows, an updated row counted once. `problem` is None or one of
    SOURCE_RECREATED, SOURCE_ROLLED_BACK, SOURCE_SCHEMA_CHANGED, NO_CHANGE_FEED, FEED_GAP, with
    `detail` for people.
    """

    kind: Kind
    previous: int
    this: int
    rows: int | None
    problem: str | None
    detail: str


def read_changes(table: TableState, consumed: Consumed, used: Collection[str]) -> Changes:
    """Classify the commits between the consumed version and the loaded one.

    `used` names the columns that the model reads, in any case.
    """
    problem = _wrong_past(table, consumed)
    if problem is not None:
        return _refused(table, consumed, *problem)
    names = frozenset(name.lower() for name in used)
    retyped = _retyped(consumed, table, names)
    if retyped is not None:
        return _refused(table, consumed, "SOURCE_SCHEMA_CHANGED", retyped)
    files = open_files(table.location)
    commits: list[Commit] = []
    for version in range(consumed.version + 1, table.version + 1):
        commit = read_commit(files, version)
        if commit is None:
            gone = f"the log file of version {version} is gone"
            return _refused(table, consumed, "FEED_GAP", gone)
        commits.append(commit)
    return _classify(table, consumed, commits, names)


def _wrong_past(table: TableState, consumed: Consumed) -> tuple[str, str] | None:
    same_id = table.table_id == consumed.table_id
    if table.version < consumed.version and same_id:
        told = f"version {consumed.version} was consumed but the newest is {table.version}"
        return "SOURCE_ROLLED_BACK", told
    if not same_id:
        past = metadata_at(table.location, consumed.version)
        if past is None or past.table_id != consumed.table_id:
            told = f"table id {consumed.table_id} was consumed, now it is {table.table_id}"
            return "SOURCE_RECREATED", told
    return None


def _retyped(consumed: Consumed, table: TableState, used: frozenset[str]) -> str | None:
    now = {column.name.lower(): column.type for column in table.columns}
    for column in consumed.columns:
        kind = now.get(column.name.lower())
        if column.name.lower() in used and kind != column.type:
            return f"column '{column.name}' was {column.type}, now {kind or 'it is gone'}"
    return None


def _classify(
    table: TableState, consumed: Consumed, commits: Sequence[Commit], used: frozenset[str]
) -> Changes:
    still = next((i for i, c in enumerate(commits) if c.data_change), len(commits))
    previous = consumed.version + still
    changing = [c for c in commits if c.data_change]
    problem = _problem(table, consumed, commits, still, used)
    rows = changed_rows(table.location, previous, changing) if problem is None else None
    code, detail = problem or (None, "")
    return Changes(_kind(changing), previous, table.version, rows, code, detail)


def _kind(changing: Sequence[Commit]) -> Kind:
    if not changing:
        return "noop"
    if all(c.insert_only for c in changing):
        return "insert_only"
    return "replaced" if any(c.replaced for c in changing) else "mutating"


def _problem(
    table: TableState,
    consumed: Consumed,
    commits: Sequence[Commit],
    still: int,
    used: frozenset[str],
) -> tuple[str, str] | None:
    feed = commits[still:]
    feed_on = [table.change_feed]
    if any(c.metadata is not None for c in commits):
        before = metadata_at(table.location, consumed.version)
        if before is None:
            return "FEED_GAP", f"the log no longer reaches version {consumed.version}"
        if before.table_id != consumed.table_id:
            told = f"version {consumed.version} belongs to another table, id {before.table_id}"
            return "SOURCE_RECREATED", told
        in_force = metadata_over(before, commits)
        changed = _schema_problem((before, *in_force), still, used)
        if changed is not None:
            return "SOURCE_SCHEMA_CHANGED", changed
        feed_on = [state.change_feed for state in in_force[still:]]
    if not feed:
        return None
    if not all(feed_on):
        version = feed[min(feed_on.index(False), len(feed) - 1)].version
        return "NO_CHANGE_FEED", f"delta.enableChangeDataFeed was off at version {version}"
    return _gap(table, consumed.version + still, feed)


def _schema_problem(in_force: Sequence[InForce], still: int, used: frozenset[str]) -> str | None:
    """`in_force[0]` is the consumed version's, `in_force[still]` the previous version's."""
    now = in_force[-1]
    changed = same_columns(in_force[0], in_force[still], used)
    changed = changed or same_columns(in_force[0], now, used)
    for state in in_force[still + 1 :]:
        changed = changed or feed_breaks(state, now)
    return changed


def _gap(table: TableState, previous: int, feed: Sequence[Commit]) -> tuple[str, str] | None:
    files = open_files(table.location)
    if not log_reaches(files, previous):
        return "FEED_GAP", f"the log no longer reaches version {previous}"
    lost = first_lost_file(files, feed)
    if lost is not None:
        return (
            "FEED_GAP",
            f"a file that versions {previous} to {table.version} need is gone: {lost}",
        )
    return None


def _refused(table: TableState, consumed: Consumed, problem: str, detail: str) -> Changes:
    return Changes("mutating", consumed.version, table.version, None, problem, detail)
