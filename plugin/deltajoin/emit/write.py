"""Net, fold and MERGE: from weighted path rows to what is written.

Net: sum the weights by full row, drop zeros. Keyed: fold to one row per key with an operation.
The statements themselves stop what would be silently wrong, before anything is committed:

    two new rows of one key, or an insert that finds its key in the target     KEY_VIOLATED
    an update or delete that finds no row; a multiplicity below zero            TARGET_DRIFT
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from deltajoin.delta.plan import Target
from deltajoin.emit.ast import (
    call,
    column,
    expression,
    fail,
    named,
    number,
    pretty,
    string,
    table,
)
from deltajoin.names import COUNT, OPERATION, SHOWN, WEIGHT

PATH_ROWS, TO_WRITE = "path_rows", "to_write"


def by_rows(names: tuple[str, ...], exactly: tuple[str, ...], rows: exp.Expr) -> exp.Select:
    """Columns grouped by themselves; those in `exactly` by their text too and given out as they
    are, where GROUP BY would give 0.0 for -0.0."""
    outputs = (
        named(call("any_value", column(name)), name) if name in exactly else column(name)
        for name in names
    )
    keys = [column(name) for name in names]
    texts = [as_text(column(name)) for name in exactly]
    return exp.select(*outputs).from_(rows).group_by(*keys, *texts)


def count_select(select: exp.Query, target: Target) -> exp.Select:
    """Distinct rows of a query with their multiplicity."""
    rows = by_rows(target.stored, target.exactly, select.subquery("query"))
    return rows.select(named(call("count", number(1)), COUNT))


def stamped(rows: exp.Query, target: Target) -> exp.Query:
    """Rows as they are stored, with their stamps in their places."""
    if not target.stamps:
        return rows
    stamps = {stamp.name: named(expression(stamp.sql), stamp.name) for stamp in target.stamps}
    names = (*target.visible, *target.hidden, *((COUNT,) if target.kind == "bag" else ()))
    return exp.select(*(stamps.get(name) or column(name) for name in names)).from_(
        rows.subquery("query")
    )


def stamps_sql(target: Target) -> str | None:
    """The stamps of the epoch as text, for its record."""
    if not target.stamps:
        return None
    values = ((exp.cast(expression(s.sql), "string"), s.name) for s in target.stamps)
    return pretty(exp.select(*(named(value, name) for value, name in values)))


def net(
    names: tuple[str, ...], rows: exp.Expr | None = None, exactly: tuple[str, ...] = ()
) -> exp.Select:
    """Rows, those of the paths by default, with weights summed by full row, zeros dropped."""
    weight = call("sum", column(WEIGHT))
    return (
        by_rows(names, exactly, rows or table(PATH_ROWS))
        .select(named(weight, WEIGHT))
        .having(exp.NEQ(this=weight.copy(), expression=number(0)))
    )


def fold_sql(target: Target, rows: exp.Expr | None = None) -> str:
    """Weighted rows, those of the paths by default -> rows to write: per key with an operation, or
    per distinct row with a weight."""
    netted = net(target.stored, rows, target.exactly)
    return pretty(netted if target.kind == "bag" else fold_to_keys(target, netted))


def fold_to_keys(target: Target, netted: exp.Select) -> exp.Select:
    """Net rows with weights -> one row per key with an operation."""
    key = [column(name) for name in target.key]
    rest = _not_matched(target)
    weight = column(WEIGHT)
    positive = exp.GT(this=weight, expression=number(0))
    plus = call("sum", call("greatest", weight.copy(), number(0)))
    minus = call("sum", call("greatest", exp.Neg(this=weight.copy()), number(0)))
    folded = exp.select(*key, named(plus, "plus"), named(minus, "minus"))
    if rest:
        row = call("struct", *[column(name) for name in rest])
        new = exp.Filter(this=call("any_value", row), expression=exp.Where(this=positive))
        folded = folded.select(named(new, "new"))
    folded = folded.from_(netted.subquery("net")).group_by(*[k.copy() for k in key])
    operation = (
        exp.case()
        .when(exp.GT(this=column("plus"), expression=number(1)), fail("KEY_VIOLATED"))
        .when(exp.GT(this=column("minus"), expression=number(1)), fail("TARGET_DRIFT"))
        .when(exp.EQ(this=column("minus"), expression=number(0)), string("insert"))
        .when(exp.EQ(this=column("plus"), expression=number(0)), string("delete"))
        .else_(string("update"))
    )
    values: list[exp.Expr] = [
        named(call("coalesce", _field("new", name), column(name)), name)
        if name in rest
        else column(name)
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
    conditions on the target's rows between them."""

    into: str
    whens: str

    @property
    def sql(self) -> str:
        """The whole statement."""
        return f"{self.into}\n{self.whens}"


def merge_of(target: Target, exactly: tuple[str, ...] = ()) -> Merge:
    """The one MERGE of a run that does not overwrite.

    Without a key the whole row is matched, columns in `exactly` by their text besides, else the
    key; both null-safely. Of a plain target only a row that goes is matched.
    """
    matched = target.key or target.stored
    pairs: list[tuple[exp.Expr, exp.Expr]]
    pairs = [(column(name, "t"), column(name, "s")) for name in matched]
    pairs += [(as_text(column(name, "t")), as_text(column(name, "s"))) for name in exactly]
    same: list[exp.Expr] = [exp.NullSafeEQ(this=one, expression=other) for one, other in pairs]
    if target.kind == "plain":
        same.append(exp.LT(this=column(WEIGHT, "s"), expression=number(0)))
    on = exp.and_(*same)
    whens = {"bag": _bag_whens, "plain": _plain_whens}.get(target.kind, _keyed_whens)(target)
    into = exp.Table(
        this=exp.to_identifier(target.location, quoted=True),
        db=exp.to_identifier("delta", quoted=False),
        alias=exp.TableAlias(this=exp.to_identifier("t")),
    )
    head = exp.Merge(this=into, using=table(TO_WRITE, "s"), on=on, whens=exp.Whens(expressions=[]))
    return Merge(pretty(head).rstrip(), pretty(exp.Whens(expressions=whens)))


def _keyed_whens(target: Target) -> list[exp.When]:
    rest = _not_matched(target)
    stamps = _stamps(target)
    watched = rest[0] if rest else target.key[0]
    stop = exp.Update(expressions=[_set(watched, fail("KEY_VIOLATED"))])
    whens = [
        _when(True, _operation("insert"), stop),
        _when(True, _operation("delete"), exp.Var(this="DELETE")),
    ]
    if rest:
        values: list[tuple[str, exp.Expr]] = [(name, column(name, "s")) for name in rest]
        values += [(name, _shown_anew(target, name, value)) for name, value in stamps]
        update = exp.Update(expressions=[_set(*pair) for pair in values])
        whens.append(_when(True, None, update))
    drift = exp.Insert(
        this=exp.Tuple(expressions=[column(target.key[0])]),
        expression=exp.Tuple(expressions=[fail("TARGET_DRIFT")]),
    )
    not_insert = exp.NEQ(this=column(OPERATION, "s"), expression=string("insert"))
    whens.append(_when(False, not_insert, drift))
    whens.append(_when(False, None, _insert(target.stored, target.stored, stamps)))
    return whens


def _stamps(target: Target) -> list[tuple[str, exp.Expr]]:
    return [(stamp.name, expression(stamp.sql)) for stamp in target.stamps]


def _shown_anew(target: Target, name: str, value: exp.Expr) -> exp.Expr:
    """A stamp for a row that a user sees changed: hidden columns may change alone."""
    if not target.hidden:
        return value
    seen = (*target.columns, *(n for n in target.hidden if n == SHOWN))
    same = (exp.NullSafeEQ(this=column(n, "t"), expression=column(n, "s")) for n in seen)
    return exp.case().when(exp.and_(*same), column(name, "t")).else_(value)


def _bag_whens(target: Target) -> list[exp.When]:
    after = exp.Add(this=column(COUNT, "t"), expression=column(WEIGHT, "s"))
    drift = fail("TARGET_DRIFT")
    inserted = exp.GT(this=column(WEIGHT, "s"), expression=number(0))
    stamps = _stamps(target)
    there, counted = exp.GT(this=after.copy(), expression=number(0)), _set(COUNT, after.copy())
    whens = [_when(True, exp.EQ(this=after, expression=number(0)), exp.Var(this="DELETE"))]
    if stamps:  # copies that came give all of them their stamp, copies that went leave it
        anew = exp.Update(expressions=[counted.copy(), *(_set(*pair) for pair in stamps)])
        whens.append(_when(True, exp.and_(there.copy(), inserted.copy()), anew))
    return [
        *whens,
        _when(True, there, exp.Update(expressions=[counted])),
        _when(True, None, exp.Update(expressions=[_set(COUNT, drift)])),
        _when(False, inserted, _insert((*target.stored, COUNT), (*target.stored, WEIGHT), stamps)),
        _when(
            False,
            None,
            exp.Insert(
                this=exp.Tuple(expressions=[column(COUNT)]),
                expression=exp.Tuple(expressions=[drift.copy()]),
            ),
        ),
    ]


def _plain_whens(target: Target) -> list[exp.When]:
    """A row that goes goes with all its copies; those that stay, and those that come, are added."""
    drift = exp.Insert(
        this=exp.Tuple(expressions=[column(target.columns[0])]),
        expression=exp.Tuple(expressions=[fail("TARGET_DRIFT")]),
    )
    comes = exp.GTE(this=column(WEIGHT, "s"), expression=number(0))
    return [
        _when(True, None, exp.Var(this="DELETE")),
        _when(False, comes, _insert(target.columns, target.columns, _stamps(target))),
        _when(False, None, drift),
    ]


def as_text(value: exp.Expr) -> exp.Expr:
    """A value's text, which tells -0.0 from 0.0."""
    return exp.cast(value, "string")


def _operation(value: str) -> exp.EQ:
    return exp.EQ(this=column(OPERATION, "s"), expression=string(value))


def _set(name: str, value: exp.Expr) -> exp.EQ:
    return exp.EQ(this=column(name), expression=value)


def _insert(
    into: tuple[str, ...], values: tuple[str, ...], stamps: list[tuple[str, exp.Expr]]
) -> exp.Insert:
    names = [column(name) for name in (*into, *(name for name, _ in stamps))]
    rows = [column(name, "s") for name in values]
    return exp.Insert(
        this=exp.Tuple(expressions=names),
        expression=exp.Tuple(expressions=[*rows, *(value.copy() for _, value in stamps)]),
    )


def _when(matched: bool, condition: exp.Expr | None, then: exp.Expr) -> exp.When:
    return exp.When(matched=matched, condition=condition, then=then)
