"""A session of our own for one run.

Confs that mark a commit (transaction id, metadata) must never reach another thread's commit, and
the rows must not depend on what a session happens to have set. So a run gets a session on the same
cluster (`port`), with the caller's confs, catalog and schema, then sets what the promise needs.
Settings that belong to the meaning of the query are fixed at the full build and kept with the
epochs (`settings`).

A run over few rows spends its time on plans, not on rows: Spark compiles each stage and plans it
anew when its inputs are there. `for_few_rows` interprets plans as they were made instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from deltajoin.errors import DeltaJoinError
from deltajoin.runtime.failures import explained, undoing
from deltajoin.runtime.object_store import set_storage
from deltajoin.runtime.port import COMMIT_MARKS, carry, port_of
from deltajoin.runtime.settings import PARSING, STRUCTURE, value_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NEEDED = {
    "spark.sql.variable.substitute": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.cbo.joinReorder.enabled": "false",
    "spark.sql.sources.partitionOverwriteMode": "static",
    "spark.sql.caseSensitive": "false",
    # Delta's change feed passes rows on as objects: those of java.sql have no 10 October 1582.
    "spark.sql.datetime.java8API.enabled": "true",
    # What is merged was materialised before: Delta need not do it again.
    "spark.databricks.delta.merge.materializeSource": "none",
}

#: Rows of all sources together up to which plans are interpreted, unless the session's setting says
#: otherwise: a second or two of rows in place of ten of compiling dozens of stages.
FEW_ROWS = 100_000
FEW_ROWS_SETTING = "spark.deltajoin.fewRows"
#: The same for a first build that is computed twice, by our form of the query and by the user's own
#: text.
COMPARE_ROWS = 20_000_000
COMPARE_ROWS_SETTING = "spark.deltajoin.compareRows"
#: Of so many rows that differ, an error tells the keys; none unless somebody asks for them.
EXAMPLES_SETTING = "spark.deltajoin.examples"
#: What Spark gives otherwise when it interprets: `levenshtein(a, b, NULL)` is NULL, and then -1.
_COMPILED = re.compile(r"\blevenshtein\b", re.IGNORECASE)
_FOR_FEW_ROWS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}
#: Rows of a target up to which its files are written anew, in one job; to mark rows of them as
#: deleted takes Delta seven, which cost as much as 10,000 rows that are copied.
TINY_ROWS = 5_000
_FOR_TINY_FILES = {"spark.databricks.delta.merge.deletionVectors.persistent": "false"}
_NO_HINTS = "spark.sql.optimizer.disableHints"
#: No join broadcasts a side, whether Spark's estimate or a hint of ours says so.
_WITHOUT_BROADCASTS = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1",
    _NO_HINTS: "true",
}


def own_session(
    spark: SparkSession, settings: dict[str, str] | None, parsed: bool = False
) -> SparkSession:
    """A fork of the caller's session with the recorded settings and the needed confs; for a text
    that we have `parsed`, also Spark's defaults of reading one."""
    with explained("the session of the run"):
        own = port_of(spark).fork(spark)
    reading, structure = (PARSING, STRUCTURE) if parsed else ({}, {})
    wanted = {**_NEEDED, **reading, **(settings or {}), **structure}
    for key, value in sorted(wanted.items()):
        if value_of(own, key) != value:
            carry(own, key, value)
    set_storage(own)
    return own


def may_interpret(caller: SparkSession, plan: dict[str, Any]) -> bool:
    """True when a plan's sources are known to have few rows together, and it means the same
    interpreted; INVALID_SETTING."""
    few = _number_of_rows(caller, FEW_ROWS_SETTING, FEW_ROWS)
    rows = [at["rows"] for at in plan["frontier"].values()]
    return None not in rows and sum(rows) <= few and not _COMPILED.search(plan["sql"])


def may_compare_rows(caller: SparkSession, frontier: dict[str, Any]) -> bool:
    """True when a first build over these sources is compared row by row; tables whose rows no log
    counts don't stand against it; INVALID_SETTING."""
    most = _number_of_rows(caller, COMPARE_ROWS_SETTING, COMPARE_ROWS)
    return 0 < most >= sum(at["rows"] or 0 for at in frontier.values())


def examples(caller: SparkSession) -> int:
    """Of how many rows an error may tell the keys; INVALID_SETTING."""
    return _number_of_rows(caller, EXAMPLES_SETTING, 0)


def _number_of_rows(caller: SparkSession, setting: str, default: int) -> int:
    given = caller.conf.get(setting, str(default)) or "0"
    if not given.strip().isdecimal():
        raise DeltaJoinError(
            "INVALID_SETTING",
            f"{setting} is {given!r}",
            where="the Spark session",
            remedy=f"Set it to a number of rows: 0 means never, unset means {default:,}.",
        )
    return int(given)


def for_few_rows(own: SparkSession) -> AbstractContextManager[None]:
    """Plans made inside are interpreted, and not planned anew between their stages."""
    return _with_confs(own, _FOR_FEW_ROWS)


def for_target(own: SparkSession, target: dict[str, Any]) -> AbstractContextManager[None]:
    """A MERGE made inside writes the files of a target of few rows anew."""
    records = target.get("records")
    return _with_confs(own, _FOR_TINY_FILES if records is not None and records <= TINY_ROWS else {})


def without_broadcasts(own: SparkSession) -> None:
    """From here on, joins exchange both sides: slower, and as large as the disks."""
    for key, value in _WITHOUT_BROADCASTS.items():
        own.conf.set(key, value)


def without_hints(own: SparkSession) -> None:
    """From here on, Spark alone decides what is broadcast."""
    own.conf.set(_NO_HINTS, "true")


def without_repartition(own: SparkSession) -> None:
    """From here on, a MERGE writes each partition from as many tasks as have rows of it: Delta 4.4
    repartitions by unquoted names, and finds no column that has a dot in its name."""
    own.conf.set("spark.databricks.delta.merge.repartitionBeforeWrite.enabled", "false")


def commit_marks(
    own: SparkSession, app: str, epoch: int, metadata: str
) -> AbstractContextManager[None]:
    """Mark the commits made inside with a transaction id and our metadata."""
    marks = zip(COMMIT_MARKS, (app, str(epoch), metadata), strict=True)
    return _with_confs(own, dict(marks))


@contextmanager
def _with_confs(own: SparkSession, confs: dict[str, str]) -> Iterator[None]:
    before = {key: own.conf.get(key, None) for key in confs}
    for key, value in confs.items():
        own.conf.set(key, value)
    with undoing(lambda: _set_back(own, before)):
        yield


def _set_back(own: SparkSession, before: dict[str, str | None]) -> None:
    for key, old in before.items():
        if old is None:
            own.conf.unset(key)
        else:
            own.conf.set(key, old)
