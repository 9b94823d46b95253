"""Time our join order on Spark against the literal order and against Spark's cost-based order.

Four join bodies of TPC-H and eight of a TPC-DS-like snowflake (`examples/queries`), each as
`SELECT count(*), sum(...)` over the join, in one session, in rounds where the sides take turns; a
first round warms up and is not counted. The sides:

    literal   as written, with Spark's cost-based optimizer off
    spark     as written, reordered by Spark, with statistics from ANALYZE TABLE for all columns
    ours      in our planner's order, from Delta logs, declared keys and the sketches that a rebuild
              with `sketches` counts (`--log`: without these), Spark's optimizer off

Delta refuses ANALYZE TABLE, so Spark reads the same files as Parquet tables on all sides; only our
planner sees the Delta logs. `--explain` shows estimated against true rows instead of seconds;
`--work` what Spark exchanged, broadcast and joined, which a busy machine does not change. CPU
seconds are those of Spark's process (Linux), compiling and collecting garbage included.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_explain import TrueRows, explain_query, joined_sets, spark_tree, tree_text
from bench_tables import KEYS, make_tables
from bench_work import joins_of, work_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltajoin import Plan

REPOSITORY = Path(__file__).resolve().parents[1]
QUERIES = Path(__file__).with_name("queries")
OPTIMIZER, REORDER = "spark.sql.cbo.enabled", "spark.sql.cbo.joinReorder.enabled"
SIDES = {
    "literal": {OPTIMIZER: "false", REORDER: "false"},
    "spark": {OPTIMIZER: "true", REORDER: "true"},
    "ours": {OPTIMIZER: "false", REORDER: "false"},
    "ours+stats": {OPTIMIZER: "true", REORDER: "false"},
}


@dataclass(frozen=True)
class Query:
    """A join body: plain SELECT of numeric columns; `schema` is the folder of its tables."""

    name: str
    schema: str
    sql: str


@dataclass(frozen=True)
class Timing:
    """Seconds of each counted round, per side, by the wall clock and of Spark's process; whether
    all sides gave the same row."""

    query: Query
    seconds: dict[str, list[float]]
    cpu: dict[str, list[float]]
    equal: bool


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 when any two sides differ in their rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1.0, help="1: 6 and 3 million fact rows")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--queries", default="", help="parts of names, with commas; default: all")
    parser.add_argument("--sides", default="literal,spark,ours", help=", ".join(SIDES))
    parser.add_argument("--home", type=Path, default=REPOSITORY / ".bench", help="the data's cache")
    parser.add_argument(
        "--used", action="store_true", help="analyze only columns that the queries use: sooner"
    )
    parser.add_argument("--log", action="store_true", help="ours without sketches")
    parser.add_argument("--explain", action="store_true", help="rows estimated and true, by DuckDB")
    parser.add_argument(
        "--best", action="store_true", help="--explain, and the best order by true rows: slow"
    )
    parser.add_argument(
        "--orders", action="store_true", help="print orders and their joined rows, time nothing"
    )
    parser.add_argument(
        "--work", action="store_true", help="print what Spark moved and joined, time nothing"
    )
    parser.add_argument("--plans", action="store_true", help="--work, with each join of each side")
    options = parser.parse_args(arguments)
    home = options.home / f"scale-{options.scale:g}"
    queries = load_queries([part for part in options.queries.split(",") if part])
    for schema in sorted({query.schema for query in queries}):
        make_tables(home, schema, options.scale)
    if options.explain or options.best:
        for query in queries:
            planned = our_plan(query, home)
            print(explain_query(query.name, planned, home / query.schema, options.best), flush=True)
        return 0
    return on_spark(queries, home, options)


def load_queries(parts: Sequence[str]) -> tuple[Query, ...]:
    """The queries whose names hold any of the parts; all of them without parts."""
    files = QUERIES.glob("*.sql")
    ordered = sorted(files, key=lambda file: (not file.stem.startswith("tpch"), file.stem))
    return tuple(
        Query(file.stem, file.stem.split("_")[0], file.read_text())
        for file in ordered
        if not parts or any(part in file.stem for part in parts)
    )


def our_plan(query: Query, home: Path, distinct: Mapping[str, float] | None = None) -> Plan:
    """The plan of a full run, from the Delta logs, the declared keys and distinct values."""
    import deltajoin
    from deltajoin.sql.tables import source_names

    names = source_names(query.sql)
    keys = KEYS[query.schema]
    return deltajoin.plan(
        deltajoin.Model(
            name=query.name,
            sql=query.sql,
            sources={name: str(home / query.schema / "delta" / name) for name in names},
            target=str(home / "target" / query.name),
            keys={name: keys[name] for name in names},
            mode="full",
            hints={"distinct": distinct or {}},
            sketches=True,
        )
    )


def counted(spark: SparkSession, query: Query, planned: Plan) -> dict[str, float]:
    """ "table.column" -> distinct values, by the statement that a rebuild runs."""
    from deltajoin.emit.sql import build_program

    program = build_program(planned)
    assert program.sketch is not None  # noqa: S101 - sketches are on in `our_plan`
    sources = zip(program.scans, planned.sources, strict=True)
    open_views(spark, query, {scan.view: source.source for scan, source in sources})
    return {
        f"{row['source']}.{column}": distinct
        for row in spark.sql(program.sketch).collect()
        for column, distinct in row["columns"].items()
    }


def open_views(spark: SparkSession, query: Query, scans: Mapping[str, str]) -> None:
    """The views that emitted statements read, view -> source, over the Parquet tables."""
    for view, source in scans.items():
        spark.sql(f"CREATE OR REPLACE TEMP VIEW `{view}` AS SELECT * FROM {query.schema}.{source}")


def our_sql(planned: Plan) -> tuple[str, dict[str, str]]:
    """The emitted full query as plain rows, and the views that it reads: view -> source."""
    from deltajoin.emit.sql import Views, full_sql

    rows_only = replace(planned, target=replace(planned.target, kind="plain"))
    views = Views(rows_only)
    scans = {views.scan(s.source, s.version).view: s.source for s in planned.sources}
    return full_sql(rows_only, views), scans


def on_spark(queries: Sequence[Query], home: Path, options: argparse.Namespace) -> int:
    """Start Spark, analyze the tables, show the orders, time the queries."""
    from deltajoin.runtime.session import local_session

    sides = [side for side in SIDES if side in options.sides.split(",")]
    conf = {"spark.sql.warehouse.dir": str(home / "spark"), "spark.sql.shuffle.partitions": "4"}
    spark = local_session("deltajoin-bench-orders", "local[2]", conf)
    timings = []
    try:
        for schema in sorted({query.schema for query in queries}):
            plans = [our_plan(query, home) for query in queries if query.schema == schema]
            analyze(spark, home / schema, used_columns(plans) if options.used else None)
        clock = _jvm_clock(spark)
        for query in queries:
            planned = our_plan(query, home)
            if not options.log:
                planned = our_plan(query, home, counted(spark, query, planned))
            bodies = side_sql(spark, query, planned)
            print(query.name, flush=True)
            count = TrueRows(planned.graph, home / query.schema) if options.orders else None
            for side in sides:
                print(f"    {side:<10} {order_of(spark, side, bodies[side], planned, count)}")
                if options.work or options.plans:
                    print(show_work(spark, side, bodies[side], options.plans), flush=True)
            if not (options.orders or options.work or options.plans):
                timings.append(Timing(query, *play(spark, bodies, sides, options.rounds, clock)))
                print(line(timings[-1], sides), flush=True)
    finally:
        spark.stop()
    if timings:
        print(summary(timings, sides))
    return 0 if all(timing.equal for timing in timings) else 1


def analyze(spark: SparkSession, folder: Path, used: dict[str, set[str]] | None) -> None:
    """Catalog tables over the Parquet files, with statistics of all columns or of those used.

    Raises RuntimeError when Spark does not see a row count and column statistics afterwards: its
    cost-based order would then be the literal one.
    """
    schema = folder.name
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {schema}")
    spark.sql(f"USE {schema}")
    spark.conf.set(OPTIMIZER, "true")
    started = time.monotonic()
    for name in sorted(KEYS[schema] if used is None else used):
        columns = "ALL COLUMNS" if used is None else f"COLUMNS {', '.join(sorted(used[name]))}"
        place = folder / "parquet" / name
        spark.sql(f"CREATE TABLE {name} USING parquet LOCATION '{place}'")
        spark.sql(f"ANALYZE TABLE {name} COMPUTE STATISTICS FOR {columns}")
        plan: Any = spark.table(name)._jdf.queryExecution().optimizedPlan()
        if plan.stats().rowCount().isEmpty() or not plan.stats().attributeStats().size():
            raise RuntimeError(f"Spark has no statistics of {schema}.{name}")
    print(f"{schema}: analyzed in {time.monotonic() - started:.0f} s", flush=True)


def used_columns(planned: Sequence[Plan]) -> dict[str, set[str]]:
    """Source -> columns that any of the plans reads."""
    used: dict[str, set[str]] = {}
    for source, columns in ((s.source, s.columns) for plan in planned for s in plan.sources):
        used.setdefault(source, set()).update(name for name, _ in columns)
    return used


def side_sql(spark: SparkSession, query: Query, planned: Plan) -> dict[str, str]:
    """The statement of each side; the views that ours reads are made here."""
    spark.sql(f"USE {query.schema}")
    ours, scans = our_sql(planned)
    open_views(spark, query, scans)
    outputs = planned.target.columns
    sums = ", ".join(f"sum(`{name}`) AS `{name}`" for name in outputs)

    def body(sql: str) -> str:
        return f"SELECT count(*) AS n, {sums} FROM (\n{sql}\n) AS body"

    return {side: body(ours if side.startswith("ours") else query.sql) for side in SIDES}


def configure(spark: SparkSession, side: str) -> None:
    """Set the optimizer as the side wants it."""
    for key, value in SIDES[side].items():
        spark.conf.set(key, value)


def order_of(
    spark: SparkSession, side: str, sql: str, planned: Plan, count: TrueRows | None
) -> str:
    """The nesting that Spark will run, with the true rows of its joins in sum if they are asked."""
    configure(spark, side)
    names = {relation.name for relation in planned.graph.relations} if planned.graph else set()
    tree = spark_tree(spark.sql(sql), names)
    if count is None:
        return tree_text(tree)
    return f"{sum(map(count, joined_sets(tree))):>14,}  {tree_text(tree)}"


def show_work(spark: SparkSession, side: str, sql: str, with_plans: bool) -> str:
    """What the query moved and joined; with the joins of its final plan."""
    configure(spark, side)
    frame = spark.sql(sql)
    frame.collect()
    return f"    {'':<10} {work_of(frame)}" + (f"\n{joins_of(frame)}" if with_plans else "")


def play(
    spark: SparkSession, bodies: dict[str, str], sides: Sequence[str], rounds: int, cpu: Any
) -> tuple[dict[str, list[float]], dict[str, list[float]], bool]:
    """Seconds and CPU seconds per side of the counted rounds; each round begins with another."""
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    used: dict[str, list[float]] = {side: [] for side in sides}
    answers = set()
    for number in range(rounds + 1):
        turn = number % len(sides)
        for side in (*sides[turn:], *sides[:turn]):
            configure(spark, side)
            started, before = time.monotonic(), cpu()
            answers.add(tuple(spark.sql(bodies[side]).collect()[0]))
            if number:
                seconds[side].append(time.monotonic() - started)
                used[side].append(cpu() - before)
    return seconds, used, len(answers) == 1


def line(timing: Timing, sides: Sequence[str]) -> str:
    """One row of the table: medians, ours over the better of the others, rows equal."""
    wall, cpu = medians(timing.seconds), medians(timing.cpu)
    shown = "".join(f"{wall[side]:>11.2f}" for side in sides)
    shown += "".join(f"{cpu[side]:>11.2f}" for side in sides)
    return (
        f"{timing.query.name:<24}{shown}{_ratio(wall):>11.2f}{_ratio(cpu):>11.2f}"
        f"  {_word(timing.equal)}"
    )


def medians(seconds: dict[str, list[float]]) -> dict[str, float]:
    """Side -> the median of its rounds."""
    return {side: statistics.median(each) for side, each in seconds.items()}


def _ratio(seconds: dict[str, float]) -> float:
    others = [each for side, each in seconds.items() if not side.startswith("ours")]
    ours = seconds.get("ours", math.nan)
    return ours / max(min(others), 0.01) if others else math.nan


def _word(equal: bool) -> str:
    return "equal" if equal else "ROWS DIFFER"


def summary(timings: Sequence[Timing], sides: Sequence[str]) -> str:
    """The whole table with geometric means."""
    heads = "".join(f"{side + ' s':>11}" for side in sides)
    heads += "".join(f"{side + ' cpu':>11}" for side in sides)
    lines = ["", f"{'query':<24}{heads}{'to better':>11}{'cpu':>11}  rows"]
    lines += [line(timing, sides) for timing in timings]
    clocks = {
        "seconds": [medians(timing.seconds) for timing in timings],
        "CPU seconds": [medians(timing.cpu) for timing in timings],
    }
    for clock, found in clocks.items():
        means = {
            side: statistics.geometric_mean(max(each[side], 0.01) for each in found)
            for side in sides
        }
        shown = ", ".join(f"{side} {mean:.2f}" for side, mean in means.items())
        lines.append(f"geometric mean of {clock}: {shown}")
        for other in ("literal", "spark"):
            if other in means and "ours" in means:
                lines.append(f"  ours / {other}: {means['ours'] / means[other]:.2f}")
        if "ours" in sides and len(sides) > 1:
            lines.append(f"  worst query, ours to the better: {max(map(_ratio, found)):.2f}")
    return "\n".join(lines)


def _jvm_clock(spark: SparkSession) -> Any:
    """A clock that counts the CPU seconds of Spark's process."""
    gateway: Any = spark.sparkContext._gateway
    stat = Path("/proc", str(gateway.proc.pid), "stat")
    ticks = os.sysconf("SC_CLK_TCK")

    def clock() -> float:
        fields = stat.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / ticks

    return clock


if __name__ == "__main__":
    sys.exit(main())
