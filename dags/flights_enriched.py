"""An Airflow DAG that lands the next day of flights and brings `flights_enriched` up to it.

The first run lands January. `land: nothing` moves the source versions without changing a row, which
the join answers without starting Spark. Folders come from the environment: DELTAJOIN_FLIGHTS has
the feed and the SQL, DELTAJOIN_FLIGHTS_HOME the tables. DELTAJOIN_FLIGHTS_SUBMIT says where Spark
runs.
"""

from __future__ import annotations

import os
from datetime import timedelta
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from airflow.sdk import Asset, Param, dag, task

from deltajoin.adapters.airflow.operator import DeltaJoinOperator

REPOSITORY = Path(__file__).resolve().parent.parent
FLIGHTS = Path(os.environ.get("DELTAJOIN_FLIGHTS", REPOSITORY / "examples" / "flights"))
HOME = Path(os.environ.get("DELTAJOIN_FLIGHTS_HOME", REPOSITORY / ".demo" / "flights"))
RAW = HOME / "raw"
KEYS = {
    "flights": ("time_hour", "carrier", "flight"),
    "weather": ("origin", "time_hour"),
    "planes": ("tailnum",),
    "airlines": ("carrier",),
    "airports": ("faa",),
}


@task
def land(params: dict[str, Any] | None = None) -> dict[str, int]:
    """Land January at first, then a day at each run."""
    spec = spec_from_file_location("flights_feed", FLIGHTS / "feed.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(FLIGHTS / "feed.py")
    feed = module_from_spec(spec)
    spec.loader.exec_module(feed)
    if params and params["land"] == "nothing":
        feed.land_nothing(RAW)
        return {}
    landed: dict[str, int] = feed.land_next(RAW)
    return landed


@dag(
    schedule=None,
    catchup=False,
    max_active_runs=1,
    params={"land": Param("next_day", enum=["next_day", "nothing"])},
    tags=["deltajoin"],
    doc_md=__doc__,
)
def flights_enriched() -> None:
    """Land, then join."""
    join = DeltaJoinOperator(
        task_id="join",
        sql=FLIGHTS / "flights_enriched.sql",
        sources={name: str(RAW / name) for name in KEYS},
        target=str(HOME / "flights_enriched"),
        keys=KEYS,
        submit=os.environ.get("DELTAJOIN_FLIGHTS_SUBMIT", "in_process"),
        outlets=[Asset(name="flights_enriched", uri=(HOME / "flights_enriched").as_uri())],
        retries=2,
        retry_delay=timedelta(seconds=30),
    )
    land() >> join


flights_enriched()
