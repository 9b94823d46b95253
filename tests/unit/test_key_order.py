"""Large targets are written in the order of their key."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pyarrow as pa
import pytest

from deltajoin.catalog.statistics import FileStatistics
from deltajoin.delta.build import Inputs, build_plan
from deltajoin.delta.plan import DeltaPlan
from tests.unit import flights

LOG = pa.table(
    {
        "size_bytes": [1] * 2,
        "num_records": [20_000_000] * 2,
        "min.flight": [1, 1000],
        "max.flight": [1000, 2000],
    }
)
SQL = """
SELECT f.time_hour, f.carrier, f.flight, w.temp
FROM flights f JOIN weather w ON f.origin = w.origin AND f.time_hour = w.time_hour
"""


def plan(
    sql: str = SQL,
    flight_rows: int = 40_000_000,
    weather_rows: int = 2_000_000,
    log: pa.Table = LOG,
    **options: object,
) -> DeltaPlan:
    tables = {name: flights.table(name) for name in flights.COLUMNS}
    tables["flights"] = replace(tables["flights"], rows=flight_rows, log=FileStatistics(log))
    tables["weather"] = replace(tables["weather"], rows=weather_rows)
    return build_plan(flights.model(sql, **options), Inputs(tables, "/data/out", None, False))


def test_the_key_s_values_are_divided() -> None:
    found = plan()
    assert found.rebuild is not None
    order = found.rebuild.order
    assert order is not None
    assert order.column == "flight"
    assert len(order.bounds) == 39
    assert [int(bound) for bound in order.bounds] == sorted(map(int, order.bounds))
    assert int(order.bounds[19]) == pytest.approx(1000, abs=30)
    assert found.to_dict()["rebuild"]["order"]["column"] == "flight"


def test_the_column_with_most_values_divides() -> None:
    """Seven numbers of flights make seven ranges at most, and a day's change would be in all."""
    hours = {"min.time_hour": datetime(2013, 1, 1), "max.time_hour": datetime(2014, 1, 1)}
    few = {"min.flight": 1, "max.flight": 7}
    columns = {name: pa.array([value] * 2) for name, value in (hours | few).items()}
    rows = {name: LOG[name] for name in ("size_bytes", "num_records")}
    sql = SQL.replace("f.time_hour, f.carrier, f.flight", "f.flight, f.carrier, f.time_hour")
    found = plan(sql, log=pa.table(rows | columns))
    assert found.rebuild is not None
    assert found.rebuild.order is not None
    assert found.rebuild.order.column == "time_hour"


@pytest.mark.parametrize(
    "other",
    [
        plan(flight_rows=1_900_000),
        plan(weather_rows=90_000),
        plan(SQL.replace("f.flight,", "f.flight + 0 AS flight,")),
        plan("SELECT flight, count(*) AS n FROM flights JOIN weather USING (origin) GROUP BY 1"),
        plan(f"{SQL} UNION ALL {SQL}"),
        plan(clustered_by=("carrier",)),
        plan(partition_by=("carrier",)),
    ],
    ids=[
        "few rows",
        "one large source",
        "no column of a source",
        "groups",
        "a union",
        "declared clusters",
        "declared partitions",
    ],
)
def test_others_stay_as_they_come(other: DeltaPlan) -> None:
    assert other.rebuild is not None
    assert other.rebuild.order is None
    assert "order" not in other.to_dict()["rebuild"]
