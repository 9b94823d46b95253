"""Seconds by phase: one phase at a time, told in the log as it begins."""

from __future__ import annotations

import logging

import pytest

from deltajoin.runtime import stopwatch
from deltajoin.runtime.stopwatch import Stopwatch


def test_phases_add_up(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    now = 100.0
    monkeypatch.setattr(stopwatch.time, "monotonic", lambda: now)
    caplog.set_level(logging.INFO, "deltajoin")
    watch = Stopwatch(planning=0.5)
    assert watch.seconds == 0.5
    watch.begin("planning", "of m")
    now += 1
    with watch.during("start"):
        now += 20
    now += 2
    watch.begin("changes")
    now += 0.25
    assert watch.phases == {"planning": 3.5, "start": 20.0, "changes": 0.25}
    watch.begin("write", "of 3 rows")
    now += 1
    watch.begin("changes")
    now += 1
    assert watch.phases == {"planning": 3.5, "start": 20.0, "changes": 1.25, "write": 1.0}
    assert watch.seconds == 25.75
    told = [record.getMessage() for record in caplog.records]
    assert told == ["planning of m", "start", "changes", "write of 3 rows", "changes"]
