"""A home for Airflow and for tables, and a way to play DAG runs in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import deltajoin
from deltajoin.runtime.session import java_home
from tests.secrets import PLANTED, SETTINGS, found_in

DAGS = Path(__file__).with_name("dags")
DRIVE = Path(__file__).with_name("drive.py")

Play = Callable[..., list[Any]]

ORDERS = [{"id": n, "customer": n % 3, "amount": 10 * n} for n in range(6)]
CUSTOMERS = [{"id": n, "name": name} for n, name in enumerate(("Ada", "Bo", "Cy"))]
#: Settings of the submitted jobs.
SECRETS = {f"spark.hadoop.{name}": PLANTED[name] for name in SETTINGS}
TABLES = [{"append": ["orders", ORDERS]}, {"append": ["customers", CUSTOMERS]}]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if {"play", "played", "airflow_env"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.airflow)
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def airflow_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Airflow's home, the same for all tests: its tables are made once."""
    return tmp_path_factory.mktemp("airflow")


@pytest.fixture
def airflow_env(airflow_home: Path, tmp_path: Path) -> dict[str, str]:
    """The environment of an Airflow process with the test DAGs and tables of its own."""
    return environment(airflow_home, tmp_path)


def environment(home: Path, tables: Path) -> dict[str, str]:
    """The same, for a home of Airflow and a folder with tables."""
    bundle = {
        "name": "tests",
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {"path": str(DAGS)},
    }
    java = java_home()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    return {
        **kept,
        "JAVA_HOME": str(java),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(Path(deltajoin.__file__).parents[1]),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([bundle]),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(
            {
                "conn_type": "spark",
                "host": "local[2]",
                "password": PLANTED["password of a connection"],
                "extra": {"token": PLANTED["extra of a connection"]},
            }
        ),
        "SOME_SECRET": PLANTED["environment"],
        "SECRET_CONF": json.dumps(SECRETS),
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(
            {"type": "file", "log_file_path": str(tables / "lineage.jsonl"), "append": True}
        ),
        "ORDERS_HOME": str(tables),
    }


@pytest.fixture
def play(airflow_env: dict[str, str]) -> Play:
    """`play(step, ...)` plays steps of drive.py in one new process and gives their outcomes."""

    return lambda *steps: play_in(airflow_env, steps)


def play_in(env: dict[str, str], steps: Sequence[dict[str, Any]]) -> list[Any]:
    """Play the steps in one new process; neither it nor its lineage tells a planted secret."""
    process = subprocess.run(
        [sys.executable, str(DRIVE), str(DAGS)],
        input=json.dumps(steps),
        env=env,
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert process.returncode == 0, process.stderr[-8000:]
    lineage = Path(env["ORDERS_HOME"], "lineage.jsonl")
    told = [process.stdout, process.stderr, lineage.read_text() if lineage.exists() else ""]
    assert found_in("\n".join(told)) == []
    outcomes: list[Any] = json.loads(process.stdout)
    return outcomes
