"""When a plan carries a comparison, and that its job says the same."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from deltajoin.catalog import Column, PlainFiles, TargetState
from deltajoin.catalog.statistics import FileStatistics
from deltajoin.delta.plan import DeltaPlan
from deltajoin.delta.shadow import with_shadow
from deltajoin.emit.job import describe_job, job_source
from deltajoin.emit.sql import build_program
from tests.unit import flights
from tests.unit.test_plan import job_values

DAY = {"flights": 900, "planes": 1}


def state(plan: DeltaPlan) -> TargetState:
    """A target at version 4 in which some columns are floats, also a hidden one."""
    types = {"dep_delay": "double", "temp": "float", "dest": "struct<a:double>"}
    columns = [Column(n, types.get(n, "string"), True) for n in plan.target.columns]
    return TargetState("/data/out", "t", 4, (*columns, Column("h", "double", True)), (), ())


def shadowed(**changes: object) -> DeltaPlan:
    plan = replace(flights.daily_plan(DAY), **{"mode": "shadow", **changes})
    return with_shadow(plan, state(plan))


def test_only_an_incremental_run_in_this_mode_is_compared() -> None:
    plan = shadowed()
    assert plan.shadow is not None
    assert plan.shadow.floats == (("dep_delay", 1e-9), ("temp", 1e-6))
    for other in (shadowed(mode="incremental"), shadowed(strategy="full")):
        assert other.shadow is None
        assert "shadow" not in other.to_dict()
        assert build_program(other).shadow is None
    assert with_shadow(plan, None) is plan


@pytest.mark.parametrize("keys", [flights.KEYS, {}], ids=["keyed", "bag"])
def test_every_version_is_opened_once_and_the_job_says_the_same(keys: dict[str, list[str]]) -> None:
    first = flights.first_plan(flights.model(keys=keys, mode="shadow"))
    plan = flights.daily_plan(DAY, first)
    plan = with_shadow(plan, state(plan))
    program = build_program(plan)
    assert program.shadow is not None
    views = [scan.view for scan in (*program.scans, *program.shadow.scans)]
    assert len(set(views)) == len(views)
    assert {f"{s.source}_v{s.version}" for s in plan.sources} <= set(views)
    assert program.shadow.scans[-1].view == "target_before"
    assert program.shadow.scans[-1].version == plan.target.version

    (seen,) = program.shadow.comparisons
    written = seen.sql
    for one in plan.sources:
        written = written.replace(f"`{one.source}_v{one.version}`", one.source)
    assert written == plan.sql

    source = job_source(plan)
    job = json.loads(json.dumps(describe_job(plan)))
    assert job_values(source) == {
        **job_values(source),
        "PLAN": job["plan"],
        "PROGRAM": job["program"],
    }
    assert "COMPARE = " in source
    assert job_source(plan) == source


def test_what_the_run_reads_as_files_is_compared_through_delta() -> None:
    plan = shadowed()
    actions = pa.record_batch({"path": ["part-0.parquet"]})
    files = PlainFiles(("/data/airports/part-0.parquet",), FileStatistics(actions))
    sources = tuple(
        replace(s, plain=((s.version, files),)) if s.source == "airports" else s
        for s in plan.sources
    )
    program = build_program(replace(plan, sources=sources))
    assert program.shadow is not None
    opened = {scan.view: scan.static for scan in program.scans}
    again = {scan.view: scan.static for scan in program.shadow.scans}
    airports = next(view for view in again if view.startswith("airports"))
    assert opened[airports] is not None
    assert opened[airports].paths == files.paths
    assert again[airports] is None
    assert not {"weather_v8", "planes_v8", "flights_v8"} & opened.keys() & again.keys()
