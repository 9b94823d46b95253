"""Plans beyond the exact budget: legal, never worse than where they start, the same every time."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest

from deltajoin.graph import Block, Join, JoinGraph, Predicate, Relation, refs_of
from deltajoin.planner.build_graph import build_hypergraph
from deltajoin.planner.combine import CLEARLY, Combiner, SubPlan
from deltajoin.planner.enumerate import count_pairs, exact_plan
from deltajoin.planner.full import full_plan, written_plan
from deltajoin.planner.full_query import plan_full_query
from deltajoin.planner.greedy import (
    best_bushy,
    greedy_orders,
    greedy_plan,
    merge_greedily,
)
from deltajoin.planner.hypergraph import Edge, Hypergraph
from deltajoin.planner.statistics import Statistics
from deltajoin.planner.trace import Trace
from deltajoin.planner.windows import Windows
from examples.bench_paths import bigint_types
from examples.plan_search import best_tree, spark_combiner
from examples.planner_graphs import (
    SHAPES,
    Independent,
    SummedRows,
    inner_graph,
    large_query,
    mixed_graph,
    names,
)
from tests.unit import joins


def inner(shape: str, size: int, seed: int = 0) -> Combiner:
    return Combiner(*inner_graph(shape, size, seed), SummedRows())


def mixed(size: int, seed: int) -> tuple[Combiner, Block]:
    graph, estimator, query = mixed_graph(size, seed)
    return Combiner(graph, estimator, SummedRows()), query.root


def assert_legal(combiner: Combiner, plan: SubPlan) -> None:
    """Every relation once; every written predicate applied once, an outer join's on its own."""
    graph = combiner.graph
    assert sorted(plan.leaves()) == list(range(graph.size))
    applied = Counter(edge for join in plan.joins() for edge in join.edges)
    assert all(applied[edge] == 1 for edge in graph.edges if not edge.implied and not edge.cross), (
        plan.text
    )
    for join in plan.joins():
        assert join.left is not None
        assert join.right is not None
        if join.kind == "inner":
            assert {edge.kind for edge in join.edges} == {"inner"}
        else:
            assert [edge.kind for edge in join.edges] == [join.kind]
            assert join.edges[0].connects(join.left.relations, join.right.relations)
        assert all(edge.allows(join.relations) for edge in join.edges)


def left_deep_cost(combiner: Combiner, order: tuple[int, ...]) -> float | None:
    """Summed rows of a left-deep order; None when a step has no edge."""
    joined, cost = 1 << order[0], 0.0
    for number in order[1:]:
        if not combiner.kind(joined, 1 << number):
            return None
        joined |= 1 << number
        cost += combiner.rows(joined)
    return cost


# the real cost ------------------------------------------------------------------------------------


def test_no_whole_tree_is_cheaper_than_an_exact_plan() -> None:
    """How a side lies is part of the price of a join: a dearer side that lies well may win."""
    dearer_sides = 0
    for seed in range(300):
        graph, statistics = large_query(3 + seed % 3, seed)
        found = plan_full_query(graph, statistics, bigint_types(graph))
        assert found.method == "exact"
        assert found.plan.cost <= best_tree(graph, statistics).cost * (1 + CLEARLY), seed
        cheapest = Trace()
        exact_plan(spark_combiner(graph, statistics), cheapest)
        dearer_sides += not set(found.plan.nodes()) <= set(cheapest.sets)
    assert dearer_sides > 10


def test_a_written_order_is_never_replaced_by_a_dearer_one() -> None:
    methods = set()
    for seed in range(60):
        graph, statistics = large_query((4, 6, 9, 14, 20)[seed % 5], seed)
        found = plan_full_query(graph, statistics, bigint_types(graph))
        methods.add(found.method)
        assert found.plan.cost <= found.written_cost * (1 + CLEARLY), seed
    assert methods == {"exact", "greedy"}


def test_a_plan_that_is_known_bounds_the_search_and_is_not_lost() -> None:
    combiner = spark_combiner(*large_query(5, 2))
    best = exact_plan(combiner)
    assert exact_plan(combiner, known=best) == best
    cheaper = replace(best, cost=best.cost / 2)
    assert exact_plan(combiner, known=cheaper) == cheaper


def test_a_block_is_written_from_left_to_right() -> None:
    graph = joins.graph(["c", "a", "d", "b"], ["a.x = b.x", "c.x = d.x", "c.y = b.y"])
    combiner = spark_combiner(graph, Statistics(dict.fromkeys("abcd", 10**6), {}))
    names = combiner.graph.names
    steps = [
        {names[i] for i in join.leaves()} for join in written_plan(combiner, graph.root).joins()
    ]
    assert steps == [{"c", "d"}, {"b", "c", "d"}, {"a", "b", "c", "d"}]


# linear orders ------------------------------------------------------------------------------------


def test_the_best_bushy_plan_is_never_worse_than_its_order() -> None:
    better = 0
    for shape, seed in itertools.product(SHAPES, range(4)):
        combiner = inner(shape, 14, seed)
        for order in greedy_orders(combiner, 3):
            plan, pairs = best_bushy(combiner, order)
            cost = left_deep_cost(combiner, order)
            assert plan is not None
            assert cost is not None
            assert pairs > 0
            assert_legal(combiner, plan)
            assert plan.cost <= cost * (1 + 1e-9)
            better += plan.cost < cost * 0.99
    assert better > 10


# greedy joins and windows -------------------------------------------------------------------------


def test_windows_never_make_a_plan_worse() -> None:
    better = 0
    for seed in range(6):
        for combiner in (inner("cyclic", 18, seed), inner("clique", 12, seed), mixed(18, seed)[0]):
            plan = greedy_plan(combiner)
            if plan is None:
                continue
            improved = Windows(combiner, 3000).improve(plan)
            assert_legal(combiner, improved)
            assert improved.rank <= plan.rank
            better += improved.cost < plan.cost * 0.99
    assert better > 5


def test_one_window_over_a_whole_small_plan_is_exact() -> None:
    for shape, seed in itertools.product(SHAPES, range(3)):
        combiner = inner(shape, 7, seed)
        plan = greedy_plan(combiner)
        assert plan is not None
        improved = Windows(combiner, 10**5).improve(plan)
        assert improved.cost == pytest.approx(exact_plan(combiner).cost)


def dead_end() -> tuple[Combiner, Block]:
    """(a LEFT JOIN c) JOIN b ON a < b AND (b = c OR c IS NULL), where a and b fit best."""
    a, b, c = names(3)

    def condition(sql: str, *some: str) -> Predicate:
        return Predicate(sql, "residual", refs_of([(name, "k") for name in some]))

    on = condition(f"`{a}`.`k` < `{c}`.`k`", a, c)
    where = (
        condition(f"`{a}`.`k` < `{b}`.`k`", a, b),
        condition(f"(`{b}`.`k` = `{c}`.`k` OR `{c}`.`k` IS NULL)", b, c),
    )
    outer = Join("left", Block((a,), ()), Block((c,), ()), (on,))
    relations = tuple(Relation(name, name, ("k",)) for name in names(3))
    query = JoinGraph(relations, where, (), (outer,))
    sizes = Independent([10.0, 10.0, 1000.0], [(3, 0.01), (5, 1.0)])
    return Combiner(build_hypergraph(query), sizes, SummedRows()), query.root


def test_the_query_as_written_is_the_last_resort() -> None:
    combiner, written = dead_end()
    assert len(merge_greedily(combiner, [combiner.leaf(number) for number in range(3)])) == 2
    found = full_plan(combiner, 0, written_plan(combiner, written))
    assert_legal(combiner, found.plan)
    assert found.method == "greedy"
    assert found.fallback.endswith("the query as written is improved")
    alone = full_plan(combiner, 0)
    assert_legal(combiner, alone.plan)
    assert (alone.method, alone.fallback[-15:]) == ("exact", "all plans tried")


# the full plan ------------------------------------------------------------------------------------


def test_in_dense_graphs_the_query_as_written_is_improved() -> None:
    combiner = inner("clique", 50)
    written = combiner.leaf(0)
    for number in range(1, 50):
        written = combiner.join(written, combiner.leaf(number)) or written
    found = full_plan(combiner, written=written)
    assert_legal(combiner, found.plan)
    assert found.fallback.endswith("the query as written is improved")
    assert found.plan.cost < written.cost
    assert_legal(combiner, full_plan(combiner).plan)


def test_a_tree_with_crowded_classes_starts_from_a_greedy_plan() -> None:
    graph, rows = inner_graph("clique", 100, 0)
    chain = {3 << number for number in range(100)}
    edges = tuple(replace(edge, implied=edge.relations not in chain) for edge in graph.edges)
    combiner, trace = Combiner(Hypergraph(graph.names, edges), rows, SummedRows()), Trace()
    assert full_plan(combiner, trace=trace).method == "greedy"
    (start,) = trace.starts
    assert_legal(combiner, start)


def test_within_the_budget_the_plan_is_exact() -> None:
    combiner = inner("cycle", 8)
    pairs = count_pairs(combiner.graph, 10**6)
    found = full_plan(combiner, pairs)
    assert (found.method, found.pairs, found.fallback) == ("exact", pairs, "")
    assert found.plan == exact_plan(combiner)
    assert full_plan(inner("cycle", 8), pairs - 1).method == "greedy"
    assert full_plan(inner("chain", 8), 10).method == "greedy"
    assert full_plan(inner("chain", 1)).plan.text == "0"


@pytest.mark.parametrize(
    ("shape", "size", "budget"), [("tree", 13, 300), ("cycle", 22, 3000), ("clique", 9, 3000)]
)
def test_beyond_the_budget_plans_stay_near_the_best(shape: str, size: int, budget: int) -> None:
    ratios = []
    for seed in range(5):
        combiner = inner(shape, size, seed)
        found = full_plan(combiner, budget)
        assert found.method != "exact"
        assert_legal(combiner, found.plan)
        ratios.append(found.plan.cost / exact_plan(combiner).cost)
    assert min(ratios) >= 1 - 1e-6
    assert sorted(ratios)[3] <= 1.1
    assert max(ratios) <= 1.5


def test_mixed_joins_of_any_size_get_a_legal_plan_no_worse_than_written() -> None:
    for size in range(3, 42, 2):
        combiner, written = mixed(size, size)
        literal = written_plan(combiner, written)
        assert_legal(combiner, literal)
        found = full_plan(combiner, 200, literal)
        assert_legal(combiner, found.plan)
        assert found.plan.rank <= literal.rank


@pytest.mark.parametrize("shape", ["chain", "star", "cycle", "snowflake", "cyclic"])
def test_a_hundred_relations(shape: str) -> None:
    combiner = inner(shape, 100)
    assert_legal(combiner, full_plan(combiner, 500).plan)


@pytest.mark.parametrize("rows", [0.0, 1.0, 1e300, float("inf"), float("nan")])
def test_wrong_sizes_never_fail(rows: float) -> None:
    class Wrong:
        def rows(self, joined: int) -> float:
            return rows

    for shape in ("tree", "cyclic"):
        graph = inner_graph(shape, 24, 0)[0]
        combiner = Combiner(graph, Wrong(), SummedRows())
        assert_legal(combiner, full_plan(combiner, 100).plan)


def test_a_cross_product_comes_last() -> None:
    combiner = inner("chain", 2)
    one = combiner.graph.edges[0]
    far = Edge("inner", 4, 8, one.predicates)
    edges = (one, far, Edge("inner", 3, 12, ()))
    sizes = Independent([1e6, 1e6, 1.0, 1.0], [])
    for budget in (100, 0):
        made = Combiner(Hypergraph(names(4), edges), sizes, SummedRows())
        assert full_plan(made, budget).plan.text == "((0 1) (2 3))"


def test_the_order_of_edges_changes_nothing() -> None:
    rng = random.Random(1)
    for shape in ("tree", "cyclic"):
        graph, sizes = inner_graph(shape, 26, 3)
        texts = set()
        for _ in range(3):
            edges = list(graph.edges)
            rng.shuffle(edges)
            combiner = Combiner(Hypergraph(graph.names, tuple(edges)), sizes, SummedRows())
            texts.add(full_plan(combiner, 300).plan.text)
        assert len(texts) == 1


PROGRAM = """
from deltajoin.planner.combine import Combiner
from deltajoin.planner.full import full_plan, written_plan
from examples.planner_graphs import SummedRows, inner_graph, mixed_graph
graph, sizes, query = mixed_graph(20, 5)
combiner = Combiner(graph, sizes, SummedRows())
print(full_plan(combiner, 300, written_plan(combiner, query.root)).plan.text)
for shape in ("tree", "cyclic"):
    print(full_plan(Combiner(*inner_graph(shape, 20, 0), SummedRows()), 300).plan.text)
"""


def test_hash_seeds_change_nothing() -> None:
    printed = set()
    for seed in ("0", "1"):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        printed.add(done.stdout)
    assert len(printed) == 1
