"""The rooted part of the planner's figures: lookup paths, and both plans under real estimates.

Yardsticks know nothing of the search: brute force over all orders, dynamic programming over all
sets without pruning, and a long random search. Graphs are synthetic and seeded (`path_graphs`).
"""

from __future__ import annotations

import math
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator

from deltajoin.delta.epoch_order import epoch_order
from deltajoin.delta.lookup_paths import lookup_paths
from deltajoin.graph import JoinGraph
from deltajoin.planner.build_graph import Types
from deltajoin.planner.classes import numbers
from deltajoin.planner.full_query import plan_full_query
from deltajoin.planner.lookup import KEPT, KEYED, arrangement, lookup_cost
from deltajoin.planner.search import JoinOrder, Search
from deltajoin.planner.statistics import Statistics
from deltajoin.planner.steps import Steps
from deltajoin.planner.widths import used_bytes
from examples.figures import Figure, quantile
from examples.path_graphs import SHAPES, changed_versions, path_graph

_CHANGES = (10.0, 3e6)
#: (bound set, new relation, rows in, rows out, does the stream lie by the step's key) -> (price,
#: where it lies after).
Price = Callable[[int, int, float, float, bool], tuple[float, int]]


def rooted_paths(instances: int) -> Iterator[Figure]:
    """Orders of lookup paths against the yardsticks."""
    yield _brute(1050)
    yield _exact(instances)
    yield _beam(instances)
    yield _beyond(instances)


def planning_times(instances: int) -> Iterator[Figure]:
    """Processor time and memory of all paths from all drivers, and of the whole query."""
    small = tuple(range(2, 13))
    for what, run in (("all paths", _time_paths), ("full query", _time_full)):
        for sizes, seeds, limit in ((small, instances, 0.25), ((64,), 1, 2.0), ((100,), 1, 5.0)):
            seen = [
                (run(*path_graph(shape, size, seed)), f"{shape} {size}")
                for shape in SHAPES
                for size in sizes
                for seed in range(seeds)
            ]
            times, worst = [seconds for seconds, _ in seen], max(seen)
            p50, p99 = quantile(times, 0.5), quantile(times, 0.99)
            text = f"{p50 * 1e3:,.0f} / {p99 * 1e3:,.0f} / {worst[0] * 1e3:,.0f} ms ({worst[1]})"
            size_text = f"{sizes[0]}-{sizes[-1]}" if len(sizes) > 1 else f"{sizes[0]}"
            line = f"{what}, {size_text} relations: p50 / p99 / max of {len(seen)}"
            yield Figure(line, text, f"p99 < {limit:g} s", p99 < limit)
    for shape in ("star", "mixed"):
        graph, statistics = path_graph(shape, 100, 0)
        tracemalloc.start()
        _time_paths(graph, statistics)
        _time_full(graph, statistics)
        peak = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        what = f"peak memory, paths and full query, {shape} of 100"
        yield Figure(what, f"{peak:.0f} MB", "< 400 MB", peak < 400)


def _time_paths(graph: JoinGraph, statistics: Statistics) -> float:
    versions = changed_versions(graph, statistics)
    start = time.process_time()
    order, _ = epoch_order(graph, statistics, versions)
    lookup_paths(graph, statistics, order, versions)
    return time.process_time() - start


def _time_full(graph: JoinGraph, statistics: Statistics) -> float:
    types = bigint_types(graph)
    start = time.process_time()
    plan_full_query(graph, statistics, types)
    return time.process_time() - start


def bigint_types(graph: JoinGraph) -> Types:
    """Every column of a graph is a bigint."""
    return {(r.source, column): "bigint" for r in graph.relations for column in r.columns}


def _brute(count: int) -> Figure:
    wrong = 0
    for seed in range(count):
        size = 2 + seed % 6
        graph, statistics = path_graph(SHAPES[seed % len(SHAPES)], size, seed)
        steps, rows = Steps(graph, statistics), _CHANGES[seed // size % 2]
        first = seed % size
        found = Search(steps, 1).order((steps.names[first],), rows)
        wrong += not math.isclose(found.cost, brute_force(steps, first, rows), rel_tol=1e-5)
    what = f"rooted orders that differ from brute force, of {count:,} graphs"
    return Figure(what, str(wrong), "0", wrong == 0)


def _exact(instances: int) -> Figure:
    ratios = []
    for shape in SHAPES:
        for size in (8, 10, 11, 12):
            for seed in range(max(1, instances // 4)):
                ratios += _ratios(shape, size, seed)
    seen = f"{quantile(ratios, 0.5):.4f} / {max(ratios):.4f}"
    what = f"rooted cost / optimum, 8-12 relations, median / max of {len(ratios)}"
    return Figure(what, seen, "1.00", max(ratios) <= 1 + 1e-5)


def _beam(instances: int) -> Figure:
    ratios = []
    for shape in SHAPES:
        for size in (13, 14, 15) if shape in ("clique", "one_key") else (13, 14, 15, 16):
            for seed in range(max(1, instances // 4)):
                ratios += _ratios(shape, size, seed)
    p99 = quantile(ratios, 0.99)
    seen = f"{quantile(ratios, 0.5):.3f} / {p99:.3f} / {max(ratios):.3f}"
    what = f"beam / optimum, 13-16 relations, median / p99 / max of {len(ratios)}"
    return Figure(what, seen, "p99 <= 1.05", p99 <= 1.05)


def _ratios(shape: str, size: int, seed: int) -> Iterator[float]:
    """Cost over the optimum for some drivers of a graph."""
    graph, statistics = path_graph(shape, size, seed)
    steps = Steps(graph, statistics)
    for first, rows in zip((0, size // 2), _CHANGES, strict=True):
        found = Search(steps, size).order((steps.names[first],), rows)
        yield found.cost / _least(steps, first, rows)


def _beyond(instances: int) -> Figure:
    ratios = []
    for shape in SHAPES:
        for size in (20, 30, 40):
            for seed in range(max(1, instances // 4)):
                graph, statistics = path_graph(shape, size, seed)
                steps = Steps(graph, statistics)
                search, rng = Search(steps, size), random.Random(f"{shape} {size} {seed}")
                found = search.order((steps.names[0],), _CHANGES[1])
                best = long_search(search, found, _CHANGES[1], 1500, rng)
                ratios.append(found.cost / best)
    p95, p99 = quantile(ratios, 0.95), quantile(ratios, 0.99)
    seen = f"{quantile(ratios, 0.5):.3f} / {p95:.3f} / {p99:.3f}"
    what = f"rooted cost / long search, 20-40, median / p95 / p99 of {len(ratios)}"
    return Figure(what, seen, "p99 <= 1.05", p99 <= 1.05)


def brute_force(steps: Steps, first: int, rows: float) -> float:
    """The least cost over all connected orders."""
    rows_of, price = _rows(steps, first, rows), _price(steps)

    def least(bound: int, place: int) -> float:
        costs = []
        for new in numbers(steps.neighbours(bound)):
            after, key = bound | 1 << new, steps.size(bound, new)[1]
            near = place != 0 and place == key
            cost, moved = price(bound, new, rows_of(bound), rows_of(after), near)
            lies = place if moved == KEPT else key if moved == KEYED else 0
            costs.append(cost + least(after, lies))
        return min(costs, default=0.0)

    return least(1 << first, 0)


def _least(steps: Steps, first: int, rows: float) -> float:
    """The least cost by dynamic programming over all (set, place), layer by layer."""
    rows_of, price = _rows(steps, first, rows), _price(steps)
    layer = {(1 << first, 0): 0.0}
    while True:
        grown: dict[tuple[int, int], float] = {}
        for (bound, place), so_far in layer.items():
            for new in numbers(steps.neighbours(bound)):
                after, key = bound | 1 << new, steps.size(bound, new)[1]
                near = place != 0 and place == key
                cost, moved = price(bound, new, rows_of(bound), rows_of(after), near)
                at = (after, place if moved == KEPT else key if moved == KEYED else 0)
                grown[at] = min(grown.get(at, math.inf), so_far + cost)
        if not grown:
            return min(layer.values())
        layer = grown


def _rows(steps: Steps, first: int, rows: float) -> Callable[[int], float]:
    """Rows of a set by its definition: the least over the relation that came last."""
    known: dict[int, float] = {1 << first: rows}

    def reachable(joined: int) -> bool:
        grown = 1 << first
        while more := steps.neighbours(grown) & joined:
            grown |= more
        return grown == joined

    def rows_of(joined: int) -> float:
        if joined not in known:
            known[joined] = min(
                (
                    rows_of(joined & ~(1 << last)) * steps.size(joined & ~(1 << last), last)[0]
                    for last in numbers(joined & ~(1 << first))
                    if steps.adjacent[last] & joined and reachable(joined & ~(1 << last))
                ),
                default=math.inf,
            )
        return known[joined]

    return rows_of


def _price(steps: Steps) -> Price:
    """`lookup_cost` less what it is for a stream without a row."""
    graph, statistics = steps.graph, steps.statistics
    relations = [graph.by_name[name] for name in steps.names]
    own = [[p.sql for p in graph.predicates if p.relations == {r.name}] for r in relations]
    tables = [
        arrangement(statistics, r.source, mine) for r, mine in zip(relations, own, strict=True)
    ]
    widths = [used_bytes(statistics, r.source, r.columns) for r in relations]
    least = [lookup_cost(table, 0.0, 0.0, 0.0, False).seconds for table in tables]

    def price(
        bound: int, new: int, rows_in: float, rows_out: float, near: bool
    ) -> tuple[float, int]:
        width = sum(widths[number] for number in numbers(bound))
        cost = lookup_cost(tables[new], rows_in, rows_out, width, near)
        return cost.seconds - least[new], cost.place

    return price


def long_search(
    search: Search, found: JoinOrder, rows: float, moves: int, rng: random.Random
) -> float:
    """The least cost seen by annealing from an order; a move puts one relation elsewhere."""
    steps = search.steps
    order, cost = found.relations, search.along(found.relations, rows).cost
    best = min(cost, found.cost)
    for move in range(moves):
        at, to = rng.randrange(1, len(order)), rng.randrange(1, len(order))
        rest = order[:at] + order[at + 1 :]
        moved = (*rest[:to], order[at], *rest[to:])
        bound = steps.bit[moved[0]]
        for name in moved[1:]:
            if not steps.neighbours(bound) & steps.bit[name]:
                break
            bound |= steps.bit[name]
        else:
            other = search.along(moved, rows).cost
            heat = 0.5 * (1 - move / moves) ** 2
            if other <= cost or rng.random() < math.exp(-(math.log(other / cost)) / heat):
                order, cost = moved, other
                best = min(best, cost)
    return best
