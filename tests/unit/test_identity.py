"""Row identity: which output columns are the target's key."""

from __future__ import annotations

import pytest

from deltajoin.delta.derived import describe
from deltajoin.delta.identity import row_key, target_key, why_a_bag
from deltajoin.sql.bind import bind
from tests.unit.flights import COLUMNS, KEYS, SQL

NAMES = {t: tuple(e.split(":")[0] for e in text.split()) for t, text in COLUMNS.items()}
TYPES = {(t, e.split(":")[0]): e.split(":")[1] for t, text in COLUMNS.items() for e in text.split()}


def key(
    sql: str, keys: dict[str, list[str]] = KEYS, types: dict[tuple[str, str], str] = TYPES
) -> tuple[str, ...]:
    bound = bind(sql, NAMES)
    assert bound.graph is not None
    return target_key(bound.graph, {t: tuple(c) for t, c in keys.items()}, types)


FULL = "SELECT a.carrier FROM airlines a FULL JOIN airlines b ON a.carrier = b.carrier"


@pytest.mark.parametrize(
    ("sql", "undeclared", "why"),
    [
        (SQL, "planes", "no key of planes is declared"),
        (SQL.replace("f.flight,", ""), "", "f.flight, of its key, is not selected"),
        (FULL, "", "rows of several branches (UNION ALL, a full join) may be"),
        ("SELECT a.carrier, n FROM airlines a LATERAL VIEW explode(array(1, 2)) AS n", "", "a gen"),
        (
            "SELECT max(name) OVER (PARTITION BY name) AS m FROM airlines",
            "",
            "airlines.carrier, of",
        ),
        (SQL, "", ""),
        ("SELECT t.n FROM (SELECT count(*) AS n FROM planes) AS t", "planes", "there is one row"),
        ("SELECT n, year FROM planes, (SELECT count(*) AS n FROM weather)", "", "planes.tailnum,"),
        (
            "SELECT a.name, (SELECT max(year) FROM planes) AS most FROM airlines AS a",
            "airlines",
            "no key of airlines is",
        ),
    ],
)
def test_a_bag_says_why_it_is_one(sql: str, undeclared: str, why: str) -> None:
    graph = bind(sql, NAMES).graph
    assert graph is not None
    declared = {table: tuple(columns) for table, columns in KEYS.items() if table != undeclared}
    found = describe(graph, declared, TYPES)
    keys, types = found.keys, found.types
    said = why_a_bag(graph, keys, types)
    assert said.startswith(why)
    assert bool(said) == (row_key(graph, keys, types) == ())


def test_looking_up_a_unique_key_adds_nothing() -> None:
    assert key(SQL) == ("time_hour", "carrier", "flight")


def test_a_missing_declaration_makes_a_bag() -> None:
    assert key(SQL, {t: c for t, c in KEYS.items() if t != "planes"}) == ()


def test_a_key_column_outside_the_output_makes_a_bag() -> None:
    assert key(SQL.replace("f.flight,", "")) == ()


def test_a_relation_joined_on_part_of_its_key_adds_its_key() -> None:
    sql = """SELECT f.time_hour, f.carrier, f.flight, w.origin, w.time_hour AS weather_hour, w.temp
             FROM flights f JOIN weather w ON f.origin = w.origin"""
    assert key(sql) == ("time_hour", "carrier", "flight", "origin", "weather_hour")


def test_an_equated_column_stands_for_the_key() -> None:
    sql = """SELECT w.time_hour AS hour, f.carrier, f.flight FROM flights f
             JOIN weather w ON f.origin = w.origin AND f.time_hour = w.time_hour"""
    assert key(sql) == ("hour", "carrier", "flight")


def test_equality_between_types_determines_nothing() -> None:
    types = {**TYPES, ("planes", "tailnum"): "int"}
    sql = "SELECT f.time_hour, f.carrier, f.flight FROM flights f JOIN planes p USING (tailnum)"
    assert key(sql) == ("time_hour", "carrier", "flight")
    assert key(sql, types=types) == ()


def test_two_occurrences_need_both_keys() -> None:
    sql = "SELECT a.faa, b.faa AS other FROM airports a JOIN airports b ON a.name = b.name"
    assert key(sql) == ("faa", "other")


def test_what_a_left_join_attaches_is_told_apart_among_its_matches() -> None:
    sql = """SELECT p.tailnum, f.time_hour, f.carrier, f.flight FROM planes p
             LEFT JOIN flights f ON f.tailnum = p.tailnum"""
    assert key(sql) == ("tailnum", "time_hour", "carrier", "flight")
    sql = """SELECT w.origin, w.time_hour, f.carrier, f.flight FROM weather w
             LEFT JOIN flights f ON f.origin = w.origin AND f.time_hour = w.time_hour"""
    assert key(sql) == ("origin", "time_hour", "carrier", "flight")
    types = {**TYPES, ("flights", "time_hour"): "string"}
    assert key(sql, types=types) == ()


def test_a_join_below_a_left_join_is_known_by_its_own() -> None:
    """A flight has its weather, and the airline's carrier, once it is found."""
    sql = """SELECT a.carrier, w.origin, w.time_hour, f.flight FROM airlines a
             LEFT JOIN (weather w LEFT JOIN flights f
                        ON f.origin = w.origin AND f.time_hour = w.time_hour)
             ON a.carrier = f.carrier"""
    assert key(sql) == ("carrier", "time_hour", "flight")
    sql = """SELECT a.carrier, w.origin, w.time_hour, f.flight FROM airlines a
             LEFT JOIN weather w ON w.origin = a.carrier
             LEFT JOIN flights f ON f.time_hour = w.time_hour AND f.carrier = a.carrier"""
    assert key(sql) == ("carrier", "time_hour", "flight")
