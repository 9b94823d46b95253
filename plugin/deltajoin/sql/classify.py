"""A bound block -> JoinGraph.

Every conjunct is classified by the relations it touches; columns that a query uses are collected
per relation; outer joins are simplified and brought to normal form. The graph must hang together:
a relation that no predicate reaches would multiply every row, which a user rarely means and a delta
never makes cheap, so it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from deltajoin.errors import DeltaJoinError
from deltajoin.graph import (
    Block,
    ColumnRef,
    Core,
    Derived,
    Grouping,
    Join,
    JoinGraph,
    Predicate,
    Projection,
    Relation,
    components,
    refs_of,
)
from deltajoin.names import check_name
from deltajoin.sql import scope as bound
from deltajoin.sql.dialect import place, text
from deltajoin.sql.imply import with_implied
from deltajoin.sql.normalise import as_block, normal_forms
from deltajoin.sql.refuse import Unsupported


def build_graph(
    relations: list[tuple[str, str]],
    block: bound.Block,
    columns: Mapping[str, tuple[str, ...]],
    grouping: Grouping | None = None,
    derived: tuple[Derived, ...] = (),
) -> JoinGraph:
    """Assemble and check the join graph.

    Raises:
        DeltaJoinError: UNCONNECTED_RELATIONS, UNNAMED_COLUMN, DUPLICATE_COLUMN, RESERVED_NAME.
    """
    projections = tuple(_projection(*output) for output in block.outputs)
    _check_outputs(projections, block.outputs)
    root = _block(block)
    cores = normal_forms(root)
    if len(cores) == 1:
        root = as_block(cores[0])
    flat = not cores[0].attachments and len(cores) == 1
    refs = [r for p in projections for r in p.refs]
    refs += [r for conjunct in block.all_conjuncts() for r in _refs(conjunct)]
    used: dict[str, dict[str, None]] = {name: {} for name, _ in relations}
    for relation, column in refs:
        used[relation][column] = None
    graph = JoinGraph(
        relations=tuple(
            Relation(name, source, _in_schema_order(used[name], columns[source]))
            for name, source in relations
        ),
        predicates=root.predicates,
        projections=projections,
        joins=tuple(item for item in root.items if not isinstance(item, str)),
        cores=() if flat else cores,
        grouping=grouping,
        derived=derived,
    )
    for name in graph.output_names:
        check_name(name, f"column {name}")
    _check_connected(graph)
    return graph


def _block(block: bound.Block) -> Block:
    items = tuple(
        item
        if isinstance(item, str)
        else Join(item.kind, _block(item.left), _block(item.right), _predicates(item.on))
        for item in block.items
    )
    return Block(items, _predicates(block.conjuncts))


def _predicates(conjuncts: list[exp.Expr]) -> tuple[Predicate, ...]:
    return tuple(dict.fromkeys(_predicate(conjunct) for conjunct in with_implied(conjuncts)))


def _in_schema_order(used: Mapping[str, None], schema: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(column for column in schema if column in used) or schema[:1]


def _refs(node: exp.Expr) -> tuple[ColumnRef, ...]:
    return refs_of((column.table, column.name) for column in node.find_all(exp.Column))


def _predicate(node: exp.Expr) -> Predicate:
    refs = _refs(node)
    touched = {relation for relation, _ in refs}
    if isinstance(node, exp.EQ) and len(touched) == 2:
        left, right = node.this, node.expression
        if isinstance(left, exp.Column) and isinstance(right, exp.Column):
            first, second = sorted(((left.table, left.name), (right.table, right.name)))
            return Predicate(text(node), "edge", refs, first, second)
    kind = ("constant", "filter", "residual")[min(len(touched), 2)]
    return Predicate(text(_wrapped(node)), kind, refs)


def _wrapped(node: exp.Expr) -> exp.Expr:
    return exp.paren(node) if isinstance(node, exp.Or) else node


def _projection(name: str, node: exp.Expr, origin: exp.Expr) -> Projection:
    if not name:
        raise DeltaJoinError(
            "UNNAMED_COLUMN",
            f"an output column has no name: {text(origin)}",
            where=place(origin),
            remedy="Add AS name.",
        )
    column = (node.table, node.name) if isinstance(node, exp.Column) else None
    return Projection(name, text(node), _refs(node), column)


def _check_outputs(
    projections: tuple[Projection, ...],
    outputs: list[tuple[str, exp.Expr, exp.Expr]],
) -> None:
    seen: set[str] = set()
    for projection, (_, _, origin) in zip(projections, outputs, strict=True):
        if projection.name.lower() in seen:
            raise DeltaJoinError(
                "DUPLICATE_COLUMN",
                f"two output columns are named '{projection.name}'",
                where=place(origin),
                remedy="Give one of them another alias.",
            )
        seen.add(projection.name.lower())


def _check_connected(graph: JoinGraph) -> None:
    for core in graph.branches:
        _check_core(core, core.nulls)


def _check_core(core: Core, nulls: tuple[str, ...] = ()) -> None:
    links = [predicate.relations for predicate in core.predicates]
    hanging = [frozenset(a.core.everything) for a in core.attachments]
    for attachment, below in zip(core.attachments, hanging, strict=True):
        links.append(below)
        links += [p.relations for p in attachment.on if p.relations & below]
        links += [below | core.inner] if attachment.kind != "left" else []
        _check_core(attachment.core)
    groups = components((*core.relations, *(n for below in hanging for n in below)), links)
    if len(groups) > 1 and nulls:
        what = f"a join on {', '.join(nulls)} after the full join that leaves it NULL"
        raise Unsupported("OUTER_JOIN", what, None, "Move the join before the full join.")
    if len(groups) > 1:
        shown = " and ".join("{" + ", ".join(group) + "}" for group in groups)
        raise DeltaJoinError(
            "UNCONNECTED_RELATIONS",
            f"no predicate connects {shown}",
            where=shown,
            remedy="Add a join condition between them.",
        )
    if not core.is_connected:
        message = "a join that only an outer join's columns connect"
        raise Unsupported("OUTER_JOIN", message, None, "Join inner relations to each other.")
