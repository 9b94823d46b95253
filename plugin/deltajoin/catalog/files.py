"""Where a table's files are: one small view of a folder, on local disk or in an object store.

Rule: local paths and `file:` URIs are served by the standard library alone; any other scheme goes
through deltalake's own filesystem, with the storage options in force and deltalake's environment
variables. A location is normalised once (`normalise`), and everything above compares and prints
that form only. Nothing here knows Delta.

A write is atomic on local disk: a finished temporary file takes the name, so that a kill at any
instruction leaves the old text or the whole new one. A killed write leaves its draft; a later one
in the folder removes it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from deltajoin.errors import DeltaJoinError
from deltajoin.storage import options_of


def normalise(location: str) -> str:
    """An absolute local path, or a URI of another scheme; never a trailing slash.

    Example:
        >>> normalise("file:///data/a%20b/"), normalise("s3://bucket/t/")
        ('/data/a b', 's3://bucket/t')
    """
    if location.startswith("file:"):
        location = unquote(urlsplit(location).path)
    elif "://" in location:
        return location.rstrip("/")
    return os.path.abspath(os.path.expanduser(location))


def overlap(one: str, other: str) -> bool:
    """Whether two locations are the same folder, also by links, or one lies in the other."""
    first, second = (f"{real(location)}/" for location in (one, other))
    return first.startswith(second) or second.startswith(first)


def real(location: str) -> str:
    """What is equal for two locations of one folder: without links, `s3a:` as `s3:`.

    Example:
        >>> real("s3a://lake/orders/")
        's3://lake/orders'
    """
    location = normalise(location)
    if "://" in location:
        return "s3" + location[3:] if location.startswith("s3a:") else location
    return os.path.realpath(location)


class Files(Protocol):
    """A folder: relative names with forward slashes in, content out; a missing file is None."""

    def read(self, rel: str) -> bytes | None: ...

    def write(self, rel: str, content: bytes) -> None:
        """Replace the file.

        Raises:
            DeltaJoinError: LEDGER_UNWRITABLE; the file is then as it was, or not there.
        """
        ...

    def remove(self, rel: str) -> None: ...
    def exists(self, rel: str) -> bool: ...
    def list(self, rel: str) -> tuple[str, ...]: ...

    def read_text(self, rel: str) -> str | None:
        """The content as UTF-8."""
        content = self.read(rel)
        return None if content is None else content.decode()

    def write_text(self, rel: str, text: str) -> None:
        """Write a text as UTF-8."""
        self.write(rel, text.encode())


def open_files(root: str) -> Files:
    """The folder at `root` (any form that `normalise` takes); it need not exist."""
    root = normalise(root)
    return RemoteFiles(root) if "://" in root else LocalFiles(root)


class LocalFiles(Files):
    """A folder on this machine."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    def read(self, rel: str) -> bytes | None:
        try:
            return (self._root / rel).read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def exists(self, rel: str) -> bool:
        return (self._root / rel).exists()

    def list(self, rel: str) -> tuple[str, ...]:
        """Names in a folder, sorted; unfinished writes (names with a leading dot) are not shown."""
        try:
            return tuple(sorted(n for n in os.listdir(self._root / rel) if not n.startswith(".")))
        except (FileNotFoundError, NotADirectoryError):
            return ()

    def remove(self, rel: str) -> None:
        (self._root / rel).unlink(missing_ok=True)

    def write(self, rel: str, content: bytes) -> None:
        path = self._root / rel
        with _writing(str(path)):
            path.parent.mkdir(parents=True, exist_ok=True)
            _remove_drafts(path.parent)
            descriptor, draft = tempfile.mkstemp(
                prefix=f".{path.name}.", suffix=".tmp", dir=path.parent
            )
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                os.chmod(draft, self._root.stat().st_mode & 0o666)  # as private as the table
                os.replace(draft, path)
            except BaseException:
                os.unlink(draft)
                raise
            _sync_folder(path.parent)


@contextmanager
def _writing(place: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DeltaJoinError(
            "LEDGER_UNWRITABLE",
            f"the file can't be written: {error.strerror or error}",
            where=place,
            remedy="Make room, or give the right to write there; then run again.",
        ) from error


def _remove_drafts(folder: Path) -> None:
    """Those of killed writes: a write that is under way takes no hour."""
    for draft in folder.glob(".*.tmp"):
        with suppress(OSError):
            if draft.stat().st_mtime < time.time() - 3600:
                draft.unlink()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class RemoteFiles(Files):
    """A folder in an object store, seen through deltalake."""

    def __init__(self, root: str) -> None:
        from deltalake._internal import DeltaFileSystemHandler

        self._root = root
        self._handler: Any = DeltaFileSystemHandler(root, options_of(root))

    def read(self, rel: str) -> bytes | None:
        try:
            stream = self._handler.open_input_file(rel)
        except FileNotFoundError:
            return None
        try:
            return bytes(stream.read(stream.size()))
        finally:
            stream.close()

    def exists(self, rel: str) -> bool:
        return bool(self._handler.get_file_info([rel])[0].type.value)

    def list(self, rel: str) -> tuple[str, ...]:
        found = self._handler.get_file_info_selector(rel, True, False)
        names = (str(info.base_name) for info in found)
        return tuple(sorted(n for n in names if not n.startswith(".")))

    def remove(self, rel: str) -> None:
        if self.exists(rel):
            self._handler.delete_file(rel)

    def write(self, rel: str, content: bytes) -> None:
        with _writing(f"{self._root}/{rel}"):
            stream = self._handler.open_output_stream(rel, None)
            stream.write(content)
            stream.close()
