"""Where a table's files can be read as plain Parquet, and which files those are.

Rule: files are read as Parquet only where Delta would do no more than that: no deletion vector, no
column mapping, no partitions, no reader feature that gives a file's bytes another meaning. Delta
loads a version's log and chooses its files by Spark jobs of its own, together most of a second. So
a table of few files is read whole, of another one the files that a change asks for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deltajoin.catalog.statistics import FileStatistics
from deltajoin.contract import FEW_FILES

if TYPE_CHECKING:
    from deltalake import DeltaTable

_MAPPING_PROPERTY = "delta.columnMapping.mode"
#: A plan holds no more files of a version, each with bounds of its values.
MOST_FILES = 512

_PLAIN_FEATURES = {
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "v2Checkpoint",
    "vacuumProtocolCheck",
}
_MEANING_IN_METADATA = ('"__CHAR_VARCHAR_TYPE_STRING"', '"EXISTS_DEFAULT"', '"__COLLATIONS"')
_SAFE_NAME = re.compile(r"[A-Za-z0-9._=-]+\Z")
_GLOB = re.compile(r"[{}\[\]*?\\]")


@dataclass(frozen=True)
class PlainFiles:
    """All files of a version: absolute paths in the order of `log`."""

    paths: tuple[str, ...]
    log: FileStatistics = field(repr=False, compare=False)

    @property
    def few(self) -> bool:
        """Whether all are read without Delta, where nothing tells which are asked for."""
        return len(self.paths) <= FEW_FILES


def plain_files_of(table: DeltaTable, location: str, log: FileStatistics) -> PlainFiles | None:
    """The files of a version of a plain table; None where they have deletion vectors, none or
    many."""
    if not 0 < log.files <= MOST_FILES:
        return None
    names = log.paths
    if not all(map(is_safe, names)) or _is_masked(table):
        return None
    paths = tuple(f"{location}/{name}" for name in names)
    return None if any(map(is_misread, paths)) else PlainFiles(paths, log)


def _is_masked(table: DeltaTable) -> bool:
    """True unless the log proves that no file has a deletion vector; checksum files only count."""
    from deltalake.exceptions import DeltaError

    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return False
    try:
        return any(batch.num_rows for batch in table.deletion_vectors())
    except DeltaError:
        return True


def is_plain(table: DeltaTable) -> bool:
    """True where files without deletion vector hold the rows as they are."""
    protocol, schema = table.protocol(), table.schema().to_json()
    return (
        not table.metadata().partition_columns
        and mapping(table) == "none"
        and set(protocol.reader_features or ()) <= _PLAIN_FEATURES
        and not any(mark in schema for mark in _MEANING_IN_METADATA)
    )


def mapping(table: DeltaTable) -> str:
    """The column mapping mode; none where there is none."""
    return (table.metadata().configuration.get(_MAPPING_PROPERTY) or "none").lower()


def is_safe(name: str) -> bool:
    """True for a file name that is written alike in a log, in a path and in SQL."""
    return _SAFE_NAME.match(name) is not None


def is_misread(path: str) -> bool:
    """True for a path that Spark would take for a pattern, or of a file that it passes over."""
    return is_pattern(path) or path.rpartition("/")[2].startswith(("_", "."))


def is_pattern(path: str) -> bool:
    """True for a path that Spark would take for a pattern of paths."""
    return _GLOB.search(path) is not None
