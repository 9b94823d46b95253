"""Airflow DAGs of the tests: one join, run well and badly. ORDERS_HOME has its tables."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, Context, task

from deltajoin.adapters.airflow.frontier import DeltaJoinFrontierOperator
from deltajoin.adapters.airflow.operator import DeltaJoinOperator
from deltajoin.runtime.session import java_options

HOME = Path(os.environ["ORDERS_HOME"])
CONF = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.buffer.pageSize": "2m",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
}
SUBMITTED = {
    **CONF,
    "spark.driver.extraJavaOptions": java_options(),
    **json.loads(os.environ["SECRET_CONF"]),
}
COMMON: dict[str, Any] = {
    "task_id": "join",
    "sql": "orders.sql",
    "sources": {name: str(HOME / name) for name in ("orders", "customers")},
    "keys": {"orders": ["id"], "customers": ["id"]},
    "conf": CONF,
    "retries": 2,
    "retry_delay": timedelta(0),
}


class DiesAfterCommit(DeltaJoinOperator):
    """Fails its first attempt when the epoch is committed and nothing is attached yet."""

    def execute(self, context: Context) -> dict[str, dict[str, Any]]:
        """Run; on the first attempt only as far as the commit."""
        from deltajoin.delta.frontier import Frontier

        if context["ti"].try_number == 1:
            self._run(Frontier())
            raise RuntimeError("lost after the commit")
        return super().execute(context)


class LosesTheAnswer(DeltaJoinOperator):
    """The job commits its epoch; then spark-submit ends as if it had failed."""

    def execute(self, context: Context) -> dict[str, dict[str, Any]]:
        """Run, and let the hook take spark-submit's 0 for another number."""
        from subprocess import Popen
        from unittest.mock import patch

        from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

        submit, wait = SparkSubmitHook.submit, Popen.wait

        def submitted(hook: Any, job: str) -> None:
            with patch.object(Popen, "wait", lambda process: wait(process) or 1):
                submit(hook, job)
            raise AssertionError("the hook has not failed")

        with patch.object(SparkSubmitHook, "submit", submitted):
            return super().execute(context)


@task
def land() -> None:
    """One more order, between two joins of a run."""
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake

    rows = DeltaTable(str(HOME / "orders")).count()
    order = pa.table({"id": [rows], "customer": [0], "amount": [5]})
    write_deltalake(str(HOME / "orders"), order, mode="append")


def joining(name: str, **changes: Any) -> DeltaJoinOperator:
    """A task of a DAG of several joins; its target is named as the task."""
    fields = {**COMMON, "task_id": name, "target": str(HOME / "diamond" / name)}
    return DeltaJoinOperator(**{**fields, "keep_session": True, **changes})


with DAG("in_process"):
    DeltaJoinOperator(
        **COMMON,
        target=str(HOME / "in_process"),
        keep_session=True,
        outlets=[Asset("orders_joined")],
    )

for name, kind in (("submitted", DeltaJoinOperator), ("answer_lost", LosesTheAnswer)):
    with DAG(name):
        kind(
            **{**COMMON, "conf": SUBMITTED},
            target=str(HOME / "submitted"),
            submit="spark_submit",
            outlets=[Asset("orders_submitted")],
        )

WRONG_KEY = {"orders": ["customer"], "customers": ["id"]}
for name, target, keys in (
    ("driven_by_a_worker", "submitted", COMMON["keys"]),
    ("fails_on_a_worker", "fails_on_a_worker", WRONG_KEY),
):
    with DAG(name):
        DeltaJoinOperator(
            **{**COMMON, "conf": SUBMITTED, "keys": keys},
            target=str(HOME / target),
            submit="spark_submit",
            submit_options={"deploy_mode": "cluster", "driver_memory": "600m"},
        )

with DAG("connected"):
    DeltaJoinOperator(
        **{**COMMON, "conf": {"spark.sql.shuffle.partitions": "2"}},
        target=str(HOME / "connected"),
        submit="spark_connect",
    )

if "RACED_MODEL" in os.environ:
    with DAG("raced"):
        DeltaJoinOperator(
            task_id="join",
            model=os.environ["RACED_MODEL"],
            conf=CONF,
            retries=2,
            retry_delay=timedelta(0),
        )

with DAG("wrong_key"):
    DeltaJoinOperator(
        **{**COMMON, "conf": SUBMITTED, "keys": WRONG_KEY},
        target=str(HOME / "wrong_key"),
        submit="spark_submit",
    )

with DAG("own_properties"):
    DeltaJoinOperator(
        **{**COMMON, "conf": SUBMITTED},
        target=str(HOME / "own_properties"),
        submit="spark_submit",
        submit_options={"properties_file": str(HOME / "own.properties")},
    )

with DAG("no_connection"):
    DeltaJoinOperator(
        **{**COMMON, "retries": 0},
        target=str(HOME / "no_connection"),
        submit="spark_submit",
        conn_id="nowhere",
    )

with DAG("missing_source"):
    DeltaJoinOperator(
        **{**COMMON, "sources": {**COMMON["sources"], "customers": str(HOME / "absent")}},
        target=str(HOME / "missing_source"),
    )

with DAG("retried"):
    DiesAfterCommit(**COMMON, target=str(HOME / "retried"), keep_session=True)

with DAG("killed"):
    DeltaJoinOperator(**COMMON, target=str(HOME / "killed"), keep_session=True)

BOTH = {
    "sql": "select l.id, l.amount, r.name from left_side l join right_side r on l.id = r.id",
    "sources": {n: str(HOME / "diamond" / n) for n in ("left_side", "right_side")},
    "keys": {"left_side": ["id"], "right_side": ["id"]},
}

with DAG("diamond"):
    freeze = DeltaJoinFrontierOperator(task_id="freeze", sources=COMMON["sources"].values())
    left = joining("left_side", frontier=freeze.output)
    right = joining("right_side", frontier="{{ ti.xcom_pull('freeze') | tojson }}")
    left >> land() >> right
    joining("join", **BOTH, frontier=[left.output, right.output])

with DAG("half_a_diamond"):
    freeze = DeltaJoinFrontierOperator(task_id="freeze", sources=COMMON["sources"].values())
    left = joining("left_side", frontier=freeze.output)
    joining("join", **BOTH, frontier=left.output)
