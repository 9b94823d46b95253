"""Tables in S3, reached by an Airflow connection that no outcome of a run repeats."""

from __future__ import annotations

import json
from pathlib import Path

from tests.airflow.conftest import Play
from tests.unit.s3 import ACCESS_KEY, S3, SECRET_KEY, s3_server
from tests.unit.test_object_store import lake


def connection(s3: S3) -> str:
    """The Airflow connection to a server."""
    return json.dumps(
        {
            "conn_type": "aws",
            "login": ACCESS_KEY,
            "password": SECRET_KEY,
            "extra": {"region_name": "us-east-1", "endpoint_url": s3.endpoint},
        }
    )


def test_a_connection_reaches_the_tables(
    play: Play, airflow_env: dict[str, str], tmp_path: Path
) -> None:
    with s3_server() as s3:
        lake(s3, "stored", tmp_path)
        airflow_env["AIRFLOW_CONN_LAKE"] = connection(s3)
        (outcome,) = play({"dag": "stored"})
    assert outcome["state"] == "success", outcome["log"][-4000:]
    assert outcome["audit"]["reason"] == "NO_CHANGE"
    assert not outcome["spark"]
    told = json.dumps(outcome)
    assert SECRET_KEY not in told
    assert ACCESS_KEY not in told
