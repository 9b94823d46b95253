"""A rebuild that is written by difference: the rows that differ, and their MERGE.

    rebuilt         the rows of the whole query, as they would be stored
    target_rows     the rows that are stored
    to_write        what differs: per key with an operation, else with a weight

Rows count up on one side and down on the other. They are the same by their bytes, not by a
comparison: columns that may hold -0.0 are grouped by their text too, and given out as they are,
where GROUP BY would give 0.0.

A plain target may hold a row several times, and a MERGE can't delete one copy of two. A row that
is to have fewer copies goes with all of them and comes again as often as it stays:

    weight < 0      all copies go; stands once, and for each copy that stays a row with weight 0
    weight > 0      stands so often, with weight 1

Stamps are not compared: a row that is written has the new one, any other keeps its own.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from deltajoin.delta.plan import Rebuild, Target
from deltajoin.emit.ast import call, column, named, number, pretty, table, union_all
from deltajoin.emit.state import TARGET_ROWS
from deltajoin.emit.write import Merge, as_text, fold_to_keys, merge_of
from deltajoin.names import COUNT, WEIGHT

REBUILT = "rebuilt"
_BOTH, _COPY, _AFTER = "both", "__deltajoin_copy", "__deltajoin_after"


def rebuild_statements(
    target: Target, rebuild: Rebuild | None
) -> tuple[str, Merge] | tuple[None, None]:
    """The fold and the MERGE of a rebuild by difference; none for another."""
    if rebuild is None or rebuild.written != "difference":
        return None, None
    if target.kind == "plain":
        target = replace(target, columns=rebuild.columns, stamps=rebuild.stamps)
    exactly = () if target.key else rebuild.exactly
    return pretty(_fold(target, rebuild)), merge_of(target, exactly)


def _fold(target: Target, rebuild: Rebuild) -> exp.Select:
    netted = _net(target, rebuild)
    if target.key:
        return fold_to_keys(target, netted)
    return _copies(target, netted) if target.kind == "plain" else netted


def _net(target: Target, rebuild: Rebuild) -> exp.Select:
    """The rows that differ, with how many more there are to be, or, below 0, how many fewer."""
    names = target.stored
    weight = call("sum", column(WEIGHT, _BOTH))
    outputs = (
        named(call("any_value", column(name, _BOTH)), name)
        if name in rebuild.exactly
        else column(name, _BOTH)
        for name in names
    )
    select = exp.select(*outputs, named(weight, WEIGHT))
    if target.kind == "plain":
        after = call("greatest", column(WEIGHT, _BOTH), number(0))
        select = select.select(named(call("sum", after), _AFTER))
    return (
        select.from_(_weighted(target).subquery(_BOTH))
        .group_by(*(column(name, _BOTH) for name in names))
        .group_by(*(as_text(column(name, _BOTH)) for name in rebuild.exactly))
        .having(exp.NEQ(this=weight.copy(), expression=number(0)))
    )


def _weighted(target: Target) -> exp.Query:
    """The rows of both sides: the query's up, the target's down."""

    def rows(view: str, weight: exp.Expr) -> exp.Select:
        columns = (column(name) for name in target.stored)
        return exp.select(*columns, named(weight, WEIGHT)).from_(table(view))

    one = column(COUNT) if target.kind == "bag" else number(1)
    return union_all(rows(REBUILT, one), rows(TARGET_ROWS, exp.Neg(this=one.copy())))


def _copies(target: Target, netted: exp.Select) -> exp.Select:
    """Net rows as often as they are to be written."""
    columns = [column(name) for name in target.columns]
    fewer = exp.LT(this=column(WEIGHT), expression=number(0))
    first = call("if", fewer, number(0), number(1))
    last = call("if", fewer.copy(), column(_AFTER), column(WEIGHT))
    copies = call("explode", call("sequence", exp.cast(first, "bigint"), last))
    repeated = exp.select(*columns, column(WEIGHT), named(copies, _COPY))
    repeated = repeated.from_(netted.subquery("net"))
    goes = exp.EQ(this=column(_COPY), expression=number(0))
    comes = exp.GT(this=column(WEIGHT), expression=number(0))
    weight = exp.case().when(goes, column(WEIGHT)).when(comes, number(1)).else_(number(0))
    return exp.select(*(c.copy() for c in columns), named(weight, WEIGHT)).from_(
        repeated.subquery("copies")
    )
