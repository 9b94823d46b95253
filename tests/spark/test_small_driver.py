"""A driver of 1 GB keeps a table of ten million rows: first build, a change of a tenth of it, one
of a few rows, and one of which its writer's log tells a thousandth: it is found too large for what
the plan would broadcast, before anything is.

Spark runs in a process of its own, as a driver's memory is given where its JVM starts.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

import deltajoin
from deltajoin.emit.job import job_source
from deltajoin.planner import lookup
from tests.spark.shop import FEED

SQL = """
SELECT s.sale_id, s.amount, s.note, c.name
FROM sales AS s JOIN customers AS c ON s.customer_id = c.customer_id
"""


def model(folder: Path, mode: str) -> deltajoin.Model:
    return deltajoin.Model(
        name="sales",
        sql=SQL,
        sources={name: f"{folder}/{name}" for name in ("sales", "customers")},
        target=f"{folder}/target",
        keys={"sales": ["sale_id"], "customers": ["customer_id"]},
        mode=mode,
    )


def write(folder: Path, table: str, query: str) -> None:
    with duckdb.connect() as connection:
        rows = connection.sql(query).to_arrow_reader(100_000)
        write_deltalake(str(folder / table), rows, configuration=FEED)


def assert_right(folder: Path) -> None:
    """As many rows as of the query, with the same digest; by DuckDB from what delta-rs reads."""
    with duckdb.connect() as connection:
        for name in ("sales", "customers", "target"):
            rows = QueryBuilder().register("t", DeltaTable(str(folder / name)))
            read = pa.RecordBatchReader.from_stream(rows.execute("SELECT * FROM t"))
            connection.register(name, read)
        digest = "SELECT count(*), sum(hash(sale_id, amount, note, name)) FROM"
        target = connection.sql(f"{digest} target").fetchall()
        assert target == connection.sql(f"{digest} ({SQL})").fetchall()


def main(folder: Path, rows: int) -> None:
    """All runs, in the session of this process."""
    from deltajoin.runtime.session import local_session

    lookup.BROADCAST_ROWS = rows // 10  # a million of ten millions, as ever
    spark = local_session("small", "local[2]", {"spark.driver.memory": "1g"})
    assert spark._jvm.java.lang.Runtime.getRuntime().maxMemory() <= 2**30
    columns = "n % 50000 AS customer_id, n % 977 AS amount, md5(CAST(n AS TEXT)) AS note"
    write(folder, "sales", f"SELECT n AS sale_id, {columns} FROM range({rows}) t(n)")
    names = f"SELECT n AS customer_id, 'name ' || n AS name FROM range({50_000 + rows // 5}) t(n)"
    write(folder, "customers", names)
    sales, customers = (DeltaTable(str(folder / name)) for name in ("sales", "customers"))

    def run(mode: str, rows: int) -> list[str]:
        record = deltajoin.run(model(folder, mode), spark)
        told = record.to_dict()
        print(told["strategy"], told["rows"], told["seconds"], told["warnings"], flush=True)  # noqa: T201
        assert sum(record.rows.values()) == rows
        assert_right(folder)
        return list(record.warnings)

    run("auto", rows)
    sales.update(predicate="sale_id % 10 = 3", updates={"amount": "amount + 1"})
    run("incremental_strict", rows // 10)
    customers.update(predicate="customer_id % 100 = 7", updates={"name": "'changed'"})
    sales.delete("sale_id % 1000 = 5")
    run("incremental_strict", rows // 100 + rows // 1000)
    customers.update(predicate="customer_id >= 49000", updates={"name": "'again'"})
    told = understated(folder / "customers")
    planned = deltajoin.plan(model(folder, "incremental_strict"))
    assert [source.change_rows for source in planned.sources if source.changed] == [told]
    assert "BROADCAST(" in job_source(planned), "the change is not sent to the large table"
    (warning,) = run("incremental_strict", rows // 50 - rows // 50_000)
    assert warning.endswith("rows, too many for the broadcasts planned")


def understated(table: Path) -> int:
    """What the last commit of a table now tells of its updated rows: a thousandth of them."""
    log = max((table / "_delta_log").glob("*.json"))
    text = log.read_text()
    (rows,) = re.findall(r'"num_updated_rows":(\d+)', text)
    told = int(rows) // 1000
    log.write_text(text.replace(f'"num_updated_rows":{rows}', f'"num_updated_rows":{told}'))
    return told


@pytest.mark.thorough
def test_a_large_change_through_a_small_driver(tmp_path: Path) -> None:
    rows, environment = 10_000_000, dict(os.environ)
    environment.pop("DELTAJOIN_JAVA_OPTIONS", None)
    command = [sys.executable, "-m", "tests.spark.test_small_driver", str(tmp_path), str(rows)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=7000)
    assert done.returncode == 0, done.stderr[-4000:]
    print(done.stdout)  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
