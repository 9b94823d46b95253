"""Random windows and generators over trees of joins: always equal to the query.

`--cases N` and `--seed S` as for the joins alone. Counted and printed: epochs whose target changes,
queries with windows and with generators.
"""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import pytest

from deltajoin.delta.plan import DeltaPlan
from deltajoin.emit.sql import Program
from deltajoin.errors import DeltaJoinError
from deltajoin.graph import JoinGraph
from deltajoin.layers import Generation, Windowing
from deltajoin.sql.bind import bind
from tests.property.cases import to_json
from tests.property.layers import generate_layers
from tests.property.oracle import Mutant, check, draw
from tests.property.test_trees import run_cases

LEAST_CHANGED, LEAST_INCREMENTAL, LEAST_EACH = 0.65, 0.90, 0.25


def test_random_layers(request: pytest.FixtureRequest, processes: ProcessPoolExecutor) -> None:
    started = time.monotonic()
    seen = run_cases(request, processes, generate_layers)
    epochs, kept = seen["epochs"], seen["kept"]
    changed, incremental = seen["changed"] / epochs, 1 - seen["not by keys"] / epochs
    print(
        f"\nfrom seed {request.config.getoption('--seed')}: {kept} queries kept, "
        f"{seen['windows'] / kept:.0%} with windows, {seen['views'] / kept:.0%} with generators, "
        f"{epochs} epochs, {incremental:.0%} by keys alone, {changed:.0%} change the target, "
        f"{seen['tied']} histories end at rows that tie, "
        f"{time.monotonic() - started:.1f} s"
    )
    assert changed >= LEAST_CHANGED
    assert incremental >= LEAST_INCREMENTAL
    assert min(seen["windows"], seen["views"]) / kept >= LEAST_EACH


# known mistakes -----------------------------------------------------------------------------------


def _other_partitions(plan: DeltaPlan) -> DeltaPlan | None:
    """Partitions are read at the previous epoch."""
    old = {s.source: s.previous for s in plan.sources}
    regroup = tuple(
        tuple(replace(step, version=old.get(step.source) or step.version) for step in steps)
        for steps in plan.regroup
    )
    return None if regroup == plan.regroup else replace(plan, regroup=regroup)


def _graph(plan: DeltaPlan, **changes: Generation | Windowing) -> DeltaPlan:
    assert plan.graph is not None
    return replace(plan, graph=replace(plan.graph, **changes))  # type: ignore[arg-type]


def _unfiltered(plan: DeltaPlan) -> DeltaPlan | None:
    windowing = plan.graph.windowing if plan.graph else None
    if windowing is None or not windowing.conditions:
        return None
    return _graph(plan, windowing=replace(windowing, conditions=()))


def _generators(graph: JoinGraph | None) -> Generation | None:
    return graph.generation if graph else None


def _not_outer(plan: DeltaPlan) -> DeltaPlan | None:
    made = _generators(plan.graph)
    if made is None or not any(g.outer for g in made.generators):
        return None
    inner = tuple(replace(g, outer=False) for g in made.generators)
    return _graph(plan, generation=replace(made, generators=inner))


def _every_row_generated(plan: DeltaPlan) -> DeltaPlan | None:
    made = _generators(plan.graph)
    if made is None or not made.conditions:
        return None
    return _graph(plan, generation=replace(made, conditions=()))


def _old_rows_stay(program: Program, plan: DeltaPlan) -> Program | None:
    """What the target holds of a touched partition is not taken back."""
    if plan.graph is None or plan.graph.windowing is None:
        return None
    *others, last = program.regroup
    new = last.sql.split("UNION ALL")[0]
    return replace(program, regroup=(*others, replace(last, sql=new)))


def _all_partitions_new(program: Program, plan: DeltaPlan) -> Program | None:
    """The rows of other partitions that were read along are taken for new ones."""
    if plan.graph is None or plan.graph.windowing is None:
        return None
    *others, last = program.regroup
    loose = last.sql.replace("LEFT SEMI JOIN", "LEFT JOIN", 1)
    return replace(program, regroup=(*others, replace(last, sql=loose)))


def _ties_unseen(plan: DeltaPlan) -> DeltaPlan | None:
    windowing = plan.graph.windowing if plan.graph else None
    if windowing is None or not any(order.compared for order in windowing.orders):
        return None
    return _graph(plan, windowing=replace(windowing, orders=()))


MUTANTS = (
    Mutant("partitions read at the previous epoch", plan=_other_partitions),
    Mutant("filters on windows dropped", plan=_unfiltered),
    Mutant("the target's rows of a partition stay", program=_old_rows_stay),
    Mutant("rows of untouched partitions added", program=_all_partitions_new, seed=10),
    Mutant("an outer view as an inner one", plan=_not_outer, seed=294),
    Mutant("filters on generated columns dropped", plan=_every_row_generated, seed=41),
    Mutant("rows that tie unseen", plan=_ties_unseen, seed=82),
)


@pytest.mark.parametrize("number", range(len(MUTANTS)), ids=[m.name for m in MUTANTS])
def test_a_known_mistake_is_caught(number: int) -> None:
    """Some epoch of some case shows each mistake."""
    tried, mutant = 0, MUTANTS[number]
    for seed in range(mutant.seed, mutant.seed + 400):
        case = draw(seed, make=generate_layers)
        try:
            if bind(case.query, {t.name: t.names for t in case.tables}).graph is None:
                continue
        except DeltaJoinError:
            continue
        for outcome in check(case, mutant):
            tried += 1
            if outcome.problem:
                print(f"\n{mutant.name}: caught at seed {seed}, {tried} epochs with it")
                return
    pytest.fail(f"{tried} epochs did not show: {mutant.name}")


def test_a_seed_gives_the_same_case() -> None:
    for seed in range(30):
        assert to_json(generate_layers(seed)) == to_json(generate_layers(seed))
