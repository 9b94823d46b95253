"""Written queries by a clock that moves: over random histories each epoch has a day of its own.

The queries are those of `tests/fixtures/clocked.sql`. Every one is kept; what the target holds is
compared with the whole query at that epoch's clock.
"""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from functools import partial

import pytest

from tests.property.oracle import check, maker_of
from tests.property.test_written import EPOCHS, QUERIES, history_of, written


def test_random_histories_by_a_clock_that_moves(
    request: pytest.FixtureRequest, processes: ProcessPoolExecutor
) -> None:
    histories = max(2, request.config.getoption("--cases") // 300)
    queries, seen = written(QUERIES.with_name("clocked.sql")), Counter[str]()
    ran = processes.map(partial(run_query, seeds=range(histories)), queries)
    for query, (found, problems) in zip(queries, ran, strict=True):
        assert not problems, (query, problems)
        assert found["epochs"], query
        seen += found
    print(f"\n{len(queries)} queries: {seen['epochs']} epochs, {seen['changed']} change the target")
    assert seen["changed"] > seen["epochs"] // 2


def run_query(query: str, seeds: range) -> tuple[Counter[str], list[tuple[int, int, str]]]:
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
