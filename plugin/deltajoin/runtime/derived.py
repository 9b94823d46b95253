"""Put up the derived sources of a run: their rows at both epochs, and their change."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from deltajoin.names import quote
from deltajoin.runtime.failures import explained
from deltajoin.runtime.lookup import Lookups, start_lookups
from deltajoin.runtime.read import materialised, open_statements

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def derive(
    spark: SparkSession,
    programs: list[dict[str, Any]],
    change_rows: dict[str, int],
    hold: Callable[[dict[str, int]], None],
) -> dict[str, dict[str, Any]]:
    """Open each derived source and materialise its change, one after the other.

    Args:
        change_rows: view -> rows of the changes at hand; those of derived sources are added.
        hold: is told of each view that is materialised, with its rows.

    Returns:
        source -> {"touched": groups or partitions, None for generators, "change_rows": rows,
        "reports": of its paths}; sources without a change are left out.
    """
    found = {}
    for program in programs:
        with explained(f"derived source {program['source']}"):
            open_statements(spark, program["scans"])
            if program["change"] is not None:
                found[program["source"]] = _change(spark, program, change_rows, hold)
                view = program["change"]["view"]
                hold({view: change_rows[view]})
    return found


def _change(
    spark: SparkSession,
    program: dict[str, Any],
    change_rows: dict[str, int],
    hold: Callable[[dict[str, int]], None],
) -> dict[str, Any]:
    lookups = start_lookups(spark, program["paths"], program["shared"], change_rows)
    view: str = program["change"]["view"]
    touched: int | None = 0
    change_rows[view] = 0
    rows = lookups.union()
    if rows is None and program.get("crossing") is not None:
        touched, change_rows[view] = None, _rows(spark, program["crossing"])
    elif rows is not None:
        rows.createOrReplaceTempView(quote(program["rows"]))
        keyed = program["touched"] is not None
        touched = _rows(spark, program["touched"]) if keyed else None
        if touched:
            hold({program["touched"]["view"]: touched})
        if touched is None or touched:
            open_statements(spark, program["regroup"])
            change_rows[view] = _rows(spark, program["change"])
    return {"touched": touched, "change_rows": change_rows[view], "reports": _reports(lookups)}


def _rows(spark: SparkSession, statement: dict[str, Any]) -> int:
    return materialised(spark, statement["view"], statement["sql"])["rows"]


def _reports(lookups: Lookups) -> list[dict[str, Any]]:
    return [run.report() for run in lookups.runs]
