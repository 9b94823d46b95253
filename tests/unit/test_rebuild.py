"""Which rebuilds are written by difference, and what such a job says."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import deltajoin
from deltajoin.catalog import Column, TargetCommit, TargetState
from deltajoin.delta.build import Inputs, build_plan
from deltajoin.delta.format import RULES
from deltajoin.delta.plan import DeltaPlan
from deltajoin.delta.rebuild import FEW_ROWS, REMEMBERED, is_groupable, plan_rebuild
from deltajoin.delta.strategy import Decision
from deltajoin.emit.job import job_source
from deltajoin.graph import Stamp
from tests.unit import flights

TOP = "SELECT p.year, p.manufacturer FROM planes p ORDER BY p.year LIMIT 3"
COLUMNS = (Column("year", "int", True), Column("manufacturer", "string", True))
PROPERTIES = (
    ("delta.enableChangeDataFeed", "true"),
    ("deltajoin.format", "1"),
    ("deltajoin.model", "flights_enriched"),
)


def started(seconds: int) -> str:
    """So long before the commits below."""
    return (datetime.fromtimestamp(0, UTC) - timedelta(seconds=seconds)).isoformat()


def record(mark: str, epoch: int, **more: Any) -> dict[str, Any]:
    """What the commit of an epoch carries; its sources are those of another table."""
    planes = {"location": "/data/planes", "id": "another", "version": 1, "columns": []}
    return {
        "epoch": epoch,
        "fingerprint": mark,
        "strategy": "full",
        "columns": [column.name for column in COLUMNS],
        "kind": "plain",
        "format": 1,
        "rules": RULES,
        "frontier": {"planes": planes},
        "settings": {},
        "started_at": started(1),
        **more,
    }


def commits(records: list[dict[str, Any]]) -> tuple[TargetCommit, ...]:
    """Of these records, the newest first."""
    return tuple(
        TargetCommit(i, 0, "WRITE", {}, json.dumps({"deltajoin": one}), True)
        for i, one in reversed(list(enumerate(records)))
    )


def planned(
    records: list[dict[str, Any]], columns: tuple[Column, ...] = COLUMNS, mode: str = "auto"
) -> DeltaPlan:
    """The plan over a target whose commits carry these records, the newest last."""
    state = TargetState("/data/out", "id", len(records), columns, PROPERTIES, commits(records))
    model = flights.model(TOP, keys={}, mode=mode)
    return build_plan(model, Inputs({"planes": flights.table("planes")}, "/data/out", state, False))


@pytest.fixture(scope="module")
def mark() -> str:
    return planned([record("", 1)]).fingerprint


def written(plan: DeltaPlan) -> tuple[str, str, str]:
    assert plan.rebuild is not None
    return plan.reason, plan.rebuild.written, plan.rebuild.because


def test_a_rebuild_of_the_same_definition_is_written_by_difference(mark: str) -> None:
    assert written(planned([record(mark, 1)])) == ("SOURCE_RECREATED", "difference", "")


def test_explain_says_how_a_rebuild_is_written(mark: str) -> None:
    same, written_over = (
        "  written by difference: rows that did not",
        "  the whole target is written",
    )
    assert same in deltajoin.explain(planned([record(mark, 1)]))
    columns = (COLUMNS[0], replace(COLUMNS[1], type="map<string,int>"))
    explained = deltajoin.explain(planned([record(mark, 1)], columns))
    assert f"{written_over}: values of type map<string,int> can't be compared" in explained
    first = deltajoin.explain(flights.first_plan())
    assert same not in first
    assert written_over not in first


def test_another_definition_and_a_wish_are_written_over(mark: str) -> None:
    assert written(planned([record("other", 1)])) == ("MODEL_CHANGED", "overwrite", "")
    assert written(planned([record(mark, 1, rules=0)])) == ("RULES_CHANGED", "overwrite", "")
    assert written(planned([record(mark, 1)], mode="full")) == ("FULL_REQUESTED", "overwrite", "")


@pytest.mark.parametrize("kind", ["map<string,int>", "array<variant>", "interval day to second"])
def test_values_that_cannot_be_compared_are_written_over(mark: str, kind: str) -> None:
    columns = (COLUMNS[0], replace(COLUMNS[1], type=kind))
    because = f"values of type {kind} can't be compared (manufacturer)"
    plan = planned([record(mark, 1)], columns)
    assert written(plan) == ("SOURCE_RECREATED", "overwrite", because)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("struct<variant:string,interval_days:int>", True),
        ("array<struct<a:int,variant_id:bigint>>", True),
        ("struct<`x:variant`:int,`map<`:int,`a``:interval`:int>", True),
        ("struct<collate:string>", True),
        ("string collate UTF8_LCASE", False),
        ("struct<a:array<string collate UTF8_LCASE>>", False),
        ("variant", False),
        ("struct<a:variant>", False),
        ("struct<`variant`:array<map<string,int>>>", False),
        ("intervalyeartomonth", False),
        ("struct<a:int,b:interval day to second>", False),
    ],
)
def test_the_names_of_fields_are_no_types(kind: str, expected: bool) -> None:
    assert is_groupable(kind) == expected


def difference(mark: str, epoch: int, rows: int, changed: int) -> dict[str, Any]:
    counts = {"inserted": changed // 2, "updated": changed - changed // 2, "deleted": 0}
    return record(mark, epoch, written="difference", rebuilt_rows=rows, rows=counts)


@pytest.mark.parametrize(
    ("rows", "changed", "expected"),
    [
        (FEW_ROWS, FEW_ROWS // 2 + 1, "overwrite"),
        (FEW_ROWS, FEW_ROWS // 2, "difference"),
        (FEW_ROWS - 1, FEW_ROWS - 1, "difference"),
    ],
)
def test_what_the_last_difference_found(mark: str, rows: int, changed: int, expected: str) -> None:
    """Where most rows change at each rebuild, comparing them all is in vain."""
    assert written(planned([difference(mark, 1, rows, changed)]))[1] == expected


@pytest.mark.parametrize("reason", ["CHANGE_TOO_LARGE", "REBUILD_CHEAPER", "MEANING_DIFFERS"])
@pytest.mark.parametrize("rows", [FEW_ROWS - 1, FEW_ROWS])
def test_a_rebuild_chosen_for_its_cost_is_written_over(mark: str, reason: str, rows: int) -> None:
    """Of many rows, a comparison costs several times what it takes to write them."""
    plan, decision = planned([record(mark, 1)]), Decision("full", reason, "")
    sources = tuple(replace(source, rows=rows) for source in plan.sources)
    state = TargetState("/data/out", "id", 1, COLUMNS, PROPERTIES, ())
    rebuild = plan_rebuild(decision, plan.target, state, sources, mark, {})
    assert rebuild is not None
    over = reason != "MEANING_DIFFERS" and rows == FEW_ROWS
    assert (rebuild.written, bool(rebuild.because)) == ("overwrite" if over else "difference", over)
    stamped = replace(plan.target, stamps=(Stamp("at", "current_timestamp()", 2),))
    rebuild = plan_rebuild(decision, stamped, state, sources, mark, {})
    assert rebuild is not None
    assert rebuild.written == "difference"  # which keeps the stamps of rows that stay


def test_what_was_found_is_remembered_for_ten_rebuilds(mark: str) -> None:
    found = [difference(mark, 1, FEW_ROWS, FEW_ROWS)]
    later = [record(mark, epoch, written="overwrite") for epoch in range(2, REMEMBERED + 2)]
    assert written(planned([*found, *later[:-1]]))[1] == "overwrite"
    assert written(planned([*found, *later]))[1] == "difference"


@pytest.mark.parametrize(
    ("seconds", "rows", "stamps", "expected"),
    [
        (155, FEW_ROWS, (), "overwrite"),
        (155, 2 * FEW_ROWS, (), "difference"),
        (90, FEW_ROWS, (), "difference"),
        (155, FEW_ROWS, (Stamp("at", "current_timestamp()", 2),), "difference"),
    ],
)
def test_a_difference_that_took_too_long_is_given_up(
    mark: str, seconds: int, rows: int, stamps: tuple[Stamp, ...], expected: str
) -> None:
    """Beside the rebuild before it, over so many rows, which took 32 s."""
    frontier = {"planes": {**record(mark, 1)["frontier"]["planes"], "rows": FEW_ROWS}}
    first = record(mark, 1, started_at=started(32), frontier=frontier)
    more = {"planes": {**frontier["planes"], "rows": rows}}
    last = difference(mark, 2, rows, 10) | {"started_at": started(seconds), "frontier": more}
    plan, decision = planned([first, last]), Decision("full", "SOURCE_RECREATED", "")
    state = TargetState("/data/out", "id", 2, COLUMNS, PROPERTIES, commits([first, last]))
    target = replace(plan.target, stamps=stamps)
    rebuild = plan_rebuild(decision, target, state, plan.sources, mark, {})
    assert rebuild is not None
    assert rebuild.written == expected
    told = "the last difference took 5 times as long as a rebuild without one"
    assert rebuild.because == (told if expected == "overwrite" else "")


def test_the_job_of_a_rebuild_by_difference(mark: str, golden: Callable[[str, str], None]) -> None:
    """Floats are compared by their text too; a row that has fewer copies goes and comes again."""
    columns = (replace(COLUMNS[0], type="double"), COLUMNS[1])
    golden("jobs/top_by_difference.py.txt", job_source(planned([record(mark, 1)], columns)))
