"""The figures of the benchmark and how they are told: medians, spread and ratios."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

OURS = "incremental"


@dataclass
class Case:
    """One model under one batch: seconds of each round by side, seconds of each phase by side."""

    model: str
    batch: str
    equal: bool = True
    seconds: dict[str, list[float]] = field(default_factory=dict)
    phases: dict[str, list[dict[str, float]]] = field(default_factory=dict)

    def add(self, side: str, seconds: float, phases: dict[str, float]) -> None:
        """Note one round of a side."""
        self.seconds.setdefault(side, []).append(round(seconds, 3))
        self.phases.setdefault(side, []).append({k: round(v, 3) for k, v in phases.items()})

    def ratio(self, side: str) -> float | None:
        """How many times as long as ours a side took, by medians."""
        if OURS not in self.seconds or side not in self.seconds:
            return None
        return statistics.median(self.seconds[side]) / statistics.median(self.seconds[OURS])

    def line(self, warm_up: bool = False) -> str:
        """The case in a line, with the phases of our last round."""
        told = ", ".join(f"{side} {spread(times)}" for side, times in self.seconds.items())
        phases = self.phases.get(OURS, [{}])[-1]
        parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in phases.items())
        rows = "rows equal" if self.equal else "ROWS DIFFER"
        return (
            f"{self.model} {self.batch}{' (warm-up)' if warm_up else ''}: {told}; {rows}; {parts}"
        )

    def to_dict(self) -> dict[str, Any]:
        """The case as plain values."""
        return {**asdict(self), "ratio": {side: self.ratio(side) for side in self.seconds}}


def spread(seconds: Sequence[float]) -> str:
    """The median, and the least and most where there are several.

    Example:
        >>> spread([2.0]), spread([3.0, 1.0, 2.5])
        ('2.0 s', '2.5 s (1.0-3.0)')
    """
    text = f"{statistics.median(seconds):.1f} s"
    return text if len(seconds) == 1 else f"{text} ({min(seconds):.1f}-{max(seconds):.1f})"


def markdown(cases: Sequence[Case]) -> str:
    """A table with a line per case and a column per side: seconds, and the ratio to ours."""
    sides = list(dict.fromkeys(side for case in cases for side in case.seconds))
    others = [side for side in sides if side != OURS]
    head = ["model", "batch", *sides, *(f"{side} / ours" for side in others), "rows"]
    lines = [head, ["---"] * len(head)]
    for case in cases:
        seconds = [spread(case.seconds[side]) if side in case.seconds else "" for side in sides]
        ratios = [f"{ratio:.1f}" if (ratio := case.ratio(side)) else "" for side in others]
        rows = "equal" if case.equal else "DIFFER"
        lines.append([case.model, case.batch, *seconds, *ratios, rows])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
