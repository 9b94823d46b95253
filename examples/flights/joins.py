"""Joins by more than equality on real data, kept for ten days: ASOF, a history, distances.

    flights_weather      the last weather before each departure; a model file for the command line
    flights_planes       the plane as it was at each flight; a dbt model over a `dbt snapshot`
    flights_alternates   the airports within 100 km of each route's end; a task of an Airflow DAG

January is the first day. After each day every target is compared, row for row, with its SQL as it
is written, run by plain Spark over the whole tables. Everything is written to `.demo/`, which is
made anew. The exit code is 1 when a row differs.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from demo import HERE, HOME, TABLES, all_equal, print_table, recompute, start_spark, step
from feed import land_next, next_day
from stage import Airflow, Dbt, Played, RunFailed, quiet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RAW = TABLES / "raw"
HEAD = ("day", "model", "through", "strategy", "accelerated by", "changed", "rows", "s", "full s")


@dataclass(frozen=True)
class Surface:
    """A model with the way it is run: how to run it, its SQL as written, what a user reads."""

    model: str
    name: str
    run: Callable[[], Played]
    sql: Callable[[], str]
    target: Callable[[], DataFrame]


@dataclass(frozen=True)
class Row:
    """What a day cost one model, and whether its target was right after it."""

    day: str
    surface: Surface
    played: Played
    full_rows: int
    full_seconds: float
    equal: bool

    def cells(self) -> tuple[str, ...]:
        """The row as it is printed."""
        audit = self.played.audit
        return (
            self.day,
            self.surface.model,
            self.surface.name,
            audit["strategy"],
            ", ".join(accelerators(audit)) or "-",
            f"{sum(audit['rows'].values()):,}",
            f"{self.full_rows:,}",
            f"{self.played.seconds:.1f}",
            f"{self.full_seconds:.1f}",
            "yes" if self.equal else "NO",
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the days; 0 when every target equalled its recomputation after each of them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--days", type=int, default=10)
    days = parser.parse_args(arguments).days
    started = time.monotonic()
    shutil.rmtree(HOME, ignore_errors=True)
    TABLES.mkdir(parents=True)
    with ExitStack() as running:
        with step("Airflow (SQLite), dbt and one Spark session"):
            airflow = Airflow(HOME / "airflow", TABLES, HOME / "airflow.log", "flights_alternates")
            dbt = Dbt(HOME / "dbt", RAW, HOME / "dbt.log")
            spark = running.enter_context(start_spark())
        models = surfaces(spark, airflow, dbt)
        rows = [row for _ in range(days) for row in play(spark, models)]
    print()
    print_table([(*HEAD, "equal"), *(row.cells() for row in rows)], names=5)
    differ = sum(not row.equal for row in rows)
    verdict = f"{differ} TARGETS DIFFERED" if differ else "equal, row for row"
    print(f"\nAfter each of {days} days compared with the SQL as it is written: {verdict}.")
    print(f"{time.monotonic() - started:.0f} s. Tables and logs are in {HOME.name}/. Try:")
    print("  .venv/bin/deltajoin explain --model examples/flights/flights_weather.yml")
    return 1 if differ else 0


def surfaces(spark: SparkSession, airflow: Airflow, dbt: Dbt) -> tuple[Surface, ...]:
    """The three models, each through its own surface."""
    import deltajoin
    from deltajoin.model import load_model

    weather = load_model(HERE / "flights_weather.yml")
    alternates = (HERE / "flights_alternates.sql").read_text(encoding="utf-8")

    def run_weather() -> Played:
        began = time.monotonic()
        with quiet(HOME / "spark.log"):
            record = deltajoin.run(weather, spark)
        return Played(record.to_dict(), time.monotonic() - began)

    def read_alternates() -> DataFrame:
        model = deltajoin.Model(
            "flights_alternates", alternates, {}, str(TABLES / "flights_alternates")
        )
        return deltajoin.read(model, spark)

    return (
        Surface(
            "flights_weather",
            "model file",
            run_weather,
            lambda: weather.sql,
            lambda: deltajoin.read(weather, spark),
        ),
        Surface(
            "flights_planes",
            "dbt",
            lambda: dbt.play("flights_planes"),
            lambda: dbt.sql,
            lambda: spark.table(dbt.relation),
        ),
        Surface("flights_alternates", "Airflow", airflow.play, lambda: alternates, read_alternates),
    )


def play(spark: SparkSession, models: Sequence[Surface]) -> Iterator[Row]:
    """Land a day, bring each model up to it, and compare."""
    day = f"{next_day(RAW):%b %-d}" if RAW.exists() else "January"
    print(f"\n== {day}", flush=True)
    with step("land"):
        land_next(RAW)
    for each in models:
        with step(f"{each.model}: {each.name}"):
            played = each.run()
        with step("full recomputation by plain Spark, and comparison"), quiet(HOME / "spark.log"):
            seconds, full = recompute(spark, each.model, each.sql())
            equal = all_equal(full, (each.target(),))
            count = full.count()
        row = Row(day, each, played, count, seconds, equal)
        print(f"   {played.audit['reason']}; " + ("equal" if equal else "ROWS DIFFER"))
        yield row


def accelerators(audit: Mapping[str, Any]) -> list[str]:
    """The accelerators that served a run: in its lookups, or in the whole query's plan."""
    from deltajoin.audit.ledger import Ledger

    parts: Any = (audit["paths"], audit["derived"])
    if audit["strategy"] == "full":
        plan = Ledger(audit["location"]).plan(audit["epoch"])
        parts = plan and plan["full_query"]
    return sorted(set(_kinds(parts)))


def _kinds(part: Any) -> Iterator[str]:
    if isinstance(part, Mapping):
        if "accelerated" in part:
            yield part["accelerated"]["kind"]
        part = tuple(part.values())
    if isinstance(part, Sequence) and not isinstance(part, str):
        for each in part:
            yield from _kinds(each)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RunFailed as failure:
        sys.exit(f"\n{failure}")
