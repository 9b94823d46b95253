"""The columns of a union: what each stands for on either side, of one type.

Spark gives a column of a union the wider of its two types. Here both sides must come out as one
type without doubt: known and equal, numbers of which one is wider, a NULL beside anything, or the
same expression over columns of the same types. Else the union is not kept; a CAST settles it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from deltajoin.sql.dialect import cast, text, type_of_cast, with_columns
from deltajoin.sql.numbers import Exact, exact, exact_type
from deltajoin.sql.refuse import Unsupported

TypeOf = Callable[[exp.Column], str]
_REMEDY = "CAST the column to one type in each SELECT of the union."
#: Each is widened to those that follow.
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
INTEGERS = _NUMBERS[:4]
_BOOLEANS = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.And, exp.Or, exp.Not, exp.Is, exp.In,
    exp.Between, exp.Like, exp.NullSafeEQ, exp.Boolean,
)  # fmt: skip
_TEXTS = frozenset("concat lower upper lcase ucase trim ltrim rtrim substr substring".split())
_FIRST = frozenset({"coalesce", "ifnull", "nvl"})
_CHOSEN = frozenset({"any_value", "first", "first_value", "last", "last_value", "max", "min"})
_SHIFTED = frozenset({"lag", "lead", "nth_value"})
_OF_ARGUMENT = _CHOSEN | {"avg", "mean", "sum"}
#: What functions give, whatever they are given.
_GIVEN = {
    "string": "date_format dayname hex md5 monthname sha1 sha2",
    "int": "day dayofmonth dayofweek dayofyear hour length minute month quarter second year",
    "bigint": "count count_if unix_micros unix_millis unix_seconds",
    "timestamp": "timestamp_micros timestamp_millis timestamp_seconds",
    "date": "add_months date date_add date_sub last_day make_date next_day to_date",
}
_GIVES = {name: kind for kind, names in _GIVEN.items() for name in names.split()}


@dataclass(frozen=True)
class Output:
    """One column of a union; `kind` is its type, empty where it is not known, only alike."""

    name: str
    left: exp.Expr
    right: exp.Expr
    kind: str


def is_distinct_set(query: exp.Query) -> bool:
    """True for UNION, INTERSECT and EXCEPT without ALL: rows that are grouped by all columns."""
    return isinstance(query, exp.SetOperation) and bool(query.args.get("distinct"))


def matched(
    name: str, left: exp.Expr, right: exp.Expr, type_of: TypeOf, origin: exp.Expr
) -> Output:
    """A column of a union from the expressions of both sides.

    Args:
        origin: the column as it is written on the left.

    Raises:
        Unsupported: SET_OPERATION when it isn't certain that both have one type.
    """
    one, other = kind_of(left, type_of), kind_of(right, type_of)
    if kind := common_kind(one, other):
        return Output(name, _as(left, one, kind), _as(right, other, kind), kind)
    if not one and not other and _shape(left, type_of) == _shape(right, type_of):
        return Output(name, left, right, "")
    shown = " and ".join(kind or "unknown" for kind in (one, other))
    message = f"a union whose column {text(origin)} has the types {shown}"
    raise Unsupported("SET_OPERATION", message, origin, _REMEDY)


def common_kind(one: str, other: str) -> str:
    """The type that Spark gives values of two types, empty where it is not certain."""
    if one == other:
        return one
    if "null" in (one, other) and one and other:
        return other if one == "null" else one
    if _widens(one, other):
        return _NUMBERS[max(_NUMBERS.index(one), _NUMBERS.index(other))]
    return ""


def _widens(one: str, other: str) -> bool:
    """True for two numbers with one wider type; an integer beside a float is float or double, as
    Spark's ANSI mode says."""
    mixed = "float" in (one, other) and "double" not in (one, other)
    return one in _NUMBERS and other in _NUMBERS and not mixed


def _as(node: exp.Expr, kind: str, wanted: str) -> exp.Expr:
    return node if kind == wanted else typed(node, wanted)


def typed(node: exp.Expr, kind: str) -> exp.Expr:
    """The expression cast to a type."""
    return cast(node.copy(), kind)


def kind_of(node: exp.Expr, type_of: TypeOf) -> str:
    """Spark's type of an expression where that is certain, `null` for NULL; else empty. A decimal's
    scale is exact, its precision may be more than Spark's."""
    while isinstance(node, (exp.Paren, exp.Alias, exp.Filter, exp.Window)):
        node = node.this
    if kind := _kind(node, type_of):
        return kind
    exact = exact_type(node, type_of)
    return exact.kind if exact is not None else ""


def _kind(node: exp.Expr, type_of: TypeOf) -> str:
    if isinstance(node, exp.Column):
        return type_of(node)
    if isinstance(node, exp.Null):
        return "null"
    if isinstance(node, (exp.Cast, exp.TryCast)):
        return type_of_cast(node)
    if isinstance(node, exp.Literal):
        return "string" if node.is_string else ""
    if isinstance(node, _BOOLEANS):
        return "boolean"
    if isinstance(node, exp.Neg):
        return kind_of(node.this, type_of)
    if isinstance(node, (exp.DPipe, exp.Substring, exp.Trim)):
        sides = (node.this, node.expression) if isinstance(node, exp.DPipe) else (node.this,)
        return "string" if "string" in [kind_of(side, type_of) for side in sides] else ""
    if isinstance(node, exp.Case):
        return _one(
            [*(b.args["true"] for b in node.args["ifs"]), node.args.get("default")], type_of
        )
    if isinstance(node, exp.Anonymous):
        return _function(node, type_of)
    return ""


def _one(values: list[exp.Expr | None], type_of: TypeOf) -> str:
    kinds = {kind_of(value, type_of) for value in values if value is not None} - {"null"}
    return kinds.pop() if len(kinds) == 1 else ""


def _function(call: exp.Anonymous, type_of: TypeOf) -> str:
    name = str(call.this).lower()
    if name in _FIRST:
        return _one(list(call.expressions), type_of)
    if name in _TEXTS and kind_of(call.expressions[0], type_of) == "string":
        return "string" if name != "concat" or _one(call.expressions, type_of) else ""
    if name in _SHIFTED and len(call.expressions) in (1, 2):  # a third is what stands for none
        return kind_of(call.expressions[0], type_of)
    if name in _OF_ARGUMENT and len(call.expressions) == 1:
        (argument,) = call.expressions
        values = argument.expressions if isinstance(argument, exp.Distinct) else [argument]
        return _aggregated(name, kind_of(values[0], type_of))
    return _GIVES.get(name, "")


def _aggregated(name: str, kind: str) -> str:
    """The type of an aggregate of values of one type."""
    if name in _CHOSEN:
        return kind
    if kind in ("float", "double"):
        return "double"
    found = exact(kind)
    if found is None:
        return ""
    if name in ("avg", "mean"):
        return "double" if found.integral else ""
    return "bigint" if found.integral else Exact(min(found.precision + 10, 38), found.scale).kind


def _shape(node: exp.Expr, type_of: TypeOf) -> str:
    """The expression with types for columns; one without them is like no other."""

    def typed(column: exp.Column) -> exp.Expr:
        return exp.column(type_of(column) or f"{column.table}.{column.name}", quoted=True)

    return text(with_columns(node, typed))
