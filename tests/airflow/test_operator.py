"""The operator in real DAG runs: what it attaches, how it fails, what a retry does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from deltalake import DeltaTable

from tests.airflow.conftest import DAGS, DRIVE, TABLES, Play
from tests.spark.connect_server import connect_server

NEW_ORDER = {"append": ["orders", [{"id": 6, "customer": 1, "amount": 60}]]}


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


def lineage_of(file: Path) -> list[dict[str, Any]]:
    """The OpenLineage events of completed tasks that name a target."""
    events = [json.loads(line) for line in file.read_text().splitlines()]
    return [event for event in events if event.get("outputs")]


def test_run_attaches_the_audit(play: Play, tmp_path: Path) -> None:
    *_, first, _, second = play(*TABLES, {"dag": "in_process"}, NEW_ORDER, {"dag": "in_process"})

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
    assert (epochs(tmp_path / "in_process"), rows(tmp_path / "in_process")) == ([2, 1], 7)

    lineage = lineage_of(tmp_path / "lineage.jsonl")[-1]
    assert [Path(d["name"]).name for d in lineage["inputs"]] == ["customers", "orders"]
    assert [Path(d["name"]).name for d in lineage["outputs"]] == ["in_process"]
    assert lineage["run"]["facets"]["deltajoin"]["audit"] == rendered["audit_summary"]

    (again,) = play({"dag": "in_process"})
    assert (again["state"], again["audit"]["strategy"]) == ("success", "noop")
    assert "deltajoin in_process: nothing to do, epoch 2" in again["log"]
    assert not again["spark"], "a run without changes has loaded Spark"
    assert epochs(tmp_path / "in_process") == [2, 1]


def test_refusal_fails_once_with_code_and_remedy(play: Play, tmp_path: Path) -> None:
    *_, outcome = play(*TABLES, {"dag": "missing_source"})

    assert (outcome["state"], outcome["tries"], outcome["audit"]) == ("failed", 1, None)
    assert "deltajoin SOURCE_MISSING" in outcome["log"]
    assert "remedy: " in outcome["log"]
    assert not outcome["spark"]
    assert not (tmp_path / "missing_source").exists()


def test_retry_after_the_commit_commits_nothing_more(play: Play, tmp_path: Path) -> None:
    *_, outcome = play(*TABLES, {"dag": "retried"})

    assert (outcome["state"], outcome["tries"]) == ("success", 2)
    assert (outcome["audit"]["strategy"], outcome["audit"]["epoch"]) == ("noop", 1)
    assert (epochs(tmp_path / "retried"), rows(tmp_path / "retried")) == ([1], 6)
    assert (tmp_path / "retried" / "_deltajoin" / "audit" / "00000001.json").exists()


def test_run_after_a_kill_ends_in_one_commit(
    play: Play, airflow_env: dict[str, str], tmp_path: Path
) -> None:
    play(*TABLES)
    kill_when(tmp_path / "killed" / "_deltajoin" / "plans" / "00000001.json", airflow_env)

    (outcome,) = play({"dag": "killed"})
    assert outcome["state"] == "success"
    assert (epochs(tmp_path / "killed"), rows(tmp_path / "killed")) == ([1], 6)
    assert (tmp_path / "killed" / "_deltajoin" / "audit" / "00000001.json").exists()


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


def test_submitted_job_and_its_failures(play: Play, tmp_path: Path) -> None:
    outcomes: list[dict[str, Any]] = play(
        *TABLES,
        {"dag": "submitted"},
        NEW_ORDER,
        {"dag": "answer_lost"},
        {"dag": "submitted"},
        {"dag": "wrong_key"},
        {"dag": "no_connection"},
    )
    first, _, second, third, wrong, lost = outcomes[2:]

    assert [o["state"] for o in (first, second, third)] == ["success"] * 3, first["log"][-4000:]
    strategies = [o["audit"]["strategy"] for o in (first, second, third)]
    assert strategies == ["full", "incremental", "noop"]
    assert second["audit"]["rows"]["inserted"] == 1
    assert groups(second["log"]) == [path["text"] for path in second["audit"]["paths"]] != []
    assert second["events"][0]["deltajoin"]["epoch"] == 2
    assert "spark-submit" in second["log"]
    assert "spark-submit" not in third["log"]
    assert (epochs(tmp_path / "submitted"), rows(tmp_path / "submitted")) == ([2, 1], 7)

    assert (wrong["state"], wrong["tries"]) == ("failed", 1)
    assert "deltajoin KEY_VIOLATED" in wrong["log"]
    assert lost["state"] == "failed"
    assert "nowhere" in lost["log"]
    assert not (tmp_path / "no_connection" / "_delta_log").exists()


def test_all_joins_of_a_run_read_one_frontier(play: Play, tmp_path: Path) -> None:
    """An order that lands between two joins of a run is seen by none of them, and by the next."""
    *_, half, first, second = play(
        *TABLES, {"dag": "half_a_diamond"}, {"dag": "diamond"}, {"dag": "diamond"}
    )
    assert (half["state"], half["audit"]) == ("failed", None)
    assert "deltajoin NOT_IN_FRONTIER" in half["log"]

    assert [o["state"] for o in (first, second)] == ["success"] * 2, first["log"][-4000:]
    assert first["audit"]["reason"] == "FIRST_RUN"
    assert first["audit"]["rows"]["inserted"] == 6
    assert second["audit"]["strategy"] == "incremental"
    assert second["audit"]["rows"] == {"inserted": 1, "updated": 0, "deleted": 0}
    assert "left_side" in json.dumps(second["rendered"]["frontier"])
    sides = [tmp_path / "diamond" / name for name in ("left_side", "right_side", "join")]
    assert [rows(side) for side in sides] == [7, 7, 7]
    assert rows(tmp_path / "orders") == 8
