"""Accelerated joins among other joins on Spark: full joins, sides that are joins, values of several
tables, several accelerators in a row, rows by their time; the rows that Spark gives for the text as
it is written."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from tests.spark.test_accelerated import accelerated_rows, counted

_NEAR = "hypot(a.d - b.d, a.e - b.e) <= 3"
#: A FROM over tables a, b, c, and the kinds that serve it, in any order.
QUERIES = {
    "a FULL JOIN b ON a.lo >= b.lo AND a.lo < b.hi": ["range"] * 2,
    "a FULL JOIN b ON a.k = b.k AND a.lo <= b.hi AND b.lo <= a.hi": ["range"] * 2,
    f"a FULL JOIN b ON {_NEAR}": ["distance"] * 2,
    "a FULL JOIN b ON startswith(a.s, b.s)": ["prefix"] * 2,
    "a FULL JOIN b ON arrays_overlap(a.arr, b.arr)": ["array"] * 2,
    "a FULL JOIN b ON a.lo >= b.lo AND a.lo < b.hi LEFT JOIN c ON c.id = b.id": ["range"] * 2,
    "a JOIN c ON a.id = c.id LEFT JOIN b ON a.lo + c.lo >= b.lo AND a.lo + c.lo < b.hi": ["range"],
    "b LEFT JOIN (a JOIN c ON a.id = c.id) ON b.lo >= a.lo AND b.lo < c.hi": ["range"],
    "b LEFT JOIN (a JOIN c ON a.id = c.id AND a.k > 0) ON array_contains(c.arr, b.lo)": ["array"],
    f"a LEFT JOIN b ON {_NEAR} LEFT JOIN c ON b.hi >= c.lo AND b.lo <= c.hi": ["distance", "range"],
    "a JOIN b ON a.lo >= b.lo AND a.lo < b.hi JOIN c ON startswith(c.s, b.s) AND c.k = a.k": [
        *("range", "prefix"),
    ],
}


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three tables of 40 rows each, a NULL here and there."""
    folder = tmp_path_factory.mktemp("trees")
    for seed, name in enumerate("abc"):
        mixed = [f"id * {7 + 4 * seed + 2 * i} % {20 + 3 * i}" for i in range(6)]
        values = [
            *("id", f"nullif({mixed[0]} % 4, 3) AS k", f"nullif({mixed[1]}, 7) AS lo"),
            f"{mixed[1]} + nullif({mixed[2]} % 5, 4) - 1 AS hi",
            f"CAST({mixed[3]} AS DOUBLE) AS d",
            f"CASE WHEN id = 5 THEN double('NaN') ELSE CAST({mixed[4]} AS DOUBLE) END AS e",
            f"substr('abcab', 1 + id % 3, {1 + seed % 2} + {mixed[5]} % 3) AS s",
            f"CASE WHEN id <> 9 THEN slice(array({', '.join(mixed)}), 1, int(id % 4)) END AS arr",
        ]
        frame = spark.range(40).selectExpr(*(v.replace("id *", "int(id) *") for v in values))
        frame.coalesce(1).write.format("delta").save(str(folder / name))
    return folder


@pytest.mark.sampled
@pytest.mark.parametrize("text", QUERIES)
def test_the_rows_are_those_of_the_text(spark: SparkSession, tables: Path, text: str) -> None:
    names = [name for name in "abc" if f"{name}." in text]
    sql = f"SELECT {', '.join(f'{n}.id AS {n}_id, {n}.hi AS {n}_hi' for n in names)} FROM {text}"
    for name in names:
        spark.read.format("delta").load(str(tables / name)).createOrReplaceTempView(name)
    served, ours = accelerated_rows(spark, tables, sql, names)
    assert sorted(served) == sorted(QUERIES[text])
    own = counted(spark.sql(sql))
    assert own
    assert ours == own, f"{ours - own}\n{own - ours}"


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["timestamp", "date", "double"])
def test_rows_by_their_time(
    spark: SparkSession, tmp_path: Path, macros: SimpleNamespace, kind: str
) -> None:
    """The last before, the first after and the nearest, by hand; the time of a row, and the middle
    between two rows, among the times."""
    moment = {
        "timestamp": "timestamp_micros(1767225600000000 + {} * 1500001)",
        "date": "date_add(DATE'2026-01-01', CAST({} AS INT))",
        "double": "CAST({} AS DOUBLE)",
    }[kind]
    times = {"a": [(k, at) for k in (1, 2, 3) for at in range(-2, 40)], "b": []}
    times["b"] = [(k, at) for k in (1, 2) for at in range(0, 36, 2) if at * (k + 5) % 7 < 3]
    for name, rows in times.items():
        frame = spark.createDataFrame(
            [(i, *row) for i, row in enumerate(rows)], "id int, k int, n int"
        )
        frame = frame.selectExpr("id", "k", f"{moment.format('n')} AS ts")
        frame.coalesce(1).write.format("delta").save(str(tmp_path / name))
        spark.read.format("delta").load(str(tmp_path / name)).createOrReplaceTempView(name)
    right = macros.with_neighbours("b", ["k"], "ts")
    chosen = {
        "is_last_before": lambda at: lambda other: (other > at, at - other),
        "is_first_after": lambda at: lambda other: (other < at, other - at),
        "is_nearest": lambda at: lambda other: (False, abs(at - other), other),
    }
    for macro, order in chosen.items():
        on = f"a.k = r.k AND {getattr(macros, macro)('a.ts', 'r', 'ts')}"
        sql = f"SELECT a.id AS i, r.id AS j FROM a LEFT JOIN {right} r ON {on}"
        served, ours = accelerated_rows(spark, tmp_path, sql, "ab", {"b": ["k", "ts"]})
        assert served == ["range"], macro
        assert ours == counted(spark.sql(sql)), macro
        numbers = {row: number for number, row in enumerate(times["b"])}
        found = {}
        for number, (k, at) in enumerate(times["a"]):
            same = [other for of, other in times["b"] if of == k]
            best = min(same, key=order(at), default=None)
            missing = best is None or order(at)(best)[0]
            found[number, str([number, None if missing else numbers[k, best]])] = 1
        assert ours == found, macro
