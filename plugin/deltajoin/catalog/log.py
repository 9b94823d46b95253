"""The commits of a Delta log, read from their JSON files.

Rule: a commit is what its file says and nothing more; a commit without a file is None, never
guessed. Whether a commit changed data is told by `dataChange` on its adds and removes, and by
change files: OPTIMIZE, VACUUM, property changes and writes of nothing are no change. A row can
leave a table only through a remove, so a changing commit without one only inserts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from deltajoin.catalog.files import Files, normalise

LOG = "_delta_log"
Action = Mapping[str, Any]

_COMMIT_FILE = re.compile(r"(\d{20})\.json\Z")
_CHECKPOINT_FILE = re.compile(r"(\d{20})\.checkpoint\..*(parquet|json)\Z")
_RECORDS = re.compile(r'"numRecords"\s*:\s*(\d+)')
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_UUID_CHARS = 20
_REPLACING = ("CREATE OR REPLACE", "REPLACE TABLE", "RESTORE")
_EVERY_ROW = ("[]", "true", '["true"]')


@dataclass(frozen=True)
class Commit:
    """One commit; actions as plain mappings, in the file's order. `clusters` are the physical names
    of the columns by which it clusters the table; None where it says nothing of it."""

    version: int
    info: Action
    metadata: Action | None
    adds: tuple[Action, ...]
    removes: tuple[Action, ...]
    changes: tuple[Action, ...]
    clusters: tuple[str, ...] | None = None

    @property
    def data_change(self) -> bool:
        """Whether any row may have come or gone."""
        return bool(self.changes) or any(a.get("dataChange") for a in self.adds + self.removes)

    @property
    def insert_only(self) -> bool:
        """Whether it changed data and no row left."""
        return self.data_change and not any(r.get("dataChange") for r in self.removes)

    @property
    def feed_is_short(self) -> bool:
        """Whether its change files may lack rows: an UPDATE of delta-rs (seen in 1.6) leaves out
        what becomes equal to a row that was there, and of equal rows all but one."""
        engine, operation = self.info.get("engineInfo"), self.info.get("operation")
        return bool(self.changes) and operation == "UPDATE" and "delta-rs" in str(engine)

    @property
    def replaced(self) -> bool:
        """Whether rows left because the whole content was exchanged: overwrite, CREATE OR REPLACE,
        RESTORE, a delete of everything. Part of a table (replaceWhere) is an ordinary change."""
        if not self.data_change or self.insert_only:
            return False
        operation = str(self.info.get("operation") or "").upper()
        parameters = self.info.get("operationParameters") or {}
        whole = str(parameters.get("predicate") or "[]") in _EVERY_ROW
        if operation.startswith(_REPLACING):
            return True
        if operation == "WRITE":
            dynamic = str(parameters.get("isDynamicPartitionOverwrite")).lower() == "true"
            return whole and not dynamic and str(parameters.get("mode")).lower() == "overwrite"
        return operation in ("DELETE", "TRUNCATE") and whole


def commit_digest(files: Files, version: int) -> str | None:
    """What tells a commit from another one of the same version: 16 hexadecimal digits of the
    SHA-256 of its file. None when the file is gone."""
    content = files.read(f"{LOG}/{version:020d}.json")
    return None if content is None else hashlib.sha256(content).hexdigest()[:16]


def read_commit(files: Files, version: int) -> Commit | None:
    """The commit that made a version, or None when its file is gone."""
    text = files.read_text(f"{LOG}/{version:020d}.json")
    return None if text is None else parse_commit(version, text)


def parse_commit(version: int, text: str) -> Commit:
    """A commit from the lines of its file; raises ValueError on anything but JSON objects."""
    found: dict[str, list[Action]] = {}
    for line in text.split("\n"):
        if line.strip():
            for kind, body in json.loads(line).items():
                found.setdefault(kind, []).append(body)
    return Commit(
        version=version,
        info=next(iter(found.get("commitInfo", ())), {}),
        metadata=next(iter(found.get("metaData", ())), None),
        adds=tuple(found.get("add", ())),
        removes=tuple(found.get("remove", ())),
        changes=tuple(found.get("cdc", ())),
        clusters=_clusters(found.get("domainMetadata", ())),
    )


def _clusters(domains: Iterable[Action]) -> tuple[str, ...] | None:
    for domain in domains:
        if domain["domain"] == "delta.clustering":
            clusters = {} if domain["removed"] else json.loads(domain["configuration"])
            return tuple(".".join(path) for path in clusters.get("clusteringColumns", ()))
    return None


def commit_versions(files: Files) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The versions with a commit file, and those with a checkpoint, ascending."""
    commits, checkpoints = set(), set()
    for name in files.list(LOG):
        if match := _COMMIT_FILE.match(name):
            commits.add(int(match[1]))
        elif match := _CHECKPOINT_FILE.match(name):
            checkpoints.add(int(match[1]))
    return tuple(sorted(commits)), tuple(sorted(checkpoints))


def records(action: Action) -> int | None:
    """Rows of a file that its deletion vector leaves, or None when it has no count."""
    match = _RECORDS.search(action.get("stats") or "")
    if match is None:
        return None
    return int(match[1]) - int((action.get("deletionVector") or {}).get("cardinality", 0))


def file_key(action: Action) -> tuple[str, str]:
    """What identifies a logical file: its path and its deletion vector."""
    vector = action.get("deletionVector") or {}
    return str(action["path"]), f"{vector.get('pathOrInlineDv', '')}@{vector.get('offset', '')}"


def paths_of(action: Action) -> tuple[str, ...]:
    """The files an add, remove or change stands on: relative to the table, or absolute."""
    vector = action.get("deletionVector") or {}
    own = (_decoded(str(action["path"])),)
    kind, text = vector.get("storageType"), str(vector.get("pathOrInlineDv", ""))
    if kind == "u":
        return (*own, _vector_path(text))
    return (*own, _decoded(text)) if kind == "p" else own


def _decoded(path: str) -> str:
    """Log paths are URL-encoded; absolute ones may be `file:` URIs."""
    if path.startswith("file:"):
        return normalise(path)
    return path if "://" in path else unquote(path)


def _vector_path(text: str) -> str:
    """`<random prefix><20 characters of Z85>` -> `<prefix>/deletion_vector_<uuid>.bin`."""
    prefix, encoded = text[:-_UUID_CHARS], text[-_UUID_CHARS:]
    data = b""
    for start in range(0, _UUID_CHARS, 5):
        value = 0
        for char in encoded[start : start + 5]:
            value = value * 85 + _Z85.index(char)
        data += value.to_bytes(4, "big")
    digits = data.hex()
    cuts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    name = f"deletion_vector_{'-'.join(cuts)}.bin"
    return f"{prefix}/{name}" if prefix else name
