"""Bound conjuncts and outputs -> JoinGraph.

Every conjunct is classified by the relations it touches; columns that a query uses are collected
per relation. The graph must hang together: a relation that no predicate reaches would multiply
every row, which a user rarely means and a delta never makes cheap, so it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from deltajoin.errors import DeltaJoinError
from deltajoin.graph import ColumnRef, JoinGraph, Predicate, Projection, Relation, refs_of
from deltajoin.names import check_name
from deltajoin.sql.dialect import place, text


def build_graph(
    relations: list[tuple[str, str]],
    conjuncts: list[exp.Expr],
    outputs: list[tuple[str, exp.Expr, exp.Expr]],
    columns: Mapping[str, tuple[str, ...]],
) -> JoinGraph:
    """Assemble and check the join graph.

    Raises:
        DeltaJoinError: UNCONNECTED_RELATIONS, UNNAMED_COLUMN, DUPLICATE_COLUMN, RESERVED_NAME.
    """
    predicates = tuple(dict.fromkeys(_predicate(conjunct) for conjunct in conjuncts))
    projections = tuple(_projection(*output) for output in outputs)
    _check_outputs(projections, outputs)
    refs = [r for p in predicates for r in p.refs] + [r for p in projections for r in p.refs]
    used: dict[str, dict[str, None]] = {name: {} for name, _ in relations}
    for relation, column in refs:
        used[relation][column] = None
    graph = JoinGraph(
        relations=tuple(
            Relation(name, source, _in_schema_order(used[name], columns[source]))
            for name, source in relations
        ),
        predicates=predicates,
        projections=projections,
    )
    _check_connected(graph)
    return graph


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
    check_name(name, f"column {name}")
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
    groups = graph.components()
    if len(groups) > 1:
        shown = " and ".join("{" + ", ".join(group) + "}" for group in groups)
        raise DeltaJoinError(
            "UNCONNECTED_RELATIONS",
            f"no predicate connects {shown}",
            where=shown,
            remedy="Add a join condition between them.",
        )
