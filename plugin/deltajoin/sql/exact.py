"""Which aggregates give the same value however their rows are ordered, and of which type.

Integers and decimals add up exactly; floating-point sums differ in their last digits with the order
of rows, which Spark doesn't fix. Only what is certain counts as exact (`sql.numbers`).
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from deltajoin.graph import Derived, JoinGraph
from deltajoin.sql.dialect import parse_expression
from deltajoin.sql.functions import AGGREGATES, ORDER_DEPENDENT
from deltajoin.sql.numbers import exact_type
from deltajoin.sql.union import TypeOf, kind_of

#: The same value in any order, whatever the type.
_ANY_ORDER = frozenset(
    """
    any approx_count_distinct bit_and bit_or bit_xor bool_and bool_or count count_if every max min
    some
    """.split()
)
_SUMS = frozenset({"sum", "avg", "mean"})

Types = Mapping[str, str]


def depends_on_order(node: exp.Expr, types: Types) -> bool:
    """True unless every aggregate in an expression is the same in any order of rows.

    Args:
        types: column of the grouped rows -> Spark type; "" or anything else that is no type name
            where it is not known.
    """
    calls = [
        part
        for part in node.walk()
        if isinstance(part, exp.Anonymous) and str(part.this).lower() in AGGREGATES
    ]
    return not all(_any_order(call, types) for call in calls)


def _any_order(call: exp.Anonymous, types: Types) -> bool:
    name = str(call.this).lower()
    if name in _ANY_ORDER or name in ORDER_DEPENDENT:  # kept only where the order is fixed
        return True
    if name not in _SUMS or len(call.expressions) != 1:
        return False
    argument = call.expressions[0]
    if isinstance(argument, exp.Distinct):
        (argument,) = argument.expressions
    exact = exact_type(argument, _by_name(types))
    # The average of a bigint adds doubles.
    return exact is not None and (name == "sum" or exact.is_small or not exact.integral)


def made_outputs(
    graph: JoinGraph, types: Mapping[tuple[str, str], str]
) -> dict[str, tuple[str, bool]]:
    """Output -> its type, "" where it is not certain; True where row order may change the value.

    Args:
        types: (source, column) -> type, of tables.
    """
    derived = {below.name: derived_outputs(below, types) for below in graph.derived}
    below, unsure = _given_out(graph, types, derived), _unsure(graph, derived)
    if graph.generation is not None:
        unsure = {o.name for o in graph.generation.outputs if _reads(o.sql, unsure)}
        below = {o.name: _kind(o.sql, _by_name(below)) for o in graph.generation.outputs}
    if graph.grouping is not None:
        made = {name: (_made(sql, below), sql) for name, sql in graph.grouping.outputs}
        return {n: (kind, order or _reads(sql, unsure)) for n, ((kind, order), sql) in made.items()}
    if graph.windowing is None:
        return {name: (below.get(name, ""), name in unsure) for name in graph.output_names}
    unsure |= {
        name
        for name, sql in graph.windowing.windows
        if depends_on_order(parse_expression(sql), below) or _reads(sql, unsure)
    }
    below |= {name: _kind(sql, _by_name(below)) for name, sql in graph.windowing.windows}
    return {
        o.name: (
            below.get(o.column or "", "") or _kind(o.sql, _by_name(below)),
            _reads(o.sql, unsure),
        )
        for o in graph.windowing.outputs
    }


def derived_outputs(
    derived: Derived, types: Mapping[tuple[str, str], str]
) -> dict[str, tuple[str, bool]]:
    """The same of a derived source."""
    if derived.text:
        return {name: (kind, False) for name, kind in derived.types}
    return made_outputs(derived.graph, types)


def _given_out(
    graph: JoinGraph,
    types: Mapping[tuple[str, str], str],
    derived: Mapping[str, Mapping[str, tuple[str, bool]]],
) -> dict[str, str]:
    """The types of what the joined rows give out."""

    def type_of(column: exp.Column) -> str:
        source = graph.by_name[column.table].source
        known = derived[source][column.name][0] if source in derived else None
        return types.get((source, column.name), "") if known is None else known

    found = {}
    for projection in graph.projections:
        if projection.column is not None or not graph.has_union:
            found[projection.name] = _kind(projection.sql, type_of)
    return found


def _kind(sql: str, type_of: TypeOf) -> str:
    kind = kind_of(parse_expression(sql), type_of)
    return kind if kind != "null" else ""


def _by_name(below: Types) -> TypeOf:
    return lambda column: below.get(column.name, "")


def _unsure(graph: JoinGraph, derived: Mapping[str, Mapping[str, tuple[str, bool]]]) -> set[str]:
    """What the joined rows give out of values that row order may change."""
    source = {relation.name: relation.source for relation in graph.occurrences}
    return {
        projection.name
        for core in graph.branches
        for projection in graph.outputs(core)
        if any(derived.get(source[name], {}).get(c, ("", False))[1] for name, c in projection.refs)
    }


def _reads(sql: str, columns: set[str]) -> bool:
    return bool(columns) and any(
        column.name in columns for column in parse_expression(sql).find_all(exp.Column)
    )


def _made(sql: str, below: Types) -> tuple[str, bool]:
    return _kind(sql, _by_name(below)), depends_on_order(parse_expression(sql), below)
