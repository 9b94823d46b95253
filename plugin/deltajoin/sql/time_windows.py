"""window(at, '1 day') -> the start of a row's window, computed from its time.

    SELECT window.start AS day, count(*) AS n FROM t GROUP BY window(at, '1 day')
    ->  SELECT s AS day, count(*) AS n FROM t WHERE at IS NOT NULL GROUP BY s
        s = timestamp_micros(unix_micros(at) - pmod(unix_micros(at), 86400000000))

`window.end` is so long after the start, and `window` a struct of both. A row of a sliding window
stands once for each number i of a generator, i slides before the last window that it is in. As in
Spark a SELECT has one window of time, and rows without a time leave. Caller: binds the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from deltajoin.names import RESERVED_PREFIX
from deltajoin.sql.columns import bound
from deltajoin.sql.dialect import closed, spelled, text
from deltajoin.sql.generators import View
from deltajoin.sql.group import own_nodes
from deltajoin.sql.kinds import TypeOf, kind_of, typed
from deltajoin.sql.nodes import call, function_name, is_not_null, number, numbered_rows, own_name
from deltajoin.sql.refuse import Unsupported, downstream
from deltajoin.sql.scope import Block, Scope

_WINDOW, _START, _END = "window", "start", "end"
_UNITS = {
    "microsecond": 1, "millisecond": 1_000, "second": 1_000_000, "minute": 60_000_000,
    "hour": 3_600_000_000, "day": 86_400_000_000, "week": 604_800_000_000,
}  # fmt: skip
_MOST = 64


@dataclass(frozen=True)
class TimeWindows:
    """A select without calls of window(), what makes its rows, and the filter on these."""

    select: exp.Select
    views: tuple[View, ...] = ()
    conditions: tuple[exp.Expr, ...] = ()


@dataclass(frozen=True)
class _Window:
    """Microseconds; `at` is the time of a row as it is written."""

    at: exp.Expr
    length: int
    slide: int
    offset: int

    def since(self) -> exp.Expr:
        """The time from the start of the last window that a row is in."""
        micros: exp.Expr = call("unix_micros", self.at.copy())
        if self.offset:
            micros = exp.Sub(this=micros, expression=number(self.offset))
        return call("pmod", micros, number(self.slide))

    def start(self, back: exp.Expr | None) -> exp.Expr:
        """The start of the window that is so many slides before the last one."""
        micros = exp.Sub(this=call("unix_micros", self.at.copy()), expression=self.since())
        if back is not None:
            micros = exp.Sub(this=micros, expression=self.slides(back))
        return call("timestamp_micros", micros)

    def end(self, start: exp.Expr) -> exp.Expr:
        """The end of the window with this start."""
        micros = exp.Add(this=call("unix_micros", start), expression=number(self.length))
        return call("timestamp_micros", micros)

    def slides(self, back: exp.Expr) -> exp.Expr:
        """So many slides, as time."""
        return exp.Mul(this=number(self.slide), expression=back.copy())


def with_time_windows(
    select: exp.Select,
    block: Block,
    scope: Scope,
    type_of: TypeOf,
    take_name: Callable[[str], str] | None = None,
) -> TimeWindows:
    """The select with the starts of windows in the place of window(); rows without a time leave the
    block.

    Args:
        take_name: names what makes the rows of sliding windows; None where there may be none.

    Raises:
        Unsupported: GENERATOR.
    """
    calls = [node for node in _nodes(select) if _is_window(node)]
    if not calls:
        return TimeWindows(select)
    if len({spelled(text(call)) for call in calls}) > 1 or select.args.get("distinct"):
        raise _stop("window() of several lengths, or with DISTINCT,", calls[0])
    _check_names(select, calls[0], scope)
    found = _window(calls[0], scope, type_of)
    block.conjuncts.append(is_not_null(closed(bound(found.at, scope))))
    count = -(-found.length // found.slide)
    if count == 1:
        return TimeWindows(_replaced(select, found, None))
    if take_name is None or count > _MOST:
        raise _stop("a sliding window without groups, or of so many slides,", calls[0])
    name = take_name(f"{RESERVED_PREFIX}window")
    view = View(name, numbered_rows(count), False, ("number",))
    scope.aliases[name] = view.column("number")
    back = exp.column(name, quoted=True)
    inside = exp.Add(this=found.since(), expression=found.slides(back))
    condition = bound(exp.LT(this=inside, expression=number(found.length)), scope)
    conditions = (condition,) if found.length % found.slide else ()
    return TimeWindows(_replaced(select, found, back), (view,), conditions)


def _nodes(select: exp.Select) -> Iterator[exp.Expr]:
    """Where a window may be called or named."""
    clauses = (select.args.get(name) for name in ("group", "having"))
    for part in (*select.expressions, *(clause for clause in clauses if clause is not None)):
        yield from own_nodes(part)


def _check_names(select: exp.Select, call: exp.Expr, scope: Scope) -> None:
    """A column, a table or an alias of such a name could be meant."""
    known = scope.names
    known |= {part for item in scope.items for names in item.qualifiers for part in names}
    aliases = {node.alias.lower() for node in select.expressions if isinstance(node, exp.Alias)}
    read = {column.parts[0].name.lower() for column in call.find_all(exp.Column)}
    if _WINDOW in known or read & aliases - known:
        raise _stop("window() beside a name that may mean another thing", call)
    group = select.args.get("group")
    if (group and group.args.get("all")) or any(node.is_star for node in select.expressions):
        raise _stop("window() beside * or GROUP BY ALL", call)


def _window(call: exp.Expr, scope: Scope, type_of: TypeOf) -> _Window:
    at, *times = call.expressions
    kind = kind_of(bound(at, scope), type_of)
    if kind not in ("timestamp", "date"):
        raise _stop(f"window() over {text(at)}, whose type is {kind or 'not known'},", call)
    lengths = [_micros(time) for time in times]
    if not 0 < len(lengths) <= 3 or None in lengths:
        raise _stop(f"{text(call)}, whose lengths are not known,", call)
    length, slide, offset = [n or 0 for n in (*lengths, *(lengths[0], 0)[len(lengths) - 1 :])]
    if not offset < slide <= length:
        raise _stop(f"{text(call)}, whose lengths are not known,", call)
    return _Window(at if kind == "timestamp" else typed(at, "timestamp"), length, slide, offset)


def _micros(node: exp.Expr) -> int | None:
    """The length of an interval that is written as a text: `1 hour 30 minutes`."""
    written = node.name.lower().strip() if isinstance(node, exp.Literal) and node.is_string else ""
    if not re.fullmatch(r"(\d{1,9} +[a-z]+ *)+", written):
        return None
    parts = re.findall(r"(\d+) +([a-z]+)", written)
    units = [unit if unit in _UNITS else unit.removesuffix("s") for _, unit in parts]
    if any(unit not in _UNITS for unit in units):
        return None
    return sum(int(n) * _UNITS[unit] for (n, _), unit in zip(parts, units, strict=True))


def _replaced(select: exp.Select, window: _Window, back: exp.Expr | None) -> exp.Select:
    """The select with the window's parts in the places where it has them."""
    start = window.start(back)
    end = window.end(start.copy())
    pair = (exp.Literal.string(_START), start, exp.Literal.string(_END), end)
    whole = call("named_struct", *(node.copy() for node in pair))
    made = select.copy()
    _replace_keys(made, start)
    for node in made.expressions:
        if _field(node) is not None or _is_window(node):
            node.replace(exp.alias_(node.copy(), own_name(node) or _WINDOW, quoted=True))
    calls = [node for node in _nodes(made) if _is_window(node)]
    for node in [*calls, *(node for node in _nodes(made) if _field(node) is not None)]:
        field, place = _field(node), node
        if field is None and isinstance(node.parent, exp.Dot) and node.parent.this is node:
            place, field = node.parent, node.parent.expression.name.lower()
        if field not in (None, _START, _END, _WINDOW):
            raise _stop(f"{text(place)}, which is no part of a window,", node)
        place.replace({_START: start, _END: end}.get(field or _WINDOW, whole).copy())
    return made


def _replace_keys(select: exp.Select, start: exp.Expr) -> None:
    """Group by the start alone where GROUP BY names the window, an alias or a number of it."""
    group = select.args.get("group")
    whole = {
        key
        for i, node in enumerate(select.expressions, 1)
        if _is_window(node.unalias())
        for key in (str(i), node.alias.lower())
    }
    for key in list(group.expressions) if group else []:
        bare = isinstance(key, exp.Literal) or (isinstance(key, exp.Column) and not key.table)
        if _is_window(key) or (bare and key.name.lower() in whole):
            key.replace(start.copy())


def _field(node: exp.Expr) -> str | None:
    """The part of the window that a name means; None for other names."""
    if not isinstance(node, exp.Column) or node.parts[0].name.lower() != _WINDOW:
        return None
    return ".".join(part.name.lower() for part in node.parts[1:]) or _WINDOW


def _is_window(node: exp.Expr) -> bool:
    return function_name(node) == _WINDOW


def _stop(what: str, node: exp.Expr) -> Unsupported:
    return Unsupported("GENERATOR", what, node, downstream("the window of time"))
