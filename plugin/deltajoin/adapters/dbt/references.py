"""Foreign keys and figures of a model's relations: dbt's `relationships` tests, and the config.

A `relationships` test of a column is a foreign key under the conditions that make a `unique` test a
key (`keys.py`); what the config declares goes before. Names become those of the compiled SQL, as
`Model.references` and `Model.hints` need them. They change estimates, never rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deltajoin.adapters.dbt.keys import PLAIN, Node, find_table, fold, nodes_by_table, proves
from deltajoin.errors import DeltaJoinError


def references_of(
    declared: Sequence[tuple[str, str]],
    tables: Sequence[str],
    graph: Mapping[str, Any],
    where: str,
) -> dict[str, str]:
    """`table.column` -> the `table.column` that it points to, for tables of the compiled SQL.

    Example:
        >>> test = {"resource_type": "test", "attached_node": "source.p.raw.o"}
        >>> test["depends_on"] = {"nodes": ["model.p.c", "source.p.raw.o"]}
        >>> arguments = {"column_name": "cust", "to": "ref('c')", "field": "id"}
        >>> test["test_metadata"] = {"name": "relationships", "kwargs": arguments}
        >>> c = {"unique_id": "model.p.c", "name": "c", "relation_name": "dw.c"}
        >>> o = {"unique_id": "source.p.raw.o", "name": "o", "relation_name": "raw.o"}
        >>> graph = {"nodes": {"model.p.c": c, "t": test}, "sources": {"source.p.raw.o": o}}
        >>> references_of((), ["dw.c", "raw.o"], graph, "model m")
        {'raw.o.cust': 'dw.c.id'}
    """
    nodes = nodes_by_table(graph)
    written: dict[str, list[str]] = {}
    for table in tables:
        for node in nodes.get(fold(table), ()):
            written.setdefault(str(node.get("unique_id")), []).append(table)
    tested = sorted(
        (f"{one}.{column}", f"{other}.{field}")
        for test in graph.get("nodes", {}).values()
        for of, column, to, field in _tested_reference(test)
        for one in written.get(of, ())
        for other in written.get(to, ())
    )
    found = dict(reversed(tested))
    for one, other in declared:
        spelled = [_spell(name, tables, nodes, where, "references") for name in (one, other)]
        found[spelled[0]] = spelled[1]
    return {name: found[name] for name in sorted(found)}


def hints_of(
    declared: Mapping[str, Mapping[str, float]],
    tables: Sequence[str],
    graph: Mapping[str, Any],
    where: str,
) -> dict[str, dict[str, float]]:
    """The declared figures, by the names of the compiled SQL.

    Example:
        >>> hints_of({"rows": {"o": 9}, "distinct": {"o.cust": 3}}, ["raw.o"], {}, "model m")
        {'distinct': {'raw.o.cust': 3}, 'rows': {'raw.o': 9}}
    """
    nodes = nodes_by_table(graph)
    rows = {
        find_table(name, tables, nodes, where, "hints"): figure
        for name, figure in declared.get("rows", {}).items()
    }
    distinct = {
        _spell(name, tables, nodes, where, "hints"): figure
        for name, figure in declared.get("distinct", {}).items()
    }
    found = {"distinct": distinct, "rows": rows}
    return {kind: dict(sorted(named.items())) for kind, named in found.items() if named}


def _tested_reference(test: Node) -> list[tuple[str, str, str, str]]:
    """Node and column that a `relationships` test is of, node and column that it points to."""
    metadata = test.get("test_metadata") or {}
    if metadata.get("name") != "relationships" or not proves(test):
        return []
    arguments = metadata.get("kwargs") or {}
    column, field = arguments.get("column_name") or test.get("column_name"), arguments.get("field")
    of = test.get("attached_node")
    upstream = sorted(set((test.get("depends_on") or {}).get("nodes") or ()))
    others = [name for name in upstream if name != of] or upstream
    if not of or len(others) != 1 or arguments.get("from_condition"):
        return []
    if not all(isinstance(name, str) and PLAIN.fullmatch(name) for name in (column, field)):
        return []
    return [(str(of), str(column).strip("`"), str(others[0]), str(field).strip("`"))]


def _spell(
    name: str,
    tables: Sequence[str],
    nodes: Mapping[tuple[str, ...], Sequence[Node]],
    where: str,
    option: str,
) -> str:
    """`relation.column, column` with the relation as the SQL writes it."""
    first, *more = (part.strip() for part in name.split(","))
    relation, _, column = first.rpartition(".")
    if not relation or not column or not all(more):
        raise DeltaJoinError(
            "INVALID_OPTION",
            f"{option}: '{name}' is not 'relation.column'",
            where=where,
            remedy="Write relation.column, or relation.column, column for several.",
        )
    table = find_table(relation, tables, nodes, where, option)
    return ", ".join((f"{table}.{column}", *more))
