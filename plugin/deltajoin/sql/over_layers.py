"""Conditions on the clock over groups, windows or generators -> these below, as a source.

    SELECT k, sum(v) AS s FROM t GROUP BY k HAVING max(day) >= current_date() - 7
    ->  SELECT k, s FROM (SELECT k, sum(v) AS s, max(day) AS c FROM t GROUP BY k)
        WHERE c >= current_date() - 7

The rows below give out all that the condition reads; their other conditions stay with them. Caller:
moves the condition on (`sql.clocked`); stamps are apart already.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from deltajoin.graph import Derived, JoinGraph, Projection, Relation
from deltajoin.layers import INPUT, Output
from deltajoin.names import RESERVED_PREFIX, UniqueNames
from deltajoin.sql.clock import clock_calls
from deltajoin.sql.columns import flattened
from deltajoin.sql.dialect import exchanged, parse_expression, text
from deltajoin.sql.group_keys import is_aggregate
from deltajoin.sql.nodes import bare_call
from deltajoin.sql.predicates import predicate_of

Finish = Callable[[JoinGraph], JoinGraph]


def with_layers_below(graph: JoinGraph, names: UniqueNames, finish: Finish) -> JoinGraph:
    """The graph with the layers that conditions on the clock judge as sources.

    Args:
        names: those of all sources; new ones are taken from it.
        finish: what is done with the graph of such a source.
    """
    put = _Put(names, finish)
    joined = tuple(projection.name for projection in graph.projections)
    if generation := graph.generation:

        def generated(added: tuple[Output, ...], rest: tuple[str, ...]) -> JoinGraph:
            made = replace(generation, outputs=(*generation.outputs, *added), conditions=rest)
            return replace(graph, generation=made, grouping=None, windowing=None)

        above = replace(graph, generation=None)
        read = ("generated", above, graph.row_names, joined)
        graph = put.below(*read, generation.conditions, generated) or graph
    plain = replace(graph, grouping=None, generation=None, windowing=None)
    if grouping := graph.grouping:

        def grouped(added: tuple[Output, ...], rest: tuple[str, ...]) -> JoinGraph:
            outputs = (*grouping.outputs, *((output.name, output.sql) for output in added))
            made = replace(grouping, outputs=outputs, having=" AND ".join(rest) or None)
            return replace(graph, grouping=made)

        having = (grouping.having,) if grouping.having else ()
        return put.below("groups", plain, graph.output_names, (), having, grouped) or graph
    if windowing := graph.windowing:

        def windowed(added: tuple[Output, ...], rest: tuple[str, ...]) -> JoinGraph:
            made = replace(windowing, outputs=(*windowing.outputs, *added), conditions=rest)
            return replace(graph, windowing=made)

        read = ("windows", plain, graph.output_names, graph.row_names)
        return put.below(*read, windowing.conditions, windowed) or graph
    return graph


@dataclass(frozen=True)
class _Put:
    """Puts a layer below, as a source."""

    names: UniqueNames
    finish: Finish

    def below(
        self,
        kind: str,
        above: JoinGraph,
        shown: tuple[str, ...],
        rows: tuple[str, ...],
        conditions: tuple[str, ...],
        layer: Callable[[tuple[Output, ...], tuple[str, ...]], JoinGraph],
    ) -> JoinGraph | None:
        """What stands above, over the layer's rows; None without a condition on the clock.

        Args:
            shown: what is read of the layer, beside the conditions.
            rows: columns of the rows that the layer reads.
            layer: it with more outputs, and with the conditions that stay.
        """
        conjuncts = [c for condition in conditions for c in flattened(parse_expression(condition))]
        clocked = [c for c in conjuncts if any(clock_calls(c))]
        if not clocked:
            return None
        name = self.names.take(kind)
        read = _Read(name, rows)
        judging = tuple(predicate_of(read.over(conjunct)) for conjunct in clocked)
        rest = tuple(text(exp.paren(c)) for c in conjuncts if c not in clocked)
        below = self.finish(replace(layer(read.added, rest), stamps=()))
        columns = (*shown, *(output.name for output in read.added))
        return replace(
            above,
            relations=(Relation(name, name, columns),),
            predicates=judging,
            projections=tuple(
                Projection(column, text(_column(name, column)), ((name, column),), (name, column))
                for column in shown
            ),
            joins=(),
            cores=(),
            derived=(Derived(name, below),),
            copies=(),
        )


class _Read:
    """Rewrites conditions over rows of a layer to such over the relation of its outputs."""

    def __init__(self, relation: str, rows: tuple[str, ...]) -> None:
        self._relation, self._rows = relation, rows
        self._added: dict[str, Output] = {}

    @property
    def added(self) -> tuple[Output, ...]:
        """What the layer must give out for the conditions."""
        return tuple(self._added.values())

    def over(self, node: exp.Expr) -> exp.Expr:
        """The condition over the relation."""
        return exchanged(node, self._read)

    def _read(self, node: exp.Expr) -> exp.Expr | None:
        if not (isinstance(node, exp.Column) or is_aggregate(bare_call(node))):
            return None
        name = f"{RESERVED_PREFIX}judged_{len(self._added)}"
        plain = isinstance(node, exp.Column) and node.table == INPUT
        own = node.name if plain and node.name in self._rows else None
        output = self._added.setdefault(text(node), Output(name, text(node), own))
        return _column(self._relation, output.name)


def _column(relation: str, name: str) -> exp.Column:
    return exp.column(name, table=relation, quoted=True)
