"""Put up the derived sources of a run: their rows at both epochs, and their change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltajoin.runtime.failures import explained
from deltajoin.runtime.lookup import Lookups, start_lookups
from deltajoin.runtime.read import Counter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def derive(
    spark: SparkSession, programs: list[dict[str, Any]], change_rows: dict[str, int]
) -> dict[str, dict[str, Any]]:
    """Open each derived source and materialise its change, one after the other.

    Args:
        change_rows: view -> rows of the changes at hand; those of derived sources are added.

    Returns:
        source -> {"touched": groups or partitions, None for generators, "change_rows": rows,
        "reports": of its paths}; sources without a change are left out.
    """
    found = {}
    for program in programs:
        with explained(f"derived source {program['source']}"):
            _open(spark, program["scans"])
            if program["change"] is not None:
                found[program["source"]] = _change(spark, program, change_rows)
    return found


def _change(
    spark: SparkSession, program: dict[str, Any], change_rows: dict[str, int]
) -> dict[str, Any]:
    lookups = start_lookups(spark, program["paths"], program["shared"], change_rows)
    view: str = program["change"]["view"]
    touched: int | None = 0
    change_rows[view] = 0
    rows = lookups.union()
    if rows is not None:
        rows.createOrReplaceTempView(_quoted(program["rows"]))
        keyed = program["touched"] is not None
        touched = _materialised(spark, program["touched"]) if keyed else None
        if touched is None or touched:
            _open(spark, program["regroup"])
            change_rows[view] = _materialised(spark, program["change"])
    return {"touched": touched, "change_rows": change_rows[view], "reports": _reports(lookups)}


def _reports(lookups: Lookups) -> list[dict[str, Any]]:
    return [run.report() for run in lookups.runs]


def _open(spark: SparkSession, statements: list[dict[str, Any]]) -> None:
    for statement in statements:
        spark.sql(statement["sql"]).createOrReplaceTempView(_quoted(statement["view"]))


def _materialised(spark: SparkSession, statement: dict[str, Any]) -> int:
    """Compute a view once; gives its rows."""
    counter = Counter(statement["view"])
    frame: DataFrame = counter.watch(spark.sql(statement["sql"])).localCheckpoint(eager=True)
    frame.createOrReplaceTempView(_quoted(statement["view"]))
    return (counter.read() or {"rows": 0})["rows"]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
