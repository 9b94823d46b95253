"""Whether a source's columns are those that the last epoch consumed: told by a digest, and by the
source's own log where they differ."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltajoin.catalog import TableState, load_table
from deltajoin.delta.path import schema_of
from deltajoin.delta.sources import source_versions

FEED = {"delta.enableChangeDataFeed": "true"}
CHANGED = "SOURCE_SCHEMA_CHANGED"


@pytest.fixture
def place(tmp_path: Path) -> str:
    place = str(tmp_path / "o")
    write_deltalake(place, pa.table({"id": [1], "n": [1]}), configuration=FEED)
    return place


def obstacles(then: TableState, **entry: object) -> list[tuple[str, str]]:
    """What rules an incremental run out, after an epoch that consumed the table as it was then."""
    columns = [(column.name, column.type) for column in then.columns]
    consumed = {
        "id": then.table_id,
        "version": then.version,
        "commit": then.commit,
        "schema": schema_of(columns),
    }
    now = {"o": load_table("o", then.location)}
    _, found = source_versions(now, None, {"frontier": {"o": {**consumed, **entry}}})
    return [(obstacle.code, obstacle.message) for obstacle in found]


def test_the_same_columns(place: str) -> None:
    then = load_table("o", place)
    write_deltalake(place, pa.table({"id": [2], "n": [2]}), mode="append")
    assert obstacles(then) == []


def test_a_column_that_has_another_type_is_named_by_the_log(place: str) -> None:
    then = load_table("o", place)
    write_deltalake(
        place, pa.table({"id": [2], "n": ["2"]}), mode="overwrite", schema_mode="overwrite"
    )
    assert obstacles(then) == [(CHANGED, "source 'o': column 'n' was bigint, now string")]


def test_a_column_that_came_where_nobody_knows_which_are_read(place: str) -> None:
    then = load_table("o", place)
    write_deltalake(
        place, pa.table({"id": [2], "n": [2], "m": [2]}), mode="append", schema_mode="merge"
    )
    assert obstacles(then) == [(CHANGED, "source 'o': it has other columns than before")]


def test_columns_that_differ_where_the_log_has_lost_the_version(place: str) -> None:
    then = load_table("o", place)
    for number in range(2, 5):
        write_deltalake(place, pa.table({"id": [number], "n": [number]}), mode="append")
    DeltaTable(place).create_checkpoint()
    for version in (0, 1):
        (Path(place) / "_delta_log" / f"{version:020}.json").unlink()
    ((code, message),) = obstacles(then, schema="another")
    assert (code, "version 0" in message) == (CHANGED, True)
    ((code, message),) = obstacles(then)
    assert code == "FEED_GAP"
