"""What joined sets can't be larger than, and what of them is broadcast."""

from __future__ import annotations

import math

import pytest

from deltajoin.graph import JoinGraph
from deltajoin.planner.bounds import Bounds
from deltajoin.planner.combine import SubPlan
from deltajoin.planner.full_query import Choice, FullQuery, plan_full_query
from deltajoin.planner.statistics import Statistics
from tests.unit.joins import graph, hypergraph, join

ROWS = {"f": 1_000_000, "c": 5_000, "n": 25, "ps": 8_000, "x": 70}
KEYS = {"c": ("id",), "n": ("id",), "ps": ("p", "s")}
BIG = 50_000_000


def most(of: JoinGraph, names: str, rows: dict[str, int | None] | None = None) -> float:
    hyper = hypergraph(of)
    bounds = Bounds(of, hyper, Statistics(rows or dict(ROWS), KEYS))
    return bounds.most_rows(hyper.set_of(frozenset(names.split())))


def test_lookups_by_keys_add_no_rows() -> None:
    of = graph(["f", "c", "n"], ["f.c = c.id", "c.n = n.id"])
    assert most(of, "f c n") == 1_000_000
    assert most(of, "c n") == 5_000
    assert most(of, "n") == 25
    assert most(of, "f n") == pytest.approx(26e6, rel=1e-4), "nothing leads from f to n"


def test_a_composite_key_is_covered_by_all_its_columns() -> None:
    assert most(graph(["f", "ps"], ["f.p = ps.p", "f.s = ps.s"]), "f ps") == 1_000_000
    assert most(graph(["f", "ps"], ["f.p = ps.p"]), "f ps") > 1e9
    two = graph(["c", "x", "ps"], ["ps.p = c.id", "ps.s = x.k"])
    assert most(two, "c x ps") > 1e6, "c and x together lead to ps, neither alone"


def test_a_left_join_leads_to_its_right_side_only() -> None:
    to_key = graph(["f", "c"], [], [join("left", "f", "c", "f.c = c.id")])
    assert most(to_key, "f c") == 1_000_000
    from_key = graph(["c", "x"], [], [join("left", "c", "x", "c.id = x.k")])
    assert most(from_key, "c x") >= 5_000


def test_semi_and_anti_joins_add_no_rows_and_a_full_join_adds_both() -> None:
    for kind in ("semi", "anti"):
        of = graph(["n", "f"], [], [join(kind, "n", "f", "n.id = f.n")])
        assert most(of, "n f") == 25
        assert most(of, "f") == 1_000_000
    of = graph(["n", "c"], [], [join("full", "n", "c", "n.id = c.id")])
    assert most(of, "n c") >= 5_025


def test_a_table_of_unknown_size_has_no_bound() -> None:
    of = graph(["f", "c"], ["f.c = c.id"])
    rows: dict[str, int | None] = {**ROWS, "c": None}
    assert most(of, "f c", rows) == 1_000_000
    assert most(of, "c", rows) == math.inf


def test_the_product_of_a_hundred_tables_is_no_more_than_infinite() -> None:
    """Counts are whole numbers; their product would not fit where bytes are asked for."""
    names = [f"d{i}" for i in range(100)]
    of = graph(["f", *names], [f"f.k{i} = {name}.k" for i, name in enumerate(names)])
    found = most(of, " ".join(["f", *names]), dict.fromkeys(("f", *names), 10**6))
    assert found * 8.0 == math.inf


def planned(of: JoinGraph, rows: dict[str, int], choice: Choice | None = None) -> FullQuery:
    return plan_full_query(of, Statistics(dict(rows), KEYS), {}, choice)


def broadcast(query: FullQuery) -> set[str]:
    names = query.hypergraph.names
    return {
        " ".join(name for i, name in enumerate(names) if side >> i & 1) for side in query.broadcast
    }


def test_small_sides_are_broadcast_joined_ones_too() -> None:
    rows = {"f": BIG, "c": 50_000, "n": 25}
    query = planned(graph(["f", "c", "n"], ["f.c = c.id", "c.n = n.id", "n.z = 3"]), rows)
    assert query.nesting() == "(f ⨝ (c ⨝ n))"
    assert broadcast(query) == {"n", "c n"}
    assert [j["broadcast"] for j in query.to_dict()["joins"]] == ["right", "right"]


def test_a_side_that_only_an_estimate_makes_small_is_not_broadcast() -> None:
    of = graph(["f", "c"], ["f.c = c.id", "c.a LIKE 'x'", "c.b = 'y'", "c.d = 'z'"])
    for size, sides in ((500_000, {"c"}), (BIG // 10, set())):
        assert broadcast(planned(of, {"f": BIG, "c": size})) == sides


def test_no_full_join_no_preserved_side_and_no_product_is_broadcast() -> None:
    rows = {"f": BIG, "n": 25, "x": 70}
    full = graph(["f", "n"], [], [join("full", "f", "n", "f.n = n.id")])
    assert broadcast(planned(full, rows)) == set()
    left = graph(["f", "n"], [], [join("left", "n", "f", "n.id = f.n")])
    assert broadcast(planned(left, rows)) == set()
    assert broadcast(planned(graph(["n", "x"], ["n.id < x.k"]), rows)) == set()


def test_a_query_whose_order_is_kept_is_left_to_the_engine() -> None:
    of = graph(["f", "n"], ["f.n = n.id"])
    rows = {"f": BIG, "n": 25}
    assert broadcast(planned(of, rows)) == {"n"}
    assert broadcast(planned(of, rows, Choice(reorder=False))) == set()
    assert broadcast(planned(of, rows, Choice(order=("f", "n")))) == {"n"}


def test_sides_stand_on_the_right() -> None:
    of = graph(["f", "c", "n"], ["f.c = c.id", "c.n = n.id"])
    query = planned(of, {"f": BIG, "c": 50_000, "n": 25})

    def rights(plan: SubPlan) -> set[int]:
        return {node.right.relations for node in plan.joins() if node.right is not None}

    assert set(query.broadcast) <= rights(query.plan)
