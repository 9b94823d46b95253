"""Window functions over bound rows -> the rows they read, their calls, what is made of them.

All windows of a query are computed together, for the values of the partition expressions that they
have in common. By those that are given out the target's rows of a partition can be found; where
none is, all are stored beside what is given out, hidden. A call whose result depends on the order
of ties is noted with that order, which must identify a row, or is searched for rows
that tie (`delta.ties`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from sqlglot import exp

from deltajoin.layers import INPUT, Order, Output, Windowing
from deltajoin.names import RESERVED_PREFIX
from deltajoin.sql import functions
from deltajoin.sql.below import Below, spelling
from deltajoin.sql.dialect import exchanged, text
from deltajoin.sql.nodes import Given, bare_call, call, column, counts_rows, function_name, number
from deltajoin.sql.refuse import Unsupported, downstream

#: Makes an expression over the rows below.
Over = Callable[[exp.Expr], exp.Expr]
_REMEDY = downstream("the window")


def windows_of(node: exp.Expr) -> list[exp.Window]:
    """The outermost window calls in an expression."""
    if isinstance(node, exp.Window):
        return [node]
    if isinstance(node, exp.Query):
        return []
    return [window for part in node.iter_expressions() for window in windows_of(part)]


def with_specs(node: exp.Expr, specs: Mapping[str, exp.Window]) -> exp.Expr:
    """The expression with named windows written out and `count(*)` over one as `count(1)`."""

    def written_out(part: exp.Expr) -> exp.Expr | None:
        if not isinstance(part, exp.Window):
            return None
        window, spec, seen = part.copy(), part, set[str]()
        while name := spec.text("alias").lower():
            if name in seen or name not in specs or any(map(spec.args.get, _SPEC)):
                raise Unsupported("WINDOW", f"the window {name}", part, _REMEDY)
            seen.add(name)
            spec = specs[name]
        if seen:
            window.set("alias", None)
            for clause, value in spec.copy().args.items():
                if clause in _SPEC:
                    window.set(clause, value)
        call = bare_call(window.this)
        if counts_rows(call):
            call.set("expressions", [number(1)])
        return window

    return exchanged(node, written_out)


_SPEC = ("partition_by", "order", "spec")


def make_windowing(
    outputs: list[Given], after: list[exp.Expr], select: exp.Select
) -> tuple[Windowing, list[Given]]:
    """What the windows make of the rows below, and these rows.

    Args:
        outputs: (name, bound expression, origin); `after`: filters on them; `select`: their place.

    Raises:
        Unsupported: WINDOW for windows without a common partition, for one over another, and for a
            function that is none of Spark's aggregates and window functions.
    """
    calls: dict[str, exp.Window] = {}
    for node, origin in (*((e, o) for _, e, o in outputs), *((e, select) for e in after)):
        for window in windows_of(node):
            _check(window, origin)
            calls.setdefault(text(window), window)
    keys = _keys(list(calls.values()), outputs, select)
    below = Below(INPUT, keys=keys)
    numbers = {call: f"w{i}" for i, call in enumerate(calls)}

    def over(node: exp.Expr, *, windows: bool = False) -> exp.Expr:
        """The expression over the rows below, or over these and the `windows` of them."""

        def read(part: exp.Expr) -> exp.Expr | None:
            if windows and isinstance(part, exp.Window):
                return column(numbers[text(part)], INPUT)
            return below.key(part) or (below.read(part) if isinstance(part, exp.Column) else None)

        return exchanged(node, read)

    values = [(name, over(node, windows=True)) for name, node, _ in outputs]
    made = tuple(
        Output(name, text(e), e.name if isinstance(e, exp.Column) and e.name[0] != "w" else None)
        for name, e in values
    )
    names = tuple(f"g{i}" for i in range(len(keys)))
    stored = {name: f"{RESERVED_PREFIX}key_{i}" for i, name in enumerate(names)}
    stored |= {o.column: o.name for o in reversed(made) if o.column}
    conditions = tuple(text(exp.paren(over(e, windows=True))) for e in after)
    windowing = Windowing(
        keys=names,
        key_outputs=tuple(stored[name] for name in names),
        windows=tuple((f"w{i}", text(over(w))) for i, w in enumerate(calls.values())),
        orders=_orders(calls, dict(zip(conditions, after, strict=True)), over),
        outputs=made,
        conditions=conditions,
        first_of=_first_of(after, over, stored),
    )
    rows = [*zip(names, keys, strict=True), *below.values]
    return windowing, [(name, value, value) for name, value in rows]


def _check(window: exp.Window, origin: exp.Expr) -> None:
    call = bare_call(window.this)
    name = function_name(call)
    if name not in functions.AGGREGATES | functions.WINDOW_ONLY:
        raise Unsupported("WINDOW", f"{name or text(call)} over a window", origin, _REMEDY)
    if any(windows_of(part) for part in window.iter_expressions()):
        raise Unsupported("WINDOW", "a window over a window", origin, _REMEDY)


def _keys(windows: list[exp.Window], outputs: list[Given], select: exp.Select) -> list[exp.Expr]:
    """The partition expressions that all windows share: those that the query gives out, if any."""
    at = next((origin for _, e, origin in outputs if windows_of(e)), select)
    parts = [{spelling(e): e for e in _partition(w) if e.find(exp.Column)} for w in windows]
    common = {key: e for key, e in parts[0].items() if all(key in other for other in parts)}
    if not common:
        what = "windows without a common PARTITION BY"
        raise Unsupported("WINDOW", what, at, "Partition all of them by one expression.")
    given = {spelling(node) for _, node, _ in outputs}
    return [e for key, e in common.items() if key in given] or list(common.values())


def _partition(window: exp.Window) -> list[exp.Expr]:
    return list(window.args.get("partition_by") or [])


def _orders(
    calls: Mapping[str, exp.Window], after: Mapping[str, exp.Expr], over: Over
) -> tuple[Order, ...]:
    """The orders whose ties matter, each once."""
    found: dict[str, Order] = {}
    ordered: dict[str, dict[str, exp.Window]] = {}
    for call_text, window in calls.items():
        if not _depends_on_ties(window):
            continue
        order = window.args.get("order")
        parts = [*_partition(window), *(o.this for o in (order.expressions if order else []))]
        made = [over(part.unnest()) for part in parts]
        peers = window.copy()
        peers.set("this", call("count", number(1)))
        frame = {"kind": "RANGE", "start": "CURRENT ROW", "end": "CURRENT ROW"}
        peers.set("spec", exp.WindowSpec(**frame) if order else None)
        sql = text(over(peers))
        columns = (e.name for e in made if isinstance(e, exp.Column))
        found[sql] = Order(tuple(dict.fromkeys(columns)), sql)
        ordered.setdefault(sql, {})[call_text] = window
    return tuple(
        replace(order, within=tuple(_by_number(ordered[sql], after)))
        for sql, order in found.items()
    )


def _by_number(ordered: Mapping[str, exp.Window], after: Mapping[str, exp.Expr]) -> Iterator[str]:
    """The conditions that read nothing but row_number() in one order, where no other call of it
    depends on ties: of the rows that they leave, one that ties with none has its number in any
    order of ties, so that it matters no more what ties among those that they take out."""
    if any(text(bare_call(window.this)).lower() != "row_number()" for window in ordered.values()):
        return
    for sql, condition in after.items():
        read = {text(window) for window in windows_of(condition)}
        beside = exchanged(condition, lambda e: number(1) if isinstance(e, exp.Window) else None)
        if read and read <= ordered.keys() and not beside.find(exp.Column, exp.Query):
            yield sql


def _depends_on_ties(window: exp.Window) -> bool:
    name = function_name(bare_call(window.this))
    if name in functions.EQUAL_FOR_PEERS:
        return False
    frame = window.args.get("spec")
    if frame is None or str(frame.args.get("kind")).upper() == "RANGE":
        return name not in functions.ORDER_FREE
    sides = {str(frame.args.get(side)).upper() for side in ("start", "end")}
    return sides != {"UNBOUNDED"} or name not in functions.ORDER_FREE


def _first_of(after: list[exp.Expr], over: Over, stored: Mapping[str, str]) -> tuple[str, ...]:
    """The stored names of the partition of a filter `row_number() = 1`, when it is stored whole."""
    for conjunct in (condition.unnest() for condition in after):
        if not isinstance(conjunct, exp.EQ):
            continue
        sides = (conjunct.this.unnest(), conjunct.expression.unnest())
        window = next((side for side in sides if isinstance(side, exp.Window)), None)
        if window is None or "1" not in map(text, sides):
            continue
        columns = [over(e.unnest()) for e in _partition(window)]
        names = [stored.get(c.name, "") if isinstance(c, exp.Column) else "" for c in columns]
        if text(bare_call(window.this)).lower() == "row_number()" and all(names):
            return tuple(dict.fromkeys(names))
    return ()
