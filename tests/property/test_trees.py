"""Random trees of outer, semi and anti joins, with aggregates on top: always equal to the query.

`--cases N` and `--seed S` as for the inner joins. Counted and printed: epochs whose target changes,
and those in which every change is followed by keys.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial

import duckdb
import pytest

from deltajoin.delta.derived import DerivedPlan
from deltajoin.delta.path import LookupStep
from deltajoin.delta.plan import DeltaPlan
from deltajoin.emit.sql import Program
from deltajoin.errors import DeltaJoinError
from deltajoin.sql.bind import BoundQuery, bind
from tests.property.cases import Case, to_json
from tests.property.oracle import Make, Mutant, check, draw, forget_connection
from tests.property.shrink import failure, keep, shrink
from tests.property.trees import generate_tree

CHUNK = 20
LEAST_CHANGED, LEAST_INCREMENTAL = 0.70, 0.90
#: Of fewer trees, these shares say little.
FEWEST = 180


def test_random_trees(request: pytest.FixtureRequest, processes: ProcessPoolExecutor) -> None:
    started = time.monotonic()
    seen = run_cases(request, processes, generate_tree, fewest=FEWEST)
    epochs, queries = seen["epochs"], seen["kept"] + seen["rebuilt"]
    changed = seen["changed"] / epochs
    incremental = 1 - seen["not by keys"] / epochs
    print(
        f"\n{queries} trees from seed {request.config.getoption('--seed')}: "
        f"{seen['kept'] / queries:.0%} of the queries kept, "
        f"{seen['summed'] / queries:.0%} in branches, {seen['unions'] / queries:.0%} with unions, "
        f"{epochs} epochs, {incremental:.0%} by keys alone, {changed:.0%} change the target, "
        f"{seen['grouped'] / queries:.0%} with aggregates, {time.monotonic() - started:.1f} s"
    )
    assert changed >= LEAST_CHANGED
    assert incremental >= LEAST_INCREMENTAL


def run_cases(
    request: pytest.FixtureRequest, processes: ProcessPoolExecutor, make: Make, fewest: int = 0
) -> Counter[str]:
    """Counts over all cases that `--cases` and `--seed` ask for; fails with the first wrong one."""
    count, first = request.config.getoption("--cases"), request.config.getoption("--seed")
    count = max(count, fewest)
    chunks = [range(s, min(s + CHUNK, first + count)) for s in range(first, first + count, CHUNK)]
    seen: Counter[str] = Counter()
    for found, failed in processes.map(partial(run_chunk, make=make), chunks):
        seen += found
        if failed is not None:
            report(*failed, make=make)
    assert seen["given up"] <= 1 + count // 1_000, "DuckDB fails too often to tell anything"
    return seen


def run_chunk(
    seeds: range, make: Make = generate_tree
) -> tuple[Counter[str], tuple[int, str, str] | None]:
    """Counts over the epochs of some seeds, and the first failure: seed, sort, text."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        case = draw(seed, make=make)
        query = bound(case)
        if query.graph is None:
            seen["rebuilt"] += 1
            continue
        graph = query.graph
        seen += Counter(kept=1, grouped=graph.grouping is not None)
        seen += Counter(windows=graph.windowing is not None, views=graph.generation is not None)
        seen += Counter(summed=len(graph.branches) > 1, unions=graph.has_union)
        try:
            for outcome in check(case):
                seen += Counter(epochs=1, changed=outcome.changed)
                seen["tied"] += outcome.kind == "tied"
                seen["not by keys"] += outcome.kind in ("whole", "rebuilt")
                if outcome.problem:
                    raise AssertionError(outcome.problem)
        except (duckdb.InternalException, duckdb.FatalException):
            forget_connection()  # a fault of DuckDB's own, after which it answers nothing more
            seen["given up"] += 1
        except Exception:
            return seen, (seed, *failure(case))
    return seen, None


def bound(case: Case) -> BoundQuery:
    """The case's query on its tables."""
    types = {(t.name, name): kind for t in case.tables for name, kind in t.columns}
    return bind(case.query, {t.name: t.names for t in case.tables}, types)


def report(seed: int, sort: str, text: str, make: Make = generate_tree) -> None:
    """Shrink the case of a seed, keep it, and fail with all that is needed to see it again."""
    case, name = draw(seed, make=make), make.__name__.removeprefix("generate_")
    small = shrink(case, lambda c: failure(c)[0] == sort)
    file = keep(small, f"{name} {seed}: {sort}")
    pytest.fail(f"{name} {seed}: {sort}: {text}\n{case.query}\n{file.name}", pytrace=False)


# known mistakes -----------------------------------------------------------------------------------


def _steps(plan: DeltaPlan, change: object) -> DeltaPlan | None:
    paths = tuple(
        replace(p, steps=tuple(change(plan, s) for s in p.steps))  # type: ignore[operator]
        for p in plan.paths
    )
    return None if paths == plan.paths else replace(plan, paths=paths)


def _mutant(name: str, change: object) -> Mutant:
    return Mutant(name, plan=lambda plan: _steps(plan, change))


def _only_after(plan: DeltaPlan, step: LookupStep) -> LookupStep:
    return replace(step, previous=())


def _both_after(plan: DeltaPlan, step: LookupStep) -> LookupStep:
    return replace(step, previous=step.inside) if step.previous else step


def _inner(plan: DeltaPlan, step: LookupStep) -> LookupStep:
    return replace(step, kind="inner") if step.kind == "left" and not step.inside else step


def _semi(plan: DeltaPlan, step: LookupStep) -> LookupStep:
    return replace(step, kind="semi") if step.kind == "anti" else step


def _unfiltered(plan: DeltaPlan, step: LookupStep) -> LookupStep:
    return replace(step, on=("TRUE",)) if step.kind == "filter" else step


def _entered_now(plan: DeltaPlan, step: LookupStep) -> LookupStep:
    """The rows that a change of an attachment touches are read at this epoch only."""
    source = next((s for s in plan.sources if s.source == step.source), None)
    if step.kind != "enter" or source is None:
        return step
    return replace(step, version=source.version)


def _groups_of_first_key(plan: DeltaPlan) -> DeltaPlan | None:
    """The groups are read at the previous epoch."""
    old = {s.source: s.previous for s in plan.sources}

    def before(step: LookupStep) -> LookupStep:
        version = old.get(step.source)
        return step if version is None else replace(step, version=version)

    regroup = tuple(tuple(before(step) for step in steps) for steps in plan.regroup)
    return None if regroup == plan.regroup else replace(plan, regroup=regroup)


def _below(change: Callable[[DerivedPlan], DerivedPlan]) -> Callable[..., DeltaPlan | None]:
    """A mistake in how derived sources find their change."""

    def mutate(plan: DeltaPlan) -> DeltaPlan | None:
        derived = tuple(change(one) if one.source.changed else one for one in plan.derived)
        return None if derived == plan.derived else replace(plan, derived=derived)

    return mutate


def _fold(change: Callable[[str], str]) -> Callable[[Program, DeltaPlan], Program | None]:
    """Alter how a change is folded and added to the state."""

    def mutate(program: Program, plan: DeltaPlan) -> Program | None:
        if plan.state is None or plan.regroup or not program.fold or not program.touched:
            return None
        found = replace(program, fold=change(program.fold), touched=change(program.touched))
        return None if found == program else found

    return mutate


def _one_path_less(derived: DerivedPlan) -> DerivedPlan:
    return replace(derived, paths=derived.paths[1:]) if len(derived.paths) > 1 else derived


def _groups_before_as_after(derived: DerivedPlan) -> DerivedPlan:
    return replace(derived, before=derived.after)


def _replaced(pattern: str, by: str) -> Callable[[Program, DeltaPlan], Program | None]:
    return _fold(lambda sql: re.sub(pattern, by, sql))


def _always_added(plan: DeltaPlan) -> DeltaPlan | None:
    """Extremes are merged though rows left."""
    if plan.state is None or not plan.regroup:
        return None
    return replace(plan, regroup=())


_COUNT = r"CASE\s+WHEN NOT (?:\((?:[^()]|\([^()]*\))*\)) IS NULL\s+THEN (`input`.`\w+`)\s+END"
STATE_MUTANTS = (
    Mutant("NULLs are counted", program=_replaced(_COUNT, r"\1"), seed=8),
    Mutant(
        "values without their weight",
        program=_replaced(r" AS BIGINT\) \* `input`.`\w+`", " AS BIGINT)"),
        seed=34,
    ),
    Mutant(
        "the state is not added to", program=_replaced(r"coalesce\(`t`.`\w+`, ", "coalesce(NULL, ")
    ),
    Mutant("empty groups stay", program=_replaced("'delete'", "'update'")),
    Mutant(
        "groups whose rows stay are left", program=_replaced(r"\s+OR `s`.`\w+` <> 0", ""), seed=34
    ),
    Mutant(
        "sums of nothing are 0",
        program=_replaced(r"WHEN `input`.`__deltajoin_count_\d+` > 0", "WHEN TRUE"),
        seed=8,
    ),
    Mutant(
        "HAVING is not asked again",
        program=_replaced(
            r",\s+FALSE\s*\) AS `__deltajoin_shown`", ", FALSE) OR TRUE AS `__deltajoin_shown`"
        ),
        seed=8,
    ),
    Mutant("extremes merged though rows left", plan=_always_added, seed=430),
)

MUTANTS = (
    *STATE_MUTANTS,
    _mutant("rows before the change are not taken back", _only_after),
    _mutant("both sides of the difference after the change", _both_after),
    _mutant("a left join as an inner join", _inner),
    _mutant("an anti join as a semi join", _semi),
    _mutant("late predicates dropped", _unfiltered),
    _mutant("touched rows read at this epoch only", _entered_now),
    Mutant("groups read at the previous epoch", plan=_groups_of_first_key, seed=37),
    Mutant("a derived source loses a path", plan=_below(_one_path_less)),
    Mutant("a derived source is read after its change only", plan=_below(_groups_before_as_after)),
)


@pytest.mark.parametrize("number", range(len(MUTANTS)), ids=[m.name for m in MUTANTS])
def test_a_known_mistake_is_caught(number: int) -> None:
    """Some epoch of some tree shows each mistake."""
    tried, mutant = 0, MUTANTS[number]
    for seed in range(mutant.seed, mutant.seed + 600):
        case = draw(seed, make=generate_tree)
        if not _is_kept(case):
            continue
        for outcome in check(case, mutant):
            tried += 1
            if outcome.problem:
                print(f"\n{mutant.name}: caught at seed {seed}, {tried} epochs with it")
                return
    pytest.fail(f"{tried} epochs did not show: {mutant.name}")


def _is_kept(case: Case) -> bool:
    try:
        return bound(case).graph is not None
    except DeltaJoinError:
        return False


def test_a_seed_gives_the_same_tree() -> None:
    for seed in range(30):
        assert to_json(generate_tree(seed)) == to_json(generate_tree(seed))
