"""The entry point of an emitted job: one session, one run, one line of result.

The line is in the driver's log, which may be on a cluster. So an error is also left beside the
target's ledger, with the name that the submitter gave the submission.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from deltajoin.contract import SUBMISSION, failure_folder
from deltajoin.errors import DeltaJoinError
from deltajoin.runtime.failures import explained, is_lost, undoing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RESULT_PREFIX = "deltajoin-result: "


def main(plan: dict[str, Any], program: dict[str, Any]) -> None:
    """Run a plan in the session that spark-submit gives; exit 1 with the error's code."""
    if plan["strategy"] == "noop":
        print(RESULT_PREFIX + json.dumps({"strategy": "noop", "reason": plan["reason"]}))
        return
    from pyspark.sql import SparkSession

    from deltajoin.runtime.execute import execute

    spark = SparkSession.builder.appName(f"deltajoin {plan['model']}").getOrCreate()
    try:
        with undoing(spark.stop), leaving_errors(spark, plan["target"]):
            with explained("tables of the plan"):
                check_tables(spark, plan)
            result = execute(spark, {"plan": plan, "program": program})
    except DeltaJoinError as error:
        print(RESULT_PREFIX + json.dumps({"error": error.to_dict()}), flush=True)
        print(error, file=sys.stderr, flush=True)
        sys.exit(1)
    print(RESULT_PREFIX + json.dumps(result), flush=True)


@contextmanager
def leaving_errors(spark: SparkSession, target: dict[str, Any]) -> Iterator[None]:
    """Leave what fails inside to the submitter that has named this submission, if one has."""
    try:
        yield
    except DeltaJoinError as error:
        if not is_lost(error):
            with suppress(Exception):  # the error itself is what counts
                _leave(spark, target, error)
        raise


def _leave(spark: SparkSession, target: dict[str, Any], error: DeltaJoinError) -> None:
    """Write it by Spark, which reaches the target wherever it is."""
    submission = spark.conf.get(SUBMISSION, None)
    if submission is None or target["location"] is None:
        return
    text = json.dumps({"submission": submission, "error": error.to_dict()})
    folder = failure_folder(target["location"], target["exists"])
    rows = spark.createDataFrame([(text,)], "value string").coalesce(1)
    rows.write.mode("overwrite").text(folder)


def check_tables(spark: SparkSession, plan: dict[str, Any]) -> None:
    """Refuse a plan whose tables have been dropped and created again since it was made, as their
    versions count from 0 again, or put back and written on. Static files every run looks at.

    Raises:
        DeltaJoinError: TABLE_REPLACED.
    """
    from deltajoin.runtime.commits import commit_digest
    from deltajoin.runtime.read import replaced
    from deltajoin.runtime.target import by_location

    target = {"location": plan["target"]["location"], "id": plan["target"].get("table_id")}
    planned = {**plan["frontier"], "the target": target}
    for name, at in sorted(planned.items()):
        if at["id"] is None or name in plan["static"]:
            continue
        location, commit = at["location"], at.get("commit")
        (found,) = spark.sql(f"DESCRIBE DETAIL {by_location(location)}").collect()
        if found["id"] != at["id"]:
            how = f"table {at['id']} was planned with, now {found['id']} stands in its place"
            raise replaced(name, location, how)
        if commit and commit_digest(spark, location, at["version"]) not in (None, commit):
            how = f"version {at['version']} is another one than was planned with"
            raise replaced(name, location, how)
