"""Airflow DAG of the tests: a join of tables in S3, reached by a connection."""

from __future__ import annotations

from airflow.sdk import DAG, Asset

from deltajoin.adapters.airflow.frontier import DeltaJoinFrontierOperator
from deltajoin.adapters.airflow.operator import DeltaJoinOperator

LAKE = "s3://lake/stored"

with DAG("stored"):
    freeze = DeltaJoinFrontierOperator(
        task_id="freeze", sources=[f"{LAKE}/o", f"{LAKE}/c"], storage_conn_id="lake"
    )
    DeltaJoinOperator(
        task_id="join",
        model_name="m",
        sql="SELECT o.id, c.name FROM o JOIN c ON o.customer = c.id",
        sources={name: f"{LAKE}/{name}" for name in ("o", "c")},
        target=f"{LAKE}/t",
        keys={"o": ["id"], "c": ["id"]},
        storage_conn_id="lake",
        frontier=freeze.output,
        outlets=[Asset("stored")],
    )
