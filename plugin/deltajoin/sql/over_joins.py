"""Conditions on the clock over joined rows -> the joins below, as a source.

    FROM a JOIN b ON a.k = b.k WHERE a.day >= current_date() - b.days
    ->  FROM (SELECT a.day, b.days, ... FROM a JOIN b ON a.k = b.k) j
        WHERE j.day >= current_date() - j.days

So of WHERE and inner joins, at the root, in an arm of a union, on a side of an outer join. What
filters one relation before all joins stays: `sql.clocked` takes it. A condition of an outer join
judges no rows of its own; it stays too. Caller: `sql.bind`, before there is a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from sqlglot import exp

from deltajoin.names import UniqueNames
from deltajoin.sql.clock import clock_calls
from deltajoin.sql.dialect import with_columns
from deltajoin.sql.predicates import relations_in
from deltajoin.sql.scope import Block, Outer, Union


def judged_by_clock(block: Block) -> Iterator[Block]:
    """The blocks whose joined rows conditions on the clock judge, innermost first."""
    for item in block.items:
        if not isinstance(item, str):
            yield from judged_by_clock(item.left)
            yield from judged_by_clock(item.right)
    if any(_judges(conjunct, block) for conjunct in block.conjuncts):
        yield block


def joined_rows(block: Block, root: Block, relation: str) -> Block:
    """The joins of a block as a block of their own; what reads them reads `relation` instead.

    Args:
        root: the whole, in which the block keeps its conditions on the clock.
    """
    below = Block(block.items, [c for c in block.conjuncts if not _judges(c, block)])
    block.items, block.conjuncts = [], [c for c in block.conjuncts if _judges(c, block)]
    names, inside = UniqueNames(), frozenset(below.relations)
    read: dict[tuple[str, str], exp.Column] = {}

    def given_out(column: exp.Column) -> exp.Expr | None:
        if column.table not in inside:
            return None
        if (column.table, column.name) not in read:
            below.outputs.append((names.take(column.name), column.copy(), column))
            shown = exp.column(below.outputs[-1][0], table=relation, quoted=True)
            read[column.table, column.name] = shown
        return read[column.table, column.name].copy()

    def moved(node: exp.Expr) -> exp.Expr:
        return with_columns(node, given_out)

    _change(root, moved)
    root.outputs = [(name, moved(node), origin) for name, node, origin in root.outputs]
    if not below.outputs:
        one = exp.Literal.number(1)
        below.outputs = [("one", one, one)]
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
    if next(clock_calls(conjunct), None) is None:
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
