"""What was committed to the target since a version, read from the files of its log.

Rule: an epoch is made for the rows that the plan saw. So between the version of the plan and the
commit of the epoch nobody may have changed a row of the target. That is looked at just before the
write, when nothing is lost yet, and again behind it, because another writer may come in between;
the record says on which version its epoch stands (`target_previous`), so that the next plan sees
what this run did not live to see. Commits that change no row (OPTIMIZE, properties) don't count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltajoin.contract import committed_record
from deltajoin.errors import DeltaJoinError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A conf that Delta sets in a session at each commit, to the version, of whichever table.
LAST_COMMIT = "spark.databricks.delta.lastCommitVersionInSession"
_GLOB = re.compile(r"([\\*?{}\[\]])")
_CHANGES = """
    get_json_object(value, '$.add.dataChange') = 'true'
    OR get_json_object(value, '$.remove.dataChange') = 'true'
    OR get_json_object(value, '$.cdc.path') IS NOT NULL"""


@dataclass(frozen=True)
class Commit:
    """One version: its operation, our record if it is an epoch, whether any row changed."""

    version: int
    operation: str
    record: dict[str, Any] | None
    data_change: bool


def last_commit(spark: SparkSession) -> int | None:
    """The version that this session committed last, to whichever table; None before its first."""
    version = spark.conf.get(LAST_COMMIT, None)
    return int(version) if version else None


def commits_since(
    spark: SparkSession, location: str, version: int, last: int | None = None
) -> list[Commit]:
    """The commits after a version, oldest first; up to `last`, else to the newest."""
    if last is not None:
        return _read(spark, location, range(version + 1, last + 1))
    found: list[Commit] = []
    while newer := _read(
        spark, location, range(version + 1 + len(found), version + 2 + len(found))
    ):
        found += newer
    return found


def commit_digest(spark: SparkSession, location: str, version: int) -> str | None:
    """What tells a commit from another one of its version, as the planner found it
    (`catalog.log.commit_digest`). None where its file is gone."""
    from pyspark.errors import AnalysisException

    try:
        file = spark.read.format("binaryFile").load(_files(location, range(version, version + 1)))
        (row,) = file.selectExpr("sha2(content, 256)").collect()
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return None
        raise
    return str(row[0])[:16]


def refuse_changed(commits: Iterable[Commit], epoch: int, place: str) -> None:
    """Refuse an epoch over rows that are no longer those that its plan saw.

    Raises:
        DeltaJoinError: CONCURRENT_RUN where another run of the model committed them, else
            TARGET_CHANGED.
    """
    for commit in commits:
        if commit.record is not None:
            raise overtaken(int(commit.record["epoch"]), place)
        if commit.data_change:
            raise DeltaJoinError(
                "TARGET_CHANGED",
                f"{commit.operation} at version {commit.version} changed rows of the target while "
                f"epoch {epoch} was made",
                where=place,
                remedy="Run once with mode full to rebuild it, and let only deltajoin write to it.",
            )


def overtaken(epoch: int, place: str) -> DeltaJoinError:
    """The refusal of an epoch that another run has committed."""
    return DeltaJoinError(
        "CONCURRENT_RUN",
        f"epoch {epoch} was committed by another run",
        where=place,
        remedy="Nothing is lost; run again to consume what came later.",
    )


def _files(location: str, versions: range) -> list[str]:
    """The files of commits, as Spark takes paths: with no character that it would match."""
    folder = _GLOB.sub(r"\\\1", f"{location}/_delta_log")
    return [f"{folder}/{version:020d}.json" for version in versions]


def _read(spark: SparkSession, location: str, versions: range) -> list[Commit]:
    """The commits of these versions; none where the first of them has no file."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions

    if not versions:
        return []
    try:
        lines = spark.read.text(_files(location, versions)).select(
            functions.col("_metadata.file_name").alias("file"),
            functions.expr("get_json_object(value, '$.commitInfo')").alias("info"),
            functions.expr(_CHANGES).alias("changes"),
        )
        rows = lines.where("info IS NOT NULL OR changes").collect()
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return []
        raise
    infos: dict[int, dict[str, Any]] = {version: {} for version in versions}
    changing = set()
    for row in rows:
        version = int(row["file"].removesuffix(".json"))
        if row["info"] is not None:
            infos[version] = json.loads(row["info"])
        else:
            changing.add(version)
    return [
        Commit(
            version,
            str(info.get("operation") or "a commit"),
            committed_record(info.get("userMetadata")),
            version in changing,
        )
        for version, info in infos.items()
    ]
