"""Airflow and dbt as the demo drives them: in this process, on one Spark session, logs in files."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]


class RunFailed(Exception):
    """A run of Airflow or dbt did not succeed; its log says why."""


@dataclass(frozen=True)
class Played:
    """One run: its audit record, and the seconds of its task or model."""

    audit: dict[str, Any]
    seconds: float

    def costs(self) -> str:
        """The seconds of the run itself, its session's start apart; in brackets all of them."""
        phases = self.audit.get("phases") or {}
        return f"{sum(phases.values()) - phases.get('start', 0):.1f} ({self.seconds:.1f})"


@contextmanager
def quiet(log: Path) -> Iterator[None]:
    """Send what this process and its children print to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, descriptor in zip((1, 2), kept, strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)


class Airflow:
    """One DAG in a new Airflow home on SQLite whose bundle is the repository's `dags` folder."""

    def __init__(self, home: Path, tables: Path, log: Path, dag: str) -> None:
        self._log = log
        bundle = {
            "name": "deltajoin",
            "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
            "kwargs": {"path": str(REPOSITORY / "dags")},
        }
        os.environ.update(
            {
                "AIRFLOW_HOME": str(home),
                "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
                "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([bundle]),
                "DELTAJOIN_FLIGHTS_HOME": str(tables),
            }
        )
        with quiet(log):
            from airflow.dag_processing.dagbag import DagBag
            from airflow.utils.db import initdb

            initdb()
            bag = DagBag(str(REPOSITORY / "dags"))
            self._dag = bag.get_dag(dag)
        if self._dag is None:
            raise RunFailed(f"the DAG does not load: {bag.import_errors}")

    def play(self, **conf: str) -> Played:
        """One DAG run, whose last task is `join`."""
        with quiet(self._log):
            run = self._dag.test(run_conf=conf)
            join = run.get_task_instance("join")
            audit = join.xcom_pull(task_ids="join", key="deltajoin_audit")
        if run.state != "success":
            raise RunFailed(f"the DAG run ended {run.state}; see {self._log}")
        return Played(audit, float(join.duration))


class Dbt:
    """A copy of the example project, so that nothing is written among the sources."""

    def __init__(self, project: Path, raw: Path, log: Path) -> None:
        self._log = log
        self._project = project
        shutil.copytree(
            REPOSITORY / "examples" / "flights_dbt",
            project,
            ignore=shutil.ignore_patterns("target", "dbt_packages", "logs", "package-lock.yml"),
        )
        os.environ.update({"DELTAJOIN_DBT_PACKAGE": str(REPOSITORY), "FLIGHTS_RAW": str(raw)})
        with quiet(log):
            from dbt.cli.main import dbtRunner

            self._runner = dbtRunner()
        self._invoke("deps")

    def play(self, model: str) -> Played:
        """Build a model, after the snapshots that it reads; data tests are left out."""
        self._invoke("build", "--select", f"+{model}", "--exclude-resource-type", "test")
        results = json.loads((self._project / "target" / "run_results.json").read_text())
        (result,) = (r for r in results["results"] if r["unique_id"].endswith(f".{model}"))
        audit: dict[str, Any] = result["adapter_response"]["deltajoin"]
        self.relation: str = result["relation_name"]
        self.sql: str = result["compiled_code"]
        return Played(audit, float(result["execution_time"]))

    def _invoke(self, *arguments: str) -> None:
        place = ("--project-dir", str(self._project), "--profiles-dir", str(self._project))
        logs = ("--log-path", str(self._project / "logs"))
        with quiet(self._log):
            outcome = self._runner.invoke([*arguments, *place, *logs])
        if not outcome.success:
            raise RunFailed(f"dbt {arguments[0]} failed; see {self._log}: {outcome.exception}")
