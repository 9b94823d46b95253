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
    sum_ = decimal(total, precision + 10, scale)
    rows = decimal(count, 19, 0)
    step = exp.paren(exp.Mul(this=rows, expression=unit))
    rest = exp.paren(exp.Mod(this=sum_, expression=step))
    whole = decimal(exp.Sub(this=sum_.copy(), expression=rest), precision + 15, digits)
    quotient = decimal(exp.Div(this=whole, expression=rows.copy()), precision + 4, digits)
    size = call("abs", rest.copy())
    below = exp.Add(this=size, expression=size.copy())
    last = (
        exp.case()
        .when(exp.LT(this=below, expression=step.copy()), decimal(number(0), digits, digits))
        .when(exp.GT(this=sum_.copy(), expression=number(0)), unit.copy())
        .else_(exp.Neg(this=unit.copy()))
    )
    return decimal(exp.Add(this=quotient, expression=last), precision + 4, digits)


def decimal(node: exp.Expr, precision: int, scale: int) -> exp.Expr:
    """A cast to decimal(precision, scale)."""
    return cast(node, f"DECIMAL({precision}, {scale})")
