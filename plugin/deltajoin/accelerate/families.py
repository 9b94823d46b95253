"""Values that are compared as points of one line: numbers, dates, timestamps."""

from __future__ import annotations

import re

from sqlglot import exp

from deltajoin.accelerate.protocol import TypeOf
from deltajoin.sql.dialect import closed, text
from deltajoin.sql.union import kind_of

_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint", "float", "double"})
_TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})
_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")
_CHOICES = frozenset({"coalesce", "ifnull", "nvl", "greatest", "least"})
_DOUBLES = frozenset({"sqrt", "pow", "power", "radians", "sin", "cos", "exp", "ln", "log"})
_DATES = frozenset({"date_add", "date_sub", "add_months", "last_day", "to_date"})
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul)
_MOST_DIGITS = 38
_OF_SUFFIX = {"d": "double", "f": "float", "l": "bigint", "s": "smallint", "y": "tinyint"}


def family(node: exp.Expr, type_of: TypeOf) -> str:
    """The type of an expression by which it is compared: a Spark type, `number` for a number whose
    type is not certain but is neither a float nor a decimal too long; "" for all else.

    Example:
        >>> from deltajoin.sql.dialect import parse_expression
        >>> def told(sql: str) -> str:
        ...     return family(parse_expression(sql), lambda column: "timestamp")
        >>> told("a.t + INTERVAL 2 HOURS"), told("coalesce(a.t, now())"), told("1.5 * 2")
        ('timestamp', '', 'decimal(2,1)')
    """
    while isinstance(node, (exp.Paren, exp.Neg)):
        node = node.this
    written = text(node).lower()
    if isinstance(node, exp.TryCast) and written[0].isdigit():  # 2.0D
        return _OF_SUFFIX.get(written[-1], "")
    kind = kind_of(node, type_of)
    if kind in _NUMBERS or kind in _TIMES or _DECIMAL.fullmatch(kind):
        return kind
    if isinstance(node, exp.Literal) and not node.is_string and "e" in written:
        return "double"
    if kind not in ("", "null"):
        return ""
    if isinstance(node, _ARITHMETIC):
        return _of_sum(node, type_of)
    if isinstance(node, exp.Anonymous):
        return _of_call(node, type_of)
    return ""


def _of_sum(node: exp.Expr, type_of: TypeOf) -> str:
    one, other = family(node.this, type_of), family(node.expression, type_of)
    if one in _TIMES and isinstance(node.expression, exp.Interval):
        # A date and an interval of hours give a timestamp.
        return one if one != "date" else ""
    both = {one, other}
    if "" in both or both & _TIMES:
        return ""
    return "float" if "float" in both else "double" if "double" in both else "number"


def _of_call(node: exp.Anonymous, type_of: TypeOf) -> str:
    name = str(node.this).lower()
    if name in _DOUBLES:
        return "double"
    if name in _DATES:
        return "date"
    kinds = {family(value, type_of) for value in node.expressions} if name in _CHOICES else {""}
    if len(kinds) == 1:
        return kinds.pop()
    if "" in kinds or kinds & _TIMES:
        return ""
    return "float" if "float" in kinds else "double" if "double" in kinds else "number"


def as_doubles(values: list[exp.Expr], type_of: TypeOf) -> list[str] | None:
    """Values that are compared with each other, as doubles in the same order; None where Spark
    compares them otherwise than by their size, or where that isn't certain.

    Both of two floats of different size are rounded to the smaller one, as Spark may do.
    """
    kinds = {family(value, type_of) for value in values}
    if "" in kinds or (kinds & _TIMES and len(kinds) > 1):
        return None
    decimals = [_DECIMAL.fullmatch(kind) for kind in kinds]
    digits = [(int(found[1]) - int(found[2]), int(found[2])) for found in decimals if found]
    whole = max((20, *(size for size, _ in digits)))
    if whole + max((0, *(scale for _, scale in digits))) > _MOST_DIGITS:
        return None
    return [_as_double(value, kinds) for value in values]


def _as_double(value: exp.Expr, kinds: set[str]) -> str:
    sql = text(closed(value))
    (kind,) = kinds if len(kinds) == 1 else ("",)
    if kind == "date":
        return f"CAST(unix_date({sql}) AS DOUBLE)"
    if kind == "timestamp":
        return f"CAST(unix_micros({sql}) AS DOUBLE)"
    if kind == "timestamp_ntz":
        return f"CAST(timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01', {sql}) AS DOUBLE)"
    if "float" in kinds:
        sql = f"CAST({sql} AS FLOAT)"
    if kinds & {"float", "double"}:  # without infinities and NaN, which is the greatest of all
        return f"least(greatest(CAST({sql} AS DOUBLE), -1e300D), 1e300D)"
    return f"CAST({sql} AS DOUBLE)"
