"""What the enumerators considered, for those who want to look over the planner's shoulder.

A trace is given to an enumerator and filled by it; without one nothing is recorded and nothing is
paid. For the whole query: the best sub-plan of every set that the exact enumeration built, and the
plans that the other methods started from. For a lookup path: every step from a kept state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Start:
    """A plan from which a method beyond the exact one set out."""

    method: str
    plan: SubPlan


class Trace:
    """A recorder; each search is given a fresh one."""

    def __init__(self) -> None:
        self.sets: tuple[SubPlan, ...] = ()
        self.starts: list[Start] = []
        self.steps: list[Considered] = []

    def built(self, plans: Iterable[SubPlan]) -> None:
        """The best plan of each set, smallest sets first."""
        found = sorted(plans, key=lambda p: (p.relations.bit_count(), p.relations))
        self.sets = tuple(found)

    def started(self, method: str, plans: Iterable[SubPlan]) -> None:
        """Plans that a method begins with."""
        self.starts += [Start(method, plan) for plan in plans]


def capped(lines: list[str], most: int = SHOWN) -> list[str]:
    """The first lines, and how many more there are.

    Example:
        >>> capped(["a", "b", "c"], 2)
        ['a', 'b', '... and 1 more']
    """
    more = len(lines) - most
    return lines if more <= 0 else [*lines[:most], f"... and {more:,} more"]
