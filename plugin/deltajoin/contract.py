"""What the planner and the job on a cluster agree on; with `names`, `errors` and `storage` it is
shipped.

Rule: only the standard library is imported here. The truth about an epoch is the record in the
metadata of the target's commit, as JSON under the key `deltajoin`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import zlib
from collections.abc import Iterable
from typing import Any

#: Version of what plans and records look like.
FORMAT = 1
#: Kinds of targets whose table lies under a view in a catalog, and the end of that table's name.
UNDER_A_VIEW = ("bag", "grouped")
BACKING_SUFFIX = "__deltajoin"
#: With what each target is made, unless its model declares it otherwise. Models that read a target
#: need the feed.
FEED_PROPERTY = "delta.enableChangeDataFeed"
PROPERTIES = {FEED_PROPERTY: "true", "delta.enableDeletionVectors": "true"}
#: So many Parquet files of a version are read without Delta: Spark lists them without a job.
FEW_FILES = 32
#: Static files of so many bytes together are told by their content.
HASHED_BYTES = 64 * 1024 * 1024
_KEY = "deltajoin"
#: A record of more characters is packed: compressed JSON, in base64.
PACKED_LENGTH = 16 * 1024
_PACKED = "packed"
#: What stands beside a packed record, for people and their tools.
_PLAIN = ("epoch", "model", "strategy", "reason", "rows", "run_id")
#: The ledger's folder in that of the target. Reads, DataFrame writes and VACUUM of Spark and of
#: delta-rs pass it by for its underscore; only where Spark makes a table, nothing may be there.
LEDGER = "_deltajoin"
#: The setting that names a submission to its job, if the submitter reads what the job leaves.
SUBMISSION = "spark.deltajoin.submission"


def metadata_of(record: dict[str, Any]) -> str:
    """The metadata of a commit that carries a record; a long one is packed but for `_PLAIN`."""
    text = json.dumps({_KEY: record}, sort_keys=True, ensure_ascii=False)
    if len(text) <= PACKED_LENGTH:
        return text
    plain = {name: record[name] for name in _PLAIN if name in record}
    packed = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
    return json.dumps({_KEY: {**plain, _PACKED: packed}}, sort_keys=True, ensure_ascii=False)


def committed_record(metadata: str | None) -> dict[str, Any] | None:
    """The record in a commit's metadata; None for a commit that is not ours.

    Example:
        >>> committed_record(metadata_of({"epoch": 3})), committed_record("by hand")
        ({'epoch': 3}, None)
        >>> wide = {"epoch": 3, "columns": [f"column_{n}" for n in range(5000)]}
        >>> len(metadata_of(wide)) < 20_000, committed_record(metadata_of(wide)) == wide
        (True, True)
    """
    if not metadata or f'"{_KEY}"' not in metadata:
        return None
    try:
        record = json.loads(metadata).get(_KEY)
        if isinstance(record, dict) and _PACKED in record:
            text = zlib.decompress(base64.b64decode(record[_PACKED]))
            record = json.loads(text)[_KEY]
    except (ValueError, AttributeError, KeyError, TypeError, zlib.error):
        return None
    return record if isinstance(record, dict) and "epoch" in record else None


def failure_folder(location: str, exists: bool) -> str:
    """Where a job leaves its error, for a submitter that can't read the driver's log: in the
    ledger's folder, which a target that is not there yet can't have.

    Example:
        >>> failure_folder("/lake/joined", True), failure_folder("/lake/joined", False)
        ('/lake/joined/_deltajoin/failed', '/lake/_deltajoin/joined')
    """
    parent, _, name = location.rpartition("/")
    return f"{location}/{LEDGER}/failed" if exists else f"{parent}/{LEDGER}/{name}"


def fingerprint_of(paths: Iterable[str]) -> int:
    """The version of static files: a number made from their names and contents, or from names,
    sizes and times where they are large. 48 bits, which JSON and every reader of it keeps exact.

    Raises:
        OSError: where a file is gone.
    """
    digest = hashlib.sha256()
    states = {path: os.stat(path) for path in paths}
    whole = sum(state.st_size for state in states.values()) <= HASHED_BYTES
    for path, state in states.items():
        stamp = "" if whole else f" {state.st_mtime_ns}"
        digest.update(f"{os.path.basename(path)} {state.st_size}{stamp}\n".encode())
        if whole:
            with open(path, "rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return int.from_bytes(digest.digest()[:6], "big")
