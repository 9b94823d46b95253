"""Spark's classes, loaded and checked once for all later starts (Java's class data sharing).

A JVM that starts Spark reads and checks some 20,000 classes before its first row, a third of what
a short run waits for. One JVM that runs this file does the things that runs do and keeps its
classes when it ends; later ones map that file (docs/0034). Java takes an archive only where its own
version and the class path are those of its making, and otherwise starts without it, silently.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
from pathlib import Path

QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"


def class_archive() -> Path:
    """Where this Python environment keeps the archive; there need not be one."""
    return Path(sys.prefix, "share", "deltajoin", "classes.jsa")


def archive_option() -> str:
    """The options with which a JVM starts from the archive; empty if none was made."""
    archive = class_archive()
    return f"{shlex.quote(f'-XX:SharedArchiveFile={archive}')} {QUIET}" if archive.exists() else ""


def archive_at_exit(archive: Path) -> str:
    """The options with which a JVM writes the archive when it ends."""
    return f"{shlex.quote(f'-XX:ArchiveClassesAtExit={archive}')} {QUIET}"


def main() -> None:
    """Do what runs do, over rows made up here: joins, groups, windows, a MERGE, a change feed."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        facts, names = (f"delta.`{Path(folder, name)}`" for name in ("facts", "names"))
        for compiled in ("true", "false"):
            spark.conf.set("spark.sql.codegen.wholeStage", compiled)
            for sql in _statements(facts, names):
                spark.sql(sql).collect()
            feed = spark.read.option("readChangeFeed", "true").option("startingVersion", "1")
            feed.table(facts).createOrReplaceTempView("feed")
            spark.sql("SELECT * FROM feed WHERE _change_type <> 'update_preimage'").collect()
    spark.stop()


def _statements(facts: str, names: str) -> list[str]:
    feed = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    return [
        f"CREATE OR REPLACE TABLE {facts} USING delta {feed} AS "
        "SELECT id AS k, id % 7 AS n, CAST(id AS decimal(12, 2)) AS v, DATE '2026-01-01' AS d, "
        "CAST(id AS string) AS s, TIMESTAMP '2026-01-01 00:00:00' AS t FROM range(100)",
        f"CREATE OR REPLACE TABLE {names} USING delta {feed} AS "
        "SELECT id AS n, concat('name ', id) AS name FROM range(7)",
        f"MERGE INTO {facts} a USING (SELECT * FROM {facts} WHERE k < 5) b ON a.k <=> b.k "
        "WHEN MATCHED AND b.k = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET v = b.v + 1 "
        "WHEN NOT MATCHED THEN INSERT *",
        f"UPDATE {facts} SET v = v + 1 WHERE k = 7",
        f"DELETE FROM {facts} WHERE k = 8",
        f"INSERT INTO {facts} SELECT * FROM {facts} VERSION AS OF 0 WHERE k = 8",
        f"SELECT /*+ BROADCAST(b) */ a.*, b.name FROM {facts} a LEFT JOIN {names} b ON a.n = b.n "
        "WHERE a.k BETWEEN 1 AND 50 AND b.name IN ('name 1', 'name 2')",
        f"SELECT n, count(*), sum(v), min(d), collect_list(s) FROM {facts} GROUP BY n",
        f"SELECT k, row_number() OVER (PARTITION BY n ORDER BY v, k) AS place FROM {facts}",
        f"SELECT k FROM {facts} EXCEPT ALL SELECT n FROM {names}",
        f"DESCRIBE HISTORY {facts}",
        f"DESCRIBE DETAIL {facts}",
    ]


if __name__ == "__main__":
    main()
