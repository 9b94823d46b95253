"""Whether the files that a run has to read still exist: the feed's and the previous version's.

Rule: prove it before the run starts; Spark finds a vacuumed file only when an executor opens it.
The feed reads a commit's change files where it has some, else its added and removed files. The
previous version needs every file that left the table since then, also through OPTIMIZE, unless it
came after.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from deltajoin.catalog.files import Files, open_files
from deltajoin.catalog.log import Action, Commit, commit_versions, file_key, paths_of


def lost_from_feed(files: Files, commits: Sequence[Commit]) -> str | None:
    """A file that the change feed of these commits reads and that is gone, or None."""
    return _first_lost(files, (a for commit in commits for a in _read_by_feed(commit)))


def lost_from_previous(files: Files, commits: Sequence[Commit]) -> str | None:
    """A file of the previous version that is gone, or None; `commits` are those after it."""
    return _first_lost(files, _left(commits))


def lost_from_this(files: Files, commits: Sequence[Commit]) -> str | None:
    """A file that these commits left in the table and that is gone, or None."""
    there: dict[tuple[str, str], Action] = {}
    for commit in commits:
        for action in commit.removes:
            there.pop(file_key(action), None)
        there.update((file_key(a), a) for a in commit.adds)
    return _first_lost(files, there.values())


def log_reaches(files: Files, version: int) -> bool:
    """Whether all commits from a checkpoint (or the first commit) to this version are there."""
    commits, checkpoints = commit_versions(files)
    start = max((c for c in checkpoints if c <= version), default=-1)
    return set(range(start + 1, version + 1)) <= set(commits)


def _first_lost(files: Files, needed: Iterable[Action]) -> str | None:
    seen: set[str] = set()
    for action in needed:
        for path in paths_of(action):
            if path not in seen and not _exists(files, path):
                return path
            seen.add(path)
    return None


def _read_by_feed(commit: Commit) -> tuple[Action, ...]:
    if commit.changes:
        return commit.changes
    return tuple(a for a in commit.adds + commit.removes if a.get("dataChange"))


def _left(commits: Sequence[Commit]) -> Iterator[Action]:
    added: set[tuple[str, str]] = set()
    for commit in commits:
        yield from (r for r in commit.removes if file_key(r) not in added)
        added.update(file_key(a) for a in commit.adds)


def _exists(files: Files, path: str) -> bool:
    if "://" in path:
        folder, _, name = path.rpartition("/")
        return open_files(folder).exists(name)
    return files.exists(path)
