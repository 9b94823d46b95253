"""Run the shop's model in a process group of its own that dies by SIGKILL at a named step.

    python child.py <repository> <shop folder> <step>
    python child.py <repository> <shop folder> never <bytes>

The second has room for files of so many bytes only, and prints the code that its run ends with.

No handler, no cleanup and no JVM shutdown hook runs: the whole group is gone at once.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any


def main(repository: str, folder: str, last: str, room: str = "") -> None:
    sys.path[:0] = [repository, str(Path(repository, "plugin"))]
    import deltajoin
    from deltajoin.runtime.session import local_session
    from tests.spark.shop import Shop

    def die(name: str, info: dict[str, Any]) -> None:
        print(name, flush=True)
        if name == last:
            os.killpg(os.getpgid(0), signal.SIGKILL)

    def session() -> Any:
        small = {
            "spark.sql.shuffle.partitions": "2",
            "spark.databricks.delta.snapshotPartitions": "1",
        }
        spark = local_session("crash", "local[2]", small)
        if room:  # not before: a session begins by copying jars
            java = spark._jvm.java.lang.ProcessHandle.current().pid()
            resource.prlimit(java, resource.RLIMIT_FSIZE, (int(room), int(room)))
        return spark

    if os.getpgid(0) != os.getpid():
        raise SystemExit("not the leader of a process group: a kill would reach others")
    try:
        deltajoin.run(Shop(Path(folder)).model(), session, on_step=die)
    except deltajoin.DeltaJoinError as error:
        print(error.code, error.message, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
