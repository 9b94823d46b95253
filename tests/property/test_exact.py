"""The exact enumerator against all binary trees, and its pair counts against closed forms."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from deltajoin.planner.combine import Combiner, CostModel, SubPlan
from deltajoin.planner.enumerate import count_pairs, exact_plan
from deltajoin.planner.hypergraph import Edge, Hypergraph
from tests.property.join_queries import combiner_of, draw, splits

Pairs = list[tuple[int, int]]


def inner_graph(size: int, pairs: Pairs) -> Hypergraph:
    names = tuple(f"r{i:03}" for i in range(size))
    return Hypergraph(names, tuple(Edge("inner", 1 << a, 1 << b, ()) for a, b in pairs))


def chain(size: int) -> Hypergraph:
    return inner_graph(size, [(i, i + 1) for i in range(size - 1)])


def cycle(size: int) -> Hypergraph:
    return inner_graph(size, [(i, (i + 1) % size) for i in range(size)])


def star(size: int) -> Hypergraph:
    return inner_graph(size, [(0, i) for i in range(1, size)])


def clique(size: int) -> Hypergraph:
    return inner_graph(size, [(a, b) for b in range(size) for a in range(b)])


@pytest.mark.parametrize(
    ("shape", "pairs"),
    [
        (chain, lambda n: (n**3 - n) // 6),
        (cycle, lambda n: (n**3 - 2 * n**2 + n) // 2),
        (star, lambda n: (n - 1) * 2 ** (n - 2)),
        (clique, lambda n: (3**n - 2 ** (n + 1) + 1) // 2),
    ],
)
def test_pair_counts_are_the_closed_forms(
    shape: Callable[[int], Hypergraph], pairs: Callable[[int], int]
) -> None:
    for size in range(3, 11):
        assert count_pairs(shape(size), 10**6) == pairs(size)
        numbers = list(range(size))
        Random(size).shuffle(numbers)
        graph = shape(size)
        edges = ((e.left.bit_length() - 1, e.right.bit_length() - 1) for e in graph.edges)
        renumbered = inner_graph(size, [(numbers[a], numbers[b]) for a, b in edges])
        assert count_pairs(renumbered, 10**6) == pairs(size)


@pytest.mark.parametrize("shape", [chain, cycle, star, clique])
def test_counting_stops_at_the_limit(shape: Callable[[int], Hypergraph]) -> None:
    assert count_pairs(shape(100), 5000) == 5001
    exact = count_pairs(shape(6), 10**6)
    assert count_pairs(shape(6), exact) == exact
    assert count_pairs(shape(6), exact - 1) == exact


def random_inner(rng: Random, size: int) -> Hypergraph:
    """A random connected graph, one edge in five over three relations."""
    edges = []
    for new in range(1, size):
        ends = rng.sample(range(new), min(new, 1 + (rng.random() < 0.2)))
        edges.append(Edge("inner", sum(1 << end for end in ends), 1 << new, ()))
    for _ in range(rng.randrange(4)):
        some = rng.sample(range(size), min(size, rng.choice((2, 2, 2, 3, 4))))
        parts = tuple(sorted(1 << number for number in some))
        whole = sum(parts)
        edges.append(
            Edge("inner", parts[0], whole ^ parts[0], (), (), parts if len(parts) > 2 else ())
        )
    if rng.random() < 0.3:
        edges = [e for e in edges if rng.random() > 0.1] or edges
    return Hypergraph(tuple(f"r{i}" for i in range(size)), tuple(edges))


def brute_force(combiner: Combiner) -> SubPlan | None:
    """The best plan over all splits of all sets."""
    best: dict[int, SubPlan] = {1 << i: combiner.leaf(i) for i in range(combiner.graph.size)}
    for joined in range(1, combiner.graph.everything + 1):
        for one, other in splits(joined):
            if one in best and other in best:
                plan = combiner.join(best[one], best[other])
                if plan and (joined not in best or plan.rank < best[joined].rank):
                    best[joined] = plan
    return best.get(combiner.graph.everything)


class Costs(CostModel):
    """Rows that depend on the set, costs that depend on the sides."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def rows(self, joined: int) -> float:
        """Random rows of a set, the same whenever asked."""
        return 10 ** Random(joined * 1009 + self._seed).uniform(0, 6)

    def join(self, kind: str, left: SubPlan, right: SubPlan, rows: float) -> tuple[float, int]:
        """Rows in and out; the right side is built."""
        return rows + left.rows + 3 * right.rows, 0


def test_inner_plans_equal_brute_force() -> None:
    planned = 0
    for seed in range(700):
        rng = Random(seed)
        graph = random_inner(rng, rng.choice((3, 4, 5, 5, 6, 6, 7)))
        combiner = Combiner(graph, Costs(seed), Costs(seed))
        wanted = brute_force(combiner)
        if wanted is None:
            with pytest.raises(KeyError):
                exact_plan(combiner)
            continue
        planned += 1
        assert exact_plan(combiner) == wanted, seed
    assert planned > 550


def test_mixed_plans_equal_brute_force() -> None:
    kinds = set()
    for seed in range(600):
        combiner = combiner_of(draw(seed, most=7), Costs(seed))
        wanted = brute_force(combiner)
        assert wanted is not None, seed
        assert exact_plan(combiner) == wanted, seed
        kinds |= {edge.kind for edge in combiner.graph.edges}
    assert kinds == {"inner", "left", "full", "semi", "anti"}


HASHED = """
from deltajoin.planner.enumerate import exact_plan
from tests.property.join_queries import combiner_of, draw, plan_sql
for seed in range(25):
    graph = draw(seed, most=6)
    combiner = combiner_of(graph)
    print(combiner.graph, plan_sql(graph, combiner.graph, exact_plan(combiner)))
"""


def test_plans_do_not_depend_on_the_hash_seed() -> None:
    root = Path(__file__).parents[2]
    texts = set()
    for seed in ("1", "2"):
        path = os.pathsep.join((str(root / "plugin"), str(root)))
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        done = subprocess.run(
            [sys.executable, "-c", HASHED], capture_output=True, text=True, env=environment
        )
        assert done.returncode == 0, done.stderr
        texts.add(done.stdout)
    assert len(texts) == 1
    assert texts.pop().count("SELECT") >= 25
