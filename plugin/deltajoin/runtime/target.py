"""The target table: create it, mark it as ours, show a bag or groups through a view.

A new target is created empty with our properties first, so that it has a folder (for the ledger)
and an owner before any row is written. A bag in a catalog, and groups with hidden columns, are a
backing table under a view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltajoin.contract import BACKING_SUFFIX, FORMAT, PROPERTIES, UNDER_A_VIEW
from deltajoin.errors import DeltaJoinError
from deltajoin.names import COUNT, SHOWN, quote
from deltajoin.runtime.failures import explained

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CHAR = "__CHAR_VARCHAR_TYPE_STRING"
_SPECIAL = set(" ,;{}()\n\t=")


def by_location(location: str) -> str:
    """A Delta folder as a table name."""
    return "delta." + quote(location)


def create_target(spark: SparkSession, target: dict[str, Any], rows: DataFrame, model: str) -> None:
    """Create the empty target with the columns of `rows` and our properties; the same errors as of
    `check_views`."""
    from pyspark.sql import functions

    check_views(spark, target)
    name = by_location(target["location"]) if target["location"] else backing_name(target)
    with explained(f"create {target['place']}"):
        layout = target.get("layout", {})
        writer = rows.limit(0).writeTo(name).using("delta")
        if layout.get("partition_by"):
            columns = [functions.col(quote(name)) for name in layout["partition_by"]]
            writer = writer.partitionedBy(*columns)
        properties = {
            "deltajoin.model": model,
            "deltajoin.format": str(FORMAT),
            **PROPERTIES,
        }
        if any(_SPECIAL & set(column) for column in rows.columns):
            properties["delta.columnMapping.mode"] = "name"
        properties |= layout.get("tblproperties", {})
        for key, value in properties.items():
            writer = writer.tableProperty(key, value)
        writer.create()
        cluster(spark, name, layout)


def check_views(spark: SparkSession, target: dict[str, Any]) -> None:
    """Refuse a target under a view in a catalog that knows no views, before anything is made.

    Raises:
        DeltaJoinError: CATALOG_WITHOUT_VIEWS.
    """
    from pyspark.errors import AnalysisException

    parts = target["name_parts"]
    if not parts or target["kind"] not in UNDER_A_VIEW:
        return
    catalog = parts[0] if len(parts) > 2 else spark.catalog.currentCatalog()
    if catalog == "spark_catalog":
        return
    schema = ".".join(map(quote, parts[:-1])) or spark.catalog.currentDatabase()
    try:
        spark.sql(f"SHOW VIEWS IN {schema}")
    except AnalysisException as error:
        if not str(error.getCondition()).startswith("MISSING_CATALOG_ABILITY"):
            return  # whatever it is, making the table says it
        raise DeltaJoinError(
            "CATALOG_WITHOUT_VIEWS",
            f"{target['place']} would be a view over its rows and their counts, and catalog "
            f"'{catalog}' does not support views",
            where=target["place"],
            remedy="Declare keys that identify the rows, or give a path as target.",
        ) from error


def cluster(spark: SparkSession, name: str, layout: dict[str, Any]) -> None:
    """Give a table its clusters; an overwrite has taken them away."""
    if layout.get("clustered_by"):
        spark.sql(f"ALTER TABLE {name} {_clusters(layout)}")


def alter(spark: SparkSession, target: dict[str, Any]) -> None:
    """Give a table the clusters and properties in which it differs from what is declared."""
    layout = target.get("layout", {})
    changes = [_clusters(layout)] if layout.get("recluster") else []
    if wanted := layout.get("to_set"):
        pairs = (f"{literal(name)} = {literal(value)}" for name, value in wanted.items())
        changes.append(f"SET TBLPROPERTIES ({', '.join(pairs)})")
    if unwanted := layout.get("to_unset"):
        changes.append(f"UNSET TBLPROPERTIES IF EXISTS ({', '.join(map(literal, unwanted))})")
    with explained(f"layout of {target['place']}"):
        for change in changes:
            spark.sql(f"ALTER TABLE {by_location(target['location'])} {change}")


def _clusters(layout: dict[str, Any]) -> str:
    columns = ", ".join(map(quote, layout["clustered_by"]))
    return f"CLUSTER BY ({columns})" if columns else "CLUSTER BY NONE"


def literal(text: str) -> str:
    """A text as a literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def without_char(rows: DataFrame) -> DataFrame:
    """The same rows with CHAR and VARCHAR as the strings that they are read as: a MERGE that
    matches such a column fails in Spark's padding of it."""
    from pyspark.sql import functions

    for field in rows.schema.fields:
        if _CHAR in field.metadata:
            plain = {key: value for key, value in field.metadata.items() if key != _CHAR}
            name = quote(field.name)
            rows = rows.withColumn(
                field.name, functions.col(name).alias(field.name, metadata=plain)
            )
    return rows


def in_order(rows: DataFrame, order: dict[str, Any] | None, key: list[str]) -> DataFrame:
    """The rows of a target divided into files by ranges of its key, in the key's order."""
    if order is None or order["column"] not in key:
        return rows
    from pyspark.sql import functions

    column, bounds = quote(order["column"]), order["bounds"]

    def part(low: int, high: int) -> str:
        """The number of the range, of some, that a row is in: a search by halves."""
        if low == high:
            return str(low)
        mid = (low + high) // 2
        return (
            f"CASE WHEN {column} < {bounds[mid]} "
            f"THEN {part(low, mid)} ELSE {part(mid + 1, high)} END"
        )

    parts = rows.repartitionById(len(bounds) + 1, functions.expr(part(0, len(bounds))))
    return parts.sortWithinPartitions(*(functions.col(quote(name)) for name in key))


def backing_name(target: dict[str, Any]) -> str:
    """The catalog table that holds the rows: the target itself, or the table under its view."""
    parts = list(target["name_parts"])
    if target["kind"] in UNDER_A_VIEW:
        parts[-1] += BACKING_SUFFIX
    return ".".join(quote(part) for part in parts)


def show(spark: SparkSession, target: dict[str, Any], replace: bool = True) -> None:
    """Put the view over a backing table in a catalog, in the place of any that is there, or only of
    one with another text; nothing to do for another target."""
    if target["kind"] not in UNDER_A_VIEW or not target["name_parts"]:
        return
    name = ".".join(quote(part) for part in target["name_parts"])
    rows = _shown_sql(target, backing_name(target))
    with explained(f"view {target['place']}"):
        there = not replace and spark.catalog.tableExists(name)
        if not there or facts_of(spark, name).get("View Text") != rows:
            spark.sql(f"CREATE OR REPLACE VIEW {name} AS " + rows)


def _shown_sql(target: dict[str, Any], table: str) -> str:
    """The rows that a user sees of a backing table."""
    columns = ", ".join(quote(column) for column in visible(target))
    shown = f"SELECT {columns} FROM {table}"
    if target["kind"] == "bag":
        return shown + (
            f" LATERAL VIEW explode(sequence(1, CAST({quote(COUNT)} AS INT))) "
            "`__deltajoin_copies` AS `__deltajoin_copy`"
        )
    return shown + (f" WHERE {quote(SHOWN)}" if SHOWN in target.get("hidden", ()) else "")


def visible(target: dict[str, Any]) -> list[str]:
    """The columns that a user sees, stamps among them."""
    return list(target.get("visible") or target["columns"])


def read_target(spark: SparkSession, target: dict[str, Any]) -> DataFrame:
    """What a user selects from."""
    table = by_location(target["location"])
    if target["kind"] in UNDER_A_VIEW:
        return spark.sql(_shown_sql(target, table))
    return spark.table(table)


def read_stored(spark: SparkSession, target: dict[str, Any]) -> DataFrame:
    """The rows that the target's table holds."""
    return spark.table(by_location(target["location"]))


def locate(spark: SparkSession, name: str) -> str | None:
    """The Delta folder of a catalog table; None when there is no such table.

    Raises:
        DeltaJoinError: NOT_DELTA for a view or a table of another format; SPARK_LOST and the like.
    """
    from pyspark.errors import AnalysisException

    with explained(f"the catalog's table {name}"):
        if not spark.catalog.tableExists(name):
            return None
        try:  # DESCRIBE DETAIL would count the table's files
            about = facts_of(spark, name)
        except AnalysisException as error:
            raise _not_delta(name) from error
    if about.get("Provider") != "delta" or "Location" not in about:
        raise _not_delta(name)
    return about["Location"]


def facts_of(spark: SparkSession, name: str) -> dict[str, str]:
    """What DESCRIBE EXTENDED says of a table or view behind its columns, which may have the same
    names; empty for a temporary view."""
    rows = [(row[0], row[1]) for row in spark.sql(f"DESCRIBE EXTENDED {name}").collect()]
    start = next((i for i, (key, _) in enumerate(rows) if key.startswith("# Detailed")), len(rows))
    return dict(rows[start:])


def _not_delta(name: str) -> DeltaJoinError:
    return DeltaJoinError(
        "NOT_DELTA",
        f"'{name}' is not a Delta table",
        where=name,
        remedy="Use a Delta table; only dbt's views are written out.",
    )
