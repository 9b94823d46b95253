"""Unique keys of a model's relations: from its config first, else from what dbt already knows.

A key comes, best first, from a primary-key constraint, else from a `unique` constraint or test or a
test over a combination of columns (`combination_of_columns` or `column_list`, as in dbt_utils and
dbt_expectations); the shortest wins, then the first by name. A test with a `where`, a warning
severity or a threshold proves no key. A key of a view that only renames is one of its table. The
graph is dbt's `graph` variable; results are named as the tables stand in the SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deltajoin.errors import DeltaJoinError
from deltajoin.names import split_dotted
from deltajoin.sql.views import column_origin

_COMBINATIONS = ("combination_of_columns", "column_list")
PLAIN = re.compile(r"[A-Za-z_]\w*|`[^`]+`")

Node = Mapping[str, Any]


def keys_of(
    declared: Sequence[tuple[str, tuple[str, ...]]],
    tables: Sequence[str],
    graph: Mapping[str, Any],
    where: str,
    views: Mapping[str, str] | None = None,
) -> dict[str, tuple[str, ...]]:
    """Key columns per table of the compiled SQL, for the tables that have a key.

    Args:
        views: name of a view that the SQL was written with -> its query, down to tables.

    Example:
        >>> test = {"resource_type": "test", "column_name": "id", "attached_node": "model.p.a"}
        >>> test["test_metadata"] = {"name": "unique", "kwargs": {"column_name": "id"}}
        >>> model = {"unique_id": "model.p.a", "name": "a", "relation_name": "dw.a_v1"}
        >>> graph = {"nodes": {"model.p.a": model, "test.p.t": test}, "sources": {}}
        >>> keys_of((), ["dw.a_v1", "dw.b"], graph, "model m")
        {'dw.a_v1': ('id',)}
        >>> keys_of((("a", ("x", "y")),), ["dw.a_v1", "dw.b"], graph, "model m")
        {'dw.a_v1': ('x', 'y')}
    """
    nodes, views = nodes_by_table(graph), views or {}
    known: dict[str, list[tuple[int, int, tuple[str, ...]]]] = {}
    for name in (*tables, *views):
        for node in nodes.get(fold(name), ()):
            for rank, length, columns in _known_keys(node, graph):
                if (found := origin_of(name, columns, tables, views)) is not None:
                    known.setdefault(found[0], []).append((rank, length, found[1]))
    keys = {table: min(known[table])[2] for table in sorted(known)}
    for relation, columns in declared:
        name = find_table(relation, (*tables, *views), nodes, where)
        found = origin_of(name, columns, tables, views)
        if found is None:
            raise not_of_a_table("keys", relation, where)
        keys[found[0]] = found[1]
    return {name: keys[name] for name in sorted(keys)}


def origin_of(
    name: str, columns: tuple[str, ...], tables: Sequence[str], views: Mapping[str, str]
) -> tuple[str, tuple[str, ...]] | None:
    """Columns of a table or view as columns of a table of the SQL; None where they are computed."""
    if name not in views:
        return name, columns
    found = column_origin(views[name], columns)
    table = next((t for t in tables if found and fold(t) == fold(found[0])), None)
    return (table, found[1]) if found and table else None


def not_of_a_table(option: str, relation: str, where: str) -> DeltaJoinError:
    """The error for a declaration about a view that says nothing of a table."""
    return DeltaJoinError(
        "INVALID_OPTION",
        f"{option}: '{relation}' is a view whose rows are not those of one table",
        where=where,
        remedy="Declare it of the table below the view.",
    )


def nodes_by_table(graph: Mapping[str, Any]) -> dict[tuple[str, ...], list[Node]]:
    """Models, seeds and sources by the parts of their relations' names, in lower case."""
    nodes: dict[tuple[str, ...], list[Node]] = {}
    for section in ("nodes", "sources"):
        for _, node in sorted(graph.get(section, {}).items()):
            deferred = node.get("defer_relation") or {}
            for name in {node.get("relation_name"), deferred.get("relation_name")} - {None, ""}:
                nodes.setdefault(fold(str(name)), []).append(node)
    return nodes


def _known_keys(node: Node, graph: Mapping[str, Any]) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    for name, column in (node.get("columns") or {}).items():
        for constraint in column.get("constraints") or ():
            yield from _rank(constraint.get("type"), [name])
    for constraint in node.get("constraints") or ():
        yield from _rank(constraint.get("type"), constraint.get("columns"))
    for test in graph.get("nodes", {}).values():
        if proves(test) and node_of(test) == node.get("unique_id"):
            yield from _rank("unique", _tested_columns(test))


def _rank(kind: Any, columns: Any) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    if str(kind) not in ("primary_key", "unique") or not isinstance(columns, list | tuple):
        return
    if columns and all(isinstance(name, str) and PLAIN.fullmatch(name) for name in columns):
        names = tuple(name.strip("`") for name in columns)
        yield (0 if kind == "primary_key" else 1, len(names), names)


def proves(test: Node) -> bool:
    """Whether a passed test says something of every row of its table."""
    config = test.get("config") or {}
    return (
        test.get("resource_type") == "test"
        and bool(test.get("test_metadata"))
        and not config.get("where")
        and not config.get("limit")
        and str(config.get("severity") or "error").lower() == "error"
        and str(config.get("error_if") or "!= 0").replace(" ", "") in ("!=0", ">0")
    )


def node_of(test: Node) -> str | None:
    """The unique id of the node that a test is of, where it is of one."""
    if test.get("attached_node"):
        return str(test["attached_node"])
    upstream = (test.get("depends_on") or {}).get("nodes") or []
    return str(upstream[0]) if len(upstream) == 1 else None


def _tested_columns(test: Node) -> Any:
    metadata = test["test_metadata"]
    arguments = metadata.get("kwargs") or {}
    if metadata.get("name") == "unique":
        column = arguments.get("column_name") or test.get("column_name")
        return [column] if column else None
    if "unique" not in str(metadata.get("name")):
        return None
    conditional = arguments.get("row_condition") or arguments.get("quote_columns")
    found = next((arguments[name] for name in _COMBINATIONS if arguments.get(name)), None)
    return None if conditional else found


def find_table(
    relation: str,
    tables: Sequence[str],
    nodes: Mapping[tuple[str, ...], Sequence[Node]],
    where: str,
    option: str = "keys",
) -> str:
    """The table of the SQL that a config means by a relation; the name itself if none.

    Raises:
        DeltaJoinError: AMBIGUOUS_KEYS.
    """
    exact = [table for table in tables if fold(table) == fold(relation)]
    called = [
        table
        for table in tables
        if any(relation in _names(node) for node in nodes.get(fold(table), ()))
    ]
    last = [table for table in tables if fold(table)[-1:] == fold(relation)]
    found = exact or called or last
    if len(found) > 1:
        raise DeltaJoinError(
            "AMBIGUOUS_KEYS",
            f"{option} of '{relation}' fit {' and '.join(found)}",
            where=where,
            remedy="Name the relation in full.",
        )
    return found[0] if found else relation


def _names(node: Node) -> tuple[str, ...]:
    name = str(node.get("name"))
    return (name, f"{node.get('source_name')}.{name}", str(node.get("unique_id")))


def fold(name: str) -> tuple[str, ...]:
    """The parts of a dotted name in lower case."""
    return tuple(part.lower() for part in split_dotted(name))
