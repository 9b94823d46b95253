"""A rebuild by difference: what the query gives against what the target holds, materialised once.

Rule: only rows of the same columns and types are compared; anything else is overwritten. So is a
column with a collation, which has values that are equal and not the same.

Caller: has the scans open, and merges `to_write` (`emit/difference.py`) with the epoch's marks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltajoin.names import OPERATION, WEIGHT
from deltajoin.runtime.read import Counter, materialised
from deltajoin.runtime.row_hash import with_row_hash
from deltajoin.runtime.target import read_stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OPERATIONS = {"insert": "inserted", "update": "updated", "delete": "deleted"}
BY_WEIGHT = ("bag", "plain")


def columns_of(rows: DataFrame) -> list[tuple[str, str]]:
    """Names and types of columns."""
    return [(field.name, field.dataType.simpleString()) for field in rows.schema.fields]


def why_overwrite(rows: DataFrame, stored: DataFrame) -> str:
    """Why the rows of the query can't be compared with the stored ones; empty where they can."""
    new, old = columns_of(rows), columns_of(stored)
    if new != old:
        return "the query's columns or their types are not those of the target"
    collated = [name for name, kind in new if " collate " in kind]
    return f"strings with a collation can't be compared ({collated[0]})" if collated else ""


def find_difference(
    spark: SparkSession, fold: str, target: dict[str, Any], rows: DataFrame
) -> tuple[dict[str, int], int]:
    """Materialise `to_write`; how many rows it inserts, updates and deletes, and how many there
    are."""
    rebuilt = Counter("rebuilt")
    rebuilt.watch(rows).createOrReplaceTempView("rebuilt")
    stored = read_stored(spark, target)
    stored.createOrReplaceTempView("target_rows")
    differing = with_row_hash(spark.sql(fold), target, stored.schema)
    found = materialised(spark, "to_write", differing, counted_columns(target["kind"]))
    return counts_of(found), rebuilt.figures(rows)["rows"]


def counted_columns(kind: str) -> dict[str, str]:
    """What is counted over the rows to write of a target: by operation, or by weight."""
    if kind in BY_WEIGHT:
        return {
            "insert": f"coalesce(sum(greatest({WEIGHT}, 0)), 0)",
            "delete": f"coalesce(sum(greatest(-{WEIGHT}, 0)), 0)",
        }
    return {name: f"count_if({OPERATION} = '{name}')" for name in _OPERATIONS}


def counts_of(found: dict[str, int]) -> dict[str, int]:
    """Rows inserted, updated and deleted, of counts by operation."""
    return {done: found.get(name, 0) for name, done in _OPERATIONS.items()}
