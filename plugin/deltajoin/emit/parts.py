"""Groups, windows and generators over the joined rows, in full and for what a change touches.

    touched          distinct keys of groups or partitions in the net change; of a total, its row
    regrouped        all joined rows of (at least) those groups or partitions
    target_rows      the target as stored
    partition_rows   rows of the touched parts: as they are now with weight +1, as the target holds
                     them with weight -1

A generator is row-wise: it takes the rows of a change with their weights. Groups and windows are
computed anew for every touched part: any aggregate is exact so. What is then the same in the target
cancels, and the rest is folded as any weighted rows are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from deltajoin.delta.identity import Types
from deltajoin.delta.lookup_paths import TOUCHED
from deltajoin.delta.plan import Target
from deltajoin.delta.signed_zeros import joined_apart
from deltajoin.delta.state import GroupState
from deltajoin.emit.ast import (
    aliased,
    call,
    column,
    expression,
    fail,
    joined,
    named,
    number,
    pretty,
    same,
    star,
    table,
    union_all,
    weighted,
)
from deltajoin.emit.kept_groups import TARGET_ROWS, TARGET_STORED, grouped
from deltajoin.emit.narrowing import NarrowedKey, NarrowedScan
from deltajoin.emit.stream import Statement
from deltajoin.emit.write import PATH_ROWS, net
from deltajoin.graph import JoinGraph
from deltajoin.layers import INPUT, Generation, Order, Windowing
from deltajoin.names import COUNT, WEIGHT

REGROUPED, PART_ROWS = "regrouped", "partition_rows"
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
    peers = {f"{_PEERS}_{i}": order for i, order in enumerate(windowing.orders)}
    calls = [(name, expression(sql)) for name, sql in windowing.windows]
    # Copies of a row tie in every order: of two, each may number them in its own way.
    copies = len({order.peers for order in windowing.orders if order.compared}) > 1
    calls += [(name, _peers(order, copies)) for name, order in peers.items()]
    inner = exp.select(star(INPUT)).select(*(named(call, name) for name, call in calls))
    outputs = (*windowing.outputs, *windowing.hidden)
    select = exp.select(*(named(expression(o.sql), o.name) for o in outputs))
    select = select.from_(aliased(inner.from_(rows), INPUT))
    conditions = [_no_ties(name, order, copies) for name, order in peers.items()]
    conditions += [expression(sql) for sql in windowing.conditions]
    return select.where(*conditions) if conditions else select


def _peers(order: Order, copies: bool) -> exp.Expr:
    """How many rows tie with each; where no key rules ties out, and copies don't matter, whether
    these differ."""
    if not order.compared or copies:
        return expression(order.peers)

    def of_peers(aggregate: str) -> exp.Expr:
        window = expression(order.peers)
        window.set("this", call(aggregate, call("struct", *map(expression, order.compared))))
        return window

    return exp.not_(exp.paren(same(of_peers("min"), of_peers("max"))))


def _no_ties(name: str, order: Order, copies: bool) -> exp.Expr:
    """Stops the statement where rows tie, which a declared key rules out, or differ although they
    tie; where `copies` matter, also where they are the same."""
    tied: exp.Expr = column(name, INPUT) > 1
    code = "KEY_VIOLATED"
    if order.compared:
        differ = tied if copies else column(name, INPUT)
        tied, code = exp.and_(*map(expression, order.within), differ), "WINDOW_TIES"
    return exp.case().when(tied, fail(code)).else_(exp.true())


def touched_sql(graph: JoinGraph, rows: exp.Select) -> str:
    """The touched keys, by the net change; of a total any column, as it has one part."""
    keys = graph.part_keys or graph.row_names[:1]
    return pretty(exp.select(*map(column, keys)).distinct().from_(rows.subquery("net")))


def touched_parts(
    graph: JoinGraph, view: str, touched: str, state: GroupState | None = None
) -> exp.Select:
    """The groups, or rows of the partitions, whose keys stand in the view `touched`, as they are
    stored.

    Args:
        view: all joined rows of at least these.
    """
    rows = made_rows(graph, table(view, INPUT))
    keys = {key: key for key in graph.part_keys}
    if graph.grouping is not None:
        return _of_touched(grouped(rows, graph.grouping, state), INPUT, keys, touched)
    assert graph.windowing is not None  # noqa: S101 - the caller's promise
    inner = _of_touched(exp.select(star(INPUT)).from_(rows), INPUT, keys, touched)
    return windowed(inner.subquery(INPUT), graph.windowing)


def _of_touched(select: exp.Select, alias: str, names: Mapping[str, str], view: str) -> exp.Select:
    """Rows whose part is touched, of a total all; `names`: part key -> column under the alias."""
    if not names:
        return select
    on = [same(column(key, view), column(name, alias)) for key, name in names.items()]
    return joined(select, "semi", table(view), on)


def part_rows(graph: JoinGraph, target: Target, state: GroupState | None) -> Statement:
    """The rows of the touched parts, now and in the target."""
    new = touched_parts(graph, REGROUPED, TOUCHED, state).subquery("new")
    stored = column(COUNT, "t") if target.kind == "bag" else number(1)
    old = weighted(target.stored, -stored, table(TARGET_ROWS, "t"), "t")
    old = _of_touched(old, "t", dict(_stored_keys(graph)), TOUCHED)
    both = union_all(weighted(target.stored, number(1), new), old)
    return Statement(PART_ROWS, pretty(both))


def _stored_keys(graph: JoinGraph) -> Iterator[tuple[str, str]]:
    """The part keys, each with the column that the target stores it in."""
    parted = graph.grouping or graph.windowing
    return zip(parted.keys, parted.key_outputs, strict=False) if parted else iter(())


def stored_of_touched(graph: JoinGraph, touched: str) -> NarrowedScan:
    """The rows of the target, or those within the ranges of the touched keys."""
    keys = tuple(NarrowedKey(stored, ((touched, key),)) for key, stored in _stored_keys(graph))
    return NarrowedScan(TARGET_ROWS, TARGET_STORED, keys, "stored rows")
