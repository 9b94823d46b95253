"""An Airflow DAG that submits its Spark job to the cluster of the connection `spark_default`.

The task plans without a JVM, submits the generated job with spark-submit, and reads the audit back
from the target's commit. It joins what the DAG `flights_enriched` has landed.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from airflow.sdk import Asset, dag

from deltajoin.adapters.airflow.operator import DeltaJoinOperator

REPOSITORY = Path(__file__).resolve().parent.parent
HOME = Path(os.environ.get("DELTAJOIN_FLIGHTS_HOME", REPOSITORY / ".demo" / "flights"))
SQL = """
select f.time_hour, f.carrier, f.flight, f.origin, f.dest, f.arr_delay, a.name as airline
from flights as f
join airlines as a on a.carrier = f.carrier
where f.arr_delay > 60
"""


@dag(schedule=None, catchup=False, max_active_runs=1, tags=["deltajoin"], doc_md=__doc__)
def flights_by_airline() -> None:
    """One task: flights that were an hour late, with the airline's name."""
    DeltaJoinOperator(
        task_id="join",
        sql=SQL,
        sources={name: str(HOME / "raw" / name) for name in ("flights", "airlines")},
        target=str(HOME / "flights_by_airline"),
        keys={"flights": ("time_hour", "carrier", "flight"), "airlines": ("carrier",)},
        submit="spark_submit",
        conn_id="spark_default",
        outlets=[
            Asset(name="flights_by_airline", uri=(HOME / "flights_by_airline").as_uri()),
        ],
        retries=2,
        retry_delay=timedelta(seconds=30),
    )


flights_by_airline()
