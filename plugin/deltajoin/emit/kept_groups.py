"""Grouped targets with hidden columns: what they store, and how a change is added to the state.

    stored columns    outputs of the query, group keys that it does not give out, state, SHOWN
    net               joined rows that came and went, with their weights
    touched           the change per group: sum of weights, of weights of values that are not NULL,
                      of weight times value
    target_stored     the target as stored
    target_rows       of it the rows within the ranges of the touched keys

Outputs are made from the state as the query makes them from its aggregates; for a group that the
query would not show they are NULL.
"""

from __future__ import annotations

from sqlglot import exp

from deltajoin.delta.lookup_paths import TOUCHED
from deltajoin.delta.plan import Target
from deltajoin.delta.state import Aggregate, GroupState, hidden_columns
from deltajoin.emit.ast import (
    aliased,
    call,
    coalesce,
    column,
    expression,
    fail,
    is_null,
    joined,
    named,
    number,
    pretty,
    same,
    star,
    string,
    table,
)
from deltajoin.emit.average import decimal, decimal_average
from deltajoin.graph import Grouping, JoinGraph
from deltajoin.layers import INPUT
from deltajoin.names import OPERATION, ROWS, SHOWN, TOTAL, WEIGHT
from deltajoin.sql.aggregates import aggregate_calls

TARGET_ROWS, TARGET_STORED = "target_rows", "target_stored"
_MISSING, _CHANGED, _LEAST = "__deltajoin_missing", "__deltajoin_changed", "__deltajoin_least"
#: Digits of a sum, and of values whose weights have ten or four.
_SUM_DIGITS, _VALUE_DIGITS, _WIDE_DIGITS = 38, 27, 33
_ZERO = number(0)
Outputs = list[tuple[str, exp.Expr]]


# rows of groups -> stored columns -----------------------------------------------------------------


def grouped(rows: exp.Expr, grouping: Grouping, state: GroupState | None) -> exp.Select:
    """The stored columns of the query's groups, over its input rows under the alias INPUT."""
    shown, having = _shown(grouping, state, states(state) if state else [])
    select = exp.select(*shown).from_(rows)
    select = select.group_by(*(column(key, INPUT) for key in grouping.keys))
    return select.having(having) if having else select


def groups_of_states(
    rows: exp.Query, grouping: Grouping, parts: GroupState, state: GroupState | None
) -> exp.Select:
    """The same, over states of parts of groups."""
    whole = merged(grouping, parts, rows)
    own: Outputs = [(name, column(name, INPUT)) for name in (state.columns if state else ())]
    shown, having = _shown(grouping, state, own, parts)
    select = exp.select(*shown).from_(aliased(whole, INPUT))
    return select.where(having) if having else select


def _shown(
    grouping: Grouping, state: GroupState | None, own: Outputs, parts: GroupState | None = None
) -> tuple[list[exp.Expr], exp.Expr | None]:
    """The stored columns, and what decides which groups are stored; `own` are the state's columns.
    Aggregates are made of the states of parts, where there are some."""
    having = expression(grouping.having) if grouping.having else None
    outputs = _outputs(grouping, having if state else None)
    if having and state:
        outputs.append((SHOWN, coalesce(having, exp.false())))
    if parts is not None:
        outputs = [(name, _from_state(value, parts)) for name, value in outputs]
        having = _from_state(having, parts) if having else None
    stored = _stored(grouping, [*outputs, *own], state)
    return [named(value, name) for name, value in stored], None if state else having


def _outputs(grouping: Grouping, shown: exp.Expr | None) -> Outputs:
    """What the query gives out; NULL where a condition does not hold, keys apart."""
    found = []
    for name, sql in grouping.outputs:
        value = expression(sql)
        if shown is not None and name not in grouping.key_outputs:
            value = exp.case().when(shown, value)
        found.append((name, value))
    return found


def _stored(grouping: Grouping, outputs: Outputs, state: GroupState | None) -> Outputs:
    """Outputs with the hidden keys, in the order in which the target stores them."""
    values = dict(outputs)
    keys = dict(zip(grouping.key_outputs, grouping.keys, strict=False))
    hidden = [(n, column(keys[n], INPUT) if n in keys else number(1)) for n in grouping.hidden_keys]
    order = (*(name for name, _ in grouping.outputs), *(state.columns if state else ()), SHOWN)
    given = len(grouping.outputs)
    rest = [(name, values[name]) for name in order if name in values]
    return [*rest[:given], *hidden, *rest[given:]]


def states(state: GroupState) -> Outputs:
    """The state columns over plain rows."""
    return [(ROWS, call("count", number(1))), *_states(state, None)]


def merging(state: GroupState, *, of_changes: bool = False) -> dict[str, str]:
    """The function that makes each state column of those of parts of a group, or of its change."""
    kinds = {name: kind for a in state.aggregates for name, kind in a.kinds.items()}
    extremes = ("min", "max")
    found = {n: kinds[n] if kinds.get(n) in extremes else "sum" for n in state.columns}
    return found | ({_LEAST: "min"} if of_changes and not state.is_linear else {})


def merged(
    grouping: Grouping,
    state: GroupState,
    rows: exp.Query,
    weight: exp.Expr | None = None,
    *,
    of_changes: bool = False,
) -> exp.Select:
    """Per group: the states of parts of it put together; those that are there as often as a
    `weight` says make a change."""
    sums = {c: a for a in state.aggregates for c, kind in a.kinds.items() if kind == "sum"}
    keys = [column(key, INPUT) for key in grouping.keys]
    select = exp.select(*keys)
    for name, function in merging(state, of_changes=of_changes or weight is not None).items():
        value, owner = column(name, INPUT), sums.get(name)
        made: exp.Expr
        if function != "sum":
            made = call(function, weight if weight is not None and name == _LEAST else value)
        elif weight is not None and owner is not None and owner.type != "int":
            made = _sum_of_wide(value, owner.scale, weight)
        else:
            zero = _zero(owner) if owner else _ZERO
            made = coalesce(call("sum", value if weight is None else value * weight), zero)
        select = select.select(named(made, name))
    return select.from_(aliased(rows, INPUT)).group_by(*keys)


def _states(state: GroupState, weight: exp.Expr | None) -> Outputs:
    """The state columns but ROWS: over plain rows, or over changes with a weight."""
    found: dict[str, exp.Expr] = {}
    for aggregate in state.aggregates:
        for name, kind in aggregate.kinds.items():
            if name not in found:
                found[name] = _folded(aggregate, kind, weight)
    return list(found.items())


def _folded(aggregate: Aggregate, kind: str, weight: exp.Expr | None) -> exp.Expr:
    argument = exp.paren(expression(aggregate.argument))
    if kind in ("min", "max"):
        return call(kind, argument)
    if kind == "count":
        if weight is None:
            return call("count", argument)
        there = exp.Not(this=is_null(argument))
        return coalesce(call("sum", exp.case().when(there, weight)), _ZERO)
    if aggregate.type == "int":
        value: exp.Expr = exp.cast(argument, "bigint")
        return coalesce(call("sum", value if weight is None else value * weight), _zero(aggregate))
    if aggregate.may_overflow:
        return _sum_of_wide(argument, aggregate.scale, weight)
    value = decimal(argument, _VALUE_DIGITS + (weight is None), aggregate.scale)
    if weight is not None:
        value = value * decimal(weight.copy(), 10, 0)
    return coalesce(call("sum", value), _zero(aggregate))


def _zero(aggregate: Aggregate) -> exp.Expr:
    """The sum of no values."""
    if aggregate.type == "int":
        return number(0)
    return decimal(number(0), _SUM_DIGITS, aggregate.scale)


def _sum_of_wide(argument: exp.Expr, scale: int, weight: exp.Expr | None) -> exp.Expr:
    """The sum of values of a type with so many digits that it may overflow, 0 where there are none.

    Over plain rows it is the query's own: NULL or an error where that overflows. Values of a change
    have few enough digits beside their weights, or the run stops.
    """
    kept = decimal(_ZERO.copy(), _SUM_DIGITS, scale)
    values: exp.Expr = argument
    if weight is not None:
        weighted = (
            _try_decimal(argument, digits, scale) * _try_decimal(weight, 37 - digits, 0)
            for digits in (_VALUE_DIGITS, _WIDE_DIGITS)
        )
        there = exp.Not(this=is_null(argument))
        values = coalesce(*weighted, exp.case().when(there, fail("SUM_OVERFLOW")))
    found = decimal(call("sum", values), _SUM_DIGITS, scale)
    if weight is not None:
        found = coalesce(found, fail("SUM_OVERFLOW"))
    return exp.case().when(call("count", argument.copy()).eq(0), kept).else_(found)


def _try_decimal(node: exp.Expr, precision: int, scale: int) -> exp.Expr:
    """A cast to decimal(precision, scale), NULL where it doesn't fit."""
    kind = exp.DataType.build(f"DECIMAL({precision}, {scale})")
    return exp.TryCast(this=node.copy(), to=kind, safe=True)


# change + state -> rows to write ------------------------------------------------------------------


def add_sql(target: Target, graph: JoinGraph, state: GroupState) -> str:
    """Rows to write: every group whose state the net change alters, with an operation."""
    grouping = graph.grouping
    assert grouping is not None  # noqa: S101 - a state has a grouping
    rows, missing = column(ROWS, INPUT), column(_MISSING, INPUT)
    drift = fail("TARGET_DRIFT")
    there = rows > 0
    # Outputs are evaluated for a group that has rows and that HAVING shows.
    evaluated = column(SHOWN, INPUT) if grouping.having else there if grouping.keys else None
    outputs = _outputs(grouping, evaluated)
    values = {name: _from_state(value, state) for name, value in outputs}
    values |= {name: column(name, INPUT) for name in hidden_columns(graph, state)}
    values |= _key_values(grouping, INPUT)
    operation = exp.case().when(rows < 0, drift)
    if not state.is_linear:
        operation = operation.when(column(_LEAST, INPUT) < 0, drift)
    if grouping.keys:
        gone = rows.eq(0)
        operation = operation.when(exp.and_(gone, missing), drift).when(gone, string("delete"))
        operation = operation.when(missing, string("insert"))
    else:
        operation = operation.when(missing, drift)
    order = (*target.key, *(name for name in target.stored if name not in target.key))
    select = exp.select(
        *(named(values[name], name) for name in order),
        named(operation.else_(string("update")), OPERATION),
    )
    added = _added(grouping, state)
    if grouping.having:
        having = expression(grouping.having)
        having = _from_state(exp.case().when(there, having) if grouping.keys else having, state)
        shown = named(coalesce(having, exp.false()), SHOWN)
        added = exp.select(star(INPUT), shown).from_(added.subquery(INPUT))
    return pretty(select.from_(added.subquery(INPUT)).where(column(_CHANGED, INPUT)))


def _added(grouping: Grouping, state: GroupState) -> exp.Select:
    """Per touched group: its keys, its new state, whether that changed, whether it was there.

    The target is cut down to touched groups first: its rows can't be left out of an outer join.
    """
    names = state.columns
    old = exp.select(*(column(name, "t") for name in (*grouping.key_outputs, *names)))
    old = old.from_(table(TARGET_ROWS, "t"))
    old = joined(old, "semi", table(TOUCHED, "k"), _same_group(grouping, "k"))
    extremes = {c for a in state.aggregates if a.function in ("min", "max") for c in a.columns}
    # State columns that stay only if the change adds nothing to them.
    moved = exp.or_(*(column(name, "s").neq(0) for name in names if name not in extremes))
    select = exp.select(
        *(column(key, "s") for key in grouping.keys),
        *(named(_sum(name, state), name) for name in names),
        named(moved, _CHANGED),
        named(is_null(column(ROWS, "t")), _MISSING),
        *([] if state.is_linear else [column(_LEAST, "s")]),
    ).from_(table(TOUCHED, "s"))
    return joined(select, "left", old.subquery("t"), _same_group(grouping, "s"))


def _same_group(grouping: Grouping, view: str) -> list[exp.Expr]:
    """The target's row `t` is of the group of a row of the change."""
    values = _key_values(grouping, view).items()
    return [same(column(name, "t"), value) for name, value in values]


def _key_values(grouping: Grouping, view: str) -> dict[str, exp.Expr]:
    """The stored key columns, with the values that they are of."""
    keys = zip(grouping.key_outputs, grouping.keys, strict=False)
    return {name: column(key, view) for name, key in keys} or {TOTAL: number(1)}


def change_of(grouping: Grouping, state: GroupState, rows: exp.Query) -> exp.Select:
    """Per group of weighted rows: what they add to its state."""
    keys = [column(key, INPUT) for key in grouping.keys]
    changes = changed_states(state, column(WEIGHT, INPUT))
    select = exp.select(*keys, *(named(value, name) for name, value in changes))
    return select.from_(aliased(rows, INPUT)).group_by(*keys)


def changed_states(state: GroupState, weight: exp.Expr) -> Outputs:
    """What weighted rows add to each state column."""
    found = [(ROWS, coalesce(call("sum", weight), _ZERO)), *_states(state, weight)]
    return found if state.is_linear else [*found, (_LEAST, call("min", weight))]


def _sum(name: str, state: GroupState) -> exp.Expr:
    """State and change of one column together."""
    old, new = column(name, "t"), column(name, "s")
    owner = next((a for a in state.aggregates if name in a.columns), None)
    kind = owner.kinds[name] if owner else "count"
    if kind in ("min", "max"):
        return call("least" if kind == "min" else "greatest", old, new)
    if owner is None or kind == "count" or owner.type == "int":
        return exp.cast(coalesce(old, _ZERO) + new, "bigint")
    zero = _zero(owner)
    stored: exp.Expr = coalesce(old, zero)
    if owner.may_overflow:  # the sum of a group that is there is NULL where the query's overflowed
        stored = exp.case().when(is_null(column(ROWS, "t")), zero).else_(old)
    # One digit less, so that their sum has 38 and Spark takes none off the scale.
    before, added = (decimal(side, _SUM_DIGITS - 1, owner.scale) for side in (stored, new))
    both = decimal(before + added, _SUM_DIGITS, owner.scale)
    return coalesce(both, fail("SUM_OVERFLOW")) if owner.may_overflow else both


def _from_state(node: exp.Expr, state: GroupState) -> exp.Expr:
    """An expression over aggregates as one over the state."""
    by_call = {a.call: a for a in state.aggregates}
    holder = exp.Paren(this=node)
    for found in list(aggregate_calls(holder)):
        found.node.replace(_value(by_call[found.text]))
    made: exp.Expr = holder.this
    return made


def _value(aggregate: Aggregate) -> exp.Expr:
    """The value of an aggregate, with the type that Spark gives it."""
    if aggregate.function == "rows":
        return column(ROWS, INPUT)
    if len(aggregate.columns) == 1:
        return column(aggregate.columns[0], INPUT)
    count, total = (column(name, INPUT) for name in aggregate.columns)
    precision, scale = aggregate.precision, aggregate.scale
    if aggregate.function == "sum" and aggregate.type == "decimal":
        value = decimal(total, min(38, precision + 10), scale)
    elif aggregate.function == "sum":
        value = exp.cast(total, "bigint")
    elif aggregate.type == "int":
        value = exp.cast(total, "double") / exp.cast(count, "double")
    else:
        value = decimal_average(total, count, precision, scale)
    return exp.paren(exp.case().when(count > 0, value))
