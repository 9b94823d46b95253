"""The aggregate calls of a bound expression, taken apart: function, argument, whether DISTINCT.

`f(x) FILTER (WHERE c)` is `f(CASE WHEN c THEN x END)`, `count_if(c)` counts `CASE WHEN c THEN 1
END`, `count(a, b)` counts rows where neither is NULL; so one argument is all that a call has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from deltajoin.sql import functions
from deltajoin.sql.dialect import text
from deltajoin.sql.nodes import bare_call, function_name, is_not_null, number

_NAMES = {"mean": "avg", "every": "bool_and"}


@dataclass(frozen=True)
class Call:
    """An aggregate as written, and its function over one argument; no function where it is not
    that simple (DISTINCT, several arguments, WITHIN GROUP, IGNORE NULLS)."""

    node: exp.Expr
    function: str = ""
    argument: exp.Expr | None = None

    @property
    def text(self) -> str:
        """The call as written, canonically."""
        return text(self.node)


def aggregate_calls(node: exp.Expr) -> Iterator[Call]:
    """The outermost aggregates under a node, in order."""
    if bare_call(node) is not node or function_name(node) in functions.AGGREGATES:
        yield _call(node)
    else:
        for child in node.iter_expressions():
            yield from aggregate_calls(child)


def _call(node: exp.Expr) -> Call:
    inner, condition = node, None
    if isinstance(node, exp.Filter):
        inner, condition = node.this, node.expression.this
    name, arguments = function_name(inner), inner.expressions
    name = _NAMES.get(name, name)
    simple = name and arguments and not any(isinstance(a, exp.Distinct) for a in arguments)
    if not simple or (len(arguments) > 1 and name != "count"):
        return Call(node)
    argument = arguments[0].copy()
    if name == "count_if":
        name, argument = "count", exp.case().when(argument, number(1))
    elif len(arguments) > 1:
        there = (is_not_null(exp.paren(a)) for a in arguments)
        argument = exp.case().when(exp.and_(*there), number(1))
    if condition is not None:
        argument = exp.case().when(condition.copy(), argument)
    return Call(node, name, argument)
