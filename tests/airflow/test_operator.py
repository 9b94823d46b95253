"""The operator in real DAG runs: what it attaches, how it fails, what a retry does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from deltalake import DeltaTable

from examples.flights.connect_server import connect_server
from tests.airflow.conftest import DAGS, DRIVE, TABLES, Play, environment, play_in
from tests.spark.cluster import standalone_cluster

NEW_ORDER = {"append": ["orders", [{"id": 60, "customer": 1, "amount": 60}]]}


def epochs(table: Path) -> list[int]:
    """The epochs that a target's commits carry, newest first."""
    found = (json.loads(c.get("userMetadata") or "{}") for c in DeltaTable(str(table)).history())
    return [record["deltajoin"]["epoch"] for record in found if "deltajoin" in record]


def rows(table: Path) -> int:
    """How many rows a target has."""
    return int(DeltaTable(str(table)).count())


def groups(log: str) -> list[str]:
    """The titles of the log's lookup-path groups."""
    marks = (line.partition("::group::lookup path ")[2] for line in log.splitlines())
    return [mark.split("  ")[0].strip() for mark in marks if mark]


def lineage_of(file: Path, target: str) -> list[dict[str, Any]]:
    """The OpenLineage events of completed tasks that name a target."""
    events = [json.loads(line) for line in file.read_text().splitlines()]

    def outputs(event: dict[str, Any]) -> list[str]:
        return [Path(dataset["name"]).name for dataset in event.get("outputs", ())]

    return [event for event in events if outputs(event) == [target]]


@dataclass
class Played:
    """One Airflow process, in which most of the DAGs ran over the same tables, and its outcomes."""

    home: Path
    env: dict[str, str]
    outcomes: dict[str, Any]


@pytest.fixture(scope="module")
def played(airflow_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """By DAG; where one ran twice, by DAG and number. The first of them needs no Spark."""
    home = tmp_path_factory.mktemp("tables")
    env = environment(airflow_home, home)
    steps = {
        **{f"table {number}": step for number, step in enumerate(TABLES)},
        "missing_source": {"dag": "missing_source"},
        "half_a_diamond": {"dag": "half_a_diamond"},
        "diamond 1": {"dag": "diamond"},
        "diamond 2": {"dag": "diamond"},
        "in_process 1": {"dag": "in_process"},
        "order": NEW_ORDER,
        "in_process 2": {"dag": "in_process"},
        "retried": {"dag": "retried"},
    }
    outcomes = play_in(env, list(steps.values()))
    return Played(home, env, dict(zip(steps, outcomes, strict=True)))


def test_run_attaches_the_audit(played: Played) -> None:
    first, second = (played.outcomes[f"in_process {n}"] for n in (1, 2))

    assert first["state"] == "success", first["log"][-4000:]
    assert first["audit"]["strategy"] == "full"
    assert second["state"] == "success"
    audit = second["audit"]
    assert (audit["model"], audit["strategy"], audit["epoch"]) == ("in_process", "incremental", 2)
    assert audit["rows"] == {"inserted": 1, "updated": 0, "deleted": 0}
    assert groups(second["log"]) == [path["text"] for path in audit["paths"]] != []
    assert second["log"].count("::endgroup::") >= len(audit["paths"])
    assert "deltajoin in_process: kept, epoch 2: +1 ~0 -0 rows" in second["log"]

    (event,) = second["events"]
    versions = {source: at["version"] for source, at in audit["frontier"].items()}
    told = event["deltajoin"]["frontier"]
    assert {source: at["version"] for source, at in told.items()} == versions
    assert not any("columns" in at for at in told.values())
    assert list(audit)[:3] == ["model", "target", "strategy"]
    assert "write of 1 rows into" in second["log"]
    assert event["deltajoin"]["paths"] == [path["text"] for path in audit["paths"]]
    assert [json.loads(value)["epoch"] for value in second["stored"]] == [2]

    rendered = second["rendered"]
    assert "epoch 2" in rendered["audit_summary"]
    assert "MERGE" in rendered["generated_sql"].upper()
    assert "deltajoin.runtime" in rendered["generated_job"] or "Path:" in rendered["generated_job"]
    assert set(rendered) == {"frontier", "audit_summary", "generated_sql", "generated_job"}
    target = played.home / "in_process"
    assert (epochs(target), rows(target)) == ([2, 1], 9)

    lineage = lineage_of(played.home / "lineage.jsonl", "in_process")[-1]
    assert [Path(d["name"]).name for d in lineage["inputs"]] == ["customers", "orders"]
    assert lineage["run"]["facets"]["deltajoin"]["audit"] == rendered["audit_summary"]


def test_refusal_fails_once_with_code_and_remedy(played: Played) -> None:
    outcome = played.outcomes["missing_source"]
    assert (outcome["state"], outcome["tries"], outcome["audit"]) == ("failed", 1, None)
    assert "deltajoin SOURCE_MISSING" in outcome["log"]
    assert "remedy: " in outcome["log"]
    assert not outcome["spark"]
    assert not (played.home / "missing_source").exists()


def test_retry_after_the_commit_commits_nothing_more(played: Played) -> None:
    outcome, target = played.outcomes["retried"], played.home / "retried"
    assert (outcome["state"], outcome["tries"]) == ("success", 2)
    assert (outcome["audit"]["strategy"], outcome["audit"]["epoch"]) == ("noop", 1)
    assert (epochs(target), rows(target)) == ([1], 9)
    assert (target / "_deltajoin" / "audit" / "00000001.json").exists()


def test_all_joins_of_a_run_read_one_frontier(played: Played) -> None:
    """An order that lands between two joins of a run is seen by none of them, and by the next."""
    half, first, second = (
        played.outcomes[name] for name in ("half_a_diamond", "diamond 1", "diamond 2")
    )
    assert (half["state"], half["audit"]) == ("failed", None)
    assert "deltajoin NOT_IN_FRONTIER" in half["log"]

    assert [o["state"] for o in (first, second)] == ["success"] * 2, first["log"][-4000:]
    assert first["audit"]["reason"] == "FIRST_RUN"
    assert first["audit"]["rows"]["inserted"] == 6
    assert second["audit"]["strategy"] == "incremental"
    assert second["audit"]["rows"] == {"inserted": 1, "updated": 0, "deleted": 0}
    assert "left_side" in json.dumps(second["rendered"]["frontier"])
    sides = [played.home / "diamond" / name for name in ("left_side", "right_side", "join")]
    assert [rows(side) for side in sides] == [7, 7, 7]
    assert rows(played.home / "orders") == 9  # one landed in each run, one by itself


@pytest.mark.thorough
def test_run_after_a_kill_ends_in_one_commit(played: Played) -> None:
    """And before it, in a new process, a run that finds nothing to do and loads no Spark."""
    target = played.home / "killed"
    kill_when(target / "_deltajoin" / "plans" / "00000001.json", played.env)

    again, outcome = play_in(played.env, [{"dag": "in_process"}, {"dag": "killed"}])
    assert (again["state"], again["audit"]["strategy"]) == ("success", "noop")
    assert "deltajoin in_process: nothing to do, epoch 2" in again["log"]
    assert not again["spark"], "a run without changes has loaded Spark"
    assert epochs(played.home / "in_process") == [2, 1]

    assert outcome["state"] == "success"
    assert (epochs(target), rows(target)) == ([1], 9)
    assert (target / "_deltajoin" / "audit" / "00000001.json").exists()


def kill_when(file: Path, env: dict[str, str]) -> None:
    """Start the DAG `killed`; once the file is there, kill its whole process group."""
    process = subprocess.Popen(
        [sys.executable, str(DRIVE), str(DAGS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=env,
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps([{"dag": "killed"}]).encode())
    process.stdin.close()
    deadline = time.monotonic() + 300
    while not file.exists():
        assert process.poll() is None, "the run ended before it was killed"
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.thorough
def test_runs_on_a_connect_server(play: Play, airflow_env: dict[str, str], tmp_path: Path) -> None:
    """Which the connection names; the task starts no Spark of its own."""
    with connect_server(tmp_path / "server") as url:
        server = urlsplit(url)
        connection = {"conn_type": "spark_connect", "host": server.hostname, "port": server.port}
        airflow_env["AIRFLOW_CONN_SPARK_CONNECT_DEFAULT"] = json.dumps(connection)
        *_, first, _, second = play(*TABLES, {"dag": "connected"}, NEW_ORDER, {"dag": "connected"})
    assert [one["state"] for one in (first, second)] == ["success", "success"], second["log"]
    assert [one["audit"]["strategy"] for one in (first, second)] == ["full", "incremental"]
    assert (epochs(tmp_path / "connected"), rows(tmp_path / "connected")) == ([2, 1], 7)


def test_submitted_jobs_and_their_failures(play: Play, tmp_path: Path) -> None:
    jobs = [{"dag": name} for name in ("answer_lost", "submitted", "wrong_key", "no_connection")]
    first, second, wrong, lost = play(*TABLES, *jobs)[2:]

    assert [o["state"] for o in (first, second)] == ["success"] * 2, first["log"][-4000:]
    assert [o["audit"]["strategy"] for o in (first, second)] == ["full", "noop"]
    assert "spark-submit" in first["log"]
    assert "spark-submit" not in second["log"]
    assert not second["spark"]
    assert (epochs(tmp_path / "submitted"), rows(tmp_path / "submitted")) == ([1], 6)

    assert (wrong["state"], wrong["tries"]) == ("failed", 1)
    assert "deltajoin KEY_VIOLATED" in wrong["log"]
    assert lost["state"] == "failed"
    assert "nowhere" in lost["log"]
    assert not (tmp_path / "no_connection" / "_delta_log").exists()


@pytest.mark.thorough
def test_jobs_on_a_cluster(play: Play, airflow_env: dict[str, str], tmp_path: Path) -> None:
    """Of two workers, which the connection names; they run the first driver, and the last, whose
    log nobody reads here."""
    dags = ("answer_lost", "submitted", "fails_on_a_worker")
    steps = [{"dag": "driven_by_a_worker"}, NEW_ORDER, *({"dag": name} for name in dags)]
    with standalone_cluster(tmp_path / "cluster") as url:
        host, _, port = url.rpartition(":")
        connection = json.loads(airflow_env["AIRFLOW_CONN_SPARK_DEFAULT"])
        connection |= {"host": host, "port": int(port)}
        airflow_env["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps(connection)
        outcomes: list[dict[str, Any]] = play(*TABLES, *steps)
    jobs = list(tmp_path.glob("cluster/work*/app-*"))
    assert len({job.name for job in jobs}) == 3
    assert len(list(tmp_path.glob("cluster/work*/driver-*"))) == 2
    first, _, second, third, last = outcomes[2:]

    assert [o["state"] for o in (first, second, third)] == ["success"] * 3, first["log"][-4000:]
    strategies = [o["audit"]["strategy"] for o in (first, second, third)]
    assert strategies == ["full", "incremental", "noop"]
    assert second["audit"]["rows"]["inserted"] == 1
    assert groups(second["log"]) == [path["text"] for path in second["audit"]["paths"]] != []
    assert second["events"][0]["deltajoin"]["epoch"] == 2
    assert "spark-submit" in second["log"]
    assert "spark-submit" not in third["log"]
    assert (epochs(tmp_path / "submitted"), rows(tmp_path / "submitted")) == ([2, 1], 7)

    assert (last["state"], last["tries"]) == ("failed", 1), last["log"][-4000:]
    assert "deltajoin KEY_VIOLATED" in last["log"]
    assert not (tmp_path / "fails_on_a_worker").exists()
