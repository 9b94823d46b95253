"""A Spark Connect server of its own process, from the pip package."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deltajoin.runtime.session import java_options, submit_conf, submit_environment


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """The URL of a Spark Connect server with Delta; its warehouse and log lie in a folder."""
    folder.mkdir(exist_ok=True)
    port = free_port()
    environment = submit_environment()
    conf = {
        **submit_conf(),
        "spark.connect.grpc.binding.port": port,
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": java_options(),
        "spark.buffer.pageSize": "2m",
        "spark.ui.enabled": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
    }
    command = [f"{environment['SPARK_HOME']}/bin/spark-submit", "--master", "local[2]"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += [word for pair in conf.items() for word in ("--conf", "=".join(map(str, pair)))]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, "spark-internal"],
            env=environment,
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait(process, port, folder / "log")
        yield f"sc://127.0.0.1:{port}"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    for _ in range(600):
        if process.poll() is not None:
            break
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise RuntimeError("the server does not listen: " + log.read_text()[-4000:])
