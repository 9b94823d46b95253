"""What the target says about itself: whose it is, the last epoch, whether anyone else wrote.

Refused here, before anything else is read: a table that deltajoin did not make, a target of another
model, one written by a newer format. A foreign write since the last epoch rules out an incremental
run; mode full rebuilds over it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deltajoin.catalog import TargetState
from deltajoin.delta.plan import FORMAT
from deltajoin.delta.strategy import Obstacle
from deltajoin.errors import DeltaJoinError

METADATA_KEY = "deltajoin"


@dataclass(frozen=True)
class LastEpoch:
    """The record of the last committed epoch and what happened to the target since."""

    record: Mapping[str, Any]
    foreign: Obstacle | None


def last_epoch(state: TargetState | None, model: str, place: str) -> LastEpoch | None:
    """The last epoch of this model's target; None when it holds no epoch yet.

    Raises:
        DeltaJoinError: TARGET_NOT_OURS, TARGET_OF_OTHER_MODEL, NEWER_FORMAT, HISTORY_LOST.
    """
    if state is None:
        return None
    properties = dict(state.properties)
    _check_owner(properties, model, place)
    foreign: Obstacle | None = None
    for commit in state.commits:
        record = committed_record(commit.user_metadata)
        if record is not None:
            _check_format(int(record.get("format", 0)), place)
            return LastEpoch(record, foreign)
        if commit.data_change and foreign is None:
            foreign = Obstacle(
                "TARGET_FOREIGN_WRITE",
                f"{commit.operation} at version {commit.version} changed rows of the target",
                place,
                "Run once with mode full to rebuild it, and let only deltajoin write to it.",
            )
    if state.transaction(f"deltajoin:{model}") is not None:
        raise DeltaJoinError(
            "HISTORY_LOST",
            "the target's log no longer holds the commit of its last epoch",
            where=place,
            remedy="Drop the target and run again, or keep its log longer than the run interval.",
        )
    if foreign is not None:
        raise DeltaJoinError(foreign.code, foreign.message, where=place, remedy=foreign.remedy)
    return None


def committed_record(metadata: str | None) -> dict[str, Any] | None:
    """The record in a commit's metadata; None for a commit that is not ours."""
    if not metadata or f'"{METADATA_KEY}"' not in metadata:
        return None
    try:
        record = json.loads(metadata).get(METADATA_KEY)
    except (ValueError, AttributeError):
        return None
    return record if isinstance(record, dict) and "epoch" in record else None


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
