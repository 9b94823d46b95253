"""Compare what a run is about to write with the query as it was written; stop it if they differ.

Rule: nothing is written before both are equal as multisets. What is compared is what the MERGE will
do: `to_write` applied to the target at the version that the plan found.

Caller: has `to_write` as a view, in the session of the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltajoin.errors import DeltaJoinError
from deltajoin.names import OPERATION, WEIGHT, quote
from deltajoin.runtime.difference import BY_WEIGHT
from deltajoin.runtime.failures import explained, undoing
from deltajoin.runtime.own_session import EXAMPLES_SETTING, examples, own_session
from deltajoin.runtime.port import port_of
from deltajoin.runtime.read import Counter, open_scans
from deltajoin.runtime.target import read_stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXTRA, MISSING = "__deltajoin_extra", "__deltajoin_missing"
_MISMATCH = ("SHADOW_MISMATCH", "after this run the target would hold")
_DIFFER = ("ROWS_DIFFER", "over the versions of the last epoch the target is found to hold")


def check_rows(spark: SparkSession, job: dict[str, Any]) -> dict[str, Any]:
    """Compare what a target holds with the query over the versions of its last epoch.

    Args:
        job: the epoch's settings, the target, and the comparison.

    Raises:
        DeltaJoinError: ROWS_DIFFER.
    """
    own = own_session(spark, job["settings"])
    with undoing(lambda: port_of(own).release(own)):
        with explained(f"read of {job['target']['place']}"):
            nothing_to_write(own, job["target"])
        return compare(own, job["shadow"], job["target"], job["floats"], _DIFFER)


def nothing_to_write(spark: SparkSession, target: dict[str, Any]) -> None:
    """Put up `to_write` without a row."""
    from pyspark.sql import functions

    weighted = target["kind"] in BY_WEIGHT
    extra = functions.lit(0).cast("bigint") if weighted else functions.lit("")
    rows = read_stored(spark, target).limit(0)
    rows = rows.select("*", extra.alias(WEIGHT if weighted else OPERATION))
    rows.createOrReplaceTempView("to_write")


def compare(
    spark: SparkSession,
    shadow: dict[str, Any],
    target: dict[str, Any],
    floats: list[Any],
    refusal: tuple[str, str] = _MISMATCH,
) -> dict[str, Any]:
    """Compare; the report goes into the record: rows of the query, rows that differ, tolerances.

    Args:
        refusal: the code of an error, and how its message begins.

    Raises:
        DeltaJoinError: SHADOW_MISMATCH, or the code that is given.
    """
    open_scans(spark, shadow["scans"])
    rows = [_compared(spark, one, target, refusal) for one in shadow["comparisons"]]
    return {
        "rows": rows[0],
        "differing": 0,
        "tolerances": {name: tolerance for name, tolerance in floats},
    }


def _compared(
    spark: SparkSession, one: dict[str, Any], target: dict[str, Any], refusal: tuple[str, str]
) -> int:
    """Rows of a query with which the target agrees."""
    view = one["view"]
    queried = Counter(view)
    counted = Counter(
        f"compare_{view}", {name: f"coalesce(sum(`{name}`), 0)" for name in (EXTRA, MISSING)}
    )
    with explained("comparison with a full recomputation"):
        rows = spark.sql(one["sql"])
        queried.watch(rows).createOrReplaceTempView(view)
        found = counted.materialise(spark.sql(one["compare"]))
        differing = counted.figures(found)
        if any(differing.values()):
            code, begins = refusal
            raise DeltaJoinError(
                code,
                f"{begins} {differing[EXTRA]} rows too many and lack {differing[MISSING]} of the "
                f"query's; nothing was written{_examples(found, target, examples(spark))}",
                where=target["place"],
                remedy="Run once with mode full. If nothing else wrote to the target, report the "
                f"model. Set {EXAMPLES_SETTING} to a number of rows to be told their keys.",
            )
        return queried.figures(rows)["rows"]


def _examples(found: DataFrame, target: dict[str, Any], most: int) -> str:
    """The keys of some differing rows; of a bag all columns."""
    if not most:
        return ""
    there = [name for name in found.columns if name not in (EXTRA, MISSING)]
    wanted = [name for name in target["key"] if name in there] or there
    columns = [found[quote(name)] for name in wanted]
    rows = found.select(*columns).distinct().orderBy(*columns).limit(most).collect()
    shown = (", ".join(f"{n}={v}" for n, v in zip(wanted, row, strict=True)) for row in rows)
    return "; for example " + "; ".join(f"({text[:200]})" for text in shown)
