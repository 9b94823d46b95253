"""Emitted jobs on a standalone cluster of two workers, whose Python has nothing of the package.

The master and the workers are processes of their own. A standalone cluster runs Python drivers in
client mode only (Spark refuses `--deploy-mode cluster` for them).
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import deltajoin
from deltajoin.api import finish, freeze
from deltajoin.emit.job import write_job
from deltajoin.runtime.session import java_options, submit_conf, submit_environment
from tests.spark.shop import assert_right, never, open_shop

WORKERS = 2


@contextmanager
def daemon(log: Path, *arguments: str) -> Iterator[None]:
    """A process of Spark's deploy package; it is killed with its children in the end."""
    environment = {**submit_environment(), "SPARK_DAEMON_MEMORY": "256m"}
    environment["SPARK_DAEMON_JAVA_OPTS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    command = [f"{environment['SPARK_HOME']}/bin/spark-class", *arguments]
    with log.open("w") as out:
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=log.parent,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


def wait_for(log: Path, text: str, times: int = 1) -> None:
    for _ in range(600):
        if len(re.findall(text, log.read_text())) >= times:
            return
        time.sleep(0.2)
    raise AssertionError(f"no {text!r} in the log: {log.read_text()[-3000:]}")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a master with two workers of one core each."""
    folder = tmp_path_factory.mktemp("cluster")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url, deploy = f"spark://127.0.0.1:{port}", "org.apache.spark.deploy"
    with ExitStack() as running:
        master = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        running.enter_context(daemon(folder / "master", f"{deploy}.master.Master", *master))
        wait_for(folder / "master", "I have been elected leader")
        for number in range(WORKERS):
            work = ["--cores", "1", "--memory", "1g", "--webui-port", "0"]
            work += ["--host", "127.0.0.1", "--work-dir", str(folder / f"work{number}"), url]
            log = folder / f"worker{number}"
            running.enter_context(daemon(log, f"{deploy}.worker.Worker", *work))
        wait_for(folder / "master", "Registering worker", WORKERS)
        yield url


def submit(url: str, plan: Any, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a plan's job by spark-submit; its Python knows pyspark and nothing of ours."""
    files = write_job(plan, folder)
    environment = submit_environment()
    environment.pop("PYTHONPATH", None)
    conf = {
        **submit_conf(),
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": java_options(),
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    command = [f"{environment['SPARK_HOME']}/bin/spark-submit", "--master", url]
    command += [word for pair in conf.items() for word in ("--conf", "=".join(pair))]
    command += ["--py-files", str(files.py_files), str(files.job)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400)


def test_a_job_on_two_workers(cluster: str, tmp_path: Path) -> None:
    """A first build, then a change of both tables; each is one commit and the query's rows."""
    shop = open_shop(tmp_path)
    for epoch in (1, 2):
        if epoch > 1:
            shop.append("orders", (100, 1, 5))
            shop.update("customers", "customer_id = 2", name="'changed'")
        plan = freeze(deltajoin.plan(shop.model()))
        done = submit(cluster, plan, tmp_path / f"job{epoch}")
        assert done.returncode == 0, done.stderr[-3000:]
        record = finish(plan)
        assert (record.epoch, record.plan_hash) == (epoch, plan.hash)
        assert deltajoin.run(shop.model(), never).strategy == "noop"
        assert_right(shop, epoch)
    executors = list(tmp_path.parent.glob("cluster*/work*/app-*/*"))
    assert len({path.parent.parent.name for path in executors}) == WORKERS
