"""An Airflow DAG that keeps the airports within 100 km of the end of each route.

It joins what the DAG `flights_enriched` has landed. Folders come from the environment:
DELTAJOIN_FLIGHTS has the SQL, DELTAJOIN_FLIGHTS_HOME the tables.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from airflow.sdk import Asset, dag

from deltajoin.adapters.airflow.operator import DeltaJoinOperator

REPOSITORY = Path(__file__).resolve().parent.parent
FLIGHTS = Path(os.environ.get("DELTAJOIN_FLIGHTS", REPOSITORY / "examples" / "flights"))
HOME = Path(os.environ.get("DELTAJOIN_FLIGHTS_HOME", REPOSITORY / ".demo" / "flights"))


@dag(schedule=None, catchup=False, max_active_runs=1, tags=["deltajoin"], doc_md=__doc__)
def flights_alternates() -> None:
    """One task: routes with the airports near their ends, by distance."""
    DeltaJoinOperator(
        task_id="join",
        sql=FLIGHTS / "flights_alternates.sql",
        sources={name: str(HOME / "raw" / name) for name in ("flights", "airports")},
        target=str(HOME / "flights_alternates"),
        keys={"flights": ("time_hour", "carrier", "flight"), "airports": ("faa",)},
        # Nobody knows how many airports are near; by a guess, `auto` would expect too many rows.
        mode="incremental",
        outlets=[
            Asset(name="flights_alternates", uri=(HOME / "flights_alternates").as_uri()),
        ],
        retries=2,
        retry_delay=timedelta(seconds=30),
    )


flights_alternates()
