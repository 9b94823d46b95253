"""Pinned reads: a table at a version, its change feed, the consolidated change of each source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltajoin.contract import fingerprint_of
from deltajoin.errors import DeltaJoinError
from deltajoin.names import COUNT, ROW_HASH, quote
from deltajoin.runtime.failures import explained
from deltajoin.runtime.port import Figures, port_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


class Counter:
    """Counts the rows that pass a point of a query while it runs, without a query of its own."""

    def __init__(self, name: str, columns: dict[str, str] | None = None) -> None:
        self._name = name
        self._columns = columns or {"rows": "count(1)"}
        self._figures: Figures = dict

    def watch(self, frame: DataFrame) -> DataFrame:
        """The frame with the counter attached."""
        port = port_of(frame.sparkSession)
        watched, self._figures = port.watch(frame, self._name, self._counted())
        return watched

    def materialise(self, frame: DataFrame) -> DataFrame:
        """The rows of the frame, computed once and counted."""
        port = port_of(frame.sparkSession)
        kept, self._figures = port.materialise(frame, self._name, self._counted())
        return kept

    def read(self) -> dict[str, int] | None:
        """What was counted; None where Spark proved the point unreachable. Call after an action."""
        values = self._figures()
        return {name: int(values.get(name) or 0) for name in self._columns} if values else None

    def figures(self, frame: DataFrame) -> dict[str, int]:
        """What was counted; by a query over the frame where Spark did not report it."""
        if counted := self.read():
            return counted
        (row,) = frame.agg(*self._counted()).collect()
        return {name: int(row[name] or 0) for name in self._columns}

    def _counted(self) -> list[Column]:
        from pyspark.sql import functions

        return [functions.expr(sql).alias(name) for name, sql in self._columns.items()]


def open_scans(spark: SparkSession, scans: list[dict[str, Any]]) -> None:
    """Register each pinned source version under its view name."""
    for scan in scans:
        with explained(f"{scan['location']} version {scan['version']}"):
            if scan["static"] is None:
                frame = _version(spark, scan["location"], scan["version"])
                frame = _as_often(frame) if scan["bag"] else frame
            else:
                frame = _static(spark, scan["static"])
            frame.createOrReplaceTempView(quote(scan["view"]))


def refuse_changed_files(plan: dict[str, Any]) -> None:
    """Refuse a run over static files that are no longer those of its plan. They are looked at as
    the planner does: Spark reads local ones alone, and sees no change of content in their times.

    Raises:
        DeltaJoinError: TABLE_REPLACED.
    """
    for name, files in sorted(plan["static"].items()):
        at = plan["frontier"][name]
        try:
            found = fingerprint_of(files["paths"])
        except OSError:  # a file is gone
            found = None
        if found != at["version"]:
            raise replaced(name, at["location"], "the files have changed since the plan was made")


def replaced(source: str, location: str, how: str) -> DeltaJoinError:
    """The refusal of a plan for other rows than those that are there."""
    where = f"{source}: {location}"
    return DeltaJoinError("TABLE_REPLACED", how, where=where, remedy="Plan again.")


def open_statements(spark: SparkSession, statements: list[dict[str, Any]]) -> None:
    """Register each statement under its view name; some are computed for that."""
    for statement in statements:
        rows = opened(spark, statement)
        if statement.get("kept"):
            rows = Counter(statement["view"]).materialise(rows)
        rows.createOrReplaceTempView(quote(statement["view"]))


def opened(spark: SparkSession, statement: dict[str, Any]) -> DataFrame:
    """The rows of a statement; one that is measured is computed here, and stands as literals."""
    rows = spark.sql(statement["sql"])
    if not statement.get("measured"):
        return rows
    (row,) = rows.collect()
    values = (
        f"CAST({'NULL' if value is None else repr(str(value))} AS DOUBLE) AS {quote(name)}"
        for name, value in row.asDict().items()
    )
    return spark.sql(f"SELECT {', '.join(values)}")


def materialise_changes(spark: SparkSession, feeds: list[dict[str, Any]]) -> dict[str, int]:
    """Read, consolidate and materialise the change of every source; scans are open.

    Returns: view name -> rows of the consolidated change.
    """

    def rows_of(feed: dict[str, Any]) -> int:
        with explained(f"change of {feed['source']}, versions {feed['first']}..{feed['last']}"):
            _open_raw(spark, feed)
            return materialised(spark, feed["view"], feed["sql"])["rows"]

    views = [feed["view"] for feed in feeds]
    return dict(zip(views, port_of(spark).each(spark, rows_of, feeds), strict=True))


def materialised(
    spark: SparkSession, view: str, rows: str | DataFrame, columns: dict[str, str] | None = None
) -> dict[str, int]:
    """Compute a view once, in one job; gives its rows, or the `columns` counted over them.

    Counters inside a view report only from a query that is watched itself, as this one is.
    """
    counter = Counter(view, columns)
    frame = counter.materialise(spark.sql(rows) if isinstance(rows, str) else rows)
    frame.createOrReplaceTempView(quote(view))
    return counter.figures(frame)


def _open_raw(spark: SparkSession, feed: dict[str, Any]) -> None:
    """Register what the change is made from: the feed's events, or rows of files."""
    if feed["raw_view"]:
        raw = (
            spark.read.format("delta")
            .option("readChangeFeed", "true")
            .option("startingVersion", str(feed["first"]))
            .option("endingVersion", str(feed["last"]))
            .load(feed["location"])
        )
        raw.createOrReplaceTempView(quote(feed["raw_view"]))
    for read in feed["reads"]:
        if read["paths"]:
            rows = spark.read.schema(read["schema"]).parquet(*read["paths"])
        else:
            rows = _named_files(_version(spark, feed["location"], read["version"]), read)
        rows.createOrReplaceTempView(quote(read["view"]))


def _named_files(version: DataFrame, read: dict[str, Any]) -> DataFrame:
    file = version.metadataColumn("_metadata")["file_name"]  # a column may have that name as well
    rows = version.where(file.isin(*read["names"]))
    return rows if read["partitions"] is None else rows.where(read["partitions"])


def _static(spark: SparkSession, files: dict[str, Any]) -> DataFrame:
    reader = spark.read.schema(files["schema"])
    if files["format"] == "csv":
        rfc_4180 = {"header": "true", "multiLine": "true", "escape": '"', "mode": "FAILFAST"}
        reader = reader.options(**rfc_4180)
    return reader.format(files["format"]).load(list(files["paths"]))


def _as_often(rows: DataFrame) -> DataFrame:
    """The rows of a bag as a user sees them, each as often as its multiplicity says."""
    from pyspark.sql import functions

    copies = functions.explode(functions.expr(f"sequence(1L, {quote(COUNT)})"))
    return rows.withColumn(COUNT, copies).drop(COUNT, ROW_HASH)


def _version(spark: SparkSession, location: str, version: int) -> DataFrame:
    return spark.read.format("delta").option("versionAsOf", str(version)).load(location)
