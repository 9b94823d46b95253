"""Every way of reading a source's change gives this version less the previous one, row for row.

Tables of every make go through one history of Spark commits. After each commit the catalog judges
the range from the commit before, and from the first; then one job compares, for all ranges at once,
the consolidated change with the difference of both versions as Spark reads them.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from deltajoin.catalog import Changes, Consumed, load_table, read_changes
from deltajoin.catalog.history import metadata_at
from deltajoin.delta.path import SourceVersion
from deltajoin.emit.change import Feed, feed_of
from deltajoin.emit.sql import Scan
from deltajoin.names import WEIGHT
from deltajoin.runtime.read import _open_raw, open_scans
from deltajoin.sql.bind import bind
from tests.spark.test_oracle import quick

USED = ("a", "b")
FEED, VECTORS = "delta.enableChangeDataFeed", "delta.enableDeletionVectors"
MAPPING = "delta.columnMapping.mode"

HISTORY = (
    "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, if(id % 2 = 0, 'x y', 'é/1'), id FROM range(20)",
    "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, 'x y', id FROM range(30, 34)",
    "INSERT INTO {t} VALUES (40, NULL, 40), (41, NULL, 41), (1, 'é/1', 99)",
    "DELETE FROM {t} WHERE a IN (3, 40)",
    "UPDATE {t} SET b = 'z' WHERE a = 5",
    "UPDATE {t} SET c = c + 1 WHERE a = 6",
    "OPTIMIZE {t}",
    "INSERT OVERWRITE {t} SELECT a, b, c FROM {t} WHERE a <> 7",
    "RESTORE TABLE {t} TO VERSION AS OF 2",
    "DELETE FROM {t}",
    "INSERT INTO {t} VALUES (1, 'x y', 1), (2, 'z', 2)",
    "CREATE OR REPLACE TABLE {t} {made} AS SELECT /*+ COALESCE(1) */ * FROM "
    "VALUES (1, 'x y', 1), (3, 'z', 2) AS v(a, b, c)",
)
KINDS = (
    *("insert_only", "insert_only", "insert_only", "mutating", "mutating", "mutating", "noop"),
    *("replaced", "replaced", "replaced", "insert_only", "replaced"),
)


class Ranges:
    """Changes that the catalog judged, to be compared in one job."""

    def __init__(self, spark: Any) -> None:
        self.spark = quick(spark)
        self.sums: list[str] = []

    def judge(self, path: Path, since: int) -> Changes:
        table, before = load_table("s", str(path)), metadata_at(str(path), since)
        assert before is not None
        changes = read_changes(table, Consumed(before.table_id, since, before.columns), USED)
        if changes.problem is None:
            self.add(path, since, changes)
        return changes

    def add(self, path: Path, since: int, changes: Changes) -> None:
        number, this = len(self.sums), load_table("s", str(path))
        scans = {v: f"v{number}_{v}" for v in {since, changes.previous, changes.this}}
        open_scans(
            self.spark,
            [asdict(Scan(view, str(path), version)) for version, view in scans.items()],
        )
        difference = [
            f"SELECT {number} AS n, a, b, {sign} AS w FROM {scans[version]}"
            for version, sign in ((since, 1), (changes.this, -1))
        ]
        if changes.previous != changes.this:
            source = SourceVersion(
                source="s",
                location=str(path),
                table_id=this.table_id,
                version=changes.this,
                previous=changes.previous,
                columns=tuple((c.name, c.type) for c in this.columns if c.name in USED),
                rows=this.rows,
                method=changes.method,
                files=changes.files,
            )
            difference.append(
                f"SELECT {number}, a, b, {WEIGHT} FROM ({self.read(source, scans, number).sql})"
            )
        self.sums.append(" UNION ALL ".join(difference))

    def read(self, source: SourceVersion, scans: dict[int, str], number: int) -> Feed:
        graph = bind("SELECT a, b FROM s", {"s": USED}).graph
        assert graph is not None
        assert source.previous is not None
        views = (scans[source.previous], scans[source.version])
        feed = feed_of(graph, source, f"change{number}", views)
        _open_raw(self.spark, asdict(feed))
        return feed

    def wrong(self) -> list[Any]:
        """Rows that any of the changes has too many or too few."""
        everything = " UNION ALL ".join(self.sums)
        sql = f"SELECT n, a, b, sum(w) FROM ({everything}) GROUP BY n, a, b HAVING sum(w) <> 0"
        return [tuple(row) for row in self.spark.sql(sql).collect()]


MAKES = {
    "vectors": ({VECTORS: "true"}, ""),
    "partitioned": ({}, "PARTITIONED BY (b)"),
    "clustered": ({VECTORS: "true"}, "CLUSTER BY (b, a)"),
    "all": ({VECTORS: "true", MAPPING: "name"}, "PARTITIONED BY (b)"),
    "feed": ({FEED: "true", VECTORS: "false"}, ""),
    "feed and vectors": ({FEED: "true", VECTORS: "true"}, ""),
    "feed and folders": ({FEED: "true"}, "PARTITIONED BY (b)"),
}
WAYS = {
    "vectors": {"parquet", "names"},
    "partitioned": {"folders"},
    "clustered": {"parquet", "names"},
    "all": {"names"},
    "feed": {"feed's files", "feed"},
    "feed and vectors": {"feed's files", "feed"},
    "feed and folders": {"feed"},
}


def way(changes: Changes) -> str:
    if changes.files is None or changes.method == "feed":
        return changes.method + ("'s files" if changes.files else "")
    if changes.files.names:
        return "folders" if changes.files.partitions else "names"
    return "parquet"


@pytest.mark.sampled
@pytest.mark.parametrize("make", MAKES)
def test_every_range_turns_previous_into_this(make: str, spark: Any, tmp_path: Path) -> None:
    ranges, path = Ranges(spark), tmp_path / "t"
    properties, clause = MAKES[make]
    told = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    made = f"USING delta {clause} " + (f"TBLPROPERTIES ({told})" if told else "")
    ranges.spark.sql(f"CREATE TABLE delta.`{path}` (a INT, b STRING, c INT) {made}")
    ways, last = set(), 0
    for text, kind in zip(HISTORY, KINDS, strict=True):
        ranges.spark.sql(text.format(t=f"delta.`{path}`", made=made))
        changes = ranges.judge(path, last)
        assert changes.kind == kind, text
        assert changes.problem is None, changes.detail
        ways |= {way(changes)} if kind != "noop" else set()
        last = load_table("s", str(path)).version
    assert ranges.judge(path, 1).problem is None
    assert ranges.wrong() == []
    assert ways == WAYS[make]


# What happens to the columns: the table in plugin/docs/sources.md ---------------------------------

INSERT = "append SELECT 7 AS a, 'new' AS b"  # columns that are not named become NULL
WIDEN = "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
REPLACE = "CREATE OR REPLACE TABLE {t} USING delta {c} TBLPROPERTIES ({p}) AS SELECT "
TYPE = "ALTER TABLE {t} ALTER COLUMN {c} TYPE BIGINT"
RETYPED = "SOURCE_SCHEMA_CHANGED"
PLAIN = {
    "added": (("ALTER TABLE {t} ADD COLUMN d INT", INSERT), "feed"),
    "added between": ((INSERT, "ALTER TABLE {t} ADD COLUMN d INT", INSERT), "feed"),
    "reordered": ((INSERT, "ALTER TABLE {t} ALTER COLUMN c FIRST", INSERT), "feed"),
    "widened, unused": ((INSERT, WIDEN, TYPE.replace("{c}", "c"), INSERT), "names"),
    "widened, used": ((WIDEN, TYPE.replace("{c}", "a")), RETYPED),
    "replaced, less": ((INSERT, REPLACE.replace("{c}", "") + "7 AS a, 'n' AS b"), "parquet"),
    "replaced, partitioned": (
        (INSERT, REPLACE.replace("{c}", "PARTITIONED BY (b)") + "7 AS a, 'n' AS b, 1 AS c"),
        "difference",
    ),
    "replaced, retyped": ((REPLACE.replace("{c}", "") + "'x' AS a, 'n' AS b",), RETYPED),
}
MAPPED = {
    "added": (("ALTER TABLE {t} ADD COLUMN d INT", INSERT), "feed"),
    "reordered": ((INSERT, "ALTER TABLE {t} ALTER COLUMN c FIRST", INSERT), "feed"),
    "renamed first": (("ALTER TABLE {t} RENAME COLUMN c TO d", INSERT), "feed"),
    "renamed between": ((INSERT, "ALTER TABLE {t} RENAME COLUMN c TO d", INSERT), "names"),
    "dropped between": ((INSERT, "ALTER TABLE {t} DROP COLUMN c", INSERT), "names"),
    "used renamed": (("ALTER TABLE {t} RENAME COLUMN b TO d",), RETYPED),
    "used dropped": ((INSERT, "ALTER TABLE {t} DROP COLUMN b"), RETYPED),
    "used swapped": (
        ("ALTER TABLE {t} RENAME COLUMN a TO x", "ALTER TABLE {t} RENAME COLUMN c TO a"),
        "difference",
    ),
    "used dropped and added again": (
        (INSERT, "ALTER TABLE {t} DROP COLUMN b", "ALTER TABLE {t} ADD COLUMN b STRING", INSERT),
        "difference",
    ),
}


@pytest.mark.parametrize(("mapping", "cases"), [("none", PLAIN), ("name", MAPPED)])
def test_columns_that_change(mapping: str, cases: Any, spark: Any, tmp_path: Path) -> None:
    ranges, found = Ranges(spark), {}
    properties = f"'{FEED}' = 'true', '{MAPPING}' = '{mapping}'"
    for case, (work, _) in cases.items():
        path = tmp_path / case.replace(" ", "_").replace(",", "")
        table = f"delta.`{path}`"
        made = f"(a INT, b STRING, c INT) USING delta TBLPROPERTIES ({properties})"
        ranges.spark.sql(f"CREATE TABLE {table} {made}")
        ranges.spark.sql(f"INSERT INTO {table} VALUES (1, 'x', 2)")
        for text in work:
            rows = ranges.spark.sql(text.removeprefix("append ").format(t=table, p=properties))
            if text.startswith("append "):
                rows.write.format("delta").mode("append").save(str(path))
        changes = ranges.judge(path, 1)
        found[case] = changes.problem or way(changes)
    assert found == {case: expected for case, (_, expected) in cases.items()}
    assert ranges.wrong() == []
