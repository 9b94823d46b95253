"""The hash of a bag's row, stored beside it, by which a MERGE finds the row again.

Without it the MERGE compares, and so reads, every column of the target. Rule: rows that the MERGE
would hold for equal have the same hash: it is taken of the stored types, and no row of a type that
has values which are equal and not the same, or can't be hashed, has one. Rows with the same hash
need not be equal: the MERGE says so, and is run again by the whole row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltajoin.names import ROW_HASH, quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

_NOT_HASHED = ("map<", "variant", " collate ", "interval", "geo")


def with_row_hash(
    rows: DataFrame, target: dict[str, Any], stored: StructType | None = None
) -> DataFrame:
    """Rows of a bag with their hash as last column; as they are where it has none.

    Args:
        stored: the columns of the target's table; None where it is about to be written anew.
    """
    from pyspark.sql import functions

    if target["kind"] != "bag" or (stored is not None and ROW_HASH not in stored.names):
        return rows
    schema = stored or rows.schema
    names = [*target["columns"], *target.get("hidden", ())]
    kinds = {name: schema[name].dataType for name in names}
    if any(mark in kind.simpleString() for kind in kinds.values() for mark in _NOT_HASHED):
        return rows
    values = [functions.col(quote(name)).cast(kind) for name, kind in kinds.items()]
    return rows.withColumn(ROW_HASH, hash_of(*values))


def hash_of(*values: Column) -> Column:
    """A hash of values, and of which are NULL: Spark passes these by."""
    from pyspark.sql import functions

    return functions.xxhash64(*values, *(value.isNull() for value in values))
