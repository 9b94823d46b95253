"""What the catalog reads off the log of a table written by Spark is what Spark then does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltajoin.catalog import Changes, Consumed, load_table, read_changes
from deltajoin.catalog.history import metadata_at

FEED = "'delta.enableChangeDataFeed' = 'true'"


@pytest.fixture
def sql(spark: Any) -> Any:
    return spark.newSession().sql


def changes_since(path: Path, version: int) -> Changes:
    table, before = load_table("s", str(path)), metadata_at(str(path), version)
    assert before is not None
    consumed = Consumed(before.table_id, version, before.columns)
    return read_changes(table, consumed, ["a", "b"])


def test_the_feed_of_every_range_turns_previous_into_this(tmp_path: Path, sql: Any) -> None:
    """Deletion vectors, replacement (which gives a new table id), restore, an idle merge."""
    path = tmp_path / "t"
    table = f"delta.`{path}`"
    properties = f"TBLPROPERTIES ({FEED}, 'delta.enableDeletionVectors' = 'true')"
    sql(f"CREATE TABLE {table} (a INT, b STRING) USING delta {properties}")
    sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ id, 'x' FROM range(100)")
    sql(f"DELETE FROM {table} WHERE a = 5")
    assert load_table("t", str(path)).rows == 99
    sql(f"UPDATE {table} SET b = 'y' WHERE a = 6")
    (path / "_delta_log" / f"{3:020d}.crc").unlink()
    assert load_table("t", str(path)).rows == 99
    first_id = load_table("t", str(path)).table_id
    sql(f"CREATE OR REPLACE TABLE {table} USING delta {properties} AS SELECT 1 AS a, 'z' AS b")
    assert load_table("t", str(path)).table_id != first_id
    sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('some.note' = '1')")
    sql(f"RESTORE TABLE {table} TO VERSION AS OF 2")
    expected = [
        ("replaced", 0, 302),
        ("replaced", 1, 202),
        ("replaced", 2, 201),
        ("replaced", 3, 200),
        ("replaced", 5, 100),
        ("replaced", 5, 100),
        ("noop", 6, 0),
    ]

    found = [changes_since(path, version) for version in range(7)]

    assert [c.problem for c in found] == [None] * 7
    assert [(c.kind, c.previous, c.rows) for c in found] == expected
    sums = (
        f"""
        SELECT {c.previous} AS v, a, b, 1 AS w FROM {table} VERSION AS OF {c.previous}
        UNION ALL SELECT {c.previous}, a, b, -1 FROM {table} VERSION AS OF {c.this}
        UNION ALL SELECT {c.previous}, a, b, IF(_change_type RLIKE 'insert|post', 1, -1)
          FROM table_changes_by_path('{path}', {c.previous + 1}, {c.this})
        """
        for c in {c.previous: c for c in found if c.kind != "noop"}.values()
    )
    everything = " UNION ALL ".join(sums)
    wrong = sql(f"SELECT v, a, b FROM ({everything}) GROUP BY v, a, b HAVING sum(w) <> 0")
    assert wrong.collect() == []


def test_a_lost_deletion_vector_is_a_gap(tmp_path: Path, sql: Any) -> None:
    path = tmp_path / "t"
    properties = f"TBLPROPERTIES ({FEED}, 'delta.enableDeletionVectors' = 'true')"
    sql(f"CREATE TABLE delta.`{path}` USING delta {properties} AS SELECT id AS a FROM range(9)")
    sql(f"DELETE FROM delta.`{path}` WHERE a = 5")
    assert changes_since(path, 0).problem is None
    (vector,) = path.glob("**/deletion_vector_*.bin")
    vector.unlink()
    lost = changes_since(path, 0)
    assert lost.problem == "FEED_GAP"
    assert vector.name in lost.detail


def test_a_renamed_column_is_another_column(tmp_path: Path, sql: Any) -> None:
    path = tmp_path / "t"
    table = f"delta.`{path}`"
    mapped = f"TBLPROPERTIES ({FEED}, 'delta.columnMapping.mode' = 'name')"
    sql(f"CREATE TABLE {table} (a INT, b INT, c INT, d INT) USING delta {mapped}")
    sql(f"ALTER TABLE {table} RENAME COLUMN c TO c2")
    sql(f"INSERT INTO {table} VALUES (1, 2, 3, 4)")
    unused_first = changes_since(path, 0)
    assert (unused_first.problem, unused_first.previous) == (None, 1)

    sql(f"ALTER TABLE {table} RENAME COLUMN d TO d2")
    sql(f"INSERT INTO {table} VALUES (1, 2, 3, 4)")
    renamed = changes_since(path, 1)
    assert (renamed.method, renamed.problem) == ("files", None)
    assert renamed.why.startswith("SOURCE_SCHEMA_CHANGED: ")
    with pytest.raises(Exception, match="INCOMPATIBLE_DATA_SCHEMA"):
        sql(f"SELECT * FROM table_changes_by_path('{path}', 2, 4)").collect()

    for old, new in (("a", "swap"), ("b", "a"), ("swap", "b")):
        sql(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")
    swapped = changes_since(path, 4)
    assert (swapped.kind, swapped.method, swapped.problem) == ("replaced", "difference", None)
    assert (swapped.previous, swapped.this) == (4, 7)
