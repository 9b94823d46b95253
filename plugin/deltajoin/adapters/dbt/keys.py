"""Unique keys of a model's relations: from its config first, else from what dbt already knows.

A key comes, best first, from a primary-key constraint, else from a `unique` constraint or one of
the tests in `_UNIQUE_TESTS`; the shortest wins, then the first by name. No other test is read,
whatever its name. A test that is disabled, only warns, or is told more than its columns (a filter,
a threshold) proves no key. A key of a view that only renames is one of its table. The graph is
dbt's `graph` variable; results are named as the tables stand in the SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deltajoin.errors import DeltaJoinError
from deltajoin.names import split_dotted
from deltajoin.sql.views import column_origin

#: package and name of a test -> its argument that has the columns; "" is dbt or the project itself.
_UNIQUE_TESTS = {
    ("", "unique"): "column_name",
    ("", "unique_combination_of_columns"): "combination_of_columns",
    ("dbt_utils", "unique_combination_of_columns"): "combination_of_columns",
    ("dbt_expectations", "expect_column_values_to_be_unique"): "column_name",
    ("dbt_expectations", "expect_compound_columns_to_be_unique"): "column_list",
}
PLAIN = re.compile(r"[A-Za-z_]\w*|`[^`]+`")

Node = Mapping[str, Any]


def keys_of(
    declared: Mapping[str, tuple[str, ...]],
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
        >>> keys_of({}, ["dw.a_v1", "dw.b"], graph, "model m")
        {'dw.a_v1': ('id',)}
        >>> keys_of({"a": ("x", "y")}, ["dw.a_v1", "dw.b"], graph, "model m")
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
    for relation, columns in declared.items():
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
        and config.get("enabled") is not False
        and not config.get("where")
        and not config.get("limit")
        and str(config.get("severity") or "error").lower() == "error"
        and _bare(config, "error_if", "!=0") in ("!=0", ">0")
        and _bare(config, "fail_calc", "count(*)") == "count(*)"
    )


def _bare(config: Mapping[str, Any], name: str, default: str) -> str:
    return str(config.get(name) or default).replace(" ", "").lower()


def node_of(test: Node) -> str | None:
    """The unique id of the node that a test is of, where it is of one."""
    if test.get("attached_node"):
        return str(test["attached_node"])
    upstream = (test.get("depends_on") or {}).get("nodes") or []
    return str(upstream[0]) if len(upstream) == 1 else None


def _tested_columns(test: Node) -> Any:
    """The columns that a test says are unique together; None for any other test.

    A project may have a `unique` test of its own in place of dbt's: that one says who knows what.
    """
    metadata = test["test_metadata"]
    package, name = str(metadata.get("namespace") or ""), str(metadata.get("name"))
    if package in ("dbt", str(test.get("package_name"))):
        package = ""
    macros = (test.get("depends_on") or {}).get("macros")
    if name == "unique" and macros and "macro.dbt.test_unique" not in macros:
        return None
    argument = _UNIQUE_TESTS.get((package, name))
    arguments = {k: v for k, v in (metadata.get("kwargs") or {}).items() if v and k != "model"}
    if argument == "column_name":
        column = arguments.pop(argument, None) or test.get("column_name")
        return [column] if column and not arguments else None
    columns = arguments.pop(argument, None) if argument else None
    return None if arguments else columns


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
