"""The figures of the benchmark and how they are told: medians, spread, ratios, the machine."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

OURS, COLD = "incremental", ", cold"
NEAR = 1.1


@dataclass
class Case:
    """One model under one batch: its rounds by side, each as plain values with `seconds` in them.

    `wrong` counts the rows that a side has wrong, for those whose rows were compared.
    """

    model: str
    batch: str
    rounds: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    wrong: dict[str, int] = field(default_factory=dict)

    def seconds(self, side: str) -> list[float]:
        """Seconds of each round of a side."""
        return [found["seconds"] for found in self.rounds.get(side, [])]

    def ratio(self, side: str) -> float | None:
        """How many times as long as ours a side took, by medians; cold against cold.

        Example:
            >>> times = {"incremental": [{"seconds": 2.0}], "full": [{"seconds": 9.0}]}
            >>> Case("wide", "orders:0.1:clustered", times).ratio("full")
            4.5
        """
        ours = self.seconds(OURS + COLD if side.endswith(COLD) else OURS)
        theirs = self.seconds(side)
        return statistics.median(theirs) / statistics.median(ours) if ours and theirs else None

    def line(self) -> str:
        """The case in a line, with the phases of our last round."""
        told = ", ".join(f"{side} {spread(self.seconds(side))}" for side in self.rounds)
        phases = self.rounds.get(OURS, [{}])[-1].get("phases", {})
        parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in phases.items())
        return f"{self.model} {self.batch}: {told}; wrong rows {self.wrong}; {parts}"

    def to_dict(self) -> dict[str, Any]:
        """The case as plain values."""
        ratios = {side: self.ratio(side) for side in self.rounds}
        return {**vars(self), "ratio": ratios}


def spread(seconds: Sequence[float]) -> str:
    """The median, and the least and most where there are several.

    Example:
        >>> spread([2.0]), spread([3.0, 1.0, 2.5])
        ('2.0 s', '2.5 s (1.0-3.0)')
    """
    text = f"{statistics.median(seconds):.1f} s"
    return text if len(seconds) == 1 else f"{text} ({min(seconds):.1f}-{max(seconds):.1f})"


def markdown(cases: Sequence[Case]) -> str:
    """A line per case, a column per side: the median with its spread, the ratio to ours in bold.

    Wrong rows stand beside their side.
    """
    sides = list(dict.fromkeys(side for case in cases for side in case.rounds))
    lines = [["model", "batch", *sides], ["---"] * (2 + len(sides))]
    lines += [[case.model, case.batch, *(_cell(case, side) for side in sides)] for case in cases]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def auto_told(cases: Sequence[Case]) -> str:
    """Of how many cases `auto` took at most 1.1 times as long as the better side; the worst one.

    Example:
        >>> seconds = {"full": 9.0, "incremental": 2.0, "auto": 3.0}
        >>> case = Case("wide", "orders:0.1:clustered")
        >>> case.rounds = {side: [{"seconds": found}] for side, found in seconds.items()}
        >>> auto_told([case])
        '`auto` within 1.1x of the better side: 0 of 1; at worst 1.50x, wide orders:0.1:clustered'
    """
    found = []
    for case in cases:
        times = [case.seconds(side) for side in ("auto", "full", OURS)]
        if all(times):
            auto, *others = map(statistics.median, times)
            found.append((auto / min(others), f"{case.model} {case.batch}"))
    if not found:
        return ""
    near, (worst, place) = sum(ratio <= NEAR for ratio, _ in found), max(found)
    head = f"`auto` within {NEAR}x of the better side: {near} of {len(found)}"
    return f"{head}; at worst {worst:.2f}x, {place}"


def _cell(case: Case, side: str) -> str:
    if side not in case.rounds:
        return ""
    ratio = case.ratio(side)
    parts = [spread(case.seconds(side))]
    is_ours = side.removesuffix(COLD) == OURS
    parts += [f"**{ratio:.1f}x**"] if ratio is not None and not is_ours else []
    parts += [f"{case.wrong[side]:,} rows wrong"] if case.wrong.get(side) else []
    return ", ".join(parts)


def machine() -> dict[str, Any]:
    """What the figures were measured on; the load tells how idle it was when they began."""
    described = Path("/proc/cpuinfo")
    lines = described.read_text().splitlines() if described.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory, 1),
        "load": os.getloadavg()[0],
        "versions": {name: version(name) for name in ("pyspark", "delta-spark", "duckdb")},
    }
