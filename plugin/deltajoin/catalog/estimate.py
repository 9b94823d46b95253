"""How many rows a range of commits changed, from the log alone.

Rule: inserts count the records of added files; MERGE, UPDATE and DELETE count what the writer
measured, an updated row once; any other commit (overwrite, replace, restore) counts the records
that came and went. One unknown count makes the whole unknown: an estimate that misses a part would
pick the wrong strategy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from deltajoin.catalog.log import Action, Commit, records
from deltajoin.catalog.table import open_table

_MEASURED_OPERATIONS = ("MERGE", "UPDATE", "DELETE")
_MEASURES = {
    "numtargetrowsinserted",
    "numtargetrowsupdated",
    "numtargetrowsdeleted",
    "numupdatedrows",
    "numdeletedrows",
}


def changed_rows(location: str, previous: int, commits: Sequence[Commit]) -> int | None:
    """Changed rows over commits that follow the version `previous`; None if one is unknown."""
    counts = _FileCounts(location, previous)
    total = 0
    for commit in commits:
        rows = _rows(commit, counts)
        if rows is None:
            return None
        total += rows
        counts.update((unquote(a["path"]), _physical(a)) for a in commit.adds)
    return total


class _FileCounts(dict[str, int | None]):
    """Path -> records of a file, for removes that carry no count: delta-rs writes none. Those of
    the version before are read when first needed."""

    def __init__(self, location: str, version: int) -> None:
        self._version: tuple[str, int] | None = (location, version)

    def records(self, action: Action) -> int | None:
        path = unquote(action["path"])
        if path not in self and self._version is not None:
            before, self._version = _counts_of(*self._version), None
            self.update({**before, **self})
        count = self.get(path)
        return None if count is None else count - _masked(action)


def _counts_of(location: str, version: int) -> dict[str, int | None]:
    from deltalake.exceptions import DeltaError

    try:
        actions = open_table(location, version).get_add_actions(flatten=True)
    except (DeltaError, OSError):
        return {}
    paths = (unquote(path) for path in actions.column("path").to_pylist())
    return dict(zip(paths, actions.column("num_records").to_pylist(), strict=True))


def _rows(commit: Commit, counts: _FileCounts) -> int | None:
    adds = [a for a in commit.adds if a.get("dataChange")]
    removes = [r for r in commit.removes if r.get("dataChange")]
    measured = _measured(commit.info)
    if measured and removes:
        return measured
    came = {a["path"]: records(a) for a in adds}
    went = {r["path"]: records(r) for r in removes}
    for action in removes:
        if went[action["path"]] is None:
            went[action["path"]] = counts.records(action)
    total = 0
    for path in came.keys() | went.keys():
        new, old = came.get(path, 0), went.get(path, 0)
        if new is None or old is None:
            return None
        total += abs(new - old)
    return total


def _measured(info: Action) -> int:
    metrics = info.get("operationMetrics")
    if info.get("operation") not in _MEASURED_OPERATIONS or not isinstance(metrics, Mapping):
        return 0
    found = (v for k, v in metrics.items() if k.replace("_", "").lower() in _MEASURES)
    return sum(max(int(value), 0) for value in found if str(value).lstrip("-").isdigit())


def _physical(action: Action) -> int | None:
    left = records(action)
    return None if left is None else left + _masked(action)


def _masked(action: Action) -> int:
    return int((action.get("deletionVector") or {}).get("cardinality", 0))
