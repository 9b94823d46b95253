"""Join orders: exact against brute force, stable under renaming and writing order."""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Mapping

import pytest

from deltajoin.graph import JoinGraph, Predicate, Projection, Relation
from deltajoin.planner import search
from deltajoin.planner.cardinality import fan_out, relation_rows
from deltajoin.planner.cost import PROBE, SHUFFLE, SORT_MERGE
from deltajoin.planner.lookup import KEPT, KEYED, arrange, lookup_cost
from deltajoin.planner.search import JoinOrder, Search
from deltajoin.planner.statistics import Statistics
from deltajoin.planner.steps import Steps
from deltajoin.planner.trace import Trace
from deltajoin.planner.widths import UNKNOWN_ROW


def best_order(
    graph: JoinGraph, statistics: Statistics, start: str, start_rows: float
) -> JoinOrder:
    return Search(Steps(graph, statistics), 1).order((start,), start_rows)


def best_orders(
    graph: JoinGraph, statistics: Statistics, starts: Mapping[str, float]
) -> dict[str, JoinOrder]:
    search = Search(Steps(graph, statistics), len(starts))
    return {name: search.order((name,), rows) for name, rows in sorted(starts.items())}


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

    def cost_of(order: tuple[str, ...]) -> float:
        cost, place = 0.0, None
        for position, new in enumerate(order[1:], start=1):
            bound = frozenset(order[:position])
            edges = [p for p in graph.decidable(bound, new) if p.kind == "edge"]
            key = frozenset(graph.equated(ref) for p in edges for ref in p.refs if ref[0] == new)
            table = arrange(new, statistics.table_rows(new))
            width, placed = UNKNOWN_ROW * position, place is not None and place == key
            out = rows_of(bound | {new})
            step, _, moved = lookup_cost(table, rows_of(bound), out, width, placed)
            place = place if moved == KEPT else (key or None) if moved == KEYED else None
            cost += step - lookup_cost(table, 0.0, 0.0, width, False).seconds
        return cost

    others = [r.name for r in graph.relations if r.name != start]
    return min(
        cost_of(order)
        for tail in itertools.permutations(others)
        if connected(graph, order := (start, *tail))
    )


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
def test_rooted_orders_equal_brute_force(size: int) -> None:
    for seed in range(250 if size < 6 else 50):
        graph, statistics = random_case(seed, size)
        start, rows = f"r{seed % size}", (7.0, 3e6)[seed // size % 2]
        order = best_order(graph, statistics, start, rows)
        assert connected(graph, order.relations), seed
        best = brute_force(graph, statistics, start, rows)
        assert order.cost == pytest.approx(best, rel=1e-5), seed


def hub_case(seed: int, size: int) -> tuple[JoinGraph, Statistics]:
    """A hub with eight partners at least, on one key or on several; partners linked and not."""
    rng = random.Random(seed)
    names = [f"r{i}" for i in range(size)]
    hub, *others = rng.sample(names, size)
    linked = others[: rng.randrange(8, size)]
    pairs = [(hub, other) for other in linked]
    pairs += [(rng.choice(linked), other) for other in others if other not in linked]
    pairs += [tuple(rng.sample(others, 2)) for _ in range(rng.randrange(6))]
    columns = ("k",) if seed % 2 else ("k", "q", "id")
    ends = [((a, rng.choice(columns)), (b, rng.choice(columns))) for a, b in pairs]
    edges = tuple(Predicate(f"{a} = {b}", "edge", (a, b), a, b) for a, b in ends)
    relations = tuple(Relation(name, name, ("id", "k", "q")) for name in names)
    rows = {name: int(10 ** rng.uniform(0, 7)) for name in names}
    keys = {name: ("id",) for name in names if rng.random() < 0.6}
    return JoinGraph(relations, edges, ()), Statistics(rows, keys)


def test_a_traced_search_gives_the_same_orders() -> None:
    for seed in range(40):
        graph, statistics = hub_case(seed, 9) if seed % 2 else random_case(seed, 7)
        steps = Steps(graph, statistics)
        for name in steps.names:
            traced = Search(steps, 1, trace=Trace()).order((name,), 100.0)
            assert traced == Search(steps, 1).order((name,), 100.0), (seed, name)


def test_exchanges_decide_between_orders_of_equal_rows() -> None:
    """Two lookups by one key share an exchange; rows that are moved twice are moved while short."""
    names = ("a", "m", "n", "z")
    pairs = ((("a", "k"), ("z", "id")), (("a", "k"), ("n", "id")), (("a", "q"), ("m", "id")))
    edges = tuple(Predicate(f"{x} = {y}", "edge", (x, y), x, y) for x, y in pairs)
    relations = tuple(Relation(name, name, ("id", "k", "q")) for name in names)
    graph = JoinGraph(relations, edges, (Projection("x", "x", (("a", "id"),)),))
    statistics = Statistics(dict.fromkeys(names, 10**8), dict.fromkeys(names, ("id",)))
    found = best_order(graph, statistics, "a", 1e7)
    assert found.relations == ("a", "m", "n", "z")
    table = SHUFFLE * 1e8 * UNKNOWN_ROW + (SORT_MERGE - PROBE) * 1e8
    moved = SHUFFLE * 1e7 * UNKNOWN_ROW * (1 + 2)
    assert found.cost == pytest.approx(3 * (table + (SORT_MERGE + PROBE) * 1e7) + moved, rel=1e-5)
    other = (Predicate("z1", "edge", (("a", "q"), ("z", "id")), ("a", "q"), ("z", "id")),)
    graph = JoinGraph(relations, (*edges[1:], *other), graph.projections)
    assert best_order(graph, statistics, "a", 1e7).relations == ("a", "n", "m", "z")


@pytest.mark.parametrize("size", [13, 20, 40, 100])
def test_any_number_of_relations_is_ordered(size: int) -> None:
    graph, statistics = random_case(size, size)
    starts = {r.name: 10.0 for r in graph.relations}
    for start, order in best_orders(graph, statistics, starts).items():
        assert order.relations[0] == start
        assert len(set(order.relations)) == size
        assert connected(graph, order.relations)


def test_paths_of_a_large_clique_follow_the_order_of_the_first() -> None:
    names = [f"r{i:02}" for i in range(60)]
    pairs = itertools.combinations(names, 2)
    columns = [((one, f"k{other}"), (other, f"k{one}")) for one, other in pairs]
    edges = tuple(Predicate(f"{a} = {b}", "edge", (a, b), a, b) for a, b in columns)
    graph = JoinGraph(tuple(Relation(name, name, ()) for name in names), edges, ())
    rows = {name: 10 ** (2 + i % 5) for i, name in enumerate(names)}
    statistics = Statistics(rows, {})
    starts = {name: 10.0 for name in names}
    orders = best_orders(graph, statistics, starts)
    common = orders["r00"].relations
    for name, order in orders.items():
        assert order.relations == (name, *(other for other in common if other != name))


def independent(graph: JoinGraph, statistics: Statistics, bound: frozenset[str], new: str) -> float:
    """Fan-outs of which the rows of a set depend on the set alone."""
    found = statistics.table_rows(new)
    for predicate in sorted(graph.decidable(bound, new), key=lambda p: p.sql):
        rng = random.Random(zlib.crc32(predicate.sql.encode()))
        if predicate.kind == "edge":
            found /= max(map(statistics.table_rows, sorted(predicate.relations)))
            found *= rng.choice((1, 1, 10))
        else:
            found *= rng.choice((0.01, 0.3, 1))
    return found


def test_the_beam_is_near_the_exact_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    ratios, true = [], Steps._estimated  # noqa: SLF001
    for seed in range(200):
        size = 13 + seed % 4
        graph, statistics = random_case(seed, size)

        def estimated(
            steps: Steps,
            met: int,
            new: int,
            of: JoinGraph = graph,
            known: Statistics = statistics,
        ) -> tuple[float, int]:
            names = frozenset(steps.names_of(met))
            return independent(of, known, names, steps.names[new]), true(steps, met, new)[1]

        monkeypatch.setattr(Steps, "_estimated", estimated)
        start, rows = f"r{seed % size}", (10.0, 3e6)[seed % 2]
        monkeypatch.setattr(search, "EXACT_RELATIONS", 16)
        exact = best_order(graph, statistics, start, rows).cost
        monkeypatch.setattr(search, "EXACT_RELATIONS", 0)
        ratios.append(best_order(graph, statistics, start, rows).cost / exact)
    assert min(ratios) >= 1 - 1e-5
    assert sorted(ratios)[int(len(ratios) * 0.99) - 1] <= 1.05


def test_a_step_from_a_set_is_what_the_estimate_says_of_the_whole_set() -> None:
    """Fan-outs are kept by the relevant part of the bound set; the rest of it must not matter."""
    for seed in range(60):
        graph, statistics = random_case(seed, 7)
        steps, rng = Steps(graph, statistics), random.Random(seed)
        for _ in range(40):
            names = frozenset(rng.sample(steps.names, rng.randrange(1, 7)))
            for move in steps.moves(steps.set_of(names)):
                after, new, found, _ = move
                wanted = fan_out(graph, statistics, names, steps.names[new])
                assert found == pytest.approx(wanted, rel=1e-12)
                assert steps.names_of(after) == steps.names_of(
                    steps.set_of(names | {steps.names[new]})
                )


def test_the_order_does_not_depend_on_how_the_graph_was_written() -> None:
    for seed in range(30):
        graph, statistics = random_case(seed, 6)
        rng = random.Random(seed)
        shuffled = JoinGraph(
            tuple(rng.sample(graph.relations, 6)),
            tuple(rng.sample(graph.predicates, len(graph.predicates))),
            graph.projections,
        )
        starts = {r.name: relation_rows(graph, statistics, r.name) for r in graph.relations}
        orders = best_orders(graph, statistics, starts)
        assert orders == best_orders(shuffled, statistics, starts)
        for start, order in orders.items():
            assert order.relations[0] == start
            assert connected(graph, order.relations)
            assert set(order.relations) == {r.name for r in graph.relations}


def test_a_unique_lookup_never_multiplies() -> None:
    graph, _ = random_case(1, 2)
    edge = Predicate("x", "edge", (("r0", "k"), ("r1", "id")), ("r0", "k"), ("r1", "id"))
    graph = JoinGraph(graph.relations, (edge,), graph.projections)
    statistics = Statistics({"r0": 10, "r1": 10**6}, {"r1": ("id",)})
    assert fan_out(graph, statistics, frozenset({"r0"}), "r1") <= 1
    assert fan_out(graph, statistics, frozenset({"r1"}), "r0") <= 10
