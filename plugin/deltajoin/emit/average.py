"""AVG over decimals from a sum and a count, to the last digit as Spark's own.

Spark divides the sum by the count and rounds half up to four more digits than the argument has. A
division of decimals in SQL rounds too, and to other digits: rounding that again can be wrong by
one. So the remainder is taken off first, which leaves an exact quotient, and then decides the last
digit.
"""

from __future__ import annotations

from sqlglot import exp

from deltajoin.emit.ast import call, number, string
from deltajoin.sql.dialect import cast


def decimal_average(total: exp.Expr, count: exp.Expr, precision: int, scale: int) -> exp.Expr:
    """The average of decimal(precision, scale) values, for a count above 0.

    Requires precision <= 20 and scale <= 6: then no intermediate type has over 38 digits.
    """
    digits = scale + 4
    unit = decimal(string("0." + "0" * (digits - 1) + "1"), digits, digits)
    total, rows = decimal(total, precision + 10, scale), decimal(count, 19, 0)
    step = exp.paren(rows * unit)
    rest = exp.paren(total % step)
    whole = decimal(total - rest, precision + 15, digits)
    quotient = decimal(whole / rows, precision + 4, digits)
    size = call("abs", rest)
    last = (
        exp.case()
        .when(exp.LT(this=size + size, expression=step), decimal(number(0), digits, digits))
        .when(total > 0, unit)
        .else_(-unit)
    )
    return decimal(quotient + last, precision + 4, digits)


def decimal(node: exp.Expr, precision: int, scale: int) -> exp.Expr:
    """A cast to decimal(precision, scale)."""
    return cast(node, f"DECIMAL({precision}, {scale})")
