"""Pinned orders: kept under drift of statistics, given up with a note when clearly dearer."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from deltajoin.audit.render import path_lines
from deltajoin.delta.epoch_order import epoch_order
from deltajoin.delta.lookup_paths import lookup_paths
from deltajoin.delta.path import LookupPath, SourceVersion
from deltajoin.delta.pinning import Pins, order_within
from deltajoin.delta.sharing import lookups_executed
from deltajoin.graph import JoinGraph, Predicate, Relation
from deltajoin.planner.kept import KEEP, holds
from deltajoin.planner.statistics import Statistics
from deltajoin.sql.bind import bind
from tests.unit.test_lookup_paths import versions_of
from tests.unit.test_search import random_case

Paths = tuple[LookupPath, ...]
Versions = dict[str, SourceVersion]


def drifted(
    statistics: Statistics, versions: Versions, rng: random.Random
) -> tuple[Statistics, Versions]:
    """Every row count and every change up to half up or down, each for itself."""

    def near(rows: int | None) -> int:
        return max(1, round((rows or 0) * rng.uniform(0.5, 1.5)))

    rows = {name: near(count) for name, count in sorted(statistics.rows.items())}
    moved = {
        n: replace(v, rows=rows[n], change_rows=near(v.change_rows)) for n, v in versions.items()
    }
    return Statistics(rows, statistics.keys), moved


def planned(
    graph: JoinGraph, statistics: Statistics, versions: Versions, pins: Pins | None = None
) -> Paths:
    order, _ = epoch_order(graph, statistics, versions, pins=pins)
    return lookup_paths(graph, statistics, order, versions, pins=pins)


def pins_of(*runs: Paths) -> Pins:
    return Pins.of([[path.to_dict() for path in run] for run in runs])


def shape(paths: Paths) -> list[tuple[str, tuple[tuple[str, str], ...]]]:
    return [(p.driver, tuple((s.relation, s.epoch) for s in p.steps)) for p in paths]


def test_a_drift_by_half_never_flips_a_pinned_plan() -> None:
    unpinned = 0
    for seed in range(60):
        graph, statistics = random_case(seed, 6)
        rng = random.Random(seed)
        versions = versions_of(graph, statistics, rng.sample(sorted(graph.sources), 3))
        first = planned(graph, statistics, versions)
        for _ in range(5):
            now, moved = drifted(statistics, versions, rng)
            unpinned += shape(planned(graph, now, moved)) != shape(first)
            again = planned(graph, now, moved, pins_of(first))
            assert shape(again) == shape(first), seed
            assert not any(path.replanned for path in again)
    assert unpinned > 10, "the drift must be one that flips plans that are not pinned"


def star(rows: dict[str, int]) -> tuple[JoinGraph, Statistics]:
    """f with two relations that hold few of its thousand values."""
    predicates = tuple(
        Predicate(f"`f`.`{n}` = `{n}`.`k`", "edge", (("f", n), (n, "k")), ("f", n), (n, "k"))
        for n in ("a", "b")
    )
    relations = (
        Relation("f", "f", ("a", "b")),
        Relation("a", "a", ("k",)),
        Relation("b", "b", ("k",)),
    )
    hints = {"distinct": {f"f.{n}": 1000 for n in ("a", "b")}}
    return JoinGraph(relations, predicates, ()), Statistics(rows, {}, hints=hints)


@pytest.mark.parametrize(("grown", "kept"), [(1.5, True), (0.5, True), (100.0, False)])
def test_a_hundredfold_replans_and_says_so(grown: float, kept: bool) -> None:
    sizes = {"f": 50_000_000, "a": 10, "b": 11}
    graph, statistics = star(sizes)
    versions = versions_of(graph, statistics, ["f"])
    versions = {n: replace(v, change_rows=5_000_000) for n, v in versions.items()}
    first = planned(graph, statistics, versions)
    assert [s.relation for s in first[0].steps] == ["a", "b"]
    graph, statistics = star({**sizes, "a": round(10 * grown)})
    (again,) = planned(graph, statistics, versions, pins_of(first))
    assert ([s.relation for s in again.steps] == ["a", "b"]) is kept
    assert bool(again.replanned) is not kept
    if not kept:
        assert again.replanned.startswith("Δf: old cost ")
        assert any(again.replanned in line for line in path_lines(again.to_dict()))


def test_shared_ends_stay_shared_when_paths_are_pinned() -> None:
    for seed in range(20):
        graph, statistics = random_case(seed, 6)
        versions = versions_of(graph, statistics, sorted(graph.sources)[:3])
        first = planned(graph, statistics, versions)
        again = planned(graph, statistics, versions, pins_of(first))
        assert shape(again) == shape(first)
        assert lookups_executed(again) == lookups_executed(first)


OUTER = """SELECT f.id, d.v FROM f JOIN a ON f.a = a.k JOIN b ON f.b = b.k LEFT JOIN d ON d.k = f.id
UNION ALL SELECT b.k, a.v FROM b JOIN f ON f.b = b.k JOIN a ON f.a = a.k"""
COLUMNS = {"f": ("id", "a", "b"), "a": ("k", "v"), "b": ("k", "v"), "d": ("k", "v")}


def outer_case(rows: dict[str, int | None]) -> tuple[JoinGraph, Statistics, Versions]:
    """A union whose first branch is entered by a change of `d`; `f` and `d` changed."""
    types = {(table, name): "int" for table, names in COLUMNS.items() for name in names}
    graph = bind(OUTER, COLUMNS, types).graph
    assert graph is not None
    statistics = Statistics(rows, {})
    return graph, statistics, versions_of(graph, statistics, ["f", "d"])


def lookups(paths: Paths) -> dict[tuple[str, int], list[str]]:
    return {(p.driver, p.branch): [s.relation for s in p.steps] for p in paths}


def test_paths_through_outer_joins_and_unions_are_pinned_each_in_its_branch() -> None:
    graph, statistics, versions = outer_case({"f": 900, "a": 50, "b": 50, "d": 70})
    found = lookups(planned(graph, statistics, versions))
    assert found == {
        ("f", 0): ["a", "b", "d"],
        ("d", 0): ["f", "a", "b", "d"],
        ("f_2", 1): ["a_2", "b_2"],
    }
    other = {"a": "b", "b": "a", "a_2": "b_2", "b_2": "a_2"}
    turned = {at: [other.get(name, name) for name in names] for at, names in found.items()}
    run = [
        {"driver": driver, "branch": branch, "steps": [{"relation": name} for name in names]}
        for (driver, branch), names in turned.items()
    ]
    assert lookups(planned(graph, statistics, versions, Pins.of([run]))) == turned


def test_without_a_row_count_paths_through_unions_keep_the_written_order() -> None:
    graph, statistics, versions = outer_case({"f": 900, "a": 50, "b": None, "d": 70})
    found = lookups(planned(graph, statistics, versions))
    assert (found["f", 0], found["f_2", 1]) == (["a", "b", "d"], ["b_2", "a_2"])


def test_only_a_like_epoch_pins() -> None:
    graph, statistics = random_case(4, 5)
    some, other = sorted(graph.sources)[:2], sorted(graph.sources)[2:4]
    pins = pins_of(planned(graph, statistics, versions_of(graph, statistics, some)))
    path = pins.path(some[0], 0, some)
    assert order_within(graph, path, some[0]) == path
    assert order_within(graph, path, some[1]) is None
    assert pins.path(other[0], 0, other) == ()
    assert pins.epoch_order(other) is None
    larger, _ = random_case(4, 6)
    assert order_within(larger, path, some[0]) is None


def test_the_newest_like_epoch_counts() -> None:
    one, other = ("f", "a", "b"), ("f", "b", "a")
    runs = [
        [{"driver": "f", "steps": [{"relation": name} for name in order[1:]]}]
        for order in (one, other)
    ]
    assert Pins.of(runs).path("f", 0, ["f"]) == one
    assert Pins.of(runs[::-1]).path("f", 0, ["f"]) == other
    assert holds(KEEP, 1.0)
    assert not holds(KEEP * 1.01, 1.0)
