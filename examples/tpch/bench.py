"""Time incremental runs on TPC-H against full rebuilds of the same rows, all in one run.

For each model the targets are built once over the tables as generated. Each round starts from that
state, applies one batch of changes, and runs the sides over it (`sides.py` tells what each does):
the full rebuild first, the others in turn forwards and backwards. Rows are compared each time. A
first round warms up and is not counted. With `--cold`, our run and the full rebuild are also timed
as whole processes, with the start of Spark.

    python -m examples.tpch.bench --sf 1 --models wide --changes orders:0.0001:clustered
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from examples.tpch.changes import Batch, parse_batch
from examples.tpch.data import default_folder, make_tables, session
from examples.tpch.models import MODELS, batches_of
from examples.tpch.plots import draw
from examples.tpch.report import COLD, Case, auto_told, machine, markdown
from examples.tpch.sides import COMPARED, EXACT, SIDES, Workplace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMED_COLD = ("incremental", "full")


def bench_model(
    place: Workplace, name: str, tables: Path, options: argparse.Namespace
) -> Iterator[Case]:
    """Build the targets, then time each batch."""
    for side, seconds in place.build(tables).items():
        print(f"  {name}: first build, {side}: {seconds:.1f} s", flush=True)
    batches = [parse_batch(text) for text in options.changes or batches_of(name)]
    warm_up = Case(name, f"{batches[0]}, warm-up")
    one_round(place, warm_up, batches[0], 0, options.sides)
    print(f"  {warm_up.line()}", flush=True)
    for number, batch in enumerate(batches):
        case = Case(name, str(batch))
        for repeat in range(options.repeat):
            sides = options.sides[:: -1 if repeat % 2 else 1]
            one_round(place, case, batch, 1 + 100 * number + repeat, sides)
        if options.cold:
            for side in TIMED_COLD:
                case.rounds[side + COLD] = [{"seconds": cold(place, name, side, options.sf)}]
        print(f"  {case.line()}", flush=True)
        yield case


def one_round(place: Workplace, case: Case, batch: Batch, seed: int, sides: Sequence[str]) -> None:
    """Run each side once over the same changes, and compare its rows with the full rebuild's.

    The full rebuild goes first, to compare with; the floor `merge` follows the run it takes apart.
    """
    place.change(batch, seed)
    ordered = ["full", *(side for side in sides if side not in ("full", "merge"))]
    if "merge" in sides and "incremental" in ordered:
        ordered.insert(ordered.index("incremental") + 1, "merge")
    true: object = None
    for side in ordered:
        if not place.can(side):
            continue
        run = place.run(side)
        case.rounds.setdefault(side, []).append(asdict(run))
        if side in COMPARED:
            rows = place.fingerprint(side)
            true = rows if side == "full" else true
            wrong = place.wrong_rows(side) if rows != true else 0
            case.wrong[side] = max(case.wrong.get(side, 0), wrong)


def cold(place: Workplace, model: str, side: str, scale: float) -> float:
    """Seconds of a process that starts Spark, runs a side and ends."""
    place.reset(side)
    words = ["--once", side, "--data", str(place.home), "--models", model, "--sf", f"{scale:g}"]
    started = time.monotonic()
    subprocess.run([sys.executable, "-m", "examples.tpch.bench", *words], check=True)
    return round(time.monotonic() - started, 3)


def bench(spark: SparkSession, options: argparse.Namespace) -> list[Case]:
    """All cases of all models, made in a folder of this process; the JSON grows case by case."""
    home = options.data or default_folder(options.sf)
    place = options.json or home / "bench.json"
    found = {"scale": options.sf, "machine": machine()}
    tables = make_tables(spark, home, options.sf)
    cases: list[Case] = []
    for name in options.models:
        scratch = home / (f"built-{name}" if options.reuse else f"run-{os.getpid()}")
        try:
            for case in bench_model(Workplace(spark, scratch, MODELS[name]), name, tables, options):
                cases.append(case)
                told = {**found, "cases": [case.to_dict() for case in cases]}
                place.write_text(json.dumps(told, indent=2))
        finally:
            if not options.reuse:
                shutil.rmtree(scratch, ignore_errors=True)
    print("\n".join([markdown(cases), "", auto_told(cases), str(place)]), flush=True)
    print("\n".join(map(str, draw([place], place.with_suffix("")))))
    return cases


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, write the JSON; 1 if any rows are wrong that should not be."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    spark = session(options.sf)
    try:
        if options.once:
            Workplace(spark, options.data, MODELS[options.models[0]]).time(options.once)
            return 0
        cases = bench(spark, options)
    finally:
        spark.stop()
    return 1 if any(case.wrong.get(side) for case in cases for side in EXACT) else 0


def _parser() -> argparse.ArgumentParser:
    def words(text: str) -> list[str]:
        return text.split(",")

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sf", type=float, default=1.0, help="scale; 1 has 6 million lineitems")
    parser.add_argument("--data", type=Path, help="folder of the tables, kept for the next time")
    parser.add_argument("--models", type=words, default=["wide", "q5"], help=", ".join(MODELS))
    parser.add_argument("--changes", type=words, help="batches; default: those in models.py")
    parser.add_argument("--sides", type=words, default=list(SIDES), help=", ".join(SIDES))
    parser.add_argument("--repeat", type=int, default=3, help="counted rounds of each case")
    parser.add_argument("--cold", action="store_true", help="time whole processes, too")
    parser.add_argument("--reuse", action="store_true", help="keep first builds, use kept ones")
    parser.add_argument("--json", type=Path, help="where all figures go; default: beside the data")
    parser.add_argument("--once", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
