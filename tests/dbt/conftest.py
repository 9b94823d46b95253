"""A dbt project in a temporary folder, and a way to play steps in it in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

import deltajoin
from deltajoin.runtime.session import java_home, java_options, submit_conf
from tests.secrets import PLANTED, found_in

REPOSITORY = Path(__file__).parents[2]
DRIVE = Path(__file__).with_name("drive.py")

Outcome = dict[str, Any]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if {"story", "project"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.dbt)
            item.add_marker(pytest.mark.spark)


def small_conf() -> dict[str, str]:
    """What a dbt profile needs to run Delta on this machine, and to stay small."""
    return {
        **submit_conf(),
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.driver.extraJavaOptions": java_options(),
        "spark.driver.memory": "1g",
        "spark.buffer.pageSize": "2m",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
        "deltajoin.storage.client_secret": PLANTED["parameter of a profile"],
    }


def environment(**more: str) -> dict[str, str]:
    """The environment of a dbt process: our packages found, one Java, no user's dbt settings."""
    home = java_home()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DBT_")}
    return {
        **kept,
        "JAVA_HOME": str(home),
        "PYTHONPATH": str(Path(deltajoin.__file__).parents[1]),
        "DELTAJOIN_DBT_PACKAGE": str(REPOSITORY),
        **more,
    }


def play_in(project: Path, steps: list[dict[str, Any]]) -> list[Outcome]:
    """Play the steps in one new process."""
    process = subprocess.run(
        [sys.executable, str(DRIVE), str(project)],
        input=json.dumps(steps),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert process.returncode == 0, process.stderr[-8000:]
    left = [process.stdout.encode(), process.stderr.encode()]
    left += [f.read_bytes() for part in ("logs", "target") for f in (project / part).glob("*.*")]
    assert [place for text in left for place in found_in(text)] == []
    outcomes: list[Outcome] = json.loads((project / "outcomes.json").read_text())
    return outcomes


def make_project(
    folder: Path,
    files: dict[str, str],
    models: dict[str, Any] | None = None,
    conf: dict[str, str] | None = None,
    project: dict[str, Any] | None = None,
    remote: str | None = None,
) -> Path:
    """Write a dbt project named `shop` with its profile and the deltajoin package.

    `models` are configs for all of its models, `conf` settings of its Spark session, `project` more
    of its dbt_project.yml, `remote` the URL of a Spark Connect server to run on.
    """
    profile = {
        "type": "spark",
        "method": "session",
        "host": "NA",
        "schema": "dw",
        "threads": 2,
        "server_side_parameters": {
            **({"spark.remote": remote} if remote else small_conf()),
            **(conf or {}),
        },
    }
    written = {
        "dbt_project.yml": yaml.safe_dump(
            {
                "name": "shop",
                "version": "1.0.0",
                "profile": "shop",
                "flags": {"send_anonymous_usage_stats": False},
                "models": models or {},
                **(project or {}),
            }
        ),
        "profiles.yml": yaml.safe_dump({"shop": {"target": "test", "outputs": {"test": profile}}}),
        "packages.yml": "packages: [{local: \"{{ env_var('DELTAJOIN_DBT_PACKAGE') }}\"}]\n",
        **files,
    }
    for name, text in written.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text), encoding="utf-8")
    return folder
