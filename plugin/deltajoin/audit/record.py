"""The audit record: what an epoch read, why, and what it wrote.

It is derived from the target's commit alone, whose metadata carries it; so it can't disagree with
the data and can be rebuilt when its file is lost.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from deltajoin.catalog import TargetCommit, TargetState
from deltajoin.contract import committed_record
from deltajoin.delta.format import digest
from deltajoin.delta.history import epochs_of


@dataclass(frozen=True)
class AuditRecord:
    """One epoch of one model, or the finding that nothing had changed (`noop`).

    frontier          source -> the version consumed
    rows              of the target: inserted, updated, deleted
    target_version    what the epoch made; target_previous: what its plan saw
    derived           sources that are subqueries: groups touched, rows of their change, paths
    hidden            columns that the table holds beside `columns`
    rules             version of the rules by which it ran; none before they had one
    written           how a rebuild was written: by difference or overwrite, and why overwritten
                      where the reason doesn't say (written_because)
    evidence          in what a rebuild was compared with the user's own text, or how it `differs`,
                      or in the order of which columns rows `tied`, so that the text itself was run
    shadow            what mode shadow compared: rows, rows that differ (none), tolerances of floats
    clock, stamps     the moment that the query's clock showed; what the rows written got
    narrowed          reads within ranges of what changed: table -> column -> how many ranges,
                      how many values where these were listed, and how many files were read, of
                      how many, where not Delta chose them; columns of a key -> how many hashes
    predicted         seconds to the commit that either strategy was expected to take
    phases, seconds   of the run (`runtime/stopwatch.py`), and all of them: up to the write only
                      where the record was made anew from the commit
    follows           the `link` of the record before
    plan_lost         whether the ledger held no plan of any epoch when the record was made anew

    What there is none of is None.
    """

    model: str
    target: str
    strategy: str
    reason: str
    detail: str
    epoch: int
    frontier: Mapping[str, Mapping[str, Any]]
    paths: tuple[Mapping[str, Any], ...]
    plan_hash: str
    fingerprint: str
    kind: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    rows: Mapping[str, int]
    mode: str
    settings: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    format: int = 1
    rules: int | None = None
    evidence: Mapping[str, Any] | None = None
    target_version: int | None = None
    target_previous: int | None = None
    run_id: str | None = None
    started_at: str | None = None
    committed_at: str | None = None
    seconds: float | None = None
    phases: Mapping[str, float] | None = None
    location: str | None = None
    shadow: Mapping[str, Any] | None = None
    derived: tuple[Mapping[str, Any], ...] = ()
    hidden: tuple[str, ...] | None = None
    clock: str | None = None
    stamps: Mapping[str, Any] | None = None
    written: str | None = None
    written_because: str | None = None
    narrowed: Mapping[str, Mapping[str, Mapping[str, int]]] | None = None
    predicted: Mapping[str, float] | None = None
    follows: str | None = None
    plan_lost: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """The record as plain values, keys sorted."""
        content = {name: getattr(self, name) for name in self.__dataclass_fields__}
        plain: dict[str, Any] = json.loads(json.dumps(content, sort_keys=True, default=list))
        return plain


def from_commit(commit: TargetCommit, location: str) -> AuditRecord:
    """The audit record of one of our commits."""
    record = committed_record(commit.user_metadata)
    if record is None:
        raise ValueError(f"version {commit.version} carries no record")
    written = int(commit.metrics.get("numOutputRows") or 0)
    known = {k: v for k, v in record.items() if k in AuditRecord.__dataclass_fields__}
    lists = ("paths", "derived", "key", "columns", "warnings")
    known |= {name: tuple(record.get(name) or ()) for name in lists}
    known |= {
        "rows": record["rows"] or {"inserted": written, "updated": 0, "deleted": 0},
        "hidden": tuple(record.get("hidden") or ()) or None,
        "target_version": commit.version,
        "committed_at": datetime.fromtimestamp(commit.timestamp_ms / 1000, UTC).isoformat(),
        "location": location,
    }
    return AuditRecord(**known)


def last_record(state: TargetState) -> AuditRecord | None:
    """The audit record of the newest epoch in a target's history."""
    return next((from_commit(commit, state.location) for commit, _ in epochs_of(state)), None)


#: What an audit file may say otherwise than its commit: the folder of a target that was moved,
#: times, which the file alone knows to the end, and what the ledger has lost.
UNSEALED = frozenset({"location", "phases", "plan_lost", "seconds"})


def link(record: Mapping[str, Any]) -> str:
    """The digest by which the next epoch's record names this one (`follows`), of an audit file or
    of `from_commit`. Empty fields are left out: a later version may know more of them."""
    return digest({name: v for name, v in record.items() if v and name not in UNSEALED})
