"""A change of few rows that leads to most of a large target is rebuilt by mode auto."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deltajoin.catalog import TargetState
from deltajoin.delta.sources import reach
from deltajoin.delta.strategy import Situation, decide
from tests.unit import flights


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flights of twenty years."""
    for name in ("flights", "weather"):
        monkeypatch.setitem(flights.ROWS, name, 20 * flights.ROWS[name])


def told(changed: dict[str, int], rows: int | None) -> str | None:
    """What a change of some rows of some sources leads to, in a target of so many rows."""
    plan = flights.daily_plan(changed)
    state = TargetState("/data/out", "id", 1, (), (), ())
    vars(state)["rows"] = rows
    return reach(plan.sources, plan.paths, state)


@pytest.mark.usefixtures("large")
def test_a_dimension_that_leads_everywhere() -> None:
    assert told({"airlines": 1}, 540_000) is None
    found = told({"airlines": 16}, 540_000)
    assert found is not None
    assert found.endswith("rows, where there are 540,080")
    assert told({"airlines": 16}, None) == found
    assert told({"airlines": 16}, 5_400_000) is None
    assert told({"flights": 500, "planes": 3, "airports": 2}, 540_000) is None


def test_small_tables_do_not_count() -> None:
    assert told({"airlines": 16}, 27_000) is None


def test_auto_alone_rebuilds() -> None:
    now = Situation("auto", False, None, None, (), ("airlines",), 0.001, reach="far")
    assert (decide(now).strategy, decide(now).detail) == ("full", "far")
    for mode in ("incremental", "incremental_strict", "shadow"):
        assert decide(replace(now, mode=mode)).strategy == "incremental"
