"""Values that are compared as points of one line: numbers, dates, timestamps."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlglot import exp

from deltajoin.accelerate.protocol import TypeOf
from deltajoin.sql.dialect import closed, text
from deltajoin.sql.kinds import INTEGERS, PLAIN, kind_of

_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint", "float", "double"})
_TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})
_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")
_CHOICES = frozenset({"coalesce", "ifnull", "nvl", "greatest", "least"})
_DOUBLES = frozenset({"sqrt", "pow", "power", "radians", "sin", "cos", "exp", "ln", "log"})
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul)
_MOST_DIGITS, _OF_INTEGERS = 38, 20
_OF_SUFFIX = {"d": "double", "f": "float", "l": "bigint", "s": "smallint", "y": "tinyint"}


def family(node: exp.Expr, type_of: TypeOf) -> str:
    """The type of an expression by which it is compared: a Spark type, `number` for a number whose
    type is not certain but is neither a float nor a decimal too long; "" for all else.

    Example:
        >>> from deltajoin.sql.dialect import parse_expression
        >>> def kind(sql: str) -> str:
        ...     return family(parse_expression(sql), lambda column: "timestamp")
        >>> kind("a.t + INTERVAL 2 HOURS"), kind("coalesce(a.t, now())"), kind("1.5 * 2")
        ('timestamp', '', 'decimal(4,1)')
    """
    while isinstance(node, (exp.Paren, exp.Neg)):
        node = node.this
    written = text(node).lower()
    if isinstance(node, exp.TryCast) and written[0].isdigit():  # 2.0D
        return "" if written.endswith("bd") else _OF_SUFFIX.get(written[-1], "")
    kind = kind_of(node, type_of)
    if isinstance(node, exp.Anonymous) and _adds_a_unit(node):
        return ""
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


def _adds_a_unit(call: exp.Anonymous) -> bool:
    """True for `date_add(HOUR, 1, t)`, a timestamp."""
    return str(call.this).lower() == "date_add" and len(call.expressions) > 2


def _of_sum(node: exp.Expr, type_of: TypeOf) -> str:
    one, other = family(node.this, type_of), family(node.expression, type_of)
    if one in _TIMES and isinstance(node.expression, exp.Interval):
        # A date and an interval of hours give a timestamp.
        return one if one != "date" else ""
    both = {one, other}
    if "" in both or both & _TIMES:
        return ""
    return _of_floats(both) or ("" if any(map(_DECIMAL.fullmatch, both)) else "number")


def _of_floats(kinds: set[str]) -> str:
    """The lesser of the floating-point types among some, by which all are compared."""
    return next((kind for kind in ("float", "double") if kind in kinds), "")


def _of_call(node: exp.Anonymous, type_of: TypeOf) -> str:
    name = str(node.this).lower()
    if name in _DOUBLES:
        return "double"
    kinds = {family(value, type_of) for value in node.expressions} if name in _CHOICES else {""}
    if len(kinds) == 1:
        return kinds.pop()
    if "" in kinds or kinds & _TIMES:
        return ""
    if floats := _of_floats(kinds):
        return floats
    whole, scale = _digits(kinds)
    if not scale and whole == _OF_INTEGERS:
        return "number"
    return f"decimal({whole + scale},{scale})" if whole + scale <= _MOST_DIGITS else ""


def _digits(kinds: Iterable[str]) -> tuple[int, int]:
    """The most digits before and after the point that numbers of some types have."""
    found = [each for each in map(_DECIMAL.fullmatch, kinds) if each]
    whole = max((_OF_INTEGERS, *(int(each[1]) - int(each[2]) for each in found)))
    return whole, max((0, *(int(each[2]) for each in found)))


def alike(one: exp.Expr, other: exp.Expr, type_of: TypeOf) -> bool:
    """True where two values are of one type, or both integers, and compare as they are sorted.

    Example:
        >>> from deltajoin.sql.dialect import parse_expression
        >>> def both(one: str, other: str) -> bool:
        ...     kinds = {"i": "int", "l": "bigint", "s": "string", "c": "string collate UNICODE"}
        ...     return alike(*map(parse_expression, (one, other)), lambda c: kinds[c.name])
        >>> both("a.i", "b.l"), both("a.s", "b.s"), both("a.s", "b.i"), both("a.c", "b.c")
        (True, True, False, False)
    """
    kinds = {family(value, type_of) or kind_of(value, type_of) for value in (one, other)}
    if kinds <= {*INTEGERS}:
        return True
    (kind, *more) = kinds
    sorts = PLAIN.fullmatch(kind) is not None and "char" not in kind
    return not more and (sorts or kind in _NUMBERS)


def as_doubles(
    values: list[exp.Expr], type_of: TypeOf, high: str = "1e300D", low: str = ""
) -> list[str] | None:
    """Values that are compared with each other, as doubles in the same order; None where Spark
    compares them otherwise than by their size, or where that isn't certain.

    Both of two floats of different size are rounded to the smaller one, as Spark may do. Floats are
    kept within `high` and `low`, NaN and infinities too; NULL stays NULL.
    """
    kinds = {family(value, type_of) for value in values}
    if "" in kinds or (kinds & _TIMES and len(kinds) > 1):
        return None
    if sum(_digits(kinds)) > _MOST_DIGITS:
        return None
    return [_as_double(value, kinds, high, low) for value in values]


def _as_double(value: exp.Expr, kinds: set[str], high: str, low: str) -> str:
    sql = text(closed(value))
    (kind,) = kinds if len(kinds) == 1 else ("",)
    if kind == "date":
        return f"CAST(unix_date({sql}) AS DOUBLE)"
    if kind == "timestamp":
        return f"CAST(unix_micros({sql}) AS DOUBLE)"
    if kind == "timestamp_ntz":
        # Of parts: as an instant it would be moved by the session's time zone.
        day, second = f"unix_date(CAST({sql} AS DATE))", f"date_part('SECOND', {sql})"
        clock = f"3600D * hour({sql}) + 60D * minute({sql}) + CAST({second} AS DOUBLE)"
        return f"(86400D * {day} + {clock})"
    if "float" in kinds:
        sql = f"CAST({sql} AS FLOAT)"
    if kinds & {"float", "double"}:
        return clamped(f"CAST({sql} AS DOUBLE)", high, low)
    return f"CAST({sql} AS DOUBLE)"


def clamped(sql: str, high: str = "1e300D", low: str = "") -> str:
    """A double within finite bounds: NaN is the highest, NULL stays NULL."""
    low = low or f"-{high}"
    return f"(CASE WHEN {sql} > {high} THEN {high} WHEN {sql} < {low} THEN {low} ELSE {sql} END)"
