"""Groups of rows that are joined with the first ones of an order: aggregates of the pairs without
the pairs.

    known      for each key and value of the order: the state of the right rows' aggregates
    both       these, and the rows of the left, each behind all right rows that match it
    running    for each row of the left: the state of the right rows before it

For `count(*) ... FROM l JOIN r ON l.x >= r.y GROUP BY l.d`, right rows are sorted by y and a left
row stands among them by x, behind those whose y is the same. What its group gives out is made of
the states of its rows (`kept_groups.groups_of_states`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlglot import exp

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
from deltajoin.emit.kept_groups import merging, states
from deltajoin.emit.nesting import Arms, add_from
from deltajoin.graph import JoinGraph
from deltajoin.layers import INPUT
from deltajoin.names import RESERVED_PREFIX, ROWS, quote
from deltajoin.planner.combine import SubPlan
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
    places = [f"{RESERVED_PREFIX}value_{i}" for i in range(len(order.keys))]
    functions = merging(state)

    def side(plan: SubPlan, names: Iterable[str], at: str, keys: Iterable[str]) -> exp.Subquery:
        """The rows of a side; the value that is compared is missing where nothing matches."""
        there = {query.hypergraph.names[leaf] for leaf in plan.leaves()}
        for sql in (p.sql for e in query.plan.edges if not e.implied for p in e.predicates):
            if {relation for relation, _ in refs_in(sql)} <= there:
                at = f"CASE WHEN {sql} THEN {at} END"
        values = {p.name: p.sql for p in graph.projections}
        given = [*((values[name], name) for name in names), *zip(keys, places, strict=True)]
        select = exp.select(*(named(expression(sql), name) for sql, name in [*given, (at, _AT)]))
        return aliased(add_from(select, query.hypergraph, plan, scan, arms), INPUT)

    theirs = {query.hypergraph.names[leaf] for leaf in right.leaves()}
    of_right = [p.name for p in graph.projections if any(ref[0] in theirs for ref in p.refs)]
    kept = [p.name for p in graph.projections if p.name not in of_right]
    by = [column(name, INPUT) for name in (*places, _AT)]
    known = exp.select(*by, *(named(value, name) for name, value in states(state)))
    known = known.from_(side(right, of_right, order.right, (key for _, key in order.keys)))
    known = known.where(*(is_null(value).not_() for value in by)).group_by(*by)
    mine = side(left, kept, order.left, (key for key, _ in order.keys))

    both = union_all(
        _with_nulls(by, _RIGHT, kept, functions, set(functions)).from_(aliased(known, INPUT)),
        _with_nulls(by, _LEFT, kept, functions, set(kept)).from_(mine),
    )
    over = _up_to_here(order.operator, places)
    sums = (parse_expression(f"{f}({quote(name)}) {over}") for name, f in functions.items())
    running = exp.select(*map(column, (*kept, _SIDE)), *map(named, sums, functions))
    running = running.from_(aliased(both, INPUT))
    matched, is_outer = column(ROWS, INPUT), query.plan.kind == "left"
    found = coalesce(matched, number(1)) if is_outer else matched
    rest = (column(name, INPUT) for name in (*kept, *functions) if name != ROWS)
    select = exp.select(*rest, named(found, ROWS)).from_(aliased(running, INPUT))
    select = select.where(column(_SIDE, INPUT).eq(_LEFT))
    return select if is_outer else select.where(is_null(matched).not_())


def _up_to_here(operator: str, places: Iterable[str]) -> str:
    """The window of all rows of a key up to one."""
    values, sides = _ORDERS[operator]
    keys = ", ".join(map(quote, places))
    rows = f"ORDER BY {_AT} {values} NULLS FIRST, {_SIDE} {sides} ROWS UNBOUNDED PRECEDING"
    return f"OVER ({f'PARTITION BY {keys} ' if keys else ''}{rows})"


def _with_nulls(
    by: Iterable[exp.Expr], side: int, kept: Iterable[str], states: Iterable[str], own: set[str]
) -> exp.Select:
    """One of two sides, with all columns of both: NULL but for its own."""
    names = (*kept, *states)
    values = (column(name, INPUT) if name in own else exp.Null() for name in names)
    shown = (named(value, name) for value, name in zip(values, names, strict=True))
    return exp.select(*by, named(number(side), _SIDE), *shown)
