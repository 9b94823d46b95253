"""Time incremental runs on TPC-H against full rebuilds of the same rows, all in one run.

For each model the targets are built once over the tables as generated. Each case then starts from
that state again, applies one batch of changes, and lets the sides take turns; their rows are
compared each time. The sides:

    incremental   deltajoin.run, mode incremental
    full          the SQL as written on plain Spark, overwriting a Delta table

    python -m examples.tpch.bench --sf 1 --models wide --changes orders:0.0001:clustered
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltajoin
from examples.tpch.changes import Batch, merges, parse_batch
from examples.tpch.data import KEYS, copy_tables, default_folder, make_tables, session
from examples.tpch.models import MODELS, Table
from examples.tpch.report import Case, markdown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIDES = ("incremental", "full")


@dataclass(frozen=True)
class Bench:
    """One model, or chain of models, over a working copy of the tables."""

    spark: SparkSession
    work: Path
    chain: tuple[Table, ...]

    def place(self, side: str, table: str) -> Path:
        """Where a table of a side lies; sources are the same for all."""
        return self.work / ("tables" if table in KEYS else side) / table

    def show(self, side: str) -> None:
        """Views of all tables under their plain names, results as the side has them."""
        for name in (*KEYS, *(table.name for table in self.chain)):
            place = self.place(side, name)
            if place.exists():
                rows = f"SELECT * FROM delta.`{place}`"
                self.spark.sql(f"CREATE OR REPLACE TEMP VIEW {name} AS {rows}")

    def incremental(self, side: str, phases: dict[str, float]) -> None:
        """Bring our targets up to date; seconds per phase, named by the step that ends it."""
        for table in self.chain:
            passed = [time.monotonic()]

            def step(name: str, info: dict[str, Any], passed: list[float] = passed) -> None:
                passed.append(time.monotonic())
                phases[name] = phases.get(name, 0.0) + passed[-1] - passed[-2]

            deltajoin.run(self.model(table, side), self.spark, on_step=step)

    def model(self, table: Table, side: str) -> deltajoin.Model:
        """The model as a user declares it."""
        return deltajoin.Model(
            table.name,
            table.sql,
            sources={name: str(self.place(side, name)) for name in table.tables},
            target=str(self.place(side, table.name)),
            keys={name: KEYS[name] for name in table.tables if name in KEYS},
            mode=side,
        )

    def full(self, side: str, phases: dict[str, float]) -> None:
        """Overwrite the scratch tables by the SQL as written."""
        self.show(side)
        for table in self.chain:
            place = self.place(side, table.name)
            self.spark.sql(table.sql).write.format("delta").mode("overwrite").save(str(place))
            self.show(side)

    def run(self, side: str) -> tuple[float, dict[str, float]]:
        """Seconds of one run of a side, in all and by phase."""
        sides: dict[str, Callable[[str, dict[str, float]], None]] = {"full": self.full}
        phases: dict[str, float] = {}
        started = time.monotonic()
        sides.get(side, self.incremental)(side, phases)
        return time.monotonic() - started, phases

    def fingerprint(self, side: str) -> list[tuple[int, Any]]:
        """Number of rows and sum of their hashes, of each table of the chain."""
        found = []
        for table in self.chain:
            if side == "full":
                rows = self.spark.read.format("delta").load(str(self.place(side, table.name)))
            else:
                rows = deltajoin.read(self.model(table, side), self.spark)
            # A hash skips NULLs: which columns are NULL is hashed with the values.
            values = ", ".join(f"`{name}`, isnull(`{name}`)" for name in rows.columns)
            total = f"sum(CAST(xxhash64({values}) AS DECIMAL(38)))"
            (row,) = rows.selectExpr("count(*) AS rows", f"{total} AS total").collect()
            found.append((row["rows"], row["total"]))
        return found

    def change(self, batch: Batch, seed: int) -> None:
        """Go back to the state as built, then apply the batch to the sources."""
        restore(self.spark, self.work.with_name("built"), self.work)
        self.show("full")
        keys = self.spark.table(batch.table).count()
        columns = {name: self.spark.table(name).columns for name in KEYS}
        for table, merge in merges(batch, keys, seed, columns).items():
            self.spark.sql(merge.format(**{table: f"delta.`{self.place('full', table)}`"}))


def restore(spark: SparkSession, source: Path, place: Path) -> None:
    """Exchange a folder of Delta tables by a copy of another, behind Spark's cache of logs too."""
    copy_tables(source, place)
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def bench_model(bench: Bench, name: str, options: argparse.Namespace) -> list[Case]:
    """Build the targets, then time each batch."""
    started = time.monotonic()
    for side in options.sides:
        seconds, _ = bench.run(side)
        print(f"  {name}: first build, {side}: {seconds:.1f} s", flush=True)
    copy_tables(bench.work, bench.work.with_name("built"))
    cases = []
    for number, batch in enumerate([options.changes[0], *options.changes]):
        case = Case(name, str(batch))
        # The first batch comes twice: once to warm up.
        for repeat in range(options.repeat if number else 1):
            bench.change(batch, seed=1 + number * 100 + repeat)
            before = case.equal
            case = one_round(bench, case, options.sides if repeat % 2 else options.sides[::-1])
            case.equal = case.equal and before
        print(f"  {case.line(warm_up=not number)}", flush=True)
        if number:
            cases.append(case)
    print(f"  {name}: {time.monotonic() - started:.0f} s in all", flush=True)
    return cases


def one_round(bench: Bench, case: Case, sides: Sequence[str]) -> Case:
    """Run each side once over the same changes, and compare their rows."""
    found = {}
    for side in sides:
        seconds, phases = bench.run(side)
        case.add(side, seconds, phases)
        found[side] = bench.fingerprint(side)
    case.equal = all(rows == found["full"] for rows in found.values())
    return case


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, write the JSON; 1 if any rows differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sf", type=float, default=1.0, help="scale; 1 has 6 million lineitems")
    parser.add_argument("--data", type=Path, help="folder of the tables, kept for the next time")
    parser.add_argument("--models", default="wide", help="with commas: " + ", ".join(MODELS))
    parser.add_argument("--changes", default="orders:0.0001:clustered", help="with commas")
    parser.add_argument("--sides", default=",".join(SIDES), help="with commas")
    parser.add_argument("--repeat", type=int, default=3, help="counted rounds of each case")
    parser.add_argument("--json", type=Path, help="where to write all figures; default: the data")
    options = parser.parse_args(arguments)
    options.sides = options.sides.split(",")
    options.changes = [parse_batch(text) for text in options.changes.split(",")]
    home = options.data or default_folder(options.sf)
    spark = session(options.sf)
    cases: list[Case] = []
    try:
        tables = make_tables(spark, home, options.sf)
        for name in options.models.split(","):
            scratch = home / f"run-{os.getpid()}"
            copy_tables(tables, scratch / "work" / "tables")
            try:
                cases += bench_model(Bench(spark, scratch / "work", MODELS[name]), name, options)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    finally:
        spark.stop()
    print(markdown(cases))
    place = options.json or home / "bench.json"
    place.write_text(json.dumps([case.to_dict() for case in cases], indent=2))
    print(f"\n{place}")
    return 0 if all(case.equal for case in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
