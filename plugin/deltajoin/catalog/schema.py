"""Delta schema JSON -> columns with Spark DDL types, and what makes two columns the same.

Rule: types are spelled as Spark's DDL prints them (`bigint`, `decimal(10,2)`, `struct<a:int>`), in
schema order and with the exact spelling of names. A column's *identity* also holds its physical
names: under column mapping, a renamed or dropped and re-added column is another column with the
same name and type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deltajoin.names import quote

_SPELLING = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PHYSICAL_NAME = "delta.columnMapping.physicalName"


@dataclass(frozen=True)
class Column:
    """A column as Spark sees it; `type` is DDL text."""

    name: str
    type: str
    nullable: bool


def columns_of(schema_json: str) -> tuple[Column, ...]:
    """The columns of a Delta `schemaString`.

    Example:
        >>> columns_of('{"type":"struct","fields":[{"name":"Id","type":"long","nullable":true}]}')
        (Column(name='Id', type='bigint', nullable=True),)
    """
    return tuple(
        Column(f["name"], ddl_type(f["type"]), bool(f.get("nullable", True)))
        for f in json.loads(schema_json)["fields"]
    )


def identities_of(schema_json: str) -> dict[str, str]:
    """Column name -> a text that is equal exactly for the same column: type and physical names."""
    return {f["name"]: _identity(f) for f in json.loads(schema_json)["fields"]}


def ddl_type(delta_type: str | Mapping[str, Any]) -> str:
    """Spark DDL text of a Delta type.

    Example:
        >>> ddl_type({"type": "map", "keyType": "string", "valueType": "long"})
        'map<string,bigint>'
    """
    return _type(delta_type, _ddl_field)


def _type(
    delta_type: str | Mapping[str, Any], field_text: Callable[[Mapping[str, Any]], str]
) -> str:
    """The text of a type, given that of a struct's field."""
    if isinstance(delta_type, str):
        return _SPELLING.get(delta_type, delta_type.replace(" ", ""))
    kind = delta_type["type"]
    if kind == "struct":
        return f"struct<{','.join(map(field_text, delta_type['fields']))}>"
    parts = ("elementType",) if kind == "array" else ("keyType", "valueType")
    return f"{kind}<{','.join(_type(delta_type[part], field_text) for part in parts)}>"


def _ddl_field(field: Mapping[str, Any]) -> str:
    name = field["name"]
    return f"{name if _PLAIN_NAME.match(name) else quote(name)}:{ddl_type(field['type'])}"


def _identity(field: Mapping[str, Any]) -> str:
    physical = (field.get("metadata") or {}).get(_PHYSICAL_NAME, field["name"])
    of_type = _type(field["type"], lambda inner: f"{inner['name']}:{_identity(inner)}")
    return f"{physical}={of_type}"
