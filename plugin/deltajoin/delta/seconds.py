"""Seconds that an incremental run and a rebuild should take now, by what runs of the model took.

    rebuild       what the last one took that was no comparison, by the rows of its sources then and
                  now; without one, what the last comparison took
    incremental   a guess, times the factor by which past runs differed from theirs; those for which
                  the guess was similar and the last ones weigh more, the guess itself as one run

The guess: FIXED seconds and a SHARE of a rebuild for no row, DEAR rebuilds more for all rows that
lookups should give. (TPC-H, six joined tables: 0.01 % of the orders took 0.03 of a rebuild at scale
10 and 0.2 to 0.4 at scale 1; 1 % took 0.28, by 0.025 of all rows.) Nothing is predicted below
FEW_ROWS rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from deltajoin.catalog import TargetCommit, TargetState
from deltajoin.delta.history import recent_epochs
from deltajoin.delta.path import SourceVersion, rows_after
from deltajoin.delta.strategy import FEW_ROWS, Seconds

FIXED, SHARE, DEAR = 2.0, 0.03, 8.0
#: Incremental runs that are looked at, and how much less each weighs than the next younger one.
RUNS = 10
FADING = 0.8


def predict(
    state: TargetState | None,
    mark: str,
    sources: Sequence[SourceVersion],
    expected_rows: int,
) -> Seconds | None:
    """What a run should take now; None without a rebuild of this definition to go by.

    Args:
        mark: fingerprint of the definition.
        expected_rows: with which the paths of an incremental run now start, and which they give.
    """
    all_rows = float(sum(source.rows or 0 for source in sources))
    if all_rows < FEW_ROWS or not any(source.changed for source in sources):
        return None
    epochs = list(recent_epochs(state, mark))
    rebuilds = [(c, r) for c, r in epochs if r["strategy"] == "full"]
    if not rebuilds:
        return None
    whole = ((c, r) for c, r in rebuilds if r.get("written") != "difference")
    rebuilt = next(whole, rebuilds[0])
    then = rows_read(rebuilt[1])
    rebuild = took(*rebuilt) * (all_rows / then if then else 1)
    runs = [(c, r) for c, r in epochs if r["strategy"] == "incremental" and r["mode"] != "shadow"]

    def guess(rows: int) -> float:
        return FIXED + rebuild * (SHARE + DEAR * rows / all_rows)

    now = guess(expected_rows)
    pairs = [(guess(_expected_rows(r)), took(commit, r)) for commit, r in runs[:RUNS]]
    return Seconds(now * _factor(now, pairs), rebuild, epochs[0][1]["reason"] == "REBUILD_CHEAPER")


def _factor(now: float, runs: Iterable[tuple[float, float]]) -> float:
    """How much longer than guessed a run should take, by (guess, seconds) of others, newest first.

    Example:
        >>> [round(_factor(5.0, [(5.0, 10.0)] * runs), 2) for runs in (0, 1, 9)]
        [1.0, 1.41, 1.76]
        >>> round(_factor(500.0, [(5.0, 10.0)]), 2)
        1.11
    """
    total, weights = 0.0, 1.0
    for age, (guessed, seconds) in enumerate(runs):
        weight = FADING**age / (1.0 + abs(math.log(guessed / now)))
        total += weight * math.log(seconds / guessed)
        weights += weight
    return math.exp(total / weights)


def _expected_rows(record: Mapping[str, Any]) -> int:
    """Rows with which the paths of a run were to start, and which they should have given."""
    derived = (path for each in record.get("derived", ()) for path in each["paths"])
    found = 0
    for path in (*record["paths"], *derived):
        started = int(path["estimated_rows"])
        steps = ((str(s.get("kind")), int(s["estimated_rows"])) for s in path["steps"])
        found += started + rows_after(started, steps)
    return found


def rows_read(record: Mapping[str, Any]) -> int:
    """Rows of the sources of a run, as far as their logs count them."""
    return sum(entry.get("rows") or 0 for entry in record["frontier"].values())


def took(commit: TargetCommit, record: Mapping[str, Any]) -> float:
    """Seconds from the start of a run, Spark's apart, to its commit; of a query that was computed
    twice, to be compared, those of once."""
    started = datetime.fromisoformat(record["started_at"]).timestamp()
    seconds = commit.timestamp_ms / 1000 - started
    if (record.get("evidence") or {}).get("compared") == "columns and rows":
        seconds -= record["phases"].get("query", 0.0) / 2
    return max(0.1, seconds)
