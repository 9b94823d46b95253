"""Values that GROUP BY calls equal and that are not the same: -0.0 and 0.0.

Wherever rows are netted or compared, columns that may hold such values are told apart by their text
besides: floating-point columns of sources, also inside structs and arrays, and what is computed of
them or makes them (a quotient, a cast). Of group keys Spark gives out 0.0 for both.

The least and the greatest of values that tie is any of them, as Spark happens to read the rows;
below a target without key, which finds its rows by all their columns, it is decided by their text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from sqlglot import exp

from deltajoin.delta.identity import Types
from deltajoin.graph import JoinGraph
from deltajoin.layers import Output
from deltajoin.sql import functions
from deltajoin.sql.dialect import exchanged, parse_expression, text

_FLOATS = ("double", "float")
#: Calls that may make -0.0 of values of other types, or values of a type that their text names.
_MAKERS = frozenset(
    """
    atan2 cbrt degrees double expm1 float from_avro from_csv from_json from_protobuf from_xml ln log
    log10 log1p log2 months_between pow power radians rint sign signum sin sinh asin asinh tan tanh
    atan atanh cot try_divide try_variant_get variant_get xpath_double xpath_float xpath_number
    """.split()
)
_PLAIN = frozenset("approx_count_distinct ceil ceiling count count_if floor".split())
_KNOWN = functions.SCALARS | functions.AGGREGATES | functions.WINDOW_ONLY | functions.GENERATORS
_KNOWN |= functions.CLOCK | functions.RUN
_EXTREMES = frozenset({"max", "min"})

#: True for a column that may hold -0.0.
Holds = Callable[[exp.Column], bool]


def holds_floats(kind: str) -> bool:
    """True for a type whose values may hold -0.0."""
    return any(name in kind for name in _FLOATS)


def joined_apart(graph: JoinGraph, types: Types) -> tuple[str, ...]:
    """Columns of the joined rows that are told apart by their text.

    Args:
        types: (source, column) -> type.
    """

    def holds(column: exp.Column) -> bool:
        return holds_floats(types.get((graph.by_name[column.table].source, column.name), ""))

    every = (p for core in graph.branches for p in graph.outputs(core))
    found = {p.name for p in every if _may_hold(parse_expression(p.sql), holds)}
    return tuple(p.name for p in graph.projections if p.name in found)


def told_apart(graph: JoinGraph, types: Types) -> tuple[str, ...]:
    """Columns of what the query gives out and the target stores, told apart by their text."""
    below = rows_apart(graph, types)
    grouping, windowing = graph.grouping, graph.windowing
    if grouping is not None:
        return _names(grouping.outputs, below, besides=grouping.key_outputs)
    if windowing is None:
        return below
    windows = _names(windowing.windows, below)
    return _names(_texts(*windowing.outputs, *windowing.hidden), {*below, *windows})


def with_one_extreme(graph: JoinGraph, types: Types) -> JoinGraph:
    """The graph whose least and greatest values are one and the same in any order of rows: of those
    that are equal, the one whose text is."""
    below = frozenset(rows_apart(graph, types))
    derived = tuple(replace(d, graph=with_one_extreme(d.graph, types)) for d in graph.derived)
    grouping, windowing = graph.grouping, graph.windowing
    if grouping is not None:
        outputs = tuple((name, _by_text(sql, below)) for name, sql in grouping.outputs)
        grouping = replace(grouping, outputs=outputs)
    if windowing is not None:
        windows = tuple((name, _by_text(sql, below)) for name, sql in windowing.windows)
        windowing = replace(windowing, windows=windows)
    return replace(graph, derived=derived, grouping=grouping, windowing=windowing)


def _by_text(sql: str, below: frozenset[str]) -> str:
    def settled(node: exp.Expr) -> exp.Expr | None:
        if not _is_extreme(node, below):
            return None
        (value,) = (text(argument) for argument in node.expressions)
        order = f"named_struct('value', {value}, 'text', CAST({value} AS STRING))"
        by = f"{str(node.this).lower()}_by"
        return parse_expression(f"{by}({value}, CASE WHEN {value} IS NOT NULL THEN {order} END)")

    return text(exchanged(parse_expression(sql), settled))


def _is_extreme(node: exp.Expr, below: frozenset[str]) -> bool:
    return (
        isinstance(node, exp.Anonymous)
        and str(node.this).lower() in _EXTREMES
        and any(_may_hold(value, lambda c: c.name in below) for value in node.expressions)
    )


def rows_apart(graph: JoinGraph, types: Types) -> tuple[str, ...]:
    """The same of the rows that groups and windows read."""
    joined = joined_apart(graph, types)
    if graph.generation is None:
        return joined
    below = set(joined)
    for generator in graph.generation.generators:
        below.update(generator.columns if _names([("", generator.call)], below) else ())
    return _names(_texts(*graph.generation.outputs), below)


def _names(
    made: Iterable[tuple[str, str]], below: Iterable[str], besides: tuple[str, ...] = ()
) -> tuple[str, ...]:
    holding = frozenset(below)
    return tuple(
        name
        for name, sql in made
        if name not in besides
        and _may_hold(parse_expression(sql), lambda column: column.name in holding)
    )


def _texts(*outputs: Output) -> list[tuple[str, str]]:
    return [(output.name, output.sql) for output in outputs]


def _may_hold(node: exp.Expr, holds: Holds) -> bool:
    """True unless the value is certain to hold no -0.0."""
    if isinstance(node, exp.Column):
        return holds(node)
    if isinstance(node, exp.Cast):
        return holds_floats(node.to.sql("spark").lower())
    if isinstance(node, (exp.Predicate, exp.Connector, exp.Not)):
        return False
    if isinstance(node, exp.Literal):
        return not node.is_string and "e" in str(node.this).lower()
    if isinstance(node, exp.Anonymous):
        name = str(node.this).lower()
        if name in _MAKERS or name not in _KNOWN:
            return True
        if name in _PLAIN:
            return False
    if isinstance(node, exp.Window):
        return _may_hold(node.this, holds)
    return isinstance(node, exp.Div) or any(_may_hold(p, holds) for p in node.iter_expressions())
