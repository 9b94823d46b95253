"""Conditions on the clock over what a query makes -> that below, as a source.

    FROM a JOIN b ON a.k = b.k WHERE a.day >= current_date() - b.days
    ->  FROM (SELECT a.day, b.days, ... FROM a JOIN b ON a.k = b.k) j
        WHERE j.day >= current_date() - j.days

    SELECT k, sum(v) AS s FROM t GROUP BY k HAVING max(day) >= current_date() - 7
    ->  SELECT k, s FROM (SELECT k, sum(v) AS s, max(day) AS c FROM t GROUP BY k)
        WHERE c >= current_date() - 7

Joined rows, those at the root, in an arm of a union, on a side of an outer join, while they are
blocks (`sql.binder`); groups, windows and generated rows as graphs whose stamps are apart
(`sql.clocked`). What filters one relation before all joins stays where it is: `sql.clocked` takes
it; so does a condition of an outer join, which judges no rows of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from sqlglot import exp

from deltajoin.graph import Derived, Grouping, JoinGraph, Relation
from deltajoin.layers import INPUT, Generation, Output, Windowing
from deltajoin.names import RESERVED_PREFIX, UniqueNames
from deltajoin.sql import nodes
from deltajoin.sql.below import Below
from deltajoin.sql.clock import reads_clock
from deltajoin.sql.columns import flattened
from deltajoin.sql.dialect import exchanged, parse_expression, text, with_columns
from deltajoin.sql.group_keys import is_aggregate
from deltajoin.sql.predicates import predicate_of, projection_of, relations_in
from deltajoin.sql.scope import Block, Outer, Union

_Layer = Generation | Grouping | Windowing


def with_layers_below(
    graph: JoinGraph, names: UniqueNames, finish: Callable[[JoinGraph], JoinGraph]
) -> JoinGraph:
    """The graph with the layers that conditions on the clock judge as sources.

    Args:
        names: those of all sources; new ones are taken from it.
        finish: what is done with the graph of such a source.
    """

    def below(
        kind: str, layer: _Layer, above: JoinGraph, shown: tuple[str, ...], rows: tuple[str, ...]
    ) -> JoinGraph | None:
        """What stands above, over the rows of a layer, which reads `rows` and of which `shown` is
        read beside the conditions; None without a condition on the clock."""
        conjuncts = [c for sql in layer.conditions for c in flattened(parse_expression(sql))]
        clocked = [conjunct for conjunct in conjuncts if reads_clock(conjunct)]
        if not clocked:
            return None
        name = names.take(kind)
        read = Below(name, f"{RESERVED_PREFIX}judged_")

        def over(part: exp.Expr) -> exp.Expr | None:
            judged = isinstance(part, exp.Column) or is_aggregate(nodes.bare_call(part))
            return read.read(part) if judged else None

        judging = tuple(predicate_of(exchanged(conjunct, over)) for conjunct in clocked)
        added = [_output(column, node, rows) for column, node in read.values]
        rest = tuple(text(exp.paren(c)) for c in conjuncts if c not in clocked)
        source = replace(_with(graph, layer, added, rest), stamps=())
        return replace(
            above,
            relations=(Relation(name, name, (*shown, *(output.name for output in added))),),
            predicates=judging,
            projections=tuple(projection_of(c, nodes.column(c, name)) for c in shown),
            joins=(),
            cores=(),
            derived=(Derived(name, finish(source)),),
            copies=(),
        )

    if layer := graph.generation:
        above, joined = replace(graph, generation=None), tuple(p.name for p in graph.projections)
        graph = below("generated", layer, above, graph.row_names, joined) or graph
    plain = replace(graph, grouping=None, generation=None, windowing=None)
    if graph.grouping is not None:
        made = below("groups", graph.grouping, plain, graph.output_names, ())
    elif graph.windowing is not None:
        made = below("windows", graph.windowing, plain, graph.output_names, graph.row_names)
    else:
        return graph
    return made or graph


def _output(name: str, node: exp.Expr, rows: tuple[str, ...]) -> Output:
    plain = isinstance(node, exp.Column) and node.table == INPUT and node.name in rows
    return Output(name, text(node), node.name if plain else None)


def _with(
    graph: JoinGraph, layer: _Layer, added: list[Output], conditions: tuple[str, ...]
) -> JoinGraph:
    """The graph up to a layer, with more outputs of it and other conditions."""
    if isinstance(layer, Grouping):
        outputs = (*layer.outputs, *((output.name, output.sql) for output in added))
        having = " AND ".join(conditions) or None
        return replace(graph, grouping=replace(layer, outputs=outputs, having=having))
    made = replace(layer, outputs=(*layer.outputs, *added), conditions=conditions)
    if isinstance(made, Windowing):
        return replace(graph, windowing=made)
    return replace(graph, generation=made, grouping=None, windowing=None)


def judged_by_clock(block: Block) -> Iterator[Block]:
    """The blocks whose joined rows conditions on the clock judge, innermost first."""
    for part in block.parts:  # each once what was judged below it is a source
        if any(_judges(conjunct, part) for conjunct in part.conjuncts):
            yield part


def joined_rows(block: Block, root: Block, relation: str) -> Block:
    """The joins of a block as a block of their own; what reads them reads `relation` instead.

    Args:
        root: the whole, in which the block keeps its conditions on the clock.
    """
    below = Block(block.items, [c for c in block.conjuncts if not _judges(c, block)])
    block.items, block.conjuncts = [], [c for c in block.conjuncts if _judges(c, block)]
    names, inside = UniqueNames(), below.relations
    read: dict[tuple[str, str], exp.Column] = {}

    def given_out(column: exp.Column) -> exp.Expr | None:
        if column.table not in inside:
            return None
        if (column.table, column.name) not in read:
            below.outputs.append((names.take(column.name), column.copy(), column))
            read[column.table, column.name] = nodes.column(below.outputs[-1][0], relation)
        return read[column.table, column.name].copy()

    def moved(node: exp.Expr) -> exp.Expr:
        return with_columns(node, given_out)

    _change(root, moved)
    root.outputs = [(name, moved(node), origin) for name, node, origin in root.outputs]
    if not below.outputs:
        below.outputs = [("one", nodes.number(1), nodes.number(1))]
    return below


def _change(block: Block, moved: Callable[[exp.Expr], exp.Expr]) -> None:
    """Exchange every expression of a block and of those below."""
    block.conjuncts = [moved(conjunct) for conjunct in block.conjuncts]
    for item in block.items:
        if isinstance(item, Outer):
            item.on = [moved(conjunct) for conjunct in item.on]
        if isinstance(item, Union):
            item.outputs = [
                replace(output, left=moved(output.left), right=moved(output.right))
                for output in item.outputs
            ]
        if not isinstance(item, str):
            _change(item.left, moved)
            _change(item.right, moved)


def _judges(conjunct: exp.Expr, block: Block) -> bool:
    """True for a condition on the clock that can't filter one relation before all joins."""
    if not reads_clock(conjunct):
        return False
    touched = relations_in(conjunct)
    alone = _first(block)
    return not (touched <= alone if len(touched) == 1 else not touched and alone)


def _first(block: Block) -> frozenset[str]:
    """The relations of a block that no outer join may miss."""
    found = {item for item in block.items if isinstance(item, str)}
    for item in block.items:
        if isinstance(item, Outer) and item.kind != "full":
            found |= _first(item.left)
    return frozenset(found)
