"""From net input rows to what a grouped target's MERGE will do, by touched groups.

Any aggregate is kept exactly by recomputing the groups that the net change touches, from this
epoch's rows, and comparing them with what the target holds: a group that vanished is deleted, one
that did not change is not written. A total is one group, which every change touches.

    touched      distinct group keys of the net change
    regrouped    all input rows of (at least) those groups
    target_rows  the target as stored
"""

from __future__ import annotations

from sqlglot import exp

from deltajoin.delta.lookup_paths import TOUCHED
from deltajoin.delta.plan import Target
from deltajoin.delta.state import GroupState
from deltajoin.emit.ast import (
    as_text,
    column,
    is_null,
    named,
    number,
    pretty,
    same,
    same_columns,
    string,
    table,
)
from deltajoin.emit.state import TARGET_ROWS, grouped
from deltajoin.graph import Grouping, JoinGraph
from deltajoin.layers import INPUT
from deltajoin.names import OPERATION

REGROUPED = "regrouped"
_THERE = "__deltajoin_there"


def touched_sql(graph: JoinGraph, rows: exp.Select) -> str:
    """Distinct keys of groups or partitions in the net change; the constant of a total."""
    keys = graph.part_keys or graph.row_names[:1]
    return pretty(exp.select(*map(column, keys)).distinct().from_(rows.subquery("net")))


def group_sql(target: Target, grouping: Grouping, rows: exp.Expr, state: GroupState | None) -> str:
    """Rows to write: every touched group whose row came, went or changed, with an operation.

    `rows`: all input rows of the touched groups, under the alias INPUT.
    """
    new = touched_groups(rows, grouping, TOUCHED, state)
    new = new.select(named(number(1), _THERE))
    old = exp.select(*(column(name, "t") for name in target.stored), named(number(1), _THERE))
    names = dict(zip(grouping.keys, grouping.key_outputs, strict=False))
    old = of_touched(old.from_(table(TARGET_ROWS, "t")), "t", names, TOUCHED)
    rest = [name for name in target.stored if name not in target.key]
    keys = (named(exp.func("coalesce", column(n, "new"), column(n, "old")), n) for n in target.key)
    missing, gone = (is_null(column(_THERE, side)) for side in ("old", "new"))
    operation = exp.case().when(missing, string("insert")).when(gone, string("delete"))
    same_rows = same_columns(rest, "new", "old")
    same_rows += [
        same(as_text(column(n, "new")), as_text(column(n, "old")))
        for n in rest
        if n in target.exactly
    ]
    changed: list[exp.Expr] = [missing, gone]
    changed += [exp.not_(exp.and_(*same_rows))] if same_rows else []
    select = (
        exp.select(*keys, *(column(n, "new") for n in rest))
        .select(named(operation.else_(string("update")), OPERATION))
        .from_(new.subquery("new"))
        .join(
            old.subquery("old"),
            on=exp.and_(*same_columns(target.key, "new", "old")),
            join_type="full",
        )
        .where(exp.or_(*changed))
    )
    return pretty(select)


def touched_groups(
    rows: exp.Expr, grouping: Grouping, touched: str, state: GroupState | None = None
) -> exp.Select:
    """The groups of input rows whose keys stand in the view `touched`, as they are stored."""
    keys = {key: key for key in grouping.keys}
    return of_touched(grouped(rows, grouping, state), INPUT, keys, touched)


def of_touched(select: exp.Select, alias: str, names: dict[str, str], view: str) -> exp.Select:
    """Rows whose group is touched, of a total all; `names`: group key -> column under the alias."""
    if not names:
        return select
    on = (same(column(key, view), column(name, alias)) for key, name in names.items())
    return select.join(table(view), on=exp.and_(*on), join_type="left semi")
