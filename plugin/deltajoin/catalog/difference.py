"""Which files hold the change between two versions of a table, and how their rows can be read.

Rule: rows(this) - rows(previous) = rows(files that came) - rows(files that left), because a file of
both versions gives the same rows to both. A file is its path *and* its deletion vector. A commit
with `dataChange=false` that only rewrote files of the previous version into files of this one adds
and takes nothing: both sides leave them out. Files are read as Parquet where they are plain
(`catalog.plain`). Else Delta reads both versions, filtered by the files' names: a file of another
folder with such a name is read on both sides, and cancels.

The change feed is files too: a commit's change files where it has any, else what it added and what
it removed. Delta finds them by Spark jobs of its own, so that plain ones are read as Parquet.

Caller: rows are consolidated afterwards, so that a rewritten file with equal rows is no change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from deltajoin.catalog.log import Action, Commit, file_key, paths_of
from deltajoin.catalog.plain import is_misread, is_plain, is_safe, mapping
from deltajoin.catalog.schema import columns_of
from deltajoin.catalog.table import open_table

if TYPE_CHECKING:
    from deltalake import DeltaTable

#: More files than this are not listed in a plan: both versions are read whole.
MAX_FILES = 1_000

_SAFE_PARTITIONS = {"string", "date", "tinyint", "smallint", "int", "bigint"}
_MAX_PARTITIONS = 32
Key = tuple[str, str]
Folder = tuple[tuple[str, str, str | None], ...]
Actions = dict[Key, Action]


@dataclass(frozen=True)
class ChangedFiles:
    """The files to read: as Parquet (`left`, `came`, and `events`, the change feed's own, whose
    rows tell what became of them: absolute paths), or by Delta, those of both versions whose file
    name is in `names`; then `partitions` may hold the folders that they are in, each as (column,
    type, value), so that Delta opens no other. Nothing at all where the same files came back."""

    left: tuple[str, ...] = ()
    came: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    partitions: tuple[Folder, ...] = ()

    @property
    def count(self) -> int:
        """How many files are read, each once a side."""
        return len(self.left) + len(self.came) + len(self.events) + len(self.names)


def feed_files(location: str, commits: Sequence[Commit]) -> ChangedFiles | None:
    """The files of the change feed of a plain table over some commits; None where Delta must read
    it."""
    with_feed = [commit for commit in commits if commit.changes]
    others = [commit for commit in commits if not commit.changes]
    sides = (
        [a for commit in others for a in commit.removes if a.get("dataChange")],
        [a for commit in others for a in commit.adds if a.get("dataChange")],
        [a for commit in with_feed for a in commit.changes],
    )
    actions = [action for side in sides for action in side]
    if len(actions) > MAX_FILES or any(action.get("deletionVector") for action in actions):
        return None
    paths = _paths(location, *sides)
    return None if paths is None else ChangedFiles(left=paths[0], came=paths[1], events=paths[2])


def changed_files(
    location: str, previous: int, this: int, commits: Sequence[Commit]
) -> ChangedFiles | None:
    """The files that differ; None where both versions are better read whole.

    `commits` are those after `previous`, up to `this`.
    """
    before, after = open_table(location, previous), open_table(location, this)
    if before.metadata().partition_columns != after.metadata().partition_columns:
        return None
    left, came = _net_files(before, commits)
    if len(left) + len(came) > MAX_FILES:
        return None
    actions = [*left.values(), *came.values()]
    if not actions:
        return ChangedFiles()
    masked = any(action.get("deletionVector") for action in actions)
    if not masked and is_plain(before) and is_plain(after):
        paths = _paths(location, left.values(), came.values())
        if paths is not None:
            return ChangedFiles(left=paths[0], came=paths[1])
    names = sorted({unquote(str(a["path"])).rpartition("/")[2] for a in actions})
    if not all(map(is_safe, names)):
        return None
    return ChangedFiles(names=tuple(names), partitions=_partitions(before, after, actions))


def _partitions(
    before: DeltaTable, after: DeltaTable, actions: Sequence[Action]
) -> tuple[Folder, ...]:
    """The folders of these files; () where they are many, or would filter nothing for sure: an
    empty value is NULL for some writers."""
    (then, types), names = map(_types, (before, after)), after.metadata().partition_columns
    columns = [c for c in names if types[c] in _SAFE_PARTITIONS and types[c] == then.get(c)]
    if not columns or mapping(after) != "none":
        return ()
    given = [action.get("partitionValues") for action in actions]
    values = [value for value in given if value is not None]
    if len(values) < len(actions) or any(v.get(c) == "" for v in values for c in columns):
        return ()
    folders = {tuple((c, types[c], value.get(c)) for c in columns) for value in values}
    if len(folders) > _MAX_PARTITIONS:
        return ()
    return tuple(sorted(folders, key=repr))


def _types(table: DeltaTable) -> dict[str, str]:
    return {c.name: c.type for c in columns_of(table.schema().to_json())}


def _net_files(before: DeltaTable, commits: Sequence[Commit]) -> tuple[Actions, Actions]:
    """Files that left and files that came, less those that compaction only rewrote."""
    listed = before.get_add_actions(flatten=True).column("path").to_pylist()
    there = {*listed, *(unquote(path) for path in listed)}
    left: Actions = {}
    came: Actions = {}
    brought: dict[Key, int] = {}
    for commit in commits:
        for action in commit.removes:
            if came.pop(file_key(action), None) is None:
                left[file_key(action)] = action
        gone = {path for path, _ in left}
        for action in commit.adds:
            key = file_key(action)
            if left.pop(key, None) is None and not (
                unquote(key[0]) in there and key[0] not in gone
            ):
                if key not in came:
                    brought[key] = commit.version
                came[key] = action  # else it came back, or only its statistics are new
    for commit in commits:
        olds = {file_key(action) for action in commit.removes}
        news = {file_key(action) for action in commit.adds}
        own = all(key in came and brought[key] == commit.version for key in news)
        if not commit.data_change and own and olds <= left.keys():
            left = {key: action for key, action in left.items() if key not in olds}
            came = {key: action for key, action in came.items() if key not in news}
    return left, came


def _paths(location: str, *sides: Iterable[Action]) -> tuple[tuple[str, ...], ...] | None:
    """The absolute paths of each side's files; None where Spark would take one for another."""
    paths = tuple(tuple(sorted(_absolute(location, action) for action in side)) for side in sides)
    return None if any(is_misread(path) for side in paths for path in side) else paths


def _absolute(location: str, action: Action) -> str:
    path = paths_of(action)[0]
    return path if path.startswith("/") or "://" in path else f"{location}/{path}"
