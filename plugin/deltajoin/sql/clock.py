"""The clock in a query: who reads it, and the query with the clock at one moment.

Spark's `current_timestamp()` is one moment for a whole statement. Here it is one for a whole epoch:
a call is exchanged, in the text, for an expression over that moment with the type that the call has

    current_timestamp(), now()      timestamp_micros(n)
    current_date(), curdate()       CAST(timestamp_micros(n) AS DATE)
    localtimestamp()                CAST(timestamp_micros(n) AS TIMESTAMP_NTZ)
    unix_timestamp()                seconds
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator

from sqlglot import exp

from deltajoin.sql import functions
from deltajoin.sql.dialect import edited, parse, parse_expression
from deltajoin.sql.nodes import function_name
from deltajoin.sql.spans import span_of

_SECONDS = ("unix_timestamp",)
_CLOCK = functions.CLOCK | {*_SECONDS}
_LONG = ("day", "dd", "week", "month", "mm", "mon", "quarter", "year", "yy", "yyyy")
_DAYS = ("curdate", "current_date")
#: Functions whose moments are dates to them, with so many arguments.
_OF_DATES = {
    **dict.fromkeys("date to_date day dayofmonth dayofweek dayofyear last_day month".split(), 1),
    **dict.fromkeys("quarter weekday weekofyear year".split(), 1),
    **dict.fromkeys("add_months date_add date_diff date_sub datediff next_day trunc".split(), 2),
}
#: A moment, in microseconds, that stands for the clock where only its date decides (`on_a_day`).
_MARK = 148_000_000_000_000_007


def called(node: exp.Expr) -> str:
    """The name of the clock's or the run's function that a bound node calls, else nothing."""
    name = function_name(node)
    if name in _SECONDS:
        return "" if node.expressions else name
    return name if name in functions.CLOCK | functions.RUN else ""


def moves(node: exp.Expr) -> bool:
    """True for an expression that reads the clock or the run.

    Example:
        >>> from deltajoin.sql.dialect import parse_expression
        >>> [moves(parse_expression(sql)) for sql in ("now() - interval 1 day", "to_date('x')")]
        [True, False]
    """
    return any(called(part) for part in node.walk())


def clock_calls(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Calls of the clock in a query or expression; those without parentheses too."""
    for node in tree.walk():
        words = _CLOCK
        if isinstance(node, exp.Column):
            words = functions.BARE - functions.RUN if len(node.parts) == 1 else frozenset()
        if _name(node) in words:
            yield node


def _name(node: exp.Expr) -> str:
    return node.name.lower() if isinstance(node, exp.Column) else called(node)


def reads_clock(node: exp.Expr) -> bool:
    """True for an expression that calls the clock."""
    return any(True for _ in clock_calls(node))


def names_clock(sql: str) -> bool:
    """True for a text that can't be read and has a word of the clock in it."""
    words = {word.lower() for word in re.findall(r"\w+", sql)}
    return bool(words & _CLOCK)


def clock_read(calls: Iterable[exp.Expr]) -> str:
    """What of the clock these calls of it read: "", "day" or "instant"."""
    daily = [_is_daily(call) for call in calls]
    return "" if not daily else "day" if all(daily) else "instant"


def _is_daily(node: exp.Expr) -> bool:
    """True for a call of the clock that gives the same all day."""
    name = _name(node)
    while isinstance(node.parent, exp.Paren):
        node = node.parent
    around = node.parent
    if isinstance(around, (exp.Cast, exp.TryCast)) and around.to.is_type("date"):
        return True
    if isinstance(around, exp.Anonymous) and name not in (*_DAYS, *_SECONDS):
        first, outer = around.expressions[0], function_name(around)
        units = outer == "date_trunc" and isinstance(first, exp.Literal)
        of_dates = _OF_DATES.get(outer) == len(around.expressions)
        return of_dates or (units and first.name.lower() in _LONG)
    return name in _DAYS


def frozen(sql: str, micros: int) -> str:
    """An expression of a graph with the clock at a moment, in microseconds since 1970 in UTC.

    Example:
        >>> frozen("date_add(current_date(), 1)", 5)
        'date_add(CAST(timestamp_micros(5) AS DATE), 1)'
    """
    return _exchanged(sql, parse_expression(sql), micros) or sql


def frozen_query(
    sql: str,
    micros: int,
    columns: Collection[str],
    but: Callable[[exp.Query], Iterable[exp.Expr]] = lambda _: (),
) -> str | None:
    """A whole text with the clock at a moment; None where something may not be the clock, or where
    a column has no name but that of the call.

    Args:
        columns: those of the tables, in lower case.
        but: parts of the query whose clock goes on.
    """
    tree = parse(sql)
    left = {id(node) for part in but(tree) for node in part.walk()}
    names = {*columns, *(alias.alias.lower() for alias in tree.find_all(exp.Alias))}
    for alias in tree.find_all(exp.TableAlias):
        names |= {column.name.lower() for column in alias.args.get("columns") or []}
    for call in clock_calls(tree):
        if isinstance(call, exp.Column) and call.name.lower() in names:
            return None
    for select in tree.find_all(exp.Select):
        for output in select.expressions if _gives_names(select) else ():
            named = isinstance(output, exp.Alias)
            if not named and any(id(call) not in left for call in clock_calls(output)):
                return None
    return _exchanged(sql, tree, micros, left)


def _gives_names(query: exp.Expr) -> bool:
    """False for a later arm of a set operation, and for what IN and EXISTS look into: nobody sees
    the names of their columns."""
    parent = query.parent
    if isinstance(parent, exp.SetOperation):
        return parent.expression is not query and _gives_names(parent)
    if isinstance(parent, (exp.Paren, exp.Subquery)):
        return _gives_names(parent)
    return not isinstance(parent, (exp.Exists, exp.In))


def on_a_day(
    sql: str, columns: Collection[str], stamps: Callable[[exp.Query], Iterable[exp.Expr]]
) -> str | None:
    """A whole text with a mark in place of the clock, but in its stamps; None as `frozen_query`."""
    return None if str(_MARK) in sql else frozen_query(sql, _MARK, columns, stamps)


def dated(sql: str, micros: int) -> str:
    """An expression with the clock at a moment in place of the mark."""
    found = sql.replace(f"timestamp_micros({_MARK})", f"timestamp_micros({micros})")
    assert str(_MARK) not in found, "the mark was written in another way"  # noqa: S101
    return found


def _exchanged(
    sql: str, tree: exp.Expr, micros: int, left: Collection[int] = frozenset()
) -> str | None:
    edits = []
    for call in clock_calls(tree):
        if id(call) in left:
            continue
        name, span = _name(call), span_of(call)
        if span is None or isinstance(call.parent, exp.Dot):
            return None
        written = sql[span.start : span.end]
        if not re.fullmatch(rf"`?{name}`?(\s*\(\s*\))?", written, re.IGNORECASE):
            return None
        edits.append((span.start, span.end, _at(name, micros)))
    return edited(sql, edits)


def _at(name: str, micros: int) -> str:
    moment = f"timestamp_micros({micros})"
    if name in _DAYS:
        return f"CAST({moment} AS DATE)"
    if name == "localtimestamp":
        return f"CAST({moment} AS TIMESTAMP_NTZ)"
    return f"{micros // 1_000_000}L" if name in _SECONDS else moment
