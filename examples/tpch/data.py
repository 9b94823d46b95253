"""The tables of TPC-H as Delta tables, made once by tpchgen-cli and Spark.

Each table lies in the order of its primary key, in files of about FILE_BYTES, with the change feed
on: as a table that is clustered by its key. The same scale gives the same rows. What runs on a
machine that has the folder already starts at once.

    python -m examples.tpch.data --sf 1 --data DIR
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CACHE = Path(__file__).resolve().parents[2] / ".bench"
FILE_BYTES = 36 * 2**20
KEYS = {
    "nation": ("n_nationkey",),
    "region": ("r_regionkey",),
    "supplier": ("s_suppkey",),
    "customer": ("c_custkey",),
    "part": ("p_partkey",),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}


def default_folder(scale: float) -> Path:
    """Where the tables of a scale are kept when no folder is given; git ignores it."""
    return CACHE / f"tpch-sf{scale:g}"


def session(scale: float) -> SparkSession:
    """A local session with as many shuffle partitions as the scale asks for.

    First builds are not computed twice, to be compared: the benchmark compares all rows itself.
    """
    from deltajoin.runtime.session import local_session

    partitions = str(max(8, math.ceil(6.4 * scale)))
    conf = {"spark.sql.shuffle.partitions": partitions, "spark.deltajoin.compareRows": "0"}
    return local_session("deltajoin-tpch", conf=conf)


def make_tables(spark: SparkSession, home: Path, scale: float) -> Path:
    """Write the tables below `home` unless they are all there; their folder."""
    tables = home / "tables"
    if (tables / "done").exists():
        return tables
    shutil.rmtree(tables, ignore_errors=True)
    for name, key in KEYS.items():
        raw = _generate(home / "raw", name, scale)
        files = max(1, round(raw.stat().st_size / FILE_BYTES))
        rows = spark.read.parquet(str(raw))
        ordered = rows.repartitionByRange(files, *key) if files > 1 else rows.coalesce(1)
        (
            ordered.sortWithinPartitions(*key)
            .write.format("delta")
            .option("delta.enableChangeDataFeed", "true")
            .save(str(tables / name))
        )
        raw.unlink()
        print(f"  {name}: {files} files", flush=True)
    shutil.rmtree(home / "raw")
    (tables / "done").touch()
    return tables


def copy_tables(source: Path, place: Path) -> None:
    """Copy a folder of Delta tables: what nothing ever changes, the data files, are links."""
    shutil.rmtree(place, ignore_errors=True)

    def copy(old: str, new: str) -> None:
        if old.endswith(".parquet") and "/_delta_log/" not in old:
            os.link(old, new)
        else:
            shutil.copyfile(old, new)

    shutil.copytree(source, place, copy_function=copy)


def _generate(raw: Path, table: str, scale: float) -> Path:
    program = Path(sys.executable).with_name("tpchgen-cli")
    command = str(program) if program.exists() else "tpchgen-cli"
    options = [f"--scale-factor={scale:g}", f"--tables={table}", f"--output-dir={raw}"]
    raw.mkdir(parents=True, exist_ok=True)
    quiet = ["--no-progress", "--overwrite", "--field-ids=false"]
    subprocess.run([command, "parquet", *options, *quiet], check=True)
    return raw / f"{table}.parquet"


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the tables and print their folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sf", type=float, default=1.0, help="scale; 1 has 6 million lineitems")
    parser.add_argument("--data", type=Path, help=f"folder; default below {CACHE.name}")
    options = parser.parse_args(arguments)
    spark = session(options.sf)
    try:
        print(make_tables(spark, options.data or default_folder(options.sf), options.sf))
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
