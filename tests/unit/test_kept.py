"""The whole query's order: kept under drift of statistics, given up with a note when far dearer."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from deltajoin.audit.explain import explanation
from deltajoin.audit.render import render_plan
from deltajoin.catalog import TargetCommit, TargetState
from deltajoin.delta import build
from deltajoin.delta.build import Inputs, build_plan
from deltajoin.delta.epoch_order import epoch_order
from deltajoin.delta.pinning import Pins
from deltajoin.delta.plan import DeltaPlan
from deltajoin.planner.full_query import FullQuery, plan_full_query
from deltajoin.planner.kept import LastOrder
from deltajoin.planner.statistics import Statistics
from deltajoin.runtime.record import order_record
from tests.unit import flights
from tests.unit.joins import graph, join
from tests.unit.test_lookup_paths import versions_of
from tests.unit.test_search import random_case


def order_of(query: FullQuery, statistics: Statistics) -> LastOrder:
    return LastOrder(query.nesting(), dict(statistics.rows))


def drifted(statistics: Statistics, rng: random.Random, least: float, most: float) -> Statistics:
    rows = {
        name: max(1, round((count or 0) * rng.uniform(least, most)))
        for name, count in sorted(statistics.rows.items())
    }
    return Statistics(rows, statistics.keys)


def test_a_drift_by_half_never_flips_the_order_of_the_whole_query() -> None:
    unpinned = kept = 0
    for seed in range(60):
        of, statistics = random_case(seed, 3 + seed % 5)
        rng = random.Random(seed)
        first = plan_full_query(of, statistics, {})
        for _ in range(3):
            now = drifted(statistics, rng, 0.5, 1.5)
            unpinned += plan_full_query(of, now, {}).nesting() != first.nesting()
            again = plan_full_query(of, now, {}, last=order_of(first, statistics))
            assert again.nesting() == first.nesting(), seed
            assert not again.replanned
            kept += again.method == "pinned"
            assert (again.kept is not None) is (again.method == "pinned")
    assert unpinned > 10, "the drift must be one that flips orders that are not pinned"
    assert kept > 10


@pytest.mark.parametrize(("grown", "kept"), [(1.5, True), (0.5, True), (0.1, False)])
def test_a_tenth_replans_and_says_so(grown: float, kept: bool) -> None:
    """f meets two filters by few matches each; the one that shrinks to a tenth then goes first."""
    of = graph(["f", "a", "b"], ["f.a = a.k", "f.b = b.k"])
    distinct = {"f.a": 1e7, "f.b": 1e7, "a.k": 1e5, "b.k": 1e5}
    rows = {"f": 10_000_000, "a": 100_000, "b": 100_000}
    statistics = Statistics(dict(rows), {}, hints={"distinct": distinct})
    first = plan_full_query(of, statistics, {})
    assert first.nesting() == "((a ⨝ f) ⨝ b)"
    now = Statistics(
        {**rows, "b": round(grown * 100_000)},
        {},
        hints={"distinct": {**distinct, "b.k": grown * 1e5}},
    )
    again = plan_full_query(of, now, {}, last=order_of(first, statistics))
    assert (again.nesting() == first.nesting()) is kept
    assert bool(again.replanned) is not kept
    if not kept:
        assert again.nesting() == "((f ⨝ b) ⨝ a)"
        assert again.replanned.startswith("full query: old cost ")
        assert again.to_dict()["replanned"] == again.replanned


def test_random_tenfold_drifts_flip_only_with_a_note() -> None:
    flipped = 0
    for seed in range(60):
        of, statistics = random_case(seed, 5)
        first = plan_full_query(of, statistics, {})
        now = drifted(statistics, random.Random(seed), 0.1, 10)
        again = plan_full_query(of, now, {}, last=order_of(first, statistics))
        if again.nesting() != first.nesting():
            flipped += 1
            assert again.replanned
    assert flipped > 3


def test_what_is_declared_anew_replans_though_no_table_has_changed() -> None:
    of = graph(["f", "a", "b"], ["f.a = a.k", "f.b = b.k"])
    rows = {"f": 100_000_000, "a": 10_000, "b": 10_000}
    said = {"f.a": 1e6, "f.b": 1e6, "a.k": 1e4, "b.k": 1e4}
    statistics = Statistics(dict(rows), {}, hints={"distinct": {**said, "f.a": 1e4}})
    first = plan_full_query(of, statistics, {})
    assert first.nesting() == "((f ⨝ b) ⨝ a)"
    now = Statistics(dict(rows), {}, hints={"distinct": {**said, "f.b": 1e3}})
    again = plan_full_query(of, now, {}, last=order_of(first, statistics))
    assert again.nesting() == plan_full_query(of, now, {}).nesting() != first.nesting()
    assert again.replanned


@pytest.mark.parametrize(
    "nesting", ["", "a", "(a ⨝ b", "(a ⨝ b)", "(a ⨝ (b ⨝ b))", "((a ⨝ b) ⟕ x)", "((a ⨝ b) ⨝ c) "]
)
def test_an_order_of_something_else_is_no_order(nesting: str) -> None:
    of = graph(["a", "b", "c"], ["a.x = b.x", "b.y = c.y"])
    statistics = Statistics({"a": 10, "b": 1000, "c": 10}, {})
    best = plan_full_query(of, statistics, {})
    assert plan_full_query(of, statistics, {}, last=LastOrder(nesting)) == best


def test_an_order_that_would_change_the_rows_is_no_order() -> None:
    of = graph(["r", "a", "b"], ["r.x = a.x"], [join("left", "a", "b", "a.y = b.y")])
    statistics = Statistics({"r": 1000, "a": 1000, "b": 1000}, {})
    best = plan_full_query(of, statistics, {})
    wrong = LastOrder("(r ⨝ (b ⟕ a))", dict(statistics.rows))
    assert plan_full_query(of, statistics, {}, last=wrong) == best
    right = LastOrder("((r ⨝ a) ⟕ b)", dict(statistics.rows))
    assert plan_full_query(of, statistics, {}, last=right).nesting() == right.nesting


def test_names_with_signs_in_them_are_read_back() -> None:
    names = ["a", "a ⨝ b", "(a"]
    of = graph(names, [])
    edges = [
        replace(p, refs=((one, "k"), (other, "k")), left=(one, "k"), right=(other, "k"))
        for p, (one, other) in zip(
            graph(["x", "y"], ["x.k = y.k", "x.j = y.j"]).predicates,
            (("a", "a ⨝ b"), ("a ⨝ b", "(a")),
            strict=True,
        )
    ]
    of = replace(of, predicates=tuple(edges))
    first_rows = {"a": 1_000, "a ⨝ b": 1_000_000, "(a": 1_000}
    statistics = Statistics(dict(first_rows), {})
    first = plan_full_query(of, statistics, {})
    now = Statistics({**first_rows, "(a": 700}, {})
    assert plan_full_query(of, now, {}, last=order_of(first, statistics)).nesting() == (
        first.nesting()
    )


def test_an_epoch_order_that_is_given_up_says_so() -> None:
    """One that once stood among forty others has grown to a thousand million rows."""
    names = [f"t{i:02}" for i in range(40)]
    of = graph(["f", *names], [f"f.k{name} = {name}.k" for name in names])
    rows = {"f": 1000, **dict.fromkeys(names, 1000)}
    statistics = Statistics(dict(rows), {})
    versions = versions_of(of, statistics, ["f", *names])
    pinned = ("t00", "f", *names[1:])
    pins = Pins({frozenset(pinned): {(name, 0): () for name in pinned}})
    assert epoch_order(of, statistics, versions, pins=pins) == (pinned, "")
    near = Statistics({**rows, "f": 1500, "t03": 500}, {})
    assert epoch_order(of, near, versions, pins=pins) == (pinned, "")
    far = Statistics({**rows, "f": 1_000_000_000}, {})
    order, note = epoch_order(of, far, versions, pins=pins)
    assert order[-1] == "f"
    assert note.startswith("epoch order: old cost ")


def recorded(plan: DeltaPlan) -> TargetState:
    """The target after a run of a plan, with the record that the run leaves."""
    content = plan.to_dict()
    record = {
        "epoch": 1,
        "format": 1,
        "rules": content["rules"],
        "fingerprint": plan.fingerprint,
        "frontier": content["frontier"],
        "paths": content["paths"],
        "order": order_record(content),
        "columns": list(plan.target.columns),
        "kind": plan.target.kind,
        "settings": {},
    }
    commit = TargetCommit(1, 0, "MERGE", {}, json.dumps({"deltajoin": record}), True)
    properties = (("deltajoin.model", plan.model), ("deltajoin.format", "1"))
    columns = tuple(
        replace(flights.table("flights").columns[0], name=n) for n in plan.target.columns
    )
    return TargetState("/data/out", "id", 1, columns, properties, (commit,))


def test_a_run_keeps_the_order_that_the_last_one_recorded() -> None:
    tables = {name: flights.table(name) for name in flights.COLUMNS}
    first = flights.first_plan()
    assert first.full_query is not None
    order = first.full_query.nesting()
    moved = dict(tables)
    for name, factor in (("flights", 0.01), ("airports", 1000)):
        size = round(factor * flights.ROWS[name])
        moved[name] = replace(tables[name], rows=size, bytes=100 * size)
    for now, kept in ((tables, True), (moved, False)):
        plan = build_plan(
            flights.model(mode="full"), Inputs(now, "/data/out", recorded(first), False)
        )
        assert plan.full_query is not None
        assert (plan.full_query.nesting() == order) is kept
        assert bool(plan.full_query.replanned) is not kept
        text = render_plan(plan.to_dict(), explanation(plan))
        assert ("replanned: full query: old cost" in text) is not kept
        assert plan.hash == plan.to_dict()["plan_hash"]


def test_forced_and_written_orders_are_not_recorded() -> None:
    first = flights.first_plan()
    assert order_record(first.to_dict()) is not None
    names = [r.name for r in first.graph.relations] if first.graph else []
    for options in ({"order": tuple(names)}, {"reorder": False}):
        plan = flights.first_plan(flights.model(**options))
        assert order_record(plan.to_dict()) is None


def test_a_run_with_nothing_to_do_orders_the_whole_query_when_it_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables = {name: flights.table(name) for name in flights.COLUMNS}
    state = recorded(flights.first_plan())
    asked = []

    def counted(*arguments: object) -> FullQuery:
        asked.append(arguments)
        return plan_full_query(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(build, "plan_full_query", counted)
    plan = build_plan(flights.model(), Inputs(tables, "/data/out", state, False))
    assert plan.strategy == "noop"
    frozen = plan.hash
    assert not asked
    shown = plan.to_dict()
    assert shown["full_query"]["order"] == flights.first_plan().full_query.nesting()  # type: ignore[union-attr]
    assert (shown["plan_hash"], plan.hash) == (frozen, frozen)
    assert len(asked) == 2  # this plan's, once, and the first plan's
