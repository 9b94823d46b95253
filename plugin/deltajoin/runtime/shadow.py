"""Compare what a run is about to write with the query as it was written; stop it if they differ.

Rule: nothing is written before both are equal as multisets. What is compared is what the MERGE will
do: `to_write` applied to the target at the version that the plan found.

Caller: has `to_write` as a view, in the session of the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltajoin.errors import DeltaJoinError
from deltajoin.runtime.failures import explained
from deltajoin.runtime.read import Counter, open_scans

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXTRA, MISSING = "__deltajoin_extra", "__deltajoin_missing"
EXAMPLES = 3


def compare(
    spark: SparkSession, shadow: dict[str, Any], target: dict[str, Any], floats: list[Any]
) -> dict[str, Any]:
    """Compare; the report goes into the record: rows of the query, rows that differ, tolerances.

    Raises:
        DeltaJoinError: SHADOW_MISMATCH.
    """
    open_scans(spark, shadow["scans"])
    rows = [_compared(spark, one, target) for one in shadow["comparisons"]]
    return {
        "rows": rows[0],
        "differing": 0,
        "tolerances": {name: tolerance for name, tolerance in floats},
    }


def _compared(spark: SparkSession, one: dict[str, Any], target: dict[str, Any]) -> int:
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
        differing = counted.read() or counted.over(found)
        if any(differing.values()):
            raise _mismatch(target, differing, _examples(found, target))
        return (queried.read() or queried.over(rows))["rows"]


def _examples(found: DataFrame, target: dict[str, Any]) -> str:
    """The keys of some differing rows; of a bag all columns."""
    there = [name for name in found.columns if name not in (EXTRA, MISSING)]
    wanted = [name for name in target["key"] if name in there] or there
    columns = [found["`" + name.replace("`", "``") + "`"] for name in wanted]
    rows = found.select(*columns).distinct().orderBy(*columns).limit(EXAMPLES).collect()
    shown = (", ".join(f"{n}={v}" for n, v in zip(wanted, row, strict=True)) for row in rows)
    return "; ".join(f"({text[:200]})" for text in shown)


def _mismatch(target: dict[str, Any], differing: dict[str, int], keys: str) -> DeltaJoinError:
    return DeltaJoinError(
        "SHADOW_MISMATCH",
        f"after this run the target would hold {differing[EXTRA]} rows too many and lack "
        f"{differing[MISSING]} of the query's; nothing was written; for example {keys}",
        where=target["place"],
        remedy="Run once with mode full. If nothing else wrote to the target, report the model.",
    )
