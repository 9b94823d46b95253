"""Conjuncts as values: classified by what they touch, and with what is known of columns filled in.

Known are columns of a union, which stand for an expression in each of its arms, and those of
relations that are missing from a branch, which are NULL.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from deltajoin.graph import ColumnRef, Predicate, Projection, refs_of
from deltajoin.sql.dialect import closed, exchanged, parsed, text, with_columns

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


def filled(sql: str, values: Values, missing: frozenset[str] = frozenset()) -> exp.Expr:
    """An expression with values in the place of columns, and NULL for those of missing relations.

    Example:
        >>> known = {("u", "k"): exp.column("k", table="a", quoted=True)}
        >>> text(filled("`u`.`k` = `b`.`k`", known, frozenset({"b"})))
        '`a`.`k` = NULL'
    """

    def value_of(column: exp.Column) -> exp.Expr | None:
        value = values.get((column.table, column.name))
        return closed(value) if value is not None else None

    def null(node: exp.Expr) -> exp.Expr | None:
        while isinstance(node, (exp.Dot, exp.Bracket)):  # a field of what is missing
            node = node.this
        return exp.Null() if isinstance(node, exp.Column) and node.table in missing else None

    return exchanged(with_columns(parsed(sql), value_of), null)
