"""Groups of rows that are joined with the first ones of an order: aggregates of the pairs without
the pairs.

    known      for each key and value of the order: the state of the right rows' aggregates
    both       these, and the rows of the left, each behind all right rows that match it
    running    for each row of the left: the state of the right rows before it

For `count(*) ... FROM l JOIN r ON l.x >= r.y GROUP BY l.d`, right rows are sorted by y and a left
row stands among them by x, behind those whose y is the same. What its group gives out is made of
the states of its rows (`kept_groups`). In a path either side may be the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from sqlglot import exp

from deltajoin.accelerate.protocol import Running
from deltajoin.delta.state import GroupState
from deltajoin.emit.ast import (
    aliased,
    coalesce,
    column,
    expression,
    is_null,
    named,
    number,
    refs_in,
    union_all,
)
from deltajoin.emit.kept_groups import Outputs, merging, states
from deltajoin.emit.nesting import Arms, add_from
from deltajoin.graph import JoinGraph, Projection
from deltajoin.layers import INPUT
from deltajoin.names import RESERVED_PREFIX, ROWS, quote
from deltajoin.planner.full_query import FullQuery
from deltajoin.sql.dialect import parse_expression

_AT, _SIDE = f"{RESERVED_PREFIX}at", f"{RESERVED_PREFIX}side"
_RIGHT, _LEFT = 0, 1
#: Operator -> the order of values, and of the sides where they are equal.
_ORDERS = {">=": ("ASC", "ASC"), ">": ("ASC", "DESC"), "<=": ("DESC", "ASC"), "<": ("DESC", "DESC")}


def running_states(
    graph: JoinGraph,
    query: FullQuery,
    state: GroupState,
    scan: Callable[[str], exp.Table],
    arms: Arms,
) -> exp.Select:
    """For each row of the left side that the last join gives out: the columns that it is grouped
    by, and the state of the rows that it is joined with."""
    assert query.running is not None  # noqa: S101 - of such plans
    left, right, order = query.running
    on = [p.sql for e in query.plan.edges if not e.implied for p in e.predicates]
    theirs = {query.hypergraph.names[leaf] for leaf in right.leaves()}
    kept, given = parted(graph.projections, theirs)
    sides = []
    for plan, outputs in ((right, given), (left, kept)):
        names = {query.hypergraph.names[leaf] for leaf in plan.leaves()}
        values = [(p.name, p.sql) for p in outputs] + compared_values(
            order, on, names, plan is right
        )
        select = exp.select(*(named(expression(sql), name) for name, sql in values))
        sides.append(add_from(select, query.hypergraph, plan, scan, arms))
    known = known_states(order, sides[0], states(state))
    shown = [p.name for p in kept]
    return up_to_each(order, known, sides[1], shown, merging(state), query.plan.kind == "left")


def parted(
    outputs: Iterable[Projection], right: Collection[str]
) -> tuple[list[Projection], list[Projection]]:
    """Columns of the joined rows that are of the left side, and those of the right."""
    found: tuple[list[Projection], list[Projection]] = [], []
    for output in outputs:
        found[any(relation in right for relation, _ in output.refs)].append(output)
    return found


def compared_values(
    order: Running, on: Sequence[str], relations: Collection[str], of_right: bool
) -> list[tuple[str, str]]:
    """The columns by which a side is joined, each with its expression; the one that is compared is
    missing where a condition of the join on this side alone doesn't hold."""
    at = order.right if of_right else order.left
    for sql in on:
        if {relation for relation, _ in refs_in(sql)} <= {*relations}:
            at = f"CASE WHEN {sql} THEN {at} END"
    keys = zip(_places(order), (key[of_right] for key in order.keys), strict=True)
    return [*keys, (_AT, at)]


def known_states(order: Running, right: exp.Query, values: Outputs) -> exp.Select:
    """The states of right rows, for each key and value by which they are compared."""
    by = [column(name, INPUT) for name in (*_places(order), _AT)]
    select = exp.select(*by, *(named(value, name) for name, value in values))
    there = (is_null(value).not_() for value in by)
    return select.from_(aliased(right, INPUT)).where(*there).group_by(*by)


def up_to_each(
    order: Running,
    known: exp.Query,
    left: exp.Query,
    kept: Sequence[str],
    functions: Mapping[str, str],
    outer: bool = False,
) -> exp.Select:
    """Some columns of each left row, and the state of all right rows that match it.

    Args:
        functions: state column -> what makes it of several.
        outer: rows that nothing matches are one row each.
    """
    places = _places(order)

    def side(number_: int, rows: exp.Query, own: Collection[str]) -> exp.Select:
        """One of both, with all columns: NULL but for its own."""
        names = (*kept, *functions)
        values = [column(name, INPUT) if name in own else exp.Null() for name in names]
        by = (column(name, INPUT) for name in (*places, _AT))
        select = exp.select(*by, named(number(number_), _SIDE), *map(named, values, names))
        return select.from_(aliased(rows, INPUT))

    both = union_all(side(_RIGHT, known, functions), side(_LEFT, left, kept))
    values, sides = _ORDERS[order.operator]
    keys = f"PARTITION BY {', '.join(map(quote, places))} " if places else ""
    rows = f"ORDER BY {_AT} {values} NULLS FIRST, {_SIDE} {sides} ROWS UNBOUNDED PRECEDING"
    running = exp.select(*map(column, (*kept, _SIDE)))
    for name, function in functions.items():
        over = parse_expression(f"{function}({quote(name)}) OVER ({keys}{rows})")
        running = running.select(named(over, name))
    matched = column(ROWS, INPUT)
    found = coalesce(matched, number(1)) if outer else matched
    rest = (column(name, INPUT) for name in (*kept, *functions) if name != ROWS)
    select = exp.select(*rest, named(found, ROWS))
    select = select.from_(aliased(running.from_(aliased(both, INPUT)), INPUT))
    select = select.where(column(_SIDE, INPUT).eq(_LEFT))
    return select if outer else select.where(is_null(matched).not_())


def _places(order: Running) -> list[str]:
    return [f"{RESERVED_PREFIX}value_{i}" for i in range(len(order.keys))]
