"""Run the shop's model in a process group of its own that dies by SIGKILL at a named step.

    python child.py <repository> <shop folder> <step>

No handler, no cleanup and no JVM shutdown hook runs: the whole group is gone at once.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any


def main(repository: str, folder: str, last: str) -> None:
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
        return local_session("crash", "local[2]", small)

    if os.getpgid(0) != os.getpid():
        raise SystemExit("not the leader of a process group: a kill would reach others")
    deltajoin.run(Shop(Path(folder)).model(), session, on_step=die)


if __name__ == "__main__":
    main(*sys.argv[1:])
