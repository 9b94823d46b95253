"""The comparison of mode shadow: the target after the run against the query as it was written.

    target_before, to_write     the target as the last epoch left it; what the MERGE will do
    shadow_full                 the user's own text over this epoch's versions

Rows of the first two count up, rows of the last count down, and what does not sum to zero differs.
What a user doesn't see of the target is no part of that. Hidden state of groups is compared with
our own form of the query (`shadow_state`), so that what is wrong there is told before it shows.
Float columns come after: among the rows that differ and are equal in all other columns, both sides
are sorted and compared pair by pair within the tolerance (`delta/shadow.py`).

Result: the exactly compared columns, and how many rows are too many and missing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from deltajoin.delta.plan import Shadow, Target
from deltajoin.emit.ast import call, column, named, number, pretty, string, table, union_all
from deltajoin.emit.write import TO_WRITE
from deltajoin.names import COUNT, OPERATION, SHOWN, WEIGHT

if TYPE_CHECKING:
    from deltajoin.emit.views import Scan

TARGET_BEFORE, SHADOW_FULL, SHADOW_STATE = "target_before", "shadow_full", "shadow_state"
EXTRA, MISSING = "__deltajoin_extra", "__deltajoin_missing"


@dataclass(frozen=True)
class Comparison:
    """A query over this epoch's versions, and the statement that compares the target with it."""

    view: str
    sql: str
    compare: str


@dataclass(frozen=True)
class ShadowProgram:
    """What mode shadow needs more: versions to open, the user's own text and the comparison with
    it, then that of hidden state."""

    scans: tuple[Scan, ...]
    comparisons: tuple[Comparison, ...]


def comparisons(target: Target, shadow: Shadow, own_text: str, full: str) -> tuple[Comparison, ...]:
    """The comparison with the user's own text; for hidden state one with our form of the query."""
    seen = Comparison(SHADOW_FULL, own_text, compare_sql(target, shadow))
    if not target.hidden:
        return (seen,)
    whole = replace(target, columns=target.stored, hidden=())
    return seen, Comparison(SHADOW_STATE, full, compare_sql(whole, shadow, SHADOW_STATE))


def compare_sql(target: Target, shadow: Shadow, view: str = SHADOW_FULL) -> str:
    """Rows in which the target after the run and a query differ; none when they are equal."""
    columns = [column(name) for name in target.columns]
    weight = call("sum", column(WEIGHT))
    differing = (
        exp.select(*columns, named(weight, WEIGHT))
        .from_(_weighted(target, view).subquery("both"))
        .group_by(*[c.copy() for c in columns])
        .having(exp.NEQ(this=weight.copy(), expression=number(0)))
    )
    if shadow.floats:
        return pretty(_settle(differing, target, shadow))
    up, down = column(WEIGHT), exp.Neg(this=column(WEIGHT))
    counted = (named(call("greatest", w, number(0)), n) for w, n in ((up, EXTRA), (down, MISSING)))
    return pretty(
        exp.select(*[c.copy() for c in columns], *counted).from_(differing.subquery("differing"))
    )


def _weighted(target: Target, view: str) -> exp.Query:
    """All rows of both sides that a user sees: the target's up, the query's down."""
    columns = [column(name) for name in target.columns]

    def rows(weight: exp.Expr, name: str) -> exp.Select:
        return exp.select(*[c.copy() for c in columns], named(weight, WEIGHT)).from_(table(name))

    bag = target.kind == "bag"
    counted = bag and view == SHADOW_STATE
    queried = rows(exp.Neg(this=column(COUNT) if counted else number(1)), view)
    if not target.key:
        before = rows(column(COUNT) if bag else number(1), TARGET_BEFORE)
        return union_all(before, rows(column(WEIGHT), TO_WRITE), queried)
    deleted = exp.NEQ(this=column(OPERATION), expression=string("delete"))
    same_key = [
        exp.NullSafeEQ(this=column(name, "t"), expression=column(name, "s")) for name in target.key
    ]
    untouched = (
        exp.select(*[column(name, "t") for name in target.columns], named(number(1), WEIGHT))
        .from_(table(TARGET_BEFORE, "t"))
        .join(table(TO_WRITE, "s"), on=exp.and_(*same_key), join_type="left anti")
    )
    written = rows(number(1), TO_WRITE).where(deleted)
    if SHOWN in target.hidden:
        untouched, written = untouched.where(column(SHOWN, "t")), written.where(column(SHOWN))
    return union_all(untouched, written, queried)


def _settle(differing: exp.Select, target: Target, shadow: Shadow) -> exp.Select:
    """What still differs once float columns are compared within their tolerance."""
    names = [name for name, _ in shadow.floats]
    exact = [column(name) for name in target.columns if name not in names]
    up, down = column(WEIGHT), exp.Neg(this=column(WEIGHT))
    sides = exp.select(
        *exact, named(_side(names, up), EXTRA), named(_side(names, down), MISSING)
    ).from_(differing.subquery("differing"))
    if exact:
        sides = sides.group_by(*[c.copy() for c in exact])
    sizes = {side: call("size", column(side, "sides")) for side in (EXTRA, MISSING)}
    agree = call("forall", _pairs(shadow), _lambda(exp.column("pair"), "pair"))
    same = exp.and_(exp.EQ(this=sizes[EXTRA], expression=sizes[MISSING]), agree)
    counted = (named(exp.cast(size.copy(), "bigint"), side) for side, size in sizes.items())
    return (
        exp.select(*[c.copy() for c in exact], *counted)
        .from_(sides.subquery("sides"))
        .where(exp.Not(this=exp.paren(same)))
    )


def _side(names: list[str], weight: exp.Expr) -> exp.Expr:
    """The float values of one side, each as often as it comes, sorted."""
    values = [named(column(name), f"f{i}") for i, name in enumerate(names)]
    times = exp.cast(weight.copy(), "int")
    repeated = call("array_repeat", call("struct", *values), times)
    on_side = exp.GT(this=weight.copy(), expression=number(0))
    collected = call("collect_list", exp.case().when(on_side, repeated))
    return call("sort_array", call("flatten", collected))


def _pairs(shadow: Shadow) -> exp.Expr:
    """Whether each pair of the two sorted sides agrees, as an array."""
    agree = exp.and_(
        *(_close(f"f{i}", tolerance) for i, (_, tolerance) in enumerate(shadow.floats))
    )
    return call(
        "zip_with", column(EXTRA, "sides"), column(MISSING, "sides"), _lambda(agree, "a", "b")
    )


def _close(field: str, tolerance: float) -> exp.Expr:
    """NULL, NaN and the infinities agree with themselves alone."""
    a, b = (exp.column(field, table=side) for side in ("a", "b"))
    gap = call("abs", exp.Sub(this=a, expression=b))
    scale = call("greatest", number(1), call("abs", a.copy()), call("abs", b.copy()))
    bound = exp.Mul(this=exp.cast(string(repr(tolerance)), "double"), expression=scale)
    finite = exp.LT(this=gap, expression=exp.cast(string("Infinity"), "double"))
    within = exp.and_(finite, exp.LTE(this=gap.copy(), expression=bound))
    same = exp.NullSafeEQ(this=a.copy(), expression=b.copy())
    return exp.paren(exp.or_(same, call("coalesce", within, exp.false())))


def _lambda(body: exp.Expr, *names: str) -> exp.Lambda:
    return exp.Lambda(this=body, expressions=[exp.to_identifier(name) for name in names])
