"""Spark and planner together on tables in S3: `--s3` only, for Hadoop's S3 needs 690 MB of jars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import deltajoin
from deltajoin.audit.verify import verify
from deltajoin.catalog import load_target
from deltajoin.model import Model
from deltajoin.runtime.session import local_session
from deltajoin.storage import storage
from tests.unit.s3 import ACCESS_KEY, BUCKET, S3, SECRET_KEY, s3_server

HADOOP_S3 = "org.apache.hadoop:hadoop-aws:3.5.0"
SQL = "SELECT o.id, c.name FROM o JOIN c ON o.customer = c.id"
CONF = {
    "spark.jars.packages": HADOOP_S3,
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
}


@pytest.fixture
def s3() -> Iterator[S3]:
    with s3_server() as server:
        yield server


@pytest.fixture
def session(s3: S3) -> Iterator[Any]:
    """A session that knows nothing of the server."""
    started = local_session("deltajoin-s3", "local[2]", CONF)
    yield started
    started.stop()


@pytest.mark.spark
def test_epochs_on_s3(s3: S3, session: Any) -> None:
    options = s3.options
    at = {name: f"s3://{BUCKET}/{name}" for name in ("o", "c", "t")}
    model = Model(
        "m",
        SQL,
        {name: at[name] for name in ("o", "c")},
        at["t"],
        {"o": ("id",), "c": ("id",)},
        mode="incremental",
        storage_options=options,
    )

    def write(table: str, **columns: list[Any]) -> None:
        write_deltalake(
            at[table],
            pa.table(columns),
            mode="append",
            storage_options=options,
            configuration={"delta.enableChangeDataFeed": "true"},
        )

    def run(strategy: str) -> list[tuple[Any, ...]]:
        assert deltajoin.run(model, session).strategy == strategy
        return sorted(tuple(row) for row in deltajoin.read(model, session).collect())

    write("o", id=[1, 2, 3], customer=[1, 1, 2])
    write("c", id=[1, 2], name=["a", "b"])
    assert run("full") == [(1, "a"), (2, "a"), (3, "b")]
    write("o", id=[4], customer=[2])
    assert run("incremental") == [(1, "a"), (2, "a"), (3, "b"), (4, "b")]
    customers = DeltaTable(at["c"], storage_options=options)
    customers.update(predicate="id = 1", updates={"name": "'z'"})
    assert run("incremental") == [(1, "z"), (2, "z"), (3, "b"), (4, "b")]
    DeltaTable(at["o"], storage_options=options).delete("id = 2")
    assert run("incremental") == [(1, "z"), (3, "b"), (4, "b")]
    assert run("noop") == [(1, "z"), (3, "b"), (4, "b")]
    with storage(options):
        state = load_target(model.target)
        assert state is not None
        assert verify(state) == ()
    store = s3.client()
    for one in store.list_objects_v2(Bucket=BUCKET)["Contents"]:
        content = store.get_object(Bucket=BUCKET, Key=one["Key"])["Body"].read()
        assert ACCESS_KEY.encode() not in content
        assert SECRET_KEY.encode() not in content
