"""Scalar subqueries: where they stand in an expression, and what takes their place.

    (SELECT max(x) FROM t)                  a total is one row, joined with every row
    (SELECT max(x) FROM t HAVING ...)       one or none: a left join on TRUE
    (SELECT 1 + 2)                          the value itself

Above groups of the same SELECT the value is the same for all rows: it stands as `max` of itself.
Caller: `sql.bind`, which joins the sources; one that may give several rows is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from deltajoin.sql import functions
from deltajoin.sql.group import is_grouped

Value = Callable[[exp.Subquery], exp.Expr]


def scalars_in(node: exp.Expr) -> Iterator[exp.Subquery]:
    """The outermost scalar subqueries of an expression; not those of EXISTS, IN, ANY and ALL."""
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
        yield node
    elif not isinstance(node, (exp.Exists, exp.Query, exp.Any, exp.All)):
        for part in node.iter_expressions():
            if not (isinstance(node, exp.In) and part is node.args.get("query")):
                yield from scalars_in(part)


def without_scalars(node: exp.Expr, value: Value) -> exp.Expr:
    """The expression with the value of each scalar subquery in its place; itself without any."""
    found = list(scalars_in(node))
    if not found:
        return node
    holder = exp.Paren(this=node.copy())
    for subquery, place in zip(found, list(scalars_in(holder.this)), strict=True):
        place.replace(value(subquery))
    made: exp.Expr = holder.this
    return made


def select_without_scalars(select: exp.Select, value: Value) -> exp.Select:
    """The same of what a SELECT gives out, and of HAVING and QUALIFY; a copy where it has any."""
    parts = _parts(select)
    found = [subquery for part in parts for subquery in scalars_in(part)]
    if not found:
        return select
    grouped = is_grouped(select) and not select.args.get("distinct")
    made = select.copy()
    places = [subquery for part in _parts(made) for subquery in scalars_in(part)]
    for subquery, place in zip(found, places, strict=True):
        column = value(subquery)
        if grouped and not _is_aggregated(place):
            column = exp.Anonymous(this="max", expressions=[column])
        place.replace(exp.Paren(this=column))
    return made


def _parts(select: exp.Select) -> list[exp.Expr]:
    clauses = (select.args.get(name) for name in ("having", "qualify"))
    return [*select.expressions, *(clause.this for clause in clauses if clause is not None)]


def _is_aggregated(node: exp.Expr) -> bool:
    above = node.parent
    while above is not None and not isinstance(above, exp.Select):
        if isinstance(above, exp.Filter) or (
            isinstance(above, exp.Anonymous) and str(above.this).lower() in functions.AGGREGATES
        ):
            return True
        above = above.parent
    return False
