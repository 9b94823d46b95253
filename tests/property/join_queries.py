"""Random trees of inner, left, full, semi and anti joins, their literal SQL, and all their plans.

The literal SQL is written block by block without any of the planner's code: each block and each
join is a subquery of its own whose columns are named `relation.column`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, Protocol

import duckdb
from sqlglot import exp

from deltajoin.emit.ast import column, named, pretty, table
from deltajoin.emit.nesting import add_from
from deltajoin.graph import Block, Join, JoinGraph, Predicate, Relation, refs_of
from deltajoin.planner.build_graph import build_hypergraph
from deltajoin.planner.combine import Combiner, CostModel, Estimator, SubPlan
from deltajoin.planner.hypergraph import Hypergraph
from tests.property.oracle import to_duckdb

COLUMNS = ("k", "v")
KINDS = ("inner", "left", "full", "semi", "anti")
#: Source tables: how many there are; the first is empty, others have NULLs and duplicates.
TABLES = 24

Bag = Counter[tuple[Any, ...]]


@dataclass(frozen=True)
class Shape:
    """What queries are drawn: kinds of join, share of odd predicates."""

    kinds: tuple[str, ...] = KINDS
    odd: float = 0.35


@cache
def database() -> duckdb.DuckDBPyConnection:
    """Small tables `t0`, `t1`, ... with the columns k and v."""
    con = duckdb.connect()
    con.execute("SET threads = 1")
    rng = Random(7)
    for number in range(TABLES):
        con.execute(f"CREATE TABLE t{number} (k INTEGER, v INTEGER)")
        rows = [
            (rng.choice((None, 1, 1, 2, 2, 3)), rng.choice((None, 1, 2, 2, 3)))
            for _ in range(0 if number == 0 else rng.randint(3, 6))
        ]
        rows += rows[:1]
        if rows:
            con.executemany(f"INSERT INTO t{number} VALUES (?, ?)", rows)
    return con


#: A seed takes one in turn; fewer kinds give queries that allow more plans.
SHAPES = (
    Shape(),
    Shape(kinds=("inner", "left")),
    Shape(kinds=("left", "full"), odd=0.2),
    Shape(kinds=("inner", "left", "semi", "anti"), odd=0.2),
    Shape(kinds=("inner", "full"), odd=0.2),
    Shape(kinds=("inner",), odd=0.2),
)


def draw(seed: int, most: int = 5, shape: Shape | None = None) -> JoinGraph:
    """The query of a seed, with no outputs: a query's rows are those of all visible columns."""
    rng, shape = Random(seed), shape or SHAPES[seed % len(SHAPES)]
    size = most - rng.choice((0, 1, 1, 1, 2, 2, 3))
    names = [f"r{i}" for i in range(size)]
    rng.shuffle(names)
    block = _block(rng, names, shape)
    relations = tuple(Relation(name, f"t{rng.randrange(TABLES)}", COLUMNS) for name in names)
    joins = tuple(item for item in block.items if isinstance(item, Join))
    return JoinGraph(relations, block.predicates, (), joins)


def _block(rng: Random, names: list[str], shape: Shape) -> Block:
    kinds = [kind for kind in shape.kinds if kind != "inner"]
    inner = "inner" in shape.kinds
    items: list[str | Join] = []
    rest = list(names)
    while rest:
        size = rng.randint(1, len(rest)) if kinds else 1
        if not inner:
            size = len(rest)
        group, rest = rest[:size], rest[size:]
        items.append(group[0] if size == 1 else _join(rng, group, kinds, shape))
    predicates: list[Predicate] = []
    seen = [visible(item) for item in items]
    for number in range(1, len(items)):
        if rng.random() < 0.92:
            before = [name for names_ in seen[:number] for name in names_]
            predicates.append(_link(rng, before, seen[number], shape.odd))
    everything = [name for names_ in seen for name in names_]
    while rng.random() < 0.25:
        some = rng.sample(everything, min(len(everything), rng.randint(1, 3)))
        predicates.append(_over(rng, some, shape.odd))
    if rng.random() < 0.02:
        predicates.append(predicate(rng.choice(("1 = 1", "1 = 0"))))
    return Block(tuple(items), tuple(dict.fromkeys(predicates)))


def _join(rng: Random, names: list[str], kinds: list[str], shape: Shape) -> Join:
    cut = rng.randint(1, len(names) - 1)
    left, right = _block(rng, names[:cut], shape), _block(rng, names[cut:], shape)
    seen, other = visible(left), visible(right)
    on: list[Predicate] = []
    if rng.random() < 0.93:
        on.append(_link(rng, seen, other, shape.odd))
    while rng.random() < 0.2:
        some = rng.sample(seen + other, min(len(seen + other), rng.randint(1, 3)))
        on.append(_over(rng, some, shape.odd))
    if rng.random() < 0.02:
        on.append(predicate(rng.choice(("1 = 1", "1 = 0"))))
    return Join(rng.choice(kinds), left, right, tuple(dict.fromkeys(on)))


def visible(part: str | Join | Block) -> list[str]:
    """Relations whose columns exist above a part of a query."""
    if isinstance(part, str):
        return [part]
    if isinstance(part, Join):
        hidden = part.kind in ("semi", "anti")
        return visible(part.left) + ([] if hidden else visible(part.right))
    return [name for item in part.items for name in visible(item)]


def predicate(sql: str) -> Predicate:
    """A conjunct, classified by the columns in its text."""
    refs = refs_of(re.findall(r"`(\w+)`\.`(\w+)`", sql))
    touched = {relation for relation, _ in refs}
    if len(touched) == 2 and re.fullmatch(r"`\w+`\.`\w+` = `\w+`\.`\w+`", sql):
        return Predicate(sql, "edge", refs, *refs)
    return Predicate(sql, ("constant", "filter", "residual")[min(len(touched), 2)], refs)


def _column(rng: Random, name: str) -> str:
    return f"`{name}`.`{rng.choice('kkv')}`"


def _link(rng: Random, one: list[str], other: list[str], odd: float) -> Predicate:
    if rng.random() < 0.12 and len(one) > 1:
        return _over(rng, [*rng.sample(one, 2), rng.choice(other)], odd)
    return _over(rng, [rng.choice(one), rng.choice(other)], odd)


def _over(rng: Random, names: list[str], odd: float) -> Predicate:
    """A conjunct over one, two or three relations."""
    x, *more = (_column(rng, name) for name in names)
    is_odd = rng.random() < odd
    if not more:
        plain, strange = (f"{x} > 1", f"{x} = 1"), (f"{x} IS NULL", f"coalesce({x}, 1) = 1")
    elif len(more) == 1:
        y = more[0]
        plain = (f"{x} = {y}", f"{x} = {y}", f"{x} <= {y}")
        strange = (
            f"{x} <=> {y}",
            f"coalesce({x}, 1) = coalesce({y}, 2)",
            f"({x} = {y} OR {x} IS NULL)",
            f"({y} IS NULL OR {x} > {y})",
            f"({x} IS NULL OR {y} > 0)",
        )
    else:
        y, z = more
        plain = (f"{x} + {y} = {z}", f"{x} + {y} >= {z}")
        strange = (f"coalesce({x}, {y}) = {z}", f"({x} = {y} OR {y} = {z})")
    return predicate(rng.choice(strange if is_odd else plain))


# literal SQL --------------------------------------------------------------------------------------


def literal_rows(graph: JoinGraph) -> Bag:
    """What the query as written gives."""
    sources = {relation.name: relation.source for relation in graph.relations}
    outputs = ", ".join(f'"{name}.{c}"' for name in sorted(visible(graph.root)) for c in COLUMNS)
    text = f"SELECT {outputs} FROM ({_block_sql(graph.root, sources)}) AS q"
    return Counter(database().execute(text).fetchall())


def _flat(predicates: tuple[Predicate, ...]) -> str:
    flat = (re.sub(r"`(\w+)`\.`(\w+)`", r'"\1.\2"', p.sql) for p in predicates)
    return " AND ".join(re.sub("<=>", "IS NOT DISTINCT FROM", sql) for sql in flat) or "TRUE"


def _block_sql(block: Block, sources: dict[str, str]) -> str:
    items = (_item_sql(item, sources) for item in block.items)
    joined = " CROSS JOIN ".join(f"({item}) AS i{n}" for n, item in enumerate(items))
    return f"SELECT * FROM {joined} WHERE {_flat(block.predicates)}"


def _item_sql(item: str | Join, sources: dict[str, str]) -> str:
    if isinstance(item, str):
        columns = ", ".join(f'{c} AS "{item}.{c}"' for c in COLUMNS)
        return f"SELECT {columns} FROM {sources[item]}"
    left, right = _block_sql(item.left, sources), _block_sql(item.right, sources)
    on = _flat(item.on)
    return f"SELECT * FROM ({left}) AS l {item.kind.upper()} JOIN ({right}) AS r ON {on}"


# plans --------------------------------------------------------------------------------------------


class Sizes(Estimator, CostModel, Protocol):
    """Rows and costs in one."""


class WrongSizes(CostModel):
    """The same rows for every set, or random ones; costs follow them."""

    def __init__(self, size: float | None = None, seed: int = 0) -> None:
        self._size = size
        self._rng = Random(seed)

    def rows(self, joined: int) -> float:
        """Rows of a set, whatever it is."""
        return 10 ** self._rng.uniform(0, 18) if self._size is None else self._size

    def join(self, kind: str, left: SubPlan, right: SubPlan, rows: float) -> tuple[float, int]:
        """Rows in, out and built."""
        return rows + left.rows + 2 * right.rows, 0


def combiner_of(graph: JoinGraph, sizes: Sizes | None = None) -> Combiner:
    """A combiner that knows nothing of sizes; equal types, so that equalities are closed."""
    types = {(r.source, c): "int" for r in graph.relations for c in COLUMNS}
    wrong = sizes or WrongSizes()
    return Combiner(build_hypergraph(graph, types), wrong, wrong)


def all_plans(combiner: Combiner) -> list[SubPlan]:
    """Every plan that the combiner allows: all splits of all sets, each side in every way."""

    @cache
    def plans(joined: int) -> tuple[SubPlan, ...]:
        if not joined & (joined - 1):
            return (combiner.leaf(joined.bit_length() - 1),)
        return tuple(
            plan
            for one, other in splits(joined)
            for left in plans(one)
            for right in plans(other)
            if (plan := combiner.join(left, right)) is not None
        )

    return list(plans(combiner.graph.everything))


def splits(joined: int) -> Iterator[tuple[int, int]]:
    """All ways to cut a set in two, each once."""
    low = joined & -joined
    rest = joined ^ low
    part = rest
    while part:
        part = (part - 1) & rest
        yield low | part, rest ^ part


def plan_sql(graph: JoinGraph, hypergraph: Hypergraph, plan: SubPlan) -> str:
    """The Spark SQL of a plan over all visible columns."""

    def scan(relation: str) -> exp.Table:
        return table(graph.by_name[relation].source, relation)

    outputs = [
        named(column(c, name), f"{name}.{c}")
        for name in sorted(visible(graph.root))
        for c in COLUMNS
    ]
    return pretty(add_from(exp.select(*outputs), hypergraph, plan, scan))


def plan_rows(graph: JoinGraph, hypergraph: Hypergraph, plan: SubPlan) -> Bag:
    """What a plan gives."""
    sql = to_duckdb(plan_sql(graph, hypergraph, plan))
    return Counter(database().execute(sql).fetchall())


def wrong_plans(
    graph: JoinGraph, seed: int, chosen: Callable[[list[SubPlan]], list[SubPlan]]
) -> tuple[int, list[str]]:
    """How many plans were run, and the SQL of those that give other rows than the query."""
    combiner = combiner_of(graph, WrongSizes(None, seed))
    wanted = literal_rows(graph)
    plans = chosen(all_plans(combiner))
    wrong = [
        plan_sql(graph, combiner.graph, plan)
        for plan in plans
        if plan_rows(graph, combiner.graph, plan) != wanted
    ]
    return len(plans), wrong
