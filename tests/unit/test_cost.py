"""What joins and lookups cost: fan-out and bytes touched, not table sizes; exchanges reused."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from deltajoin.catalog.statistics import Surviving
from deltajoin.graph import Projection, Relation
from deltajoin.planner.combine import Combiner, SubPlan
from deltajoin.planner.cost import STAGE, SparkCost
from deltajoin.planner.estimate import SetEstimator
from deltajoin.planner.lookup import (
    BROADCAST_ROWS,
    KEPT,
    KEYED,
    LOST,
    Arrangement,
    arrange,
    lookup_cost,
)
from deltajoin.planner.statistics import Statistics
from deltajoin.planner.widths import FOOTER, Widths, row_bytes, used_bytes
from tests.unit.joins import graph, hypergraph, join

BIG = 50_000_000


def combiner(sizes: dict[str, int], *conjuncts: str) -> tuple[Combiner, SparkCost]:
    of = graph(list(sizes), conjuncts)
    hyper = hypergraph(of)
    statistics = Statistics(sizes, {})
    cost = SparkCost(of, hyper, statistics)
    return Combiner(hyper, SetEstimator(of, hyper, statistics), cost), cost


def joined(made: Combiner, one: SubPlan, other: SubPlan) -> SubPlan:
    found = made.join(one, other)
    assert found is not None
    return found


def way_of(cost: SparkCost, plan: SubPlan) -> tuple[str, tuple[str, ...]]:
    assert plan.left is not None
    assert plan.right is not None
    return cost.way(plan.kind, plan.left, plan.right)[1:3]


# joins of the full query --------------------------------------------------------------------------


def test_the_small_side_is_broadcast() -> None:
    made, cost = combiner({"a": BIG, "b": 100}, "a.x = b.x")
    plan = joined(made, made.leaf(1), made.leaf(0))
    assert plan.text == "(0 1)", "the small side is the build side"
    assert way_of(cost, plan) == ("right", ())


def test_two_large_sides_are_exchanged() -> None:
    made, cost = combiner({"a": BIG, "b": BIG}, "a.x = b.x")
    assert way_of(cost, joined(made, made.leaf(0), made.leaf(1))) == ("", ("left", "right"))


def test_without_an_equality_each_row_is_held_against_each() -> None:
    sizes = {"a": BIG, "b": 1_000}
    keyed, cost = combiner(sizes, "a.x = b.x", "a.y < b.y")
    nested, other = combiner(sizes, "a.y < b.y")
    ways = [
        model.way("inner", made.leaf(0), made.leaf(1))
        for made, model in ((keyed, cost), (nested, other))
    ]
    assert [way.broadcast for way in ways] == ["right", "right"]
    assert ways[1].seconds > 100 * ways[0].seconds


def test_a_join_on_the_same_key_reuses_the_exchange() -> None:
    sizes = {"a": BIG, "b": BIG, "c": BIG, "d": 10}
    same, cost = combiner(sizes, "a.x = b.x", "b.x = c.x", "a.z = d.z")
    first = joined(same, same.leaf(0), same.leaf(1))
    first = joined(same, first, same.leaf(3))
    assert way_of(cost, first)[0] == "right", "a broadcast leaves the distribution"
    again = cost.way("inner", first, same.leaf(2))
    assert again.exchanged == ("right",)
    other, cost = combiner(sizes, "a.x = b.x", "b.y = c.y", "a.z = d.z")
    plan = joined(other, joined(other, other.leaf(0), other.leaf(1)), other.leaf(3))
    moved = cost.way("inner", plan, other.leaf(2))
    assert moved.exchanged == ("left", "right")
    assert moved.seconds > again.seconds


def test_an_exchange_and_the_wait_for_a_joined_side_cost_whatever_they_move() -> None:
    made, cost = combiner({"a": BIG, "b": 10, "c": 10, "d": 10}, "a.x = b.x", "b.y = c.y")
    alone = cost.way("inner", made.leaf(0), made.leaf(1))
    both = joined(made, made.leaf(1), made.leaf(2))
    waited = cost.way("inner", made.leaf(0), both)
    assert (alone.broadcast, waited.broadcast) == ("right", "right")
    assert waited.seconds - alone.seconds == pytest.approx(STAGE, rel=0.1)
    tiny, cost = combiner({"a": 10, "b": 10**9}, "a.x = b.x")
    moved = cost.way("left", tiny.leaf(0), tiny.leaf(1))
    assert moved.exchanged == ("left", "right")
    assert cost.way("full", tiny.leaf(0), tiny.leaf(0)).seconds > 2 * STAGE


def test_a_probe_by_a_key_of_several_columns_or_of_text_is_dear() -> None:
    of = graph(["a", "b", "c", "d"], ["a.x = b.x", "a.y = b.y", "a.x = c.x", "a.s = d.s"])
    kinds = {"x": "bigint", "y": "int", "s": "string"}
    types = {(name, column): kind for name in "abcd" for column, kind in kinds.items()}
    statistics = Statistics({"a": BIG, "b": 10, "c": 10, "d": 10}, {}, types=types)
    hyper = hypergraph(of)
    cost = SparkCost(of, hyper, statistics)
    made = Combiner(hyper, SetEstimator(of, hyper, statistics), cost)
    two, one, text = (cost.way("inner", made.leaf(0), made.leaf(n)).seconds for n in (1, 2, 3))
    assert two == pytest.approx(text, rel=0.01)
    assert two > 3 * one
    short = replace(statistics, types={**types, ("a", "x"): "int", ("b", "x"): "int"})
    short = replace(short, types={**short.types, ("c", "x"): "int"})
    packed = SparkCost(of, hyper, short).way("inner", made.leaf(0), made.leaf(1)).seconds
    assert packed == pytest.approx(one, rel=0.01), "two ints make a long"


def test_a_full_join_is_never_a_broadcast_and_keeps_no_distribution() -> None:
    of = graph(["a", "b"], [], [join("full", "a", "b", "a.x = b.x")])
    hyper = hypergraph(of)
    statistics = Statistics({"a": 10, "b": 10}, {})
    cost = SparkCost(of, hyper, statistics)
    made = Combiner(hyper, SetEstimator(of, hyper, statistics), cost)
    plan = joined(made, made.leaf(0), made.leaf(1))
    assert way_of(cost, plan) == ("", ("left", "right"))


def test_row_bytes_come_from_the_files() -> None:
    statistics = Statistics({"a": 100, "b": 100}, {}, bytes={"a": 10_000, "b": 1})
    assert row_bytes(statistics, "a") == pytest.approx(300)
    assert row_bytes(statistics, "b") == pytest.approx(8)
    assert row_bytes(statistics, "c") == pytest.approx(100)


def test_columns_that_are_not_read_take_no_width() -> None:
    types = {("a", "x"): "bigint", ("a", "y"): "string", ("a", "z"): "decimal(15,2)"}
    types |= {("c", "n"): "struct<a:int>", ("c", "m"): "int"}
    size = FOOTER + 4_400
    known = Statistics(dict.fromkeys("abc", 100), {}, bytes=dict.fromkeys("abc", size), types=types)
    assert used_bytes(known, "a", ("x", "z")) == pytest.approx(8 + 8 + 8)
    assert used_bytes(known, "a", ("y",)) == pytest.approx(8 + 3 * 44 - 16), "strings fill the file"
    assert used_bytes(known, "a", ()) == pytest.approx(8)
    assert used_bytes(known, "b", ("x",)) == pytest.approx(3 * size / 100), "no schema is known"
    assert used_bytes(known, "c", ("n",)) == pytest.approx(8 + 3 * 44 - 4)
    few = replace(known, bytes={"a": 3_000})
    assert used_bytes(few, "a", ("y",)) == pytest.approx(8 + 20), "a footer is no row"


def test_a_joined_row_carries_what_is_needed_above_it() -> None:
    of = graph(["a", "b", "c"], ["a.x = b.x", "b.y = c.y", "a.s = 1", "a.v < b.v"])
    columns = {"a": ("s", "v", "x", "z"), "b": ("v", "x", "y"), "c": ("y",)}
    relations = tuple(Relation(name, name, columns[name]) for name in columns)
    output = Projection("z", "`a`.`z`", (("a", "z"),), ("a", "z"))
    of = replace(of, relations=relations, projections=(output,))
    types = {(name, column): "bigint" for name in columns for column in columns[name]}
    statistics = Statistics(dict.fromkeys(columns, 100), {}, types=types)
    widths = Widths(of, hypergraph(of), statistics)
    assert widths.of(1) == 8 + 3 * 8, "the filtered column is dropped"
    assert widths.of(2) == 8 + 3 * 8
    assert widths.of(3) == 8 + 2 * 8, "z goes out, y is joined on"
    assert widths.of(7) == 8 + 8
    assert Widths(of, hypergraph(of), replace(statistics, types={})).of(3) == 8 + 2 * 100


def test_a_table_of_which_little_is_read_is_broadcast() -> None:
    rows = {"a": BIG, "b": 100_000}
    of = graph(list(rows), ["a.x = b.x"])
    of = replace(of, relations=tuple(Relation(name, name, ("x",)) for name in rows))
    types = {("b", name): "string" for name in "xtuvw"}
    for known, way in ((types, "right"), ({}, "")):
        statistics = Statistics(rows, {}, bytes={"b": 10_000_000}, types=known)
        cost = SparkCost(of, hypergraph(of), statistics)
        made = Combiner(hypergraph(of), SetEstimator(of, hypergraph(of), statistics), cost)
        assert way_of(cost, joined(made, made.leaf(0), made.leaf(1)))[0] == way


def test_a_join_that_an_accelerator_serves_is_not_priced_by_its_pairs() -> None:
    of = graph(["a", "b", "c"], ["a.x >= b.lo", "a.x < b.hi", "a.k = c.k"])
    kinds = {(name, column): "bigint" for name in "abc" for column in ("x", "lo", "hi", "k")}
    seconds = {}
    for known in (kinds, {}):
        rows = {"a": 1_000_000, "b": 1_000, "c": 50_000}
        statistics = Statistics(rows, {}, types=known)
        cost = SparkCost(of, hypergraph(of), statistics)
        made = Combiner(hypergraph(of), SetEstimator(of, hypergraph(of), statistics), cost)
        way = cost.way("inner", made.leaf(0), made.leaf(1))
        assert way.broadcast == ("" if known else "right")
        seconds[bool(known)] = way.seconds
        assert cost.way("inner", made.leaf(0), made.leaf(2)).broadcast == "right", "by its key"
    assert seconds[True] < seconds[False] / 10


# lookups ------------------------------------------------------------------------------------------

ROWS, WIDTH, KEY = 15_000_000.0, 120.0, "o_orderkey"
FEW = arrange("orders", ROWS, WIDTH, Surviving(3, 812, 2_200_000), KEY)
ALL = arrange("orders", ROWS, WIDTH, Surviving(812, 812, 600_000_000))


def test_the_arrangement_says_what_is_read() -> None:
    assert FEW.text == "orders: 3 of 812 files by o_orderkey ranges"
    assert ALL.text == "orders: all 812 files"
    assert arrange("orders", ROWS, WIDTH, Surviving(800, 812, 590_000_000), KEY) == ALL
    assert (
        arrange("o", 5.0, WIDTH, Surviving(1, 1, 9), unique=True).text == "o: the only file, unique"
    )
    assert arrange("o", 5.0).text == "o: whole table"


def seconds(table: Arrangement, rows_in: float = 1e3, rows_out: float = 1e3) -> float:
    return lookup_cost(table, rows_in, rows_out, 100.0, False).seconds


def test_bytes_touched_count_and_the_tables_size_does_not() -> None:
    tenfold = arrange("orders", 10 * ROWS, WIDTH, Surviving(3, 8120, 2_200_000), KEY)
    assert seconds(tenfold) == pytest.approx(seconds(FEW))
    assert seconds(FEW) < seconds(ALL) / 10


def test_fan_out_counts() -> None:
    costs = [seconds(FEW, rows_out=n) for n in (1e3, 1e6, 1e9)]
    assert costs == sorted(costs)
    assert costs[2] > 100 * costs[0]


def test_how_the_sides_meet() -> None:
    assert lookup_cost(ALL, 1e3, 1e3, 100.0, False)[1:] == ("broadcast the change", LOST)
    small = arrange("nation", 50.0, WIDTH, Surviving(1, 1, 5_000))
    assert lookup_cost(small, 1e6, 1e6, 100.0, False)[1:] == ("broadcast the table", KEPT)
    assert lookup_cost(ALL, BROADCAST_ROWS, 1e3, 30.0, False).place == LOST
    assert lookup_cost(ALL, BROADCAST_ROWS, 1e3, 100.0, False).place == KEYED
    large = lookup_cost(ALL, 1e8, 1e8, 100.0, False)
    placed = lookup_cost(ALL, 1e8, 1e8, 100.0, True)
    assert large[1:] == ("exchange both", KEYED)
    assert placed[1:] == ("exchange the table", KEYED)
    assert placed.seconds < large.seconds


def test_no_figure_makes_a_cost_that_is_none() -> None:
    rng = random.Random(1)
    odd = (1e-6, 1.0, 1e18, 1e100)
    for _ in range(500):
        files = rng.choice((None, Surviving(0, 0, 0), Surviving(0, 9, 0), Surviving(9, 9, 10**18)))
        table = arrange("t", rng.choice(odd[:3]), rng.choice((8.0, 1e4)), files, rng.choice("c "))
        rows = rng.choice(odd), rng.choice(odd)
        found = lookup_cost(table, *rows, rng.choice((8.0, 1e4)), rng.random() < 0.5)
        assert 0 <= found.seconds < math.inf
    made, _ = combiner({"a": 10**18, "b": 0, "c": 10**18}, "a.x = b.x", "b.y = c.y")
    plan = joined(made, joined(made, made.leaf(0), made.leaf(1)), made.leaf(2))
    assert 0 < plan.cost < math.inf
