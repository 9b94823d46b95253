"""What the enumerators considered, for those who want to look over the planner's shoulder.

A trace is given to an enumerator and filled by it; without one nothing is recorded and nothing is
paid. Each search is given a fresh one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from deltajoin.planner.combine import SubPlan

#: Lines of a section that people are shown.
SHOWN = 500


class Considered(NamedTuple):
    """A step of a path: what is bound, what comes next, rows after it, cost so far, is it kept."""

    bound: tuple[str, ...]
    new: str
    rows: float
    cost: float
    kept: bool


@dataclass
class Trace:
    """A recorder.

    `sets`: the best plan of each set that the exact enumeration built, smallest sets first;
    `starts`: the plans from which the greedy method set out; `steps` of a lookup path.
    """

    sets: list[SubPlan] = field(default_factory=list)
    starts: list[SubPlan] = field(default_factory=list)
    steps: list[Considered] = field(default_factory=list)


def capped(lines: list[str], most: int = SHOWN) -> list[str]:
    """The first lines, and how many more there are.

    Example:
        >>> capped(["a", "b", "c"], 2)
        ['a', 'b', '... and 1 more']
    """
    more = len(lines) - most
    return lines if more <= 0 else [*lines[:most], f"... and {more:,} more"]
