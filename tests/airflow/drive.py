"""Play steps in one Airflow process: `python drive.py <dags folder> < steps.json > outcomes.json`.

A step is {"dag": id} or {"append": [table, rows]}. An outcome of a DAG run has the state of the
run and, for its task `join`: `tries`, `audit` (XCom), `events` (extras of its asset events),
`rendered`, `stored` (task state store), `log`, and `spark` (has this process loaded pyspark yet).
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def play(dags: Path, steps: list[dict[str, Any]]) -> list[Any]:
    """Play the steps in order."""
    from airflow.dag_processing.dagbag import DagBag
    from airflow.utils.db import initdb

    initdb()
    bag = DagBag(str(dags))
    if bag.import_errors:
        raise RuntimeError(bag.import_errors)
    outcomes: list[Any] = []
    for step in steps:
        if "append" in step:
            outcomes.append(append(*step["append"]))
        else:
            outcomes.append(run(bag.get_dag(step["dag"])))
    return outcomes


def append(table: str, rows: list[dict[str, Any]]) -> None:
    """Add rows to a table of ORDERS_HOME."""
    import pyarrow as pa
    from deltalake import write_deltalake

    place = str(Path(os.environ["ORDERS_HOME"], table))
    write_deltalake(
        place,
        pa.Table.from_pylist(rows),
        mode="append",
        configuration={"delta.enableChangeDataFeed": "true"},
    )


def run(dag: Any) -> dict[str, Any]:
    """One run of a DAG, and all that it left in Airflow."""
    from airflow.models.asset import AssetEvent
    from airflow.models.renderedtifields import RenderedTaskInstanceFields
    from airflow.models.task_state_store import TaskStateStoreModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with captured() as log:
        dag_run = dag.test()
    join = dag_run.get_task_instance("join")
    with create_session() as session:
        events = session.scalars(
            select(AssetEvent.extra).where(AssetEvent.source_run_id == dag_run.run_id)
        ).all()
        stored = session.scalars(
            select(TaskStateStoreModel.value).where(TaskStateStoreModel.run_id == dag_run.run_id)
        ).all()
    return {
        "state": str(dag_run.state),
        "tries": join.try_number,
        "audit": join.xcom_pull(task_ids="join", key="deltajoin_audit"),
        "events": list(events),
        "stored": list(stored),
        "rendered": RenderedTaskInstanceFields.get_templated_fields(join),
        "log": log[0],
        "spark": "pyspark" in sys.modules,
    }


@contextmanager
def captured() -> Iterator[list[str]]:
    """What the process and its children print meanwhile, as one text."""
    text: list[str] = []
    sys.stdout.flush()
    kept = os.dup(1)
    with tempfile.TemporaryFile("w+b") as file:
        os.dup2(file.fileno(), 1)
        try:
            yield text
        finally:
            sys.stdout.flush()
            os.dup2(kept, 1)
            os.close(kept)
            file.seek(0)
            text.append(file.read().decode(errors="replace"))


if __name__ == "__main__":
    result = os.dup(1)
    os.dup2(2, 1)
    played = play(Path(sys.argv[1]), json.load(sys.stdin))
    with os.fdopen(result, "w") as out:
        json.dump(played, out)
