"""The comparison of mode shadow: the target after the run against the query as it was written.

    target_before, to_write     the target as the last epoch left it; what the MERGE will do
    shadow_full                 the user's own text over this epoch's versions

Rows of the first two count up, rows of the last count down, and what does not sum to zero differs.
Hidden state of groups is compared with our own form of the query (`shadow_state`). Float columns
come after: among the rows that differ and are equal in all other columns, both sides are sorted and
compared pair by pair within the tolerance (`delta/shadow.py`).

Result: the exactly compared columns, and how many rows are too many and missing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from deltajoin.delta.plan import Shadow, Target
from deltajoin.emit.ast import (
    call,
    coalesce,
    column,
    joined,
    named,
    number,
    pretty,
    same,
    same_columns,
    string,
    table,
    union_all,
    weighted,
)
from deltajoin.emit.write import TO_WRITE, net
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
    differing = net(target.columns, _weighted(target, view).subquery("both"))
    rows, weight = differing.subquery("differing"), column(WEIGHT)
    if shadow.floats:
        return pretty(_settle(rows, target, shadow))
    counted = (
        named(call("greatest", sign, number(0)), name)
        for sign, name in ((weight, EXTRA), (-weight, MISSING))
    )
    return pretty(exp.select(*map(column, target.columns), *counted).from_(rows))


def _weighted(target: Target, view: str) -> exp.Query:
    """All rows of both sides that a user sees: the target's up, the query's down."""
    names, one, bag = target.columns, number(1), target.kind == "bag"
    counted = bag and view == SHADOW_STATE
    queried = weighted(names, -(column(COUNT) if counted else one), table(view))
    if not target.key:
        stored = weighted(names, column(COUNT) if bag else one, table(TARGET_BEFORE))
        return union_all(stored, weighted(names, column(WEIGHT), table(TO_WRITE)), queried)
    before = weighted(names, one, table(TARGET_BEFORE, "t"), "t")
    untouched = joined(before, "anti", table(TO_WRITE, "s"), same_columns(target.key, "t", "s"))
    written = weighted(names, one, table(TO_WRITE)).where(column(OPERATION).neq("delete"))
    if SHOWN in target.hidden:
        untouched, written = untouched.where(column(SHOWN, "t")), written.where(column(SHOWN))
    return union_all(untouched, written, queried)


def _settle(differing: exp.Expr, target: Target, shadow: Shadow) -> exp.Select:
    """What still differs once float columns are compared within their tolerance."""
    names, weight = [name for name, _ in shadow.floats], column(WEIGHT)
    exact = [column(name) for name in target.columns if name not in names]
    values = (named(_side(names, sign), s) for s, sign in ((EXTRA, weight), (MISSING, -weight)))
    sides = exp.select(*exact, *values).from_(differing)
    if exact:
        sides = sides.group_by(*exact)
    extra, missing = (call("size", column(side, "sides")) for side in (EXTRA, MISSING))
    agree = call("forall", _pairs(shadow), _lambda(exp.column("pair"), "pair"))
    return (
        exp.select(*exact)
        .select(
            named(exp.cast(extra, "bigint"), EXTRA), named(exp.cast(missing, "bigint"), MISSING)
        )
        .from_(sides.subquery("sides"))
        .where(exp.Not(this=exp.paren(exp.and_(extra.eq(missing), agree))))
    )


def _side(names: list[str], weight: exp.Expr) -> exp.Expr:
    """The float values of one side, each as often as it comes, sorted."""
    values = (named(column(name), f"f{i}") for i, name in enumerate(names))
    repeated = call("array_repeat", call("struct", *values), exp.cast(weight, "int"))
    on_side = exp.GT(this=weight.copy(), expression=number(0))
    collected = call("collect_list", exp.case().when(on_side, repeated))
    return call("sort_array", call("flatten", collected))


def _pairs(shadow: Shadow) -> exp.Expr:
    """Whether each pair of the two sorted sides agrees, as an array."""
    agree = exp.and_(*(_close(f"f{i}", bound) for i, (_, bound) in enumerate(shadow.floats)))
    sides = (column(side, "sides") for side in (EXTRA, MISSING))
    return call("zip_with", *sides, _lambda(agree, "a", "b"))


def _close(field: str, tolerance: float) -> exp.Expr:
    """NULL, NaN and the infinities agree with themselves alone."""
    a, b = (exp.column(field, table=side) for side in ("a", "b"))
    gap = call("abs", a - b)
    scale = call("greatest", number(1), call("abs", a), call("abs", b))
    bound = exp.Mul(this=exp.cast(string(repr(tolerance)), "double"), expression=scale)
    finite = gap < exp.cast(string("Infinity"), "double")
    within = exp.and_(finite, exp.LTE(this=gap, expression=bound))
    return exp.paren(exp.or_(same(a, b), coalesce(within, exp.false())))


def _lambda(body: exp.Expr, *names: str) -> exp.Lambda:
    return exp.Lambda(this=body, expressions=[exp.to_identifier(name) for name in names])
