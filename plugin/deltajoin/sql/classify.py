"""A bound block -> JoinGraph.

Every conjunct is classified by the relations it touches; used columns are collected per relation;
outer joins are brought to normal form. Relations that no predicate connects are linked by one that
is always true, so that every core hangs together.

Once the normal forms are made, each branch gives out its own expressions: those over a union's
columns with what they stand for in it. A union that is missing from a branch is NULL, of the
union's type: an untyped one could make another type of what is computed from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from sqlglot import exp

from deltajoin.graph import (
    Block,
    ColumnRef,
    Core,
    Derived,
    Join,
    JoinGraph,
    Predicate,
    Projection,
    Relation,
)
from deltajoin.names import check_name
from deltajoin.sql import scope as bound
from deltajoin.sql.dialect import parse_expression, text
from deltajoin.sql.group import check_names
from deltajoin.sql.imply import with_implied
from deltajoin.sql.kinds import TypeOf, typed
from deltajoin.sql.normalise import as_block, linked, normal_forms, simplify
from deltajoin.sql.occurrences import told_apart
from deltajoin.sql.predicates import filled, predicate_of, projection_of, refs_in
from deltajoin.sql.refuse import Unsupported
from deltajoin.sql.union import REMEDY


def build_graph(
    relations: list[tuple[str, str]],
    layered: bound.Layered,
    columns: Mapping[str, tuple[str, ...]],
    derived: tuple[Derived, ...],
    type_of: TypeOf | None = None,
) -> JoinGraph:
    """Assemble and check the join graph.

    Args:
        relations: (relation, source), all below.
        columns: source -> its columns; of derived ones too.
        type_of: of a bound column, where types are known.

    Raises:
        DeltaJoinError: UNNAMED_COLUMN, DUPLICATE_COLUMN, RESERVED_NAME.
    """
    block = layered.block
    check_names(block.outputs)
    projections = tuple(projection_of(name, node) for name, node, _ in block.outputs)
    root = _block(block)
    cores, copies = told_apart(normal_forms(root, type_of), tuple(name for name, _ in relations))
    cores = tuple(linked(simplify(core)) for core in cores)
    unions = [i for part in block.parts for i in part.items if isinstance(i, bound.Union)]
    kinds = {(union.name, o.name): o.kind for union in unions for o in union.outputs}
    if kinds:
        cores = tuple(_with_outputs(core, projections, kinds) for core in cores)
    one = len(cores) == 1 and not (kinds or copies or cores[0].nulls)
    if one:
        root = as_block(cores[0])
    flat = one and not cores[0].attachments
    if kinds:
        read = [r for core in cores for p in core.all_predicates() for r in p.refs]
        read += [r for core in cores for p in core.projections for r in p.refs]
        refs = [(copies.get(relation, relation), name) for relation, name in read]
    else:
        refs = [r for p in projections for r in p.refs]
        refs += [r for conjunct in block.all_conjuncts() for r in refs_in(conjunct)]
    used = frozenset(refs)
    own = {name: _relation(name, source, columns[source], used) for name, source in relations}
    shown = _without_unions(root)
    graph = JoinGraph(
        relations=tuple(own.values()),
        predicates=shown.predicates,
        projections=cores[0].projections or projections,
        joins=tuple(item for item in shown.items if not isinstance(item, str)),
        cores=() if flat else cores,
        grouping=layered.grouping,
        derived=derived,
        generation=layered.generation,
        windowing=layered.windowing,
        copies=tuple(replace(own[old], name=new) for new, old in copies.items()),
    )
    for name in graph.output_names:
        check_name(name, f"column {name}")
    return graph


def _block(block: bound.Block) -> Block:
    return Block(tuple(map(_item, block.items)), _predicates(block.conjuncts))


def _item(item: str | bound.Outer | bound.Union) -> str | Join:
    if isinstance(item, str):
        return item
    left, right = _block(item.left), _block(item.right)
    if isinstance(item, bound.Outer):
        return Join(item.kind, left, right, _predicates(item.on))
    outputs = tuple((o.name, text(o.left), text(o.right)) for o in item.outputs)
    return Join("union", left, right, (), item.name, outputs)


def _predicates(conjuncts: list[exp.Expr]) -> tuple[Predicate, ...]:
    return tuple(dict.fromkeys(predicate_of(conjunct) for conjunct in with_implied(conjuncts)))


def _relation(
    name: str, source: str, schema: tuple[str, ...], used: frozenset[ColumnRef]
) -> Relation:
    """A relation with its used columns in the order of the schema; one at least."""
    columns = tuple(column for column in schema if (name, column) in used)
    return Relation(name, source, columns or schema[:1])


def _with_outputs(
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
        raise Unsupported("SET_OPERATION", what, None, REMEDY)
    node = filled(text(node), {ref: _nothing(kinds[ref]) for ref in missing})
    return projection_of(projection.name, node)


def _nothing(kind: str) -> exp.Expr:
    return exp.Null() if kind == "null" else typed(exp.Null(), kind)


def _without_unions(block: Block) -> Block:
    """The block for those who ask what is joined: without what only a union's columns say."""
    names = frozenset(_unions(block))
    return block.only(lambda predicate: not predicate.relations & names) if names else block


def _unions(block: Block) -> Iterator[str]:
    for item in block.items:
        if isinstance(item, Join):
            yield from (*_unions(item.left), *_unions(item.right))
            yield from (item.name,) if item.name else ()
