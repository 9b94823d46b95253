"""Time a day's run against a full rebuild of the same state, both sides in one session.

The year of flights is copied `--copies` times under other flight numbers, so that the target grows
while a day's change stays the same: it shows from which size on a run costs less than a rebuild.
Each round lands one day's worth of changes, then runs the model, then has plain Spark write the
whole query as a table. Figures are seconds of wall time; the first round warms up and is not
counted.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from feed import source
from stage import REPOSITORY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltajoin.model import Model

FEED = {"delta.enableChangeDataFeed": "true"}
SHIFT = 100_000


@dataclass(frozen=True)
class Round:
    """One day's changes: seconds of our run and of the rebuild, and what our run did."""

    ours: float
    rebuilt: float
    strategy: str
    changed: int


@dataclass(frozen=True)
class Larger:
    """The demo's model over the flights of many years, and its query as a table beside it."""

    spark: SparkSession
    model: Model
    flights: int

    def round(self, number: int) -> Round:
        """Land a day's changes; run the model, and rebuild."""
        import deltajoin

        change(Path(self.model.sources["flights"]).parent, number)
        started = time.monotonic()
        record = deltajoin.run(self.model, self.spark)
        ours = time.monotonic() - started
        return Round(ours, self.rebuild(), record.strategy, sum(record.rows.values()))

    def rebuild(self) -> float:
        """Write the query's rows as a table by plain Spark; seconds."""
        started = time.monotonic()
        for name, path in self.model.sources.items():
            self.spark.read.format("delta").load(path).createOrReplaceTempView(name)
        rows = self.spark.sql(self.model.sql)
        rows.write.format("delta").mode("overwrite").save(self._rebuilt)
        return time.monotonic() - started

    def equal(self) -> bool:
        """Whether both tables hold the same rows, each as often."""
        import deltajoin

        ours = deltajoin.read(self.model, self.spark)
        theirs = self.spark.read.format("delta").load(self._rebuilt)
        return ours.exceptAll(theirs).isEmpty() and theirs.exceptAll(ours).isEmpty()

    @property
    def _rebuilt(self) -> str:
        return str(Path(self.model.target).with_name("rebuilt"))


def landed(home: Path, copies: int, spark: SparkSession) -> Larger:
    """The flights `copies` times and the other tables under `home`, and the model's first build."""
    import deltajoin

    shutil.rmtree(home, ignore_errors=True)
    larger = Larger(spark, bench_model(home), land(home / "raw", copies))
    deltajoin.run(larger.model, spark)
    return larger


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line per round and the ratio of the medians; 1 if the two tables differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--copies", type=int, default=8, help="times the year (337 k flights)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="keep .demo/bench")
    options = parser.parse_args(arguments)
    home = REPOSITORY / ".demo" / "bench"

    from deltajoin.runtime.session import local_session

    spark = local_session("deltajoin-bench", conf={"spark.sql.shuffle.partitions": "4"})
    try:
        return play(landed(home, options.copies, spark), options.rounds)
    finally:
        spark.stop()
        if not options.keep:
            shutil.rmtree(home, ignore_errors=True)


def play(larger: Larger, rounds: int) -> int:
    """The rounds, after one that warms up."""
    print(f"{larger.flights:,} flights landed and joined", flush=True)
    played = []
    for number in range(rounds + 1):
        played.append(larger.round(number))
        label = f"round {number}" if number else "warm-up"
        outcome = f"{played[-1].strategy}, {played[-1].changed:,} rows: {played[-1].ours:.1f} s"
        print(f"  {label}: {outcome}; full rebuild: {played[-1].rebuilt:.1f} s", flush=True)
    ours = statistics.median(each.ours for each in played[1:])
    rebuilt = statistics.median(each.rebuilt for each in played[1:])
    print(
        f"median: run {ours:.1f} s, rebuild {rebuilt:.1f} s, rebuild / run = {rebuilt / ours:.2f}"
    )
    equal = larger.equal()
    print("both tables equal" if equal else "TABLES DIFFER")
    return 0 if equal else 1


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


if __name__ == "__main__":
    sys.exit(main())
