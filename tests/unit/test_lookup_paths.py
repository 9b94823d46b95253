"""Epoch orders against a count of the reads they make, shared lookups, paths expected empty."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from deltajoin.audit.render import path_lines
from deltajoin.delta import lookup_order
from deltajoin.delta.epoch_order import OLD, SCANNED, SNAPSHOT, epoch_order
from deltajoin.delta.lookup_paths import lookup_paths
from deltajoin.delta.path import LookupPath, SourceVersion
from deltajoin.delta.sharing import lookups_executed, shared_ends
from deltajoin.emit.sql import build_program
from deltajoin.graph import JoinGraph
from deltajoin.planner import lookup
from deltajoin.planner.solver import STRATEGIES
from deltajoin.planner.statistics import Statistics
from deltajoin.runtime.lookup import more_than_sent
from deltajoin.sql.bind import bind
from tests.unit import flights
from tests.unit.test_search import random_case

DAY = {"flights": 900, "weather": 80, "planes": 1}


def versions_of(graph: JoinGraph, statistics: Statistics, changed: Sequence[str]) -> Any:
    return {
        name: SourceVersion(
            source=name,
            location=name,
            table_id="",
            version=8 if name in changed else 6,
            previous=6,
            columns=(),
            rows=statistics.rows[name],
            change_rows=10,
        )
        for name in graph.sources
    }


def seconds(paths: Sequence[LookupPath], statistics: Statistics) -> float:
    """What the reads of changed tables cost, counted on the paths themselves."""
    steps = [step for path in paths for step in path.steps]
    changed = {path.source for path in paths}
    read = {(s.source, s.version) for s in steps if s.source in changed}
    old = [s.source for s in steps if s.epoch == "previous"]
    scanned = sum(SCANNED * statistics.table_rows(source) for source, _ in read)
    looked_up = sum(OLD * statistics.table_rows(source) for source in old)
    return scanned + SNAPSHOT * len(set(old)) + looked_up


def test_the_epoch_order_is_the_cheapest_of_all_permutations() -> None:
    for seed in range(24):
        graph, statistics = random_case(seed, 5)
        if seed % 2:
            graph = replace(
                graph,
                relations=tuple(
                    replace(r, source="r0" if r.name == "r4" else r.source) for r in graph.relations
                ),
            )
        sources = sorted(graph.sources)
        changed = random.Random(seed).sample(sources, random.Random(seed).randrange(1, 5))
        versions = versions_of(graph, statistics, changed)
        names = sorted(relation.name for relation in graph.relations)

        def cost(
            order: tuple[str, ...],
            graph: JoinGraph = graph,
            statistics: Statistics = statistics,
            versions: Any = versions,
        ) -> float:
            return seconds(lookup_paths(graph, statistics, order, versions), statistics)

        chosen, _ = epoch_order(graph, statistics, versions)
        assert sorted(chosen) == names
        best = min(cost(order) for order in itertools.permutations(names))
        assert cost(chosen) == pytest.approx(best, rel=1e-6), seed


def test_many_changed_tables_are_ordered_by_size_and_swaps() -> None:
    graph, statistics = random_case(3, 40)
    versions = versions_of(graph, statistics, graph.sources)
    order, _ = epoch_order(graph, statistics, versions)
    assert sorted(order) == sorted(r.name for r in graph.relations)
    largest = max(statistics.table_rows(name) for name in order)
    assert statistics.table_rows(order[-1]) == largest


def test_the_largest_changed_table_is_read_at_this_epoch_only() -> None:
    plan = flights.daily_plan({**DAY, "airports": 1})
    reads = {(s.source, s.epoch) for path in plan.paths for s in path.steps}
    assert ("flights", "this") in reads
    assert ("flights", "previous") not in reads


# sharing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "apart", "together"),
    [
        ({"planes": 1}, 5, 5),
        ({"flights": 900, "weather": 80}, 10, 6),
        (DAY, 15, 9),
        ({**DAY, "airports": 3}, 25, 18),
    ],
)
def test_lookups_of_the_flights_model(changed: dict[str, int], apart: int, together: int) -> None:
    plan = flights.daily_plan(changed)
    assert sum(len(path.steps) for path in plan.paths) == apart
    assert lookups_executed(plan.paths) == together
    program = build_program(plan)
    parts = (*program.paths, *program.shared)
    assert sum(s.relation is not None for part in parts for s in part.statements) == together


def test_shared_ends_are_what_any_two_paths_have_in_common() -> None:
    """Each end is checked against the definition, pair by pair."""
    seen = 0
    for seed in range(150):
        graph, statistics = random_case(seed, 6)
        rng = random.Random(seed)
        versions = versions_of(graph, statistics, rng.sample(graph.sources, rng.randrange(2, 5)))
        order = tuple(rng.sample(graph.sources, 6))
        paths = lookup_paths(graph, statistics, order, versions, rng.choice(STRATEGIES))
        for one, other in itertools.combinations(paths, 2):
            for k, (mine, its) in enumerate(zip(one.steps, other.steps, strict=True)):
                ends = [
                    [(s.relation, s.version, s.on) for s in path.steps[k:]] for path in (one, other)
                ]
                shared = ends[0] == ends[1]
                seen += shared
                assert (other.driver in mine.shared_with) == shared
                assert (one.driver in its.shared_with) == shared
        covered = [
            (paths[number].driver, len(paths[number].steps) - ahead)
            for end in shared_ends(paths)
            for number in end.paths
            for ahead in range(end.first, end.last, -1)
        ]
        marked = [(p.driver, k) for p in paths for k, s in enumerate(p.steps) if s.shared_with]
        assert sorted(covered) == sorted(marked)
    assert seen > 200


def test_a_selective_lookup_is_not_put_off_for_sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Separate orders stay where the rows saved outweigh the lookups shared."""
    monkeypatch.setattr(lookup_order, "LOOKUP", 0.0)
    paths = flights.daily_plan(DAY).paths
    assert [step.relation for step in paths[0].steps] == ["f", "a", "d", "o", "w"]


# references ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Referring(Statistics):
    references: tuple[Any, ...] = ((("flights", ("tailnum",)), ("planes", ("tailnum",))),)


def planes_path(kind: str, changed: dict[str, int], references: bool = True) -> LookupPath:
    plan = flights.daily_plan(changed)
    assert plan.graph is not None
    versions = {
        s.source: replace(s, change_kind=kind if s.source == "planes" else "mutating")
        for s in plan.sources
    }
    given = (plan.graph, flights.ROWS, dict(plan.keys))
    statistics = (Referring if references else Statistics)(given[1], given[2])
    paths = lookup_paths(given[0], statistics, plan.epoch_order, versions)
    return next(path for path in paths if path.driver == "p")


def test_a_gained_row_that_nothing_refers_to_is_expected_to_give_none() -> None:
    path = planes_path("insert_only", {"planes": 5})
    assert path.expected_empty.startswith("flights refers to planes by tailnum")
    assert path.steps  # it is executed all the same
    shown = path_lines(path.to_dict())
    assert any("expected empty" in line for line in shown)


@pytest.mark.parametrize(
    ("kind", "changed", "references"),
    [
        ("mutating", {"planes": 5}, True),
        ("insert_only", {"planes": 5}, False),
        ("insert_only", {"planes": 5, "flights": 100}, True),  # reads flights at this epoch
    ],
)
def test_otherwise_rows_may_come(kind: str, changed: dict[str, int], references: bool) -> None:
    assert planes_path(kind, changed, references).expected_empty == ""


# conditions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a.k FROM a JOIN b ON a.k = b.k WHERE a.v <> b.v AND 10 / (a.v - b.v) > 1",
        "SELECT a.k FROM a JOIN b ON a.v <> b.v AND 10 / (a.v - b.v) > 1 AND a.k = b.k",
        "SELECT a.k, b.v FROM a LEFT JOIN b ON a.k = b.k AND a.v <> b.v AND 10 / (a.v - b.v) > 1",
        "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k AND a.v <> b.v WHERE 10 / (a.v - b.v) > 1",
        "SELECT a.k, b.v FROM a LEFT JOIN b ON a.k = b.k WHERE a.v <> b.v AND 10 / (a.v - b.v) > 1",
        "SELECT b.k FROM b WHERE EXISTS (SELECT 1 FROM a WHERE a.k = b.k AND a.v <> b.v "
        "AND 10 / (a.v - b.v) > 1)",
    ],
)
def test_what_guards_a_condition_stands_before_it(query: str) -> None:
    graph = bind(query, {"a": ("k", "v"), "b": ("k", "v")}).graph
    assert graph is not None
    statistics = Statistics({"a": 1000, "b": 10}, {})
    versions = versions_of(graph, statistics, graph.sources)
    paths = lookup_paths(graph, statistics, ("a", "b"), versions)
    guarded = [step.on for path in paths for step in path.steps if len(step.on) > 1]
    assert guarded
    for on in guarded:
        assert " <> " in on[-2], on
        assert "10 / " in on[-1], on


def test_up_to_how_many_rows_of_a_change_its_path_may_be_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So many that all that the path broadcasts stays small, as far as estimates are linear."""
    assert not any(path.sent for path in build_program(flights.daily_plan(DAY)).paths)
    monkeypatch.setattr(lookup, "LARGE_TABLE_ROWS", 1000)
    monkeypatch.setattr(lookup, "BROADCAST_ROWS", 4000)

    def planes(rows: int) -> tuple[int, int]:
        program = build_program(flights.daily_plan({"planes": rows}))
        (path,) = program.paths
        return path.sent, sum(part.sql.count("BROADCAST(") for part in path.statements)

    most, hints = planes(10)
    assert 10 < most < 1000, "a plane has several flights"
    assert hints > 1
    assert planes(most - most // 50)[1] == hints
    assert planes(most + most // 50)[1] < hints


def test_changes_of_more_rows_than_their_paths_may_send() -> None:
    program = {
        "paths": [
            {"driver": "o", "feed": "orders_changes", "sent": 5},
            {"driver": "c", "feed": "c"},
        ],
        "derived": [{"paths": [{"driver": "d", "feed": "d", "sent": 9}]}],
    }
    assert more_than_sent(program, {"orders_changes": 5, "c": 1000}) == []
    found = more_than_sent(program, {"orders_changes": 6, "c": 1000, "d": 10})
    assert found == [("o", 6), ("d", 10)]


@pytest.mark.parametrize(
    ("join", "keys", "match"),
    [
        ("LEFT JOIN b ON a.k = b.k AND a.x >= b.x", ("k", "x"), ()),
        (
            "LEFT JOIN b ON a.k = b.k AND a.x >= b.x AND (a.x < b.y OR b.y IS NULL) AND a.y > 1",
            ("k", "x"),
            ("(`a`.`x` < `b`.`y` OR `b`.`y` IS NULL)", "`a`.`y` > 1"),
        ),
        ("LEFT ANTI JOIN b ON startswith(a.s, b.s)", (), ("startswith(`a`.`s`, `b`.`s`)",)),
        ("LEFT SEMI JOIN b ON abs(a.x - b.x) <= 5", (), ("abs(`a`.`x` - `b`.`x`) <= 5",)),
        ("LEFT JOIN b ON b.x > 1", None, ()),
    ],
)
def test_what_a_change_of_the_other_side_enters_by(
    join: str, keys: tuple[str, ...] | None, match: tuple[str, ...]
) -> None:
    """The whole condition, as far as both relations decide it; where it says nothing of both, all
    rows are read."""
    columns = {"a": ("id", "k", "x", "y", "s"), "b": ("k", "x", "y", "s")}
    types = {
        (t, c): "string" if c == "s" else "bigint" for t, names in columns.items() for c in names
    }
    graph = bind(f"SELECT a.id, a.k FROM a {join}", columns, types).graph
    assert isinstance(graph, JoinGraph)
    statistics = Statistics({"a": 1000, "b": 1000}, {}, types=types)
    (path,) = lookup_paths(graph, statistics, ("a", "b"), versions_of(graph, statistics, ["b"]))
    first = path.steps[0]
    assert first.kind == ("scan" if keys is None else "enter")
    assert tuple(mine.split(".")[1].strip("`") for _, mine, _ in first.keys) == (keys or ())
    assert first.match == match
