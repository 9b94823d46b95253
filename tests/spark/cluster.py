"""A standalone Spark cluster of two workers of one core each, from the pip package.

The master and the workers are processes of their own.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from deltajoin.runtime.session import submit_environment
from examples.flights.connect_server import free_port

WORKERS = 2
#: What an executor on a worker needs to be small, and to find the driver.
CONF = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.host": "127.0.0.1",
}


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


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """The URL of its master; its logs and the folders of its workers lie in a folder."""
    folder.mkdir(exist_ok=True)
    port = free_port()
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
