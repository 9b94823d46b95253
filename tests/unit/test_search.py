"""Join orders: exact against brute force, stable under renaming and writing order."""

from __future__ import annotations

import itertools
import random

import pytest

from deltajoin.graph import JoinGraph, Predicate, Projection, Relation
from deltajoin.planner import search
from deltajoin.planner.cardinality import Statistics, fan_out
from deltajoin.planner.search import best_order, full_order


def random_case(seed: int, size: int) -> tuple[JoinGraph, Statistics]:
    rng = random.Random(seed)
    names = [f"r{i}" for i in range(size)]
    pairs = {(names[rng.randrange(i)], names[i]) for i in range(1, size)}
    pairs |= {tuple(sorted(rng.sample(names, 2))) for _ in range(rng.randrange(3))}
    predicates = []
    for left, right in sorted(pairs):
        a, b = (left, "k"), (right, rng.choice(["k", "id"]))
        if rng.random() < 0.8:
            predicates.append(Predicate(f"{a} = {b}", "edge", (a, b), a, b))
        else:
            predicates.append(Predicate(f"{a} <= {b}", "residual", (a, b)))
    for name in names:
        if rng.random() < 0.3:
            predicates.append(Predicate(f"{name} > 1", "filter", ((name, "k"),)))
    relations = tuple(Relation(name, name, ("id", "k")) for name in names)
    graph = JoinGraph(relations, tuple(predicates), (Projection("x", "x", (("r0", "id"),)),))
    rows = {name: int(10 ** rng.uniform(0, 7)) for name in names}
    keys = {name: ("id",) for name in names if rng.random() < 0.6}
    return graph, Statistics(rows, keys)


def connected(graph: JoinGraph, order: tuple[str, ...]) -> bool:
    return all(order[i] in graph.neighbours(frozenset(order[:i])) for i in range(1, len(order)))


def brute_force(graph: JoinGraph, statistics: Statistics, start: str, rows: float) -> float:
    """The cheapest cost over all permutations; rows of a set by the definition, not by layers."""
    known: dict[frozenset[str], float] = {frozenset({start}): rows}

    def rows_of(bound: frozenset[str]) -> float:
        if bound not in known:
            estimates = [
                rows_of(bound - {last}) * fan_out(graph, statistics, bound - {last}, last)
                for last in bound - {start}
                if reachable(bound - {last}) and last in graph.neighbours(bound - {last})
            ]
            known[bound] = min(estimates)
        return known[bound]

    def reachable(bound: frozenset[str]) -> bool:
        grown = frozenset({start})
        while more := frozenset(graph.neighbours(grown)) & bound:
            grown |= more
        return grown == bound

    others = [r.name for r in graph.relations if r.name != start]
    costs = [
        sum(rows_of(frozenset(order[: i + 1])) for i in range(1, len(order)))
        for tail in itertools.permutations(others)
        if connected(graph, order := (start, *tail))
    ]
    return min(costs)


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
def test_rooted_orders_equal_brute_force(size: int) -> None:
    for seed in range(200 if size < 6 else 40):
        graph, statistics = random_case(seed, size)
        start = f"r{seed % size}"
        order = best_order(graph, statistics, start, 7.0)
        assert connected(graph, order.relations), seed
        best = brute_force(graph, statistics, start, 7.0)
        assert order.cost == pytest.approx(best, rel=1e-5), seed


def test_the_full_order_is_the_best_over_all_starts() -> None:
    for seed in range(50):
        graph, statistics = random_case(seed, 5)
        order = full_order(graph, statistics)
        assert connected(graph, order.relations)
        assert set(order.relations) == {r.name for r in graph.relations}


def test_more_than_twelve_relations_are_ordered_by_beam() -> None:
    for size in (13, 20, 40):
        graph, statistics = random_case(size, size)
        order = best_order(graph, statistics, "r0", 10.0)
        assert len(set(order.relations)) == size
        assert connected(graph, order.relations)


def test_the_beam_is_near_the_exact_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    ratios = []
    for seed in range(30):
        graph, statistics = random_case(seed, 9)
        exact = best_order(graph, statistics, "r0", 10.0).cost
        with monkeypatch.context() as patch:
            patch.setattr(search, "EXACT_LIMIT", 0)
            ratios.append(best_order(graph, statistics, "r0", 10.0).cost / exact)
    assert sorted(ratios)[int(len(ratios) * 0.9)] <= 1.05


def test_the_order_does_not_depend_on_how_the_graph_was_written() -> None:
    for seed in range(30):
        graph, statistics = random_case(seed, 6)
        rng = random.Random(seed)
        shuffled = JoinGraph(
            tuple(rng.sample(graph.relations, 6)),
            tuple(rng.sample(graph.predicates, len(graph.predicates))),
            graph.projections,
        )
        assert full_order(graph, statistics) == full_order(shuffled, statistics)


def test_a_unique_lookup_never_multiplies() -> None:
    graph, _ = random_case(1, 2)
    edge = Predicate("x", "edge", (("r0", "k"), ("r1", "id")), ("r0", "k"), ("r1", "id"))
    graph = JoinGraph(graph.relations, (edge,), graph.projections)
    statistics = Statistics({"r0": 10, "r1": 10**6}, {"r1": ("id",)})
    assert fan_out(graph, statistics, frozenset({"r0"}), "r1") <= 1
    assert fan_out(graph, statistics, frozenset({"r1"}), "r0") <= 10
