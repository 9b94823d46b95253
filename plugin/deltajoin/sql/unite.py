"""The branches of a query with unions, once its normal forms are made.

Each branch gives out its own expressions: those over a union's columns with what they stand for in
it. A union that is missing from a branch is NULL, of the union's type: an untyped one could make
another type of what is computed from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from sqlglot import exp

from deltajoin.graph import Block, ColumnRef, Core, Join, Projection
from deltajoin.sql.dialect import parse_expression, text
from deltajoin.sql.kinds import typed
from deltajoin.sql.predicates import filled, projection_of, refs_in
from deltajoin.sql.refuse import Unsupported


def with_outputs(
    core: Core, projections: tuple[Projection, ...], kinds: Mapping[ColumnRef, str]
) -> Core:
    """The core with its own output columns, and nothing of unions any more.

    Args:
        kinds: the types of the unions' columns, empty where they aren't known.

    Raises:
        Unsupported: SET_OPERATION for a missing column of unknown type.
    """
    values = {ref: parse_expression(sql) for ref, sql in core.given}
    unions = {name for name, _ in kinds}
    nulls = tuple(name for name in core.nulls if name not in unions)
    made = tuple(_projection(p, values, kinds) for p in projections)
    return replace(core, projections=made, nulls=nulls, given=())


def _projection(
    projection: Projection, values: Mapping[ColumnRef, exp.Expr], kinds: Mapping[ColumnRef, str]
) -> Projection:
    node = filled(projection.sql, values)
    missing = [ref for ref in refs_in(node) if ref in kinds]
    if any(not kinds[ref] for ref in missing):
        raise Unsupported(
            "SET_OPERATION",
            "a union's column of unknown type on the missing side of an outer join",
            None,
            "CAST the column to one type in each SELECT of the union.",
        )
    node = filled(text(node), {ref: _nothing(kinds[ref]) for ref in missing})
    return projection_of(projection.name, node)


def _nothing(kind: str) -> exp.Expr:
    return exp.Null() if kind == "null" else typed(exp.Null(), kind)


def without_unions(block: Block) -> Block:
    """The block for those who ask what is joined: without what only a union's columns say."""
    names = frozenset(_unions(block))
    return block.only(lambda predicate: not predicate.relations & names) if names else block


def _unions(block: Block) -> Iterator[str]:
    for item in block.items:
        if isinstance(item, Join):
            yield from (*_unions(item.left), *_unions(item.right))
            yield from (item.name,) if item.name else ()
