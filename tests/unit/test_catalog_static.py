"""Parquet and CSV files as sources: what they are named by, their columns, their fingerprint."""

from __future__ import annotations

import datetime
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from deltajoin import DeltaJoinError, contract
from deltajoin.catalog import Changes, Consumed, TableState, load_source, read_changes

RATES = pa.table({"Code": ["a", "b"], "rate": pa.array([1, 2], pa.int32())})


def changes(now: TableState, then: TableState) -> Changes:
    return read_changes(now, Consumed(then.table_id, then.version, then.columns), ["code"])


def refused(place: Path | str) -> DeltaJoinError:
    with pytest.raises(DeltaJoinError) as caught:
        load_source("s", str(place))
    assert str(caught.value.where).startswith("s: ")
    return caught.value


def test_a_parquet_file(tmp_path: Path) -> None:
    pq.write_table(RATES, tmp_path / "rates.parquet")
    table = load_source("s", str(tmp_path / "rates.parquet"))
    assert [(c.name, c.type) for c in table.columns] == [("Code", "string"), ("rate", "int")]
    assert (table.rows, table.files, table.change_feed) == (2, 1, False)
    assert table.static is not None
    assert table.static.paths == (str(tmp_path / "rates.parquet"),)
    assert table.static.schema == "`Code` string, `rate` int"
    assert 0 < table.version < 2**48


@pytest.mark.parametrize("spelled", ["rates.parquet", "rates.parquet/", "rates.parquet/*.parquet"])
def test_a_folder_of_parquet_files(tmp_path: Path, spelled: str) -> None:
    folder = tmp_path / "rates.parquet"
    folder.mkdir()
    for name in ("b.parquet", "a.parquet", "_temporary.parquet", ".hidden.parquet"):
        pq.write_table(RATES, folder / name)
    (folder / "_SUCCESS").write_text("")
    (folder / "below.parquet").mkdir()
    table = load_source("s", f"{tmp_path}/{spelled}")
    assert table.static is not None
    assert [os.path.basename(p) for p in table.static.paths] == ["a.parquet", "b.parquet"]
    assert (table.location, table.rows) == (str(folder), 4)


def test_types_are_those_that_spark_reads(tmp_path: Path) -> None:
    now = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)
    data = pa.table(
        {
            "d": [now.date()],
            "t": pa.array([now], pa.timestamp("us", "UTC")),
            "n": pa.array([now.replace(tzinfo=None)], pa.timestamp("us")),
            "m": [Decimal("1.50")],
            "s": [{"x": 1}],
            "l": [["a"]],
        }
    )
    pq.write_table(data, tmp_path / "all.parquet")
    types = [c.type for c in load_source("s", str(tmp_path / "all.parquet")).columns]
    assert types == [
        "date",
        "timestamp",
        "timestamp_ntz",
        "decimal(3,2)",
        "struct<x:bigint>",
        "array<string>",
    ]


def test_a_csv_file_has_strings_only(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text('code,"the ""rate"""\na,1\n')
    table = load_source("s", str(tmp_path / "r.csv"))
    names = [("code", "string"), ('the "rate"', "string")]
    assert [(c.name, c.type) for c in table.columns] == names
    assert table.rows is None


@pytest.mark.parametrize("text", ["", "a,,b\n", "a,A\n", '"a\n', "\ufeffa,b\n"])
def test_a_csv_file_without_a_header_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.csv").write_text(text)
    assert refused(tmp_path / "r.csv").code == "SOURCE_UNREADABLE"


def test_files_that_differ_in_columns_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n")
    (tmp_path / "b.csv").write_text("y,x\n")
    error = refused(tmp_path / "*.csv")
    assert error.code == "SOURCE_UNREADABLE"
    assert "b.csv" in error.message


@pytest.mark.parametrize("name", ["none.csv", "none.parquet", "none/*.csv"])
def test_no_file_is_a_missing_source(tmp_path: Path, name: str) -> None:
    assert refused(tmp_path / name).code == "SOURCE_MISSING"


def test_what_spark_would_take_for_a_pattern_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a[1].csv").write_text("x\n")
    assert refused(tmp_path / "a[1].csv").code == "SOURCE_UNREADABLE"


def test_a_broken_parquet_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.parquet").write_text("no")
    assert refused(tmp_path / "r.parquet").code == "SOURCE_UNREADABLE"


def test_a_folder_that_does_not_say_so_is_no_source(tmp_path: Path) -> None:
    pq.write_table(RATES, tmp_path / "a.parquet")
    assert refused(tmp_path).code == "SOURCE_NOT_DELTA"


def test_a_delta_table_of_such_a_name_is_a_delta_table(tmp_path: Path) -> None:
    path = tmp_path / "rates.parquet"
    write_deltalake(path, RATES)
    table = load_source("s", str(path))
    assert (table.static, table.version) == (None, 0)


@pytest.mark.parametrize("hashed", [0, contract.HASHED_BYTES], ids=["by time", "by content"])
def test_the_fingerprint_notices_every_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hashed: int
) -> None:
    monkeypatch.setattr(contract, "HASHED_BYTES", hashed)
    file = tmp_path / "r.csv"

    def put(text: str, at: int) -> TableState:
        file.write_text(text)
        os.utime(file, (at, at))
        return load_source("s", str(tmp_path / "*.csv"))

    first = put("code\na\n", 1)
    assert changes(put("code\na\n", 1), first).kind == "noop"
    found = changes(put("code\nb\n", 2), first)
    assert (found.kind, found.problem) == ("replaced", "STATIC_SOURCE_CHANGED")
    again = changes(put("code\na\n", 3), first)
    assert again.problem == ("STATIC_SOURCE_CHANGED" if hashed == 0 else None)
    (tmp_path / "more.csv").write_text("code\n")
    assert changes(load_source("s", str(tmp_path / "*.csv")), first).problem


def test_a_table_in_the_place_of_files_and_the_other_way_round(tmp_path: Path) -> None:
    path: Any = tmp_path / "rates.parquet"
    pq.write_table(RATES, path)
    files = load_source("s", str(path))
    path.unlink()
    write_deltalake(path, RATES)
    table = load_source("s", str(path))
    assert changes(table, files).problem == "SOURCE_RECREATED"
    assert changes(files, table).problem == "SOURCE_RECREATED"
