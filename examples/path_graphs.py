"""Synthetic queries and statistics for the rooted part of the planner's bench.

Every table has a key `id` and, for each of its joins, a column; sizes, references, keys, distinct
values and filters are drawn from a seeded generator. `one_key` joins all relations on one column,
`mixed` has keys of several columns, inequalities, filters and tables that are used twice.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from deltajoin.delta.path import SourceVersion
from deltajoin.graph import ColumnRef, JoinGraph, Predicate, Relation, refs_of
from deltajoin.planner.statistics import Statistics
from examples.planner_graphs import Pair, names, pairs_of

SHAPES = ("chain", "cycle", "star", "snowflake", "clique", "grid", "one_key", "mixed")


def path_graph(shape: str, size: int, seed: int) -> tuple[JoinGraph, Statistics]:
    """A query of inner joins, and what is known of its tables: 10 to 30 million rows."""
    rng = random.Random(f"path {shape} {size} {seed}")
    named = names(size)
    tables = [f"t{number:03}" for number in range(size)]
    if shape == "mixed":
        tables = [rng.choice(tables[: number + 1]) for number in range(size)]
    predicates = list(_predicates(shape, named, rng))
    used: dict[str, set[str]] = {name: {"id"} for name in named}
    for predicate in predicates:
        for name, column in predicate.refs:
            used[name].add(column)
    relations = tuple(
        Relation(name, table, tuple(sorted(used[name])))
        for name, table in zip(named, tables, strict=True)
    )
    rows: dict[str, int | None] = {t: int(10 ** rng.uniform(1, 7.5)) for t in sorted(set(tables))}
    keys = {t: ("id",) for t in sorted(rows) if rng.random() < 0.7}
    distinct = {
        f"{table}.{column}": 10 ** rng.uniform(0, 6)
        for name, table in zip(named, tables, strict=True)
        for column in sorted(used[name] - {"id"})
        if rng.random() < 0.5
    }
    return JoinGraph(relations, tuple(predicates), ()), Statistics(
        rows, keys, hints={"distinct": distinct}
    )


def changed_versions(
    graph: JoinGraph, statistics: Statistics, share: float = 0.01
) -> dict[str, SourceVersion]:
    """Every table of a graph with a change of a share of its rows."""
    return {
        source: SourceVersion(
            source=source,
            location="",
            table_id=source,
            version=1,
            previous=0,
            rows=statistics.rows[source],
            change_rows=max(1, round(share * statistics.table_rows(source))),
            columns=(),
        )
        for source in graph.sources
    }


def _predicates(shape: str, named: tuple[str, ...], rng: random.Random) -> Iterator[Predicate]:
    if shape == "one_key":
        for name in named[1:]:
            yield _equality((named[0], "k"), (name, "k"))
        return
    for one, other in _pairs(shape, len(named), rng):
        left: ColumnRef = (named[one], f"c{other}")
        right: ColumnRef = (named[other], rng.choice(("id", f"c{one}")))
        if shape == "mixed" and rng.random() < 0.15:
            yield _inequality(left, right)
            continue
        yield _equality(left, right)
        if shape == "mixed" and rng.random() < 0.2:
            yield _equality((named[one], f"d{other}"), (named[other], f"d{one}"))
    for name in named:
        if rng.random() < 0.3:
            yield Predicate(f"`{name}`.`id` > 1", "filter", ((name, "id"),))


def _pairs(shape: str, size: int, rng: random.Random) -> tuple[Pair, ...]:
    if shape == "mixed":
        return pairs_of("cyclic", size, rng)
    if shape != "grid":
        return pairs_of(shape, size, rng)
    wide = max(2, round(size**0.5))
    below = tuple((i, i + wide) for i in range(size - wide))
    beside = tuple((i, i + 1) for i in range(size - 1) if (i + 1) % wide)
    return tuple(sorted(below + beside))


def _equality(left: ColumnRef, right: ColumnRef) -> Predicate:
    sides = (f"`{relation}`.`{column}`" for relation, column in (left, right))
    return Predicate(" = ".join(sides), "edge", refs_of([left, right]), left, right)


def _inequality(left: ColumnRef, right: ColumnRef) -> Predicate:
    sides = (f"`{relation}`.`{column}`" for relation, column in (left, right))
    return Predicate(" < ".join(sides), "residual", refs_of([left, right]))
