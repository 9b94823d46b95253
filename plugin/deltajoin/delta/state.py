"""How each aggregate of a grouped query is kept, and the hidden state that this takes.

    linear        COUNT; SUM and AVG over integers and decimals: the change is folded to a group's
                  rows, and per argument to its values that are not NULL and their sum; all of it is
                  added to the stored state
    inserts       MIN, MAX over inner joins: the lesser (greater) of state and change, as long as
                  rows only come
    groups        anything else: the groups that the net change touches are computed anew

A query has a state when every aggregate is of the first two sorts; the target then holds all groups
beside their state, those too that HAVING does not show. AVG over integers is a quotient of doubles
in Spark, whose sum is exact up to `int`; over decimals see `emit.average`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from deltajoin.delta.format import fields_of
from deltajoin.delta.identity import Types, joined_columns
from deltajoin.delta.path import SourceVersion
from deltajoin.graph import JoinGraph
from deltajoin.names import RESERVED_PREFIX, ROWS, SHOWN
from deltajoin.sql.aggregates import Call, aggregate_calls
from deltajoin.sql.dialect import parse_expression, text
from deltajoin.sql.kinds import Exact, TypeOf, exact_type

Inexact = frozenset[tuple[str, str]]
LINEAR, INSERTS, GROUPS = "linear", "inserts", "groups"
#: A weighted sum of decimals of more digits may overflow; of these with more behind the point it
#: soon would.
_SURE_DIGITS, _SCALE = 27, 18
_COMPARED = ("tinyint", "smallint", "int", "bigint", "date", "timestamp", "string")


@dataclass(frozen=True)
class Aggregate:
    """One aggregate as a grouping's outputs spell it, and how it is kept.

    `function` is rows, count, sum, avg, min or max of the argument, itself over the grouped rows;
    `number` says which state columns are its own. `type` is that of a summed argument: int (or
    smaller: its sum fits a bigint), bigint or decimal, which has `precision` and `scale`.
    """

    call: str
    kept: str
    function: str = ""
    argument: str = ""
    number: int = 0
    type: str = ""
    precision: int = 0
    scale: int = 0

    @property
    def may_overflow(self) -> bool:
        """True where what is summed has a type of more digits than surely fit a change's sum."""
        return self.type == "decimal" and self.precision > _SURE_DIGITS

    @property
    def kinds(self) -> dict[str, str]:
        """Its state columns, each with what it is: count (of values that are not NULL), sum, min or
        max."""
        kinds = {"": (), "rows": (), "sum": ("count", "sum"), "avg": ("count", "sum")}
        return {
            f"{RESERVED_PREFIX}{kind}_{self.number}": kind
            for kind in kinds.get(self.function, (self.function,))
        }

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of its state columns."""
        return tuple(self.kinds)


@dataclass(frozen=True)
class GroupState:
    """The aggregates of a query that has a state."""

    aggregates: tuple[Aggregate, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the state columns, the group's rows first."""
        return tuple(dict.fromkeys((ROWS, *(c for a in self.aggregates for c in a.columns))))

    @property
    def is_linear(self) -> bool:
        """True when any change can be added to it."""
        return all(a.kept == LINEAR for a in self.aggregates)

    def takes(self, sources: Iterable[SourceVersion]) -> bool:
        """True when the change of these sources can be added."""
        return self.is_linear or all(s.change_kind == "insert_only" for s in sources if s.changed)

    def to_dict(self) -> dict[str, Any]:
        """The state as plain values."""
        return {**fields_of(self), "columns": list(self.columns)}


def group_state(
    graph: JoinGraph, types: Types, inexact: Inexact = frozenset()
) -> GroupState | None:
    """The state of a grouped query; None for another query, and where groups are computed anew."""
    if graph.grouping is None:
        return None
    found = kept_aggregates(graph, types, inexact)
    return None if any(a.kept == GROUPS for a in found) else GroupState(found)


def merged_columns(graph: JoinGraph, state: GroupState | None) -> frozenset[str] | None:
    """Columns of the joined rows that are only aggregated, where all aggregates of a group can be
    made of those of parts of it; None where some can't, or what they are of isn't that plain.

    Beside an outer join, a row without a match must count as one whose values are missing.
    """
    if state is None or graph.has_union or graph.generation or graph.windowing:
        return None
    if any(a.may_overflow for a in state.aggregates):
        return None
    arguments = [parse_expression(a.argument) for a in state.aggregates if a.argument]
    if graph.cores and not all(isinstance(node, exp.Column) for node in arguments):
        return None
    return frozenset(column.name for node in arguments for column in node.find_all(exp.Column))


def hidden_columns(graph: JoinGraph, state: GroupState | None) -> tuple[str, ...]:
    """What the target stores beside the columns that the query gives out."""
    if graph.windowing is not None:
        return tuple(output.name for output in graph.windowing.hidden)
    grouping = graph.grouping
    if grouping is None:
        return ()
    shown = (SHOWN,) if state is not None and grouping.having else ()
    return (*grouping.hidden_keys, *(state.columns if state else ()), *shown)


def kept_aggregates(
    graph: JoinGraph, types: Types, inexact: Inexact = frozenset()
) -> tuple[Aggregate, ...]:
    """Every aggregate of a grouped query once, in the order of its outputs and HAVING.

    Args:
        inexact: columns whose values may come out another way when they are computed again.
    """
    outputs = [p for core in graph.branches for p in graph.outputs(core)]
    below = joined_columns(graph)
    unsure = {
        p.name
        for p in outputs
        if any((graph.by_name[name].source, column) in inexact for name, column in p.refs)
    }
    unsure |= {""} if unsure else set()  # what generators make of them
    grouping = graph.grouping
    if grouping is None:
        return ()
    found: dict[str, Aggregate] = {}
    numbers: dict[str, int] = {}
    for sql in (*(sql for _, sql in grouping.outputs), grouping.having):
        for call in aggregate_calls(parse_expression(sql)) if sql else ():
            if call.text not in found:
                columns = (below.get(c.name, "") for c in call.node.find_all(exp.Column))
                exact = unsure.isdisjoint(columns)
                anew = Aggregate(call.text, GROUPS)
                found[call.text] = _kept(call, graph, types, numbers) if exact else anew
    return tuple(found.values())


def _kept(call: Call, graph: JoinGraph, types: Types, numbers: dict[str, int]) -> Aggregate:
    kept, argument = Aggregate(call.text, GROUPS), call.argument
    if argument is None:
        return kept
    if call.function == "count" and isinstance(argument, exp.Literal):
        return Aggregate(call.text, LINEAR, "rows")

    def type_of(column: exp.Column) -> str:
        """The type of a column of the grouped rows: one that an aggregate reads is plain."""
        name = joined_columns(graph).get(column.name)
        p = next((p for p in graph.projections if p.name == name), None)
        if p is None or p.column is None:
            return ""
        return types.get((graph.by_name[p.column[0]].source, p.column[1]), "")

    how, exact = _sort(call.function, argument, type_of, not graph.cores)
    if how == GROUPS:
        return kept
    number = numbers.setdefault(text(argument), len(numbers))
    found = Aggregate(call.text, how, call.function, text(argument), number)
    if exact is None:
        return found
    if exact.integral:
        return replace(found, type="int" if exact.is_small else "bigint")
    return replace(found, type="decimal", precision=exact.precision, scale=exact.scale)


def _sort(
    function: str, argument: exp.Expr, type_of: TypeOf, inner: bool
) -> tuple[str, Exact | None]:
    """How an aggregate of this argument is kept, and the argument's type where that matters.

    Args:
        inner: every join is inner; else inserts can take rows away from the joined rows.
    """
    if function == "count":
        return LINEAR, None
    if function in ("min", "max"):
        kind = type_of(argument) if isinstance(argument, exp.Column) else ""
        plain = kind in _COMPARED or kind.startswith("decimal")
        return (INSERTS if plain and inner else GROUPS), None
    exact = exact_type(argument, type_of) if function in ("sum", "avg") else None
    if exact is None or (exact.precision > _SURE_DIGITS and exact.scale > _SCALE):
        return GROUPS, None
    # Spark's decimals hold every step of an average of these without loss.
    divides = not exact.integral and exact.precision <= 20 and exact.scale <= 6
    if function == "avg" and not (exact.is_small or divides):
        return GROUPS, None
    return LINEAR, exact
