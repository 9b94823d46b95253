"""Measure what the planner's cost model weighs, on this machine: `python examples/measure_cost.py`.

Each figure is the shortest of `--rounds` timed runs after one that warms up, less what the same
query costs without the step in question (a scan, or a scan and an exchange). The weights in
`deltajoin/planner/cost.py` name the figure that they were taken from. They only have to be right
against each other: a cluster scales them all.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WIDTH = 4 * 8


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one line per figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="the one figure to measure")
    options = parser.parse_args(arguments)
    from deltajoin.runtime.session import local_session

    home = Path(tempfile.mkdtemp(prefix="deltajoin-cost-"))
    conf = {
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.adaptive.enabled": "false",
        "spark.databricks.delta.snapshotPartitions": "1",
    }
    spark = local_session("deltajoin-cost", "local[2]", conf)
    try:
        measures = Measures(spark, home, options.rows, options.rounds)
        for name, unit, measure in measures.all():
            if options.only in (None, name):
                print(f"{name:28} {measure():14,.3g} {unit}", flush=True)
    finally:
        spark.stop()
        shutil.rmtree(home, ignore_errors=True)
    return 0


class Measures:
    """The figures, one method a step."""

    def __init__(self, spark: SparkSession, home: Path, rows: int, rounds: int) -> None:
        self.spark, self.home, self.rows, self.rounds = spark, home, rows, rounds
        self._table("fact", rows, 4)
        self.scan = self.timed(lambda: _run(self._read("fact")))

    def all(self) -> list[tuple[str, str, Callable[[], float]]]:
        """(name, unit, how to measure it) of every figure."""
        return [
            ("a job", "s", self._job),
            ("scan", "bytes of files/s", self._scan),
            ("file", "s a file", self._file),
            ("shuffle", "bytes/s", self._shuffle),
            ("broadcast bytes", "bytes/s", lambda: 1 / self._broadcast()[1]),
            ("broadcast rows", "rows/s", lambda: 1 / self._broadcast()[0]),
            ("probe", "rows/s", self._probe),
            ("sort-merge join", "rows/s, both sides", self._sort_merge),
            ("a MERGE", "s", lambda: self._merged(1_000)),
            ("MERGE", "rows written/s", self._merge),
        ]

    def timed(self, run: Callable[[], object]) -> float:
        """Seconds of the shortest round after the first."""
        seconds = []
        for _ in range(self.rounds + 1):
            start = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - start)
        return min(seconds[1:])

    def _table(self, name: str, rows: int, files: int) -> None:
        frame = self.spark.range(0, rows, 1, files).selectExpr(
            "id", "pmod(hash(id), 100000) AS k", "hash(id, 1) AS a", "rand(7) AS b"
        )
        feed = ("delta.enableDeletionVectors", "true")
        frame.write.format("delta").option(*feed).save(str(self.home / name))

    def _read(self, name: str) -> DataFrame:
        return self.spark.read.format("delta").load(str(self.home / name))

    def _job(self) -> float:
        return self.timed(lambda: _run(self.spark.range(1).toDF("x")))

    def _scan(self) -> float:
        size = sum(f.stat().st_size for f in (self.home / "fact").glob("*.parquet"))
        return size / (self.scan - self._job())

    def _file(self) -> float:
        rows = 20_000
        self._table("few", rows, 2)
        self._table("many", rows, 202)
        many, few = (self.timed(lambda n=n: _run(self._read(n))) for n in ("many", "few"))
        return (many - few) / 200

    def _shuffle(self) -> float:
        moved = self.timed(lambda: _run(self._read("fact").repartition(4, "k")))
        return self.rows * WIDTH / (moved - self.scan)

    @cache  # noqa: B019 - lives as long as the program
    def _broadcast(self) -> tuple[float, float]:
        """Seconds a row and a byte, from narrow rows and wide ones."""
        from pyspark.sql.functions import broadcast

        rows, more = self.rows // 4, 16
        columns = ["id", *(f"hash(id, {n}) + id AS c{n}" for n in range(more))]
        self.spark.range(0, rows, 1, 2).selectExpr(*columns).write.format("delta").save(
            str(self.home / "side")
        )
        small = self.spark.range(10).toDF("id")
        seconds = []
        for names in (["id"], ["id", *(f"c{n}" for n in range(more))]):
            side = self._read("side").select(*names)
            alone = self.timed(lambda side=side: _run(side))
            joined = self.timed(lambda side=side: _run(small.join(broadcast(side), "id")))
            seconds.append((joined - alone) / rows)
        a_byte = (seconds[1] - seconds[0]) / (8 * more)
        return seconds[0] - 16 * a_byte, a_byte

    def _probe(self) -> float:
        from pyspark.sql.functions import broadcast

        joined = self._read("fact")
        for _ in range(8):
            joined = joined.join(broadcast(self.spark.range(100_000).toDF("k")), "k")
        return 8 * self.rows / (self.timed(lambda: _run(joined)) - self.scan)

    def _sort_merge(self) -> float:
        one, other = (self._read("fact").repartition(4, "id") for _ in range(2))
        moved = self.timed(lambda: _run(one))
        joined = self.timed(lambda: _run(one.join(other.select("id", "a"), "id")))
        return 2 * self.rows / (joined - 2 * moved)

    def _merge(self) -> float:
        return 100_000 / (self._merged(101_000) - self._merged(1_000))

    def _merged(self, rows: int) -> float:
        if not (self.home / "target").exists():
            self._table("target", self.rows // 4, 4)
        target, step = f"delta.`{self.home}/target`", self.rows // 4 // rows
        self.spark.range(rows).selectExpr(
            f"id * {step} AS id", "0 AS k", "0 AS a", "0D AS b"
        ).createOrReplaceTempView("change")
        merge = (
            f"MERGE INTO {target} t USING change c ON t.id = c.id "
            "WHEN MATCHED THEN UPDATE SET b = t.b + 1"
        )
        return self.timed(lambda: self.spark.sql(merge).collect())


def _run(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


if __name__ == "__main__":
    sys.exit(main())
