"""The comparison of mode shadow: the target after the run against the whole query.

    target_before, to_write     the target as the last epoch left it; what the MERGE will do
    shadow_full                 the whole query over this epoch's versions

Rows of the first two count up, rows of the last count down, and what does not sum to zero differs.
Float columns come after: among the rows that differ and are equal in all other columns, both sides
are sorted and compared pair by pair within the tolerance (`delta/shadow.py`).

Result: the exactly compared columns, and how many rows are too many and missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from deltajoin.delta.plan import Shadow, Target
from deltajoin.emit.ast import call, column, named, number, pretty, string, table, union_all
from deltajoin.emit.write import TO_WRITE
from deltajoin.names import COUNT, OPERATION, WEIGHT

if TYPE_CHECKING:
    from deltajoin.emit.views import Scan

TARGET_BEFORE, SHADOW_FULL = "target_before", "shadow_full"
EXTRA, MISSING = "__deltajoin_extra", "__deltajoin_missing"


@dataclass(frozen=True)
class ShadowProgram:
    """What mode shadow needs more: versions to open, the whole query, the comparison."""

    scans: tuple[Scan, ...]
    full: str
    compare: str


def compare_sql(target: Target, shadow: Shadow) -> str:
    """Rows in which the target after the run and the query differ; none when they are equal."""
    columns = [column(name) for name in target.stored]
    weight = call("sum", column(WEIGHT))
    differing = (
        exp.select(*columns, named(weight, WEIGHT))
        .from_(_weighted(target).subquery("both"))
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


def _weighted(target: Target) -> exp.Query:
    """All rows of both sides: the target's up, the query's down."""
    columns = [column(name) for name in target.stored]

    def rows(weight: exp.Expr, view: str) -> exp.Select:
        return exp.select(*[c.copy() for c in columns], named(weight, WEIGHT)).from_(table(view))

    if target.kind == "bag":
        return union_all(
            rows(column(COUNT), TARGET_BEFORE),
            rows(column(WEIGHT), TO_WRITE),
            rows(exp.Neg(this=column(COUNT)), SHADOW_FULL),
        )
    deleted = exp.NEQ(this=column(OPERATION), expression=string("delete"))
    same_key = [
        exp.NullSafeEQ(this=column(name, "t"), expression=column(name, "s")) for name in target.key
    ]
    untouched = (
        exp.select(*[column(name, "t") for name in target.stored], named(number(1), WEIGHT))
        .from_(table(TARGET_BEFORE, "t"))
        .join(table(TO_WRITE, "s"), on=exp.and_(*same_key), join_type="left anti")
    )
    return union_all(
        untouched,
        rows(number(1), TO_WRITE).where(deleted),
        rows(exp.Neg(this=number(1)), SHADOW_FULL),
    )


def _settle(differing: exp.Select, target: Target, shadow: Shadow) -> exp.Select:
    """What still differs once float columns are compared within their tolerance."""
    names = [name for name, _ in shadow.floats]
    exact = [column(name) for name in target.stored if name not in names]
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
