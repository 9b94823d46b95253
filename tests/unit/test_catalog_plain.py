"""Which tables are read as the Parquet files that they consist of."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from deltajoin.catalog import load_table, plain, plain_files
from deltajoin.delta import sources
from deltajoin.delta.path import SourceVersion
from deltajoin.delta.sources import with_files

VECTOR = {
    "storageType": "u",
    "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
    "offset": 4,
    "sizeInBytes": 40,
    "cardinality": 1,
}
ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})


def test_the_files_of_each_version_hold_its_rows(tmp_path: Path) -> None:
    location = str(tmp_path / "t")
    write_deltalake(location, ROWS)
    write_deltalake(location, ROWS, mode="append")
    table = DeltaTable(location)
    table.optimize.compact()
    table.delete("id = 2")
    counts = []
    for version in range(table.version() + 1):
        files = plain_files(location, version)
        assert files is not None
        assert files == load_table("t", location, version).plain
        paths = files.paths
        assert all(path.startswith(f"{location}/") for path in paths)
        read = [row["id"] for path in paths for row in pq.read_table(path).to_pylist()]
        counts.append(sorted(read))
    twice = [1, 1, 2, 2, 3, 3]
    assert counts == [[1, 2, 3], twice, twice, [1, 1, 3, 3]]


def test_no_table_no_version_and_no_row_have_no_files(tmp_path: Path) -> None:
    location = str(tmp_path / "t")
    assert plain_files(location, 0) is None
    write_deltalake(location, ROWS.slice(0, 0))
    assert plain_files(location, 0) is None
    write_deltalake(location, ROWS, mode="append")
    assert number_of_files(location, 1) == 1
    assert plain_files(location, 2) is None


def test_a_log_is_opened_again_for_another_version_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = str(tmp_path / "t")
    write_deltalake(location, ROWS)
    write_deltalake(location, ROWS, mode="append")
    state, opened = load_table("t", location), list[int]()
    source = SourceVersion(
        source="t",
        location=location,
        table_id=state.table_id,
        version=1,
        previous=1,
        rows=6,
        change_rows=0,
        columns=(("id", "bigint"),),
    )
    monkeypatch.setattr(sources, "plain_files", lambda _, version: opened.append(version))
    assert with_files(source, state).plain == ((1, state.plain),)
    assert opened == []
    before = replace(source, previous=0, change_rows=3)
    assert with_files(before, state).plain == ((1, state.plain),)
    assert opened == [0]
    assert with_files(before, replace(state, files=1000, plain=None)).plain == ()
    assert opened == [0]


def test_files_tell_bounds_as_integers(tmp_path: Path) -> None:
    """None of texts, of a file of NULLs, of a column that is not there."""
    location = str(tmp_path / "t")
    last = datetime(9999, 12, 31, 23, 59, 59, 999_000)
    for n, day, at in ((-1, date(1969, 12, 31), datetime(1970, 1, 1)), (None, None, last)):
        rows = {"n": [n], "day": [day], "at": [at], "s": ["a"], "yes": [True]}
        kinds = {"n": pa.int64(), "day": pa.date32(), "at": pa.timestamp("us")}
        kinds |= {"s": pa.string(), "yes": pa.bool_()}
        write_deltalake(location, pa.table(rows, schema=pa.schema(kinds.items())), mode="append")
    files = plain_files(location, 1)
    assert files
    order = sorted(range(2), key=lambda at: files.log.integers("at")[at] != (0, 1000, False))
    found = {name: [files.log.integers(name)[at] for at in order] for name in (*kinds, "missing")}
    end = (last - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    assert found == {
        "n": [(-1, -1, False), None],
        "day": [(-1, -1, False), None],
        "at": [(0, 1000, False), (end, end + 999, False)],
        **{name: [None, None] for name in ("s", "yes", "missing")},
    }


def number_of_files(location: str, version: int) -> int:
    files = plain_files(location, version)
    return len(files.paths) if files else 0


def test_tables_of_many_files_are_left_to_delta(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = str(tmp_path / "t")
    for _ in range(3):
        write_deltalake(location, ROWS, mode="append")
    files = plain_files(location, 2)
    assert files is not None
    assert len(files.paths) == 3
    assert files.few
    monkeypatch.setattr(plain, "FEW_FILES", 2)
    assert not files.few
    monkeypatch.setattr(plain, "MOST_FILES", 2)
    assert plain_files(location, 2) is None


def test_partitions_and_patterns_are_left_to_delta(tmp_path: Path) -> None:
    location = str(tmp_path / "by_name")
    write_deltalake(location, ROWS, partition_by=["name"])
    assert plain_files(location, 0) is None
    assert [plain.is_pattern(path) for path in ("/a*/b", "/a[b]/c", "/a b/c.d")] == [1, 1, 0]
    plainly = str(tmp_path / "a b")
    write_deltalake(plainly, ROWS)
    assert number_of_files(plainly, 0) == 1


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ({}, 1),
        ({"add": {"deletionVector": VECTOR}}, 0),
        ({"add": {"path": "a%20b.parquet"}}, 0),
        ({"metaData": {"delta.columnMapping.mode": "name"}}, 0),
        ({"features": ["typeWidening"]}, 0),
        ({"features": ["deletionVectors", "timestampNtz"]}, 1),
        ({"marks": {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}}, 0),
    ],
)
def test_what_gives_bytes_another_meaning_is_left_to_delta(
    tmp_path: Path, change: dict[str, Any], left: int
) -> None:
    """A log as Spark writes it; a checksum file that is wrong about masked rows changes nothing."""
    column = {"name": "id", "type": "long", "nullable": True, "metadata": change.get("marks", {})}
    metadata = {
        "id": "0",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": [column]}),
        "partitionColumns": [],
        "configuration": change.get("metaData", {}),
    }
    features = change.get("features", ["deletionVectors"])
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": features,
    }
    add = {
        "path": "a.parquet",
        "partitionValues": {},
        "size": 100,
        "modificationTime": 0,
        "dataChange": True,
        "stats": '{"numRecords": 3}',
        **change.get("add", {}),
    }
    actions = [{"protocol": protocol}, {"metaData": metadata}, {"add": add}]
    log = tmp_path / "t" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    (log / f"{0:020d}.crc").write_text(json.dumps({"numDeletedRecordsOpt": 0}))
    assert number_of_files(str(tmp_path / "t"), 0) == left
