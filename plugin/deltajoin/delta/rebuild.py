"""How a rebuild is written: by difference, or over what is there.

By difference, the rows of the query are compared with the stored ones and one MERGE writes those
that differ: the target's change feed tells others no more than what changed. The first rule that
applies wins:

    another definition, no epoch, mode full                      overwrite
    rows of the query's own text over stored ones with a count   overwrite
    a column whose values can't be compared (map, variant, ...)  overwrite
    a key of floating-point numbers                              overwrite
    chosen as cheaper than following the change, and no stamps   overwrite
    over half of the sources' rows changed                       overwrite
    the last difference was over half of the rows, or, without
      stamps, LONGEST times as long as a rebuild without one     overwrite, ten times
    otherwise                                                    difference

The last three hold from FEW_ROWS on: below, what others do with a whole new table costs more than a
MERGE; above, to compare all rows takes several times as long as to write them. Columns that may
hold -0.0 are compared by their text besides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from deltajoin.catalog import Column, TargetState
from deltajoin.delta.history import recent_epochs
from deltajoin.delta.path import SourceVersion
from deltajoin.delta.plan import Rebuild, Target
from deltajoin.delta.seconds import rows_read, took
from deltajoin.delta.signed_zeros import holds_floats
from deltajoin.delta.sources import share
from deltajoin.delta.strategy import FEW_ROWS, Decision
from deltajoin.graph import Stamp
from deltajoin.names import COUNT, RESERVED_PREFIX, ROW_HASH

LARGEST_SHARE, LONGEST = 0.5, 3.0
#: Rebuilds that go by what the last difference found; then it is measured again.
REMEMBERED = 10
_BY_DEFINITION = (
    "FIRST_RUN",
    "FULL_REQUESTED",
    "HISTORY_LOST",
    "MODEL_CHANGED",
    "RULES_CHANGED",
)
_BY_COST = ("CHANGE_TOO_LARGE", "REBUILD_CHEAPER")
#: Where a type stands in the text of another: alone, in an array, after the name of a field.
_NOT_GROUPABLE = re.compile(r"(^|array<|:)(map<|variant|interval|string collate )")
_QUOTED_NAME = re.compile("`[^`]*`")


def is_groupable(kind: str) -> bool:
    """True when rows with a column of this type can be grouped by it, so that rows of one group are
    the same.

    Example:
        >>> is_groupable("struct<variant:string>"), is_groupable("struct<v:variant>")
        (True, False)
    """
    return _NOT_GROUPABLE.search(_QUOTED_NAME.sub("", kind)) is None


def plan_rebuild(
    decision: Decision,
    target: Target,
    state: TargetState | None,
    sources: tuple[SourceVersion, ...],
    mark: str,
    stamps: Mapping[str, str],
) -> Rebuild | None:
    """How the run's rebuild is written; None for a run of another strategy.

    Args:
        stamps: of a text that is run as it is: name, in lower case, -> expression.
    """
    if decision.strategy != "full":
        return None
    if state is None or decision.reason in _BY_DEFINITION:
        return Rebuild("overwrite")
    columns = tuple(c for c in state.columns if c.name not in (COUNT, ROW_HASH))
    if target.kind == "plain" and any(c.name.startswith(RESERVED_PREFIX) for c in state.columns):
        return Rebuild("overwrite", "its rows are those of the query's own text")
    stamped = bool(target.stamps or stamps)
    for_less = decision.reason in _BY_COST and not stamped
    if because := (
        _incomparable(columns, target.key)
        or _too_much(for_less, sources)
        or _last_found(state, mark, stamped)
    ):
        return Rebuild("overwrite", because)
    apart = tuple(
        Stamp(column.name, stamps[column.name.lower()], position)
        for position, column in enumerate(columns)
        if target.kind == "plain" and column.name.lower() in stamps
    )
    if apart and len(apart) < len(columns):
        columns = tuple(c for c in columns if c.name.lower() not in stamps)
    else:
        apart = ()
    exactly = tuple(c.name for c in columns if holds_floats(c.type))
    return Rebuild("difference", "", tuple(c.name for c in columns), exactly, apart)


def _incomparable(columns: Iterable[Column], key: tuple[str, ...]) -> str:
    for column in columns:
        if not is_groupable(column.type):
            return f"values of type {column.type} can't be compared ({column.name})"
        if column.name in key and holds_floats(column.type):
            return f"the key holds floating-point numbers ({column.name})"
    return ""


def _too_much(for_less: bool, sources: tuple[SourceVersion, ...]) -> str:
    rows = sum(source.rows or 0 for source in sources)
    if for_less and rows >= FEW_ROWS:
        return "a comparison would cost more than the change that is not followed for its cost"
    changed = share(sources)
    if changed is not None and changed > LARGEST_SHARE and rows >= FEW_ROWS:
        return f"{changed:.0%} of the sources' rows changed, more than {LARGEST_SHARE:.0%}"
    return ""


def _last_found(state: TargetState, mark: str, stamped: bool) -> str:
    """What the last difference says against the next; nothing where it had few rows, was of another
    definition, or long ago."""
    rebuilds = [(c, r) for c, r in recent_epochs(state, mark) if r["strategy"] == "full"]
    by_difference = [one for one in rebuilds[:REMEMBERED] if one[1].get("written") == "difference"]
    if not by_difference or by_difference[0][1]["rebuilt_rows"] < FEW_ROWS:
        return ""
    commit, record = by_difference[0]
    found = _share(record)
    if found > LARGEST_SHARE:
        return f"the last difference was {found:.0%} of the rows, more than {LARGEST_SHARE:.0%}"
    whole = [(c, r) for c, r in rebuilds if r.get("written") != "difference" and rows_read(r)]
    if whole and not stamped:
        longer = took(commit, record) / (
            took(*whole[0]) * rows_read(record) / rows_read(whole[0][1])
        )
        if longer > LONGEST:
            return f"the last difference took {longer:.0f} times as long as a rebuild without one"
    return ""


def _share(record: Mapping[str, Any]) -> float:
    changed = record["rows"]
    both = max(changed["inserted"], changed["deleted"])  # without a key, an update is one of each
    return float((both + changed["updated"]) / record["rebuilt_rows"])
