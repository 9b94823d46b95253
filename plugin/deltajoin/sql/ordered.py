"""Aggregates whose value depends on the order of rows -> what may fix it.

    sort_array(collect_list(x))                     x is in order of x
    listagg(x, ',') WITHIN GROUP (ORDER BY y, z)    x is in order of y, z
    max_by(x, struct(y, z))                         x is that of the greatest y, z
    any_value(x)                                    x is in no order
    size(collect_set(x))                            nothing depends on the order

The value is fixed where rows that tie in the order have one value (`delta.ties`). Sorting a
struct is sorting by its fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from deltajoin.sql import functions
from deltajoin.sql.nodes import function_name

_BAGS = ("collect_list", "array_agg", "collect_set")
_TEXTS = ("listagg", "string_agg")
_OF_EXTREME = ("max_by", "min_by")
_OF_ANY = ("any_value", "first", "first_value", "last", "last_value", "mode")
#: What gives the same elements in some order.
_ELEMENTS = ("array_distinct", "array_compact")
_SORTED = ("sort_array", "array_sort", "array_max", "array_min")
_COUNTED = ("size", "cardinality", "array_size", "array_contains")


@dataclass(frozen=True)
class Ordered:
    """An aggregate's order (`by`) and what its value is made of, as expressions over its rows."""

    call: exp.Anonymous
    by: tuple[exp.Expr, ...]
    values: tuple[exp.Expr, ...]


def ordered_calls(node: exp.Expr) -> Iterator[Ordered]:
    """The aggregates of an expression whose value rows that tie could change."""
    yield from filter(None, map(order_of, node.find_all(exp.Anonymous)))


def order_of(call: exp.Anonymous) -> Ordered | None:
    """The order of an aggregate that depends on one; None for another, or where nothing is said."""
    name, arguments = function_name(call), call.expressions
    if not arguments or name not in functions.ORDER_DEPENDENT:
        return None
    values = _fields(arguments[0])
    if name in _BAGS:
        return _of_array(call, values)
    if name in _OF_ANY:
        return Ordered(call, (), values)
    if name in _OF_EXTREME and len(arguments) == 2:
        return Ordered(call, _fields(arguments[1]), values)
    if name in _TEXTS and isinstance(call.parent, exp.WithinGroup):
        order = call.parent.expression.expressions
        return Ordered(call, tuple(field for o in order for field in _fields(o.this)), values)
    return None


def _of_array(call: exp.Anonymous, values: tuple[exp.Expr, ...]) -> Ordered | None:
    """Of an array of values, by what is made of it."""
    node: exp.Expr = call
    parent = node.parent
    while parent is not None and _keeps_elements(parent):
        node, parent = parent, parent.parent
    if not isinstance(parent, exp.Anonymous) or next(iter(parent.expressions), None) is not node:
        return None
    if function_name(parent) in _COUNTED:
        return Ordered(call, (), ())
    lambdas = any(isinstance(e, exp.Lambda) for e in parent.expressions)
    return (
        Ordered(call, values, values) if function_name(parent) in _SORTED and not lambdas else None
    )


def _keeps_elements(node: exp.Expr) -> bool:
    return isinstance(node, (exp.Filter, exp.Paren)) or function_name(node) in _ELEMENTS


def _fields(node: exp.Expr) -> tuple[exp.Expr, ...]:
    """The fields of a struct, at any depth, or the expression itself."""
    while isinstance(node, (exp.Paren, exp.Alias)):
        node = node.this
    name = function_name(node)
    if name not in ("struct", "named_struct") and not isinstance(node, exp.Distinct):
        return (node,)
    parts = node.expressions[1::2] if name == "named_struct" else node.expressions
    return tuple(field for part in parts for field in _fields(part))
