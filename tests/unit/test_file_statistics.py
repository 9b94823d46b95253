"""What the log says of values: bounds, nulls, and the files that ranges of values touch."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltajoin.catalog import load_table
from deltajoin.catalog.statistics import FileStatistics


def written(folder: Path, *parts: pa.Table, partition: list[str] | None = None) -> FileStatistics:
    for part in parts:
        write_deltalake(str(folder), part, mode="append", partition_by=partition)
    return logged(str(folder))


def logged(place: str, version: int | None = None) -> FileStatistics:
    found = load_table("t", place, version).log
    assert found is not None
    return found


def test_bounds_nulls_and_domains(tmp_path: Path) -> None:
    log = written(
        tmp_path / "t",
        pa.table({"i": [1, None, 5], "s": ["a", "b", None], "d": [dt.date(2020, 1, 1)] * 3}),
        pa.table({"i": [100, 101, 102], "s": ["x", "y", "z"], "d": [dt.date(2020, 1, 31)] * 3}),
    )
    i, s, d = (log.column(name) for name in "isd")
    assert (i.low, i.high, i.domain, i.null_share) == (1, 102, 102, pytest.approx(1 / 6))
    assert (s.low, s.high, s.domain, s.null_share) == ("a", "z", None, pytest.approx(1 / 6))
    assert (d.domain, d.null_share) == (31, 0.0)
    nothing = log.column("no_such_column")
    assert (nothing.low, nothing.high, nothing.domain, nothing.null_share) == (None,) * 4


def test_surviving_files_of_a_partition_and_of_nulls(tmp_path: Path) -> None:
    rows = pa.table({"p": ["u", "v", None], "n": pa.array([1, None, 3], pa.int32())})
    log = written(tmp_path / "t", rows, partition=["p"])
    assert log.surviving("p", [("u", "u")])[:2] == (1, 3)
    assert log.surviving("n", [(None, None)])[:2] == (2, 3), "a file of nulls meets no range"
    assert log.column("p").null_share == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("column", "ranges", "files"),
    [
        ("i", [(0, 9)], 1),
        ("i", [(5, 12), (8, 25)], 3),
        ("i", [(None, 3), (97, None)], 2),
        ("i", [(200, 300)], 0),
        ("i", [("15", "15")], 1),
        ("i", [("x", "y")], 10),
        ("i", [(dt.date(2020, 1, 1), None)], 10),
        ("f", [(Decimal("55.5"), 60)], 2),
        ("d", [("2020-01-11", dt.date(2020, 1, 12))], 1),
        ("t", [("2020-01-11T00:00:00", "2020-01-12")], 1),
        ("t", [(dt.datetime(2020, 1, 11, tzinfo=dt.UTC), None)], 9),
        ("s", [("k05", "k06")], 1),
        ("b", [(True, True)], 10),
        ("i", [], 0),
    ],
)
def test_surviving_files(
    tmp_path: Path, column: str, ranges: list[tuple[object, object]], files: int
) -> None:
    parts = []
    for start in range(0, 100, 10):
        numbers = range(start, start + 10)
        days = [dt.date(2020, 1, 1) + dt.timedelta(n) for n in numbers]
        parts.append(
            pa.table(
                {
                    "i": list(numbers),
                    "f": [float(n) for n in numbers],
                    "d": days,
                    "t": pa.array(
                        [dt.datetime(d.year, d.month, d.day) for d in days],
                        pa.timestamp("us", "UTC"),
                    ),
                    "s": [f"k{n:02}" for n in numbers],
                    "b": [n % 2 == 0 for n in numbers],
                }
            )
        )
    log = written(tmp_path / "t", *parts)
    found = log.surviving(column, ranges)  # type: ignore[arg-type]
    assert (found.files, found.of) == (files, 10)
    assert (found.bytes > 0) == (files > 0)
    newest = DeltaTable(str(tmp_path / "t")).version()
    assert logged(str(tmp_path / "t"), newest).surviving(column, ranges) == found  # type: ignore[arg-type]


def test_surviving_files_equal_a_count_by_hand(tmp_path: Path) -> None:
    rng = random.Random(3)
    bounds = [tuple(sorted(rng.sample(range(1000), 2))) for _ in range(40)]
    log = written(tmp_path / "t", *(pa.table({"i": list(b)}) for b in bounds))
    for _ in range(200):
        ranges = [
            tuple(sorted(rng.sample(range(-50, 1050), 2))) for _ in range(rng.randrange(1, 6))
        ]
        wanted = sum(any(low <= b[1] and b[0] <= high for low, high in ranges) for b in bounds)
        assert log.surviving("i", ranges).files == wanted


def test_a_version_is_counted_as_it_was(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    write_deltalake(place, pa.table({"i": [1]}))
    write_deltalake(place, pa.table({"i": [9]}), mode="append")
    assert logged(place, 0).surviving("i", [(0, 5)])[:2] == (1, 1)
    assert logged(place, 1).surviving("i", [(0, 5)])[:2] == (1, 2)


def test_shares_follow_the_files(tmp_path: Path) -> None:
    rng = random.Random(5)
    parts = []
    for start in range(0, 1000, 100):
        numbers = [start + int(100 * rng.random() ** 2) for _ in range(500)]
        days = [dt.date(2015, 1, 1) + dt.timedelta(n) for n in numbers]
        names = [f"Customer#{n:06}" for n in numbers]
        parts.append(pa.table({"i": numbers, "d": days, "s": names}))
    log = written(tmp_path / "t", *parts)
    whole = duckdb.from_arrow(pa.concat_tables(parts))  # noqa: F841 - read by name below
    for low in range(0, 1000, 130):
        day = dt.date(2015, 1, 1) + dt.timedelta(low)
        for column, value in (("i", low), ("d", day), ("s", f"Customer#{low:06}")):
            sql = f"SELECT count_if({column} >= ?) / count(*) FROM whole"
            (wanted,) = duckdb.execute(sql, [value]).fetchone() or (None,)
            assert log.share(column, value, None) == pytest.approx(wanted, abs=0.06)
    assert log.share("i", 5000, None) == 0.0
    assert log.share("i", "no number", None) is None
    assert log.share("no_such_column", 1, 2) is None


def test_a_log_without_figures_lets_every_file_survive(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    no_figures = {"delta.dataSkippingNumIndexedCols": "0"}
    for start in (0, 10):
        write_deltalake(place, pa.table({"i": [start]}), mode="append", configuration=no_figures)
    log = load_table("t", place).log
    assert log is not None
    assert log.surviving("i", [(1, 2)])[:2] == (2, 2)
    assert log.share("i", 1, 2) is None
    assert log.column("i").low is None


def test_a_point_of_a_type_without_a_step_keeps_a_row_of_each_file_that_may_hold_it(
    tmp_path: Path,
) -> None:
    prices = [Decimal("1.25"), Decimal("2.50"), Decimal("3.75"), Decimal("9.99")]
    parts = []
    for names, more in (("ASIA EUROPE AFRICA MARS", 0), ("x y z zz", 100)):
        values = [price + more for price in prices]
        columns = {"d": pa.array(values, pa.decimal128(9, 2)), "f": [float(v) for v in values]}
        parts.append(pa.table({"s": names.split(), **columns}))
    log = written(tmp_path / "t", *parts)
    for column, inside, outside in (
        ("s", "EUROPE", "b"),
        ("d", 3, 50),
        ("f", 1.75, 50.0),
    ):
        assert log.share(column, inside, inside) == pytest.approx(1 / 8)
        assert log.share(column, outside, outside) == 0.0


def test_quantiles_divide_the_rows(tmp_path: Path) -> None:
    day = dt.date(2020, 1, 1)
    parts = [
        pa.table(
            {
                "i": range(low, low + rows),
                "d": [day + dt.timedelta(n % 50) for n in range(rows)],
                "s": ["a"] * rows,
            }
        )
        for low, rows in ((0, 3000), (100_000, 1000))
    ]
    log = written(tmp_path / "t", *parts)
    first, half, last = log.quantiles("i", 4)
    assert first == pytest.approx(1000, abs=100)
    assert half == pytest.approx(2000, abs=100)
    assert last == pytest.approx(3000, abs=100) or last == pytest.approx(100_000, abs=100)
    (middle,) = log.quantiles("d", 2)
    assert isinstance(middle, dt.date)
    assert (middle - day).days == pytest.approx(24, abs=2)
    assert log.quantiles("i", 1) == log.quantiles("s", 4) == log.quantiles("nothing", 4) == ()
