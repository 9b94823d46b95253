"""Which expressions are NULL, and which predicates cannot hold, when some relations are missing.

A left join fills the columns of an unmatched side with NULL. A predicate that cannot be TRUE then
*rejects* those rows, so the join might as well be inner. The list of operators and functions that
give NULL for a NULL argument is closed; whatever is not on it proves nothing.
"""

from __future__ import annotations

from functools import lru_cache

import sqlglot
from sqlglot import exp

from deltajoin.sql.dialect import Verbatim

_BINARY = (
    exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE,
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.DPipe,
    exp.Like, exp.ILike, exp.RegexpLike,
)  # fmt: skip
_UNARY = (exp.Paren, exp.Neg, exp.Not, exp.Cast, exp.Dot, exp.In, exp.Between)
_STRICT_CALLS = frozenset(
    "abs ceil ceiling concat date_add date_sub datediff day dayofmonth floor length lower lpad"
    " ltrim month rpad rtrim round substr substring to_date trunc date_trunc upper year".split()
)


@lru_cache(maxsize=8192)
def _parsed(sql: str) -> exp.Expr:
    return sqlglot.parse_one(sql, dialect=Verbatim)


def rejects_nulls(predicate: str | exp.Expr, relations: frozenset[str]) -> bool:
    """True only if the predicate cannot be TRUE when every column of those relations is NULL.

    Example:
        >>> missing = frozenset({"r"})
        >>> rejects_nulls("l.x = r.y", missing), rejects_nulls("coalesce(r.y, 0) = l.x", missing)
        (True, False)
        >>> rejects_nulls("r.y IS NOT NULL", missing), rejects_nulls("r.y IS NULL", missing)
        (True, False)
    """
    node = _parsed(predicate) if isinstance(predicate, str) else predicate
    if isinstance(node, exp.Paren):
        return rejects_nulls(node.this, relations)
    if isinstance(node, exp.And):
        return any(rejects_nulls(side, relations) for side in (node.this, node.expression))
    if isinstance(node, exp.Or):
        return all(rejects_nulls(side, relations) for side in (node.this, node.expression))
    if isinstance(node, exp.Not):
        return _negation_rejects(node.this, relations)
    return is_null_without(node, relations)


def _negation_rejects(node: exp.Expr, relations: frozenset[str]) -> bool:
    if isinstance(node, exp.Paren):
        return _negation_rejects(node.this, relations)
    if isinstance(node, exp.And):
        return all(_negation_rejects(side, relations) for side in (node.this, node.expression))
    if isinstance(node, exp.Or):
        return any(_negation_rejects(side, relations) for side in (node.this, node.expression))
    if isinstance(node, exp.Not):
        return rejects_nulls(node.this, relations)
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        return is_null_without(node.this, relations)
    return is_null_without(node, relations)


def is_null_without(node: exp.Expr, relations: frozenset[str]) -> bool:
    """True only if the expression is NULL when every column of those relations is NULL."""
    if isinstance(node, exp.Column):
        return node.table in relations
    if isinstance(node, _BINARY):
        return any(is_null_without(side, relations) for side in (node.this, node.expression))
    if isinstance(node, _UNARY):
        return is_null_without(node.this, relations)
    if isinstance(node, exp.Anonymous) and str(node.this).lower() in _STRICT_CALLS:
        return any(is_null_without(argument, relations) for argument in node.expressions)
    return False
