"""Draw what the benchmark has measured: time against change, our phases, time against scale.

    python -m examples.tpch.plots .bench/tpch-sf1/bench.json .bench/tpch-sf10/bench.json --to plots

Each file is what one run of the benchmark wrote. A line is a side, solid where the changed rows lie
together and dashed where they are scattered; both axes are logarithmic; a point is a median.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from examples.tpch.changes import parse_batch
from examples.tpch.report import OURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Side -> how its line is called; others are told in the table alone.
LINES = {
    "full": "full rebuild, Spark",
    "duckdb": "full rebuild, DuckDB",
    "hand": "hand-written MERGE",
    "incremental": "deltajoin, incremental",
    "auto": "deltajoin, auto",
    "merge": "floor: the MERGE alone",
}
#: The step at which a phase ends -> what was done until then.
PHASES = {
    "planned": "planning",
    "target_created": "keys and the empty target",
    "plan_frozen": "the plan's file",
    "changes_materialised": "changes",
    "before_merge": "lookups",
    "after_merge": "MERGE",
    "verified": "verification",
    "audit_written": "audit",
}
STYLES = {"clustered": "-", "scattered": "--"}


def draw(files: Sequence[Path], folder: Path) -> list[Path]:
    """Write the plots of these runs to a folder, as SVG.

    Args:
        files: the JSON of runs at different scales; the first one's cases are drawn by change.
    """
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "deltajoin"  # the same figures give the same file
    folder.mkdir(parents=True, exist_ok=True)
    runs = [json.loads(file.read_text("utf-8")) for file in files]
    made = [_by_change(runs[0], folder), _phases(runs[0], folder)]
    return [*made, _by_scale(runs, folder)] if len(runs) > 1 else made


def medians(
    cases: Iterable[dict[str, Any]], at: float | None = None
) -> dict[tuple[str, str, str], list[tuple[float, float]]]:
    """(model, side, shape) -> its points: percent changed, or `at`; seconds.

    Example:
        >>> rounds = {"full": [{"seconds": 9.0}], "incremental": [{"seconds": 2.0}]}
        >>> case = {"model": "wide", "batch": "orders:0.1:clustered", "rounds": rounds}
        >>> medians([case])["wide", "full", "clustered"]
        [(10.0, 9.0)]
    """
    points: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for case in cases:
        batch = parse_batch(case["batch"])
        for side, rounds in case["rounds"].items():
            place = 100 * batch.share if at is None else at
            point = place, statistics.median(found["seconds"] for found in rounds)
            points.setdefault((case["model"], side, batch.shape), []).append(point)
    return points


def _by_change(run: dict[str, Any], folder: Path) -> Path:
    title = f"seconds by share of rows changed, scale {run['scale']:g}"
    points = medians(run["cases"])
    return _lines(points, title, "changed, %", folder / "time-by-change.svg")


def _by_scale(runs: Sequence[dict[str, Any]], folder: Path) -> Path:
    """The cases that all runs have, a model and batch beside each other."""
    shared = set.intersection(*({(c["model"], c["batch"]) for c in r["cases"]} for r in runs))
    merged: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for run in runs:
        for model, batch in shared:
            cases = [c for c in run["cases"] if (c["model"], c["batch"]) == (model, batch)]
            for (_, side, shape), points in medians(cases, run["scale"]).items():
                merged.setdefault((f"{model}, {batch}", side, shape), []).extend(points)
    return _lines(merged, "seconds by scale", "scale", folder / "time-by-scale.svg")


def _lines(
    points: dict[tuple[str, str, str], list[tuple[float, float]]], title: str, x: str, file: Path
) -> Path:
    from matplotlib.figure import Figure

    panels = list(dict.fromkeys(panel for panel, _, _ in points))
    figure = Figure(figsize=(5.2 * max(1, len(panels)), 4.2), layout="constrained")
    drawn = figure.subplots(1, max(1, len(panels)), squeeze=False)[0]
    for panel, axes in zip(panels, drawn, strict=False):
        for number, (side, label) in enumerate(LINES.items()):
            for shape, style in STYLES.items():
                found = sorted(points.get((panel, side, shape), []))
                if found:
                    drawing = {"color": f"C{number}", "marker": "o", "markersize": 3}
                    axes.plot(
                        *zip(*found, strict=True), style, label=f"{label}, {shape}", **drawing
                    )
        _name(axes, panel, x)
    figure.suptitle(title)
    return _saved(figure, file)


def _name(axes: Axes, title: str, x: str) -> None:
    axes.set(title=title, xlabel=x, ylabel="seconds", xscale="log", yscale="log")
    axes.grid(visible=True, which="both", alpha=0.2)
    axes.legend(fontsize=7)


def _phases(run: dict[str, Any], folder: Path) -> Path:
    """What each of our runs spent its time with, of its last round."""
    from matplotlib.figure import Figure

    cases = [case for case in run["cases"] if case["rounds"].get(OURS)]
    names = [f"{case['model']} {case['batch']}" for case in cases]
    phases = [case["rounds"][OURS][-1].get("phases", {}) for case in cases]
    figure = Figure(figsize=(8, 1.2 + 0.32 * len(cases)), layout="constrained")
    axes, left = figure.subplots(), [0.0] * len(cases)
    for phase in dict.fromkeys(name for found in phases for name in found):
        widths = [found.get(phase, 0.0) for found in phases]
        axes.barh(names, widths, left=left, label=PHASES.get(phase, phase))
        left = [a + b for a, b in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    axes.set(title=f"phases of our runs, scale {run['scale']:g}", xlabel="seconds")
    axes.legend(fontsize=7)
    return _saved(figure, folder / "phases.svg")


def _saved(figure: Any, file: Path) -> Path:
    figure.savefig(file, metadata={"Date": None})
    return file


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw, and print the names of the files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+", help="JSON of runs, one a scale")
    parser.add_argument("--to", type=Path, help="folder of the plots; default: the first file's")
    options = parser.parse_args(arguments)
    for file in draw(options.files, options.to or options.files[0].parent):
        print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
