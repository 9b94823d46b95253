"""The type of an expression whose sums are exact: an integer or a decimal of known scale.

Rule: only what is certain. Columns, literals, casts, `+ - *`, and choices between such values have
a type here; anything else (floats, division, a function) has none, and its sum is not linear. A
decimal's scale is exact, its precision may be more than Spark's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from deltajoin.sql.dialect import type_of_cast

_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_CHOICES = ("coalesce", "ifnull", "nvl", "nvl2")
_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")


@dataclass(frozen=True)
class Exact:
    """Digits in all and after the point; `integral` for the integer types."""

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


TypeOf = Callable[[exp.Column], str]


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
    """The exact type of an expression, None where it is not certain.

    Args:
        type_of: the Spark type of a column.
    """
    if isinstance(node, (exp.Paren, exp.Neg)):
        return exact_type(node.this, type_of)
    if isinstance(node, exp.Column):
        return exact(type_of(node))
    if isinstance(node, exp.Literal):
        return _literal(node)
    if isinstance(node, (exp.Cast, exp.TryCast)):
        return exact(type_of_cast(node))
    if isinstance(node, (exp.Add, exp.Sub, exp.Mul)):
        return _arithmetic(node, type_of)
    choices = _choices(node)
    return _widest([exact_type(choice, type_of) for choice in choices]) if choices else None


def _literal(node: exp.Literal) -> Exact | None:
    if node.is_string or not re.fullmatch(r"\d+(\.\d+)?", node.this):
        return None
    whole, _, fraction = node.this.partition(".")
    if not fraction:
        return exact("int" if int(whole) < 2**31 else "bigint")
    return Exact(max(len(whole.lstrip("0")) + len(fraction), 1), len(fraction))


def _arithmetic(node: exp.Expr, type_of: TypeOf) -> Exact | None:
    one, other = exact_type(node.this, type_of), exact_type(node.expression, type_of)
    if one is None or other is None:
        return None
    if one.integral and other.integral:
        return max(one, other, key=lambda e: e.precision)
    if isinstance(node, exp.Mul):
        return _fitting(one.precision + other.precision + 1, one.scale + other.scale)
    scale = max(one.scale, other.scale)
    return _fitting(max(e.precision - e.scale for e in (one, other)) + scale + 1, scale)


def _fitting(precision: int, scale: int) -> Exact | None:
    return Exact(precision, scale) if precision <= 38 else None


def _choices(node: exp.Expr) -> list[exp.Expr]:
    """The values that an expression chooses from, NULLs apart; none if it is no choice."""
    if isinstance(node, exp.Case):
        found = [branch.args["true"] for branch in node.args["ifs"]]
        found += [node.args["default"]] if node.args.get("default") else []
    elif isinstance(node, exp.If):
        found = [node.args["true"]] + ([node.args["false"]] if node.args.get("false") else [])
    elif isinstance(node, exp.Anonymous) and str(node.this).lower() in _CHOICES:
        found = node.expressions[1:] if str(node.this).lower() == "nvl2" else node.expressions
    elif isinstance(node, exp.Anonymous) and str(node.this).lower() == "abs":
        found = node.expressions
    else:
        return []
    return [choice for choice in found if not isinstance(choice, exp.Null)]


def _widest(types: list[Exact | None]) -> Exact | None:
    known = [kind for kind in types if kind is not None]
    if not known or len(known) < len(types):
        return None
    if all(kind.integral for kind in known):
        return max(known, key=lambda e: e.precision)
    scale = max(kind.scale for kind in known)
    return _fitting(max(kind.precision - kind.scale for kind in known) + scale, scale)
