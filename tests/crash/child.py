"""Run a kind of model (`kinds.py`) in a process group of its own that dies at its k-th step.

    python child.py <repository> <folder> <kind> <k> [after=S] [bytes=N] [remote=URL]

With k = 0 it lives. `after`: it dies so many seconds after that step. `bytes`: its JVM has room for
files of so many bytes only. `remote`: its Spark is a Connect server, which lives on. It prints each
step and the code of a refusal.

Death is SIGKILL to the group: no handler, no cleanup and no JVM shutdown hook runs.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from itertools import count
from pathlib import Path
from threading import Timer
from typing import Any


def main(repository: str, folder: str, kind: str, last: str, *options: str) -> None:
    sys.path[:0] = [repository, str(Path(repository, "plugin"))]
    import deltajoin
    from deltajoin.runtime.session import local_session, remote_session
    from tests.crash.kinds import KINDS

    given = dict(option.split("=", 1) for option in options)
    numbers = count(1)

    def passed(name: str, info: dict[str, Any]) -> None:
        print(name, flush=True)
        if next(numbers) == int(last):
            if "after" in given:
                Timer(float(given["after"]), die).start()
            else:
                die()

    def die() -> None:
        os.killpg(os.getpgid(0), signal.SIGKILL)

    def session() -> Any:
        if "remote" in given:
            return remote_session(given["remote"])
        small = {
            "spark.sql.shuffle.partitions": "2",
            "spark.databricks.delta.snapshotPartitions": "1",
            **KINDS[kind].conf(Path(folder)),
        }
        spark = local_session("crash", "local[2]", small)
        if "bytes" in given:  # not before: a session begins by copying jars
            java = spark._jvm.java.lang.ProcessHandle.current().pid()
            resource.prlimit(java, resource.RLIMIT_FSIZE, (int(given["bytes"]),) * 2)
        return spark

    if os.getpgid(0) != os.getpid():
        raise SystemExit("not the leader of a process group: a kill would reach others")
    try:
        KINDS[kind].run(Path(folder), session, passed)
    except deltajoin.DeltaJoinError as error:
        print(error.code, error.message, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
