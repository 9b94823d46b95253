"""Which sets may be joined, and what a join applies."""

from __future__ import annotations

import pytest

from deltajoin.graph import Predicate
from deltajoin.planner.combine import Combiner, Plans, SubPlan, applied, with_plan
from deltajoin.planner.hypergraph import Edge, Hypergraph
from examples.planner_graphs import Independent, SummedRows

A, B, C, D = 1, 2, 4, 8


def edge(kind: str, left: int, right: int, **more: object) -> Edge:
    sql = f"{kind} {left} {right}"
    return Edge(kind, left, right, (Predicate(sql, "residual", ()),), **more)  # type: ignore[arg-type]


def combiner(*some: Edge) -> Combiner:
    estimator = Independent([10.0] * 4, [(e.relations, 0.5) for e in some])
    return Combiner(Hypergraph(("a", "b", "c", "d"), some), estimator, SummedRows())


def edges(made: Combiner, left: int, right: int) -> tuple[Edge, ...]:
    return applied(made.graph, left, right) if made.kind(left, right) else ()


def plan_of(made: Combiner, *order: int) -> SubPlan:
    plan = made.leaf(order[0])
    for number in order[1:]:
        joined = made.join(plan, made.leaf(number))
        assert joined is not None
        plan = joined
    return plan


def test_all_edges_between_two_sets_are_applied() -> None:
    ab, ac, bc = edge("inner", A, B), edge("inner", A, C), edge("inner", B, C)
    made = combiner(ab, ac, bc)
    plan = plan_of(made, 0, 1, 2)
    assert plan.edges == (ac, bc)
    assert plan.left is not None
    assert plan.left.edges == (ab,)
    assert edges(made, A, C) == (ac,)


def test_a_conjunct_over_three_relations_is_applied_where_the_last_one_comes() -> None:
    ab, bc, ac = edge("inner", A, B), edge("inner", B, C), edge("inner", A, C)
    wide = edge("inner", A, B | C)
    made = combiner(ab, bc, ac, wide)
    for order in ((0, 1, 2), (0, 2, 1), (1, 2, 0)):
        plan = plan_of(made, *order)
        assert [wide in join.edges for join in plan.joins()] == [False, True]


def test_a_wide_edge_alone_connects_by_its_sides_only() -> None:
    made = combiner(edge("inner", A, B), edge("inner", A, B | C))
    assert made.kind(A | B, C) == ""
    assert made.kind(A, B | C) == "inner"


def test_an_outer_join_has_one_orientation() -> None:
    made = combiner(edge("left", A, B))
    assert (made.kind(A, B), made.kind(B, A)) == ("left", "")
    plan = made.join(made.leaf(1), made.leaf(0))
    assert plan is not None
    assert (plan.kind, plan.text) == ("left", "(0 1)")


@pytest.mark.parametrize("beside", ["inner", "left", "anti"])
def test_nothing_else_is_judged_at_an_outer_join(beside: str) -> None:
    made = combiner(edge("left", A, B), edge("inner", A, C), edge(beside, C, B))
    assert made.kind(A | C, B) == ""


def test_an_implied_edge_beside_an_outer_join_is_left_out() -> None:
    outer = edge("left", A, B)
    made = combiner(outer, edge("inner", A, C), edge("inner", C, B, implied=True))
    assert edges(made, A | C, B) == (outer,)


def test_a_conjunct_whose_rules_do_not_hold_forbids_the_join() -> None:
    ruled = edge("inner", A, B, rules=((B, C),))
    made = combiner(ruled, edge("inner", A, B, implied=True), edge("left", B, C))
    assert made.kind(A, B) == ""
    assert made.kind(A, B | C) == "inner"


def test_an_implied_edge_connects_and_demands_nothing() -> None:
    written = edge("inner", A, C)
    implied = edge("inner", A, B, implied=True)
    ruled = edge("inner", B, C, implied=True, rules=((B, D),))
    made = combiner(written, implied, ruled)
    assert edges(made, A, B) == (implied,)
    assert edges(made, A | B, C) == (written,)
    assert made.kind(B, C) == ""


def test_a_cross_product_stands_alone() -> None:
    cross = Edge("inner", A, B, ())
    ac, bc = edge("inner", A, C), edge("inner", B, C)
    made = combiner(cross, ac, bc)
    assert edges(made, A, B) == (cross,)
    assert edges(made, A | C, B) == (bc,)


def test_rows_are_finite_and_above_zero() -> None:
    class Odd:
        def rows(self, joined: int) -> float:
            return {A: 0.0, B: float("nan"), C: float("inf")}.get(joined, -1.0)

    made = Combiner(Hypergraph(("a", "b", "c", "d"), ()), Odd(), SummedRows())
    assert all(0 < made.rows(1 << number) < float("inf") for number in range(4))


def test_ties_go_to_the_smaller_text() -> None:
    made = combiner(edge("inner", A, B))
    plans = (made.join(made.leaf(0), made.leaf(1)), made.join(made.leaf(1), made.leaf(0)))
    assert plans[0] == plans[1]
    assert plans[0] is not None
    assert plans[0].text == "(0 1)"


def test_of_the_plans_of_a_set_the_cheapest_of_each_place_are_kept() -> None:
    def plan(cost: float, place: int) -> SubPlan:
        return SubPlan(A | B, 1.0, cost, f"{cost} {place}", place=place)

    kept: Plans = ()
    for cost, place in ((9.0, 0), (8.0, 1), (7.0, 2), (8.5, 0), (7.5, 1), (9.0, 3), (6.0, 0)):
        kept = with_plan(kept, plan(cost, place))
    assert [(p.cost, p.place) for p in kept] == [(6.0, 0), (7.0, 2), (7.5, 1), (9.0, 3)]
    assert with_plan(kept, plan(5.0, 3))[0].place == 3
    assert [p.place for p in with_plan(kept, plan(5.0, 3))] == [3, 2, 1]
