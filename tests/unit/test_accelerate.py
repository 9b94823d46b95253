"""Join accelerators: what each kind recognises and what it must not, and that candidates hold all
pairs that match: NULL, NaN, infinities and rounding among them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from sqlglot import exp

import deltajoin
from deltajoin.accelerate import choose
from deltajoin.accelerate.choose import Sizes, accelerated, accelerators, recognised
from deltajoin.accelerate.families import as_doubles, family
from deltajoin.accelerate.protocol import Candidates, Extreme, Running, Shared, Sides, Span
from deltajoin.emit.sql import build_program
from deltajoin.errors import DeltaJoinError
from deltajoin.sql.dialect import parse_expression, text

#: Columns of both relations, `a` on the left and `b` on the right.
TYPES = {
    "day": "date", "at": "timestamp", "local": "timestamp_ntz", "till": "timestamp",
    "x": "double", "y": "double", "z": "double", "f": "float", "g": "float",
    "x1": "double", "x2": "double", "y1": "double", "y2": "double",
    "lat": "double", "lon": "double", "flat": "float", "flon": "float",
    "i": "int", "j": "int", "l": "bigint", "yes": "boolean",
    "money": "decimal(10,2)", "long": "decimal(38,0)", "fine": "decimal(28,18)",
    "s": "string", "t": "string", "folded": "string collate utf8_lcase", "code": "char(4)",
    "numbers": "array<int>", "words": "array<string>", "shares": "array<double>",
    "names": "array<string collate utf8_lcase>", "rows": "array<struct<k:int>>",
}  # fmt: skip
MANY = Sizes(1e6, 1e6, 1e6)
DOCUMENTATION = Path(__file__).parents[2] / "plugin" / "docs" / "accelerators.md"
NAN, INF = float("nan"), float("inf")
EARTH = (
    "2 * 6371 * asin(sqrt(pow(sin(radians(b.lat - a.lat) / 2), 2) + cos(radians(a.lat)) * "
    "cos(radians(b.lat)) * pow(sin(radians(b.lon - a.lon) / 2), 2)))"
)
TOKENS = "CAST(split(lower(a.s), ' ') AS ARRAY<STRING>)"
TRIGRAMS = (
    "CAST(transform(sequence(1, length(a.s) + 1), i -> substr('  ' || a.s || ' ', i, 3)) "
    "AS ARRAY<STRING>)"
)


def alike(array: str) -> str:
    """The share of their elements that an array of `a` and the same of `b` have in common."""
    both = f"{array}, {array.replace('a.', 'b.')}"
    return f"array_size(array_intersect({both})) / array_size(array_union({both}))"


ALIKE = alike("a.words")


def sides(kind: str = "inner") -> Sides:
    return Sides(frozenset({"b"}), lambda column: TYPES.get(column.name, ""), kind)


def found(*conditions: str, kind: str = "inner") -> Candidates | None:
    return accelerated(conditions, sides(kind), MANY)


def kind_of(*conditions: str, kind: str = "inner") -> str:
    candidates = found(*conditions, kind=kind)
    return candidates.kind if candidates else ""


# what is recognised -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conditions", "kind"),
    [
        (["a.at >= b.at", "a.at < b.till"], "range"),
        (["b.at <= a.at", "b.till > a.at"], "range"),
        (["(a.at) >= b.at", "((a.at < (b.till)))"], "range"),
        (["a.at BETWEEN b.at AND b.till"], "range"),
        (["b.i BETWEEN a.i AND a.j"], "range"),
        (["a.at >= b.at", "a.at < b.till OR b.till IS NULL"], "range"),
        (["a.at >= b.at", "(b.till IS NULL) OR (b.till > a.at)"], "range"),
        (["a.at <= b.till", "a.till >= b.at"], "range"),
        (["a.at >= b.at", "a.till <= b.till"], "range"),
        (["a.at >= b.at - INTERVAL 1 HOUR", "a.at <= b.at"], "range"),
        # a tolerance below zero: no row, as Spark has it
        (["a.i BETWEEN b.i + 1 AND b.i - 1"], "range"),
        (["abs(a.x - b.x) <= -0.5"], "range"),
        (["hypot(a.x - b.x, a.y - b.y) <= -1"], "distance"),
        (["a.day >= b.day", "a.day <= date_add(b.day, 3)"], "range"),
        (["a.local BETWEEN b.local AND b.local + INTERVAL 1 DAY"], "range"),
        (["a.money BETWEEN b.i AND b.money * 2"], "range"),
        (["a.i BETWEEN b.i - 5 AND b.i + 5"], "range"),
        (["abs(a.x - b.x) <= 0.5"], "range"),
        (["0.5D > abs((b.x) - a.f)"], "range"),
        (["a.x - b.x <= 5", "b.x - a.x <= 5"], "range"),
        (["hypot(a.x - b.x, a.y - b.y) <= 5"], "distance"),
        (["hypot(b.x - a.x, a.y - b.y) <= 5"], "distance"),
        (["5 > sqrt(pow(a.x - b.x, 2) + power(a.y - b.y, 2.0))"], "distance"),
        (["(a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y) < b.z"], "distance"),
        ([f"{EARTH} <= 10"], "distance"),
        ([EARTH.replace("2 * 6371", "6371.0 * 2") + " <= a.z"], "distance"),
        (["array_contains(a.numbers, b.i)"], "array"),
        (["array_contains(b.words, a.s)"], "array"),
        (["ARRAYS_OVERLAP(a.words, b.words)"], "array"),
        ([f"{ALIKE} >= 0.8"], "similarity"),
        ([f"({ALIKE}) > 0.8"], "similarity"),
        ([f"try_divide({ALIKE.replace(' / ', ', ')}) >= 0.5"], "similarity"),
        ([f"{alike(TOKENS)} >= 0.5"], "similarity"),
        ([f"{alike(TRIGRAMS)} >= 0.4"], "similarity"),
        (["startswith(a.s, b.t)"], "prefix"),
        (["a.s LIKE b.t || '%'"], "prefix"),
        (["b.s LIKE (concat(a.t, '%'))"], "prefix"),
    ],
)
def test_a_condition_is_recognised(conditions: list[str], kind: str) -> None:
    assert kind_of(*conditions) == kind


@pytest.mark.parametrize(
    "conditions",
    [
        # one direction alone, or one side alone
        ["a.at >= b.at"],
        ["a.at >= b.at", "a.till > b.at"],
        ["a.at >= a.till", "a.at < b.till"],
        # inside OR, negated, compared with something else than its own NULL
        ["a.at >= b.at AND a.at < b.till OR a.i = b.i"],
        ["NOT a.at BETWEEN b.at AND b.till"],
        ["a.i NOT BETWEEN b.i AND b.j"],
        ["a.i BETWEEN SYMMETRIC b.i AND b.j"],
        ["a.at >= b.at", "a.at < b.till OR b.at IS NULL"],
        ["a.at >= b.at", "a.at < b.till OR b.till IS NOT NULL"],
        ["a.at >= b.at", "a.at < b.till OR b.till IS NULL OR b.yes"],
        # types that are compared otherwise, or that are not known
        ["a.day BETWEEN b.at AND b.till"],
        ["a.at BETWEEN b.local AND b.local"],
        ["a.at >= b.day", "a.at < b.till + b.i"],
        ["a.day BETWEEN date_add(HOUR, 1, b.day) AND date_add(HOUR, 2, b.day)"],
        ["a.s BETWEEN b.s AND b.t"],
        ["a.i BETWEEN b.s AND b.t"],
        ["a.i BETWEEN b.words AND b.words"],
        ["a.words >= b.words", "a.words <= b.words"],
        ["a.yes BETWEEN b.yes AND b.yes"],
        ["a.unknown BETWEEN b.i AND b.j"],
        ["a.i BETWEEN my_function(b.i) AND b.unknown"],
        ["a.at BETWEEN b.at AND coalesce(b.till, current_timestamp())"],
        ["a.long BETWEEN b.fine AND b.fine"],
        ["a.fine BETWEEN coalesce(b.long, 0.5) AND greatest(b.long, b.fine)"],
        ["a.fine BETWEEN b.long * 2 AND b.long * 3"],
        # differences that may overflow
        ["abs(a.i - b.i) <= 5"],
        ["a.l - b.l <= 5", "b.l - a.l <= 5"],
        ["abs(a.money - b.money) <= 5"],
        ["abs(a.x - b.x) <= a.z + b.z"],
        ["abs(a.x - a.y) <= b.z"],
        ["abs(a.x - b.x) >= 5"],
        # distances of other forms
        ["hypot(a.x - b.x, a.y - b.y) > 5"],
        ["hypot(a.x - b.x, a.y + b.y) <= 5"],
        ["hypot(a.x - b.x, a.y - a.z) <= 5"],
        ["hypot(a.i - b.i, a.j - b.j) <= 5"],
        ["hypot(a.x - b.x, a.y - b.y) <= a.z + b.z"],
        ["sqrt(pow(a.x - b.x, 20) + pow(a.y - b.y, 20)) <= 0.5"],
        ["sqrt(pow(a.x - b.x, 2) + pow(a.y - b.y, 3)) <= 5"],
        ["pow(a.x - b.x, 2) - pow(a.y - b.y, 2) <= 5"],
        [EARTH.replace("2 * 6371", "20 * 6371") + " <= 10"],
        [EARTH.replace("2 * 6371", "6371") + " <= 10"],
        [EARTH.replace("6371", "0") + " <= 10"],
        [EARTH.replace("6371", "2000000000") + " <= 10"],
        [EARTH.replace("6371", "a.z") + " <= 10"],
        [EARTH.replace("b.lon - a.lon", "a.lat - b.lon") + " <= 10"],
        [EARTH.replace("cos(radians(a.lat)) *", "sin(radians(a.lat)) *") + " <= 10"],
        [EARTH.replace("(b.lat - a.lat)", "(a.lat - b.lat)") + " <= 10"],
        # elements that are equal otherwise than byte by byte, casts
        ["array_contains(a.shares, b.x)"],
        ["array_contains(a.numbers, b.l)"],
        ["array_contains(a.names, b.folded)"],
        ["array_contains(a.rows, b.i)"],
        ["array_contains(a.words, 'x')"],
        ["array_contains(a.words, a.s)"],
        ["NOT array_contains(a.words, b.s)"],
        ["arrays_overlap(a.numbers, b.words)"],
        ["arrays_overlap(a.unknown, b.words)"],
        # shares of other forms; size(NULL) is -1 in some sessions
        [f"{ALIKE} >= 0"],
        [f"{ALIKE} >= 1.5"],
        [f"{ALIKE} >= b.x"],
        [f"{ALIKE} <= 0.8"],
        [f"{ALIKE.replace('array_size', 'size')} >= 0.8"],
        [f"{ALIKE.replace('array_union', 'array_except')} >= 0.8"],
        [f"{ALIKE.replace('union(a.words', 'union(a.names')} >= 0.8"],
        [f"{ALIKE.replace('words', 'shares')} >= 0.8"],
        # texts
        ["a.s LIKE b.t"],
        ["a.s LIKE '%' || b.t"],
        ["a.s LIKE '%' || b.t || '%'"],
        ["a.s LIKE concat('%', b.t) || '%'"],
        ["a.s LIKE b.t || '%x'"],
        ["a.s LIKE b.t || '_'"],
        ["a.s LIKE concat(b.t, '%', b.s)"],
        ["a.s LIKE concat('x', b.t, '%')"],
        ["a.s LIKE b.t || '%' ESCAPE '/'"],
        ["a.s NOT LIKE b.t || '%'"],
        ["a.s ILIKE b.t || '%'"],
        ["a.s LIKE ALL (b.t || '%')"],
        ["startswith(a.folded, b.folded)"],
        ["startswith('x' || a.folded, 'x' || b.folded)"],
        ["startswith(a.s, b.folded)"],
        ["startswith(a.s COLLATE UTF8_LCASE, b.t)"],
        ["startswith(a.code, b.t)"],
        ["startswith(a.s, b.i)"],
        ["endswith(a.s, b.t)"],
        ["startswith(a.s, a.t)"],
    ],
    ids=lambda conditions: " AND ".join(conditions)[:90],
)
def test_a_condition_is_not_recognised(conditions: list[str]) -> None:
    assert found(*conditions) is None


@pytest.mark.parametrize("kind", ["inner", "left", "semi", "anti"])
def test_an_extreme_stands_for_all_rows_of_semi_and_anti_joins_alone(kind: str) -> None:
    candidates = found("a.i = b.i", "a.x < b.x", kind=kind)
    if kind in ("inner", "left"):
        assert candidates is None
    else:
        assert candidates
        assert candidates.extreme == Extreme("`a`.`x`", "<", "`b`.`x`")


@pytest.mark.parametrize(
    ("condition", "operator"),
    [("a.i < b.j", "<"), ("b.j < a.i", ">"), ("a.i >= b.j", ">="), ("b.j >= a.i", "<=")],
)
def test_an_extreme_is_compared_from_the_left(condition: str, operator: str) -> None:
    candidates = found(condition, kind="anti")
    assert candidates
    assert candidates.extreme == Extreme("`a`.`i`", operator, "`b`.`j`")


@pytest.mark.parametrize(
    "conditions",
    [
        ["a.i < b.i", "a.j < b.j"],
        ["a.i < b.i", "a.j <> b.j"],
        ["a.i < b.i", "a.j <=> b.j"],
        ["a.i < b.i", "a.j = b.j OR b.j IS NULL"],
        ["a.i < b.i", "a.j + b.j = 3"],
        ["a.i < b.i OR a.i IS NULL"],
        ["a.s < b.s"],
        ["a.day < b.at"],
        ["a.unknown < b.i"],
    ],
)
def test_no_extreme_stands_for_other_conditions(conditions: list[str]) -> None:
    assert found(*conditions, kind="anti") is None


@pytest.mark.parametrize("kind", ["inner", "left"])
def test_running_aggregates_stand_for_rows_that_are_aggregated_alone(kind: str) -> None:
    conditions = ["b.j < a.i", "a.s = b.s", "b.k > 1"]
    nodes = [parse_expression(sql) for sql in conditions]
    assert recognised(nodes, sides(kind)) is None
    served = recognised(nodes, replace(sides(kind), aggregated=True))
    assert served
    keys = (("`a`.`s`", "`b`.`s`"),)
    assert served.running == Running("`a`.`i`", ">", "`b`.`j`", keys)
    assert served.left == ("`a`.`i`", "`a`.`s`")
    assert served.right == ("`b`.`j`", "`b`.`s`")


@pytest.mark.parametrize(
    "conditions",
    [
        ["a.i < b.i", "a.j < b.j"],
        ["a.i < b.i", "a.j <> b.j"],
        ["a.i < b.i", "a.j <=> b.j"],
        ["a.i < b.i", "a.j = b.x"],
        ["a.i < b.x"],
        ["a.i < b.money"],
        ["a.f < b.x"],
        ["a.day < b.at"],
        ["a.unknown < b.unknown"],
        ["a.i + b.i < b.j"],
    ],
)
def test_no_running_aggregates_stand_for_other_conditions(conditions: list[str]) -> None:
    nodes = [parse_expression(sql) for sql in conditions]
    assert recognised(nodes, replace(sides(), aggregated=True)) is None


def test_few_rows_that_are_summed_are_compared(tmp_path: Path) -> None:
    """To sort the other side takes longer."""
    tables = {"days": range(20_000), "many": range(30_000), "few": range(40)}
    for name, rows in tables.items():
        write_deltalake(tmp_path / name, pa.table({"day": rows, "v": rows}))
    for name, expected in (("many", "inequality"), ("few", None)):
        sources = {each: str(tmp_path / each) for each in ("days", name)}
        sql = (
            f"SELECT d.day, sum(r.v) AS v FROM days d JOIN {name} r ON r.day <= d.day GROUP BY ALL"
        )
        model = deltajoin.Model("m", sql, sources, str(tmp_path / "t"), keys={"days": ["day"]})
        (join,) = deltajoin.plan(model).full_query.to_dict()["joins"]
        assert join.get("accelerated", {}).get("kind") == expected


def documented() -> list[tuple[str, str]]:
    """Kind and example of each row of the documentation's table that has one."""
    text = DOCUMENTATION.read_text(encoding="utf-8")
    rows = [re.split(r"(?<!\\)\|", line) for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in row[1:-1]] for row in rows]
    found = [(row[0], row[3].strip("`").replace("\\|", "|")) for row in cells if len(row) == 5]
    return [(kind, sql) for kind, sql in found if "." in sql]


@pytest.mark.parametrize(("kind", "sql"), documented())
def test_what_the_documentation_shows_is_recognised(kind: str, sql: str) -> None:
    parts = re.split(r" AND (?=\(|a\.\w+ [<>])", sql)
    assert kind_of(*parts, kind="anti") == kind


@pytest.mark.parametrize("array", [TOKENS, TRIGRAMS])
def test_the_documentation_shows_how_texts_become_sets(array: str) -> None:
    assert array.replace("a.s", "a.title") in DOCUMENTATION.read_text(encoding="utf-8")


@pytest.mark.parametrize("keyed", [False, True])
def test_the_last_row_before_is_found_by_a_range(tmp_path: Path, keyed: bool) -> None:
    sources = {name: str(tmp_path / name) for name in ("trades", "quotes")}
    numbers = list(range(5_000))
    at = pa.array(numbers, pa.timestamp("us", "UTC"))
    for path in sources.values():
        write_deltalake(path, pa.table({"k": [0] * len(numbers), "ts": at, "price": numbers}))
    on = "l.ts >= r.ts AND (l.ts < r.next_ts OR r.next_ts IS NULL)"
    quotes = (
        "SELECT k, ts, price, lead(ts) OVER (PARTITION BY k ORDER BY ts) AS next_ts FROM quotes"
    )
    sql = f"SELECT l.k, l.ts, r.price FROM trades l LEFT JOIN ({quotes}) r ON {on}"
    keys = {name: ["k", "ts"] for name in sources}
    model = deltajoin.Model(
        "m", sql + keyed * " AND l.k = r.k", sources, str(tmp_path / "t"), keys=keys
    )
    (join,) = deltajoin.plan(model).full_query.to_dict()["joins"]
    served = ["`l`.`ts` >= `r`.`ts`", "`l`.`ts` < `r`.`next_ts` OR `r`.`next_ts` IS NULL"]
    assert join.get("accelerated") == {"kind": "range", "serves": served}


def test_rows_that_the_query_filters_out_are_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cast of theirs may fail, or stretch the line."""
    monkeypatch.setattr(choose, "FEW_PAIRS", 0)
    sources = {name: str(tmp_path / name) for name in "ab"}
    numbers = list(range(5))
    texts = [str(number) for number in numbers]
    for path in sources.values():
        write_deltalake(path, pa.table({"id": numbers, "k": numbers, "s": texts, "t": texts}))
    on = "a.id >= CAST(b.s AS INT) AND a.id < CAST(b.t AS INT)"
    sql = f"SELECT a.id, b.id AS other FROM a LEFT JOIN (SELECT * FROM b WHERE k = 1) b ON {on}"
    model = deltajoin.Model("m", f"{sql} WHERE a.k = 2", sources, str(tmp_path / "t"))
    program = build_program(deltajoin.plan(model))
    measured = next(statement.sql for statement in program.apart if statement.measured)
    assert measured.count("WHERE `a`.`k` = 2") == 1
    assert measured.count("WHERE `b`.`k` = 1") == 2


# families of values -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("a.at + INTERVAL 1 DAY", "timestamp"),
        ("a.day + INTERVAL 1 DAY", ""),
        ("a.day + 1", ""),
        ("date_add(a.day, 1)", "date"),
        ("date_add(HOUR, 1, a.at)", ""),
        ("coalesce(a.day, a.at)", ""),
        ("greatest(a.i, a.x)", "double"),
        ("greatest(a.i, a.f, a.x)", "double"),
        ("greatest(a.i, a.money)", "decimal(12,2)"),
        ("coalesce(a.fine, a.long)", ""),
        ("a.long * 2", "decimal(38,0)"),
        ("a.fine * a.long", ""),
        ("a.long * 2D", "double"),
        ("1.5BD", ""),
        ("1e3", "double"),
        ("-a.money", "decimal(10,2)"),
        ("a.folded", ""),
        ("NULL", ""),
        ("'1'", ""),
    ],
)
def test_the_family_of_an_expression(sql: str, kind: str) -> None:
    assert family(parse_expression(sql), sides().type_of) == kind


def test_values_are_compared_as_doubles_of_one_size() -> None:
    def doubles(*values: str) -> list[str] | None:
        return as_doubles([parse_expression(sql) for sql in values], sides().type_of)

    assert doubles("a.i", "b.l") == ["CAST(`a`.`i` AS DOUBLE)", "CAST(`b`.`l` AS DOUBLE)"]
    assert doubles("a.day", "b.day + 1") is None
    assert doubles("a.at", "b.local") is None
    assert doubles("a.long", "b.fine") is None
    mixed = doubles("a.f", "b.x")
    assert mixed
    assert all("CAST(CAST(" in sql and "AS FLOAT) AS DOUBLE)" in sql for sql in mixed)
    # The session's time zone has hours that a wall clock leaves out; its parts keep their order.
    local = doubles("a.local", "b.local")
    assert local
    assert all("unix_date" in sql and "timestampdiff" not in sql for sql in local)


# ends of spans ------------------------------------------------------------------------------------


def test_an_end_that_is_missing_is_as_far_as_can_be() -> None:
    candidates = found("a.i >= b.i", "a.i < b.j OR b.j IS NULL")
    assert candidates
    (span,) = candidates.spans
    left, low, high = (f"CAST({name} AS DOUBLE)" for name in ("`a`.`i`", "`b`.`i`", "`b`.`j`"))
    assert span == Span((left, left), (low, f"greatest({low}, coalesce({high}, 1e300D))"))


def test_a_band_is_about_the_side_that_has_its_radius() -> None:
    for most, side in (("5", "right"), ("b.z", "right"), ("a.z", "left")):
        candidates = found(f"hypot(a.x - b.x, a.y - b.y) <= {most}")
        assert candidates
        for span in candidates.spans:
            assert (span.left[0] == span.left[1]) == (side == "right")
            assert (span.right[0] == span.right[1]) == (side == "left")


def test_a_lambda_hides_no_relation() -> None:
    """A relation `n` would be read as the argument n of the lambda."""
    candidates = found("startswith(a.s, b.t)")
    assert candidates
    assert candidates.shared
    assert "__deltajoin_length -> substring(`a`.`s`" in candidates.shared.left


def test_conditions_that_belong_together_make_a_span() -> None:
    candidates = found("a.x > b.x", "a.at >= b.at", "a.at < b.till")
    assert candidates
    assert candidates.serves == ("`a`.`at` >= `b`.`at`", "`a`.`at` < `b`.`till`")


BOX = ("a.x BETWEEN b.x1 AND b.x2", "a.y BETWEEN b.y1 AND b.y2")


@pytest.mark.parametrize(
    ("conditions", "lines"),
    [
        (BOX, 2),
        (("b.x BETWEEN a.x1 AND a.x2", "b.y >= a.y1", "b.y < a.y2"), 2),
        (("a.x1 <= b.x2", "a.x2 >= b.x1", "a.y1 <= b.y2", "a.y2 >= b.y1"), 2),
        (("abs(a.x - b.x) <= 1", "abs(a.y - b.y) <= 1"), 2),
        (("a.at >= b.at", "a.at < b.till OR b.till IS NULL", "a.i BETWEEN b.i AND b.j"), 2),
        ((*BOX, "a.i BETWEEN b.i AND b.j"), 2),
        # a value of the first line again, or a second line that nothing holds together
        ((BOX[0], "a.x >= b.y1", "a.x <= b.y2"), 1),
        ((BOX[0], "a.y BETWEEN b.x1 AND b.x2"), 1),
        ((BOX[0], "a.y >= b.x2", "a.y <= b.y2"), 1),
        ((BOX[0], "a.y >= b.y1", "a.z < b.z"), 1),
    ],
)
def test_a_box_is_of_two_lines(conditions: Sequence[str], lines: int) -> None:
    candidates = found(*conditions)
    assert candidates
    assert len(candidates.spans) == lines


def test_both_lines_of_a_box_are_served() -> None:
    candidates = found("a.i < b.j", *BOX)
    assert candidates
    assert candidates.serves == tuple(text(parse_expression(sql)) for sql in BOX)
    assert ["y1" in end for span in candidates.spans for end in span.right[:1]] == [False, True]


DOUBLES = (
    None, NAN, INF, -INF, 0.0, -0.0, 0.1, 0.2, 0.1 + 0.2, 0.3, 1.0, -1.0, 5e-324, 16777217.0, 1e16,
    -1e16, 1e200, 1e289, -1e295, 2e290, 1.1e300, -1e300, 1.7e308, -1.7e308,
)  # fmt: skip
SMALL = (
    None, NAN, INF, -INF, 0.0, -0.0, 0.1, 0.3, 1.0, -1.0, 7.0, 16777216.0, 16777217.0, 1e-44,
    1.5e-44, 3e38, -3e38,
)  # fmt: skip
WHOLE = (None, -(2**31), -3, 0, 1, 2, 5, 16777217, 2**31 - 1)
DEGREES = (None, 0.0, 45.0, 89.9999999, 90.0, -90.0, 179.99999, -180.0, 180.0, 540.0, 3e6)


def _duck(sql: str) -> str:
    return re.sub(r"(?<=\d)D\b", "", sql).replace("`", '"')


def lost(conditions: Sequence[str], columns: dict[str, Sequence[float | None]]) -> list[object]:
    """Pairs that match and are no candidates, found by DuckDB, where NaN is the greatest value,
    too, and `least`, `greatest` leave NULL out."""
    candidates = found(*conditions)
    assert candidates
    assert candidates.spans
    kinds = {"double": "DOUBLE", "float": "FLOAT", "int": "INT"}
    with duckdb.connect() as engine:
        engine.execute("CREATE MACRO hypot(p, q) AS sqrt(p * p + q * q)")
        for side in "ab":
            read = {m for sql in conditions for m in re.findall(rf"\b{side}\.(\w+)", sql)}
            engine.execute(f"CREATE TABLE {side} AS SELECT 1 AS one")
            for name in sorted(read):
                kind = kinds[TYPES[name]]
                engine.execute(f"CREATE OR REPLACE TABLE v (v {kind})")
                engine.executemany("INSERT INTO v VALUES (?)", [[v] for v in columns[name]])
                query = f"SELECT {side}.*, v.v AS {name} FROM {side}, v"
                engine.execute(f"CREATE OR REPLACE TABLE {side} AS {query}")
        meet = " AND ".join(
            f"coalesce({s.left[0]} <= {s.right[1]} AND {s.right[0]} <= {s.left[1]}, FALSE)"
            for s in candidates.spans
        )
        where = " AND ".join(f"({sql})" for sql in conditions)
        query = f"SELECT * FROM a, b WHERE {where} AND NOT ({meet}) LIMIT 5"
        return list(engine.execute(_duck(query)).fetchall())


@pytest.mark.parametrize(
    "conditions",
    [
        ["a.x >= b.x", "a.x < b.y"],
        ["a.x >= b.x", "a.x < b.y OR b.y IS NULL"],
        ["a.x >= b.x OR b.x IS NULL", "a.x < b.y OR b.y IS NULL"],
        ["a.x >= b.x OR a.x IS NULL", "a.x < b.y"],
        ["a.x >= b.x OR a.x IS NULL", "a.x < b.y OR b.y IS NULL"],
        ["a.x <= b.y", "a.y >= b.x"],
        ["a.x >= b.x", "a.y <= b.y"],
        ["a.x >= b.x OR b.x IS NULL", "a.y <= b.y OR a.y IS NULL"],
        ["abs(a.x - b.x) <= b.y"],
        ["abs(a.x - b.x) <= a.y"],
        ["abs(a.x - b.x) < 0.1"],
        ["abs(a.x - b.x) <= b.y OR b.y IS NULL"],
        ["a.x - b.x <= b.y", "b.x - a.x <= a.y"],
        ["a.x - b.x <= 3 OR a.x - b.x IS NULL", "a.x >= b.y"],
        ["a.x BETWEEN b.x AND b.y", "abs(a.z - b.z) < 1"],
    ],
    ids=" AND ".join,
)
def test_no_match_is_lost_in_a_range_of_doubles(conditions: list[str]) -> None:
    assert lost(conditions, dict.fromkeys("xyz", DOUBLES)) == []


@pytest.mark.parametrize(
    "conditions",
    [
        ["a.f >= b.x", "a.f < b.y"],
        ["a.x >= b.f", "a.x <= b.y OR b.y IS NULL"],
        ["a.f BETWEEN b.i AND b.x"],
        ["a.i >= b.f", "a.i <= b.i"],
        ["abs(a.f - b.f) <= 0.1"],
        ["abs(a.f - b.x) <= b.y"],
        ["abs(a.x - b.f) <= a.i"],
    ],
    ids=" AND ".join,
)
def test_no_match_is_lost_by_rounding(conditions: list[str]) -> None:
    columns = {**dict.fromkeys("xyfg", SMALL), "i": WHOLE}
    assert lost(conditions, columns) == []


@pytest.mark.parametrize(
    "condition",
    [
        "hypot(a.x - b.x, a.y - b.y) <= b.z",
        "hypot(b.x - a.x, a.y - b.y) <= a.z",
        "sqrt(pow(a.x - b.x, 2) + pow(a.y - b.y, 2)) < 0.3",
        "pow(a.x - b.x, 2) + pow(a.y - b.y, 2) <= b.z",
        "(a.f - b.f) * (a.f - b.f) + (a.g - b.g) * (a.g - b.g) <= 1",
    ],
)
def test_no_match_is_lost_within_a_distance(condition: str) -> None:
    few = (None, NAN, INF, -INF, 0.0, 0.1, 0.3, 1e-200, 1e16, -1e295, 1.5e300)
    floats = (None, NAN, INF, 0.0, 0.1, 1.1, 16777216.0, 1e-30)
    assert lost([condition], {**dict.fromkeys("xyz", few), **dict.fromkeys("fg", floats)}) == []


@pytest.mark.parametrize("most", [0.0, 0.001, 111.2, 10_007.6, 20_015.08, 30_000.0])
def test_no_match_is_lost_on_earth(most: float) -> None:
    columns = dict.fromkeys(("lat", "lon", "flat", "flon"), DEGREES)
    assert lost([f"{EARTH} <= {most}"], columns) == []
    floats = EARTH.replace(".lat", ".flat").replace(".lon", ".flon")
    assert lost([f"{floats} <= {most}"], columns) == []


# which is taken -----------------------------------------------------------------------------------


RANGE = ("a.i >= b.i", "a.i <= b.j")


def test_few_pairs_are_compared_one_by_one() -> None:
    assert accelerated(RANGE, sides(), Sizes(1_000, 10_000, 10_000)) is None
    assert accelerated(RANGE, sides(), Sizes(1_000, 1e6, 1e6)) is not None


@pytest.mark.parametrize(
    ("conditions", "kind", "sizes", "why"),
    [
        (["a.x < b.x"], "inner", Sizes(1e3, 1e3, 1e3), "about 1,000,000 pairs are compared, few"),
        (["a.i = b.i", "a.x < b.x"], "left", Sizes(1e9, 1e6, 10), "about 10 rows a key are comp"),
        (["`a`.x < b.x"], "inner", MANY, "one by one: no accelerator recognises a.x < b.x"),
        (["a.x BETWEEN b.x AND b.y"], "full", MANY, "no accelerator serves full joins"),
        (["a.x BETWEEN b.x AND b.y"], "inner", MANY, ""),
        (["a.i = b.i", "b.x < 3"], "inner", MANY, ""),
    ],
)
def test_it_is_told_why_rows_are_compared(
    conditions: list[str], kind: str, sizes: Sizes, why: str
) -> None:
    told = choose.why_compared(conditions, sides(kind), sizes)
    assert why in told
    assert bool(why) == bool(told)


def test_an_equality_with_few_rows_a_key_needs_no_accelerator() -> None:
    on = (*RANGE, "a.l = b.l")
    assert accelerated(on, sides(), Sizes(1e9, 1e6, 49)) is None
    assert accelerated(on, sides(), Sizes(1e9, 1e6, 5_000)) is not None
    # An equality of the right side alone, or within one expression, joins nothing.
    for other in ("b.l = 3", "a.l + b.l = 3", "b.l = b.i"):
        assert accelerated((*RANGE, other), sides(), Sizes(1e9, 49, 49)) is not None


def test_equalities_alone_ask_no_accelerator(broken: Broken) -> None:
    assert accelerated(["a.i = b.i", "a.j <> b.j"], sides(), MANY) is None
    assert broken.asked == 0


def test_the_first_kind_that_recognises_a_condition_serves() -> None:
    assert kind_of("array_contains(a.words, b.s)", *RANGE) == "array"
    assert kind_of(*RANGE, "startswith(a.s, b.t)") == "prefix"
    assert kind_of(*RANGE, kind="anti") == "range"


# kinds of other packages --------------------------------------------------------------------------


@dataclass
class Broken:
    """A kind of another package, before it is told what to give."""

    name: str = "broken"
    joins: frozenset[str] = frozenset({"inner"})
    gives: Any = None
    error: Exception | None = None
    asked: int = field(default=0)

    def recognise(self, conditions: Sequence[exp.Expr], sides: Sides) -> Candidates | None:
        self.asked += 1
        for condition in conditions:  # what it does with them is its own affair
            condition.replace(exp.true())
        if self.error:
            raise self.error
        return self.gives


def registered(monkeypatch: pytest.MonkeyPatch, load: object) -> None:
    point = SimpleNamespace(name="broken", value="package:Broken", load=load)

    def entry_points(group: str) -> list[object]:
        return [point] if group == choose.ENTRY_POINTS else []

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    accelerators.cache_clear()


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broken]:
    kind = Broken()
    registered(monkeypatch, lambda: lambda: kind)
    yield kind
    accelerators.cache_clear()


ONLY_THEIRS = "levenshtein(a.s, b.s) <= 2"


def test_a_kind_of_another_package_comes_after_ours(broken: Broken) -> None:
    lengths = ("length(`a`.`s`)", "length(`b`.`s`)")
    broken.gives = Candidates("broken", (ONLY_THEIRS,), shared=Shared(*lengths))
    assert kind_of(ONLY_THEIRS) == "broken"
    assert kind_of(ONLY_THEIRS, *RANGE) == "range"
    assert broken.asked == 1
    assert kind_of(ONLY_THEIRS, kind="left") == ""
    assert broken.asked == 1


@pytest.mark.parametrize(
    ("gives", "error", "said"),
    [
        (None, RuntimeError("no idea"), "the accelerator broken failed: no idea"),
        (Candidates("broken", ()), None, "it names no candidates"),
        (
            Candidates("broken", (), shared=Shared("`b`.`s`", "`a`.`s`")),
            None,
            "`b`.`s` is no expression over the left side",
        ),
        (
            Candidates("broken", (), (Span(("0D", "0D"), ("`b`.`x`", "`b`.`x`")),)),
            None,
            "0D is no expression over the left side",
        ),
        (
            Candidates("broken", (), shared=Shared("length(`a`.`s`", "`b`.`i`")),
            None,
            "the accelerator broken failed",
        ),
        ("`a`.`s` = `b`.`s`", None, "the accelerator broken failed"),
        (
            Candidates("broken", (), running=Running("`a`.`x`", "<", "`b`.`x`")),
            None,
            "running aggregates can't serve a join whose right rows are given out",
        ),
        (
            Candidates("broken", (), extreme=Extreme("`a`.`x`", "<", "`b`.`x`")),
            None,
            "an extreme can't serve a join of type inner",
        ),
    ],
)
def test_a_broken_kind_is_named(
    broken: Broken, gives: Any, error: Exception | None, said: str
) -> None:
    broken.gives, broken.error = gives, error
    with pytest.raises(DeltaJoinError, match="ACCELERATOR_FAILED") as raised:
        found(ONLY_THEIRS)
    assert said in str(raised.value)
    assert "levenshtein" in str(raised.value)


def test_a_broken_kind_stops_a_run_before_it_writes(
    broken: Broken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken.error = RuntimeError("no idea")
    monkeypatch.setattr(choose, "FEW_PAIRS", 0)
    sources = {name: str(tmp_path / name) for name in "ab"}
    for place in sources.values():
        write_deltalake(place, pa.table({"s": ["x", "y"]}))
    sql = f"SELECT a.s, b.s AS t FROM a JOIN b ON {ONLY_THEIRS}"
    with pytest.raises(DeltaJoinError, match="ACCELERATOR_FAILED"):
        deltajoin.plan(deltajoin.Model("m", sql, sources, str(tmp_path / "target")))
    assert {path.name for path in tmp_path.iterdir()} == set("ab")


def test_a_kind_changes_no_condition(broken: Broken) -> None:
    nodes = [parse_expression(ONLY_THEIRS), parse_expression("a.i < b.i")]
    recognised(nodes, sides())
    assert broken.asked == 1
    assert [type(node) for node in nodes] == [exp.LTE, exp.LT]


def no_module() -> object:
    raise ImportError("no module named package")


@pytest.mark.parametrize(
    "load",
    [
        no_module,
        lambda: object,
        lambda: lambda: Broken(joins=frozenset()),
        lambda: lambda: Broken(joins=frozenset({"inner", "full"})),
    ],
)
def test_a_kind_that_cannot_be_loaded_is_named(
    monkeypatch: pytest.MonkeyPatch, load: object
) -> None:
    registered(monkeypatch, load)
    try:
        with pytest.raises(DeltaJoinError, match="ACCELERATOR_FAILED") as raised:
            found(ONLY_THEIRS)
        assert "the accelerator broken of package:Broken can't be loaded" in str(raised.value)
    finally:
        accelerators.cache_clear()
