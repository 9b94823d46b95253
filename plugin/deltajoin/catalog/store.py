"""The ledger's folder beside a target: `<target location>/_deltajoin/`.

Rule: a name is visible only with its whole text. Delta leaves the folder alone: its name
starts with an underscore, so reads, DataFrame writes, overwrites and VACUUM of Spark with Delta 4.4
and of delta-rs pass it by (`tests/unit/test_catalog_store.py` checks both). Only Spark's plain
CREATE TABLE delta.`path` refuses a folder that exists: create a target by a DataFrame write.
"""

from __future__ import annotations

from deltajoin.catalog.files import normalise, open_files

FOLDER = "_deltajoin"


class Store:
    """Small files under `<location>/_deltajoin`, by names such as `plans/00000001.json`."""

    def __init__(self, location: str) -> None:
        self.location = normalise(location)
        self._files = open_files(f"{self.location}/{FOLDER}")

    def read_text(self, rel: str) -> str | None:
        """The whole text, or None when the name is not there."""
        return self._files.read_text(rel)

    def write_text(self, rel: str, text: str) -> None:
        """Set the text, atomically; folders are made as needed."""
        self._files.write_text(rel, text)

    def read(self, rel: str) -> bytes | None:
        """The whole content, or None when the name is not there."""
        return self._files.read(rel)

    def write(self, rel: str, content: bytes) -> None:
        """Set the content, atomically; folders are made as needed."""
        self._files.write(rel, content)

    def remove(self, rel: str) -> None:
        """Take the name away, if it is there."""
        self._files.remove(rel)

    def list(self, rel_dir: str) -> tuple[str, ...]:
        """The names in a folder, sorted, without unfinished writes; () when it is not there."""
        return self._files.list(rel_dir)

    def exists(self, rel: str) -> bool:
        return self._files.exists(rel)
