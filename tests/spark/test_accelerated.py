"""Accelerated joins on Spark: the rows that Spark gives for the text as it is written.

Every kind and every type of join over the same few rows, among them NULL, NaN, infinities, -0.0,
ends the wrong way round, a skipped hour, empty arrays and wildcards. Each condition is tried under
one type of join; under all of them, and with nothing on the right, with `--corpus-epochs 0`.
"""

from __future__ import annotations

import datetime
import random
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

import deltajoin
from deltajoin.accelerate import choose
from deltajoin.accelerate.choose import recognised
from deltajoin.accelerate.protocol import Sides
from deltajoin.emit.ast import table
from deltajoin.emit.candidates import Side, candidates_of
from deltajoin.emit.views import Views
from deltajoin.emit.whole_query import full_sql
from deltajoin.sql.dialect import parse_expression, text

SCHEMA = (
    "id int, k int, lo int, hi int, d double, e double, f float, m decimal(9,2), day date, "
    "t timestamp, u timestamp, n timestamp_ntz, arr array<int>, s string, lat double, lon double"
)
_EARTH = (
    "2 * 6371 * asin(sqrt(pow(sin(radians(b.lat - a.lat) / 2), 2) + cos(radians(a.lat)) * "
    "cos(radians(b.lat)) * pow(sin(radians(b.lon - a.lon) / 2), 2)))"
)
CONDITIONS = {
    "range": [
        "a.lo >= b.lo AND a.lo < b.hi",
        "a.lo > b.lo AND (a.lo <= b.hi OR b.hi IS NULL)",
        "(a.lo >= b.lo OR b.lo IS NULL) AND (a.lo < b.hi OR b.hi IS NULL)",
        "(a.lo >= b.lo OR a.lo IS NULL) AND (a.hi < b.hi OR b.hi IS NULL)",
        "b.lo >= a.lo AND b.lo < a.hi",
        "a.lo < b.hi AND b.lo < a.hi",
        "a.lo <= b.hi AND b.lo <= a.hi",
        "b.lo <= a.lo AND a.hi <= b.hi",
        "a.lo BETWEEN b.lo - 1 AND b.lo + 1",
        "a.t >= b.t AND a.t < coalesce(b.u, TIMESTAMP'9999-12-31 00:00:00')",
        "a.t BETWEEN b.t - INTERVAL 1 HOUR AND b.t + INTERVAL 30 MINUTES",
        "a.n >= b.n AND a.n < b.n + INTERVAL 2 HOURS",
        "a.day BETWEEN date_sub(b.day, 3) AND b.day",
        "a.m >= b.lo AND a.m <= b.hi",
        "a.f >= b.d AND a.f <= b.e",
        "abs(a.d - b.d) <= 2.0D",
        "abs(a.d - b.e) < b.d",
        "abs(b.f - a.f) <= 1.5",
        "a.d - b.d <= 3.0D AND a.d >= b.d",
        "a.d >= b.d AND a.d <= b.e",
        "a.lo >= b.d AND a.lo <= b.e",
        "a.d >= b.lo AND a.d <= b.hi + 0.5",
        "a.k = b.k AND a.t >= b.t AND a.t < b.u",
        "a.k <=> b.k AND a.lo <= b.hi AND b.lo <= a.hi AND a.d <> b.d",
    ],
    "distance": [
        f"{_EARTH} <= 2000",
        f"3000 > {_EARTH} AND a.k = b.k",
        "hypot(a.d - b.d, a.e - b.e) <= 4",
        "sqrt(pow(a.d - b.d, 2) + pow(a.e - b.e, 2)) < abs(b.d)",
        "pow(a.d - b.d, 2) + power(a.e - b.e, 2) <= abs(a.d)",
    ],
    "array": [
        "array_contains(a.arr, b.lo)",
        "array_contains(b.arr, a.lo)",
        "arrays_overlap(a.arr, b.arr) AND a.d > b.d",
    ],
    "similarity": [
        "try_divide(array_size(array_intersect(a.arr, b.arr)), "
        "array_size(array_union(a.arr, b.arr))) >= 0.5"
    ],
    "prefix": [
        "startswith(a.s, b.s)",
        "b.s LIKE a.s || '%'",
        "a.s LIKE concat(b.s, '%') AND a.k = b.k",
    ],
    "inequality": ["a.lo < b.hi", "a.d >= b.e AND a.k = b.k", "b.t > a.t AND b.k > 1"],
}
KINDS = ("inner", "left", "semi", "anti")


def _rows(random: random.Random, count: int) -> list[tuple[object, ...]]:
    def or_none(share: float, value: object) -> object:
        return None if random.random() < share else value

    def number() -> float:
        odd = (float("nan"), float("inf"), float("-inf"), -0.0, 0.0)
        return random.choice(odd) if random.random() < 0.12 else round(random.uniform(-20, 20), 1)

    def moment() -> datetime.datetime:
        minutes = random.choice((0, 15, 30, 45)) * random.randint(0, 12)
        return datetime.datetime(2026, 3, 29) + datetime.timedelta(minutes=minutes)  # noqa: DTZ001

    def row(number_of: int) -> tuple[object, ...]:
        low = random.randint(-10, 30)
        return (
            number_of,
            or_none(0.1, random.randint(0, 3)),
            or_none(0.08, low),
            or_none(0.1, low + random.choice((0, 1, 2, 5, 40, -3))),
            or_none(0.08, number()),
            or_none(0.1, number()),
            or_none(0.1, number()),
            or_none(0.1, Decimal(low) / 4),
            or_none(0.1, datetime.date(2026, 3, 1) + datetime.timedelta(days=low)),
            or_none(0.05, moment()),
            or_none(0.2, moment()),
            or_none(0.1, moment()),
            or_none(
                0.1, [random.choice((1, 2, 3, 4, 5, None)) for _ in range(random.randint(0, 4))]
            ),
            or_none(0.1, "".join(random.choice("ab%_") for _ in range(random.randint(0, 4)))),
            or_none(0.1, random.choice((random.uniform(-90, 90), 90.0, 1e7))),
            or_none(0.1, random.choice((random.uniform(-180, 180), 180.0, -180.0))),
        )

    return [row(i) for i in range(count)]


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, source = tmp_path_factory.mktemp("accelerated"), random.Random(7)
    for name, count in (("a", 60), ("b", 50), ("empty", 0)):
        frame = spark.createDataFrame(_rows(source, count), SCHEMA).coalesce(1)
        frame.write.format("delta").save(str(folder / name))
        spark.read.format("delta").load(str(folder / name)).createOrReplaceTempView(name)
    return folder


@pytest.mark.parametrize("kind", CONDITIONS)
def test_the_rows_are_those_of_the_text(
    spark: SparkSession, tables: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    joins = KINDS if kind != "inequality" else ("semi", "anti")
    cases = [(joins[i % len(joins)], c, "b") for i, c in enumerate(CONDITIONS[kind])]
    cases.append(("left", CONDITIONS[kind][0], "empty") if "left" in joins else cases[0])
    if request.config.getoption("--corpus-epochs") == 0:
        cases = [(j, c, right) for right in ("b", "empty") for c in CONDITIONS[kind] for j in joins]
    found = 0
    for join, condition, right in cases:
        text = _query(join, condition, right)
        served, ours = accelerated_rows(spark, tables, text, right)
        assert served == [kind], text
        own = Counter(map(str, spark.sql(text).collect()))
        assert ours == own, f"{text}\n{ours - own}\n{own - ours}"
        found += bool(own)
    assert found >= len(cases) / 3


@pytest.mark.parametrize("small", [True, False], ids=["whole", "lookup"])
def test_one_large_box_is_not_repeated_for_each_small_one(spark: SparkSession, small: bool) -> None:
    """It lies in a million bins of their size; all rows stand nine times on average at most."""
    spark.sql("SELECT id * 10D AS x, id * 10D AS y FROM range(100)").createOrReplaceTempView("p")
    large = "CASE WHEN id = 7 THEN 1000D ELSE 1D END"
    at = "CASE WHEN id = 7 THEN 0D ELSE CAST(id AS DOUBLE) END"
    boxes = f"SELECT {at} AS x1, {at} + {large} AS x2, {at} AS y1, {at} + {large} AS y2"
    spark.sql(f"{boxes} FROM range(1000)").createOrReplaceTempView("q")
    on = [parse_expression(f"p.{c} BETWEEN q.{c}1 AND q.{c}2") for c in "xy"]
    found = recognised(on, Sides(frozenset("q"), lambda column: "double"))
    assert found
    assert len(found.spans) == 2
    left, right = (Side(table(name), name, parse_expression) for name in "pq")

    def define(what: str, sql: str) -> str:
        spark.sql(sql).createOrReplaceTempView(f"box_{what}")
        return f"box_{what}"

    joined = candidates_of(found, left, replace(right, small=small), on, define)
    (row,) = spark.sql(f"SELECT count(*) AS n FROM {text(joined.right)}").collect()
    assert 900 < row.n <= 9000


def _query(join: str, condition: str, right: str) -> str:
    word = f"LEFT {join.upper()}" if join in ("semi", "anti") else join.upper()
    shown = "a.id" if join in ("semi", "anti") else "a.id AS i, b.id AS j, a.lo + b.hi AS x"
    return f"SELECT {shown} FROM a {word} JOIN {right} AS b ON {condition}"


def accelerated_rows(
    spark: SparkSession, folder: Path, text: str, right: str
) -> tuple[list[str], Counter[str]]:
    """The accelerators that a plan takes, and the rows of its full query, over Delta tables `a` and
    `right` of a folder, whose keys are `id`."""
    sources = {"a": str(folder / "a"), right: str(folder / right)}
    keys = {"a": ["id"], right: ["id"]}
    model = deltajoin.Model("accelerated", text, sources, str(folder / "target"), keys)
    with patch.object(choose, "FEW_PAIRS", 0), patch.object(choose, "FEW_PER_KEY", 0):
        plan = deltajoin.plan(model)
        assert plan.full_query is not None
        joins = plan.full_query.to_dict()["joins"]
        views = Views(plan)
        emitted = full_sql(plan, views)
    for source in plan.sources:
        frame = spark.read.format("delta").load(sources[source.source])
        frame.createOrReplaceTempView(views.scan(source.source, source.version).view)
    return [j["accelerated"]["kind"] for j in joins if "accelerated" in j], Counter(
        map(str, spark.sql(emitted).collect())
    )
