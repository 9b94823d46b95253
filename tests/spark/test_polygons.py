"""Polygons on Spark: the macros against exact arithmetic, accelerated joins against the text.

Points of a grid meet rings on it: vertices, edges, horizontal and vertical ones, concave rings,
rings that touch, cross themselves or lie in another, and what is no ring. The reference is our own:
fractions, a point moved off all boundaries and a ray to its left, edges that are solved for where
they cross. Every type of join is made in full and kept through changes of both sides; each under
one condition, or under all with `--thorough`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from random import Random
from types import SimpleNamespace
from unittest.mock import patch

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

import deltajoin
from deltajoin.accelerate import choose
from tests.spark.test_accelerated import accelerated_rows, counted

NAN, INF = math.nan, math.inf
Point = tuple[float | None, float | None]
Ring = list[Point | None] | None
Row = tuple[int, float | None, float | None, Ring]

RINGS: tuple[Ring, ...] = (
    [(0, 0), (4, 0), (4, 4), (0, 4)],
    [(0, 0), (0, 4), (4, 4), (4, 0), (0, 0)],  # the other way round, closed
    [(1, 1), (2, 1), (2, 2), (1, 2)],  # inside the first
    [(4, 1), (6, 1), (6, 3), (4, 3)],  # shares an edge with the first
    [(4, 4), (6, 4), (5, 6)],  # shares a vertex
    [(5, 2), (4, 3.5), (5, 5)],  # touches with a vertex on an edge
    [(0, 0), (6, 0), (6, 1), (1, 1), (1, 3), (6, 3), (6, 4), (0, 4)],  # concave, open to the right
    [(2, 1.5), (5, 1.5), (5, 2.5), (2, 2.5)],  # in the mouth of the former, touching nothing
    [(0, 3), (3, 6), (3, 4), (6, 5), (3, 0), (2.5, 2)],
    [(0, 0), (4, 4), (4, 0), (0, 4)],  # crosses itself
    [(-0.0, 2), (2, -0.0), (4, 2), (2, 4)],
    [(1, 1), (3, 3), (5, 5)],  # on one line
    [(3, 2), (3, 2), (3, 2)],
    [(10, 10), (11, 10), (11, 11)],
    None,
    [],
    [(1, 1)],
    [(1, 1), (3, 1)],
    [(0, 0), (4, 0), (NAN, 4)],
    [(0, 0), (4, 0), (4, INF)],
    [(0, 0), (4, 0), (1e200, 4)],
    [(0, 0), (4, 0), None, (0, 4)],
    [(0, 0), (4, 0), (4, None), (0, 4)],
)
ODD_POINTS: tuple[Point, ...] = (
    (None, 1), (1, None), (NAN, 1), (1, NAN), (INF, 1), (1, -INF), (-0.0, -0.0), (2, -0.0),
)  # fmt: skip
JOINS = ("inner", "left", "semi", "anti")
#: Name of a condition -> a macro and its arguments.
CONDITIONS = {
    "point on the left": ("point_in_polygon", "a.x", "a.y", "b.ring"),
    "point on the right": ("point_in_polygon", "b.x", "b.y", "a.ring"),
    "polygons": ("polygons_intersect", "a.ring", "b.ring"),
}
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("ring", pa.list_(pa.struct([("x", pa.float64()), ("y", pa.float64())]))),
    ]
)


@pytest.fixture(scope="module")
def rows() -> dict[str, list[Row]]:
    """Each table's points and rings, which have nothing to do with each other."""
    random = Random(11)
    grid: list[Point] = [(x / 2, y / 2) for x in range(-1, 14) for y in range(-1, 10)]
    points = {"a": [*grid, *ODD_POINTS], "b": [*random.sample(grid, 25), *ODD_POINTS]}
    more = [_random_ring(random) for _ in range(6)]
    rings = {"a": [*random.sample(RINGS, len(RINGS)), *more], "b": [*RINGS, *more[:3]]}
    return {
        name: [
            (number, *point, rings[name][number % len(rings[name])])
            for number, point in enumerate(points[name])
        ]
        for name in points
    }


def _random_ring(random: Random) -> Ring:
    return [
        (random.randint(0, 12) / 2, random.randint(0, 12) / 2) for _ in range(random.randint(3, 7))
    ]


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path, rows: dict[str, list[Row]]) -> Path:
    for name, own in rows.items():
        write_deltalake(str(tmp_path / name), _table(own))
    _show(spark, tmp_path)
    return tmp_path


def _table(rows: Sequence[Row]) -> pa.Table:
    def ring(of: Ring) -> list[dict[str, float | None] | None] | None:
        return None if of is None else [p and {"x": p[0], "y": p[1]} for p in of]

    columns = zip(*((*row[:3], ring(row[3])) for row in rows), strict=True)
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def _show(spark: SparkSession, folder: Path) -> None:
    for name in ("a", "b"):
        spark.read.format("delta").load(str(folder / name)).createOrReplaceTempView(name)


def cases(request: pytest.FixtureRequest) -> list[tuple[str, str]]:
    """Types of joins and conditions."""
    if request.config.getoption("--thorough"):
        return [(join, name) for join in JOINS for name in CONDITIONS]
    return list(zip(JOINS, [*CONDITIONS, "point on the left"], strict=True))


def query(macros: SimpleNamespace, join: str, name: str) -> str:
    macro, *arguments = CONDITIONS[name]
    alone = join in ("semi", "anti")
    word, shown = (f"LEFT {join}", "a.id") if alone else (join, "a.id, b.id AS other")
    on = getattr(macros, macro)(*arguments)
    return f"SELECT {shown} FROM a {word} JOIN b ON {on}"


def expected(rows: dict[str, list[Row]], join: str, name: str) -> Counter[tuple[int | None, ...]]:
    """The rows of a join by the reference."""
    matches: dict[str, Callable[[Row, Row], bool]] = {
        "point on the left": lambda a, b: is_inside(a[1:3], b[3]),
        "point on the right": lambda a, b: is_inside(b[1:3], a[3]),
        "polygons": lambda a, b: intersect(a[3], b[3]),
    }
    found = Counter[tuple[int | None, ...]]()
    for a in rows["a"]:
        others = [b[0] for b in rows["b"] if matches[name](a, b)]
        if join in ("semi", "anti"):
            found[(a[0],)] += bool(others) == (join == "semi")
        else:
            none = [None] if join == "left" and not others else []
            found.update((a[0], other) for other in [*others, *none])
    return +found


# the reference ------------------------------------------------------------------------------------

Exact = tuple[Fraction, Fraction]
#: Above all boundaries by less than anything on the grid lies apart, to the right by much less.
UP, RIGHT = Fraction(1, 10**6), Fraction(1, 10**12)


def vertices(ring: Ring) -> list[Exact]:
    """Those of a ring; none where nothing matches it."""
    numbers = [c for p in ring or [None] for c in (p or (None,))]
    if len(ring or ()) < 3 or any(n is None or not abs(n) < 1e150 for n in numbers):
        return []
    return [(Fraction(x), Fraction(y)) for x, y in ring]  # type: ignore[misc, union-attr]


def edges(ring: list[Exact]) -> list[tuple[Exact, Exact]]:
    return [*pairwise(ring), (ring[-1], ring[0])] if ring else []


def is_inside(point: Point, ring: Ring) -> bool:
    x, y = point
    if x is None or y is None or not math.isfinite(x) or not math.isfinite(y):
        return False
    return _is_inside(Fraction(x) + RIGHT, Fraction(y) + UP, vertices(ring))


def _is_inside(x: Fraction, y: Fraction, ring: list[Exact]) -> bool:
    crossed = 0
    for (x1, y1), (x2, y2) in edges(ring):
        if min(y1, y2) < y < max(y1, y2):
            crossed += x1 + (y - y1) / (y2 - y1) * (x2 - x1) < x
    return crossed % 2 == 1


def intersect(one: Ring, other: Ring) -> bool:
    a, b = vertices(one), vertices(other)
    if not a or not b:
        return False
    if any(_meet(*e, *f) for e in edges(a) for f in edges(b)):
        return True
    return any(_is_inside(*p, b) for p in map(_moved, a)) or any(
        _is_inside(*p, a) for p in map(_moved, b)
    )


def _moved(point: Exact) -> Exact:
    return point[0] + RIGHT, point[1] + UP


def _cross(one: Exact, other: Exact) -> Fraction:
    return one[0] * other[1] - one[1] * other[0]


def _from(start: Exact, end: Exact) -> Exact:
    return end[0] - start[0], end[1] - start[1]


def _meet(p: Exact, q: Exact, r: Exact, s: Exact) -> bool:
    """Two edges have a point in common."""
    one, other, apart = _from(p, q), _from(r, s), _from(p, r)
    if across := _cross(one, other):
        return 0 <= _cross(apart, other) / across <= 1 and 0 <= _cross(apart, one) / across <= 1
    return _is_on(p, r, s) or _is_on(q, r, s) or _is_on(r, p, q) or _is_on(s, p, q)


def _is_on(point: Exact, start: Exact, end: Exact) -> bool:
    one, other = _from(point, start), _from(point, end)
    return _cross(one, other) == 0 and one[0] * other[0] + one[1] * other[1] <= 0


# tests --------------------------------------------------------------------------------------------


def test_the_rows_are_those_of_the_text_and_of_geometry(
    spark: SparkSession,
    folder: Path,
    rows: dict[str, list[Row]],
    macros: SimpleNamespace,
    request: pytest.FixtureRequest,
) -> None:
    for join, name in cases(request):
        text = query(macros, join, name)
        served, ours = accelerated_rows(spark, folder, text, "ab")
        assert served == ["range"], text
        assert ours == counted(spark.sql(text)), f"{join}, {name}"
        own = spark.sql(text).collect()
        exact = expected(rows, join, name)
        assert Counter(map(tuple, own)) == exact, f"{join}, {name}"
        assert len(exact) > 10


def test_a_point_is_in_one_of_the_polygons_that_share_edges(
    spark: SparkSession, macros: SimpleNamespace
) -> None:
    """Triangles about a point, whose coordinates round: each point of their edges is in one."""
    rim = [(math.cos(k / 7 * math.tau) + 0.1, math.sin(k / 7 * math.tau) + 0.3) for k in range(7)]
    corners = [((0.1, 0.3), rim[k], rim[(k + 1) % 7]) for k in range(7)]
    points = []
    for _, (x1, y1), (x2, y2) in corners:
        for share in (0.1, 1 / 3, 0.5, 0.7):
            points.append((0.1 + share * (x1 - 0.1), 0.3 + share * (y1 - 0.3)))
            points.append((0.1 + share / 2 * (x1 + x2 - 0.2), 0.3 + share / 2 * (y1 + y2 - 0.6)))
    tables = {
        "p": _table([(i, x, y, None) for i, (x, y) in enumerate(points)]),
        "t": _table([(i, None, None, list(ring)) for i, ring in enumerate(corners)]),
    }
    for name, table in tables.items():
        spark.createDataFrame(table).createOrReplaceTempView(f"shared_{name}")
    on = macros.point_in_polygon("p.x", "p.y", "t.ring")
    joined = f"SELECT p.id FROM shared_p p JOIN shared_t t ON {on}"
    assert Counter(row.id for row in spark.sql(joined).collect()) == Counter(range(len(points)))


def test_changes_of_both_sides_are_followed(
    spark: SparkSession,
    folder: Path,
    rows: dict[str, list[Row]],
    macros: SimpleNamespace,
    request: pytest.FixtureRequest,
    thorough: bool,
) -> None:
    models = {
        (join, name): deltajoin.Model(
            f"{join} {name}".replace(" ", "_"),
            query(macros, join, name),
            {table: str(folder / table) for table in rows},
            str(folder / f"target {join} {name}"),
            {table: ["id"] for table in rows},
            mode="incremental",
        )
        for join, name in cases(request)[:: 1 if thorough else 3]
    }
    with patch.object(choose, "FEW_PAIRS", 0), patch.object(choose, "FEW_PER_KEY", 0):
        for model in models.values():
            assert deltajoin.run(model, spark).strategy == "full"
        changed = {name: _changed(folder, name, own) for name, own in rows.items()}
        for (join, name), model in models.items():
            plan = deltajoin.plan(model).to_dict()
            assert "accelerated" in str(plan["paths"]), plan
            record = deltajoin.run(model, spark)
            assert record.strategy == "incremental", record.detail
            found = Counter(map(tuple, deltajoin.read(model, spark).collect()))
            assert found == expected(changed, join, name), f"{join}, {name}"
            assert found != expected(rows, join, name)


def _changed(folder: Path, name: str, rows: list[Row]) -> list[Row]:
    """Delete, insert and update rows of a table; the rows that it has then."""
    table = DeltaTable(str(folder / name))
    moved, turned = {3, 9, 17, 26}, {0, 1, 6}
    table.delete("id IN (2, 5, 12)")
    table.update(predicate="id IN (3, 9, 17, 26)", updates={"x": "x + 0.5", "y": "1.5"})
    kept = [row for row in rows if row[0] not in {2, 5, 12}]
    kept = [
        (i, x if x is None else x + 0.5, 1.5, r) if i in moved else (i, x, y, r)
        for i, x, y, r in kept
    ]
    turned_rows: list[Row] = [(i, x, y, RINGS[8 + i]) for i, x, y, _ in kept if i in turned]
    added: list[Row] = [(1000 + i, 0.5 * i, 2.0, ring) for i, ring in enumerate(RINGS[:9])]
    table.delete("id IN (0, 1, 6)")
    write_deltalake(str(folder / name), _table([*turned_rows, *added]), mode="append")
    return [*(row for row in kept if row[0] not in turned), *turned_rows, *added]
