"""Foreign keys and figures of a model's relations: dbt's `relationships` tests, and the config.

A `relationships` test of a column is a foreign key under the conditions that make a `unique` test a
key (`keys.py`); what the config declares goes before. Names become those of the compiled SQL, as
`Model.references` and `Model.hints` need them. They change estimates, never rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deltajoin.adapters.dbt.keys import (
    PLAIN,
    Node,
    find_table,
    fold,
    nodes_by_table,
    not_of_a_table,
    origin_of,
    proves,
)
from deltajoin.errors import DeltaJoinError


def references_of(
    declared: Mapping[str, str],
    tables: Sequence[str],
    graph: Mapping[str, Any],
    where: str,
    views: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """`table.column` -> the `table.column` that it points to, for tables of the compiled SQL.

    Args:
        views: as in `keys_of`; what is said of a view that only renames is said of its table.

    Example:
        >>> test = {"resource_type": "test", "attached_node": "source.p.raw.o"}
        >>> test["depends_on"] = {"nodes": ["model.p.c", "source.p.raw.o"]}
        >>> arguments = {"column_name": "cust", "to": "ref('c')", "field": "id"}
        >>> test["test_metadata"] = {"name": "relationships", "kwargs": arguments}
        >>> c = {"unique_id": "model.p.c", "name": "c", "relation_name": "dw.c"}
        >>> o = {"unique_id": "source.p.raw.o", "name": "o", "relation_name": "raw.o"}
        >>> graph = {"nodes": {"model.p.c": c, "t": test}, "sources": {"source.p.raw.o": o}}
        >>> references_of({}, ["dw.c", "raw.o"], graph, "model m")
        {'raw.o.cust': 'dw.c.id'}
    """
    spell = _Spelling(tables, views or {}, nodes_by_table(graph), where)
    written: dict[str, list[str]] = {}
    for name in (*tables, *spell.views):
        for node in spell.nodes.get(fold(name), ()):
            written.setdefault(str(node.get("unique_id")), []).append(name)
    tested = sorted(
        (one, other)
        for test in graph.get("nodes", {}).values()
        for of, column, to, field in _tested_reference(test)
        for one in spell.columns(written.get(of, ()), column)
        for other in spell.columns(written.get(to, ()), field)
    )
    found = dict(reversed(tested))
    for one, other in declared.items():
        found[spell.name(one, "references")] = spell.name(other, "references")
    return {name: found[name] for name in sorted(found)}


def hints_of(
    declared: Mapping[str, Mapping[str, float]],
    tables: Sequence[str],
    graph: Mapping[str, Any],
    where: str,
    views: Mapping[str, str] | None = None,
) -> dict[str, dict[str, float]]:
    """The declared figures, by the names of the compiled SQL.

    Example:
        >>> hints_of({"rows": {"o": 9}, "distinct": {"o.cust": 3}}, ["raw.o"], {}, "model m")
        {'distinct': {'raw.o.cust': 3}, 'rows': {'raw.o': 9}}
    """
    spell = _Spelling(tables, views or {}, nodes_by_table(graph), where)
    rows = {
        find_table(name, tables, spell.nodes, where, "hints"): figure
        for name, figure in declared.get("rows", {}).items()
    }
    distinct = {
        spell.name(name, "hints"): figure for name, figure in declared.get("distinct", {}).items()
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


@dataclass(frozen=True)
class _Spelling:
    """How the SQL writes what the user and dbt know by other names."""

    tables: Sequence[str]
    views: Mapping[str, str]
    nodes: Mapping[tuple[str, ...], Sequence[Node]]
    where: str

    def columns(self, relations: Sequence[str], column: str) -> list[str]:
        """`table.column` of a column in each relation, where it is a table's."""
        found = (origin_of(name, (column,), self.tables, self.views) for name in relations)
        return [f"{table}.{names[0]}" for table, names in (each for each in found if each)]

    def name(self, text: str, option: str) -> str:
        """`relation.column, column` with table and columns as the SQL has them."""
        first, *more = (part.strip() for part in text.split(","))
        relation, _, column = first.rpartition(".")
        if not relation or not column or not all(more):
            raise DeltaJoinError(
                "INVALID_OPTION",
                f"{option}: '{text}' is not 'relation.column'",
                where=self.where,
                remedy="Write relation.column, or relation.column, column for several.",
            )
        known = (*self.tables, *self.views)
        named = find_table(relation, known, self.nodes, self.where, option)
        found = origin_of(named, (column, *more), self.tables, self.views)
        if found is None:
            raise not_of_a_table(option, relation, self.where)
        table, (one, *others) = found
        return ", ".join((f"{table}.{one}", *others))
