"""Generators and windows over the joined rows, in full and for the parts that a change touches.

    partition_rows   rows of the touched partitions: as they are now with weight +1, as the target
                     holds them with weight -1

A generator is row-wise: it takes the rows of a change with their weights. Windows are computed anew
for all rows of every touched partition; what is then the same in the target cancels.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from deltajoin.delta.lookup_paths import TOUCHED
from deltajoin.delta.plan import Target
from deltajoin.delta.told_apart import Types, joined_apart
from deltajoin.emit.ast import (
    aliased,
    column,
    expression,
    fail,
    named,
    number,
    pretty,
    star,
    table,
    union_all,
    weighted,
)
from deltajoin.emit.group import REGROUPED, of_touched, touched_groups
from deltajoin.emit.narrowing import NarrowedKey, NarrowedScan
from deltajoin.emit.state import TARGET_ROWS, TARGET_STORED
from deltajoin.emit.stream import Statement
from deltajoin.emit.write import PATH_ROWS, net
from deltajoin.graph import JoinGraph
from deltajoin.layers import INPUT, Generation, Windowing
from deltajoin.names import COUNT, WEIGHT

PARTITION_ROWS = "partition_rows"
_PEERS = "__deltajoin_peers"


def generated(rows: exp.Expr, generation: Generation, carried: tuple[str, ...] = ()) -> exp.Select:
    """The generators' rows of rows under the alias INPUT; `carried` columns go through."""
    select = exp.select(*(named(expression(o.sql), o.name) for o in generation.outputs))
    select = select.select(*(column(name, INPUT) for name in carried)).from_(rows)
    for generator in generation.generators:
        names = [exp.to_identifier(name, quoted=True) for name in generator.columns]
        alias = exp.TableAlias(this=exp.to_identifier(generator.alias), columns=names)
        view = exp.Lateral(
            this=expression(generator.call), view=True, outer=generator.outer, alias=alias
        )
        select.append("laterals", view)
    conditions = [expression(sql) for sql in generation.conditions]
    return select.where(*conditions) if conditions else select


def made_rows(graph: JoinGraph, rows: exp.Expr) -> exp.Expr:
    """What groups or windows read, of joined rows under the alias INPUT."""
    if graph.generation is None:
        return rows
    return generated(rows, graph.generation).subquery(INPUT)


def net_change(graph: JoinGraph, types: Types, path_rows: str = PATH_ROWS) -> exp.Select:
    """The net change of what groups, windows or the target read, as weighted rows."""
    names = tuple(p.name for p in graph.projections)
    rows = net(names, table(path_rows), joined_apart(graph, types))
    if graph.generation is None:
        return rows
    return generated(rows.subquery(INPUT), graph.generation, (WEIGHT,))


def windowed(rows: exp.Expr, windowing: Windowing) -> exp.Select:
    """The stored rows of all rows of some partitions, which stand under the alias INPUT."""
    peers = {f"{_PEERS}_{i}": order.peers for i, order in enumerate(windowing.orders)}
    calls = [*windowing.windows, *peers.items()]
    inner = exp.select(star(INPUT)).select(*(named(expression(sql), name) for name, sql in calls))
    outputs = (*windowing.outputs, *windowing.hidden)
    select = exp.select(*(named(expression(o.sql), o.name) for o in outputs))
    select = select.from_(aliased(inner.from_(rows), INPUT))
    conditions = [_no_ties(peers)] if peers else []
    conditions += [expression(sql) for sql in windowing.conditions]
    return select.where(*conditions) if conditions else select


def _no_ties(peers: Iterable[str]) -> exp.Expr:
    """Stops the statement where rows tie, which a declared key rules out."""
    tied = exp.or_(*(column(name, INPUT) > 1 for name in peers))
    return exp.case().when(tied, fail("KEY_VIOLATED")).else_(exp.true())


def touched_parts(graph: JoinGraph, view: str, touched: str) -> exp.Select:
    """The groups, or rows of the partitions, whose keys stand in the view `touched`.

    `view`: all joined rows of at least these.
    """
    rows = made_rows(graph, table(view, INPUT))
    if graph.grouping is not None:
        return touched_groups(rows, graph.grouping, touched)
    windowing = graph.windowing
    assert windowing is not None  # noqa: S101 - the caller's promise
    keys = {key: key for key in windowing.keys}
    inner = of_touched(exp.select(star(INPUT)).from_(rows), INPUT, keys, touched)
    return windowed(inner.subquery(INPUT), windowing)


def partition_statement(graph: JoinGraph, target: Target) -> Statement:
    """The rows of the touched partitions, now and in the target."""
    windowing = graph.windowing
    assert windowing is not None  # noqa: S101 - the caller's promise
    made = touched_parts(graph, REGROUPED, TOUCHED).subquery("new")
    stored = column(COUNT, "t") if target.kind == "bag" else number(1)
    old = weighted(target.stored, -stored, table(TARGET_ROWS, "t"), "t")
    names = dict(zip(windowing.keys, windowing.key_outputs, strict=True))
    old = of_touched(old, "t", names, TOUCHED)
    both = union_all(weighted(target.stored, number(1), made), old)
    return Statement(PARTITION_ROWS, pretty(both))


def stored_of_touched(graph: JoinGraph, touched: str) -> NarrowedScan:
    """The rows of the target, or those within the ranges of the touched keys."""
    made = graph.grouping or graph.windowing
    assert made is not None  # noqa: S101 - the caller's promise
    pairs = zip(made.keys, made.key_outputs, strict=False)
    keys = tuple(NarrowedKey(stored, ((touched, key),)) for key, stored in pairs)
    return NarrowedScan(TARGET_ROWS, TARGET_STORED, keys, "stored rows")
