"""Synthetic join graphs for the planner's bench and tests: shapes, an estimator, a cost, and
queries of large tables with statistics of them.

Sizes and selectivities are drawn from a seeded generator. The estimator multiplies: rows of a set =
product of its relations' rows and its edges' selectivities. The cost of a join is its rows, so that
of a plan is the sum of all intermediate rows.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from deltajoin.graph import Block, ColumnRef, Join, JoinGraph, Predicate, Relation, refs_of
from deltajoin.planner.build_graph import build_hypergraph
from deltajoin.planner.combine import CostModel, SubPlan
from deltajoin.planner.hypergraph import Edge, Hypergraph, bits
from deltajoin.planner.statistics import Statistics

Pair = tuple[int, int]

SHAPES = ("chain", "star", "snowflake", "tree", "cycle", "cyclic", "clique")


class SummedRows(CostModel):
    """The cost of a join is the rows it gives."""

    def join(self, kind: str, left: SubPlan, right: SubPlan, rows: float) -> tuple[float, int]:
        """Rows of the result, whatever its sides."""
        return rows, 0


class Independent:
    """Rows of a set as a product, computed in logarithms; edges may span any relations."""

    def __init__(self, rows: Sequence[float], selectivities: Sequence[tuple[int, float]]) -> None:
        self._rows = [math.log(value) for value in rows]
        self._pairs: list[dict[int, float]] = [{} for _ in rows]
        self._wider: list[tuple[int, float]] = []
        for joined, selectivity in selectivities:
            members = [bit.bit_length() - 1 for bit in bits(joined)]
            if len(members) == 2:
                known = self._pairs[members[1]].get(1 << members[0], 0.0)
                self._pairs[members[1]][1 << members[0]] = known + math.log(selectivity)
            else:
                self._wider.append((joined, math.log(selectivity)))

    def rows(self, joined: int) -> float:
        """The product over all that lies within a set."""
        total = 0.0
        for bit in bits(joined):
            number = bit.bit_length() - 1
            total += self._rows[number]
            for other, selectivity in self._pairs[number].items():
                if joined & other:
                    total += selectivity
        for edge, selectivity in self._wider:
            if not edge & ~joined:
                total += selectivity
        return math.exp(min(total, 690.0))


def pairs_of(shape: str, size: int, rng: random.Random) -> tuple[Pair, ...]:
    """The edges of a shape as sorted pairs of relation numbers."""
    numbers = range(1, size)
    if shape == "star":
        return tuple((0, i) for i in numbers)
    if shape == "snowflake":
        arms = max(1, round(size / 3))
        return tuple((max(0, i - arms), i) for i in numbers)
    if shape == "clique":
        return tuple((i, j) for j in numbers for i in range(j))
    if shape in ("tree", "cyclic"):
        pairs = {(rng.randrange(i), i) for i in numbers}
        if shape == "cyclic" and size > 2:
            pairs |= {_sorted_pair(rng, size) for _ in range(max(1, size // 4))}
        return tuple(sorted(pairs))
    chain = tuple((i - 1, i) for i in numbers)
    return (*chain, (0, size - 1)) if shape == "cycle" and size > 2 else chain


def _sorted_pair(rng: random.Random, size: int) -> Pair:
    one, other = sorted(rng.sample(range(size), 2))
    return one, other


def inner_graph(shape: str, size: int, seed: int) -> tuple[Hypergraph, Independent]:
    """A graph of inner edges with its estimator.

    Tables have 10 to a million rows. Most edges are a foreign key into the smaller or the larger
    side, filtered or fanning out by up to 30; those of a clique are as selective together as make
    the whole query give 1 to a million rows.
    """
    rng = random.Random(f"{shape} {size} {seed}")
    pairs = pairs_of(shape, size, rng)
    rows = [10 ** rng.uniform(1, 6) for _ in range(size)]
    if shape == "clique":
        weights = [rng.expovariate(1.0) for _ in pairs]
        excess = sum(math.log(value) for value in rows) - rng.uniform(0, math.log(1e6))
        logs = [-excess * weight / sum(weights) for weight in weights]
    else:
        logs = [
            min(
                0.0,
                rng.uniform(-2.5, 3.4) - math.log(rng.choice([max, max, min])(rows[i], rows[j])),
            )
            for i, j in pairs
        ]
    named = names(size)
    edges = tuple(
        Edge("inner", 1 << i, 1 << j, (_equality((named[i], f"k{j}"), (named[j], f"k{i}")),))
        for i, j in pairs
    )
    selectivities = [(edge.relations, math.exp(log)) for edge, log in zip(edges, logs, strict=True)]
    return Hypergraph(named, edges), Independent(rows, selectivities)


def names(size: int) -> tuple[str, ...]:
    """Relation names in canonical order."""
    return tuple(f"r{number:03}" for number in range(size))


def mixed_query(size: int, seed: int) -> JoinGraph:
    """A query of nested inner, left, full, semi and anti joins, some conditions over three tables.

    About every fifth condition is met by NULLs, so that joins may not change places everywhere.
    """
    rng = random.Random(f"mixed {size} {seed}")
    block = _block(rng, list(names(size)))
    relations = tuple(Relation(name, name, ("k",)) for name in names(size))
    joins = tuple(item for item in block.items if isinstance(item, Join))
    return JoinGraph(relations, block.predicates, (), joins)


def mixed_graph(size: int, seed: int) -> tuple[Hypergraph, Independent, JoinGraph]:
    """The hypergraph of a mixed query, an estimator, and the query."""
    rng = random.Random(f"sizes {size} {seed}")
    query = mixed_query(size, seed)
    graph = build_hypergraph(query, {(name, "k"): "bigint" for name in names(size)})
    rows = [10 ** rng.uniform(1, 6) for _ in range(size)]
    written = (edge for edge in graph.edges if edge.predicates and not edge.implied)
    selectivities = [(edge.relations, 10 ** rng.uniform(-6, -1)) for edge in written]
    return graph, Independent(rows, selectivities), query


def large_query(size: int, seed: int) -> tuple[JoinGraph, Statistics]:
    """A query whose tables are large and have their keys in common, so that an exchange for one
    join may serve another; every other one is mixed."""
    rng = random.Random(f"large {size} {seed}")
    rows = {name: int(10 ** rng.uniform(4, 8)) for name in names(size)}
    if seed % 2:
        return mixed_query(size, seed), Statistics(rows, {})
    columns = ("k0", "k1", "k2")
    relations = tuple(Relation(name, name, columns) for name in names(size))
    pairs = pairs_of(rng.choice(("chain", "star", "tree", "cycle", "cyclic")), size, rng)
    predicates = tuple(
        _equality((relations[i].name, column), (relations[j].name, column))
        for i, j in pairs
        for column in sorted(rng.sample(columns, rng.choice((1, 1, 1, 2))))
    )
    distinct = {f"{n}.{c}": rows[n] ** rng.uniform(0.5, 1) for n in names(size) for c in columns}
    return JoinGraph(relations, predicates, ()), Statistics(rows, {}, hints={"distinct": distinct})


def _block(rng: random.Random, some: list[str]) -> Block:
    """Items of one or more relations, each linked with one before it."""
    items: list[str | Join] = []
    rest = some
    while rest:
        size = rng.choice((1, 1, 1, rng.randint(1, len(rest))))
        group, rest = rest[:size], rest[size:]
        items.append(group[0] if size == 1 else _join(rng, group))
    seen = [_visible(item) for item in items]
    predicates = [
        _condition(rng, [name for names_ in seen[:number] for name in names_], seen[number])
        for number in range(1, len(items))
        for _ in range(rng.choice((1, 1, 2)))
    ]
    return Block(tuple(items), tuple(dict.fromkeys(predicates)))


def _join(rng: random.Random, some: list[str]) -> Join:
    cut = rng.randint(1, len(some) - 1)
    left, right = _block(rng, some[:cut]), _block(rng, some[cut:])
    kind = rng.choice(("left", "left", "left", "semi", "anti", "full"))
    return Join(kind, left, right, (_condition(rng, _visible(left), _visible(right)),))


def _visible(part: str | Join | Block) -> list[str]:
    """Relations whose columns exist above a part of a query."""
    if isinstance(part, str):
        return [part]
    if isinstance(part, Join):
        hidden = part.kind in ("semi", "anti")
        return _visible(part.left) + ([] if hidden else _visible(part.right))
    return [name for item in part.items for name in _visible(item)]


def _condition(rng: random.Random, one: list[str], other: list[str]) -> Predicate:
    """A conjunct over a relation of each side, or over three."""
    a, b = rng.choice(one), rng.choice(other)
    chance = rng.random()
    if chance < 0.1 and len(one) > 1:
        c = rng.choice([name for name in one if name != a])
        refs = refs_of([(a, "k"), (b, "k"), (c, "k")])
        return Predicate(f"`{a}`.`k` + `{c}`.`k` = `{b}`.`k`", "residual", refs)
    refs = refs_of([(a, "k"), (b, "k")])
    if chance < 0.3:
        return Predicate(f"(`{a}`.`k` = `{b}`.`k` OR `{a}`.`k` IS NULL)", "residual", refs)
    return _equality((a, "k"), (b, "k"))


def _equality(left: ColumnRef, right: ColumnRef) -> Predicate:
    sides = (f"`{relation}`.`{column}`" for relation, column in (left, right))
    return Predicate(" = ".join(sides), "edge", refs_of([left, right]), left, right)
