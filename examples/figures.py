"""A line of a bench's table, and a quantile as it prints them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One line of the table."""

    what: str
    seen: str
    target: str
    met: bool


def quantile(values: Sequence[float], share: float) -> float:
    """The value that a share of all doesn't pass."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
