"""What an epoch adds to the target's log: the record in its commit, by the columns it shows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import deltajoin
from deltajoin.contract import metadata_of
from deltajoin.runtime.record import record_of

SOURCES = ("a", "b", "c")


def size(folder: Path, read: int, unread: int = 0) -> int:
    """Bytes of the record of a join of three tables, so many columns of each; the names of folders
    that are compared have one length, for they stand in it."""
    for source in SOURCES:
        names = [f"{source}_{number:04d}" for number in range(read + unread)]
        table = pa.table({"id": [1], **{name: ["x"] for name in names}})
        write_deltalake(folder / source, table)
    shown = ", ".join(f"{s}.{s}_{number:04d}" for s in SOURCES for number in range(read))
    sql = f"SELECT a.id, {shown} FROM a JOIN b ON a.id = b.id JOIN c ON a.id = c.id"
    sources = {source: str(folder / source) for source in SOURCES}
    model = deltajoin.Model("m", sql, sources, str(folder / "t"), dict.fromkeys(SOURCES, ("id",)))
    plan = deltajoin.plan(model).to_dict()
    record = record_of(plan, plan["target"], [], {}) | {"columns": plan["target"]["columns"]}
    return len(metadata_of(record).encode())


@pytest.fixture
def small(tmp_path: Path) -> int:
    return size(tmp_path / "small", 10)


def test_a_column_costs_its_name(small: int, tmp_path: Path) -> None:
    """The figure of note 35."""
    more = size(tmp_path / "large", 60) - small
    assert more == 50 * len(SOURCES) * (len("a_0000") + 4)


def test_a_wide_record_is_packed(small: int, tmp_path: Path) -> None:
    """3,000 columns, whose names alone are 30 KB."""
    assert size(tmp_path / "wide", 1000) < small + 10_000


def test_a_column_that_is_not_read_costs_nothing(small: int, tmp_path: Path) -> None:
    assert size(tmp_path / "wider", 10, unread=50) == small
