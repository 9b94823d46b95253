"""What a user declares: one query, where its tables are, where the result goes, which keys hold.

A model is read from Python, from CLI options or from a YAML file; all three end here, so that the
checks on names and modes stand once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from deltajoin.errors import DeltaJoinError
from deltajoin.names import MAX_SQL_BYTES, check_text

DETERMINISTIC = "deterministic"
MODES = ("auto", "incremental", "incremental_strict", "full", "shadow")


@dataclass(frozen=True)
class Model:
    """A multi-table join to keep as a Delta table.

    Args:
        name: identity of the model; its epochs are counted under this name.
        sql: one Spark SQL SELECT.
        sources: table name as written in the SQL -> Delta path or catalog name.
        target: Delta path or catalog name of the result.
        keys: table name -> columns that are unique in it (checked at every run).
        mode: auto | incremental | incremental_strict | full | shadow.
        references: "table.column, column" -> "table.column, column" that it points to and is unique
            there. Declared, never trusted: they change estimates, not rows.
        hints: rows: {table: number}, distinct: {table.column: number}, where the log is mute.
        strategy: of lookup paths: cost, or left_first | right_first with left_this_epoch |
            right_this_epoch.
        reorder: False keeps the joins as the query nests them.
        order: relations (aliases) in the order in which the whole query must join them.
        functions: functions of your own -> "deterministic": the same for the same arguments. A
            model that calls others is rebuilt whenever a source changes.
        sketches: True counts, at every rebuild, the distinct values of the columns that joins and
            filters speak of: one more aggregate over each source (HyperLogLog, 5 % off).
        stamps: output columns that are rendered anew at each run: a row keeps its own until it is
            written again. `current_timestamp()` needs no mention.
        partition_by: columns by which the target is partitioned.
        clustered_by: columns by which it is clustered (liquid clustering, made by OPTIMIZE).
        tblproperties: properties of the target's table.
        lines: where each line of the sql was written, where it was put together; for messages.
        storage_options: how object stores are reached, by delta-rs's names (AWS_REGION, ...). They
            are no part of what the model is; a value ${NAME} is a variable of the environment.

    Raises:
        DeltaJoinError: UNKNOWN_MODE, INVALID_MODEL, VARIABLE_SUBSTITUTION, INVALID_NAME.
    """

    name: str
    sql: str
    sources: Mapping[str, str]
    target: str
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    mode: str = "auto"
    references: Mapping[str, str] = field(default_factory=dict)
    hints: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    strategy: str = "cost"
    reorder: bool = True
    order: Sequence[str] = ()
    sketches: bool = False
    functions: Mapping[str, str] = field(default_factory=dict)
    stamps: Sequence[str] = ()
    partition_by: Sequence[str] = ()
    clustered_by: Sequence[str] = ()
    tblproperties: Mapping[str, str] = field(default_factory=dict)
    lines: Sequence[str] = field(default=(), compare=False, repr=False)
    storage_options: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_text(self.sql, "sql")
        if len(self.sql.encode()) > MAX_SQL_BYTES:
            raise _invalid(f"the SQL is longer than {MAX_SQL_BYTES} bytes")
        self._check_places()
        if isinstance(self.keys, str) or any(isinstance(c, str) for c in self.keys.values()):
            raise _invalid("'keys' maps a table name to a list of columns")
        for table, columns in self.keys.items():
            for text in (table, *columns):
                check_text(text, f"keys: {table}")
        self._check_planning()
        if self.mode not in MODES:
            what, remedy = f"mode '{self.mode}' is not known", f"Use one of: {', '.join(MODES)}."
            raise DeltaJoinError("UNKNOWN_MODE", what, where=self.name, remedy=remedy)

    def _check_places(self) -> None:
        for label, text in (("name", self.name), ("target", self.target)):
            check_text(text, label)
            if not text.strip():
                raise _invalid(f"'{label}' is empty")
        for table, place in self.sources.items():
            for text in (table, place):
                check_text(text, f"sources: {table}")
        for label, place in (*self.sources.items(), ("target", self.target)):
            if _WITH_PASSWORD.match(place):
                raise _invalid(f"the location of '{label}' holds a password; storage_options may")

    def _check_planning(self) -> None:
        if isinstance(self.order, str) or not all(isinstance(name, str) for name in self.order):
            raise _invalid("'order' is a list of relations")
        for name in ("stamps", "partition_by", "clustered_by"):
            names = getattr(self, name)
            if isinstance(names, str) or not all(isinstance(column, str) for column in names):
                raise _invalid(f"'{name}' is a list of output columns")
        if self.partition_by and self.clustered_by:
            raise _invalid("a Delta table is partitioned or clustered, not both")
        self._check_properties()
        for name in ("reorder", "sketches"):
            if not isinstance(getattr(self, name), bool):
                raise _invalid(f"'{name}' is on or off")
        if any(not isinstance(part, Mapping) for part in (self.references, self.hints)):
            raise _invalid("'references' and 'hints' are mappings")
        declared = self.functions
        if not isinstance(declared, Mapping) or set(declared.values()) - {DETERMINISTIC}:
            raise _invalid(f"'functions' maps names of functions to '{DETERMINISTIC}'")
        for name in self.functions:
            check_text(name, f"functions: {name}")

    def _check_properties(self) -> None:
        for name in ("tblproperties", "storage_options"):
            if not _is_texts(getattr(self, name)):
                raise _invalid(f"'{name}' maps names to texts")
        if ours := [name for name in self.tblproperties if name.lower().startswith("deltajoin.")]:
            raise _invalid(f"'tblproperties' holds {', '.join(ours)}, which deltajoin sets itself")

    def to_dict(self) -> dict[str, Any]:
        """The model as plain values, in canonical order; without what may be secret."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self) if f.compare}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in sorted(value.items())}
    return value if isinstance(value, (str, bool, int, float)) else list(value)


def _is_texts(options: object) -> bool:
    return isinstance(options, Mapping) and all(
        isinstance(text, str) for pair in options.items() for text in pair
    )


_WITH_PASSWORD = re.compile(r"[\w+.-]+://[^/@]*:[^/]*@")


def is_path(place: str) -> bool:
    """True for a Delta path, False for a catalog name.

    Example:
        >>> is_path("/data/flights"), is_path("s3://b/t"), is_path("./t"), is_path("db.flights")
        (True, True, True, False)
    """
    return "/" in place or "\\" in place or place.startswith(".")


#: How the target lies in its files; dbt has these names beside `deltajoin:`.
LAYOUT = ("partition_by", "clustered_by", "tblproperties")
#: Options beside keys, mode and layout, in the order in which they are told.
PLANNING = tuple("references hints strategy reorder order sketches functions stamps".split())
_OPTIONS = (*PLANNING, *LAYOUT, "storage_options")


def load_model(path: str | Path) -> Model:
    """Read a model from YAML; relative paths in it are relative to the file.

    Its keys are the arguments of `Model`, but for lines; `name` is the file's stem where it is not
    given, and `sql_file` may stand for `sql`.

    Raises:
        DeltaJoinError: MODEL_FILE (missing, not YAML), INVALID_MODEL (unknown or missing keys).
    """
    import yaml

    file = Path(path)
    try:
        data = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        what = f"cannot read the model file: {str(error).splitlines()[0]}"
        remedy = "Correct the path or the YAML."
        raise DeltaJoinError("MODEL_FILE", what, where=str(file), remedy=remedy) from error
    known = {"name", "sql", "sql_file", "sources", "target", "keys", "mode", *_OPTIONS}
    if not isinstance(data, dict) or set(data) - known:
        extra = sorted(map(str, set(data) - known)) if isinstance(data, dict) else ["no mapping"]
        raise _invalid(f"unexpected in {file}: {', '.join(extra)}", known=known)
    if ("sql" in data) == ("sql_file" in data):
        raise _invalid(f"{file} needs exactly one of 'sql' and 'sql_file'", known=known)
    if "sql_file" in data:
        data["sql"] = _read_sql(file.parent / str(data.pop("sql_file")))
    sources, keys = data.get("sources"), data.get("keys") or {}
    if not isinstance(sources, dict) or not isinstance(keys, dict) or "target" not in data:
        raise _invalid(f"{file} needs 'sources' (a mapping) and 'target'", known=known)
    return Model(
        name=str(data.get("name", file.stem)),
        sql=str(data["sql"]),
        sources={str(t): _beside(file, str(p)) for t, p in sources.items()},
        target=_beside(file, str(data["target"])),
        keys={str(t): tuple(_columns(t, c)) for t, c in keys.items()},
        mode=str(data.get("mode", "auto")),
        **{name: data[name] for name in _OPTIONS if data.get(name) is not None},
    )


def _columns(table: object, columns: object) -> list[str]:
    if isinstance(columns, str):
        return [part.strip() for part in columns.split(",")]
    if isinstance(columns, list):
        return [str(column) for column in columns]
    raise _invalid(f"keys of '{table}' must be a list of columns")


def _read_sql(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DeltaJoinError(
            "MODEL_FILE",
            f"cannot read the SQL: {error}",
            where=str(path),
            remedy="Correct 'sql_file'; it is relative to the model's file.",
        ) from error


def _beside(file: Path, place: str) -> str:
    if not is_path(place) or "://" in place or place.startswith("file:"):
        return place
    return str((file.parent / place).resolve())


def _invalid(message: str, known: set[str] | None = None) -> DeltaJoinError:
    remedy = "Allowed: " + ", ".join(sorted(known)) + "." if known else "Correct the model."
    return DeltaJoinError("INVALID_MODEL", message, where="the model", remedy=remedy)
