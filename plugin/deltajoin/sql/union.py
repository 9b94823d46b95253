"""The columns of a union: what each stands for on either side, of one type; and in each branch.

Spark gives a column of a union the wider of its two types. Here both sides must come out as one
type without doubt: known and equal, numbers of which one is wider, a NULL beside anything, or the
same expression over columns of the same types. Else the union is not kept; a CAST settles it.

Once the normal forms are made, each branch gives out its own expressions: those over a union's
columns with what they stand for in it. A union that is missing from a branch is NULL, of the
union's type: an untyped one could make another type of what is computed from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from deltajoin.graph import Block, ColumnRef, Core, Join, Projection
from deltajoin.sql.dialect import parse_expression, text, with_columns
from deltajoin.sql.kinds import TypeOf, common_kind, kind_of, typed
from deltajoin.sql.predicates import filled, projection_of, refs_in
from deltajoin.sql.refuse import Unsupported

_REMEDY = "CAST the column to one type in each SELECT of the union."


@dataclass(frozen=True)
class Output:
    """One column of a union; `kind` is its type, empty where it is not known, only alike."""

    name: str
    left: exp.Expr
    right: exp.Expr
    kind: str


def is_distinct_set(query: exp.Query) -> bool:
    """True for UNION, INTERSECT and EXCEPT without ALL: rows that are grouped by all columns."""
    return isinstance(query, exp.SetOperation) and bool(query.args.get("distinct"))


def matched(
    name: str, left: exp.Expr, right: exp.Expr, type_of: TypeOf, origin: exp.Expr
) -> Output:
    """A column of a union from the expressions of both sides.

    Args:
        origin: the column as it is written on the left.

    Raises:
        Unsupported: SET_OPERATION when it isn't certain that both have one type.
    """
    one, other = kind_of(left, type_of), kind_of(right, type_of)
    if kind := common_kind(one, other):
        return Output(name, typed(left, kind, one), typed(right, kind, other), kind)
    if not one and not other and _shape(left, type_of) == _shape(right, type_of):
        return Output(name, left, right, "")
    shown = " and ".join(kind or "unknown" for kind in (one, other))
    message = f"a union whose column {text(origin)} has the types {shown}"
    raise Unsupported("SET_OPERATION", message, origin, _REMEDY)


def _shape(node: exp.Expr, type_of: TypeOf) -> str:
    """The expression with types for columns; one without them is like no other."""

    def typed(column: exp.Column) -> exp.Expr:
        return exp.column(type_of(column) or f"{column.table}.{column.name}", quoted=True)

    return text(with_columns(node, typed))


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
        what = "a union's column of unknown type on the missing side of an outer join"
        raise Unsupported("SET_OPERATION", what, None, _REMEDY)
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
