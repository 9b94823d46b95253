"""The target's history: commits newest first, what their writers left in them, transactions."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from deltajoin.catalog import Column, load_target
from deltajoin.errors import DeltaJoinError

VALUES = pa.table({"a": pa.array([1, 2], pa.int32())})


def test_commits_come_newest_first_with_metadata_and_transactions(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, VALUES, configuration={"delta.appendOnly": "false"})
    noted = CommitProperties(
        custom_metadata={"userMetadata": '{"deltajoin":{"epoch":1}}'},
        app_transactions=[Transaction("model", 7)],
    )
    write_deltalake(path, VALUES, mode="append", commit_properties=noted)
    DeltaTable(path).optimize.compact()

    target = load_target(path + "/")

    assert target is not None
    assert (target.location, target.version) == (path, 2)
    assert target.columns == (Column("a", "int", True),)
    assert target.properties == (("delta.appendOnly", "false"),)
    commits = list(target.commits)
    assert [c.version for c in target.commits] == [2, 1, 0]
    assert [c.operation for c in target.commits] == ["OPTIMIZE", "WRITE", "WRITE"]
    assert [c.data_change for c in target.commits] == [False, True, True]
    assert [c.user_metadata for c in target.commits] == [None, '{"deltajoin":{"epoch":1}}', None]
    assert commits[1].metrics["num_added_rows"] == 2
    assert commits[0].timestamp_ms >= commits[2].timestamp_ms > 1_600_000_000_000
    assert (target.transaction("model"), target.transaction("other")) == (7, None)


def test_transactions_are_those_of_the_loaded_version(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, VALUES)
    target = load_target(path)
    noted = CommitProperties(app_transactions=[Transaction("model", 1)])
    write_deltalake(path, VALUES, mode="append", commit_properties=noted)
    assert target is not None
    assert target.transaction("model") is None


def test_history_goes_back_as_far_as_the_log(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for _ in range(3):
        write_deltalake(path, VALUES, mode="append")
    DeltaTable(path).create_checkpoint()
    for version in (0, 1):
        (path / "_delta_log" / f"{version:020d}.json").unlink()
    target = load_target(str(path))
    assert target is not None
    assert [c.version for c in target.commits] == [2]


def test_history_is_read_as_far_as_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for _ in range(3):
        write_deltalake(path, VALUES, mode="append")
    target = load_target(str(path))
    (path / "_delta_log" / f"{0:020d}.json").write_text("broken")
    assert target is not None
    one, other = iter(target.commits), iter(target.commits)
    assert [next(one).version, next(other).version, next(other).version] == [2, 2, 1]
    assert next(one).version == 1
    with pytest.raises(DeltaJoinError) as refused:
        next(one)
    assert refused.value.code == "TARGET_UNREADABLE"


@pytest.mark.parametrize("there", ["nothing", "empty", "ledger", "empty log"])
def test_nothing_there_is_no_target(tmp_path: Path, there: str) -> None:
    path = tmp_path / "t"
    folders = {"empty": "", "ledger": "_deltajoin/plans", "empty log": "_delta_log"}
    if there in folders:
        (path / folders[there]).mkdir(parents=True)
    assert load_target(str(path)) is None


@pytest.mark.parametrize("name", ["t/part.parquet", "t/_deltajoin2/x", "t"])
def test_anything_else_there_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("x")
    with pytest.raises(DeltaJoinError) as refusal:
        load_target(str(tmp_path / "t"))
    assert refusal.value.code == "TARGET_NOT_DELTA"
    assert refusal.value.where == str(tmp_path / "t")


def test_a_corrupt_log_is_not_taken_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(path, VALUES)
    (path / "_delta_log" / f"{0:020d}.json").write_text("{not json")
    with pytest.raises(DeltaJoinError) as refusal:
        load_target(str(path))
    assert refusal.value.code == "TARGET_UNREADABLE"
