"""Reordered joins give the rows of the query as written: every plan, not only the best one.

`--cases N` and `--seed S` choose how many random queries (three to five cases) and from which seed.
The three swaps that
the conflict rules tell apart are tried for all pairs of kinds: what is allowed gives equal rows,
what is not gives other rows on some data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from random import Random

import duckdb
import pytest

from deltajoin.graph import Block, Join, JoinGraph, Predicate, Relation
from deltajoin.planner import build_graph, conflicts
from deltajoin.planner.combine import SubPlan
from deltajoin.planner.enumerate import exact_plan
from deltajoin.planner.full import full_plan, written_plan
from tests.property.join_queries import (
    COLUMNS,
    KINDS,
    TABLES,
    Shape,
    WrongSizes,
    all_plans,
    combiner_of,
    draw,
    literal_rows,
    plan_rows,
    predicate,
    visible,
    wrong_plans,
)

MOST_PLANS = 12


def some(seed: int) -> Callable[[list[SubPlan]], list[SubPlan]]:
    """Picks the plans of a query that are run: all of them where they are few."""

    def pick(plans: list[SubPlan]) -> list[SubPlan]:
        return plans if len(plans) <= MOST_PLANS else Random(seed).sample(plans, MOST_PLANS)

    return pick


def test_every_plan_of_random_queries_gives_the_same_rows(request: pytest.FixtureRequest) -> None:
    count, first = request.config.getoption("--cases") * 3 // 5, request.config.getoption("--seed")
    plans = rows = 0
    for seed in range(first, first + count):
        graph = draw(seed)
        run, wrong = wrong_plans(graph, seed, some(seed))
        assert run, f"seed {seed}: no plan"
        assert not wrong, f"seed {seed}: {graph.root}\n{wrong[0]}"
        plans += run
        rows += bool(literal_rows(graph))
    print(f"\n{count} queries from seed {first}, {plans} plans, {rows} queries with rows")
    assert plans > 1.5 * count
    assert rows > count / 2


def test_wrong_sizes_change_the_order_only() -> None:
    orders = 0
    for seed in range(40):
        graph = draw(seed)
        wanted = literal_rows(graph)
        texts = set()
        for sizes in (0.0, 1.0, 1e18, None):
            combiner = combiner_of(graph, WrongSizes(sizes, seed))
            plan = exact_plan(combiner)
            texts.add(plan.text)
            assert plan_rows(graph, combiner.graph, plan) == wanted, f"seed {seed}, sizes {sizes}"
        orders += len(texts) > 1
    assert orders


def test_plans_beyond_the_budget_give_the_same_rows() -> None:
    methods = set()
    for seed in range(60):
        graph = draw(seed, most=7)
        combiner = combiner_of(graph, WrongSizes(None, seed))
        found = full_plan(combiner, 0, written_plan(combiner, graph.root))
        methods.add(found.method)
        assert plan_rows(graph, combiner.graph, found.plan) == literal_rows(graph), seed
    assert methods == {"greedy"}


def applied(plan: SubPlan) -> Iterator[Predicate]:
    if plan.left is None or plan.right is None:
        return
    yield from (p for edge in plan.edges if not edge.implied for p in edge.predicates)
    yield from applied(plan.left)
    yield from applied(plan.right)


def test_every_plan_applies_every_written_edge_once() -> None:
    for seed in range(150):
        combiner = combiner_of(draw(seed))
        written = [e for e in combiner.graph.edges if not e.implied]
        wanted = Counter(p for edge in written for p in edge.predicates)
        for plan in some(seed)(all_plans(combiner)):
            assert Counter(applied(plan)) == wanted, seed


# every rule is needed -----------------------------------------------------------------------------


#: Queries that show at once a swap that is allowed too often.
TELLING = Shape(kinds=("full", "semi"), odd=0.2)


def found(shape: Shape | None = None) -> bool:
    """True when a random query shows a plan with other rows, or one that can't be run."""
    for seed in range(200):
        try:
            if wrong_plans(draw(seed, 4 if shape else 5, shape), seed, some(seed))[1]:
                return True
        except duckdb.Error:
            return True
    return False


@pytest.mark.parametrize("swap", ["assoc", "l_asscom", "r_asscom"])
def test_a_swap_that_is_always_allowed_is_found(swap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conflicts, swap, lambda *_: True)
    assert found(TELLING)


def test_nulls_taken_as_rejected_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conflicts.Operator, "rejects", lambda *_: True)
    assert found(TELLING)


def test_filters_judged_too_early_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_graph, "_rules", lambda _: ())
    assert found()


def test_blocks_taken_apart_below_an_outer_join_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = build_graph._Builder.block

    def without(self: build_graph._Builder, block: Block) -> build_graph._Below:
        return replace(whole(self, block), inner=())

    monkeypatch.setattr(build_graph._Builder, "block", without)
    assert found()


# three relations, all pairs of kinds --------------------------------------------------------------

A, B, C = "r0", "r1", "r2"
SWAP_SEED, SWAP_DATA = 2, 12


def block(*items: str | Join, on: tuple[str, ...] = ()) -> Block:
    return Block(items, tuple(predicate(sql) for sql in on))


def side(item: str | Join | Block) -> Block:
    return item if isinstance(item, Block) else block(item)


def joined(kind: str, left: str | Block, right: str | Block, on: str) -> Block:
    """A block over one join."""
    if kind == "inner":
        parts = [item for part in (left, right) for item in side(part).items]
        sql = [p.sql for part in (left, right) for p in side(part).predicates]
        return block(*parts, on=(*sql, on))
    return block(Join(kind, side(left), side(right), (predicate(on),)))


def as_graph(root: Block, tables: tuple[str, str, str]) -> JoinGraph:
    relations = tuple(
        Relation(name, source, COLUMNS) for name, source in zip((A, B, C), tables, strict=True)
    )
    joins = tuple(item for item in root.items if isinstance(item, Join))
    return JoinGraph(relations, root.predicates, (), joins)


def condition(one: str, other: str, tolerant: str) -> str:
    """An equality that also holds for a NULL of the tolerant relation."""
    plain = f"`{one}`.`k` = `{other}`.`k`"
    return f"({plain} OR `{tolerant}`.`k` IS NULL)" if tolerant else plain


def swaps() -> list[tuple[str, Block, Block, frozenset[str]]]:
    """(name, as written, swapped, the pair that the swapped tree joins first)."""
    cases = []
    for a, b in product(KINDS, KINDS):
        outer = a in ("left", "full") and b in ("left", "full")
        for soft_a, soft_b in product((None, 0, 1), (None, 0, 1)) if outer else ((None, None),):

            def on(one: str, other: str, soft: int | None) -> str:
                return condition(one, other, "" if soft is None else (one, other)[soft])

            ab, bc, ac = (A, B), (B, C), (A, C)
            cases.append(
                (
                    f"assoc {a} {b} {soft_a} {soft_b}",
                    joined(b, joined(a, A, B, on(*ab, soft_a)), C, on(*bc, soft_b)),
                    joined(a, A, joined(b, B, C, on(*bc, soft_b)), on(*ab, soft_a)),
                    frozenset({B, C}),
                )
            )
            cases.append(
                (
                    f"l-asscom {a} {b} {soft_a} {soft_b}",
                    joined(b, joined(a, A, B, on(*ab, soft_a)), C, on(*ac, soft_b)),
                    joined(a, joined(b, A, C, on(*ac, soft_b)), B, on(*ab, soft_a)),
                    frozenset({A, C}),
                )
            )
            cases.append(
                (
                    f"r-asscom {a} {b} {soft_a} {soft_b}",
                    joined(a, A, joined(b, B, C, on(*bc, soft_b)), on(*ac, soft_a)),
                    joined(b, B, joined(a, A, C, on(*ac, soft_a)), on(*bc, soft_b)),
                    frozenset({A, C}),
                )
            )
    return cases


def equal(one: Block, other: Block, data: list[tuple[str, str, str]]) -> bool:
    """True when two queries give the same rows on all data; a query that can't run is unequal."""
    try:
        return all(
            literal_rows(as_graph(one, tables)) == literal_rows(as_graph(other, tables))
            for tables in data
        )
    except duckdb.Error:
        return False


def test_swaps_are_allowed_exactly_where_rows_stay_equal() -> None:
    rng = Random(SWAP_SEED)
    data = [
        tuple(f"t{rng.randrange(i % 5 > 0, TABLES)}" for _ in range(3)) for i in range(SWAP_DATA)
    ]
    tried = 0
    for name, written, swapped, inner in swaps():
        if not equal(written, written, data[:1]):
            continue  # its second predicate names a relation that a semi or anti join hides
        tried += 1
        combiner = combiner_of(as_graph(written, data[0]))
        split = combiner.graph.set_of(inner)
        sides = {s.relations for p in all_plans(combiner) for s in (p.left, p.right) if s}
        same = visible(written) and set(visible(written)) == set(visible(swapped))
        assert (split in sides) == bool(same and equal(written, swapped, data)), name
    assert tried > 100
