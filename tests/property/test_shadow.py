"""The comparison of mode shadow, on DuckDB: silent on right runs, and no known mistake escapes it.

For every epoch of random cases, right or altered by a mutant, it must say that the target after the
run differs from the query exactly when it does. Runs that the MERGE stops itself are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import duckdb
import pytest

from deltajoin.delta.plan import DeltaPlan, Shadow
from deltajoin.emit.comparison import EXTRA, MISSING, ShadowProgram
from deltajoin.emit.narrowing import placed
from deltajoin.emit.sql import Program, build_program
from deltajoin.errors import DeltaJoinError
from deltajoin.sql.bind import bind
from tests.property import mutants, oracle
from tests.property.cases import Case, render_sql
from tests.property.generate import TUNED
from tests.property.oracle import Feeds, Mutant
from tests.property.test_trees import STATE_MUTANTS
from tests.property.trees import generate_groups

CASES = 4
BEFORE, AFTER = "target_before", "to_write"


def shadowed(plan: DeltaPlan) -> DeltaPlan:
    return replace(plan, shadow=Shadow(()))


def verdicts(case: Case, mutant: Mutant | None) -> Iterator[tuple[bool, bool]]:
    """For each epoch: does the target differ after the run, and does shadow say so."""
    sql = render_sql(case)
    query = bind(sql, {t.name: t.names for t in case.tables})
    assert query.graph is not None
    maker = oracle._PlanMaker(case, sql, query.graph)
    for number, (before, state, feeds) in enumerate(oracle.history(case, query.tables)):
        plan = maker.plan(number, oracle._kinds(feeds))
        right = build_program(shadowed(plan))
        work = oracle._mutated(shadowed(plan), feeds, mutant) if mutant else (right, feeds)
        if work is None or plan.strategy == "noop":
            continue
        old, new = oracle.full_rows(case, sql, before), oracle.full_rows(case, sql, state)
        program = replace(work[0], scans=(*work[0].scans, *right.scans), shadow=right.shadow)
        found = verdict(case, plan, sql, program, (before, state), work[1])
        if found is None:
            continue
        try:
            oracle._load(case, program, {1: before, 2: state}, work[1])
            differs = oracle._applied(program, plan.target, old) != new
        except (oracle.Mismatch, duckdb.Error):
            continue
        yield differs, found > 0


def verdict(
    case: Case, plan: DeltaPlan, sql: str, program: Program, states: tuple, feeds: Feeds
) -> int | None:
    """How many rows the emitted comparison counts; None where the statements themselves stop."""
    con, kind = oracle.connection(), plan.target.kind
    oracle.full_rows(case, sql, states[0])
    rows = oracle.to_duckdb(sql)
    if kind == "bag":
        rows = f"SELECT *, count(*) AS __deltajoin_count FROM ({rows}) GROUP BY ALL"
    oracle._register(BEFORE, con.sql(rows).to_arrow_table())
    assert program.shadow is not None
    assert program.shadow.scans[-1].view == BEFORE
    opened = replace(program, scans=(*program.scans, *program.shadow.scans[:-1]))
    oracle._load(case, opened, {1: states[0], 2: states[1]}, feeds)
    views = [(feed.view, feed.sql) for feed in program.feeds]
    ends = []
    for path in program.paths:
        views += [(s.view, s.sql) for s in path.statements]
        ends.append(f'SELECT * FROM "{path.statements[-1].view}"')
    if not ends or program.fold is None:
        return None
    views.append(("path_rows", " UNION ALL ".join(ends)))
    every = placed(views, program.narrowed)
    head = ", ".join(f'"{name}" AS ({oracle.to_duckdb(text)})' for name, text in every)
    try:
        fold = oracle.to_duckdb(program.fold)
        con.execute(f"CREATE OR REPLACE TEMP TABLE {AFTER} AS WITH {head} {fold}")
    except duckdb.Error:
        return None
    return compared(program.shadow)


def compared(shadow: ShadowProgram) -> int:
    """How many rows all comparisons count; what they read stands there."""
    con, count = oracle.connection(), 0
    for one in shadow.comparisons:
        rows, compare = oracle.to_duckdb(one.sql), oracle.to_duckdb(one.compare)
        con.execute(f"CREATE OR REPLACE TEMP TABLE {one.view} AS {rows}")
        total = f'SELECT coalesce(sum("{EXTRA}" + "{MISSING}"), 0) FROM ({compare})'
        ((found,),) = con.execute(total).fetchall()
        count += int(found)
    return count


@pytest.fixture(scope="module")
def told() -> dict[str, Counter[tuple[bool, bool]]]:
    """By mutant, and under "" for right runs: (differs, is told) -> epochs."""
    found: dict[str, Counter[tuple[bool, bool]]] = {}
    for seed in range(CASES):
        case = oracle.draw(seed)
        for mutant in (None, *mutants.MUTANTS):
            verdicts_ = found.setdefault(mutant.name if mutant else "", Counter())
            verdicts_.update(verdicts(case, mutant))
    return found


def test_right_runs_are_silent(told: dict[str, Counter[tuple[bool, bool]]]) -> None:
    assert set(told[""]) == {(False, False)}
    assert told[""].total() >= CASES


def test_mistakes_are_told_exactly_where_they_matter(
    told: dict[str, Counter[tuple[bool, bool]]],
) -> None:
    for name, epochs in told.items():
        assert epochs[True, False] == epochs[False, True] == 0, name
    assert sum(epochs[True, True] for epochs in told.values()) >= CASES


# groups with a state ------------------------------------------------------------------------------


def grouped_verdicts(case: Case, mutant: Mutant | None) -> Iterator[tuple[bool, bool]]:
    """As `verdicts`, of a case with groups; what a target stores must be right, hidden or not."""
    sql = render_sql(case)
    maker = oracle.maker_of(case)
    assert maker is not None
    for number, (before, state, feeds) in enumerate(oracle.history(case, maker.tables)):
        old, new = (oracle._stored(case, maker, sql, at) for at in (before, state))
        plan = maker.plan_or_none(number, oracle._kinds(feeds))
        if plan is None or not plan.paths or plan.regroup:
            continue
        program = build_program(shadowed(plan))
        work = mutant.program(program, plan) if mutant and mutant.program else program
        if work is None or program.shadow is None:
            continue
        scans = (*program.scans, *program.shadow.scans[:-1])
        oracle._load(case, replace(work, scans=scans), {1: before, 2: state}, feeds)
        for view in (BEFORE, "target_stored"):
            oracle._register(view, old)
        con, fold = oracle.connection(), oracle.to_write(work)
        try:
            wrong = oracle._applied(work, plan.target, oracle._rows(old)) != oracle._rows(new)
            con.execute(f"CREATE OR REPLACE TEMP TABLE {AFTER} AS {fold}")
        except (oracle.Mismatch, duckdb.Error):
            continue
        yield wrong, compared(program.shadow) > 0


def test_a_wrong_state_is_told_before_it_shows() -> None:
    """Averages of decimals are another type on DuckDB, so there are none."""
    profile = replace(TUNED, averages=False)
    found: dict[str, Counter[tuple[bool, bool]]] = {}
    for seed in range(8):
        case = oracle.draw(seed, profile, generate_groups)
        try:
            maker = oracle.maker_of(case)
        except (AssertionError, DeltaJoinError):
            continue
        if maker is None or maker.state is None:
            continue
        for mutant in (None, *STATE_MUTANTS):
            verdicts_ = found.setdefault(mutant.name if mutant else "", Counter())
            verdicts_.update(grouped_verdicts(case, mutant))
    assert set(found.pop("")) == {(False, False)}
    for name, epochs in found.items():
        assert epochs[True, False] == epochs[False, True] == 0, name
    assert sum(epochs[True, True] for epochs in found.values()) >= 5
