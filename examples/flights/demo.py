"""The main job on real data: six relations kept joined, day after day, through Airflow and dbt.

January is the backfill. Then each day is landed and joined by an Airflow DAG run, joined again by
dbt into a second target, and recomputed in full by plain Spark; both targets must equal the
recomputation row for row. One run in between finds only compacted sources and starts no work.
Everything is written to `.demo/`, which is made anew. The exit code is 1 when a row differs.

With `--connect` all runs and the recomputation are on a Spark Connect server that the demo starts.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stage import REPOSITORY, Airflow, Dbt, Played, RunFailed, quiet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOME = REPOSITORY / ".demo"
TABLES = HOME / "flights"
HERE = Path(__file__).resolve().parent
STORY = (
    ("January", "next_day"),
    ("Feb 1", "next_day"),
    ("Feb 2", "next_day"),
    ("Feb 3", "next_day"),
    ("nothing", "nothing"),
    ("Feb 4", "next_day"),
    ("Feb 5", "next_day"),
)


@dataclass(frozen=True)
class Row:
    """What one step of the story cost, and whether both targets were right after it."""

    day: str
    airflow: Played
    dbt: Played
    full_seconds: float
    full_rows: int
    equal: bool


def main() -> int:
    """Play the story; 0 when both targets equalled the full recomputation after every step."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--connect", action="store_true", help="run on a Spark Connect server")
    connect = parser.parse_args().connect
    started = time.monotonic()
    shutil.rmtree(HOME, ignore_errors=True)
    TABLES.mkdir(parents=True)
    with ExitStack() as running:
        session = "a Spark Connect server" if connect else "one Spark session"
        with step(f"Airflow (SQLite), dbt and {session}"):
            start = start_connect if connect else start_spark
            spark = running.enter_context(start())
            airflow = Airflow(HOME / "airflow", TABLES, HOME / "airflow.log", "flights_enriched")
            dbt = Dbt(HOME / "dbt", TABLES / "raw", HOME / "dbt.log")
        rows = [play(spark, airflow, dbt, day, land) for day, land in STORY]
    print_costs(rows)
    print("   At this size a rebuild is one short Spark job, and the fixed cost of a run decides.")
    print("   Where a rebuild hurts, it is the other way round: 60 million rows of a six-way join")
    print("   (TPC-H, scale 10) took 12 s against 348 s: plugin/docs/benchmarks.md, `make bench`.")
    right = all(row.equal for row in rows)
    verdict = "both targets equal it, row for row" if right else "ROWS DIFFER"
    print(f"\nAfter each of the {len(rows)} steps compared with a full recomputation: {verdict}.")
    print(f"{time.monotonic() - started:.0f} s. Tables and logs are in {HOME.name}/. Try:")
    print("  .venv/bin/deltajoin explain --model examples/flights/flights_enriched.yml")
    return 0 if right else 1


@contextmanager
def start_spark() -> Iterator[SparkSession]:
    """The session that Airflow's task, dbt and the recomputation share."""
    from deltajoin.runtime.session import local_session

    # A session of minutes: compile quickly rather than well, with room for all of it.
    compile_quickly = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
    os.environ.setdefault("DELTAJOIN_JAVA_OPTIONS", compile_quickly)
    conf = {
        "spark.sql.warehouse.dir": (HOME / "warehouse").as_uri(),
        "spark.sql.shuffle.partitions": "4",
    }
    with quiet(HOME / "spark.log"):
        session = local_session("deltajoin-demo", conf=conf)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # Airflow prints what it logs
    try:
        yield session
    finally:
        with quiet(HOME / "spark.log"):
            session.stop()


@contextmanager
def start_connect() -> Iterator[SparkSession]:
    """A session of the recomputation on a server where Airflow's task and dbt have their own."""
    from connect_server import connect_server

    from deltajoin.runtime.session import remote_session

    with connect_server(HOME / "server") as url:
        host, port = url.removeprefix("sc://").split(":")
        connection = {"conn_type": "spark_connect", "host": host, "port": int(port)}
        os.environ["AIRFLOW_CONN_SPARK_CONNECT_DEFAULT"] = json.dumps(connection)
        os.environ["DELTAJOIN_FLIGHTS_SUBMIT"] = "spark_connect"
        os.environ["SPARK_REMOTE"] = url
        session = remote_session(url)
        yield session
        session.stop()


def play(spark: SparkSession, airflow: Airflow, dbt: Dbt, day: str, land: str) -> Row:
    """One step: land and join through Airflow, join through dbt, recompute, compare."""
    print(f"\n== {day}", flush=True)
    with step("Airflow: land, join"):
        by_airflow = airflow.play(land=land)
    show(by_airflow.audit)
    with step("dbt: build"):
        by_dbt = dbt.play("flights_enriched")
    show(by_dbt.audit, paths=False)
    with step("full recomputation by plain Spark, and comparison"), quiet(HOME / "spark.log"):
        sql = (HERE / "flights_enriched.sql").read_text(encoding="utf-8")
        seconds, full = recompute(spark, "flights_enriched", sql)
        equal = all_equal(full, tuple(targets(spark, dbt)))
        count = full.count()
    print(f"   {count:,} rows; " + ("both targets equal" if equal else "TARGETS DIFFER"))
    return Row(day, by_airflow, by_dbt, seconds, count, equal)


def show(audit: dict[str, Any], paths: bool = True) -> None:
    """A run's audit: its outcome, and a line for each lookup path."""
    from deltajoin.audit.render import path_lines, render_text

    outcome, *_ = render_text({**audit, "paths": ()}).splitlines()
    rows = audit["rows"]
    change = f"+{rows['inserted']:,} ~{rows['updated']:,} -{rows['deleted']:,}"
    print(f"   {outcome}  rows {change}")
    for path in audit["paths"] if paths else ():
        print(f"     {path_lines(path)[0]}")


def recompute(spark: SparkSession, name: str, sql: str) -> tuple[float, DataFrame]:
    """The query over the sources as they are now, written as a whole; seconds and the rows."""
    started = time.monotonic()
    for table in ("flights", "weather", "planes", "airlines", "airports"):
        source = spark.read.format("delta").load(str(TABLES / "raw" / table))
        source.createOrReplaceTempView(table)
    place = str(TABLES / "recomputed" / name)
    spark.sql(sql).write.format("delta").mode("overwrite").save(place)
    return time.monotonic() - started, spark.read.format("delta").load(place)


def targets(spark: SparkSession, dbt: Dbt) -> Iterator[DataFrame]:
    """What a user selects from: Airflow's target and dbt's."""
    import deltajoin
    from deltajoin.model import load_model

    yield deltajoin.read(load_model(HERE / "flights_enriched.yml"), spark)
    yield spark.table(dbt.relation)


def all_equal(full: DataFrame, others: Sequence[DataFrame]) -> bool:
    """Equal as multisets: in every one, each row is there as often as in `full`."""
    from pyspark.sql import DataFrame, functions

    counts = [f"in_{number}" for number in range(len(others))]
    tagged = [full.selectExpr("*", *(f"1 as {count}" for count in counts))]
    for number, other in enumerate(others):
        weights = (f"{-int(count == counts[number])} as {count}" for count in counts)
        tagged.append(other.selectExpr("*", *weights))
    rows = reduce(DataFrame.unionAll, tagged).groupBy(*full.columns)
    sums = rows.agg(*(functions.sum(count).alias(count) for count in counts))
    return sums.where(" or ".join(f"{count} <> 0" for count in counts)).isEmpty()


def print_costs(rows: Sequence[Row]) -> None:
    """The runs beside a full recomputation of the same state, all in one warm session.

    A task and a model also take what Airflow and dbt do around the run; it stands apart.
    """
    print("\n== What each run cost, in seconds of one warm session (in brackets: with all that")
    print("   Airflow or dbt do around it)")
    runs = ("step", "strategy", "rows changed", "in Airflow", "in dbt")
    head = (*runs, "full: rows", "full", "equal")
    lines: list[tuple[str, ...]] = [head]
    for row in rows:
        audit = row.airflow.audit
        lines.append(
            (
                row.day,
                audit["strategy"],
                f"{sum(audit['rows'].values()):,}",
                row.airflow.costs(),
                row.dbt.costs(),
                f"{row.full_rows:,}",
                f"{row.full_seconds:.1f}",
                "yes" if row.equal else "NO",
            )
        )
    print_table(lines, names=2)


def print_table(lines: Sequence[Sequence[str]], names: int) -> None:
    """Lines of cells under each other; those of the first columns are names, the others figures."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            cell.ljust(width) if column < names else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        print("   " + "  ".join(cells))


@contextmanager
def step(what: str) -> Iterator[None]:
    """Say what is going on, then how long it took."""
    print(f"   {what} ... ", end="", flush=True)
    started = time.monotonic()
    yield
    print(f"{time.monotonic() - started:.1f} s", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RunFailed as failure:
        sys.exit(f"\n{failure}")
