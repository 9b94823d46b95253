"""Random cases on DuckDB: after every epoch the target is the query, whatever the epoch order.

`--cases N` and `--seed S` choose how many and from which seed. A failing case is printed with its
seed; its smallest form goes to tests/fixtures/cases, whose files are replayed before all others.
"""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from tests.property.cases import Case, from_json, keys_hold, render_sql, to_json
from tests.property.generate import generate
from tests.property.mutants import MUTANTS
from tests.property.oracle import Mutant, check, draw
from tests.property.shrink import failure, keep, kept, load, shrink

LEAST_CHANGED, LEAST_KEYED = 0.70, 0.25
CHUNK = 20
BUDGET = 500


@pytest.mark.parametrize("file", kept(), ids=lambda file: file.stem)
def test_a_case_that_failed_once(file: Path) -> None:
    assert failure(load(file)) == ("", "")


def test_random_cases(request: pytest.FixtureRequest, processes: ProcessPoolExecutor) -> None:
    count, first = request.config.getoption("--cases"), request.config.getoption("--seed")
    started = time.monotonic()
    chunks = [range(s, min(s + CHUNK, first + count)) for s in range(first, first + count, CHUNK)]
    seen: Counter[str] = Counter()
    for found, failed in processes.map(run_chunk, chunks):
        seen += found
        if failed is not None:
            report(*failed)
    changed, epochs = seen["changed"] / seen["epochs"], seen["epochs"]
    print(
        f"\n{count} cases from seed {first}, {epochs} epochs, {changed:.0%} change the target, "
        f"{seen['keyed'] / epochs:.0%} keyed, {time.monotonic() - started:.1f} s"
    )
    assert changed >= LEAST_CHANGED
    assert seen["keyed"] / epochs >= LEAST_KEYED


def run_chunk(seeds: range) -> tuple[Counter[str], tuple[int, str, str] | None]:
    """Counts over the epochs of some seeds, and the first failure: seed, sort, text."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        case = draw(seed)
        try:
            for outcome in check(case):
                seen += Counter(epochs=1, changed=outcome.changed)
                seen[outcome.kind] += 1
                if outcome.problem:
                    raise AssertionError(outcome.problem)
        except Exception:
            return seen, (seed, *failure(case))
    return seen, None


def report(seed: int, sort: str, text: str) -> None:
    """Shrink the case of a seed, keep it, and fail with all that is needed to see it again."""
    case = draw(seed)
    small = shrink(case, lambda c: failure(c)[0] == sort)
    file = keep(small, f"seed {seed}: {sort}")
    pytest.fail(
        f"seed {seed}: {sort}: {text}\n{render_sql(case)}\nsmallest form in {file.name}:\n"
        f"{render_sql(small)}\n{failure(small)[1]}\nagain: pytest {Path(__file__).name} "
        f"-k random --seed {seed} --cases 1",
        pytrace=False,
    )


@pytest.mark.parametrize("number", range(len(MUTANTS)), ids=[m.name for m in MUTANTS])
def test_a_known_mistake_is_caught(number: int, request: pytest.FixtureRequest) -> None:
    """Within the case budget, some epoch of a random case shows each mistake."""
    first = request.config.getoption("--seed")
    tried, killer = hunt(MUTANTS[number], range(first, first + BUDGET))
    assert killer is not None, f"{tried} epochs did not show: {MUTANTS[number].name}"
    print(f"\n{MUTANTS[number].name}: caught at seed {killer}, {tried} epochs with it")


def hunt(mutant: Mutant, seeds: range) -> tuple[int, int | None]:
    """Epochs that the mutant altered until one was wrong, and the seed of that one."""
    tried = 0
    for seed in seeds:
        for outcome in check(draw(seed), mutant):
            tried += 1
            if outcome.problem:
                return tried, seed
    return tried, None


def test_a_seed_gives_the_same_case() -> None:
    for seed in range(30):
        case = generate(seed)
        assert case == generate(seed)
        assert from_json(to_json(case)) == case
        assert keys_hold(case)


def test_the_shrinker_keeps_what_fails() -> None:
    """A case that catches a mistake shrinks to one that still does and is right without it."""
    mutant = MUTANTS[0]
    _, seed = hunt(mutant, range(BUDGET))
    assert seed is not None
    case = draw(seed)

    def fails(candidate: Case) -> bool:
        return failure(candidate, mutant)[0] == "mismatch"

    small = shrink(case, fails, seconds=5)
    assert fails(small)
    assert failure(small) == ("", "")
    assert len(to_json(small)) < len(to_json(case))
