"""Delta schema JSON -> columns with Spark DDL types, and what makes two columns the same.

Rule: types are spelled as Spark's DDL prints them (`bigint`, `struct<a:int>`, `string collate X`),
in schema order and with the exact spelling of names. A column's *identity* also holds its physical
names: under column mapping, a renamed or dropped and re-added column is another column with the
same name and type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from deltajoin.names import quote

_SPELLING = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
_TIMESTAMP = re.compile(r"`(?:[^`]|``)*`|\btimestamp\b(?!:)")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PHYSICAL_NAME = "delta.columnMapping.physicalName"
#: Of a field: where strings stand in it (`n`, `n.element`, `n.key`, ...) -> `spark.UTF8_LCASE`.
_COLLATIONS = "__COLLATIONS"
#: Of a field: the type as it was declared, where CHAR or VARCHAR stand in it.
_CHAR_OR_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"


@dataclass(frozen=True)
class Column:
    """A column as Spark sees it; `type` is DDL text, `string` also for CHAR(n), which Spark pads
    (`is_char`). `physical` is its name in the log and the files, "" where it is `name`."""

    name: str
    type: str
    nullable: bool
    is_char: bool = field(default=False, compare=False, repr=False)
    physical: str = field(default="", compare=False, repr=False)


def columns_of(schema_json: str) -> tuple[Column, ...]:
    """The columns of a Delta `schemaString`.

    Example:
        >>> columns_of('{"type":"struct","fields":[{"name":"Id","type":"long","nullable":true}]}')
        (Column(name='Id', type='bigint', nullable=True),)
    """
    return tuple(
        Column(
            f["name"],
            _of_field(f, _ddl_field),
            bool(f.get("nullable", True)),
            _is_char(f),
            (f.get("metadata") or {}).get(_PHYSICAL_NAME, ""),
        )
        for f in json.loads(schema_json)["fields"]
    )


def _is_char(field: Mapping[str, Any]) -> bool:
    """True for CHAR(n), also within another type."""
    written = str((field.get("metadata") or {}).get(_CHAR_OR_VARCHAR, ""))
    return re.search(r"(?<!var)char\(", written.lower()) is not None


def identities_of(schema_json: str) -> dict[str, str]:
    """Column name -> a text that is equal exactly for the same column: type and physical names."""
    return {f["name"]: _identity(f) for f in json.loads(schema_json)["fields"]}


def zoned(kind: str) -> str:
    """DDL of a type for Spark's parser, to which TIMESTAMP alone means what the session says.

    Example:
        >>> zoned("struct<timestamp:timestamp,`a timestamp`:array<timestamp_ntz>>")
        'struct<timestamp:timestamp_ltz,`a timestamp`:array<timestamp_ntz>>'
    """
    return _TIMESTAMP.sub(lambda found: found[0] if "`" in found[0] else "timestamp_ltz", kind)


def _of_field(field: Mapping[str, Any], field_text: Callable[[Mapping[str, Any]], str]) -> str:
    """The text of a field's type, its strings with their collations."""
    collations = (field.get("metadata") or {}).get(_COLLATIONS) or {}
    return _type(field["type"], field_text, field["name"], collations)


def _type(
    delta_type: str | Mapping[str, Any],
    field_text: Callable[[Mapping[str, Any]], str],
    path: str,
    collations: Mapping[str, str],
) -> str:
    """The text of a type, given that of a struct's field; `path` is where it stands in a field."""
    if isinstance(delta_type, str):
        name = collations.get(path, "").rpartition(".")[2] if delta_type == "string" else ""
        return f"string collate {name}" if name else _spelled(delta_type)
    kind = delta_type["type"]
    if kind == "struct":
        return f"struct<{','.join(map(field_text, delta_type['fields']))}>"
    parts = (
        {"elementType": "element"} if kind == "array" else {"keyType": "key", "valueType": "value"}
    )
    inner = (_type(delta_type[p], field_text, f"{path}.{n}", collations) for p, n in parts.items())
    return f"{kind}<{','.join(inner)}>"


def _spelled(delta_type: str) -> str:
    return _SPELLING.get(delta_type, delta_type.replace(" ", ""))


def _ddl_field(field: Mapping[str, Any]) -> str:
    name = field["name"]
    return f"{name if _PLAIN_NAME.match(name) else quote(name)}:{_of_field(field, _ddl_field)}"


def _identity(field: Mapping[str, Any]) -> str:
    physical = (field.get("metadata") or {}).get(_PHYSICAL_NAME, field["name"])
    of_type = _of_field(field, lambda inner: f"{inner['name']}:{_identity(inner)}")
    padded = f" {field['metadata'][_CHAR_OR_VARCHAR]}" if _is_char(field) else ""
    return f"{physical}={of_type}{padded}"
