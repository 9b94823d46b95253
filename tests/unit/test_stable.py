"""Same inputs in any order and under any names: the same plan, up to the names."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Mapping

from deltajoin.delta.epoch_order import epoch_order
from deltajoin.delta.lookup_paths import lookup_paths
from deltajoin.delta.path import SourceVersion
from deltajoin.graph import Block, Join, JoinGraph, Predicate, Relation
from deltajoin.planner.build_graph import build_hypergraph
from deltajoin.planner.estimate import SetEstimator
from deltajoin.planner.full_query import plan_full_query
from deltajoin.planner.statistics import Statistics
from tests.unit.test_lookup_paths import versions_of

Names = tuple[str, ...]


class Query:
    """A random query over numbered relations, written under any names and in any order."""

    def __init__(self, seed: int, size: int, *, twins: bool, outer: bool) -> None:
        rng = random.Random(f"{seed} {size} {twins} {outer}")
        self.size = size
        self.tables = [
            f"t{rng.randrange(max(1, size // 2))}" if twins else f"t{i}" for i in range(size)
        ]
        self.edges = {(rng.randrange(i), i, rng.choice(["k", "id"])) for i in range(1, size)}
        self.edges |= {
            (*sorted(rng.sample(range(size), 2)), rng.choice(["k", "id"])) for _ in range(2)
        }
        # One equality a pair: two columns of one relation in one class are another matter.
        self.edges = set({edge[:2]: edge for edge in sorted(self.edges)}.values())
        self.ranges = {tuple(sorted(rng.sample(range(size), 2))) for _ in range(rng.randrange(2))}
        self.filters = {i for i in range(size) if rng.random() < 0.3}
        self.attached = rng.choice(["left", "full", "semi", "anti"]) if outer else ""
        names = sorted({*self.tables, "outer"})
        # Few sizes, so that many costs tie.
        self.rows: dict[str, int | None] = {n: rng.choice([10, 1000, 1000, 10**6]) for n in names}
        self.keys = {n: ("id",) for n in names if rng.random() < 0.6}
        self.changed = rng.sample(sorted(set(self.tables)), min(3, len(set(self.tables))))

    def graph(self, names: Names, rng: random.Random) -> JoinGraph:
        """The query with relation i named `names[i]`; an outer relation has the last name."""

        def ref(number: int, column: str) -> tuple[str, str]:
            return (names[number], column)

        def text(one: tuple[str, str]) -> str:
            return f"`{one[0]}`.`{one[1]}`"

        predicates = []
        for i, j, column in sorted(self.edges):
            a, b = ref(i, "k"), ref(j, column)
            one, other = (a, b) if rng.random() < 0.5 else (b, a)
            sql = f"{text(one)} = {text(other)}"
            predicates.append(Predicate(sql, "edge", tuple(sorted((a, b))), one, other))
        for i, j in sorted(self.ranges):
            a, b = ref(i, "k"), ref(j, "k")
            refs = tuple(sorted((a, b)))
            predicates.append(Predicate(f"{text(a)} < {text(b)}", "residual", refs))
        for i in sorted(self.filters):
            predicates.append(Predicate(f"{text(ref(i, 'k'))} > 1", "filter", (ref(i, "k"),)))
        relations = [Relation(names[i], self.tables[i], ("id", "k")) for i in range(self.size)]
        rng.shuffle(predicates)
        rng.shuffle(relations)
        if not self.attached:
            return JoinGraph(tuple(relations), tuple(predicates), ())
        a, b = ref(0, "k"), ref(self.size, "id")
        on = Predicate(f"{text(a)} = {text(b)}", "edge", tuple(sorted((a, b))), a, b)
        inner = Block(tuple(r.name for r in relations), tuple(predicates))
        join = Join(self.attached, inner, Block((names[self.size],), ()), (on,))
        last = Relation(names[self.size], "outer", ("id", "k"))
        return JoinGraph((*relations, last), (), (), (join,))

    def statistics(self, rng: random.Random) -> Statistics:
        """The same figures, in any order."""
        rows, keys = list(self.rows.items()), list(self.keys.items())
        rng.shuffle(rows)
        rng.shuffle(keys)
        return Statistics(dict(rows), dict(keys))


def renamed(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\w+", lambda m: names.get(m[0], m[0]), text)


def equality(sql: str) -> tuple[str, ...]:
    """A predicate's text, whichever side of an equality stands first."""
    return tuple(sorted(sql.split(" = ")))


def planned(query: Query, names: Names, seed: int) -> dict[str, object]:
    """Everything of a plan that names and writing order could sway, with numbers for names."""
    rng = random.Random(seed)
    graph, statistics = query.graph(names, rng), query.statistics(rng)
    numbers = {name: f"n{i}" for i, name in enumerate(names)}
    types = {(source, column): "bigint" for source in graph.sources for column in ("id", "k")}
    full = plan_full_query(graph, statistics, types).to_dict()
    found: dict[str, object] = {
        "order": renamed(full["order"], numbers),
        "cost": (full["cost"], full["method"], full["pairs"]),
        "joins": [
            (j["kind"], sorted(equality(renamed(on, numbers)) for on in j["on"]), j["rows"])
            for j in full["joins"]
        ],
    }
    if graph.joins:
        return found
    versions: dict[str, SourceVersion] = versions_of(graph, statistics, query.changed)
    versions = dict(rng.sample(sorted(versions.items()), len(versions)))
    order, _ = epoch_order(graph, statistics, versions)
    found["epoch order"] = [numbers[name] for name in order]
    found["paths"] = [
        (
            numbers[path.driver],
            [
                (
                    numbers[step.relation],
                    step.epoch,
                    sorted(equality(renamed(on, numbers)) for on in step.on),
                    step.estimated_rows,
                    sorted(numbers[name] for name in step.shared_with),
                )
                for step in path.steps
            ],
        )
        for path in lookup_paths(graph, statistics, order, versions)
    ]
    return found


def some_names(query: Query, rng: random.Random) -> Names:
    return tuple(rng.sample([f"x{i:02}" for i in range(40)], query.size + 1))


def test_names_and_writing_order_change_no_plan() -> None:
    for seed in range(120):
        query = Query(seed, 3 + seed % 6, twins=False, outer=seed % 4 == 3)
        rng = random.Random(seed)
        plain = planned(query, tuple(f"r{i}" for i in range(query.size + 1)), 0)
        for again in range(3):
            assert planned(query, some_names(query, rng), again + 1) == plain, (seed, again)


def test_relations_alike_in_figures_are_multiplied_in_one_order_however_they_are_written() -> None:
    """A triangle of which two relations have one size, one key and as many partners."""

    def edge(one: tuple[str, str], other: tuple[str, str]) -> Predicate:
        sql = f"`{one[0]}`.`{one[1]}` = `{other[0]}`.`{other[1]}`"
        return Predicate(sql, "edge", tuple(sorted((one, other))), one, other)

    predicates = (
        edge(("a", "k"), ("b", "id")),
        edge(("a", "k"), ("c", "k")),
        edge(("b", "k"), ("c", "id")),
        Predicate("`a`.`k` > 1", "filter", (("a", "k"),)),
    )
    statistics = Statistics(dict.fromkeys("abc", 1000), {"b": ("id",), "c": ("id",)})
    rows = set()
    for names in itertools.permutations("abc"):
        graph = JoinGraph(tuple(Relation(n, n, ("id", "k")) for n in names), predicates, ())
        types = {(source, column): "bigint" for source in "abc" for column in ("id", "k")}
        hypergraph = build_hypergraph(graph, types)
        rows.add(round(SetEstimator(graph, hypergraph, statistics).rows(7), 6))
    assert len(rows) == 1


def anonymous(plan: Mapping[str, object], query: Query) -> str:
    """A plan with tables in the place of relations; lines sorted where twins may swap places."""
    tables = {f"n{i}": t for i, t in enumerate((*query.tables, "outer"))}

    def shown(value: object) -> str:
        return renamed(repr(value), tables)

    paths = plan.get("paths", [])
    assert isinstance(paths, list)
    parts = [shown(plan["order"]), shown(plan["cost"]), shown(plan.get("epoch order"))]
    steps = [[shown((s[0], s[1], s[3])) for s in path[1]] for path in paths]
    return "\n".join([*parts, *(f"{shown(p[0])} {s}" for p, s in zip(paths, steps, strict=True))])


def test_occurrences_of_one_table_are_told_apart_by_their_place_in_the_query() -> None:
    """True twins may swap; what the plan does with their table may not change."""
    for seed in range(60):
        query = Query(seed, 4 + seed % 4, twins=True, outer=seed % 4 == 3)
        rng = random.Random(seed)
        plain = planned(query, tuple(f"r{i}" for i in range(query.size + 1)), 0)
        for again in range(3):
            other = planned(query, some_names(query, rng), again + 1)
            assert anonymous(other, query) == anonymous(plain, query), (seed, again)


def test_large_plans_are_stable_too() -> None:
    for size in (14, 20):
        query = Query(size, size, twins=False, outer=False)
        rng = random.Random(size)
        plain = planned(query, tuple(f"r{i:02}" for i in range(query.size + 1)), 0)
        assert planned(query, some_names(query, rng), 1) == plain
