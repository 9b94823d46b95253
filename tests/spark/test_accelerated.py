"""Accelerated joins on Spark: the rows that Spark gives for the text as it is written.

A case is a condition under one type of join over one data set, of some two dozen with a character
of their own: ties, NULLs, NaN and infinities, ends the wrong way round, nights when the clock is
put on or back, empty sides. All data sets are joined at once, by their number; without it, all
rows of both sides are one large data set, whose pairs no equality makes.

In `make test` every other condition is tried under one type of join; with `--thorough` under all.
"""

from __future__ import annotations

import datetime
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from unittest.mock import patch

import pytest
from pyspark.sql import DataFrame, SparkSession

import deltajoin
from deltajoin.accelerate import choose
from deltajoin.accelerate.choose import recognised
from deltajoin.accelerate.protocol import Sides
from deltajoin.emit.ast import table
from deltajoin.emit.candidates import Side, candidates_of
from deltajoin.emit.stream import Statement
from deltajoin.emit.views import Views
from deltajoin.emit.whole_query import full_sql
from deltajoin.errors import DeltaJoinError
from deltajoin.names import COUNT, RESERVED_PREFIX, SHOWN
from deltajoin.runtime.read import open_statements
from deltajoin.sql.dialect import parse_expression, text

_EARTH = (
    "2 * 6371 * asin(sqrt(pow(sin(radians(b.lat - a.lat) / 2), 2) + cos(radians(a.lat)) * "
    "cos(radians(b.lat)) * pow(sin(radians(b.lon - a.lon) / 2), 2)))"
)
_TOKENS = "CAST(split(lower({}.words), ' ') AS ARRAY<STRING>)"
_TRIGRAMS = (
    "CAST(transform(sequence(1, length({0}.s) + 1), "
    "i -> substr('  ' || {0}.s || ' ', i, 3)) AS ARRAY<STRING>)"
)


def _share(array: str) -> str:
    """The share of their elements that both rows' arrays have in common."""
    one, other = array.format("a"), array.format("b")
    common, all_ = (f"array_size(array_{f}({one}, {other}))" for f in ("intersect", "union"))
    return f"try_divide({common}, {all_})"


CONDITIONS = {
    "range": [
        "a.lo >= b.lo AND a.lo < b.hi",
        "a.lo >= b.lo AND a.lo <= b.hi",
        "a.lo > b.lo AND a.lo < b.hi",
        "a.lo > b.lo AND (a.lo <= b.hi OR b.hi IS NULL)",
        "(a.lo >= b.lo OR b.lo IS NULL) AND (a.lo < b.hi OR b.hi IS NULL)",
        "(a.lo >= b.lo OR a.lo IS NULL) AND (a.hi < b.hi OR b.hi IS NULL)",
        "b.lo >= a.lo AND b.lo < a.hi",
        "a.lo < b.hi AND b.lo < a.hi",
        "a.lo <= b.hi AND b.lo <= a.hi",
        "a.lo < b.hi AND b.lo <= a.hi",
        "b.lo <= a.lo AND a.hi <= b.hi",
        "b.lo < a.lo AND a.hi < b.hi",
        "a.lo BETWEEN b.lo - 1 AND b.lo + 1",
        "a.lo BETWEEN b.lo + 1 AND b.lo - 1",
        "a.t >= b.t AND a.t < coalesce(b.u, TIMESTAMP'9999-12-31 00:00:00')",
        "a.t > b.t AND a.t <= b.u",
        "a.t BETWEEN b.t - INTERVAL 1 HOUR AND b.t + INTERVAL 30 MINUTES",
        "a.t <= b.t AND a.t > b.t - INTERVAL 1 DAY",
        "a.n >= b.n AND a.n < b.n + INTERVAL 2 HOURS",
        "a.day BETWEEN date_sub(b.day, 3) AND b.day",
        "a.m >= b.lo AND a.m <= b.hi",
        "a.m > b.w AND a.m <= b.w + 0.5",
        "a.w BETWEEN b.m - 0.25 AND b.m + 0.000001",
        "a.f >= b.d AND a.f <= b.e",
        "abs(a.d - b.d) <= 2.0D",
        "abs(a.p - b.p) < 0.3D",
        "abs(a.p - b.p) <= -0.3D",
        "abs(a.d - b.e) < b.d",
        "abs(b.f - a.f) <= 1.5",
        "a.d - b.d <= 3.0D AND a.d >= b.d",
        "a.d >= b.d AND a.d <= b.e",
        "a.p > b.p AND a.p < b.q",
        "a.p >= b.p AND a.p < b.p + 2.0D",
        "a.p <= b.q AND b.p <= a.q",
        "a.lo >= b.d AND a.lo <= b.e",
        "a.d >= b.lo AND a.d <= b.hi + 0.5",
        "a.k = b.k AND a.t >= b.t AND a.t < b.u",
        "a.k <=> b.k AND a.lo <= b.hi AND b.lo <= a.hi AND a.d <> b.d",
    ],
    "distance": [
        f"{_EARTH} <= 2000",
        "4 >= hypot(a.d - b.d, a.e - b.e) AND a.k = b.k",
        "hypot(a.p - b.p, a.q - b.q) < 0.5",
        "hypot(a.p - b.p, a.q - b.q) <= -1",
        "sqrt(pow(a.d - b.d, 2) + pow(a.e - b.e, 2)) < abs(b.d)",
        "pow(a.d - b.d, 2) + power(a.e - b.e, 2) <= abs(a.d)",
    ],
    "array": [
        "arrays_overlap(a.arr, b.arr) AND a.d > b.d",
        "array_contains(a.arr, b.lo)",
        "array_contains(b.arr, a.lo)",
    ],
    "similarity": [
        f"{_share('{}.arr')} >= 0.5",
        f"{_share(_TOKENS)} > 0.5",
        f"{_share(_TOKENS)} >= 1",
        f"{_share(_TRIGRAMS)} >= 0.4",
    ],
    "prefix": [
        "startswith(a.s, b.s)",
        "b.s LIKE a.s || '%'",
        "a.s LIKE concat(b.s, '%') AND a.k = b.k",
    ],
    "inequality": ["a.lo < b.hi", "a.d >= b.e AND a.k = b.k", "b.t > a.t AND b.k > 1"],
}


KINDS = ("inner", "left", "semi", "anti", "full")
SCHEMA = (
    "case_id int, id int, k int, lo int, hi int, d double, e double, f float, p double, q double, "
    "m decimal(9,2), w decimal(24,6), day date, t timestamp, u timestamp, n timestamp_ntz, "
    "arr array<int>, s string, words string, lat double, lon double"
)
_ODD = (float("nan"), float("inf"), float("-inf"), -0.0, 0.0)
_QUARTER = datetime.timedelta(minutes=15)


@dataclass(frozen=True)
class Character:
    """What the rows of a data set are like.

    Ranges start at one of `starts` and have one of `lengths`, in units of their type: an integer, a
    `step` of a float, a quarter of a decimal, a day, a quarter of an hour about the `night` in
    which the clock may be put on or back. `odd` is the share of NaN, infinities and zeros of either
    sign among floats; texts begin with `text`.
    """

    starts: Sequence[int] = range(-10, 31)
    lengths: Sequence[int] = (0, 1, 2, 5, 12)
    step: float = 0.7
    nulls: float = 0.05
    odd: float = 0.0
    fractions: Sequence[int] = (0,)
    night: datetime.date = datetime.date(2026, 1, 15)
    keys: Sequence[int] = (0, 1, 2, 3)
    text: str = ""
    places: Sequence[tuple[float, float]] = ()
    rows: tuple[int, int] = (6, 14)

    def row(self, random: random.Random) -> tuple[object, ...]:
        """The values of a row, after its data set and number."""
        pick = random.choice

        def ends() -> tuple[int, int]:
            start = pick(self.starts)
            return start, start + pick(self.lengths)

        def floats(odd: float) -> Iterator[float]:
            for end in ends():
                yield pick(_ODD) if random.random() < odd else round(end * self.step, 6)

        whole, clock = ends(), ends()
        utc = datetime.datetime.combine(self.night, datetime.time(1), datetime.UTC)
        local = datetime.datetime.combine(self.night, datetime.time(2))
        place = random.uniform(-90, 90), random.uniform(-180, 180)
        values: list[object] = [
            pick(self.keys),
            *whole,
            *floats(self.odd),
            next(floats(self.odd)),
            *floats(0.0),
            Decimal(pick(self.starts)) / 4,
            Decimal(pick(self.starts)) / 4 + Decimal(pick(self.fractions)).scaleb(-6),
            self.night + datetime.timedelta(days=pick(self.starts)),
            *(utc + quarters * _QUARTER for quarters in clock),
            local + pick(self.starts) * _QUARTER,
            [pick((1, 2, 3, 4, 5, None)) for _ in range(random.randint(0, 4))],
            self.text + "".join(pick("ab%_") for _ in range(random.randint(0, 4))),
            " ".join(
                pick(("red", "Red", "green", "blue", "")) for _ in range(random.randint(0, 4))
            ),
            *(pick(self.places) if self.places else place),
        ]
        return tuple(None if random.random() < self.nulls else value for value in values)


_PLAIN = Character()
_CHARACTERS = {
    "plain": _PLAIN,
    "ties": Character(starts=(3, 4), lengths=(0, 1), step=0.5),
    "mostly NULL": Character(nulls=0.5),
    "odd floats": Character(odd=0.4, places=((1e7, 0.0), (90.0, -1e7), (0.0, 0.0))),
    "start after end": Character(starts=range(8), lengths=(-1, -3, -8, 4)),
    "no length": Character(starts=range(6), lengths=(0,)),
    "negative": Character(starts=range(-60, -40)),
    "on the edges of bins": Character(starts=range(-6, 7, 2), lengths=(0, 2, 4), step=0.25),
    "touching": Character(starts=range(0, 20, 5), lengths=(5,), step=0.1),
    "clock put on": Character(starts=range(-8, 9), night=datetime.date(2026, 3, 29)),
    "clock put back": Character(starts=range(-8, 9), night=datetime.date(2026, 10, 25)),
    "scales of decimals": Character(starts=range(8), fractions=(0, 1, -1, 250_000, 10**9)),
    "huge and tiny": Character(lengths=(0, 1, 1, 300), step=0.001),
    "far apart": Character(starts=(-400, 0, 1, 2, 400)),
    "one key": Character(starts=range(12), keys=(1,) * 9 + (2,)),
    "long texts": Character(text="ab" * 16, starts=range(12)),
    "poles and date line": Character(
        places=((90.0, 12.0), (-90.0, 0.0), (89.9, -170.0), (1.0, 180.0), (1.0, -179.5))
    ),
    "near": Character(starts=range(3), lengths=(1, 2), places=((48.1, 11.6), (48.1, 11.7))),
}
#: Name -> the characters among which each row has one.
DATA_SETS = {
    **{name: (character,) for name, character in _CHARACTERS.items()},
    "equal rows": (_PLAIN,),
    "empty left": (_PLAIN,),
    "empty right": (_PLAIN,),
    "single rows": (Character(starts=(1,), lengths=(1,), nulls=0.0, rows=(1, 1)),),
    "mixture": tuple(_CHARACTERS.values()),
    "another mixture": tuple(_CHARACTERS.values()),
}


def _rows(random: random.Random, side: str) -> list[tuple[object, ...]]:
    """The rows of one side of all data sets; their numbers are unique."""
    rows: list[tuple[object, ...]] = []
    for case, (name, characters) in enumerate(DATA_SETS.items()):
        count = random.randint(*characters[0].rows)
        found = [random.choice(characters).row(random) for _ in range(count)]
        if name == "equal rows":
            found = found[:3] * 3
        if name == f"empty {side}":
            found = []
        rows += ((case, len(rows) + i, *values) for i, values in enumerate(found))
    return rows


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """A session for small tables, where the clock is put on and back."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    session.conf.set("spark.sql.adaptive.enabled", "false")
    session.conf.set("spark.sql.shuffle.partitions", "1")
    return session


@pytest.fixture(scope="module")
def tables(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, source = tmp_path_factory.mktemp("accelerated"), random.Random(7)
    rows = {"a": _rows(source, "left"), "b": _rows(source, "right"), "empty": []}
    for name, some in rows.items():
        frame = session.createDataFrame(some, SCHEMA).coalesce(1)
        frame.write.format("delta").save(str(folder / name))
        # The same rows, read without a look at a log: most of the time would be spent on these.
        frame.write.parquet(str(folder / "rows" / name))
        session.read.parquet(str(folder / "rows" / name)).createOrReplaceTempView(name)
    return folder


def _joins(kind: str) -> tuple[str, ...]:
    return KINDS if kind != "inequality" else ("semi", "anti")


def test_each_data_set_has_the_rows_of_the_text(
    session: SparkSession, tables: Path, thorough: bool
) -> None:
    cases, found = 0, Counter[str]()
    for kind, conditions in CONDITIONS.items():
        joins = _joins(kind)
        for number, condition in enumerate(conditions if thorough else conditions[::3]):
            for join in joins if thorough else (joins[number % len(joins)],):
                text = _query(join, f"a.case_id = b.case_id AND {condition}", "b")
                own = _compared(session, tables, kind, text, "b")
                found.update({list(DATA_SETS)[case] for case, _ in own})
                cases += len(DATA_SETS)
    print(f"\n{cases:,} cases: {sum(map(len, CONDITIONS.values()))} conditions, ", end="")
    print(f"{len(DATA_SETS)} data sets; {sum(found.values()):,} have rows")
    assert cases >= (3_000 if thorough else 350)
    assert sum(found.values()) >= cases / 2
    assert set(found) == {*DATA_SETS}


@pytest.mark.parametrize("kind", CONDITIONS)
def test_pairs_that_no_equality_makes_are_those_of_the_text(
    session: SparkSession, tables: Path, kind: str, thorough: bool
) -> None:
    joins, conditions = _joins(kind), CONDITIONS[kind]
    cases = [
        (join, conditions[-1], right) for join, right in ((joins[0], "b"), (joins[-1], "empty"))
    ]
    if thorough:
        cases = [(j, c, right) for right in ("b", "empty") for c in conditions for j in joins]
    for join, condition, right in cases:
        _compared(session, tables, kind, _query(join, condition, right), right)


def test_types_that_cannot_be_compared_are_refused(session: SparkSession, tables: Path) -> None:
    text = _query("inner", "a.t BETWEEN b.arr AND b.arr", "b")
    sources = {"a": str(tables / "a"), "b": str(tables / "b")}
    model = deltajoin.Model("refused", text, sources, str(tables / "refused"))
    with patch.object(choose, "FEW_PAIRS", 0), pytest.raises(DeltaJoinError) as raised:
        deltajoin.run(model, session)
    assert (raised.value.code, (tables / "refused").exists()) == ("SPARK_ANALYSIS", False)


@pytest.mark.parametrize("small", [True, False], ids=["whole", "lookup"])
def test_one_large_box_is_not_repeated_for_each_small_one(
    session: SparkSession, small: bool
) -> None:
    """It lies in a million bins of their size; all rows stand nine times on average at most."""
    session.sql("SELECT id * 10D AS x, id * 10D AS y FROM range(100)").createOrReplaceTempView("p")
    large = "CASE WHEN id = 7 THEN 1000D ELSE 1D END"
    at = "CASE WHEN id = 7 THEN 0D ELSE CAST(id AS DOUBLE) END"
    boxes = f"SELECT {at} AS x1, {at} + {large} AS x2, {at} AS y1, {at} + {large} AS y2"
    session.sql(f"{boxes} FROM range(1000)").createOrReplaceTempView("q")
    on = [parse_expression(f"p.{c} BETWEEN q.{c}1 AND q.{c}2") for c in "xy"]
    found = recognised(on, Sides(frozenset("q"), lambda column: "double"))
    assert found
    assert len(found.spans) == 2
    left, right = (Side(table(name), name, parse_expression) for name in "pq")

    def define(sql: str) -> str:
        session.sql(sql).createOrReplaceTempView("box_lines")
        return "box_lines"

    joined = candidates_of(found, left, replace(right, small=small), on, define)
    (row,) = session.sql(f"SELECT count(*) AS n FROM {text(joined.right)}").collect()
    assert 900 < row.n <= 9000


def _query(join: str, condition: str, right: str) -> str:
    word = f"LEFT {join.upper()}" if join in ("semi", "anti") else join.upper()
    pair = "" if join in ("semi", "anti") else ", b.id AS j, a.lo + b.hi AS x"
    case = "coalesce(a.case_id, b.case_id) AS case_id" if join == "full" else "a.case_id"
    return f"SELECT {case}, a.id AS i{pair} FROM a {word} JOIN {right} AS b ON {condition}"


def _compared(
    session: SparkSession, folder: Path, kind: str, text: str, right: str
) -> Counter[tuple[int, str]]:
    """The rows of a query, each with its data set: the same by candidates of a kind, as often."""
    own = counted(session.sql(text))
    served, ours = accelerated_rows(session, folder, text, {"a", right})
    assert set(served) == {kind}, text
    lost, added = own - ours, ours - own
    where = sorted({list(DATA_SETS)[case] for case, _ in (*lost, *added)})
    assert not where, f"{', '.join(where)}: {text}\nlost {lost}\nadded {added}"
    return own


def counted(rows: DataFrame) -> Counter[tuple[int, str]]:
    """Rows, each with its data set; in the rows of a bag their last column says how often."""
    bag = rows.columns[-1] == COUNT
    found: Counter[tuple[int, str]] = Counter()
    for row in rows.collect():
        values = list(row)
        often = values.pop() if bag else 1
        found[row[0], str(values)] += often
    return found


def accelerated_rows(
    session: SparkSession,
    folder: Path,
    text: str,
    names: Iterable[str],
    keys: Mapping[str, list[str]] = MappingProxyType({}),
) -> tuple[list[str], Counter[tuple[int, str]]]:
    """The accelerators that a plan takes, and the rows of its full query, over tables with a view
    and a folder each, whose keys are `id` but for `keys`."""
    sources = {name: str(folder / name) for name in names}
    known = {name: ["id"] for name in sources} | dict(keys)
    model = deltajoin.Model("accelerated", text, sources, str(folder / "target"), known)
    with patch.object(choose, "FEW_PAIRS", 0), patch.object(choose, "FEW_PER_KEY", 0):
        plan = deltajoin.plan(model)
        assert plan.full_query is not None
        queries = (plan.full_query, *(derived.full_query for derived in plan.derived))
        arms = [arm for query in queries if query for arm in query.arms]
        served = [found.kind for arm in arms for _, found in arm.accelerated]
        views = Views(plan)
        apart = list[Statement]()
        emitted = full_sql(plan, views, apart=apart)
    for source in plan.sources:
        view = views.scan(source.source, source.version).view
        session.table(source.source).createOrReplaceTempView(view)
    open_statements(session, [asdict(statement) for statement in apart])
    rows = session.sql(emitted)
    if SHOWN in rows.columns:
        rows = rows.where(SHOWN)
    if plan.state:  # beside what the query gives out
        rows = rows.select(*[name for name in rows.columns if not name.startswith(RESERVED_PREFIX)])
    return served, counted(rows)
