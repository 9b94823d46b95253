"""Commit kinds, the previous version, row estimates and every problem code, by delta-rs."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from deltajoin.catalog import Changes, Consumed, load_table, read_changes
from deltajoin.catalog.difference import feed_files
from deltajoin.catalog.files import open_files
from deltajoin.catalog.log import read_commit
from deltajoin.delta.path import SourceVersion
from deltajoin.emit.change import feed_of
from deltajoin.names import COUNT
from deltajoin.sql.bind import bind

FEED = {"delta.enableChangeDataFeed": "true"}
USED = ("id", "S")


def rows(*ids: int, **more: object) -> pa.Table:
    columns: dict[str, object] = {"Id": list(ids), "s": [f"v{i}" for i in ids], "n": list(ids)}
    return pa.table(columns | more)


class Source:
    """A source with the change feed on, consumed at its version 1 (rows 1 to 6 in two files)."""

    def __init__(self, path: Path, configuration: dict[str, str] | None = None) -> None:
        self.path = path
        write_deltalake(path, rows(1, 2, 3), configuration=configuration or FEED)
        self.append(4, 5, 6)
        self.consumed = self.consume()

    def consume(self) -> Consumed:
        table = load_table("s", str(self.path))
        return Consumed(table.table_id, table.version, table.columns, table.commit)

    def append(self, *ids: int) -> None:
        write_deltalake(self.path, rows(*ids), mode="append")

    def overwrite(self, data: pa.Table) -> None:
        write_deltalake(self.path, data, mode="overwrite", schema_mode="overwrite")

    def delete(self, predicate: str | None = None) -> None:
        DeltaTable(self.path).delete(predicate)

    def update(self, predicate: str) -> None:
        DeltaTable(self.path).update(updates={"n": "n + 1"}, predicate=predicate)

    def merge(self, *ids: int) -> None:
        merge = DeltaTable(self.path).merge(
            rows(*ids, n=[-1] * len(ids)), 's."Id" = t."Id"', source_alias="s", target_alias="t"
        )
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def optimize(self) -> None:
        DeltaTable(self.path).optimize.compact()

    def vacuum(self) -> None:
        DeltaTable(self.path).vacuum(0, dry_run=False, enforce_retention_duration=False)

    def feed(self, state: str) -> None:
        DeltaTable(self.path).alter.set_table_properties({"delta.enableChangeDataFeed": state})

    def commit_file(self, version: int) -> Path:
        return self.path / "_delta_log" / f"{version:020d}.json"

    def actions(self, version: int, kind: str) -> list[dict[str, str]]:
        lines = self.commit_file(version).read_text().splitlines()
        return [json.loads(line)[kind] for line in lines if kind in json.loads(line)]

    def changes(self, used: tuple[str, ...] = USED) -> Changes:
        return read_changes(load_table("s", str(self.path)), self.consumed, used)


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path / "t")


def told(changes: Changes) -> tuple[str, int, int, int | None, str | None]:
    return changes.kind, changes.previous, changes.this, changes.rows, changes.problem


def test_the_same_version_is_no_change(source: Source) -> None:
    assert told(source.changes()) == ("noop", 1, 1, 0, None)


def test_compaction_vacuum_and_properties_are_no_change(source: Source) -> None:
    source.optimize()
    source.vacuum()
    retention = {"delta.logRetentionDuration": "interval 9 days"}
    DeltaTable(source.path).alter.set_table_properties(retention)
    DeltaTable(source.path).create_checkpoint()
    this = load_table("s", str(source.path)).version
    assert this >= 5
    assert told(source.changes()) == ("noop", this, this, 0, None)


@pytest.mark.parametrize(
    ("work", "kind", "estimate"),
    [
        (lambda s: s.append(7, 8), "insert_only", 2),
        (lambda s: s.delete('"Id" = 1'), "mutating", 1),
        (lambda s: s.update('"Id" < 3'), "mutating", 2),
        (lambda s: s.merge(6, 7, 8), "mutating", 3),
        (lambda s: s.merge(7, 8), "insert_only", 2),
        (lambda s: s.delete(), "replaced", 6),
        (lambda s: s.overwrite(rows(1, 2)), "replaced", 8),
        (lambda s: (s.append(7), s.update('"Id" = 7')), "mutating", 2),
        (lambda s: (s.append(7), s.overwrite(rows(1))), "replaced", 9),
        (lambda s: (s.append(7), s.optimize(), s.append(8)), "insert_only", 2),
    ],
)
def test_kinds_and_estimates(
    source: Source, work: Callable[[Source], object], kind: str, estimate: int
) -> None:
    work(source)
    this = load_table("s", str(source.path)).version
    assert told(source.changes()) == (kind, 1, this, estimate, None)


def test_previous_passes_leading_commits_without_changed_rows(source: Source) -> None:
    source.optimize()
    source.vacuum()
    previous = load_table("s", str(source.path)).version
    source.append(7)
    source.optimize()
    this = load_table("s", str(source.path)).version
    assert told(source.changes()) == ("insert_only", previous, this, 1, None)
    assert DeltaTable(source.path, version=previous).to_pyarrow_table().num_rows == 6


def test_an_insert_without_counts_has_no_estimate(source: Source) -> None:
    source.append(7)
    file = source.commit_file(2)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        line.get("add", {}).pop("stats", None)
    file.write_text("\n".join(json.dumps(line) for line in lines))
    assert told(source.changes()) == ("insert_only", 1, 2, None, None)


# --- another past -------------------------------------------------------------------------------


def test_a_recreated_table_is_named_whatever_its_version(tmp_path: Path) -> None:
    for appends in (0, 1, 3):
        source = Source(tmp_path / str(appends))
        shutil.rmtree(source.path)
        write_deltalake(source.path, rows(1), configuration=FEED)
        for _ in range(appends):
            source.append(2)
        changes = source.changes()
        assert changes.problem == "SOURCE_RECREATED"
        assert source.consumed.table_id in changes.detail


def test_a_lower_version_is_a_rollback(source: Source) -> None:
    source.commit_file(1).unlink()
    assert source.changes().problem == "SOURCE_ROLLED_BACK"


@pytest.mark.parametrize("later", [0, 1])
def test_a_folder_put_back_from_a_copy_has_another_past(source: Source, later: int) -> None:
    copy = source.path.with_name("copy")
    shutil.copytree(source.path, copy)
    source.append(7)
    source.consumed = source.consume()
    assert source.changes().kind == "noop"
    shutil.rmtree(source.path)
    shutil.copytree(copy, source.path)
    for number in range(1 + later):
        source.append(8 + number)
    changes = source.changes()
    assert (changes.problem, changes.this) == ("SOURCE_ROLLED_BACK", 2 + later)
    source.consumed = replace(source.consumed, commit=None)  # as an older release recorded it
    assert source.changes().problem is None


def test_restore_is_a_change_like_any_other(source: Source) -> None:
    source.delete('"Id" = 1')
    source.consumed = source.consume()
    DeltaTable(source.path).restore(1)
    assert told(source.changes()) == ("replaced", 2, 3, 5, None)


# --- columns ------------------------------------------------------------------------------------


def test_added_columns_are_fine(source: Source) -> None:
    write_deltalake(source.path, rows(7, extra=[1]), mode="append", schema_mode="merge")
    assert told(source.changes()) == ("insert_only", 1, 2, 1, None)


@pytest.mark.parametrize(
    "data",
    [rows(1).drop_columns(["s"]), rows(1).set_column(1, "s", [[5]])],
    ids=["gone", "retyped"],
)
def test_a_used_column_gone_or_retyped_is_named(source: Source, data: pa.Table) -> None:
    source.overwrite(data)
    changes = source.changes()
    assert changes.problem == "SOURCE_SCHEMA_CHANGED"
    assert "'s'" in changes.detail
    source.consumed = source.consume()
    assert source.changes().problem is None


def test_an_unused_column_dropped_in_the_first_change_is_fine(source: Source) -> None:
    source.overwrite(rows(1).drop_columns(["n"]))
    assert told(source.changes()) == ("replaced", 1, 2, 7, None)


def test_an_unused_column_dropped_between_changes_stops_only_the_feed(source: Source) -> None:
    source.append(7)
    source.overwrite(rows(1).drop_columns(["n"]))
    changes = source.changes()
    assert told(changes) == ("replaced", 1, 3, 9, None)
    assert changes.method == "files"
    assert changes.why.startswith("SOURCE_SCHEMA_CHANGED: column 'n'")


def test_a_column_retyped_and_back_stops_only_the_feed(source: Source) -> None:
    source.overwrite(rows(1).set_column(1, "s", [[5]]))
    source.overwrite(rows(1))
    changes = source.changes()
    assert (changes.problem, changes.method) == (None, "files")
    assert "'s'" in changes.why


def test_a_replacement_with_the_same_columns_is_fine(source: Source) -> None:
    source.append(7)
    source.overwrite(rows(1))
    assert told(source.changes()) == ("replaced", 1, 3, 9, None)


# --- the feed -----------------------------------------------------------------------------------


def test_without_a_feed_only_changed_rows_matter(tmp_path: Path) -> None:
    source = Source(tmp_path / "t", {"delta.appendOnly": "false"})
    source.optimize()
    assert told(source.changes()) == ("noop", 2, 2, 0, None)
    source.append(7)
    changes = source.changes()
    assert told(changes) == ("insert_only", 2, 3, 1, None)
    assert changes.method == "files"
    assert changes.why.startswith("NO_CHANGE_FEED: ")
    assert "version 3" in changes.why


def test_a_feed_switched_on_before_the_first_change_is_enough(tmp_path: Path) -> None:
    source = Source(tmp_path / "t", {"delta.appendOnly": "false"})
    source.feed("true")
    source.append(7)
    assert told(source.changes()) == ("insert_only", 2, 3, 1, None)


def test_a_feed_switched_on_after_the_first_change_is_not(tmp_path: Path) -> None:
    source = Source(tmp_path / "t", {"delta.appendOnly": "false"})
    source.append(7)
    source.feed("true")
    source.append(8)
    assert told(source.changes()) == ("insert_only", 1, 4, 2, None)
    assert "NO_CHANGE_FEED" in source.changes().why


def test_a_pause_of_the_feed_is_noticed(source: Source) -> None:
    source.append(7)
    source.feed("false")
    source.delete('"Id" = 1')
    source.feed("true")
    source.append(8)
    changes = source.changes()
    assert told(changes) == ("mutating", 1, 6, 3, None)
    assert "NO_CHANGE_FEED" in changes.why
    assert "version 3" in changes.why


def test_a_pause_before_the_first_change_is_fine(source: Source) -> None:
    source.feed("false")
    source.optimize()
    source.feed("true")
    source.append(7)
    assert told(source.changes()) == ("insert_only", 4, 5, 1, None)


# --- what is gone -------------------------------------------------------------------------------


def test_a_missing_commit_is_a_gap(source: Source) -> None:
    source.append(7)
    source.append(8)
    DeltaTable(source.path).create_checkpoint()
    source.commit_file(2).unlink()
    changes = source.changes()
    assert (changes.problem, changes.previous) == ("FEED_GAP", 1)
    assert "version 2" in changes.detail


def test_a_log_that_ends_after_the_previous_version_is_a_gap(source: Source) -> None:
    source.append(7)
    source.append(8)
    DeltaTable(source.path).create_checkpoint()
    source.commit_file(0).unlink()
    assert source.changes().problem == "FEED_GAP"


def test_a_checkpoint_at_the_previous_version_is_enough(source: Source) -> None:
    DeltaTable(source.path).create_checkpoint()
    source.append(7)
    source.commit_file(0).unlink()
    assert told(source.changes()) == ("insert_only", 1, 2, 1, None)


@pytest.mark.parametrize("work", [lambda s: s.delete('"Id" = 1'), lambda s: s.update('"Id" = 1')])
def test_a_vacuumed_feed_is_a_gap(source: Source, work: Callable[[Source], None]) -> None:
    """Vacuum also takes the files of the previous version: nothing is left to compare."""
    work(source)
    source.vacuum()
    assert source.changes().problem == "FEED_GAP"


def test_a_lost_change_file_is_no_loss_where_both_versions_are_there(source: Source) -> None:
    source.delete('"Id" = 1')
    (lost,) = source.actions(2, "cdc")
    (source.path / lost["path"]).unlink()
    changes = source.changes()
    assert (changes.method, changes.problem) == ("files", None)
    assert lost["path"] in changes.why


def test_a_lost_file_of_the_previous_version_is_named(source: Source) -> None:
    source.delete('"Id" = 1')
    (lost,) = source.actions(2, "remove")
    (source.path / lost["path"]).unlink()
    changes = source.changes()
    assert changes.problem == "FEED_GAP"
    assert lost["path"] in changes.detail


def test_an_appended_file_that_compaction_and_vacuum_took_is_read_compacted(source: Source) -> None:
    source.append(7)
    (added,) = source.actions(2, "add")
    source.optimize()
    assert source.changes().method == "feed"
    (source.path / added["path"]).unlink()
    changes = source.changes()
    assert (changes.method, changes.kind, changes.problem) == ("files", "insert_only", None)
    assert by_files(source, changes) == {(7, "v7"): 1}


def test_a_file_of_the_previous_version_that_compaction_replaced_is_needed(source: Source) -> None:
    source.append(7)
    source.optimize()
    (before,) = source.actions(1, "add")
    (source.path / before["path"]).unlink()
    changes = source.changes()
    assert changes.problem == "FEED_GAP"
    assert before["path"] in changes.detail


def test_a_file_that_neither_feed_nor_previous_version_reads_may_be_gone(source: Source) -> None:
    source.delete('"Id" = 1')
    (between,) = source.actions(2, "add")
    source.delete('"Id" = 2')
    (source.path / between["path"]).unlink()
    assert told(source.changes()) == ("mutating", 1, 3, 2, None)


def test_encoded_partition_paths_are_found(tmp_path: Path) -> None:
    path = tmp_path / "t u"
    data = pa.table({"Id": [1, 2, 3], "s": ["x y", "a/b%c", "ü=1"], "n": [1, 2, 3]})
    write_deltalake(path, data, configuration=FEED, partition_by=["s"])
    source = Source.__new__(Source)
    source.path = path
    source.consumed = source.consume()
    source.update('"Id" > 1')
    source.optimize()
    assert told(source.changes()) == ("mutating", 0, 1, 2, None)
    source.vacuum()
    assert source.changes().problem == "FEED_GAP"


# --- the files that differ ----------------------------------------------------------------------


def by_files(source: Source, changes: Changes) -> dict[tuple[int, str], int]:
    """The consolidated change that reading the files as Parquet gives."""
    assert changes.files is not None
    assert changes.files.names == ()
    found: Counter[tuple[int, str]] = Counter()
    for paths, weight in ((changes.files.left, -1), (changes.files.came, 1)):
        for path in paths:
            read = pq.read_table(path, columns=["Id", "s"]).to_pydict()
            for row in zip(*read.values(), strict=True):
                found[row] += weight
    for path in changes.files.events:
        read = pq.read_table(path, columns=["Id", "s", "_change_type"]).to_pydict()
        for *row, event in zip(*read.values(), strict=True):
            found[tuple(row)] += 1 if event in ("insert", "update_postimage") else -1
    return {row: weight for row, weight in found.items() if weight}


@pytest.mark.parametrize(
    ("work", "files", "change"),
    [
        (lambda s: s.append(7), (0, 1, 0), {(7, "v7"): 1}),
        (lambda s: s.delete('"Id" = 2'), (0, 0, 1), {(2, "v2"): -1}),
        (lambda s: s.delete(), (2, 0, 0), {(i, f"v{i}"): -1 for i in range(1, 7)}),
        (lambda s: (s.append(7), s.optimize(), s.delete('"Id" = 7')), (0, 1, 1), {}),
        (lambda s: s.overwrite(rows(1, 9)), (2, 1, 0), None),
        (lambda s: (s.delete('"Id" < 3'), s.merge(2, 4)), (0, 0, 2), {(1, "v1"): -1}),
    ],
    ids=["append", "delete", "delete all", "compacted", "overwrite", "merge"],
)
def test_a_feed_is_read_by_its_files(
    source: Source,
    work: Callable[[Source], object],
    files: tuple[int, int, int],
    change: dict[tuple[int, str], int] | None,
) -> None:
    """Change files where a commit has any, else what it added and removed."""
    work(source)
    changes = source.changes()
    assert (changes.method, changes.problem) == ("feed", None)
    found = changes.files
    assert found is not None
    assert (len(found.left), len(found.came), len(found.events)) == files
    whole = {(i, f"v{i}"): -1 for i in range(2, 7)} | {(9, "v9"): 1}
    assert by_files(source, changes) == (whole if change is None else change)


def test_a_feed_that_delta_must_read(source: Source, tmp_path: Path, monkeypatch: Any) -> None:
    source.append(7)
    assert source.changes().files is not None
    monkeypatch.setattr("deltajoin.catalog.difference.MAX_FILES", 0)
    assert source.changes().files is None
    monkeypatch.undo()
    source.feed("true")
    assert (source.changes().method, source.changes().files) == ("feed", None)
    folders = Source.__new__(Source)
    folders.path = tmp_path / "folders"
    write_deltalake(folders.path, rows(1), partition_by=["s"], configuration=FEED)
    folders.consumed = folders.consume()
    folders.append(2)
    assert (folders.changes().method, folders.changes().files) == ("feed", None)


def test_a_deletion_vector_leaves_the_feed_to_delta(source: Source) -> None:
    source.append(7)
    text = source.commit_file(2).read_text()
    vector = '{"add":{"deletionVector":{"storageType":"u","pathOrInlineDv":"x"},'
    source.commit_file(2).write_text(text.replace('{"add":{', vector))
    commit = read_commit(open_files(str(source.path)), 2)
    assert commit is not None
    assert feed_files(str(source.path), [commit]) is None


@pytest.fixture
def silent(tmp_path: Path) -> Source:
    """A source without a feed."""
    return Source(tmp_path / "t", {"delta.appendOnly": "false"})


STAYS = {(7, "v7"): 1}


@pytest.mark.parametrize(
    ("work", "files", "change"),
    [
        (lambda s: s.append(7), 1, STAYS),
        (lambda s: (s.append(7), s.optimize()), 3, STAYS),
        (lambda s: (s.optimize(), s.append(7)), 1, STAYS),
        (lambda s: (s.append(7), s.delete('"Id" = 7'), s.append(7)), 1, STAYS),
        (lambda s: s.delete('"Id" = 2'), 2, {(2, "v2"): -1}),
        (lambda s: s.delete('"Id" < 4'), 1, {(i, f"v{i}"): -1 for i in (1, 2, 3)}),
        (lambda s: s.update('"Id" = 2'), 2, {}),
        (lambda s: s.overwrite(rows(1, 2, 3, 4, 5, 7)), 3, {(6, "v6"): -1, **STAYS}),
        (lambda s: (s.delete(), s.append(*range(1, 8))), 3, STAYS),
        (lambda s: (s.append(7), s.delete('"Id" = 1'), DeltaTable(s.path).restore(2)), 1, STAYS),
    ],
)
def test_files_that_differ_give_the_change(
    silent: Source,
    work: Callable[[Source], object],
    files: int,
    change: dict[tuple[int, str], int],
) -> None:
    work(silent)
    changes = silent.changes()
    assert (changes.method, changes.problem) == ("files", None)
    assert changes.files is not None
    assert changes.files.count == files
    assert by_files(silent, changes) == change


def test_compaction_of_old_files_is_left_out_of_the_difference(silent: Source) -> None:
    silent.append(7)
    silent.consumed = silent.consume()
    silent.delete('"Id" > 100')
    silent.append(8)
    (appended,) = silent.actions(silent.consumed.version + 1, "add")
    silent.optimize()
    assert appended["path"] not in str(silent.changes().files)
    silent.consumed = silent.consume()
    silent.append(9)
    changes = silent.changes()
    assert by_files(silent, changes) == {(9, "v9"): 1}
    assert changes.files is not None
    assert changes.files.left == ()


def test_the_same_files_again_are_no_change(silent: Source) -> None:
    silent.append(7)
    DeltaTable(silent.path).restore(1)
    changes = silent.changes()
    assert told(changes) == ("noop", 3, 3, 0, None)


def test_new_statistics_of_a_file_are_no_change(silent: Source) -> None:
    """A commit may add a file that is there already: row tracking does, ANALYZE does."""
    silent.append(7)
    (old,) = silent.actions(1, "add")
    again = json.dumps({"add": {**old, "dataChange": False}})
    silent.commit_file(3).write_text(again)
    changes = silent.changes()
    assert by_files(silent, changes) == STAYS


def test_a_file_that_came_and_is_named_again_has_come(silent: Source) -> None:
    """Row tracking that is switched on adds all files once more, without a change of data."""
    silent.append(7)
    (new,) = silent.actions(2, "add")
    again = json.dumps({"add": {**new, "dataChange": False, "baseRowId": 0}})
    silent.commit_file(3).write_text(again)
    assert by_files(silent, silent.changes()) == STAYS


def test_a_file_with_a_hidden_name_is_read_by_delta(silent: Source) -> None:
    silent.append(7)
    (new,) = silent.actions(2, "add")
    hidden = silent.path / f"_{new['path']}"
    (silent.path / new["path"]).rename(hidden)
    text = silent.commit_file(2).read_text().replace(new["path"], hidden.name)
    silent.commit_file(2).write_text(text)
    changes = silent.changes()
    assert changes.files is not None
    assert (changes.method, changes.files.names) == ("files", (hidden.name,))


@pytest.mark.parametrize(
    ("column", "used"),
    [
        ({"name": COUNT, "type": "long", "nullable": True, "metadata": {}}, ("Id",)),
        (
            {
                "name": "s",
                "type": "string",
                "nullable": True,
                "metadata": {"__CHAR_VARCHAR_TYPE_STRING": "char(4)"},
            },
            ("Id", "s"),
        ),
    ],
    ids=["bag", "CHAR"],
)
def test_rows_that_are_read_in_another_way_now(
    source: Source, column: dict[str, Any], used: tuple[str, ...]
) -> None:
    """A bag's count, or the padding of CHAR, comes by a commit of metadata alone."""
    (metadata,) = source.actions(0, "metaData")
    schema = json.loads(metadata["schemaString"])
    fields = [f for f in schema["fields"] if f["name"] != column["name"]] + [column]
    metadata["schemaString"] = json.dumps({**schema, "fields": fields})
    version = source.consumed.version + 1
    source.commit_file(version).write_text(json.dumps({"metaData": metadata}))
    assert source.changes(used).problem == "SOURCE_SCHEMA_CHANGED"
    assert (source.changes(("n",)).problem is None) is (column["name"] == "s")


def test_partitioned_tables_are_filtered_by_file_name(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(path, rows(1, 2, 3), partition_by=["s"])
    source = Source.__new__(Source)
    source.path = path
    source.consumed = source.consume()
    source.append(7)
    changes = source.changes()
    assert changes.method == "files"
    assert changes.files is not None
    assert (changes.files.left, changes.files.came) == ((), ())
    (added,) = source.actions(1, "add")
    assert changes.files.names == (added["path"].rpartition("/")[2],)
    assert changes.files.partitions == ((("s", "string", "v7"),),)


def test_folders_are_named_by_value_and_type(tmp_path: Path) -> None:
    path = tmp_path / "t"
    days = pa.array([0, 1], pa.date32())
    data = pa.table({"Id": [1, 2], "s": ["a'b", None], "n": [0.5, 0.5], "d": days})
    write_deltalake(path, data, partition_by=["s", "n", "d"])
    source = Source.__new__(Source)
    source.path = path
    source.consumed = source.consume()
    write_deltalake(path, data, mode="append")
    changes = source.changes()
    assert changes.files is not None
    assert changes.files.partitions == (
        (("s", "string", "a'b"), ("d", "date", "1970-01-01")),
        (("s", "string", None), ("d", "date", "1970-01-02")),
    )
    version = SourceVersion("s", "t", "", 1, 0, (("Id", "bigint"),), None, files=changes.files)
    graph = bind("SELECT Id FROM s", {"s": ["Id"]}).graph
    assert graph is not None
    (left, came) = feed_of(graph, replace(version, method="files"), "c", ("v0", "v1")).reads
    assert (left.version, came.version, left.paths) == (0, 1, ())
    assert " ".join(str(left.partitions).split()) == (
        "( `s` IS NOT DISTINCT FROM CAST('a\\'b' AS string) AND "
        "`d` IS NOT DISTINCT FROM CAST('1970-01-01' AS date) ) OR "
        "( `s` IS NOT DISTINCT FROM CAST(NULL AS string) AND "
        "`d` IS NOT DISTINCT FROM CAST('1970-01-02' AS date) )"
    )


def test_the_folder_of_an_empty_text_may_be_that_of_null(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(path, pa.table({"Id": [1], "s": ["x"]}), partition_by=["s"])
    source = Source.__new__(Source)
    source.path = path
    source.consumed = source.consume()
    write_deltalake(path, pa.table({"Id": [2], "s": [""]}), mode="append")
    changes = source.changes()
    assert changes.files is not None
    assert (len(changes.files.names), changes.files.partitions) == (1, ())


def test_other_partition_columns_are_differenced_whole(silent: Source) -> None:
    write_deltalake(
        silent.path, rows(1, 2), mode="overwrite", schema_mode="overwrite", partition_by=["n"]
    )
    changes = silent.changes()
    assert (changes.method, changes.files, changes.problem) == ("difference", None, None)


def test_many_files_are_differenced_whole(silent: Source, monkeypatch: Any) -> None:
    monkeypatch.setattr("deltajoin.catalog.difference.MAX_FILES", 1)
    silent.append(7)
    assert silent.changes().method == "files"
    silent.append(8)
    assert silent.changes().method == "difference"


def test_a_folder_with_a_glob_character_is_not_read_as_parquet(tmp_path: Path) -> None:
    source = Source(tmp_path / "t{1}", {"delta.appendOnly": "false"})
    source.append(7)
    changes = source.changes()
    assert changes.method == "files"
    assert changes.files is not None
    assert len(changes.files.names) == 1


def rows_of(source: Source, version: int) -> Counter[tuple[int, str]]:
    table = DeltaTable(source.path, version=version).to_pyarrow_table(columns=["Id", "s"])
    return Counter(zip(*table.to_pydict().values(), strict=True))


WORKS: tuple[Callable[[Source, Random], object], ...] = (
    lambda s, r: s.append(r.randrange(9), r.randrange(9)),
    lambda s, r: s.delete(f'"Id" = {r.randrange(9)}'),
    lambda s, r: s.update(f'"Id" < {r.randrange(9)}'),
    lambda s, r: s.merge(r.randrange(9)),
    lambda s, r: s.optimize(),
    lambda s, r: s.overwrite(rows(*(r.randrange(9) for _ in range(4)))),
    lambda s, r: DeltaTable(s.path).restore(r.randrange(DeltaTable(s.path).version() + 1)),
    lambda s, r: s.delete(),
)


@pytest.mark.parametrize("seed", range(8))
def test_files_of_random_histories_give_the_change(tmp_path: Path, seed: int) -> None:
    """Also over ranges in which files leave and come back, and compaction mixes old and new."""
    random = Random(seed)
    source = Source(tmp_path / "t", {"delta.appendOnly": "false"})
    consumed = [source.consumed]
    for _ in range(7):
        with contextlib.suppress(DeltaError):  # restore to what is there already
            random.choices(WORKS, weights=(5, 3, 3, 2, 4, 1, 2, 1))[0](source, random)
        this = load_table("s", str(source.path)).version
        for source.consumed in consumed:
            changes = source.changes()
            change = rows_of(source, this)
            change.subtract(rows_of(source, source.consumed.version))
            wanted = {row: weight for row, weight in change.items() if weight}
            assert changes.problem is None
            if changes.kind == "noop":
                assert wanted == {}
            elif changes.kind == "insert_only":
                assert min(wanted.values(), default=1) > 0
            if changes.method == "files":
                assert by_files(source, changes) == wanted
        consumed.append(source.consume())


def test_an_update_by_delta_rs_is_read_from_the_files(tmp_path: Path) -> None:
    """Its feed lacks a row that becomes equal to another one: here the second (1, 1)."""
    pairs = Source(tmp_path / "pairs")
    write_deltalake(pairs.path, pa.table({"k": [1, 1], "m": [0, 1]}), mode="overwrite",
                    schema_mode="overwrite")  # fmt: skip
    pairs.consumed = pairs.consume()
    DeltaTable(pairs.path).update(updates={"m": "1"}, predicate="m = 0")
    told = DeltaTable(pairs.path).load_cdf(starting_version=pairs.consumed.version + 1)
    kinds = pa.table(told.read_all()).column("_change_type").to_pylist()
    assert kinds == ["update_preimage"]
    found = read_changes(load_table("s", str(pairs.path)), pairs.consumed, ["k", "m"])
    assert (found.method, found.problem) == ("files", None)
    assert found.why == "FEED_GAP: delta-rs leaves rows out of the feed of an UPDATE, at version 3"
