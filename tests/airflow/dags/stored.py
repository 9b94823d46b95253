"""Airflow DAG of the tests: a join of tables in S3, reached by a connection."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Asset

from deltajoin.adapters.airflow.frontier import DeltaJoinFrontierOperator
from deltajoin.adapters.airflow.operator import DeltaJoinOperator

LAKE = "s3://lake/stored"


def model_in(lake: str) -> dict[str, Any]:
    """The model over the tables of a folder."""
    return {
        "model_name": "m",
        "sql": "SELECT o.id, c.name FROM o JOIN c ON o.customer = c.id",
        "sources": {name: f"{lake}/{name}" for name in ("o", "c")},
        "target": f"{lake}/t",
        "keys": {"o": ["id"], "c": ["id"]},
        "storage_conn_id": "lake",
    }


with DAG("stored"):
    freeze = DeltaJoinFrontierOperator(
        task_id="freeze", sources=[f"{LAKE}/o", f"{LAKE}/c"], storage_conn_id="lake"
    )
    DeltaJoinOperator(
        task_id="join", **model_in(LAKE), frontier=freeze.output, outlets=[Asset("stored")]
    )

with DAG("submitted_to_s3"):
    DeltaJoinOperator(
        task_id="join",
        **model_in("s3://lake/submitted"),
        submit="spark_submit",
        retries=2,
        retry_delay=timedelta(0),
    )
