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
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from deltajoin.errors import DeltaJoinError
from deltajoin.names import quote_dotted, split_dotted
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


@dataclass(frozen=True)
class Relations:
    """What a model's SQL reads, for what the user and dbt say of it by other names.

    `tables` of the compiled SQL, dbt's `graph`; `where` names the model in errors; `views` are the
    names of views that the SQL was written with -> their queries, down to tables.
    """

    tables: Sequence[str]
    graph: Mapping[str, Any]
    where: str
    views: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def nodes(self) -> dict[tuple[str, ...], list[Node]]:
        """dbt's nodes by table."""
        return nodes_by_table(self.graph)

    def origin(self, name: str, columns: tuple[str, ...]) -> tuple[str, tuple[str, ...]] | None:
        """Columns of a table or view as columns of a table; None where they are computed."""
        if name not in self.views:
            return name, columns
        found = column_origin(self.views[name], columns)
        table = next((t for t in self.tables if found and fold(t) == fold(found[0])), None)
        return (table, found[1]) if found and table else None

    def declared(
        self, option: str, relation: str, columns: tuple[str, ...]
    ) -> tuple[str, tuple[str, ...]]:
        """The table and columns that an option means.

        Raises:
            DeltaJoinError: AMBIGUOUS_KEYS; INVALID_OPTION of a view that says nothing of a table.
        """
        found = self.origin(self.find(option, relation, (*self.tables, *self.views)), columns)
        if found is None:
            raise DeltaJoinError(
                "INVALID_OPTION",
                f"{option}: '{relation}' is a view whose rows are not those of one table",
                where=self.where,
                remedy="Declare it of the table below the view.",
            )
        return found

    def find(self, option: str, relation: str, among: Sequence[str]) -> str:
        """The name in the SQL that an option means by a relation; the relation itself if none.

        Raises:
            DeltaJoinError: AMBIGUOUS_KEYS.
        """
        exact = [name for name in among if fold(name) == fold(relation)]
        called = [
            name
            for name in among
            if any(relation in _names(node) for node in self.nodes.get(fold(name), ()))
        ]
        last = [name for name in among if fold(name)[-1:] == fold(relation)]
        found = exact or called or last
        if len(found) > 1:
            raise DeltaJoinError(
                "AMBIGUOUS_KEYS",
                f"{option} of '{relation}' fit {' and '.join(found)}",
                where=self.where,
                remedy="Name the relation in full.",
            )
        return found[0] if found else relation


def keys_of(
    declared: Mapping[str, tuple[str, ...]], relations: Relations
) -> dict[str, tuple[str, ...]]:
    """Key columns per table of the compiled SQL, for the tables that have a key.

    Example:
        >>> test = {"resource_type": "test", "column_name": "id", "attached_node": "model.p.a"}
        >>> test["test_metadata"] = {"name": "unique", "kwargs": {"column_name": "id"}}
        >>> model = {"unique_id": "model.p.a", "name": "a", "relation_name": "dw.a_v1"}
        >>> graph = {"nodes": {"model.p.a": model, "test.p.t": test}, "sources": {}}
        >>> relations = Relations(["dw.a_v1", "dw.b"], graph, "model m")
        >>> keys_of({}, relations), keys_of({"a": ("x", "y")}, relations)
        ({'dw.a_v1': ('id',)}, {'dw.a_v1': ('x', 'y')})
    """
    known: dict[str, list[tuple[int, int, tuple[str, ...]]]] = {}
    for name in (*relations.tables, *relations.views):
        for node in relations.nodes.get(fold(name), ()):
            for rank, length, columns in _known_keys(node, relations.graph):
                if (found := relations.origin(name, columns)) is not None:
                    known.setdefault(found[0], []).append((rank, length, found[1]))
    keys = {table: min(known[table])[2] for table in known}
    keys |= dict(relations.declared("keys", *each) for each in declared.items())
    return dict(sorted(keys.items()))


def nodes_by_table(graph: Mapping[str, Any]) -> dict[tuple[str, ...], list[Node]]:
    """Models, seeds and sources by the parts of their relations' names, in lower case."""
    nodes: dict[tuple[str, ...], list[Node]] = {}
    for name, node in _relations(graph):
        nodes.setdefault(fold(name), []).append(node)
    return nodes


def relations_in(graph: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of all relations that dbt knows of, in backticks."""
    return tuple(sorted({quote_dotted(split_dotted(name)) for name, _ in _relations(graph)}))


def _relations(graph: Mapping[str, Any]) -> Iterator[tuple[str, Node]]:
    for section in ("nodes", "sources"):
        for _, node in sorted(graph.get(section, {}).items()):
            deferred = node.get("defer_relation") or {}
            for name in {node.get("relation_name"), deferred.get("relation_name")} - {None, ""}:
                yield str(name), node


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


def _names(node: Node) -> tuple[str, ...]:
    name = str(node.get("name"))
    return (name, f"{node.get('source_name')}.{name}", str(node.get("unique_id")))


def fold(name: str) -> tuple[str, ...]:
    """The parts of a dotted name in lower case."""
    return tuple(part.lower() for part in split_dotted(name))
