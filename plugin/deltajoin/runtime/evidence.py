"""Hold the rows of a rebuild against the query as the user wrote it, before anything is written.

    columns   always: names and types, by analysis alone
    rows      where the plan asks and the sources are small enough: number of rows and sum of their
              hashes, of both sides in one query; our side is kept for the write

Floats that may depend on the order of rows agree where their sums do, and those of their products
with a number from the row's other columns; inside structs and arrays they are left out.

What differs is written by the user's own text, as a query that we don't understand is; strict mode
refuses. Spark's own error for the user's text comes first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltajoin.contract import UNDER_A_VIEW
from deltajoin.errors import DeltaJoinError
from deltajoin.names import COUNT, SHOWN, quote
from deltajoin.runtime.difference import columns_of
from deltajoin.runtime.failures import translate
from deltajoin.runtime.read import open_statements

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Relative to the larger sum, or absolute below 1.
TOLERANCE = 1e-6
_FLOATS = ("double", "float")
_NO_HASH = ("map<", "variant")
_NOT_STORED = ("interval", "time(", " collate ")
_REMEDY = "Run with mode full, which runs the query as it was written, and report it."


@dataclass
class Proof:
    """The rows to write, what the record says of the comparison, and warnings."""

    rows: DataFrame
    report: dict[str, Any]
    warnings: list[str]


def hold_against(
    spark: SparkSession, program: dict[str, Any], target: dict[str, Any], few: bool, final: bool
) -> Proof:
    """Compare our form of a query with its text.

    Args:
        few: the sources are small enough to compare rows.
        final: a failure is one of the query. Interpreted, Spark may fail where it would not when it
            compiles.
    """
    evidence = program["evidence"]
    written = spark.sql(evidence["text"])
    columns = columns_of(written)
    try:
        rows = own_form(spark, program)
        differs = _other_columns(columns_of(rows), columns, target)
    except Exception as error:
        differs = f"our form of it fails: {translate(error, '').message}"
    report: dict[str, Any] = {"compared": "columns"}
    if not differs and evidence.get("because"):
        report["because"] = evidence["because"]
    elif not differs and evidence["rows"] and not few:
        report["because"] = "the sources have more rows than spark.deltajoin.compareRows"
    elif not differs and evidence["rows"]:
        from pyspark import StorageLevel

        # In memory, the rows of large sources take more than a small driver has, and are no faster.
        rows = rows.persist(StorageLevel.DISK_ONLY)
        often = quote(COUNT) if target["kind"] == "bag" else "1L"
        shown = rows.where(quote(SHOWN)) if SHOWN in target.get("hidden", ()) else rows
        sides = tuple(
            _figures(side, columns, evidence["rounded"], weight)
            for side, weight in ((shown, often), (written, "1L"))
        )
        count = 0
        try:
            count, differs = _compare_rows(sides, columns)
        except Exception as error:
            rows.unpersist()
            differs = _failure_of_ours(error, sides[1], final)
        if differs:
            rows.unpersist()
        report = {"compared": "columns and rows", "rows": count}
    if not differs:
        return Proof(rows, report, [])
    warning = f"MEANING_DIFFERS: {differs}; the query is rebuilt from its own text"
    return Proof(written, {"differs": differs}, [warning])


def own_form(spark: SparkSession, program: dict[str, Any]) -> DataFrame:
    """The rows of our form of a query."""
    open_statements(spark, program.get("apart", []))
    return spark.sql(program["full"])


def by_own_text(target: dict[str, Any], mode: str, proof: Proof) -> dict[str, Any]:
    """The target for rows of the user's own text.

    Raises:
        DeltaJoinError: MEANING_DIFFERS in strict mode, and where the target lies under a view.
    """
    under = target["exists"] and target["name_parts"] and target["kind"] in UNDER_A_VIEW
    if mode == "incremental_strict" or under:
        raise DeltaJoinError(
            "MEANING_DIFFERS",
            f"{proof.report['differs']}; nothing was written",
            where=target["place"],
            remedy="Drop the target (dbt: --full-refresh) and run again." if under else _REMEDY,
        )
    columns = list(proof.rows.columns)
    return {**target, "kind": "plain", "key": [], "hidden": [], "columns": columns}


def _other_columns(
    ours: list[tuple[str, str]], written: list[tuple[str, str]], target: dict[str, Any]
) -> str:
    """How our columns that a user sees differ from the text's; "" where they don't."""
    hidden = {COUNT, *target.get("hidden", ())}
    seen = [(name, kind) for name, kind in ours if name not in hidden]
    if [name for name, _ in seen] != [name for name, _ in written]:
        text = ", ".join(name for name, _ in written)
        return f"our form of it has other columns than its text, which has {text}"[:300]
    found = [f"{o[0]} is {o[1]}, not {w[1]}" for o, w in zip(seen, written, strict=True) if o != w]
    found += [
        f"a hidden column is {kind}, which Delta can't hold"
        for name, kind in ours
        if name in hidden and any(mark in kind for mark in _NOT_STORED)
    ]
    return ("in our form of it " + "; ".join(found))[:300] if found else ""


def _compare_rows(sides: tuple[DataFrame, ...], columns: list[tuple[str, str]]) -> tuple[int, str]:
    """Rows of the text, and how ours differ; "" where they don't."""
    from pyspark.sql.functions import lit

    ours, written = (s.select(lit(i).alias("side"), "*") for i, s in enumerate(sides))
    # The text first: Spark renames the columns of what comes second, and misses those in LATERAL.
    found = written.unionAll(ours).collect()
    mine, text = (row.asDict() for row in sorted(found, key=lambda row: row["side"]))
    count = int(text["rows"])
    if mine["rows"] != text["rows"]:
        return count, f"our form of it has {mine['rows']} rows, its text {count}"
    if mine["hashes"] != text["hashes"]:
        return count, f"our form of it has other rows than its text, {count} as well"
    off = {name.split("_")[1] for name in mine if not _agree(mine, text, name)}
    names = [name for i, (name, _) in enumerate(columns) if str(i) in off]
    return count, f"our form of it has other values of {', '.join(names)}" if off else ""


def _failure_of_ours(error: Exception, written: DataFrame, final: bool) -> str:
    """What failed, if it is not the user's own text that fails, no want of memory, and no tie."""
    failure = translate(error, "")
    if not final or failure.code in ("BROADCAST_TOO_LARGE", "SPARK_LOST", "WINDOW_TIES"):
        raise error
    written.collect()
    return f"our form of it fails: {failure.message}"


def _figures(
    rows: DataFrame, columns: list[tuple[str, str]], rounded: bool, weight: str
) -> DataFrame:
    """One row: the number of rows, the sum of hashes, and sums of the floats that are rounded."""
    from pyspark.sql.functions import expr

    inexact = [rounded and any(f in kind for f in _FLOATS) for _, kind in columns]
    exact = [
        f"cast({quote(name)} AS string)" if any(k in kind for k in _NO_HASH) else quote(name)
        for (name, kind), left_out in zip(columns, inexact, strict=True)
        if not left_out
    ]
    row_hash = f"xxhash64({', '.join(exact)})" if exact else "0L"
    sums = {
        "rows": weight,
        "hashes": f"CAST({row_hash} AS decimal(38, 0)) * {weight}",
    }
    for i, (name, kind) in enumerate(columns):
        if rounded and kind in _FLOATS:
            value = f"CAST({quote(name)} AS double)"
            finite = f"if(abs({value}) < double('Infinity'), {value}, 0D) * {weight}"
            sums |= {
                f"f_{i}_null": f"if({value} IS NULL, {weight}, 0L)",
                f"f_{i}_nan": f"if(isnan({value}), {weight}, 0L)",
                f"f_{i}_up": f"if({value} = double('Infinity'), {weight}, 0L)",
                f"f_{i}_down": f"if({value} = double('-Infinity'), {weight}, 0L)",
                f"f_{i}_size": f"abs({finite})",
                f"f_{i}_sum": finite,
                f"f_{i}_mixed": f"{finite} * pmod({row_hash}, 1021L) / 1021D",
            }
    return rows.agg(*(expr(f"coalesce(sum({sql}), 0)").alias(n) for n, sql in sums.items()))


def _agree(mine: dict[str, Any], text: dict[str, Any], name: str) -> bool:
    """Counts are equal, sums near to each other."""
    if not name.endswith(("_sum", "_mixed", "_size")):
        return name == "side" or bool(mine[name] == text[name])
    size = name.rsplit("_", 1)[0] + "_size"
    largest = max(1.0, float(mine[size]), float(text[size]))
    return bool(abs(float(mine[name]) - float(text[name])) <= TOLERANCE * largest)
