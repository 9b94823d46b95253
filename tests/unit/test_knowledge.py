"""What the planner is told of the sources: sizes, declarations in schema spelling, earlier runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from deltajoin.catalog import TargetCommit, TargetState
from deltajoin.delta.build import Inputs, build_plan
from deltajoin.delta.knowledge import (
    earlier_paths,
    earlier_within,
    gather_statistics,
    last_sketches,
)
from deltajoin.delta.lookup_paths import lookup_paths
from deltajoin.errors import DeltaJoinError
from deltajoin.model import Model
from deltajoin.planner.statistics import Measured, Statistics
from deltajoin.sql.bind import bind
from tests.unit import flights

TABLES = {name: flights.table(name) for name in flights.COLUMNS}
NAMES = tuple(sorted(TABLES))


def declared(
    sources: Sequence[str],
    references: Mapping[str, str] | None = None,
    hints: Mapping[str, Mapping[str, float]] | None = None,
) -> Model:
    """A model of these sources, with what it says of them."""
    places = {name: f"/{name}" for name in sources}
    return Model("m", "SELECT 1", places, "/t", references=references or {}, hints=hints or {})


def gathered(
    references: Mapping[str, str] | None = None,
    hints: Mapping[str, Mapping[str, float]] | None = None,
) -> Statistics:
    return gather_statistics(TABLES, {}, declared(NAMES, references or {}, hints or {}))


def test_sizes_come_from_the_states() -> None:
    found = gathered()
    assert found.rows == flights.ROWS
    assert found.bytes["planes"] == 332_200


def test_references_and_hints_are_found_in_schema_spelling() -> None:
    found = gathered(
        {
            "Flights.Carrier": "airlines.CARRIER",
            "flights.origin, time_hour": "weather.origin,time_hour",
        },
        {"rows": {"FLIGHTS": 5}, "distinct": {"flights.Dest": 90}},
    )
    assert found.references == (
        (("flights", ("carrier",)), ("airlines", ("carrier",))),
        (("flights", ("origin", "time_hour")), ("weather", ("origin", "time_hour"))),
    )
    assert found.hints == {"rows": {"flights": 5}, "distinct": {"flights.dest": 90}}


def test_declarations_of_tables_that_are_not_read_are_left_out() -> None:
    model = declared(
        (*NAMES, "staff"),
        {"staff.carrier": "airlines.carrier"},
        {"distinct": {"staff.id": 3}},
    )
    found = gather_statistics(TABLES, {}, model)
    assert (found.references, found.hints["distinct"]) == ((), {})


@pytest.mark.parametrize(
    ("references", "hints", "code"),
    [
        ({"flights.carrier": "airlines.nothing"}, {}, "UNKNOWN_REFERENCE"),
        ({"flights.carrier": "nothing.carrier"}, {}, "UNKNOWN_REFERENCE"),
        ({"flights": "airlines.carrier"}, {}, "UNKNOWN_REFERENCE"),
        ({"flights.carrier": "weather.origin, time_hour"}, {}, "UNKNOWN_REFERENCE"),
        ({}, {"rows": {"nothing": 1}}, "UNKNOWN_HINT"),
        ({}, {"rows": {"flights": "many"}}, "UNKNOWN_HINT"),
        ({}, {"rows": {"flights": float("nan")}}, "UNKNOWN_HINT"),
        ({}, {"rows": {"flights": -1}}, "UNKNOWN_HINT"),
        ({}, {"bytes": {"flights": 1}}, "UNKNOWN_HINT"),
        ({}, {"distinct": {"flights.nothing": 1}}, "UNKNOWN_HINT"),
        ({}, {"distinct": {"flights": 1}}, "UNKNOWN_HINT"),
    ],
)
def test_what_is_not_there_is_refused(
    references: dict[str, str], hints: dict[str, dict[str, float]], code: str
) -> None:
    with pytest.raises(DeltaJoinError) as refused:
        gathered(references, hints)
    assert refused.value.code == code


def state(*records: dict[str, object]) -> TargetState:
    """A target whose commits carry some records, newest first."""
    commits = tuple(
        TargetCommit(
            version=len(records) - i,
            timestamp_ms=0,
            operation="MERGE",
            metrics={},
            user_metadata=json.dumps({"deltajoin": {"epoch": len(records) - i, **record}}),
            data_change=True,
        )
        for i, record in enumerate(records)
    )
    return TargetState("/data/out", "id", len(records), (), (), commits)


def counted(driver: str, rows: int, *out: tuple[str, int]) -> dict[str, object]:
    steps = [{"relation": relation, "rows_out": n} for relation, n in out]
    return {"driver": driver, "change_rows": rows, "steps": steps}


def test_earlier_paths_are_those_of_the_same_definition() -> None:
    one, two = [counted("f", 3, ("a", 3))], [counted("f", 5, ("a", 5))]
    target = state(
        {"fingerprint": "now", "paths": one},
        {"fingerprint": "now", "paths": []},
        {"fingerprint": "before", "paths": two},
        {"fingerprint": "now", "paths": two},
    )
    foreign = TargetCommit(9, 0, "OPTIMIZE", {}, None, False)
    target = replace(target, commits=(foreign, *target.commits))
    assert earlier_paths(target, "now") == (one, two)
    assert earlier_paths(None, "now") == ()


def test_paths_within_derived_sources_are_kept_apart() -> None:
    one, two = [counted("f", 3, ("a", 3))], [counted("f", 5, ("a", 5))]
    quiet = {"source": "u", "touched": None, "paths": []}
    target = state(
        {"fingerprint": "now", "derived": [{"source": "t", "touched": 1, "paths": one}, quiet]},
        {"fingerprint": "now"},
        {"fingerprint": "before", "derived": [{"source": "t", "touched": 2, "paths": two}]},
        {"fingerprint": "now", "derived": [{"source": "t", "touched": 2, "paths": two}]},
    )
    assert earlier_within(target, "now") == {"t": [one, two]}
    assert earlier_within(None, "now") == {}


def test_sketches_are_those_of_the_last_epoch_of_the_definition() -> None:
    """A column of few values keeps them while its table grows; a unique one grows with it."""
    rows = flights.ROWS["flights"]
    counted = {"rows": rows // 2, "columns": {"carrier": 16, "tailnum": rows // 2}}
    target = state(
        {"fingerprint": "before", "sketches": {"flights": {"rows": 1, "columns": {}}}},
        {"fingerprint": "now", "sketches": {"flights": counted, "gone": counted}},
    )
    assert last_sketches(target, "other") == last_sketches(None, "now") == {}
    model = declared(NAMES, {}, {"distinct": {"flights.carrier": 900}})
    found = gather_statistics(TABLES, {}, model, (), last_sketches(target, "now"))
    carrier, tail = (found.distinct("flights", name) for name in ("carrier", "tailnum"))
    assert carrier.source == tail.source == "sketch"
    assert 16 <= carrier.value < 20
    assert tail.value == pytest.approx(found.table_rows("flights"))


def test_columns_are_judged_at_any_depth() -> None:
    """By filters, conditions of outer joins, in subqueries, in branches; not by groups."""
    graph = bind(
        """
        SELECT f.dest, w.temp FROM flights AS f
        LEFT JOIN weather AS w ON w.origin = f.origin AND w.temp > 3
        JOIN (SELECT p.manufacturer, count(*) AS n FROM planes AS p
              WHERE p.year > 1990 GROUP BY p.manufacturer) AS m ON m.n = f.flight
        UNION ALL
        SELECT g.tailnum, g.dep_delay FROM flights AS g WHERE g.carrier = 'UA'
        """,
        {name: tuple(c.name for c in table.columns) for name, table in TABLES.items()},
        {(name, c.name): c.type for name, table in TABLES.items() for c in table.columns},
    ).graph
    assert graph is not None
    judged = {source: graph.judged_columns(source) for source in graph.sources}
    assert judged == {
        "flights": ("carrier", "flight", "origin"),
        "planes": ("year",),
        "weather": ("origin", "temp"),
    }


def test_a_sketch_has_no_more_values_than_its_table_has_rows() -> None:
    rows = flights.ROWS["airlines"]
    counted = {"airlines": {"rows": rows, "columns": {"name": 10 * rows}}}
    found = gather_statistics(TABLES, {}, declared(NAMES), (), counted)
    assert found.distinct("airlines", "name").value == rows


def test_what_was_measured_changes_the_next_path() -> None:
    plan = flights.daily_plan({"planes": 10})
    assert plan.graph is not None
    before = plan.paths[0]
    assert [step.relation for step in before.steps][0] == "f"
    seen = {("p", frozenset({"p"}), "f"): Measured(100, 70_000, 1)}
    versions = {s.source: s for s in plan.sources}
    statistics = Statistics(flights.ROWS, dict(plan.keys), measured=seen)
    after = lookup_paths(plan.graph, statistics, plan.epoch_order, versions)[0]
    assert before.steps[0].estimated_rows == pytest.approx(81, abs=1)
    assert after.steps[0].estimated_rows == pytest.approx(7_000, rel=0.02)


def test_a_table_of_unknown_size_is_named_in_a_warning() -> None:
    tables = {**TABLES, "weather": replace(TABLES["weather"], rows=None)}
    plan = build_plan(flights.model(), Inputs(tables, "/data/out", None, False))
    assert plan.warnings == (
        "weather has no row count in its log and no hint: the joins keep their written order",
    )
