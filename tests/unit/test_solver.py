"""The classic solver's shapes, and that its rules hold on any graph."""

from __future__ import annotations

import pytest

from deltajoin.errors import DeltaJoinError
from deltajoin.planner.solver import (
    COST,
    STRATEGIES,
    JoinEdge,
    Strategy,
    edges_of,
    parse_strategy,
    solve_path,
    stream_order,
)
from tests.unit.test_search import connected, random_case

ONE_KEY = (
    JoinEdge("1", "2", ("c2", "c3"), ("c3", "c2")),
    JoinEdge("2", "3", ("c3", "c2"), ("c1", "c1")),
    JoinEdge("3", "1", ("c1", "c1"), ("c2", "c3")),
)
CHAIN = (JoinEdge("1", "2", ("x",), ("x",)), JoinEdge("2", "3", ("y",), ("y",)))
LEFT = Strategy("left_first", "left_this_epoch")


def solve(
    edges: tuple[JoinEdge, ...], order: tuple[str, ...], strategy: Strategy
) -> tuple[tuple[str, ...], ...]:
    """One path per table; the first reads everything at this epoch."""
    return tuple(
        solve_path(edges, order, strategy, driver) for driver in stream_order(order, strategy)
    )


@pytest.mark.parametrize("arrange", ["left_first", "right_first"])
def test_two_tables_under_all_strategies(arrange: str) -> None:
    edges = (JoinEdge("1", "2", ("c2", "c3"), ("c3", "c2")),)
    left, right = (Strategy(arrange, f"{side}_this_epoch") for side in ("left", "right"))
    assert solve(edges, ("1", "2"), left) == (("1", "2"), ("2", "1"))
    assert solve(edges, ("1", "2"), right) == (("2", "1"), ("1", "2"))


def test_three_tables_on_one_key() -> None:
    paths = solve(ONE_KEY, ("1", "2", "3"), LEFT)
    assert paths == (("1", "2", "3"), ("2", "1", "3"), ("3", "1", "2"))
    right = Strategy("right_first", "left_this_epoch")
    paths = solve(ONE_KEY, ("1", "2", "3"), right)
    assert paths == (("1", "3", "2"), ("2", "3", "1"), ("3", "2", "1"))


def test_a_chain_on_two_keys() -> None:
    paths = solve(CHAIN, ("1", "2", "3"), LEFT)
    assert paths == (("1", "2", "3"), ("2", "1", "3"), ("3", "2", "1"))


def test_the_same_distribution_comes_first() -> None:
    """`a` is looked up by `x`; `d` matches on `x` too and so comes before `b` and `c`."""
    edges = (
        JoinEdge("s", "a", ("x",), ("x",)),
        JoinEdge("s", "b", ("y",), ("y",)),
        JoinEdge("s", "c", ("z",), ("z",)),
        JoinEdge("s", "d", ("x",), ("x",)),
    )
    order = ("s", "a", "b", "c", "d")
    assert solve_path(edges, order, LEFT, "s") == ("s", "a", "d", "b", "c")


def test_what_is_not_connected_is_named() -> None:
    with pytest.raises(DeltaJoinError) as caught:
        solve(CHAIN[:1], ("1", "2", "3"), LEFT)
    assert caught.value.code == "UNCONNECTED_RELATIONS"
    assert caught.value.where == "3"


def test_names_of_strategies() -> None:
    for strategy in STRATEGIES:
        assert parse_strategy(strategy.name) == strategy
    assert [COST.name, LEFT.name] == ["cost", "left_first,left_this_epoch"]
    with pytest.raises(DeltaJoinError) as caught:
        parse_strategy("left_first")
    assert caught.value.code == "UNKNOWN_STRATEGY"


def test_paths_of_any_graph_follow_its_predicates() -> None:
    for seed in range(60):
        graph, _ = random_case(seed, 7)
        order = tuple(relation.name for relation in graph.relations)
        for strategy in STRATEGIES[1:]:
            paths = solve(edges_of(graph), order, strategy)
            assert tuple(path[0] for path in paths) == stream_order(order, strategy)
            for path in paths:
                assert sorted(path) == sorted(order)
                assert connected(graph, path)
