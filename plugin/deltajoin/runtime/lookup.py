"""Evaluate the live lookup paths in one union, counting the rows of every path at every lookup."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

from deltajoin.names import PATH, quote
from deltajoin.runtime.port import port_of
from deltajoin.runtime.read import Counter, opened

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass
class PathRun:
    """A path in flight and the counters along it: relation, counter, which of its figures; those of
    what lookups choose from by themselves."""

    driver: str
    change_rows: int
    counters: list[tuple[str, Counter, str]] = field(default_factory=list)
    candidates: list[tuple[str, Counter, str]] = field(default_factory=list)

    def report(self) -> dict[str, Any]:
        """Rows into the path, out of each lookup, and out of the path. Call after the action.

        A lookup that Spark never reached (an empty one beside it) has no count; the path's end then
        had no rows. Neither has one that the rest of the path does without.
        """
        out, candidates = _counted(self.counters), _counted(self.candidates)
        last = list(out.values())[-1] if out else self.change_rows
        return {
            "driver": self.driver,
            "change_rows": self.change_rows,
            "lookup_rows": out,
            "candidates": candidates,
            "rows_out": (last or 0) if self.change_rows else 0,
        }


def _counted(counters: list[tuple[str, Counter, str]]) -> dict[str, int | None]:
    found = ((relation, counter.read(), figure) for relation, counter, figure in counters)
    return {relation: counted[figure] if counted else None for relation, counted, figure in found}


@dataclass
class Lookups:
    """All paths in flight, and the frames that hold their output rows."""

    runs: list[PathRun]
    ends: list[DataFrame]

    def union(self) -> DataFrame | None:
        """All rows of all live paths, with duplicates; None when no path is live."""
        return reduce(lambda a, b: a.unionAll(b), self.ends) if self.ends else None


def start_lookups(
    spark: SparkSession,
    paths: list[dict[str, Any]],
    shared: list[dict[str, Any]],
    change_rows: dict[str, int],
) -> Lookups:
    """Chain the statements of each path whose change has rows, then those that paths share."""
    runs = [PathRun(path["driver"], change_rows[path["feed"]]) for path in paths]
    live = [at for at, run in enumerate(runs) if run.change_rows]

    def follow(at: int) -> tuple[str, DataFrame]:
        return _chain(spark, paths[at]["statements"], [runs[at]], ["count(1)"])

    ends = dict(port_of(spark).each(spark, follow, live))
    by_number = {path["number"]: run for path, run in zip(paths, runs, strict=True)}
    for part in shared:
        frames = [ends.pop(view) for view in part["inputs"] if view in ends]
        if not frames:
            continue
        union = reduce(lambda a, b: a.unionAll(b), frames)
        if part.get("kept"):
            union = Counter(part["view"]).materialise(union)
        union.createOrReplaceTempView(quote(part["view"]))
        numbers = [number for number in part["paths"] if by_number[number].change_rows]
        figures = [f"count_if(`{PATH}` = {number})" for number in numbers]
        members = [by_number[number] for number in numbers]
        view, frame = _chain(spark, part["statements"], members, figures)
        ends[view] = frame
    return Lookups(runs, list(ends.values()))


def more_than_sent(program: dict[str, Any], change_rows: dict[str, int]) -> list[tuple[str, int]]:
    """The paths, those of derived sources too, that broadcast and whose change, as far as it is
    known, has too many rows for that: driver and rows."""
    paths = [*program["paths"]]
    for below in program.get("derived", ()):
        paths += below["paths"]
    rows = [change_rows.get(path["feed"], 0) for path in paths]
    return [
        (path["driver"], found)
        for path, found in zip(paths, rows, strict=True)
        if 0 < path.get("sent", 0) < found
    ]


def _chain(
    spark: SparkSession,
    statements: list[dict[str, Any]],
    runs: list[PathRun],
    figures: list[str],
) -> tuple[str, DataFrame]:
    """The last view of some statements and its frame; each lookup is counted for each path.

    `figures`: what to count, in the order of `runs`.
    """
    columns = {f"rows_{i}": sql for i, sql in enumerate(figures)}
    for statement in statements:
        frame, relation = opened(spark, statement), statement["relation"]
        counter = Counter(statement["view"])
        if relation is not None:  # others may lack the path's number
            counter = Counter(statement["view"], columns)
            for name, run in zip(columns, runs, strict=True):
                counters = run.candidates if statement.get("candidates") else run.counters
                counters.append((relation, counter, name))
        if statement.get("kept"):
            frame = counter.materialise(frame)
        elif relation is not None:
            frame = counter.watch(frame)
        frame.createOrReplaceTempView(quote(statement["view"]))
    return statements[-1]["view"], frame
