"""The sides that the benchmark times, each over the same tables and from the same state.

    incremental   deltajoin.run, mode incremental
    auto          the same, mode auto
    full          the SQL as written on plain Spark, overwriting a Delta table
    duckdb        the SQL as written in DuckDB, over the same files, into a Parquet file
    hand          a hand-written MERGE of the joined new rows of lineitem: what dbt models do
    read          floor of a rebuild: the columns that the SQL names, read by Spark
    merge         floor of a run: the rows that our run wrote, at hand in a file, merged by their
                  key in its range; after `incremental`

No side pays for the work of another: before each, its target is as built and Spark's cache of
Delta logs is empty.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltajoin
from examples.tpch.changes import Batch, merges
from examples.tpch.data import KEYS, copy_tables
from examples.tpch.models import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OURS = ("incremental", "auto")
SIDES = (*OURS, "full", "duckdb", "hand", "read", "merge")
#: Those that must have the query's rows afterwards, and those whose rows are compared with them.
EXACT = (*OURS, "full", "duckdb")
COMPARED = (*EXACT, "hand")


@dataclass
class Run:
    """Seconds of a run of a side, in all, by phase, of all processors; what became of it."""

    seconds: float = 0.0
    cpu: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)
    outcome: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Workplace:
    """A model's tables below `home`: `built` as first built, `work` as a batch left them."""

    spark: SparkSession
    home: Path
    chain: tuple[Table, ...]
    #: Of the target of our last run, by table: its key, empty for a bag; its range as a condition.
    keys: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ranges: dict[str, str] = field(default_factory=dict)

    def can(self, side: str) -> bool:
        """True when a side is told how to keep all tables of the chain."""
        if side == "hand":
            return all(table.hand_key for table in self.chain)
        return side != "merge" or all(self.keys.get(table.name) for table in self.chain)

    def place(self, side: str, table: str) -> Path:
        """Where a table of a side lies; our modes share theirs, all share the sources."""
        folder = "tables" if table in KEYS else "ours" if side in OURS else side
        return self.home / "work" / folder / table

    def build(self, tables: Path) -> Mapping[str, float]:
        """Build the targets over a copy of the tables, and keep this state; seconds by side.

        Nothing is built where this is all there from another time.
        """
        done = self.home / "built" / "done"
        if done.exists():
            return {}
        shutil.rmtree(self.home, ignore_errors=True)
        copy_tables(tables, self.home / "work" / "tables")
        seconds = {side: self.time(side).seconds for side in ("incremental", "full")}
        copy_tables(self.home / "work", self.home / "built")
        copy_tables(self.home / "work" / "full", self.home / "built" / "hand")
        done.touch()
        return seconds

    def change(self, batch: Batch, seed: int) -> None:
        """Go back to the state as built, then apply the batch to the sources."""
        copy_tables(self.home / "built", self.home / "work")
        self._forget_logs()
        self._show("full")
        keys = self.spark.table(batch.table).count()
        columns = {name: self.spark.table(name).columns for name in KEYS}
        for table, merge in merges(batch, keys, seed, columns).items():
            self.spark.sql(merge.format(**{table: f"delta.`{self.place('full', table)}`"}))

    def run(self, side: str) -> Run:
        """Run a side from its target as built."""
        self.reset(side)
        return self.time(side)

    def reset(self, side: str) -> None:
        """Put a side's target back to where it was built, with what the side needs at hand."""
        if side == "merge":
            self._keep_written_rows()
        folder = "ours" if side in OURS else side
        built = self.home / "built" / ("ours" if side == "merge" else folder)
        if built.exists():
            copy_tables(built, self.home / "work" / folder)
        self._forget_logs()
        self._show(side)

    def time(self, side: str) -> Run:
        """Run a side on what is there."""
        run = Run()
        sides = {"duckdb": self._duckdb, "full": self._full, "hand": self._hand}
        sides |= {"read": self._read, "merge": self._merge}
        cpu, started = self._cpu_seconds(), time.monotonic()
        for table in self.chain:
            if side in OURS:
                self._ours(table, side, run)
            else:
                sides[side](table)
        run.seconds, run.cpu = time.monotonic() - started, self._cpu_seconds() - cpu
        return run

    def rows(self, side: str, table: Table) -> DataFrame:
        """The rows that a side holds, in the types that Spark gives the query."""
        place = str(self.place(side, table.name))
        if side in OURS:
            return deltajoin.read(self._model(table, side), self.spark)
        if side != "duckdb":
            return self.spark.read.format("delta").load(place)
        types = self.rows("full", table).dtypes
        casts = (f"CAST(`{name}` AS {kind}) AS `{name}`" for name, kind in types)
        return self.spark.read.parquet(place).selectExpr(*casts)

    def fingerprint(self, side: str) -> list[tuple[int, Any]]:
        """Number of rows and sum of their hashes, of each table of the chain."""
        total = "sum(CAST(hash AS DECIMAL(38))) AS total"
        hashes = (_hashes(self.rows(side, table)) for table in self.chain)
        found = (rows.selectExpr("count(*) AS n", total).collect()[0] for rows in hashes)
        return [(row["n"], row["total"]) for row in found]

    def wrong_rows(self, side: str) -> int:
        """Rows that a side holds and the full rebuild does not, and the other way round."""
        wrong = 0
        for table in self.chain:
            ours = _hashes(self.rows(side, table)).selectExpr("hash", "1 AS weight")
            true = _hashes(self.rows("full", table)).selectExpr("hash", "-1 AS weight")
            weights = ours.union(true).groupBy("hash").sum("weight").toDF("hash", "weight")
            (row,) = weights.selectExpr("coalesce(sum(abs(weight)), 0) AS wrong").collect()
            wrong += int(row["wrong"])
        return wrong

    def _model(self, table: Table, side: str) -> deltajoin.Model:
        return deltajoin.Model(
            table.name,
            table.sql,
            sources={name: str(self.place(side, name)) for name in table.tables},
            target=str(self.place(side, table.name)),
            keys={name: KEYS[name] for name in table.tables if name in KEYS},
            mode=side,
        )

    def _ours(self, table: Table, side: str, run: Run) -> None:
        last = time.monotonic()

        def step(name: str, info: dict[str, Any]) -> None:
            nonlocal last
            now = time.monotonic()
            run.phases[name] = run.phases.get(name, 0.0) + now - last
            last = now

        record = deltajoin.run(self._model(table, side), self.spark, on_step=step)
        written = record.strategy == "incremental" and any(record.rows.values())
        self.keys[table.name] = record.key if written and record.kind != "bag" else ()
        run.outcome.append(f"{record.strategy}: {record.reason}")

    def _full(self, table: Table) -> None:
        self._show("full")
        place = str(self.place("full", table.name))
        self.spark.sql(table.sql).write.format("delta").mode("overwrite").save(place)

    def _duckdb(self, table: Table) -> None:
        import duckdb
        from deltalake import DeltaTable

        with duckdb.connect() as connection:
            for name in table.tables:
                place = str(self.place("duckdb", name))
                files = DeltaTable(place).file_uris() if name in KEYS else [place]
                connection.read_parquet(files).create_view(name)
            place = str(self.place("duckdb", table.name))
            Path(place).parent.mkdir(exist_ok=True)
            connection.execute(f"COPY ({table.sql}) TO '{place}' (FORMAT parquet)")

    def _hand(self, table: Table) -> None:
        from deltalake import DeltaTable

        place = str(self.place("hand", "lineitem"))
        changed = DeltaTable(place).version() > 0
        rows = self.spark.read.format("delta").option("readChangeFeed", changed)
        rows = rows.option("startingVersion", 1) if changed else rows
        fresh = "_change_type IN ('insert', 'update_postimage')" if changed else "false"
        rows.load(place).where(fresh).createOrReplaceTempView("lineitem")
        same = " AND ".join(f"t.{name} = s.{name}" for name in table.hand_key)
        self.spark.sql(
            f"MERGE INTO delta.`{self.place('hand', table.name)}` AS t USING ({table.sql}) AS s "
            f"ON {same} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def _read(self, table: Table) -> None:
        for name in table.tables:
            if name in KEYS:
                rows = self.spark.table(name)
                used = [column for column in rows.columns if column in table.sql]
                rows.select(used).write.format("noop").mode("overwrite").save()

    def _keep_written_rows(self) -> None:
        """Write the rows of our last run to files, from the change feed of its target."""
        from deltalake import DeltaTable

        for table in self.chain:
            place = str(self.place("incremental", table.name))
            before = DeltaTable(str(self.home / "built" / "ours" / table.name)).version()
            rows = self.spark.read.format("delta").option("readChangeFeed", True)
            changes = rows.option("startingVersion", before + 1).load(place)
            written = changes.where("_change_type != 'update_preimage'").coalesce(1)
            written.write.mode("overwrite").parquet(self._written(table))
            first = self.keys[table.name][0]
            ends = f"min(`{first}`) AS low", f"max(`{first}`) AS high"
            (row,) = self.spark.read.parquet(self._written(table)).selectExpr(*ends).collect()
            if isinstance(row["low"], int):
                self.ranges[table.name] = f"t.`{first}` BETWEEN {row['low']} AND {row['high']} AND "

    def _written(self, table: Table) -> str:
        return str(self.home / "work" / "written" / table.name)

    def _merge(self, table: Table) -> None:
        same = " AND ".join(f"t.`{name}` <=> s.`{name}`" for name in self.keys[table.name])
        self.spark.sql(
            f"MERGE INTO delta.`{self.place('merge', table.name)}` AS t "
            f"USING parquet.`{self._written(table)}` AS s "
            f"ON {self.ranges.get(table.name, '')}{same} "
            "WHEN MATCHED AND s._change_type = 'delete' THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET * "
            "WHEN NOT MATCHED AND s._change_type != 'delete' THEN INSERT *"
        )

    def _show(self, side: str) -> None:
        """Views of all tables under their plain names, results as the side has them."""
        for name in (*KEYS, *(table.name for table in self.chain)):
            place = self.place(side, name)
            if (place / "_delta_log").exists():
                rows = f"SELECT * FROM delta.`{place}`"
                self.spark.sql(f"CREATE OR REPLACE TEMP VIEW {name} AS {rows}")

    def _forget_logs(self) -> None:
        jvm: Any = self.spark._jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

    def _cpu_seconds(self) -> float:
        """Of this process and of Spark's, garbage collection and compiling included; Linux."""
        jvm: Any = self.spark._jvm
        process = Path("/proc", str(jvm.java.lang.ProcessHandle.current().pid()), "stat")
        if not process.exists():
            return 0.0
        user, system = process.read_text().rpartition(")")[2].split()[11:13]
        return time.process_time() + (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _hashes(rows: DataFrame) -> DataFrame:
    """A hash of each row, of its values and of which are NULL: the hash itself skips NULLs."""
    values = ", ".join(f"`{name}`, isnull(`{name}`)" for name in rows.columns)
    return rows.selectExpr(f"xxhash64({values}) AS hash")
