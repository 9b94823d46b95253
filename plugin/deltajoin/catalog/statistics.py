"""What a Delta log says of the values in its files: ranges, nulls, and the files a range touches.

Rule: the figures of a file bound its values, they don't list them. A file without figures for a
column, or with figures that can't be compared with what is asked, may hold anything: it survives
every range and tells nothing of shares. Strings are cut by writers, so a bound may be wider than
the values; times are cut to milliseconds, so an upper bound is read one millisecond wider.

Caller: takes `TableState.log` of a loaded table. Columns are decoded at first use.
"""

from __future__ import annotations

import math
import os
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from deltalake import DeltaTable

Value = bool | int | float | Decimal | str | date | datetime
Range = tuple[Value | None, Value | None]
#: Least and greatest value, as integers in their order, and whether there may be NULLs.
IntegerBounds = tuple[int, int, bool]

_WEIGHED_FILES = 5_000
_CUT = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1)
#: Places within a file among which its rows are spread to find quantiles.
_POINTS = 32
#: Parts of the rows, between which a value is asked for.
_ASKED = 10


class Surviving(NamedTuple):
    """Files that may hold a value of some ranges, out of all active files; bytes of the former."""

    files: int
    of: int
    bytes: int


@dataclass(frozen=True)
class ColumnStatistics:
    """A column over all files; None is not known.

    `low` and `high` bound its values, `null_share` is 0 to 1. `domain` is a bound on its distinct
    values that the type gives: integers and dates between low and high, booleans, one value.
    """

    low: Value | None
    high: Value | None
    null_share: float | None
    domain: int | None


class _InFile(NamedTuple):
    """What is known of a column in one file: least and greatest value, NULLs, rows."""

    bounds: tuple[Value, Value] | None
    nulls: int | None
    rows: int | None

    @property
    def only_null(self) -> bool:
        """Whether it holds no value at all."""
        return self.bounds is None and self.rows is not None and self.nulls == self.rows

    def as_integers(self) -> IntegerBounds | None:
        """The bounds of integers, of dates in days, of times in microseconds, both since 1970."""
        low, high = map(_integer, self.bounds or (None, None))
        return None if low is None or high is None else (low, high, self.nulls != 0)


class FileStatistics:
    """The active files of one table version, from deltalake's flattened add actions."""

    @classmethod
    def of(cls, table: DeltaTable) -> FileStatistics:
        """Those of a version that deltalake has opened."""
        return cls(table.get_add_actions(flatten=True))

    def __init__(self, actions: Any) -> None:
        self._actions = actions
        self._names = frozenset(actions.schema.names)
        self._in_files: dict[str, list[_InFile]] = {}
        self._columns: dict[str, ColumnStatistics] = {}

    @property
    def files(self) -> int:
        """Number of active files."""
        return int(self._actions.num_rows)

    @property
    def bytes(self) -> int:
        """Bytes of the active files."""
        return sum(self._pylist("size_bytes"))

    @property
    def paths(self) -> tuple[str, ...]:
        """The files, as their log names them."""
        return tuple(map(str, self._pylist("path")))

    @property
    def records(self) -> int | None:
        """Rows in the files, with those that are marked as deleted; None where one has no count."""
        counts = self._pylist("num_records")
        return None if None in counts else sum(counts)

    def bytes_of_a_value(self, name: str) -> int | None:
        """Bytes of the files that may hold a value of a column, as a mean over the rows; None where
        the log can't tell."""
        points = self.quantiles(name, _ASKED)
        held = [self.surviving(name, [(value, value)]).bytes for value in points]
        return sum(held) // len(held) if held else None

    def column(self, name: str) -> ColumnStatistics:
        """What the files together say of a column."""
        if name not in self._columns:
            found = self._read(name)
            bounds = [each.bounds for each in found if each.bounds is not None]
            low = high = share = None
            if bounds and len(bounds) == sum(not each.only_null for each in found):
                low, high = min(each[0] for each in bounds), max(each[1] for each in bounds)
            if all(None not in (each.nulls, each.rows) for each in found) and self._rows():
                share = min(1.0, sum(each.nulls or 0 for each in found) / self._rows())
            self._columns[name] = ColumnStatistics(low, high, share, _domain(low, high))
        return self._columns[name]

    def surviving(self, name: str, ranges: Iterable[Range]) -> Surviving:
        """Files whose bounds meet a closed range (None: open), counted once each.

        A file of nothing but nulls meets none.
        """
        found, sizes = self._read(name), self._pylist("size_bytes")
        sample = next((each.bounds[0] for each in found if each.bounds is not None), None)
        try:
            merged = None if sample is None else _merged(ranges, sample)
        except (TypeError, ValueError):
            merged = None
        if merged is None:
            return Surviving(len(found), len(found), sum(sizes))
        ends = [high for _, high in merged if high is not None]  # only the last may be open

        def meets(low: Any, high: Any) -> bool:
            at = bisect_left(ends, low)
            return at < len(merged) and (merged[at][0] is None or merged[at][0] <= high)

        kept = [
            size
            for each, size in zip(found, sizes, strict=True)
            if not each.only_null and (each.bounds is None or meets(*each.bounds))
        ]
        return Surviving(len(kept), len(found), sum(kept))

    def integers(self, name: str) -> list[IntegerBounds | None]:
        """Of each file the bounds of a column, as `_InFile.as_integers`; None where it has none."""
        return [each.as_integers() for each in self._read(name)]

    def share(self, name: str, low: Value | None, high: Value | None) -> float | None:
        """Share of the rows within a closed range, values taken as even within each file.

        A range that meets a file keeps one row of it at least when the values of its type can't be
        counted. None when the log can't tell: no bounds for some file, or another type.
        """
        whole = self.column(name)
        if whole.low is None or whole.high is None:
            return None
        try:
            low, high = _like(low, whole.low), _like(high, whole.low)
        except (TypeError, ValueError):
            return None
        if self.files > _WEIGHED_FILES:
            return _overlap(whole.low, whole.high, low, high, 1 / max(1, self._rows()))
        total = weight = 0.0
        for bounds, _, rows in self._read(name):
            if bounds is not None and rows:
                weight += rows
                total += rows * _overlap(*bounds, low, high, 1 / rows)
        return float(total / weight) if weight else None

    def quantiles(self, name: str, parts: int) -> tuple[Value, ...]:
        """Values that divide the rows into so many parts, about as large, ascending and apart;
        rows are taken as even within each file.

        None of them where a file has no bounds, or for values that are no integers, dates or times.
        """
        kind = type(self.column(name).low)
        if kind not in (int, date, datetime) or parts < 2:
            return ()
        points: list[tuple[float, float]] = []
        for bounds, _, rows in self._read(name):
            if bounds is None or rows is None:
                return ()
            low, high = (_position(value, "") for value in bounds)
            step = (high - low) / _POINTS
            points += ((low + step * (n + 0.5), rows / _POINTS) for n in range(_POINTS))
        points.sort()
        share, seen = sum(weight for _, weight in points) / parts, 0.0
        found: list[float] = []
        for position, weight in points:
            seen += weight
            if seen >= share * (len(found) + 1) and len(found) < parts - 1:
                found.append(position)
        return tuple(sorted({_value(position, kind) for position in found}))

    def _rows(self) -> int:
        return sum(rows or 0 for rows in self._pylist("num_records"))

    def _read(self, name: str) -> list[_InFile]:
        """What is known of a column in each file."""
        if name not in self._in_files:
            rows = self._pylist("num_records")
            if f"partition.{name}" in self._names:
                lows = highs = self._pylist(f"partition.{name}")
                nulls = [n if value is None else 0 for value, n in zip(lows, rows, strict=True)]
            else:
                kinds = ("min", "max", "null_count")
                lows, highs, nulls = (self._pylist(f"{kind}.{name}") for kind in kinds)
            bounds = map(_bounds, lows, highs)
            self._in_files[name] = list(map(_InFile, bounds, nulls, rows))
        return self._in_files[name]

    def _pylist(self, column: str) -> list[Any]:
        """The values of a column of the log; None where it has none, and for a moment that Python
        has no year for."""
        if column not in self._names:
            return [None] * self.files
        values = self._actions.column(column)
        try:
            return list(values.to_pylist())
        except (ValueError, OverflowError):
            return [_readable(value) for value in values]


def _readable(value: Any) -> Any:
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        return None


def _bounds(low: Any, high: Any) -> tuple[Value, Value] | None:
    if low is None or high is None or low != low or high != high:
        return None
    if isinstance(low, datetime):
        return _plain(low), min(_plain(high), datetime.max - _CUT) + _CUT
    return low, high


def _integer(value: Any) -> int | None:
    if isinstance(value, datetime):
        return (value - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return value.toordinal() - _EPOCH.toordinal()
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _plain(value: datetime) -> datetime:
    """Times without a zone are taken as UTC, as all are compared."""
    return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value


def _like(value: Value | None, sample: Value) -> Any:
    """A value as one of the sample's type; ValueError or TypeError when it is none."""
    if value is None:
        return None
    if isinstance(sample, date):
        return _time(value, isinstance(sample, datetime))
    if isinstance(sample, str) or isinstance(sample, bool):
        if type(value) is not type(sample):
            raise TypeError(type(value).__name__)
        return value
    if isinstance(value, str):
        return float(value)
    if isinstance(value, date):
        raise TypeError(type(value).__name__)
    return value


def _time(value: Value, with_time: bool) -> date:
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if not isinstance(value, date):
        raise TypeError(type(value).__name__)
    if isinstance(value, datetime):
        return _plain(value) if with_time else value.date()
    return datetime(value.year, value.month, value.day) if with_time else value


def _merged(ranges: Iterable[Range], sample: Value) -> list[tuple[Any, Any]]:
    """Ranges of the sample's type, ascending and apart; ValueError or TypeError if one is none."""
    found = [(_like(low, sample), _like(high, sample)) for low, high in ranges]
    merged: list[tuple[Any, Any]] = []
    for low, high in sorted(found, key=lambda each: (each[0] is not None, each[0])):
        start, end = merged[-1] if merged else (low, None)
        if merged and (low is None or end is None or low <= end):
            merged[-1] = (start, None if None in (end, high) else max(end, high))
        else:
            merged.append((low, high))
    return merged


def _domain(low: Value | None, high: Value | None) -> int | None:
    if low is None or high is None:
        return None
    if isinstance(low, bool):
        return 1 if low == high else 2
    if isinstance(low, int) and isinstance(high, int):
        return high - low + 1
    if isinstance(low, date) and not isinstance(low, datetime) and isinstance(high, date):
        return high.toordinal() - low.toordinal() + 1
    return 1 if low == high else None


def _overlap(low: Any, high: Any, first: Any, last: Any, least: float) -> float:
    """Share of [low, high] that lies in [first, last]; discrete types count both ends.

    `least` is the share of what lies in both where values can't be counted: a point has no width.
    """
    first = low if first is None else max(low, first)
    last = high if last is None else min(high, last)
    if first > last:
        return 0.0
    if low == high:
        return 1.0
    step = 1.0 if _domain(low, high) else 0.0
    prefix = os.path.commonprefix([low, high]) if isinstance(low, str) else ""
    start, end, span = (_position(v, prefix) for v in (first, last, high))
    base = _position(low, prefix)
    width = span - base + step
    share = (end - start + step) / width if width > 0 else 1.0
    if not math.isfinite(share):
        return 1.0
    return min(1.0, share if step else max(share, least))


def _position(value: Any, prefix: str) -> float:
    """A place on a line; strings by the eight bytes after what all values share."""
    if isinstance(value, str):
        tail = value[len(prefix) :].encode()[:8]
        return float(int.from_bytes(tail.ljust(8, b"\0"), "big"))
    if isinstance(value, datetime):
        return (value - _EPOCH).total_seconds()
    if isinstance(value, date):
        return float(value.toordinal())
    return float(value)


def _value(position: float, kind: type) -> Any:
    """The value at a place on the line of `_position`."""
    if kind is datetime:
        return _EPOCH + timedelta(seconds=round(position))
    return date.fromordinal(round(position)) if kind is date else round(position)
