"""Window functions over bound rows -> the rows they read, their calls, what is made of them.

All windows of a query are computed together, for the values of the partition expressions that they
have in common. By those that are given out the target's rows of a partition can be found; where
none is, all are stored beside what is given out, hidden. A call whose result depends on the order
of ties is noted with that order, which must identify a row (`delta.ties`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from deltajoin.layers import Order, Output, Windowing
from deltajoin.names import RESERVED_PREFIX
from deltajoin.sql import functions
from deltajoin.sql.dialect import exchanged, text
from deltajoin.sql.group import input_column, plain
from deltajoin.sql.refuse import Unsupported, downstream

Named = tuple[str, exp.Expr, exp.Expr]
_REMEDY = downstream("the window")


def windows_of(node: exp.Expr) -> list[exp.Window]:
    """The outermost window calls in an expression."""
    if isinstance(node, exp.Window):
        return [node]
    if isinstance(node, exp.Query):
        return []
    return [window for part in node.iter_expressions() for window in windows_of(part)]


def call_of(window: exp.Window) -> exp.Expr:
    """The function call of a window, without FILTER and IGNORE NULLS."""
    call = window.this
    while isinstance(call, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)):
        call = call.this
    found: exp.Expr = call
    return found


def with_specs(node: exp.Expr, specs: Mapping[str, exp.Window]) -> exp.Expr:
    """The expression with named windows written out and `count(*)` over one as `count(1)`."""
    holder = exp.Paren(this=node.copy())
    for window in windows_of(holder):
        spec, seen = window, set[str]()
        while name := spec.text("alias").lower():
            if name in seen or name not in specs or any(map(spec.args.get, _SPEC)):
                raise Unsupported("WINDOW", f"the window {name}", window, _REMEDY)
            seen.add(name)
            spec = specs[name]
        if spec is not window:
            window.set("alias", None)
            for part in _SPEC:
                value = spec.args.get(part)
                copied = [v.copy() for v in value] if isinstance(value, list) else value
                window.set(part, copied.copy() if isinstance(copied, exp.Expr) else copied)
        call = call_of(window)
        if any(isinstance(e, exp.Star) for e in call.expressions):
            call.set("expressions", [exp.Literal.number(1)])
    found: exp.Expr = holder.this
    return found


_SPEC = ("partition_by", "order", "spec")


def make_windowing(
    outputs: list[Named], after: list[exp.Expr], select: exp.Select
) -> tuple[Windowing, list[Named]]:
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
    maker = _Maker(keys, calls)
    made = tuple(_output(name, maker.over(node, made=True)) for name, node, _ in outputs)
    hidden = {f"g{i}": f"{RESERVED_PREFIX}key_{i}" for i in range(len(keys))}
    shown = hidden | {o.column: o.name for o in reversed(made) if o.column}
    conditions = [maker.over(e, made=True) for e in after]
    windowing = Windowing(
        keys=tuple(f"g{i}" for i in range(len(keys))),
        key_outputs=tuple(shown[f"g{i}"] for i in range(len(keys))),
        windows=tuple((f"w{i}", text(maker.over(w))) for i, w in enumerate(calls.values())),
        orders=_orders(calls.values(), maker),
        outputs=made,
        conditions=tuple(text(exp.paren(c)) for c in conditions),
        first_of=_first_of(after, maker, shown),
    )
    return windowing, maker.rows(keys)


def _output(name: str, node: exp.Expr) -> Output:
    column = node.name if isinstance(node, exp.Column) and node.name[0] != "w" else None
    return Output(name, text(node), column)


def _check(window: exp.Window, origin: exp.Expr) -> None:
    call = call_of(window)
    name = str(call.this).lower() if isinstance(call, exp.Anonymous) else ""
    if name not in functions.AGGREGATES | functions.WINDOW_ONLY:
        raise Unsupported("WINDOW", f"{name or text(call)} over a window", origin, _REMEDY)
    if any(windows_of(part) for part in window.iter_expressions()):
        raise Unsupported("WINDOW", "a window over a window", origin, _REMEDY)


def _keys(windows: list[exp.Window], outputs: list[Named], select: exp.Select) -> list[exp.Expr]:
    """The partition expressions that all windows share: those that the query gives out, if any."""
    at = next((origin for _, e, origin in outputs if windows_of(e)), select)
    parts = [{plain(e): e for e in _partition(w) if e.find(exp.Column)} for w in windows]
    common = {key: e for key, e in parts[0].items() if all(key in other for other in parts)}
    if not common:
        what = "windows without a common PARTITION BY"
        raise Unsupported("WINDOW", what, at, "Partition all of them by one expression.")
    given = {plain(node) for _, node, _ in outputs}
    return [e for key, e in common.items() if key in given] or list(common.values())


def _partition(window: exp.Window) -> list[exp.Expr]:
    return list(window.args.get("partition_by") or [])


def _orders(windows: Iterable[exp.Window], maker: _Maker) -> tuple[Order, ...]:
    """The orders that must identify a row, each once."""
    found: dict[str, Order] = {}
    for window in windows:
        if not _depends_on_ties(window):
            continue
        order = window.args.get("order")
        parts = [*_partition(window), *(o.this for o in (order.expressions if order else []))]
        made = [maker.over(_bare(part)) for part in parts]
        peers = window.copy()
        peers.set("this", exp.Anonymous(this="count", expressions=[exp.Literal.number(1)]))
        frame = {"kind": "RANGE", "start": "CURRENT ROW", "end": "CURRENT ROW"}
        peers.set("spec", exp.WindowSpec(**frame) if order else None)
        sql = text(maker.over(peers))
        columns = (e.name for e in made if isinstance(e, exp.Column))
        found[sql] = Order(tuple(dict.fromkeys(columns)), sql)
    return tuple(found.values())


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _depends_on_ties(window: exp.Window) -> bool:
    name = str(call_of(window).this).lower()
    if name in functions.EQUAL_FOR_PEERS:
        return False
    frame = window.args.get("spec")
    rows = frame is not None and str(frame.args.get("kind")).upper() != "RANGE"
    if rows and frame is not None:
        sides = [str(frame.args.get(side)).upper() for side in ("start", "end")]
        rows = sides != ["UNBOUNDED", "UNBOUNDED"]
    return rows or name not in functions.ORDER_FREE


def _first_of(after: list[exp.Expr], maker: _Maker, shown: Mapping[str, str]) -> tuple[str, ...]:
    """The stored names of the partition of a filter `row_number() = 1`, when it is stored whole."""
    for conjunct in map(_bare, after):
        if not isinstance(conjunct, exp.EQ):
            continue
        sides = (_bare(conjunct.this), _bare(conjunct.expression))
        window = next((side for side in sides if isinstance(side, exp.Window)), None)
        if window is None or "1" not in map(text, sides):
            continue
        columns = [maker.over(_bare(e)) for e in _partition(window)]
        names = [shown.get(c.name, "") if isinstance(c, exp.Column) else "" for c in columns]
        if text(call_of(window)).lower() == "row_number()" and all(names):
            return tuple(dict.fromkeys(names))
    return ()


class _Maker:
    """Rewrites expressions over relations to such over the rows below the windows."""

    def __init__(self, keys: list[exp.Expr], calls: Mapping[str, exp.Window]) -> None:
        self._keys = {plain(key): f"g{i}" for i, key in enumerate(keys)}
        self._calls = {call: f"w{i}" for i, call in enumerate(calls)}
        self._columns: dict[str, tuple[str, exp.Expr]] = {}

    def rows(self, keys: list[exp.Expr]) -> list[Named]:
        """The columns below: keys, then what else is read."""
        found = [(f"g{i}", key, key) for i, key in enumerate(keys)]
        return [*found, *((name, column, column) for name, column in self._columns.values())]

    def over(self, node: exp.Expr, *, made: bool = False) -> exp.Expr:
        """The expression over the rows below; `made`: with the windows' results."""

        def column(part: exp.Expr) -> exp.Expr | None:
            if made and isinstance(part, exp.Window):
                return input_column(self._calls[text(part)])
            if not isinstance(part, exp.Ordered) and (key := self._keys.get(plain(part))):
                return input_column(key)
            if not isinstance(part, exp.Column):
                return None
            new = (f"c{len(self._columns)}", part.copy())
            return input_column(self._columns.setdefault(plain(part), new)[0])

        return exchanged(node, column)
