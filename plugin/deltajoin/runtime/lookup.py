"""Evaluate the live lookup paths in one union, counting the rows out of every lookup."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

from deltajoin.runtime.read import Counter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass
class PathRun:
    """A path's statements in flight and the counters along it."""

    driver: str
    change_rows: int
    frame: DataFrame | None = None
    counters: list[tuple[str, Counter]] = field(default_factory=list)

    def report(self) -> dict[str, Any]:
        """Rows into the path, out of each lookup, and out of the path. Call after the action.

        A lookup that Spark never reached (an empty one beside it) has no count; the path's end then
        had no rows.
        """
        out: dict[str, int | None] = {}
        for relation, counter in self.counters:
            counted = counter.read()
            out[relation] = counted["rows"] if counted else None
        last = list(out.values())[-1] if out else self.change_rows
        return {
            "driver": self.driver,
            "change_rows": self.change_rows,
            "lookup_rows": out,
            "rows_out": (last or 0) if self.frame is not None else 0,
        }


def start_paths(
    spark: SparkSession, paths: list[dict[str, Any]], change_rows: dict[str, int]
) -> list[PathRun]:
    """Chain each path's statements; a path whose change turned out empty stays without a frame."""
    return [_start(spark, path, change_rows[path["feed"]]) for path in paths]


def _start(spark: SparkSession, path: dict[str, Any], rows: int) -> PathRun:
    run = PathRun(path["driver"], rows)
    if rows == 0:
        return run
    for position, statement in enumerate(path["statements"]):
        frame = spark.sql(statement["sql"])
        if position and statement["relation"] is not None:
            counter = Counter(statement["view"])
            frame = counter.watch(frame)
            run.counters.append((statement["relation"], counter))
        frame.createOrReplaceTempView("`" + statement["view"] + "`")
        run.frame = frame
    return run


def union_paths(runs: list[PathRun]) -> DataFrame | None:
    """All rows of all live paths, with duplicates; None when no path is live."""
    frames = [run.frame for run in runs if run.frame is not None]
    return reduce(lambda a, b: a.unionAll(b), frames) if frames else None
