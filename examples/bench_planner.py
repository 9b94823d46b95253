"""The planner's figures as a table: is it exact, how good is it beyond that, how long does it take.

Every figure stands beside its target; the exit code is 1 when one is missed. Graphs are synthetic
and seeded (see `planner_graphs`). Times are of the processor, not of the wall: other programs on
the machine don't count. Run as `make bench-planner`.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence

from deltajoin.graph import Block
from deltajoin.planner.combine import Combiner
from deltajoin.planner.enumerate import count_pairs, exact_plan
from deltajoin.planner.full import FullPlan, full_plan, written_plan
from deltajoin.planner.full_query import plan_full_query
from examples.bench_paths import bigint_types, planning_times, rooted_paths
from examples.figures import Figure, quantile
from examples.plan_search import best_tree, long_search
from examples.planner_graphs import SHAPES, SummedRows, inner_graph, large_query, mixed_graph

#: Costs nearer than this differ by rounding.
_ROUNDING = 1 + 1e-8

CLOSED_FORMS: dict[str, Callable[[int], int]] = {
    "chain": lambda n: (n**3 - n) // 6,
    "cycle": lambda n: (n**3 - 2 * n**2 + n) // 2,
    "star": lambda n: (n - 1) * 2 ** (n - 2),
    "clique": lambda n: (3**n - 2 ** (n + 1) + 1) // 2,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a figure misses its target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, default=8, help="graphs per shape and size")
    parser.add_argument("--moves", type=int, default=3000, help="moves per start of a long search")
    chosen = parser.parse_args(arguments)
    sections: tuple[Iterator[Figure], ...] = (
        exactness(),
        pair_counts(),
        beyond_the_budget(chosen.instances, chosen.moves),
        times(chosen.instances),
        memory(),
        rooted_paths(chosen.instances),
        planning_times(chosen.instances),
    )
    met = True
    print(f"{'figure':58} {'seen':>26}   target")
    for section in sections:
        for figure in section:
            mark = "" if figure.met else "   MISSED"
            print(f"{figure.what:58} {figure.seen:>26}   {figure.target}{mark}", flush=True)
            met = met and figure.met
    return 0 if met else 1


def exactness(count: int = 2000) -> Iterator[Figure]:
    """Plans under the real cost against whole trees, and against the query as written."""
    beaten: list[float] = []
    for seed in range(count):
        graph, statistics = large_query(3 + seed % 3, seed)
        ratio = plan_full_query(graph, statistics, bigint_types(graph)).plan.cost
        ratio /= best_tree(graph, statistics).cost
        beaten += [ratio] if ratio > _ROUNDING else []
    most = max(beaten, default=1.0)
    what = f"random joins beaten by whole trees, of {count:,}; by how much at most"
    yield Figure(what, f"{len(beaten)} / {most:.2f}", "0", not beaten)
    dearer: list[float] = []
    for seed in range(count // 2):
        graph, statistics = large_query((4, 5, 6, 8, 10, 14, 20)[seed % 7], seed)
        query = plan_full_query(graph, statistics, bigint_types(graph))
        ratio = query.plan.cost / query.written_cost
        dearer += [ratio] if ratio > _ROUNDING else []
    most = max(dearer, default=1.0)
    what = f"written orders replaced by dearer ones, of {count // 2:,}; at most"
    yield Figure(what, f"{len(dearer)} / {most:.2f}", "0", not dearer)


def pair_counts() -> Iterator[Figure]:
    """Counted pairs against the closed forms."""
    for shape, form in CLOSED_FORMS.items():
        sizes = range(3, 10)
        wrong = sum(
            count_pairs(inner_graph(shape, size, 0)[0], 10**6) != form(size) for size in sizes
        )
        yield Figure(f"pair counts off the closed form, {shape} of 3-9", str(wrong), "0", not wrong)


def beyond_the_budget(instances: int, moves: int) -> Iterator[Figure]:
    """Cost divided by the best known: exact where 60,000 pairs suffice, else by a long search."""
    for shape in ("tree", "cycle", "clique"):
        ratios = []
        exact = 0
        for size in (15, 20, 25, 30, 35, 40):
            for seed in range(instances):
                combiner = a_combiner(shape, size, seed)[0]
                found = full_plan(combiner)
                if found.method == "exact":
                    continue
                if count_pairs(combiner.graph, 60_000) <= 60_000:
                    exact += 1
                    best = exact_plan(combiner)
                else:
                    best = long_search(combiner, [found.plan], 2, moves, seed)
                ratios.append(found.plan.cost / best.cost)
        p95 = quantile(ratios, 0.95)
        seen = f"{quantile(ratios, 0.5):.2f} / {p95:.2f} / {max(ratios):.2f}"
        what = f"{shape} of 15-40, median / p95 / max of {len(ratios)} ({exact} exact)"
        yield Figure(what, seen, "p95 <= 1.50", p95 <= 1.5)


def times(instances: int) -> Iterator[Figure]:
    """Processor time of a full plan: every shape and mixed joins."""
    shapes = (*SHAPES, "mixed")
    for sizes, each, limit in (
        ((2, 4, 6, 8, 10, 11, 12), 3, 0.1),
        ((64,), 1, 2.0),
        ((100,), 1, 5.0),
    ):
        seen: list[tuple[float, str]] = []
        for shape in shapes:
            for size in sizes:
                for seed in range(each * instances if size <= 12 else max(1, instances // 4)):
                    seen.append((timed(shape, size, seed)[0], shape))
        p99, (worst, shape) = quantile([t for t, _ in seen], 0.99), max(seen)
        what = f"full plan, {sizes[0]}-{sizes[-1]} relations" if len(sizes) > 1 else ""
        what = what or f"full plan, {sizes[0]} relations"
        text = f"{p99 * 1e3:,.0f} / {worst * 1e3:,.0f} ms ({shape})"
        yield Figure(f"{what}: p99 / max of {len(seen)}", text, f"< {limit:g} s", p99 < limit)


def timed(shape: str, size: int, seed: int) -> tuple[float, FullPlan]:
    """Processor seconds of one full plan."""
    combiner, block = a_combiner(shape, size, seed)
    start = time.process_time()
    plan = full_plan(combiner, written=block and written_plan(combiner, block))
    return time.process_time() - start, plan


def memory() -> Iterator[Figure]:
    """Peak of traced memory while planning 100 relations."""
    for shape in ("star", "clique", "mixed"):
        combiner, block = a_combiner(shape, 100, 0)
        tracemalloc.start()
        full_plan(combiner, written=block and written_plan(combiner, block))
        peak = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        yield Figure(f"peak memory, {shape} of 100", f"{peak:.0f} MB", "< 200 MB", peak < 200)


def a_combiner(shape: str, size: int, seed: int) -> tuple[Combiner, Block | None]:
    """A fresh combiner of a seeded graph, and the block it was written as where it has one."""
    if shape == "mixed":
        graph, estimator, query = mixed_graph(size, seed)
        return Combiner(graph, estimator, SummedRows()), query.root
    graph, estimator = inner_graph(shape, size, seed)
    return Combiner(graph, estimator, SummedRows()), None


if __name__ == "__main__":
    raise SystemExit(main())
