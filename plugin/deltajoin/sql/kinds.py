"""Spark's type of an expression, where that is certain.

Columns, literals, casts, arithmetic, choices between values of known types, and functions that give
one type have a type here; anything else has none. In arithmetic with a decimal, a column of
integers has the digits of its type, an integer that is written out has its own: `d * 5` of a
decimal(6,2) is a decimal(8,2).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import reduce

from sqlglot import exp

from deltajoin.sql.dialect import cast, type_of_cast
from deltajoin.sql.nodes import function_name, results

#: Types of which values that are equal are the same.
PLAIN = re.compile(
    r"boolean|tinyint|smallint|int|bigint|date|timestamp|timestamp_ntz|string|binary"
    r"|(decimal|char|varchar)\([0-9, ]+\)"
)
#: Gives the type of a column, empty where it is not known.
TypeOf = Callable[[exp.Column], str]
#: Each is widened to those that follow.
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
INTEGERS = _NUMBERS[:4]
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")
_BOOLEANS = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.And, exp.Or, exp.Not, exp.Is, exp.In,
    exp.Between, exp.Like, exp.NullSafeEQ, exp.Boolean,
)  # fmt: skip
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod)
_ARITHMETIC_FUNCTIONS = frozenset(
    "mod pmod try_add try_divide try_mod try_multiply try_subtract".split()
)
_TEXTS = frozenset("concat lower upper lcase ucase trim ltrim rtrim substr substring".split())
_FIRST = frozenset({"coalesce", "greatest", "ifnull", "least", "nvl"})
_ROUNDED = frozenset({"bround", "ceil", "ceiling", "floor", "round"})
_CHOSEN = frozenset({"any_value", "first", "first_value", "last", "last_value", "max", "min"})
_SHIFTED = frozenset({"lag", "lead", "nth_value"})
_OF_ARGUMENT = _CHOSEN | {"avg", "mean", "sum"}
#: What functions give, whatever they are given.
_GIVEN = {
    "string": "date_format dayname hex md5 monthname sha1 sha2",
    "int": "day dayofmonth dayofweek dayofyear dense_rank hash hour instr length minute month "
    "ntile quarter rank row_number second weekday weekofyear year",
    "bigint": "count count_if crc32 unix_micros unix_millis unix_seconds xxhash64",
    "double": "acos asin atan atan2 cbrt cos cosh cot cume_dist degrees exp expm1 ln log log10 "
    "log1p log2 months_between percent_rank pow power radians rint sign signum sin sinh sqrt std "
    "stddev stddev_pop stddev_samp tan tanh var_pop var_samp variance",
    "timestamp": "date_trunc timestamp_micros timestamp_millis timestamp_seconds",
    "date": "add_months date date_add date_sub last_day make_date next_day to_date trunc",
}
_GIVES = {name: kind for kind, names in _GIVEN.items() for name in names.split()}


@dataclass(frozen=True)
class Exact:
    """A type whose sums are exact: digits in all and after the point; `integral` for integers."""

    precision: int
    scale: int
    integral: bool = False

    @property
    def kind(self) -> str:
        """Its name in Spark.

        Example:
            >>> Exact(6, 2).kind, Exact(10, 0, True).kind
            ('decimal(6,2)', 'int')
        """
        if self.integral:
            return next(kind for kind, digits in _DIGITS.items() if digits == self.precision)
        return f"decimal({self.precision},{self.scale})"

    @property
    def is_small(self) -> bool:
        """True for integers up to `int`, whose sums fit a bigint."""
        return self.integral and self.precision <= _DIGITS["int"]


def exact(kind: str) -> Exact | None:
    """The exact type of a Spark type.

    Example:
        >>> exact("decimal(6,2)")
        Exact(precision=6, scale=2, integral=False)
        >>> exact("int").is_small, exact("bigint").is_small, exact("double")
        (True, False, None)
    """
    if kind in _DIGITS:
        return Exact(_DIGITS[kind], 0, True)
    found = _DECIMAL.fullmatch(kind)
    return Exact(int(found[1]), int(found[2])) if found else None


def exact_type(node: exp.Expr, type_of: TypeOf) -> Exact | None:
    """The exact type of an expression: an integer, or a decimal of known scale."""
    return exact(kind_of(node, type_of))


def common_kind(one: str, other: str) -> str:
    """The type that Spark gives values of two types, empty where it is not certain.

    Example:
        >>> common_kind("int", "decimal(7,2)"), common_kind("decimal(7,2)", "float")
        ('decimal(12,2)', 'double')
        >>> common_kind("int", "float"), common_kind("int", "string")
        ('', '')
    """
    if one == other:
        return one
    if "null" in (one, other) and one and other:
        return other if one == "null" else one
    if not (_is_number(one) and _is_number(other)):
        return ""
    left, right = exact(one), exact(other)
    if left and right:
        integers = left.integral and right.integral
        return max(one, other, key=_NUMBERS.index) if integers else _widest((left, right))
    # An integer beside a float is float or double, as Spark's ANSI mode says.
    either = "float" in (one, other) and not {one, other}.isdisjoint(INTEGERS)
    return "" if either else "double"


def _is_number(kind: str) -> bool:
    return kind in _NUMBERS or exact(kind) is not None


def typed(node: exp.Expr, kind: str, own: str = "") -> exp.Expr:
    """The expression cast to a type; as it is where that is its own."""
    return node if kind == own else cast(node.copy(), kind)


def in_place_of(column: exp.Expr, value: exp.Expr) -> exp.Expr:
    """A value that stands for a column, or for a scalar subquery, where that stands.

    In arithmetic, an integer that is written out becomes one of its type: beside a decimal it would
    have its own digits, where the column has those of the type.
    """
    number = value.unnest()
    written = number.this if isinstance(number, exp.Neg) else number
    kind = kind_of(number, lambda _: "") if isinstance(written, exp.Literal) else ""
    return cast(number.copy(), kind) if kind in INTEGERS and _is_operand(column) else value


def _is_operand(node: exp.Expr) -> bool:
    parent = node.parent
    while isinstance(parent, (exp.Paren, exp.Neg)):
        parent = parent.parent
    return isinstance(parent, _ARITHMETIC) or function_name(parent) in _ARITHMETIC_FUNCTIONS


def kind_of(node: exp.Expr, type_of: TypeOf) -> str:
    """Spark's type of an expression, `null` for NULL; empty where it is not certain."""
    while isinstance(node, (exp.Paren, exp.Alias, exp.Filter, exp.Window)):
        node = node.this
    if isinstance(node, exp.Column):
        return type_of(node)
    if isinstance(node, exp.Null):
        return "null"
    if isinstance(node, (exp.Cast, exp.TryCast)):
        return type_of_cast(node)
    if isinstance(node, (exp.Literal, exp.Neg)):
        return _literal(node, type_of)
    if isinstance(node, _BOOLEANS):
        return "boolean"
    if isinstance(node, _ARITHMETIC):
        return _arithmetic(node, kind_of(node.this, type_of), kind_of(node.expression, type_of))
    if isinstance(node, (exp.DPipe, exp.Substring, exp.Trim)):
        sides = (node.this, node.expression) if isinstance(node, exp.DPipe) else (node.this,)
        return "string" if "string" in [kind_of(side, type_of) for side in sides] else ""
    if isinstance(node, (exp.Case, exp.If)):
        return _chosen(results(node), type_of)
    return _function(node, type_of) if isinstance(node, exp.Anonymous) else ""


def _literal(node: exp.Expr, type_of: TypeOf) -> str:
    """The type of what is written out, and with a minus before it, which is part of a number."""
    below = node.this if isinstance(node, exp.Neg) else node
    if isinstance(below, exp.Literal) and not below.is_string:
        return _number(str(below.this), least=int(below is not node))
    if below is node:
        return "string"
    kind = kind_of(below, type_of)
    return kind if _is_number(kind) else ""


def _number(written: str, least: int = 0) -> str:
    """The type of a number, as it is written; empty for 1e3 and the like.

    Args:
        least: 1 for a negative number, of which types hold one more.
    """
    if not re.fullmatch(r"\d+(\.\d+)?", written):
        return ""
    whole, _, fraction = written.partition(".")
    if not fraction:
        fits = (
            kind for kind, bits in (("int", 31), ("bigint", 63)) if int(whole) < 2**bits + least
        )
        return next(fits, _fitting(_digits(written), 0))
    return _fitting(max(len(whole.lstrip("0")) + len(fraction), 1), len(fraction))


def _digits(written: str) -> int:
    return max(len(written.lstrip("0")), 1)


def _arithmetic(node: exp.Expr, left: str, right: str) -> str:
    one, other = exact(left), exact(right)
    if isinstance(node, exp.IntDiv):
        return "bigint" if one and other else ""
    if "double" in (left, right) and _is_number(left) and _is_number(right):
        return "double"
    if isinstance(node, exp.Div) and {left, right} <= set(_NUMBERS):
        return "double"
    if left == right == "float":
        return "float"
    if one is None or other is None:
        return ""
    if one.integral and other.integral:
        return max(one, other, key=lambda e: e.precision).kind
    one, other = _beside_decimal(node.this, one), _beside_decimal(node.expression, other)
    whole = [each.precision - each.scale for each in (one, other)]
    if isinstance(node, exp.Mul):
        return _capped(one.precision + other.precision + 1, one.scale + other.scale)
    if isinstance(node, exp.Div):
        scale = max(6, one.scale + other.precision + 1)
        return _fitting(whole[0] + other.scale + scale, scale)
    scale = max(one.scale, other.scale)
    if isinstance(node, exp.Mod):
        return _fitting(min(whole) + scale, scale)
    return _capped(max(whole) + scale + 1, scale)


def _beside_decimal(node: exp.Expr, found: Exact) -> Exact:
    """What an operand counts as: an integer that is written out has the digits that it shows."""
    node = node.unnest()
    number = node.this if isinstance(node, exp.Neg) else node
    if not found.integral or not isinstance(number, exp.Literal):
        return found
    return Exact(_digits(str(number.this)), 0)


def _rounded(name: str, kind: str, places: exp.Expr | None) -> str:
    """The type of a number rounded to some places, which are written out, or up or down."""
    found = exact(kind)
    if name not in ("bround", "round"):
        if places is not None or (kind not in ("float", "double") and found is None):
            return ""
        if found is None or found.integral:
            return "bigint"
        return _whole(found, 0) if found.scale else kind
    if found is None or found.integral:
        return kind if kind in _NUMBERS else ""
    if places is None:
        return _whole(found, 0)
    written = isinstance(places, exp.Literal) and not places.is_string and places.name.isdecimal()
    return _whole(found, min(int(places.name), found.scale)) if written else ""


def _whole(found: Exact, scale: int) -> str:
    """The type of a decimal with fewer places; a digit more, as 9.9 becomes 10."""
    return Exact(min(found.precision - found.scale + 1 + scale, 38), scale).kind


def _fitting(precision: int, scale: int) -> str:
    return Exact(precision, scale).kind if precision <= 38 else ""


def _capped(precision: int, scale: int) -> str:
    """The type of a sum or product: of more digits than there are, Spark takes those before the
    point; up to six behind it stay, whatever `spark.sql.decimalOperations.allowPrecisionLoss`."""
    return _fitting(min(precision, 38), scale) if scale <= 6 else _fitting(precision, scale)


def _chosen(values: Iterable[exp.Expr], type_of: TypeOf) -> str:
    """The type of one of some values, empty where it is not certain."""
    kinds = {kind_of(value, type_of) for value in values}
    # By name decimals come before floats: a float and an integer alone are of no certain type.
    return reduce(common_kind, sorted(kinds) or [""])


def _widest(found: Collection[Exact]) -> str:
    """The decimal that holds all of some types; empty where there is none."""
    scale = max(one.scale for one in found)
    return _fitting(max(one.precision - one.scale for one in found) + scale, scale)


def _function(node: exp.Anonymous, type_of: TypeOf) -> str:
    name, arguments = function_name(node), node.expressions
    if name in _FIRST:
        return _chosen(arguments, type_of)
    if name == "nvl2":
        return _chosen(arguments[1:], type_of)
    if name == "abs":
        found = _chosen(arguments, type_of)
        return found if _is_number(found) else ""
    if name in _ROUNDED and len(arguments) in (1, 2):
        value, places = [*arguments, None][:2]
        return _rounded(name, kind_of(value, type_of), places)
    if name in _TEXTS and kind_of(arguments[0], type_of) == "string":
        return "string" if name != "concat" or _chosen(arguments, type_of) else ""
    if name in ("datediff", "date_diff"):  # in days, or in a unit that comes first
        return "bigint" if len(arguments) == 3 else "int"
    if name in _SHIFTED and len(arguments) in (1, 2):  # a third is what stands for none
        return kind_of(arguments[0], type_of)
    if name in _OF_ARGUMENT and len(arguments) == 1:
        (argument,) = arguments
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
        wider = Exact(min(found.precision + 4, 38), min(found.scale + 4, 38))
        return "double" if found.integral else wider.kind
    return "bigint" if found.integral else Exact(min(found.precision + 10, 38), found.scale).kind
