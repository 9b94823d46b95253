"""What share of the rows a predicate keeps.

A comparison of one column with a literal is judged by the column's bounds, distinct values and
nulls; ranges on one column are met, not multiplied; AND, OR, NOT and IN follow from their parts.
Predicates over several relations, and all that can't be read, have a fixed share. Where distinct
values are guessed, a value keeps a tenth: people filter by what has few values. Guesses over the
same relations back off, as in SQL Server: the best one counts in full, the next its square root,
then its fourth root. A share of zero means that the log rules the rows out; the caller sets the
floor. Source of the fixed shares: System R's, PostgreSQL's and DuckDB's defaults.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

from sqlglot import exp
from sqlglot.errors import SqlglotError

from deltajoin.graph import ColumnRef
from deltajoin.sql.dialect import parse_expression

OTHER, INEQUALITY, LIKE, HALF, TWO_SIDED, EQUAL = 0.25, 1 / 3, 0.1, 0.5, 0.1, 0.1
_TURNED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
}


class Facts(Protocol):
    """What is known of columns."""

    def distinct(self, column: ColumnRef) -> float:
        """Distinct values, at least one."""
        ...

    def guessed(self, column: ColumnRef) -> bool:
        """Whether the distinct values are a guess that only joins can stand on."""
        ...

    def range_share(self, column: ColumnRef, low: Any, high: Any) -> float | None:
        """Share of the values in a closed range; None when unknown."""
        ...

    def null_share(self, column: ColumnRef) -> float | None:
        """Share of nulls; None when unknown."""
        ...


@dataclass(frozen=True)
class Shape:
    """A predicate as far as it can be judged.

    `kind`: and, or, not (of `parts`); range (`low`, `high`), in (`values`), null (of `column`);
    equal (of `columns`); fixed (`low` is the share, of `columns`).
    """

    kind: str
    parts: tuple[Shape, ...] = ()
    column: ColumnRef = ("", "")
    columns: tuple[ColumnRef, ...] = ()
    low: Any = None
    high: Any = None
    values: tuple[Any, ...] = ()


def kept_share(predicates: Iterable[str], facts: Facts) -> float:
    """Share of the rows that all of some conjuncts keep; 0 to 1.

    Example: with values 0 to 99 of x, "x >= 20" and "x < 30" together keep a tenth.
    """
    return _all(tuple(shape_of(sql) for sql in sorted(predicates)), facts)


@lru_cache(maxsize=4096)
def shape_of(sql: str) -> Shape:
    """The shape of a predicate in Spark SQL."""
    try:
        return _shape(parse_expression(sql))
    except (SqlglotError, RecursionError, ValueError):
        return _fixed(OTHER)


def _fixed(share: float, node: exp.Expr | None = None) -> Shape:
    return Shape("fixed", low=share, columns=_refs(node) if node is not None else ())


def _shape(node: exp.Expr) -> Shape:
    if isinstance(node, exp.Paren):
        return _shape(node.this)
    if isinstance(node, exp.And | exp.Or):
        parts = (_shape(node.this), _shape(node.expression))
        return Shape("and", parts) if isinstance(node, exp.And) else _either(*parts)
    if isinstance(node, exp.Not):
        return Shape("not", (_shape(node.this),))
    if isinstance(node, exp.Boolean):
        return _fixed(1.0 if node.this else 0.0)
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        return (
            Shape("null", column=_ref(node.this)) if _is_column(node.this) else _fixed(LIKE, node)
        )
    if isinstance(node, exp.Column):
        return _fixed(HALF, node)
    if isinstance(node, exp.In | exp.Between):
        return _listed(node)
    if isinstance(node, exp.Like | exp.ILike | exp.RegexpLike):
        return _fixed(LIKE, node)
    return _comparison(node) if isinstance(node, exp.Binary) else _fixed(OTHER, node)


def _either(one: Shape, other: Shape) -> Shape:
    """A disjunction; values of one column are a list."""
    if one.kind == other.kind == "in" and one.column == other.column:
        return replace(one, values=tuple(dict.fromkeys((*one.values, *other.values))))
    return Shape("or", (one, other))


def _listed(node: exp.In | exp.Between) -> Shape:
    if isinstance(node, exp.Between):
        low, high = _literal(node.args["low"]), _literal(node.args["high"])
        if _is_column(node.this) and low is not None and high is not None:
            if low == high:
                return Shape("in", column=_ref(node.this), values=(low,))
            return Shape("range", column=_ref(node.this), low=low, high=high)
        return _fixed(TWO_SIDED, node)
    values = tuple(_literal(value) for value in node.expressions)
    if _is_column(node.this) and values and all(value is not None for value in values):
        return Shape("in", column=_ref(node.this), values=tuple(dict.fromkeys(values)))
    return _fixed(OTHER, node)


def _comparison(node: exp.Binary) -> Shape:
    kind: type[exp.Expr] = type(node)
    column, other = node.this, node.expression
    if not _is_column(column):
        column, other, kind = other, column, _TURNED.get(kind, kind)
    columns = _refs(node)
    several = len({relation for relation, _ in columns}) > 1
    value = _literal(other) if _is_column(column) and not several else None
    if not columns:
        return _fixed(OTHER)
    if kind in (exp.EQ, exp.NullSafeEQ):
        if value is not None:
            return Shape("in", column=_ref(column), values=(value,))
        return Shape("equal", columns=columns)
    if kind is exp.NEQ:
        same = Shape("in", column=_ref(column), values=(value,)) if value is not None else None
        return Shape("not", (same or Shape("equal", columns=columns),))
    if kind in _TURNED:
        if value is None:
            return _fixed(INEQUALITY, node)
        above = kind in (exp.GT, exp.GTE)
        low, high = (value, None) if above else (None, value)
        return Shape("range", column=_ref(column), low=low, high=high)
    return _fixed(OTHER, node)


def _is_column(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column)


def _ref(column: exp.Expr) -> ColumnRef:
    return (column.text("table"), column.name)


def _refs(node: exp.Expr) -> tuple[ColumnRef, ...]:
    return tuple(sorted({_ref(c) for c in node.find_all(exp.Column)}))


def _literal(node: exp.Expr) -> Any:
    """A literal's value; None when it is none, or NULL."""
    if isinstance(node, exp.Paren | exp.Cast):
        return _literal(node.this)
    if isinstance(node, exp.Neg):
        value = _literal(node.this)
        return -value if isinstance(value, int | float) else None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if not isinstance(node, exp.Literal):
        return None
    text = str(node.this)
    if node.is_string:
        return text
    return int(text) if text.isdigit() else float(text)


def _share(shape: Shape, facts: Facts) -> float:
    if shape.kind == "fixed":
        return float(shape.low)
    if shape.kind == "and":
        return _all(shape.parts, facts)
    if shape.kind == "or":
        return 1 - math.prod(1 - _share(part, facts) for part in shape.parts)
    if shape.kind == "not":
        return 1 - _share(shape.parts[0], facts)
    if shape.kind == "null":
        nulls = facts.null_share(shape.column)
        return LIKE if nulls is None else nulls
    if shape.kind == "equal":
        return min(HALF, 1 / max(_values(column, facts) for column in shape.columns))
    return _of_column(shape, facts)


def _values(column: ColumnRef, facts: Facts) -> float:
    """Distinct values of a column that is filtered."""
    distinct = facts.distinct(column)
    return min(distinct, 1 / EQUAL) if facts.guessed(column) else distinct


def _of_column(shape: Shape, facts: Facts) -> float:
    present = 1 - (facts.null_share(shape.column) or 0.0)
    if shape.kind == "in":
        inside = sum(facts.range_share(shape.column, v, v) != 0 for v in shape.values)
        share = inside / _values(shape.column, facts)
        return present * min(HALF if inside > 1 and facts.guessed(shape.column) else 1.0, share)
    found = facts.range_share(shape.column, shape.low, shape.high)
    if found is None:
        found = INEQUALITY if None in (shape.low, shape.high) else TWO_SIDED
    return present * found


def _all(shapes: tuple[Shape, ...], facts: Facts) -> float:
    """Conjuncts together: ranges on one column are met, guesses back off, others multiply."""
    flat = _flattened(shapes)
    share = 1.0
    guesses: dict[tuple[str, ...], list[float]] = {}
    one_sided: dict[ColumnRef, dict[bool, float]] = {}
    for shape in flat:
        if shape.kind == "range" and None in (shape.low, shape.high):
            sides = one_sided.setdefault(shape.column, {})
            above = shape.high is None
            sides[above] = min(sides.get(above, 1.0), _share(shape, facts))
        elif _is_guess(shape, facts):
            guesses.setdefault(_relations(shape), []).append(_share(shape, facts))
        else:
            share *= _share(shape, facts)
    for column, sides in sorted(one_sided.items()):
        if facts.range_share(column, None, None) is None:
            found = next(iter(sides.values())) if len(sides) == 1 else TWO_SIDED
            guesses.setdefault((column[0],), []).append(found)
        elif len(sides) == 1:
            share *= next(iter(sides.values()))
        else:
            present = 1 - (facts.null_share(column) or 0.0)
            share *= max(0.0, sum(sides.values()) - present)
    for _, shares in sorted(guesses.items()):
        for at, guess in enumerate(sorted(shares)):
            share *= guess ** (0.5**at)
    return share


def _is_guess(shape: Shape, facts: Facts) -> bool:
    """Whether a share stands on no figure of its columns."""
    if shape.kind == "fixed":
        return bool(shape.columns)
    if shape.parts:
        return any(_is_guess(part, facts) for part in shape.parts)
    if shape.kind == "null":
        return facts.null_share(shape.column) is None
    if shape.kind == "range":
        return facts.range_share(shape.column, shape.low, shape.high) is None
    return shape.kind == "equal" or facts.guessed(shape.column)


def _relations(shape: Shape) -> tuple[str, ...]:
    own = {relation for relation, _ in (shape.column, *shape.columns) if relation}
    return tuple(sorted(own.union(*(_relations(part) for part in shape.parts))))


def _flattened(shapes: tuple[Shape, ...]) -> list[Shape]:
    found: list[Shape] = []
    for shape in shapes:
        found += _flattened(shape.parts) if shape.kind == "and" else [shape]
    return found
