"""Conjuncts as values: classified by what they touch, and with what is known of columns filled in.

Known are columns of a union, which stand for an expression in each of its arms, and those of
relations that are missing from a branch, which are NULL.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from deltajoin.graph import ColumnRef, Predicate, Projection, refs_of
from deltajoin.sql.dialect import closed, exchanged, parsed, text, with_columns
from deltajoin.sql.kinds import TypeOf, in_place_of, typed
from deltajoin.sql.refuse import Unsupported

_COMPARED = (
    exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is,
)  # fmt: skip
Values = Mapping[ColumnRef, exp.Expr]


def predicate_of(node: exp.Expr) -> Predicate:
    """A bound conjunct as a predicate."""
    refs = refs_in(node)
    touched = {relation for relation, _ in refs}
    if isinstance(node, exp.EQ) and len(touched) == 2:
        left, right = node.this, node.expression
        if isinstance(left, exp.Column) and isinstance(right, exp.Column):
            first, second = sorted(((left.table, left.name), (right.table, right.name)))
            return Predicate(text(node), "edge", refs, first, second)
    kind = ("constant", "filter", "residual")[min(len(touched), 2)]
    wrapped = exp.paren(node) if isinstance(node, exp.Or) else node
    return Predicate(text(wrapped), kind, refs)


def projection_of(name: str, node: exp.Expr) -> Projection:
    """A bound expression as an output column."""
    column = (node.table, node.name) if isinstance(node, exp.Column) else None
    return Projection(name, text(node), refs_in(node), column)


def refs_in(node: exp.Expr) -> tuple[ColumnRef, ...]:
    """The columns that a bound expression reads."""
    return refs_of((column.table, column.name) for column in node.find_all(exp.Column))


def relations_in(node: exp.Expr) -> frozenset[str]:
    """The relations that a bound expression touches."""
    return frozenset(column.table for column in node.find_all(exp.Column))


def filled(
    sql: str,
    values: Values,
    missing: frozenset[str] = frozenset(),
    type_of: TypeOf | None = None,
) -> exp.Expr:
    """An expression with values in the place of columns, and NULL for those of missing relations.

    Args:
        type_of: of a column, for NULLs of its type; without, they have none.

    Raises:
        Unsupported: OUTER_JOIN where something is computed of a missing column of unknown type.

    Example:
        >>> known = {("u", "k"): exp.column("k", table="a", quoted=True)}
        >>> text(filled("`u`.`k` = `b`.`k`", known, frozenset({"b"})))
        '`a`.`k` = NULL'
        >>> text(filled("coalesce(b.x, 1) = 2", {}, frozenset({"b"}), lambda column: "bigint"))
        'coalesce(CAST(NULL AS bigint), 1) = 2'
    """

    def value_of(column: exp.Column) -> exp.Expr | None:
        value = values.get((column.table, column.name))
        return closed(in_place_of(column, value)) if value is not None else None

    def null(node: exp.Expr) -> exp.Expr | None:
        of = node
        while isinstance(of, (exp.Dot, exp.Bracket)):  # a field of what is missing
            of = of.this
        if not isinstance(of, exp.Column) or of.table not in missing:
            return None
        if type_of is None or _is_compared(node):
            return exp.Null()
        return _typed_null(node, type_of) if isinstance(node, exp.Column) else None

    return exchanged(with_columns(parsed(sql), value_of), null)


def _is_compared(node: exp.Expr) -> bool:
    """True for what is only compared, or asked whether it is NULL: its type makes no difference."""
    parent = node.parent
    while isinstance(parent, exp.Paren):
        parent = parent.parent
    return isinstance(parent, _COMPARED)


def _typed_null(column: exp.Column, type_of: TypeOf) -> exp.Expr:
    kind = type_of(column)
    if kind == "null":
        return exp.Null()
    if not kind:
        what = (
            f"a condition on {column.name}, of unknown type on the missing side of an outer join,"
        )
        raise Unsupported("OUTER_JOIN", what, None, "CAST the column to a type where it is made.")
    return typed(exp.Null(), kind)
