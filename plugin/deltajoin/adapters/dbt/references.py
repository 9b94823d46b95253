"""Foreign keys and figures of a model's relations: dbt's `relationships` tests, and the config.

A `relationships` test of a column is a foreign key under the conditions that make a `unique` test a
key (`keys.py`); what the config declares goes before. Names become those of the compiled SQL, as
`Model.references` and `Model.hints` need them. They change estimates, never rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from deltajoin.adapters.dbt.keys import PLAIN, Node, Relations, fold, proves
from deltajoin.errors import DeltaJoinError


def references_of(declared: Mapping[str, str], relations: Relations) -> dict[str, str]:
    """`table.column` -> the `table.column` that it points to, for tables of the compiled SQL.

    Example:
        >>> test = {"resource_type": "test", "attached_node": "source.p.raw.o"}
        >>> test["depends_on"] = {"nodes": ["model.p.c", "source.p.raw.o"]}
        >>> arguments = {"column_name": "cust", "to": "ref('c')", "field": "id"}
        >>> test["test_metadata"] = {"name": "relationships", "kwargs": arguments}
        >>> c = {"unique_id": "model.p.c", "name": "c", "relation_name": "dw.c"}
        >>> o = {"unique_id": "source.p.raw.o", "name": "o", "relation_name": "raw.o"}
        >>> graph = {"nodes": {"model.p.c": c, "t": test}, "sources": {"source.p.raw.o": o}}
        >>> references_of({}, Relations(["dw.c", "raw.o"], graph, "model m"))
        {'raw.o.cust': 'dw.c.id'}
    """
    written: dict[str, list[str]] = {}
    for name in (*relations.tables, *relations.views):
        for node in relations.nodes.get(fold(name), ()):
            written.setdefault(str(node.get("unique_id")), []).append(name)

    def columns(node: str, column: str) -> list[str]:
        """`table.column` of a node's column, wherever it is a table's."""
        found = (relations.origin(name, (column,)) for name in written.get(node, ()))
        return [f"{table}.{names[0]}" for table, names in (each for each in found if each)]

    tested = sorted(
        (one, other)
        for test in relations.graph.get("nodes", {}).values()
        for of, column, to, field in _tested_reference(test)
        for one in columns(of, column)
        for other in columns(to, field)
    )
    found = dict(reversed(tested))
    for pair in declared.items():
        one, other = (_column(text, "references", relations) for text in pair)
        found[one] = other
    return dict(sorted(found.items()))


def hints_of(
    declared: Mapping[str, Mapping[str, float]], relations: Relations
) -> dict[str, dict[str, float]]:
    """The declared figures, by the names of the compiled SQL.

    Example:
        >>> relations = Relations(["raw.o"], {}, "model m")
        >>> hints_of({"rows": {"o": 9}, "distinct": {"o.cust": 3}}, relations)
        {'distinct': {'raw.o.cust': 3}, 'rows': {'raw.o': 9}}
    """
    rows, distinct = declared.get("rows", {}), declared.get("distinct", {})
    found = {
        "distinct": {_column(name, "hints", relations): n for name, n in distinct.items()},
        "rows": {relations.find("hints", name, relations.tables): n for name, n in rows.items()},
    }
    return {kind: dict(sorted(named.items())) for kind, named in found.items() if named}


def _column(text: str, option: str, relations: Relations) -> str:
    """`relation.column, column` with table and columns as the SQL has them."""
    first, *more = (part.strip() for part in text.split(","))
    relation, _, column = first.rpartition(".")
    if not relation or not column or not all(more):
        raise DeltaJoinError(
            "INVALID_OPTION",
            f"{option}: '{text}' is not 'relation.column'",
            where=relations.where,
            remedy="Write relation.column, or relation.column, column for several.",
        )
    table, columns = relations.declared(option, relation, (column, *more))
    return f"{table}.{', '.join(columns)}"


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
