"""Emitted jobs on a standalone cluster of two workers, whose Python has nothing of the package.

For `--deploy-mode cluster`, Spark refuses a Python file on such a cluster, but runs the class with
which it runs one.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import deltajoin
from deltajoin.adapters.airflow.submit import PYTHON_RUNNER, left_behind
from deltajoin.api import finish, freeze
from deltajoin.contract import SUBMISSION
from deltajoin.emit.job import write_job
from deltajoin.runtime.session import java_options, submit_conf, submit_environment
from tests.spark.cluster import CONF, WORKERS, standalone_cluster
from tests.spark.shop import assert_right, assert_whole, never, open_shop


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a master with two workers."""
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as url:
        yield url


def submit(url: str, plan: Any, folder: Path, mode: str) -> subprocess.CompletedProcess[str]:
    """Run a plan's job by spark-submit; its Python knows pyspark and nothing of ours."""
    files = write_job(plan, folder)
    environment = submit_environment()
    environment.pop("PYTHONPATH", None)
    conf = {
        **submit_conf(),
        **CONF,
        "spark.driver.memory": "600m",
        "spark.driver.extraJavaOptions": java_options(),
        "spark.sql.shuffle.partitions": "2",
        "spark.standalone.submit.waitAppCompletion": "true",
        "spark.ui.enabled": "false",
        SUBMISSION: folder.name,
    }
    home = environment["SPARK_HOME"]
    command = [f"{home}/bin/spark-submit", "--master", url, "--deploy-mode", mode]
    command += [word for pair in conf.items() for word in ("--conf", "=".join(pair))]
    if mode == "cluster":
        (core,) = Path(home, "jars").glob("spark-core_*.jar")
        command += ["--class", PYTHON_RUNNER, str(core), str(files.job), str(files.py_files)]
    else:
        command += ["--py-files", str(files.py_files), str(files.job)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400)


def test_a_job_on_two_workers(cluster: str, tmp_path: Path, thorough: bool) -> None:
    """A first build, whose driver runs here, and with `--thorough` a change of both tables, by one
    on a worker; each is one commit and the query's rows. Then a key that is violated is told by
    both."""
    modes = ("client", "cluster") if thorough else ("client",)
    shop = open_shop(tmp_path)
    for epoch, mode in enumerate(modes, 1):
        if epoch > 1:
            shop.append("orders", (100, 1, 5))
            shop.update("customers", "customer_id = 2", name="'changed'")
        plan = freeze(deltajoin.plan(shop.model()))
        done = submit(cluster, plan, tmp_path / f"job{epoch}", mode)
        assert done.returncode == 0, done.stderr[-3000:]
        record = finish(plan)
        assert (record.epoch, record.plan_hash) == (epoch, plan.hash)
        assert deltajoin.run(shop.model(), never).strategy == "noop"
        assert_right(shop, epoch)
        assert left_behind(plan, f"job{epoch}") is None
    wrong = {"customers": ["name"], "orders": ["order_id"]}
    shop.append("customers", (200, "twice"), (201, "twice"))
    for number, mode in enumerate(modes if thorough else (), 1):
        plan = freeze(deltajoin.plan(shop.model(keys=wrong)))
        failed = submit(cluster, plan, tmp_path / f"failed{number}", mode)
        assert ("KEY_VIOLATED" in failed.stdout) == (mode == "client"), failed.stderr[-3000:]
        assert left_behind(plan, "job1") is None
        left = left_behind(plan, f"failed{number}")
        assert left is not None, failed.stderr[-3000:]
        assert left.code == "KEY_VIOLATED"
        assert_whole(shop.path("target"), len(modes))
    executors = list(tmp_path.parent.glob("cluster*/work*/app-*/*"))
    assert len({path.parent.parent.name for path in executors}) == WORKERS
    drivers = list(tmp_path.parent.glob("cluster[0-9]*/work*/driver-*"))
    assert len(drivers) == 2 * modes.count("cluster")
