"""Columns that are NULL in a branch and whose type isn't certain, as that of avg() over decimals.

The emitter writes NULLs of the type of the column. Without one, what is computed of it may come out
as of another type: concat(coalesce(g.s, b.i), ' EUR') is '5.00 EUR', or '5 EUR'. The column itself
may be given out, and a choice at the root of an output: rows of other branches give it the type.
What conditions read is judged where branches are made (`sql.predicates`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from deltajoin.delta.identity import Types
from deltajoin.delta.path import UNKNOWN
from deltajoin.errors import Refusal
from deltajoin.graph import JoinGraph
from deltajoin.sql.dialect import parse_expression, text
from deltajoin.sql.nodes import function_name
from deltajoin.sql.predicates import filled
from deltajoin.sql.refuse import Unsupported

_CHOICES = frozenset({"coalesce", "ifnull", "nvl"})


def missing_of_unknown_type(graph: JoinGraph, types: Types) -> Refusal | None:
    """What stands against keeping outer joins: a value computed of such a column."""

    def type_of(column: exp.Column) -> str:
        kind = types.get((graph.by_name[column.table].source, column.name), "")
        return "" if kind.startswith(UNKNOWN) else kind or "null"

    for core in graph.branches:
        for projection in graph.outputs(core) if core.nulls else ():
            try:
                for value in _computed(parse_expression(projection.sql), graph):
                    filled(text(value), {}, frozenset(core.nulls), type_of)
            except Unsupported as stop:
                message = f"{stop.refusal.message} is not kept incrementally"
                return replace(stop.refusal, message=message)
    return None


def _computed(node: exp.Expr, graph: JoinGraph) -> Iterator[exp.Expr]:
    """What of an output has a type of its own."""
    node = node.unnest()
    if isinstance(node, exp.Column) and not graph.generation:
        return
    if function_name(node) in _CHOICES and not graph.layers:
        yield from (e for e in node.expressions if not isinstance(e.unnest(), exp.Column))
    else:
        yield node
