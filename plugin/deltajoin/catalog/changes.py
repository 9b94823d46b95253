"""What happened to a source since the last committed epoch, and how its change can be read.

Rule: walk the commits after the consumed version. Those that change no rows before the first one
that does only move `previous`: that version holds exactly the consumed rows. The change is read
by the first of these *methods* that can: the change feed, from `previous + 1` to `this`; the files
that differ between the two versions; both versions whole. `why` tells what stands against the feed:
it was off, its files are gone, the schema changed inside its range. Nothing helps where another
table is under the path, the log was cut, a used column has another type, or the previous version
can't be read: that is a `problem`. No Spark, no data read.

The caller rebuilds in full, or refuses, when `problem` is set: `kind` and `rows` are then only a
guess.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from deltajoin.catalog.difference import ChangedFiles, changed_files, feed_files
from deltajoin.catalog.estimate import changed_rows
from deltajoin.catalog.files import open_files
from deltajoin.catalog.history import (
    InForce,
    feed_breaks,
    metadata_at,
    metadata_over,
    same_columns,
)
from deltajoin.catalog.log import Commit, commit_digest, read_commit
from deltajoin.catalog.retention import (
    log_reaches,
    lost_from_feed,
    lost_from_previous,
    lost_from_this,
)
from deltajoin.catalog.table import Consumed, TableState
from deltajoin.names import COUNT

Kind = Literal["noop", "insert_only", "mutating", "replaced"]
Method = Literal["feed", "files", "difference"]
Trouble = tuple[str, str]


@dataclass(frozen=True)
class Changes:
    """A source's change from `previous` to `this`; the feed is read from `previous + 1` on.

    `kind`: noop (no row came or went), insert_only, replaced (the whole content was exchanged at
    least once), mutating (anything else). `rows` estimates changed rows, an updated row counted
    once; of a replaced table it counts what came and went, equal or not. `files` belong to the
    method files, and to the feed where it can be read without Delta; `why` (code and text) belongs
    to any method but feed.

    `problem` is None or one of SOURCE_RECREATED, SOURCE_ROLLED_BACK, SOURCE_SCHEMA_CHANGED,
    NO_CHANGE_FEED, FEED_GAP, STATIC_SOURCE_CHANGED, with `detail` for people.
    """

    kind: Kind
    previous: int
    this: int
    rows: int | None
    problem: str | None = None
    detail: str = ""
    method: Method = "feed"
    why: str = ""
    files: ChangedFiles | None = None


def read_changes(
    table: TableState, consumed: Consumed, used: Collection[str], *, whole: bool = False
) -> Changes:
    """Classify the commits between the consumed version and the loaded one.

    `used` names the columns that the model reads, in any case; `whole` says that nobody knows which
    Spark reads of those there are: `*`, NATURAL JOIN, names within EXISTS.
    """
    if table.static is not None:
        return _of_files(table, consumed)
    problem = _wrong_past(table, consumed)
    if problem is not None:
        return _refused(table, consumed.version, *problem)
    names = frozenset(name.lower() for name in used)
    retyped = _retyped(consumed, table, names)
    if retyped is not None:
        return _refused(table, consumed.version, "SOURCE_SCHEMA_CHANGED", retyped)
    files = open_files(table.location)
    commits: list[Commit] = []
    for version in range(consumed.version + 1, table.version + 1):
        commit = read_commit(files, version)
        if commit is None:
            gone = f"the log file of version {version} is gone"
            return _refused(table, consumed.version, "FEED_GAP", gone)
        commits.append(commit)
    return _classify(table, consumed, commits, names, whole)


def _of_files(table: TableState, consumed: Consumed) -> Changes:
    """Static files: the same fingerprint, or a content whose past is gone."""
    if table.table_id != consumed.table_id:
        other = f"{consumed.table_id} was consumed, now it is {table.table_id}"
        return _refused(table, consumed.version, "SOURCE_RECREATED", other)
    if table.version == consumed.version:
        return Changes("noop", table.version, table.version, 0)
    gone = "the files are not those that were consumed, which are gone"
    return _refused(table, consumed.version, "STATIC_SOURCE_CHANGED", gone, "replaced")


def _wrong_past(table: TableState, consumed: Consumed) -> tuple[str, str] | None:
    same_id = table.table_id == consumed.table_id
    if table.version < consumed.version and same_id:
        newest = f"version {consumed.version} was consumed but the newest is {table.version}"
        return "SOURCE_ROLLED_BACK", newest
    if not same_id:
        reached = table.version >= consumed.version
        past = metadata_at(table.location, consumed.version) if reached else None
        if past is None or past.table_id != consumed.table_id:
            other = f"table id {consumed.table_id} was consumed, now it is {table.table_id}"
            return "SOURCE_RECREATED", other
    if consumed.commit and _commit_at(consumed.version, table) not in (None, consumed.commit):
        return "SOURCE_ROLLED_BACK", f"version {consumed.version} is another one than was consumed"
    return None


def _commit_at(version: int, table: TableState) -> str | None:
    if version == table.version:
        return table.commit
    return commit_digest(open_files(table.location), version)


def _retyped(consumed: Consumed, table: TableState, used: frozenset[str]) -> str | None:
    if consumed.columns is None:
        return f"its log no longer tells the columns of version {consumed.version}, which differ"
    now = {column.name.lower(): column.type for column in table.columns}
    for column in consumed.columns:
        kind = now.get(column.name.lower())
        if column.name.lower() in used and kind != column.type:
            return f"column '{column.name}' was {column.type}, now {kind or 'it is gone'}"
    return None


def _classify(
    table: TableState,
    consumed: Consumed,
    commits: Sequence[Commit],
    used: frozenset[str],
    whole: bool,
) -> Changes:
    in_force: tuple[InForce, ...] = ()
    if any(c.metadata is not None for c in commits):
        before = metadata_at(table.location, consumed.version)
        if before is None:
            gone = f"the log no longer reaches version {consumed.version}"
            return _refused(table, consumed.version, "FEED_GAP", gone)
        if before.table_id != consumed.table_id:
            owner = f"version {consumed.version} belongs to another table, id {before.table_id}"
            return _refused(table, consumed.version, "SOURCE_RECREATED", owner)
        in_force = (before, *metadata_over(before, commits))
        other = _other_reading(in_force, used, whole)
        if other is not None:
            return _refused(table, consumed.version, "SOURCE_SCHEMA_CHANGED", other)
    still = next((i for i, c in enumerate(commits) if c.data_change), len(commits))
    other = _other_column(in_force, still, used)
    if other is not None:
        found = _compared(table, consumed.version, commits, ("SOURCE_SCHEMA_CHANGED", other))
        return replace(found, kind="replaced", rows=None)
    previous, feed = consumed.version + still, commits[still:]
    if not feed:
        return Changes("noop", previous, table.version, 0)
    trouble = _feed_trouble(table, in_force[still:], feed)
    if trouble is not None:
        return _by_files(_compared(table, previous, feed, trouble), table, feed)
    lost = _lost(table, previous, feed, both=False)
    if lost is not None:
        return _refused(table, previous, "FEED_GAP", lost, _kind(feed))
    rows = changed_rows(table.location, previous, [c for c in feed if c.data_change])
    steady = table.is_plain and not in_force
    files = feed_files(table.location, feed) if steady else None
    return Changes(_kind(feed), previous, table.version, rows, files=files)


def _other_reading(in_force: Sequence[InForce], used: frozenset[str], whole: bool) -> str | None:
    """Why the rows of these versions are not to be compared, as they are read in other ways."""
    if len({COUNT in state.identities for state in in_force}) > 1:
        return "it is a bag at one version and none at another"
    padded = [{c.name.lower() for c in state.columns if c.is_char} & used for state in in_force]
    if padded[0] != padded[-1]:
        return f"CHAR became another type, or another one CHAR: {', '.join(padded[0] ^ padded[-1])}"
    if whole and in_force[0].columns != in_force[-1].columns:
        return "it has other columns than before"
    return None


def _kind(commits: Sequence[Commit]) -> Kind:
    changing = [c for c in commits if c.data_change]
    if not changing:
        return "noop"
    if all(c.insert_only for c in changing):
        return "insert_only"
    return "replaced" if any(c.replaced for c in changing) else "mutating"


def _other_column(in_force: Sequence[InForce], still: int, used: frozenset[str]) -> str | None:
    """A used column that is not the consumed one, by the previous version or by this one."""
    if not in_force:
        return None
    old = in_force[0]
    return same_columns(old, in_force[still], used) or same_columns(old, in_force[-1], used)


def _feed_trouble(
    table: TableState, in_force: Sequence[InForce], feed: Sequence[Commit]
) -> Trouble | None:
    """Why the feed can't be read; `in_force[0]` is the previous version's, () means today's."""
    for state in in_force[1:]:
        broken = feed_breaks(state, in_force[-1])
        if broken is not None:
            return "SOURCE_SCHEMA_CHANGED", broken
    feed_on = [state.change_feed for state in in_force[1:]] or [table.change_feed]
    if not all(feed_on):
        version = feed[min(feed_on.index(False), len(feed) - 1)].version
        return "NO_CHANGE_FEED", f"delta.enableChangeDataFeed was off at version {version}"
    short = next((c.version for c in feed if c.feed_is_short), None)
    if short is not None:
        return "FEED_GAP", f"delta-rs leaves rows out of the feed of an UPDATE, at version {short}"
    lost = lost_from_feed(open_files(table.location), feed)
    return None if lost is None else ("FEED_GAP", f"a file of the change feed is gone: {lost}")


def _compared(
    table: TableState, previous: int, commits: Sequence[Commit], trouble: Trouble
) -> Changes:
    """The change as the difference of two versions, if both can be read."""
    code, why = trouble
    lost = _lost(table, previous, commits, both=True)
    if lost is not None:
        return _refused(table, previous, code, f"{why}; {lost}", _kind(commits))
    rows = changed_rows(table.location, previous, [c for c in commits if c.data_change])
    kind, reason = _kind(commits), f"{code}: {why}"
    return Changes(kind, previous, table.version, rows, method="difference", why=reason)


def _by_files(found: Changes, table: TableState, commits: Sequence[Commit]) -> Changes:
    """The same change by the files that differ, where that is enough to read."""
    if found.problem is not None:
        return found
    files = changed_files(table.location, found.previous, found.this, commits)
    if files is None:
        return found
    if files.count == 0:
        return Changes("noop", found.this, found.this, 0)
    return replace(found, method="files", files=files)


def _lost(table: TableState, previous: int, commits: Sequence[Commit], *, both: bool) -> str | None:
    """Why the previous version, or one of both, can't be read, or None."""
    files = open_files(table.location)
    if not log_reaches(files, previous):
        return f"the log no longer reaches version {previous}"
    lost = lost_from_previous(files, commits)
    if lost is not None:
        return f"a file of version {previous} is gone: {lost}"
    lost = lost_from_this(files, commits) if both else None
    return lost and f"a file of version {table.version} is gone: {lost}"


def _refused(
    table: TableState, previous: int, problem: str, detail: str, kind: Kind = "mutating"
) -> Changes:
    return Changes(kind, previous, table.version, None, problem, detail)
