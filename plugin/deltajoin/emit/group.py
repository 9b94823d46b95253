"""From net input rows to what a grouped target's MERGE will do.

Any aggregate is kept exactly by recomputing the groups that the net change touches, from this
epoch's rows, and comparing them with what the target holds: a group that vanished is deleted, one
that did not change is not written.

    touched      distinct group keys of the net change
    regrouped    all input rows of (at least) those groups
    target_rows  what a user selects from
"""

from __future__ import annotations

from sqlglot import exp

from deltajoin.delta.plan import Target
from deltajoin.delta.route import TOUCHED
from deltajoin.emit.ast import column, expression, named, number, pretty, string, table
from deltajoin.graph import Grouping, JoinGraph
from deltajoin.layers import INPUT
from deltajoin.names import OPERATION

REGROUPED, TARGET_ROWS = "regrouped", "target_rows"
_THERE = "__deltajoin_there"


def touched_sql(graph: JoinGraph, rows: exp.Select) -> str:
    """Distinct keys of groups or partitions in the net change."""
    keys = [column(key) for key in graph.part_keys]
    return pretty(exp.select(*keys).distinct().from_(rows.subquery("net")))


def group_sql(target: Target, grouping: Grouping, rows: exp.Expr) -> str:
    """Rows to write: every touched group whose row came, went or changed, with an operation.

    `rows`: all input rows of the touched groups, under the alias INPUT.
    """
    new = touched_groups(rows, grouping, TOUCHED)
    new = new.select(named(number(1), _THERE))
    old = exp.select(*(column(name, "t") for name in target.columns), named(number(1), _THERE))
    names = dict(zip(grouping.keys, grouping.key_outputs, strict=True))
    old = _touched(old.from_(table(TARGET_ROWS, "t")), "t", names, TOUCHED)
    keys = set(target.key)
    values = [
        named(exp.func("coalesce", column(n, "new"), column(n, "old")), n)
        if n in keys
        else column(n, "new")
        for n in (*target.key, *(n for n in target.columns if n not in keys))
    ]
    operation = (
        exp.case()
        .when(_missing("old"), string("insert"))
        .when(_missing("new"), string("delete"))
        .else_(string("update"))
    )
    on = [_same(n, "new", n, "old") for n in target.key]
    same = [_same(n, "new", n, "old") for n in target.columns if n not in keys]
    changed: list[exp.Expr] = [_missing("old"), _missing("new")]
    changed += [exp.not_(exp.and_(*same))] if same else []
    select = (
        exp.select(*values, named(operation, OPERATION))
        .from_(new.subquery("new"))
        .join(old.subquery("old"), on=exp.and_(*on), join_type="full")
        .where(exp.or_(*changed))
    )
    return pretty(select)


def grouped(rows: exp.Expr, grouping: Grouping) -> exp.Select:
    """The query's groups over its input rows, which stand under the alias INPUT."""
    select = exp.select(*(named(expression(sql), name) for name, sql in grouping.outputs))
    select = select.from_(rows).group_by(*(column(key, INPUT) for key in grouping.keys))
    return select.having(expression(grouping.having)) if grouping.having else select


def touched_groups(rows: exp.Expr, grouping: Grouping, touched: str) -> exp.Select:
    """The groups of input rows whose keys stand in the view `touched`."""
    keys = {key: key for key in grouping.keys}
    return _touched(grouped(rows, grouping), INPUT, keys, touched)


def _touched(select: exp.Select, alias: str, names: dict[str, str], view: str) -> exp.Select:
    """Rows whose group is touched; `names`: group key -> column under the alias."""
    on = [_same(key, view, name, alias) for key, name in names.items()]
    return select.join(table(view), on=exp.and_(*on), join_type="left semi")


def _same(one: str, left: str, other: str, right: str) -> exp.Expr:
    return exp.NullSafeEQ(this=column(one, left), expression=column(other, right))


def _missing(side: str) -> exp.Expr:
    return exp.Is(this=column(_THERE, side), expression=exp.Null())
