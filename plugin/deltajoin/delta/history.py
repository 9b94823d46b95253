"""What the target says about itself: whose it is, the last epoch, whether anyone else wrote.

Refused before anything else is planned: a table that deltajoin did not make, a target of another
model or a newer format, and rows or columns that something else changed since the last epoch; only
mode full rebuilds over these. Commits that change no rows are no foreign write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from deltajoin.catalog import TargetCommit, TargetState
from deltajoin.contract import FORMAT, committed_record
from deltajoin.errors import DeltaJoinError, Refusal
from deltajoin.model import Model
from deltajoin.names import COUNT, ROW_HASH

Record = Mapping[str, Any]


@dataclass(frozen=True)
class LastEpoch:
    """The last epoch of a target: its record and its number, None and 0 before the first.

    `lost` where the log no longer holds the record: nothing says what the epoch consumed.
    """

    record: Record | None = None
    number: int = 0
    lost: Refusal | None = None


def last_epoch(state: TargetState | None, model: Model) -> LastEpoch:
    """The last epoch of this model's target.

    Raises:
        DeltaJoinError: TARGET_NOT_OURS, TARGET_OF_OTHER_MODEL, NEWER_FORMAT;
            TARGET_FOREIGN_WRITE unless the mode is full.
    """
    if state is None:
        return LastEpoch()
    properties = dict(state.properties)
    _check_owner(properties, model.name, model.target)
    foreign: str | None = None
    last: Record | None = None
    stands_on = -1
    for commit in state.commits:
        record = committed_record(commit.user_metadata)
        if record is not None and last is None:
            _check_format(int(record.get("format", 0)), model.target)
            last, stands_on = record, stood_on(commit, record)
        elif commit.data_change and foreign is None:
            foreign = f"{commit.operation} at version {commit.version} changed rows of the target"
        if last is not None and commit.version - 1 <= stands_on:
            break
    if last is not None and foreign is None:
        hidden = (*(last.get("hidden") or ()), *([COUNT] if last["kind"] == "bag" else []))
        names = [column.name for column in state.columns if column.name != ROW_HASH]
        if names != [*last["columns"], *hidden]:
            foreign = "the target's columns are not those that the last epoch wrote"
    _check_foreign(foreign, model)
    if last is not None:
        return LastEpoch(last, int(last["epoch"]))
    number = state.transaction(f"deltajoin:{model.name}")
    if number is None:
        return LastEpoch()
    lost = Refusal(
        "HISTORY_LOST",
        f"the target's log no longer holds the commit of its last epoch, {number}",
        model.target,
        "Run once with mode full; keep the log longer than the target may go without an epoch.",
    )
    return LastEpoch(None, number, lost)


def _check_foreign(found: str | None, model: Model) -> None:
    if found is not None and model.mode != "full":
        raise DeltaJoinError(
            "TARGET_FOREIGN_WRITE",
            found,
            where=model.target,
            remedy="Run once with mode full to rebuild it, and let only deltajoin write to it.",
        )


#: Commits looked back for what only estimates use: each is a request or two.
RECENT = 64


def epochs_of(
    state: TargetState | None, most: int | None = None
) -> Iterator[tuple[TargetCommit, dict[str, Any]]]:
    """The commits of a target that carry a record, newest first, each with it; by default all, else
    those among so `most` commits."""
    for commit in islice(state.commits, most) if state else ():
        record = committed_record(commit.user_metadata)
        if record is not None:
            yield commit, record


def recent_epochs(
    state: TargetState | None, mark: str
) -> Iterator[tuple[TargetCommit, dict[str, Any]]]:
    """Those of one definition (`mark`: its fingerprint) among the RECENT commits."""
    newest = epochs_of(state, RECENT)
    return ((commit, record) for commit, record in newest if record.get("fingerprint") == mark)


def recent_reads(state: TargetState | None, mark: str, most: int) -> tuple[Record, ...]:
    """What the last incremental epochs of one definition read within ranges, newest first."""
    found = (r for _, r in recent_epochs(state, mark) if r.get("strategy") == "incremental")
    return tuple(record.get("narrowed") or {} for record in islice(found, most))


def stood_on(commit: TargetCommit, record: Record) -> int:
    """The version of the target that an epoch was made for; the one before it, as most are."""
    return int(record.get("target_previous", commit.version - 1))


def _check_owner(properties: Mapping[str, str], model: str, place: str) -> None:
    owner = properties.get("deltajoin.model")
    if owner is None:
        raise DeltaJoinError(
            "TARGET_NOT_OURS",
            "the target is a Delta table that deltajoin did not make",
            where=place,
            remedy="Choose another target, or drop the table first.",
        )
    if owner != model:
        raise DeltaJoinError(
            "TARGET_OF_OTHER_MODEL",
            f"the target belongs to the model '{owner}', not '{model}'",
            where=place,
            remedy="Choose another target, or use the model's name.",
        )
    _check_format(int(properties.get("deltajoin.format", "0")), place)


def _check_format(found: int, place: str) -> None:
    if found > FORMAT:
        raise DeltaJoinError(
            "NEWER_FORMAT",
            f"the target was written in plan format {found}; this version knows up to {FORMAT}",
            where=place,
            remedy="Upgrade deltajoin.",
        )
