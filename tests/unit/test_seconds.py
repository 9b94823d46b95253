"""What past runs let expect of a run, and which strategy `auto` takes for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from deltajoin.catalog import TargetCommit, TargetState
from deltajoin.delta.path import SourceVersion
from deltajoin.delta.seconds import predict
from deltajoin.delta.strategy import Seconds

ROWS = 10_000_000
REBUILD = 100.0


def record(strategy: str, seconds: float, rows: int = 0, **more: Any) -> dict[str, Any]:
    """A record of a run that took so long, of a change that should lead to so many rows."""
    return {
        "epoch": 1,
        "fingerprint": "mark",
        "strategy": strategy,
        "reason": "CHANGES",
        "mode": "auto",
        "started_at": datetime.fromtimestamp(1_000, UTC).isoformat(),
        "frontier": {"t": {"rows": ROWS}},
        "paths": [path(rows)],
        "took": seconds,
        **more,
    }


def path(rows: int) -> dict[str, Any]:
    steps = [{"kind": "inner", "estimated_rows": rows}, {"kind": "left", "estimated_rows": 7}]
    return {"estimated_rows": 0, "steps": steps}


def expected(
    past: Sequence[dict[str, Any]], rows: int, size: int = ROWS, changed: bool = True
) -> Seconds | None:
    """What is expected after runs, newest first."""
    commits = [
        TargetCommit(
            9 - n, int(1000 * (1_000 + one["took"])), "W", {}, json.dumps({"deltajoin": one}), True
        )
        for n, one in enumerate(past)
    ]
    state = TargetState("/t", "id", 9, (), (), commits)
    source = SourceVersion("t", "/s", "id", 2, 1 if changed else 2, (), size)
    return predict(state, "mark", [source], rows)


def sure(past: Sequence[dict[str, Any]], rows: int, size: int = ROWS) -> Seconds:
    """The same where something is expected."""
    found = expected(past, rows, size)
    assert found is not None
    return found


FIRST = record("full", REBUILD)


@pytest.mark.parametrize(
    "found",
    [
        expected([], 100),
        expected([FIRST | {"fingerprint": "other"}], 100),
        expected([FIRST], 100, size=99_999),
        expected([FIRST], 100, changed=False),
        expected([record("incremental", 5)], 100),
    ],
)
def test_nothing_is_expected_without_a_rebuild_many_rows_and_a_change(found: Any) -> None:
    assert found is None


def test_a_rebuild_takes_as_long_as_the_last_by_rows() -> None:
    twice = sure([FIRST, record("full", 900)], 0, size=2 * ROWS)
    assert twice.rebuild == pytest.approx(2 * REBUILD)


def test_what_was_written_by_difference_says_nothing_of_other_rebuilds() -> None:
    compared = record("full", 5 * REBUILD, written="difference")
    assert sure([compared, FIRST], 0).rebuild == pytest.approx(REBUILD)
    assert sure([compared], 0).rebuild == pytest.approx(5 * REBUILD)


def test_a_rebuild_of_tables_that_nobody_counted_counts_as_it_is() -> None:
    assert sure([record("full", 70, frontier={"t": {"rows": None}})], 0).rebuild == 70


def test_half_of_a_query_that_was_computed_twice_counts() -> None:
    more = {"evidence": {"compared": "columns and rows"}, "phases": {"query": 60.0}}
    found = sure([FIRST | more], 0)
    assert found.rebuild == pytest.approx(70)


def test_seconds_grow_with_the_rows_that_lookups_should_give() -> None:
    found = [sure([FIRST], rows) for rows in (0, 100_000, ROWS // 2)]
    seconds = [one.incremental for one in found]
    assert seconds == sorted(set(seconds))
    assert [one.favour_rebuild for one in found] == [False, False, True]


def test_past_runs_correct_the_guess_and_one_slow_run_does_little() -> None:
    guess = sure([FIRST], 1_000)
    slow = [record("incremental", 4 * guess.incremental, 1_000) for _ in range(9)]
    learned = sure([*slow, FIRST], 1_000)
    assert 2.5 < learned.incremental / guess.incremental < 4
    usual = [record("incremental", guess.incremental, 1_000) for _ in range(9)]
    odd = [record("incremental", 50 * guess.incremental, 1_000), *usual]
    once = sure([*odd, FIRST], 1_000)
    assert once.incremental < 3 * guess.incremental


def test_runs_of_a_like_size_say_more() -> None:
    guess = sure([FIRST], 1_000)
    small = record("incremental", 5 * guess.incremental, 1_000)
    near, far = sure([small, FIRST], 2_000), sure([small, FIRST], ROWS // 5)
    plain = sure([FIRST], 2_000), sure([FIRST], ROWS // 5)
    assert near.incremental / plain[0].incremental > far.incremental / plain[1].incremental


def test_what_a_subquery_reads_counts() -> None:
    derived = {"derived": [{"paths": [path(1_000_000)]}]}
    without = sure([record("incremental", 50), FIRST], 1_000_000)
    within = sure([record("incremental", 50, **derived), FIRST], 1_000_000)
    assert within.incremental != without.incremental


def test_a_comparison_is_no_run_to_go_by() -> None:
    shadow = record("incremental", 500, 1_000, mode="shadow")
    assert sure([shadow, FIRST], 1_000) == sure([FIRST], 1_000)


def test_the_strategy_changes_where_that_clearly_saves() -> None:
    for incremental, kept, rebuilt in ((84, False, False), (100, False, True), (116, True, True)):
        assert Seconds(incremental, REBUILD).favour_rebuild == kept
        assert Seconds(incremental, REBUILD, last_rebuilt=True).favour_rebuild == rebuilt
    after = sure([record("full", REBUILD, reason="REBUILD_CHEAPER"), FIRST], 0)
    assert after.last_rebuilt
