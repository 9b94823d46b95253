"""Time a day's run against a full rebuild of the same state, both sides in one process.

The year of flights is copied `--copies` times under other flight numbers, so that the target grows
while a day's change stays the same: it shows from which size on a run costs less than a rebuild.
Each round lands one day's worth of changes, then runs the model twice: as it would run, into one
target, and with mode full into another. Figures are seconds of wall time; the first round warms up
and is not counted.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from feed import source
from stage import REPOSITORY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltajoin import AuditRecord
    from deltajoin.model import Model

FEED = {"delta.enableChangeDataFeed": "true"}
SHIFT = 100_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line per round and the ratio of the medians; 1 if the two targets differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--copies", type=int, default=8, help="times the year (337 k flights)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="keep .demo/bench")
    options = parser.parse_args(arguments)
    home = REPOSITORY / ".demo" / "bench"
    shutil.rmtree(home, ignore_errors=True)
    rows = land(home / "raw", options.copies)
    print(f"{rows:,} flights landed; backfill of two targets ...", flush=True)
    model = bench_model(home)

    from deltajoin.runtime.session import local_session

    spark = local_session("deltajoin-bench", conf={"spark.sql.shuffle.partitions": "4"})
    try:
        return play(spark, model, home, options.rounds)
    finally:
        spark.stop()
        if not options.keep:
            shutil.rmtree(home, ignore_errors=True)


def bench_model(home: Path) -> Model:
    """The demo's model on the copied tables."""
    from deltajoin.model import load_model

    model = load_model(Path(__file__).with_name("flights_enriched.yml"))
    sources = {name: str(home / "raw" / name) for name in model.sources}
    return replace(model, sources=sources, target=str(home / "kept"))


def land(raw: Path, copies: int) -> int:
    """Write the five tables, the flights `copies` times; the number of flights."""
    for name, table in source().items():
        for copy in range(copies if name == "flights" else 1):
            write_deltalake(str(raw / name), copied(table, copy), mode="append", configuration=FEED)
    return copies * source()["flights"].num_rows


def copied(table: pa.Table, copy: int) -> pa.Table:
    """The table, its flights under other numbers."""
    if copy == 0 or "flight" not in table.column_names:
        return table
    shifted = pc.add(table["flight"], pa.scalar(copy * SHIFT, pa.int64()))
    return table.set_column(table.column_names.index("flight"), "flight", shifted)


def change(raw: Path, number: int) -> None:
    """A day's worth: 900 new flights, corrected weather of one day, one changed plane."""
    flights = source()["flights"].slice(number * 900, 900)
    fresh = copied(flights, 1000 + number)
    write_deltalake(str(raw / "flights"), fresh, mode="append")
    weather = DeltaTable(str(raw / "weather"))
    weather.update(predicate=f"month = 3 AND day = {number + 1}", updates={"temp": "temp + 1"})
    planes = DeltaTable(str(raw / "planes"))
    tailnum = source()["planes"]["tailnum"][number].as_py()
    planes.update(predicate=f"tailnum = '{tailnum}'", updates={"seats": "seats + 1"})


def play(spark: SparkSession, model: Model, home: Path, rounds: int) -> int:
    """Backfill, then the rounds."""
    import deltajoin

    rebuilt = replace(model, target=str(home / "rebuilt"), mode="full")
    for each in (model, rebuilt):
        deltajoin.run(each, spark)
    kept_seconds, full_seconds = [], []
    for number in range(rounds + 1):
        change(home / "raw", number)
        kept, record = timed(spark, model)
        full, _ = timed(spark, rebuilt)
        rows = sum(record.rows.values())
        label = f"round {number}" if number else "warm-up"
        outcome = f"{record.strategy}, {rows:,} rows changed: {kept:.1f} s"
        print(f"  {label}: {outcome}; full rebuild: {full:.1f} s", flush=True)
        if number:
            kept_seconds.append(kept)
            full_seconds.append(full)
    kept, full = statistics.median(kept_seconds), statistics.median(full_seconds)
    print(f"median: run {kept:.1f} s, full rebuild {full:.1f} s, full / run = {full / kept:.2f}")
    ours, theirs = deltajoin.read(model, spark), deltajoin.read(rebuilt, spark)
    equal = ours.exceptAll(theirs).isEmpty() and theirs.exceptAll(ours).isEmpty()
    print("both targets equal" if equal else "TARGETS DIFFER")
    return 0 if equal else 1


def timed(spark: SparkSession, model: Model) -> tuple[float, AuditRecord]:
    """Seconds and record of one run."""
    import deltajoin

    started = time.monotonic()
    record = deltajoin.run(model, spark)
    return time.monotonic() - started, record


if __name__ == "__main__":
    sys.exit(main())
