"""Spark's process dies in the midst of a run, for lack of memory or by itself: nothing is
committed, the run ends with a code, and the next one goes on."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.crash.kinds import KINDS, start
from tests.spark.shop import KEYS, SQL, open_shop, written

pytestmark = pytest.mark.crash

#: The amount of a row whose text, of so many letters, is larger than the heap.
TOO_LARGE = 1_000_000_000


@pytest.mark.thorough
def test_a_driver_without_memory(spark: Any, tmp_path: Path) -> None:
    kind, shop = KINDS["large"], open_shop(tmp_path)
    kind.run(tmp_path, spark)
    kept = written(shop)
    shop.append("orders", (100, 1, TOO_LARGE))
    done = start(tmp_path, "large", 0)
    assert done.returncode == 0, done.stderr[-9000:]
    assert "java.lang.OutOfMemoryError" in done.stderr
    *steps, end = done.stdout.splitlines()
    assert steps[0] == "planned"
    # A process that is about to end may still answer, with an error of its own.
    assert end.startswith(("SPARK_LOST", "SPARK_FAILED")), end
    assert written(shop) == kept

    DeltaTable(shop.path("orders")).delete("order_id = 100")
    shop.append("orders", (101, 1, 7))
    kind.run(tmp_path, spark)
    kind.assert_right(tmp_path, 2, spark)


def test_the_command_line_without_its_spark(tmp_path: Path, thorough: bool) -> None:
    """Its JVM is killed as soon as the target's folder is there, or up to three seconds later."""
    shop, source = open_shop(tmp_path), random.Random(1)
    moments = [0.0, *(source.uniform(0, 3) for _ in range(20 * thorough))]
    (tmp_path / "shop.sql").write_text(SQL)
    command = [sys.executable, "-m", "deltajoin.adapters.cli", "run", "--json"]
    command += ["--sql", str(tmp_path / "shop.sql")]
    for name, columns in KEYS.items():
        command += ["--source", f"{name}={shop.path(name)}", "--key", f"{name}={','.join(columns)}"]
    killed = [
        run_without_spark([*command, "--target", shop.path(f"target {number}")], moment)
        for number, moment in enumerate(moments)
    ]
    print(f"killed {sum(killed)} of {len(killed)}")
    assert killed[0]


def run_without_spark(command: list[str], moment: float) -> bool:
    """Whether the run met the end of its JVM, so many seconds after its target's folder came."""
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 200
    while not Path(command[-1]).exists():
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(moment)
    children = subprocess.run(["pgrep", "-P", str(run.pid)], capture_output=True, text=True)
    for child in children.stdout.split():
        os.kill(int(child), signal.SIGKILL)
    told, complained = run.communicate(timeout=200)
    ended = json.loads(told or "{}")
    assert "Traceback" not in complained, complained
    if run.returncode:
        assert (run.returncode, ended["error"]["code"]) == (1, "SPARK_LOST"), complained
    return run.returncode == 1
