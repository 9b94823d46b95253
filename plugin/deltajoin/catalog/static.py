"""Parquet and CSV files as sources: a fingerprint for a version, and no past.

Rule: only a place that *says* so is read as files: `x.parquet`, `x.csv` (a file, or a folder of
that name) or `folder/*.parquet`, `folder/*.csv`. Any other folder without a Delta log is refused:
it may be a table that lost its log. The version is a number (`contract.fingerprint_of`). The same
number is no change; with another one the old content is gone, so the model is rebuilt
(STATIC_SOURCE_CHANGED).

Columns: all files must have the same; of CSV they are the header's, all strings (RFC 4180, UTF-8;
an empty field is NULL). Folders are read without those below them. Local files only.
"""

from __future__ import annotations

import csv
import os
from typing import Any

from deltajoin.catalog.files import normalise
from deltajoin.catalog.plain import is_pattern
from deltajoin.catalog.schema import Column, columns_of, zoned
from deltajoin.catalog.table import Opened, StaticFiles, TableState, in_one_line, load_table
from deltajoin.contract import fingerprint_of
from deltajoin.errors import DeltaJoinError
from deltajoin.names import quote

FORMATS = ("parquet", "csv")
#: What the table id of static files ends with.
STATIC = " files"


def load_source(name: str, place: str, opened: Opened | None = None) -> TableState:
    """A source at its newest version: a Delta table, which may be open, or static files.

    Raises SOURCE_MISSING, SOURCE_NOT_DELTA, SOURCE_UNREADABLE.
    """
    kind = _format(place)
    location = normalise(place)
    if kind is None or "://" in location or os.path.isdir(os.path.join(location, "_delta_log")):
        return load_table(name, place, opened=opened)
    folder = os.path.basename(location) == f"*.{kind}"
    location = os.path.dirname(location) if folder else location
    where = f"{name}: {location}"
    paths = _paths(location, kind)
    if not paths:
        raise DeltaJoinError(
            "SOURCE_MISSING",
            f"there is no {kind} file at this location",
            where=where,
            remedy="Check the path of this source in the model.",
        )
    if any(map(is_pattern, paths)):
        raise _unreadable("a path holds one of {}[]*?\\, which Spark takes for a pattern", where)
    schemas = [_columns(path, kind, where) for path in paths]
    for path, (columns, _) in zip(paths, schemas, strict=True):
        if columns != schemas[0][0]:
            text = f"{os.path.basename(path)} has other columns than {os.path.basename(paths[0])}"
            raise _unreadable(text, where)
    columns, counts = schemas[0][0], [rows for _, rows in schemas]
    ddl = ", ".join(f"{quote(c.name)} {zoned(c.type)}" for c in columns)
    return TableState(
        name=name,
        location=location,
        table_id=f"{kind}{STATIC}",
        version=fingerprint_of(paths),
        columns=columns,
        rows=None if None in counts else sum(c or 0 for c in counts),
        bytes=sum(os.path.getsize(path) for path in paths),
        files=len(paths),
        change_feed=False,
        properties=(),
        static=StaticFiles(kind, paths, ddl),
    )


def _format(place: str) -> str | None:
    """What a place says it holds, or None.

    Example:
        >>> _format("/data/rates.csv"), _format("/data/rates/*.parquet"), _format("/data/rates")
        ('csv', 'parquet', None)
    """
    ending = place.rstrip("/").rpartition(".")[2].lower()
    return ending if ending in FORMATS else None


def _paths(location: str, kind: str) -> tuple[str, ...]:
    if os.path.isfile(location):
        return (location,)
    if not os.path.isdir(location):
        return ()
    names = (n for n in os.listdir(location) if not n.startswith((".", "_")))
    found = (os.path.join(location, n) for n in sorted(names) if _format(n) == kind)
    return tuple(path for path in found if os.path.isfile(path))


def _columns(path: str, kind: str, where: str) -> tuple[tuple[Column, ...], int | None]:
    """The columns of a file and its rows, if it says."""
    try:
        return _parquet_columns(path) if kind == "parquet" else (_csv_columns(path), None)
    except Exception as failure:
        raise _unreadable(f"{os.path.basename(path)}: {in_one_line(failure)}", where) from failure


def _parquet_columns(path: str) -> tuple[tuple[Column, ...], int]:
    import pyarrow.parquet
    from deltalake import Schema

    file = pyarrow.parquet.ParquetFile(path)
    schema = pyarrow.schema([_signed(field) for field in file.schema_arrow])
    return columns_of(Schema.from_arrow(schema).to_json()), file.metadata.num_rows


def _signed(field: Any) -> Any:
    """A field of Arrow with the types that Spark gives to numbers without a sign, at any depth."""
    import pyarrow as pa

    kind = field.type
    wider = {"uint8": pa.int16(), "uint16": pa.int32(), "uint32": pa.int64()}
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([_signed(part) for part in kind]))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(_signed(kind.value_field)))
    if pa.types.is_large_list(kind):
        return field.with_type(pa.large_list(_signed(kind.value_field)))
    if pa.types.is_map(kind):
        return field.with_type(pa.map_(_signed(kind.key_field), _signed(kind.item_field)))
    if pa.types.is_uint64(kind):
        return field.with_type(pa.decimal128(20))
    return field.with_type(wider.get(str(kind), kind))


def _csv_columns(path: str) -> tuple[Column, ...]:
    with open(path, encoding="utf-8", newline="") as file:
        names = next(csv.reader(file, strict=True), [])
    if not names or not all(names) or len({name.lower() for name in names}) < len(names):
        raise ValueError("its first line is no header of different names")
    if names[0].startswith("\ufeff"):
        raise ValueError("it begins with a byte order mark")
    return tuple(Column(name, "string", True) for name in names)


def _unreadable(message: str, where: str) -> DeltaJoinError:
    return DeltaJoinError(
        "SOURCE_UNREADABLE", message, where=where, remedy="Correct the files of this source."
    )
