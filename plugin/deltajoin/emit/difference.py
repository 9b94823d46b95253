"""A rebuild that is written by difference: the rows that differ, and their MERGE.

    rebuilt         the rows of the whole query, as they would be stored
    target_rows     the rows that are stored
    to_write        what differs: per key with an operation, else with a weight

Rows count up on one side and down on the other; columns that may hold -0.0 are grouped by their
text too. A plain target may hold a row several times, and a MERGE can't delete one copy of two: a
row that is to have fewer copies goes with all of them and comes again as often as it stays:

    weight < 0      all copies go; stands once, and for each copy that stays a row with weight 0
    weight > 0      stands so often, with weight 1

Stamps are not compared: a row that is written has the new one, any other keeps its own.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from deltajoin.delta.plan import Rebuild, Target
from deltajoin.emit.ast import (
    call,
    column,
    named,
    number,
    pretty,
    table,
    union_all,
    weighted,
)
from deltajoin.emit.kept_groups import TARGET_ROWS
from deltajoin.emit.write import Merge, by_rows, fold_to_keys, merge_of
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
    fold = _net(target, rebuild.exactly)
    if target.key:
        fold = fold_to_keys(target, fold)
    elif target.kind == "plain":
        fold = _copies(target, fold)
    return pretty(fold), merge_of(target, () if target.key else rebuild.exactly)


def _net(target: Target, exactly: tuple[str, ...]) -> exp.Select:
    """The rows that differ, with how many more there are to be, or, below 0, how many fewer."""
    one = column(COUNT) if target.kind == "bag" else number(1)
    both = union_all(
        weighted(target.stored, one, table(REBUILT)),
        weighted(target.stored, -one, table(TARGET_ROWS)),
    )
    weight = column(WEIGHT, _BOTH)
    total = call("sum", weight)
    select = by_rows(target.stored, exactly, both.subquery(_BOTH), _BOTH)
    select = select.select(named(total, WEIGHT)).having(total.neq(0))
    if target.kind == "plain":
        after = call("sum", call("greatest", weight, number(0)))
        select = select.select(named(after, _AFTER))
    return select


def _copies(target: Target, netted: exp.Select) -> exp.Select:
    """Net rows as often as they are to be written."""
    weight = column(WEIGHT)
    fewer = weight < 0
    first = exp.cast(call("if", fewer, number(0), number(1)), "bigint")
    last = call("if", fewer, column(_AFTER), weight)
    copies = named(call("explode", call("sequence", first, last)), _COPY)
    columns = list(map(column, target.columns))
    repeated = exp.select(*columns, weight, copies).from_(netted.subquery("net"))
    written = exp.case().when(column(_COPY).eq(0), weight).when(weight > 0, number(1))
    return weighted(target.columns, written.else_(number(0)), repeated.subquery("copies"))
