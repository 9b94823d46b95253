"""Written queries by a clock that moves: over random histories each epoch has a day of its own.

The queries are those of `tests/fixtures/clocked.sql`. Every one is kept; what the target holds is
compared with the whole query at that epoch's clock.
"""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime

import pytest

from tests.property.oracle import check, maker_of
from tests.property.test_written import EPOCHS, QUERIES, Found, history_of, none_is_wrong, written


def test_random_histories_by_a_clock_that_moves(
    request: pytest.FixtureRequest, processes: ProcessPoolExecutor
) -> None:
    queries = written(QUERIES.with_name("clocked.sql"))
    seen = none_is_wrong(run_query, queries, request, processes)
    assert seen["changed"] > seen["epochs"] // 2


def run_query(query: str, seeds: range) -> Found:
    """Counts over the epochs of some histories, and what is wrong: seed, epoch, text."""
    seen: Counter[str] = Counter()
    problems = []
    for seed in seeds:
        case = history_of(query, seed)
        assert maker_of(case), query
        days = random.Random(seed).choices((1, 2, 3, 4), k=EPOCHS + 1)
        clocks = [datetime(2026, 3, day, 12, tzinfo=UTC) for day in days]
        for outcome in check(case, clocks=clocks):
            seen += Counter(epochs=1, changed=outcome.changed)
            if outcome.problem:
                problems.append((seed, outcome.epoch, outcome.problem))
    return seen, problems
