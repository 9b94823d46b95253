"""What the two kinds of Spark session do in different ways: classic, and Spark Connect.

    fork        a session of its own on the same cluster, as the caller's is
    watch       count the rows that pass a point of a query
    materialise compute a frame once, counting its rows
    each        do some work on several things
    release     forget what a fork holds

Rule: only PySpark's public API. A fork takes over the caller's confs, catalog and schema, without
the confs that mark a commit, or tell of the caller's last one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from deltajoin.errors import DeltaJoinError
from deltajoin.names import quote
from deltajoin.runtime.commits import LAST_COMMIT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

COMMIT_MARKS = (
    "spark.databricks.delta.write.txnAppId",
    "spark.databricks.delta.write.txnVersion",
    "spark.databricks.delta.commitInfo.userMetadata",
)
_NOT_CARRIED = (*COMMIT_MARKS, LAST_COMMIT)
#: Kept rows remember what Spark inferred of them, and Spark 4.2 loses track of it where it renames
#: their columns: a UNION of such rows ends in "key not found".
_CONSTRAINTS = "spark.sql.constraintPropagation.enabled"
_LOG = logging.getLogger("deltajoin")
#: Seconds to wait for a counter whose query has ended.
_PATIENCE = 60.0
#: Things that are worked on at once.
_BESIDE = 4

_Thing = TypeVar("_Thing")
_Result = TypeVar("_Result")
#: Column -> value; empty or None where nothing was counted.
Figures = Callable[[], dict[str, int] | None]
#: A frame in place of the one that was given, and what was counted over it.
Counted = tuple["DataFrame", Figures]


def port_of(spark: SparkSession) -> Classic:
    """The port for a session."""
    return Classic() if hasattr(spark, "newSession") else Connect()


def carry(own: SparkSession, key: str, value: str) -> None:
    """Set a conf; one that no session may set keeps its value."""
    from pyspark.errors import AnalysisException

    with suppress(AnalysisException):
        own.conf.set(key, value)


def place_of(spark: SparkSession) -> str:
    """The catalog and schema in which a session's unqualified names are; Spark quotes the schema
    where it must be.

    By SQL: `spark.catalog` loads the session's catalog outside of the session, and Delta's keeps
    whichever session is active then, to read its settings for all tables by path.
    """
    (here,) = spark.sql("SELECT current_catalog(), current_schema()").collect()
    return f"{quote(here[0])}.{here[1]}"


class Classic:
    """A session in the driver's process."""

    def fork(self, spark: SparkSession) -> SparkSession:
        """A new session; temporary views and functions stay with the caller's."""
        own = spark.newSession()
        present = own.conf.getAll
        for key, value in spark.conf.getAll.items():
            if present.get(key) != value and key not in _NOT_CARRIED:
                carry(own, key, value)
        if place_of(own) != place_of(spark):
            own.sql(f"USE {place_of(spark)}")  # `setCurrentCatalog` asks the active session's confs
        return own

    def watch(self, frame: DataFrame, name: str, columns: list[Column]) -> Counted:
        """Count while a query over the frame runs."""
        from pyspark.sql import Observation

        observation = Observation(name)
        return frame.observe(observation, *columns), lambda: _patiently(observation, name)

    def materialise(self, frame: DataFrame, name: str, columns: list[Column]) -> Counted:
        """Compute the frame once, in one job, in which counters below it count too."""
        watched, figures = self.watch(frame, name, columns)
        return watched.localCheckpoint(eager=True), figures

    def each(
        self, own: SparkSession, work: Callable[[_Thing], _Result], things: Sequence[_Thing]
    ) -> list[_Result]:
        """What some work gives for each of several things: beside one another, as it waits for the
        driver most of its time."""
        from pyspark import inheritable_thread_target

        def begin(thing: _Thing) -> Future[_Result]:
            # With local properties of its own, in which Spark notes the query that it runs.
            return pool.submit(copy_context().run, inheritable_thread_target(own)(work), thing)

        with ThreadPoolExecutor(_BESIDE) as pool:
            return [future.result() for future in list(map(begin, things))]

    def release(self, own: SparkSession) -> None:
        """Drop the temporary views; never fails. Delta keeps the session that loaded a snapshot
        for as long as that is the newest; the plans of its views, megabytes for each table, would
        stay with it."""
        with suppress(Exception):
            # Temporary views are listed with any schema; this one asks no metastore.
            for view in own.sql("SHOW VIEWS IN spark_catalog.global_temp").collect():
                if view["isTemporary"] and not view["namespace"]:
                    own.catalog.dropTempView(view["viewName"])


def _patiently(observation: Any, name: str) -> dict[str, int] | None:
    """What was counted; None where Spark proved the point unreachable. Call after an action.

    An observation that no query completed would block for ever: it counts as unknown then, with a
    warning.
    """
    from threading import Thread

    found: list[dict[str, int]] = []
    failed: list[Exception] = []

    def read() -> None:
        try:
            found.append(observation.get)
        except Exception as error:
            failed.append(error)

    reader = Thread(target=read, daemon=True)
    reader.start()
    reader.join(_PATIENCE)
    if reader.is_alive():
        _LOG.warning("Spark told nothing of counter %s within %.0f s", name, _PATIENCE)
    # An eliminated point leaves a row without schema, on which PySpark 4.2 asserts.
    if failed and "AssertionError" not in str(failed[0]):
        raise failed[0]
    return found[0] if found else None


class Connect(Classic):
    """A session on a Spark Connect server."""

    def fork(self, spark: Any) -> SparkSession:
        """A clone on the server, with temporary views and functions too.

        Raises:
            DeltaJoinError: SPARK_FAILED where the server can't clone.
        """
        version = spark.version  # the server knows a session from its first request on
        try:
            own: SparkSession = spark.cloneSession()
        except Exception as error:
            details = getattr(error, "details", None)  # of gRPC, which PySpark hands on as it is
            text = details() if details else error
            raise DeltaJoinError(
                "SPARK_FAILED",
                f"the Spark Connect server can't clone a session: {text}",
                where=f"Spark {version}",
                remedy="Use a server of Spark 4.2, or a classic session.",
            ) from error
        for key in _NOT_CARRIED:
            own.conf.unset(key)
        return own

    def watch(self, frame: DataFrame, name: str, columns: list[Column]) -> Counted:
        """Materialise: the server tells what is counted in the plan that a client sends, and
        nothing of counters within views."""
        return self.materialise(frame, name, columns)

    def each(
        self, own: SparkSession, work: Callable[[_Thing], _Result], things: Sequence[_Thing]
    ) -> list[_Result]:
        """The same, one after the other: `materialise` changes the session's confs for a while."""
        return list(map(work, things))

    def materialise(self, frame: DataFrame, name: str, columns: list[Column]) -> Counted:
        """Compute the frame once, in one job."""
        own = frame.sparkSession
        watched = frame.observe(name, *columns)
        inferred = own.conf.get(_CONSTRAINTS)
        own.conf.set(_CONSTRAINTS, "false")
        kept = watched.localCheckpoint(eager=True)
        own.conf.set(_CONSTRAINTS, str(inferred))  # what fails leaves it: a change of plans alone
        execution = watched.executionInfo
        figures = dict(execution.flows).get(name) if execution else None
        # PySpark 4.2 gives a frame of the thread's active session, which has no such rows.
        return own.sql("SELECT * FROM {rows}", rows=kept), lambda: figures

    def release(self, own: SparkSession) -> None:
        """End the session on the server. (`stop` would fail: a clone of PySpark 4.2 lacks a field
        that it reads; and it ends a server that the process has started.)"""
        with suppress(Exception):
            own.client.release_session()
        with suppress(Exception):
            own.client.close()
