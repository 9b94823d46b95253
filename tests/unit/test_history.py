"""Whose a target is, by its properties and commits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deltajoin.catalog import TargetCommit, TargetState
from deltajoin.contract import FORMAT
from deltajoin.delta.history import last_epoch
from deltajoin.errors import DeltaJoinError
from deltajoin.model import Model
from tests.unit import flights

OURS = {"deltajoin.model": "flights_enriched", "deltajoin.format": str(FORMAT)}
COLUMNS = flights.table("airlines").columns


def target(properties: dict[str, str], *records: dict[str, Any] | str | None) -> TargetState:
    """A target with commits of these records or other metadata, oldest first."""
    commits = [
        TargetCommit(
            number,
            0,
            "MERGE",
            {},
            json.dumps({"deltajoin": told}) if isinstance(told, dict) else told,
            data_change=True,
        )
        for number, told in enumerate(records, 1)
    ]
    items = tuple(properties.items())
    return TargetState("/t", "id", len(commits), COLUMNS, items, tuple(reversed(commits)))


def record(epoch: int, **fields: Any) -> dict[str, Any]:
    columns = [column.name for column in COLUMNS]
    return {"epoch": epoch, "format": FORMAT, "columns": columns, "kind": "keyed", **fields}


REFUSED = {
    "no property": (target({}), "TARGET_NOT_OURS"),
    "another model": (target({**OURS, "deltajoin.model": "other"}), "TARGET_OF_OTHER_MODEL"),
    "a newer table": (target({**OURS, "deltajoin.format": str(FORMAT + 1)}), "NEWER_FORMAT"),
    "a newer record": (target(OURS, record(1, format=FORMAT + 1)), "NEWER_FORMAT"),
    "a write of others": (target(OURS, record(1), None), "TARGET_FOREIGN_WRITE"),
    "a write below": (
        target(OURS, record(1), None, record(2, target_previous=1)),
        "TARGET_FOREIGN_WRITE",
    ),
    "a commit in our form without an epoch": (
        target(OURS, record(1), {"by": "somebody"}),
        "TARGET_FOREIGN_WRITE",
    ),
    "metadata that is no JSON": (target(OURS, record(1), '{"deltajoin"'), "TARGET_FOREIGN_WRITE"),
    "metadata that is a list": (target(OURS, record(1), '["deltajoin"]'), "TARGET_FOREIGN_WRITE"),
    "other columns": (target(OURS, record(1, columns=["carrier"])), "TARGET_FOREIGN_WRITE"),
}


@pytest.mark.parametrize(("state", "code"), REFUSED.values(), ids=list(REFUSED))
def test_a_target_that_is_refused(state: TargetState, code: str) -> None:
    with pytest.raises(DeltaJoinError) as refused:
        last_epoch(state, flights.model())
    assert refused.value.code == code
    if code == "TARGET_FOREIGN_WRITE":
        model: Model = flights.model(mode="full")
        assert last_epoch(state, model).record is not None


def test_the_last_epoch() -> None:
    found = last_epoch(target(OURS, record(1), record(2), record(3)), flights.model())
    assert (found.number, found.lost) == (3, None)
    assert last_epoch(None, flights.model()).number == 0
