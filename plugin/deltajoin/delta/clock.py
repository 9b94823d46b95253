"""The clock of an epoch: one moment for the whole run, named in its record.

Where it decides rows, a moved clock is work even if no source changed; a query that speaks of days
alone sees it move at midnight, in the time zone that the epochs keep.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from deltajoin.delta.derived import Moment
from deltajoin.delta.history import Record
from deltajoin.delta.plan import Target
from deltajoin.errors import DeltaJoinError, Refusal
from deltajoin.sql.bind import BoundQuery
from deltajoin.sql.clock import dated, frozen, frozen_query, moves
from deltajoin.sql.dialect import parse, parse_expression
from deltajoin.sql.stamps import stamp_columns

_ZONE = "spark.sql.session.timeZone"
_Part = TypeVar("_Part")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(clock: datetime) -> int:
    """Microseconds since 1970 in UTC.

    Example:
        >>> micros(datetime(1970, 1, 2, tzinfo=UTC))
        86400000000
    """
    since = clock - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def reads_clock(query: BoundQuery, target: Target) -> bool:
    """True where the clock decides rows, or is in a stamp."""
    if query.clock or query.reads_clock:
        return True
    return any(moves(parse_expression(s.sql)) for s in target.stamps)


def at_clock(target: Target, clock: datetime | None) -> Target:
    """The target with its stamps as of a moment."""
    if clock is None:
        return target
    moment = micros(clock)
    return replace(
        target, stamps=tuple(replace(s, sql=frozen(s.sql, moment)) for s in target.stamps)
    )


def day_gone(why: Refusal, moved: str | None, mode: str) -> tuple[Refusal, ...]:
    """What rules out an incremental run of a query that is kept for a day, for `why`."""
    if mode == "incremental_strict":
        return (why,)
    return (replace(why, code="CLOCK_MOVED", message=moved),) if moved else ()


def on_day(part: _Part, clock: datetime) -> _Part:
    """A graph, or any part of a plan, with a moment wherever a mark stands for the clock."""
    moment = micros(clock)

    def of(value: Any) -> Any:
        if isinstance(value, str):
            return dated(value, moment)
        if isinstance(value, tuple):
            return tuple(map(of, value))
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{f.name: of(getattr(value, f.name)) for f in fields(value)})
        return value

    found: _Part = of(part)
    return found


def stamp_columns_at(
    sql: str, declared: Collection[str], clock: datetime | None, columns: Collection[str]
) -> dict[str, str]:
    """The stamps of a text that is run as it is, as of a moment; none where a call of the clock may
    be one of the tables' columns, in lower case."""
    try:
        found = stamp_columns(parse(sql), [name.lower() for name in declared])
    except DeltaJoinError:
        return {}
    if clock is None:
        return found
    moment = micros(clock)
    if frozen_query(sql, moment, columns) is None:
        return {}
    return {name: frozen(value, moment) for name, value in found.items()}


def moment_of(now: datetime, last: Record | None, moved: str | None) -> Moment:
    """The clock of this epoch and the last."""
    before = micros(datetime.fromisoformat(last["clock"])) if last and "clock" in last else None
    return Moment(micros(now), before, moved is not None)


def clock_moved(kind: str, now: datetime, last: Record | None) -> str | None:
    """How the clock moved that decides rows, since the last epoch; None where it did not.

    Args:
        kind: "day" where only the date decides, "instant", or "" where nothing does.
    """
    if not kind or last is None:
        return None
    if "clock" not in last:
        return "the last epoch names no clock"
    before = datetime.fromisoformat(last["clock"])
    try:
        zone = ZoneInfo(str(last["settings"].get(_ZONE, "")))
    except (ValueError, KeyError, OSError):  # Spark has names that Python has not
        zone = None
    if kind == "day" and zone is not None:
        days = [moment.astimezone(zone).date() for moment in (before, now)]
        return None if days[0] == days[1] else f"the date went from {days[0]} to {days[1]}"
    return None if before == now else f"the clock went from {before} to {now}"
