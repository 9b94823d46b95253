"""A session of our own for one run.

Confs that mark a commit (transaction id, metadata) must never reach another thread's commit, and
the rows must not depend on what a session happens to have set. So a run gets a new session on the
same cluster, takes over the caller's SQL confs, then sets what the promise needs. ANSI mode and
time zone belong to the meaning of the query: they are fixed at the full build and kept with the
epochs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")
_COMMIT = (
    "spark.databricks.delta.write.txnAppId",
    "spark.databricks.delta.write.txnVersion",
    "spark.databricks.delta.commitInfo.userMetadata",
)
_NEEDED = {
    "spark.sql.variable.substitute": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.cbo.joinReorder.enabled": "false",
    "spark.sql.caseSensitive": "false",
    # What is merged was materialised before: Delta need not do it again.
    "spark.databricks.delta.merge.materializeSource": "none",
}


def own_session(spark: SparkSession, settings: dict[str, str] | None) -> SparkSession:
    """A fresh session with the caller's SQL confs, the frozen settings and the needed confs."""
    own = spark.newSession()
    wanted = {key: value for key, value in spark.conf.getAll.items() if _is_carried(key)}
    present = own.conf.getAll
    for key, value in sorted({**wanted, **_NEEDED, **(settings or {})}.items()):
        if present.get(key) != value and own.conf.isModifiable(key):
            own.conf.set(key, value)
    return own


def _is_carried(key: str) -> bool:
    return key.startswith(("spark.sql.", "spark.databricks.delta.", "spark.hadoop.", "fs.")) and (
        key not in _COMMIT
    )


def read_settings(own: SparkSession) -> dict[str, str]:
    """The settings that the rows depend on, as this session has them."""
    return {key: str(own.conf.get(key)) for key in SETTINGS}


@contextmanager
def commit_marks(own: SparkSession, app: str, epoch: int, metadata: str) -> Iterator[None]:
    """Mark the commits made inside with a transaction id and our metadata."""
    for key, value in zip(_COMMIT, (app, str(epoch), metadata), strict=True):
        own.conf.set(key, value)
    try:
        yield
    finally:
        for key in _COMMIT:
            own.conf.unset(key)
