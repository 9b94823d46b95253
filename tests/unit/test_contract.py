"""The record in a commit's metadata, as it is and packed."""

from __future__ import annotations

import json

import pytest

from deltajoin.contract import PACKED_LENGTH, committed_record, metadata_of

LONG = {"epoch": 3, "rows": {"inserted": 1}, "columns": [f"column_{n}" for n in range(2000)]}


def test_a_short_record_stands_as_it_is() -> None:
    short = {"epoch": 3, "columns": ["é"]}
    assert json.loads(metadata_of(short)) == {"deltajoin": short}
    assert committed_record(metadata_of(short)) == short


def test_a_long_record_is_packed_and_its_epoch_can_be_read() -> None:
    text = metadata_of(LONG)
    assert len(json.dumps(LONG)) > PACKED_LENGTH > len(text)
    beside = json.loads(text)["deltajoin"]
    assert {name: beside[name] for name in ("epoch", "rows")} == {"epoch": 3, "rows": LONG["rows"]}
    assert "columns" not in beside
    assert committed_record(text) == LONG


@pytest.mark.parametrize("packed", ["", "no base64!", "AAAA", 7, None])
def test_a_packed_record_that_others_wrote_is_none(packed: object) -> None:
    forged = json.dumps({"deltajoin": {"epoch": 3, "packed": packed}})
    assert committed_record(forged) is None


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_a_packed_record_that_is_cut_is_none(share: float) -> None:
    beside = json.loads(metadata_of(LONG))["deltajoin"]
    cut = beside["packed"][: 4 * int(share * len(beside["packed"]) / 4)]
    assert committed_record(json.dumps({"deltajoin": {**beside, "packed": cut}})) is None
