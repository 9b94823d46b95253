"""The seconds of a run by phase, for its audit record; the log tells a phase as it begins.

planning       logs read, SQL parsed, orders chosen
start          of a Spark session, where none was there
changes        read, netted, materialised
lookups        of a change along its paths, and the fold to rows to write
query          of a full run: keys checked, rows compared with the user's own text
comparison     mode shadow's, with the whole query
write          the one commit
verification   what the target's history says, and the audit file
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

PHASES = (
    "planning",
    "start",
    "changes",
    "lookups",
    "query",
    "comparison",
    "write",
    "verification",
)
_LOG = logging.getLogger("deltajoin")


class Stopwatch:
    """One phase runs at a time; each may run more than once."""

    def __init__(self, **phases: float) -> None:
        self._phases = phases
        self._phase = ""
        self._since = 0.0

    def begin(self, phase: str, what: str = "") -> None:
        """End the phase that runs and begin another, of `what`."""
        self._count()
        self._phase = phase
        _LOG.info("%s%s", phase, what and f" {what}")

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """A phase in the midst of another."""
        outer = self._phase
        self.begin(phase)
        try:
            yield
        finally:
            self._count()
            self._phase = outer

    @property
    def phases(self) -> dict[str, float]:
        """Seconds of every phase until now, in milliseconds' precision."""
        self._count()
        return {phase: round(seconds, 3) for phase, seconds in self._phases.items()}

    @property
    def seconds(self) -> float:
        """All phases together."""
        return round(sum(self.phases.values()), 3)

    def _count(self) -> None:
        now = time.monotonic()
        if self._phase:
            self._phases[self._phase] = self._phases.get(self._phase, 0.0) + now - self._since
        self._since = now
