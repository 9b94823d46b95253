"""Net, fold and MERGE: from weighted path rows to what is written.

The statements themselves stop what would be silently wrong, before anything is committed:

    two new rows of one key, or an insert that finds its key in the target     KEY_VIOLATED
    an update or delete that finds no row; a multiplicity below zero            TARGET_DRIFT
    a row of a bag that finds another one of the same hash                      ROWS_COLLIDE
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from deltajoin.delta.plan import Target
from deltajoin.emit.ast import (
    as_text,
    call,
    coalesce,
    column,
    expression,
    fail,
    named,
    number,
    pretty,
    same,
    same_columns,
    string,
    table,
)
from deltajoin.names import COUNT, OPERATION, ROW_HASH, SHOWN, WEIGHT

PATH_ROWS, TO_WRITE = "path_rows", "to_write"


def by_rows(
    names: Sequence[str], exactly: Sequence[str], rows: exp.Expr, alias: str | None = None
) -> exp.Select:
    """Columns grouped by themselves; those in `exactly` by their text too and given out as they
    are, where GROUP BY would give 0.0 for -0.0."""

    def of(name: str) -> exp.Column:
        return column(name, alias)

    outputs = (
        named(call("any_value", of(name)), name) if name in exactly else of(name) for name in names
    )
    texts = (as_text(of(name)) for name in exactly)
    select = exp.select(*outputs).from_(rows, copy=False)
    return select.group_by(*map(of, names), *texts, copy=False)


def net(
    names: Sequence[str],
    rows: exp.Expr,
    exactly: Sequence[str] = (),
    weight: exp.Expr | None = None,
) -> exp.Select:
    """Distinct rows with their weights summed, zeros dropped."""
    total = call("sum", column(WEIGHT) if weight is None else weight)
    select = by_rows(names, exactly, rows).select(named(total, WEIGHT), copy=False)
    return select.having(total.neq(0), copy=False)


def count_select(select: exp.Query, target: Target) -> exp.Select:
    """Distinct rows of a query with their multiplicity."""
    rows = by_rows(target.stored, target.exactly, select.subquery("query"))
    return rows.select(named(call("count", number(1)), COUNT))


def stamped(rows: exp.Query, target: Target) -> exp.Query:
    """Rows as they are stored, with their stamps in their places."""
    if not target.stamps:
        return rows
    stamps = {name: named(value, name) for name, value in _stamps(target)}
    names = (*target.visible, *target.hidden, *((COUNT,) if target.kind == "bag" else ()))
    outputs = (stamps.get(name) or column(name) for name in names)
    return exp.select(*outputs).from_(rows.subquery("query"))


def stamps_sql(target: Target) -> str | None:
    """The stamps of the epoch as text, for its record."""
    if not target.stamps:
        return None
    return pretty(exp.select(*(named(as_text(value), name) for name, value in _stamps(target))))


def fold_sql(target: Target, rows: exp.Expr | None = None) -> str:
    """Weighted rows, those of the paths by default -> rows to write: per key with an operation, or
    per distinct row with a weight."""
    netted = net(target.stored, rows or table(PATH_ROWS), target.exactly)
    return pretty(netted if target.kind == "bag" else fold_to_keys(target, netted))


def fold_to_keys(target: Target, netted: exp.Select) -> exp.Select:
    """Net rows with weights -> one row per key with an operation."""
    weight, plus, minus = column(WEIGHT), column("plus"), column("minus")
    rest = _not_matched(target)
    folded = exp.select(
        *map(column, target.key),
        named(call("sum", call("greatest", weight, number(0))), "plus"),
        named(call("sum", call("greatest", -weight, number(0))), "minus"),
    )
    if rest:
        row = call("struct", *map(column, rest))
        new = exp.Filter(this=call("any_value", row), expression=exp.Where(this=weight > 0))
        folded = folded.select(named(new, "new"))
    folded = folded.from_(netted.subquery("net")).group_by(*map(column, target.key))
    operation = (
        exp.case()
        .when(plus > 1, fail("KEY_VIOLATED"))
        .when(minus > 1, fail("TARGET_DRIFT"))
        .when(minus.eq(0), string("insert"))
        .when(plus.eq(0), string("delete"))
        .else_(string("update"))
    )
    values: list[exp.Expr] = [
        named(coalesce(_field("new", name), column(name)), name) if name in rest else column(name)
        for name in target.key
    ]
    values += [named(_field("new", name), name) for name in rest if name not in target.key]
    return exp.select(*values, named(operation, OPERATION)).from_(folded.subquery("folded"))


def _not_matched(target: Target) -> list[str]:
    """Columns that a match by key says nothing of: a key may be equal and not the same."""
    return [n for n in target.stored if n not in target.key or n in target.exactly]


def _field(struct: str, name: str) -> exp.Dot:
    return exp.Dot(this=column(struct), expression=exp.to_identifier(name, quoted=True))


@dataclass(frozen=True)
class Merge:
    """A MERGE in two texts, up to the end of its condition and from its first WHEN: a run adds
    conditions on the target's rows between them. `by_hash` is the first text where rows are found
    by their hash."""

    into: str
    whens: str
    by_hash: str = ""

    @property
    def sql(self) -> str:
        """The whole statement."""
        return f"{self.by_hash or self.into}\n{self.whens}"


def merge_of(target: Target, exactly: Sequence[str] = ()) -> Merge:
    """The one MERGE of a run that does not overwrite.

    Without a key the whole row is matched, columns in `exactly` by their text besides, else the
    key; both null-safely. Of a plain target only a row that goes is matched. Rows with a hash are
    found by it, and must then be the same; rows that share one are found as those without.
    """
    matched = same_columns(target.key or target.stored, "t", "s")
    matched += [same(as_text(column(n, "t")), as_text(column(n, "s"))) for n in exactly]
    if target.kind == "plain":
        matched.append(_WEIGHT < 0)
    whens = {"bag": _bag_whens, "plain": _plain_whens}.get(target.kind, _keyed_whens)(target)
    by_hash = ""
    if target.hashed:
        by_hash = _merge_into(target, column(ROW_HASH, "t").eq(column(ROW_HASH, "s")))
        another = exp.Not(this=exp.paren(exp.and_(*matched)))
        whens.insert(0, _when(True, another, _update([(COUNT, fail("ROWS_COLLIDE"))])))
    merged = _merge_into(target, exp.and_(*matched))
    return Merge(merged, pretty(exp.Whens(expressions=whens)), by_hash)


def _merge_into(target: Target, matched: exp.Expr) -> str:
    """A MERGE up to the end of its condition."""
    into = exp.Table(
        this=exp.to_identifier(target.location, quoted=True),
        db=exp.to_identifier("delta", quoted=False),
        alias=exp.TableAlias(this=exp.to_identifier("t")),
    )
    none = exp.Whens(expressions=[])
    head = exp.Merge(this=into, using=table(TO_WRITE, "s"), on=matched, whens=none)
    return pretty(head).rstrip()


_WEIGHT, _OPERATION = column(WEIGHT, "s"), column(OPERATION, "s")
_DELETE = exp.Var(this="DELETE")
Values = list[tuple[str, exp.Expr]]


def _keyed_whens(target: Target) -> list[exp.When]:
    rest = _not_matched(target)
    stamps = _stamps(target)
    watched = rest[0] if rest else target.key[0]
    whens = [
        _when(True, _OPERATION.eq("insert"), _update([(watched, fail("KEY_VIOLATED"))])),
        _when(True, _OPERATION.eq("delete"), _DELETE),
    ]
    if rest:
        shown = [(name, _shown_anew(target, name, value)) for name, value in stamps]
        whens.append(_when(True, None, _update([*_given(rest), *shown])))
    drift = _insert([(target.key[0], fail("TARGET_DRIFT"))])
    whens.append(_when(False, _OPERATION.neq("insert"), drift))
    whens.append(_when(False, None, _insert([*_given(target.stored), *stamps])))
    return whens


def _stamps(target: Target) -> Values:
    return [(stamp.name, expression(stamp.sql)) for stamp in target.stamps]


def _given(names: Sequence[str]) -> Values:
    """Columns as the row to write has them."""
    return [(name, column(name, "s")) for name in names]


def _shown_anew(target: Target, name: str, value: exp.Expr) -> exp.Expr:
    """A stamp for a row that a user sees changed: hidden columns may change alone."""
    if not target.hidden:
        return value
    seen = (*target.columns, *(n for n in target.hidden if n == SHOWN))
    return exp.case().when(exp.and_(*same_columns(seen, "t", "s")), column(name, "t")).else_(value)


def _bag_whens(target: Target) -> list[exp.When]:
    after = column(COUNT, "t") + _WEIGHT
    drift, stamps = [(COUNT, fail("TARGET_DRIFT"))], _stamps(target)
    inserted, there = _WEIGHT > 0, exp.GT(this=after, expression=number(0))
    counted: Values = [(COUNT, after)]
    whens = [_when(True, exp.EQ(this=after.copy(), expression=number(0)), _DELETE)]
    if stamps:  # copies that came give all of them their stamp, copies that went leave it
        whens.append(_when(True, exp.and_(there, inserted), _update([*counted, *stamps])))
    rows = [*_given(target.stored), (COUNT, _WEIGHT), *stamps]
    rows += _given([ROW_HASH]) if target.hashed else []
    return [
        *whens,
        _when(True, there, _update(counted)),
        _when(True, None, _update(drift)),
        _when(False, inserted, _insert(rows)),
        _when(False, None, _insert(drift)),
    ]


def _plain_whens(target: Target) -> list[exp.When]:
    """A row that goes goes with all its copies; those that stay, and those that come, are added."""
    rows = [*_given(target.columns), *_stamps(target)]
    return [
        _when(True, None, _DELETE),
        _when(False, _WEIGHT >= 0, _insert(rows)),
        _when(False, None, _insert([(target.columns[0], fail("TARGET_DRIFT"))])),
    ]


def _update(values: Values) -> exp.Update:
    sets = (exp.EQ(this=column(name), expression=value.copy()) for name, value in values)
    return exp.Update(expressions=list(sets))


def _insert(values: Values) -> exp.Insert:
    names = exp.Tuple(expressions=[column(name) for name, _ in values])
    return exp.Insert(
        this=names, expression=exp.Tuple(expressions=[value.copy() for _, value in values])
    )


def _when(matched: bool, condition: exp.Expr | None, then: exp.Expr) -> exp.When:
    return exp.When(matched=matched, condition=condition and condition.copy(), then=then.copy())
