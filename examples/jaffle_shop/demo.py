"""Ten daily loads of the shop: every mart as a delta_join, and as dbt's plain table beside it.

    python examples/jaffle_shop/demo.py [--days 10] [--out DIR]

Each day lands what the day brings, runs the project, runs it again with the target `plain`, where
the marts are dbt's own tables, and compares each mart as a multiset of rows. At the end one more
run finds nothing to do. Rows that differ, or a failed run, make the exit code 1. The figures are
left in `days.json` in the folder.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feed import DAYS, Shop, land

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).resolve().parent
PARTS = ("dbt_project.yml", "packages.yml", "profiles.yml", "macros", "models")
MARTS = tuple(sorted(file.stem for file in (HERE / "models" / "marts").glob("*.sql")))

Day = dict[str, Any]


def play(folder: Path, days: int) -> list[Day]:
    """Play the days in a copy of the project; each with the outcome of every mart."""
    project, raw = folder / "project", folder / "raw"
    project.mkdir(parents=True)
    for part in PARTS:
        copy = shutil.copytree if (HERE / part).is_dir() else shutil.copy
        copy(HERE / part, project / part)
    os.environ["JAFFLE_RAW"] = str(raw)
    os.environ.setdefault("DELTAJOIN_DBT_PACKAGE", str(HERE.parents[1]))
    os.chdir(project)
    spark = session()
    try:
        dbt("deps")
        shop = Shop()
        played = []
        for _ in range(days):
            landed = land(raw, shop.play())
            played.append(one_day(spark, f"day {shop.day}", landed))
        played.append(one_day(spark, "nothing", {}))
    finally:
        spark.stop()
    return played


def one_day(spark: SparkSession, name: str, landed: dict[str, int]) -> Day:
    """Run the project as delta_join and as plain tables, and compare."""
    started = time.monotonic()
    results = dbt("run", "--target", "local", "--target-path", "target_local")
    middle = time.monotonic()
    plain = dbt("run", "--target", "plain", "--target-path", "target_plain")
    seconds = [round(middle - started, 1), round(time.monotonic() - middle, 1)]
    marts = {}
    for mart in MARTS:
        audit = results[mart]["adapter_response"]["deltajoin"]
        ours, theirs = spark.table(f"jaffle.{mart}"), spark.table(f"jaffle_plain.{mart}")
        rows, wanted = (Counter(map(tuple, table.collect())) for table in (ours, theirs))
        marts[mart] = {
            "strategy": audit["strategy"],
            "reason": audit["reason"],
            "written": audit["rows"],
            "sources": sorted(audit["frontier"]),
            "rows": wanted.total(),
            "differing": (rows - wanted).total() + (wanted - rows).total(),
            "seconds": round(results[mart]["execution_time"], 1),
            "plain_seconds": round(plain[mart]["execution_time"], 1),
        }
    day = {"day": name, "landed": landed, "seconds": seconds, "marts": marts}
    show(day)
    return day


def dbt(*arguments: str) -> dict[str, Any]:
    """Run dbt in this process; the results by node name. A failure ends the demo."""
    from dbt.cli.main import dbtRunner

    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        outcome = dbtRunner().invoke([*arguments, "--no-use-colors"])
    if not outcome.success:
        print(output.getvalue(), outcome.exception or "", file=sys.stderr)
        raise SystemExit(f"dbt {' '.join(arguments)} failed")
    if arguments[0] != "run":
        return {}
    results = json.loads(Path(arguments[-1], "run_results.json").read_text())["results"]
    return {result["unique_id"].split(".")[2]: result for result in results}


def session() -> SparkSession:
    """A small Spark session with Delta and a catalog on disk, which dbt finds and uses."""
    from pyspark.sql import SparkSession

    from deltajoin.runtime.session import java_home, java_options, submit_conf

    os.environ["JAVA_HOME"] = str(java_home())
    settings = {
        **submit_conf(),
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "1g",
        "spark.buffer.pageSize": "2m",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.driver.extraJavaOptions": java_options(),
    }
    builder = SparkSession.builder.enableHiveSupport()
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def show(day: Day) -> None:
    """Print one day as a table."""
    landed = ", ".join(f"{name[4:]} {n}" for name, n in day["landed"].items() if n)
    print(
        f"\n{day['day']}: landed {landed or 'nothing'}; dbt {day['seconds'][0]} s, plain dbt",
        end="",
    )
    print(f" {day['seconds'][1]} s")
    for mart, each in day["marts"].items():
        written = each["written"]
        changed = " ".join(
            f"{sign}{written.get(kind) or 0}"
            for sign, kind in (("+", "inserted"), ("~", "updated"), ("-", "deleted"))
        )
        same = "equal" if not each["differing"] else f"{each['differing']} ROWS DIFFER"
        print(
            f"  {mart:20} {each['strategy']:12} {each['reason']:12} {changed:16}"
            f" of {each['rows']:6} rows  {each['seconds']:5} s (table {each['plain_seconds']} s)"
            f"  {same}",
            flush=True,
        )


def main() -> int:
    """Play and judge."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--out", type=Path, help="An empty folder; default: a temporary one.")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = given.out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        played = play(folder.resolve(), given.days)
        (folder / "days.json").write_text(json.dumps(played, indent=1))
    later = [each for day in played[1:-1] for each in day["marts"].values()]
    kept = sum(each["strategy"] != "full" for each in later)
    wrong = sum(each["differing"] for day in played for each in day["marts"].values())
    print(
        f"\n{kept} of {len(later)} runs after the backfill kept incrementally; {wrong} rows differ"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
