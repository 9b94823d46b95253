"""Accelerated joins on DuckDB: every lookup and full query by candidates, and the query's own rows.

Tables are tiny, so the limits below which pairs are compared one by one are taken away.
`--cases N` and `--seed S` as for the inner joins.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from typing import Any
from unittest.mock import patch

import pytest

from deltajoin.accelerate import choose
from deltajoin.delta import running
from deltajoin.planner import accelerated
from tests.property.accelerated import generate_ranges, generate_running
from tests.property.oracle import Make, check, draw
from tests.property.shrink import failure

CHUNK, FEWEST = 3, 6
#: A case whose semi join stands on one comparison alone.
ONE_COMPARISON = 21
#: A case of running aggregates that a condition of one side decides.
ONE_SIDED = 30
LEAST_CHANGED, LEAST_SERVED = 0.6, 2.0


def test_random_ranges(request: pytest.FixtureRequest, processes: ProcessPoolExecutor) -> None:
    count = max(FEWEST, request.config.getoption("--cases") // 30)
    first = request.config.getoption("--seed")
    chunks = [range(s, min(s + CHUNK, first + count)) for s in range(first, first + count, CHUNK)]
    chunks.append(range(ONE_COMPARISON, ONE_COMPARISON + 1))
    seen: Counter[str] = Counter()
    for found, failed in processes.map(run_chunk, chunks):
        seen += found
        assert failed is None, failed
    print(f"\n{count} cases from seed {first}: {dict(seen)}")
    assert seen["changed"] / seen["epochs"] >= LEAST_CHANGED
    assert seen["served"] / count >= LEAST_SERVED
    assert all(seen[f"range {kind}"] for kind in ("inner", "left", "semi", "anti"))
    assert seen["inequality semi"]


def test_random_running_aggregates(
    request: pytest.FixtureRequest, processes: ProcessPoolExecutor
) -> None:
    count = max(2 * FEWEST, request.config.getoption("--cases") // 15)
    first = request.config.getoption("--seed")
    chunks = [range(s, min(s + CHUNK, first + count)) for s in range(first, first + count, CHUNK)]
    chunks.append(range(ONE_SIDED, ONE_SIDED + 1))
    seen: Counter[str] = Counter()
    for found, failed in processes.map(run_chunk, chunks, repeat(generate_running)):
        seen += found
        assert failed is None, failed
    print(f"\n{count} cases from seed {first}: {dict(seen)}")
    assert seen["changed"] / seen["epochs"] >= LEAST_CHANGED
    assert seen["inequality inner"] >= count / 2
    assert seen["inequality left"]
    assert seen["in paths"] >= count / 3


def run_chunk(seeds: range, make: Make = generate_ranges) -> tuple[Counter[str], str | None]:
    """Counts over the epochs of some seeds, and the first failure."""
    seen: Counter[str] = Counter()
    real, of_paths = accelerated.accelerated, running.running_aggregates

    def counted(on: object, sides: object, sizes: object) -> object:
        found = real(on, sides, sizes)
        if found is not None:
            seen["served"] += 1
            seen[f"{found.kind} {sides.kind}"] += 1
        return found

    def counted_in_paths(*join: Any) -> object:
        found = of_paths(*join)
        seen["in paths"] += found is not None
        return found

    with (
        patch.object(choose, "FEW_PAIRS", 0),
        patch.object(choose, "FEW_PER_KEY", 0),
        patch.object(accelerated, "accelerated", counted),
        patch.object(running, "running_aggregates", counted_in_paths),
    ):
        for seed in seeds:
            case = draw(seed, make=make)
            try:
                for outcome in check(case):
                    seen += Counter(epochs=1, changed=outcome.changed)
                    if outcome.problem:
                        raise AssertionError(outcome.problem)
            except Exception:
                return seen, f"seed {seed}: {failure(case)}"
    return seen, None
