"""Which outputs are the same however their rows are ordered, and of which type they are.

Integers and decimals add up exactly; floating-point sums differ in their last digits with the order
of rows, which Spark doesn't fix. Only what is certain counts as exact (`sql.kinds`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from deltajoin.graph import Derived, JoinGraph
from deltajoin.sql.dialect import parse_expression
from deltajoin.sql.functions import AGGREGATES, ORDER_DEPENDENT
from deltajoin.sql.kinds import TypeOf, exact_type, kind_of
from deltajoin.sql.nodes import function_name

#: The same value in any order, whatever the type; of the order-dependent ones only what an order
#: fixes is kept.
_ANY_ORDER = ORDER_DEPENDENT | frozenset(
    """
    any approx_count_distinct bit_and bit_or bit_xor bool_and bool_or count count_if every max min
    some
    """.split()
)
_SUMS = frozenset({"sum", "avg", "mean"})

#: (source, column) -> type, of tables.
Types = Mapping[tuple[str, str], str]
#: Column -> its type, "" where it is not certain; True where row order may change the value.
Outputs = Mapping[str, tuple[str, bool]]
_UNKNOWN = ("", False)


def made_outputs(graph: JoinGraph, types: Types) -> Outputs:
    """What a query gives out."""
    found = _joined(graph, types)
    if made := graph.generation:
        found = _computed(((o.name, o.sql) for o in made.outputs), found)
    if graph.grouping is not None:
        return _computed(graph.grouping.outputs, found)
    if windowing := graph.windowing:
        found = {**found, **_computed(windowing.windows, found)}
        return _computed(((o.name, o.sql) for o in windowing.outputs), found)
    return found


def derived_outputs(derived: Derived, types: Types) -> Outputs:
    """What a derived source gives out."""
    if derived.text:
        return {name: (kind, False) for name, kind in derived.types}
    return made_outputs(derived.graph, types)


def _joined(graph: JoinGraph, types: Types) -> Outputs:
    """What the joined rows give out; without a type where branches give out several."""
    derived = {below.name: derived_outputs(below, types) for below in graph.derived}

    def of(relation: str, column: str) -> tuple[str, bool]:
        source = graph.by_name[relation].source
        if source in derived:
            return derived[source][column]
        return types.get((source, column), ""), False

    kinds: dict[str, set[str]] = {}
    unsure = set()
    given = (projection for core in graph.branches for projection in graph.outputs(core))
    for projection in dict.fromkeys(given):
        node = parse_expression(projection.sql)
        kind = kind_of(node, lambda column: of(column.table, column.name)[0])
        kinds.setdefault(projection.name, set()).add(kind)
        if any(of(*ref)[1] for ref in projection.refs):
            unsure.add(projection.name)
    found = {name: some - {"null"} for name, some in kinds.items()}
    return {
        name: (some.pop() if len(some) == 1 else "", name in unsure) for name, some in found.items()
    }


def _computed(outputs: Iterable[tuple[str, str]], below: Outputs) -> Outputs:
    """What is computed of the columns below."""

    def kind_below(column: exp.Column) -> str:
        return below.get(column.name, _UNKNOWN)[0]

    found = {}
    for name, sql in outputs:
        node = parse_expression(sql)
        unsure = any(below.get(c.name, _UNKNOWN)[1] for c in node.find_all(exp.Column))
        found[name] = (_kind(node, kind_below), unsure or _depends_on_order(node, kind_below))
    return found


def _kind(node: exp.Expr, type_of: TypeOf) -> str:
    return kind_of(node, type_of).replace("null", "")


def _depends_on_order(node: exp.Expr, type_of: TypeOf) -> bool:
    """True unless every aggregate in an expression is the same in any order of rows."""
    calls = (part for part in node.walk() if function_name(part) in AGGREGATES)
    return not all(_any_order(call, type_of) for call in calls)


def _any_order(call: exp.Expr, type_of: TypeOf) -> bool:
    name = function_name(call)
    if name not in _SUMS or len(call.expressions) != 1:
        return name in _ANY_ORDER
    argument = call.expressions[0]
    if isinstance(argument, exp.Distinct):
        (argument,) = argument.expressions
    exact = exact_type(argument, type_of)
    # The average of a bigint adds doubles.
    return exact is not None and (name == "sum" or exact.is_small or not exact.integral)
