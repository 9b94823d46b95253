"""Columns of unlike types that are equal, or stand for each other."""

from __future__ import annotations

from decimal import Decimal

import pytest

from deltajoin.delta.missing import missing_of_unknown_type
from deltajoin.sql.bind import bind
from tests.property.cases import Case, Change, Commit, Table
from tests.property.oracle import check, maker_of

Columns = tuple[tuple[str, str], ...]


def case(seed: int, query: str, **tables: Columns) -> Case:
    made = tuple(Table(name, columns, (), ()) for name, columns in tables.items())
    return Case(seed, made, (), (), (), (), query=query)


@pytest.mark.parametrize("query", [
    "SELECT a.k, c.v FROM a JOIN b ON a.x = b.y JOIN c ON c.z = b.y",
    "SELECT a.k, c.v FROM b JOIN c ON c.z = b.y LEFT JOIN a ON a.x = b.y",
])  # fmt: skip
@pytest.mark.parametrize(("between", "handed_on"), [("string", True), ("int", False)])
def test_values_go_on_through_columns_of_their_type(
    query: str, between: str, handed_on: bool
) -> None:
    """'007' = 7 = '7': the texts of a change don't bound those of `c` by way of a number."""
    narrowed = set[str]()
    for seed in range(30):
        tables = {
            "a": (("k", "int"), ("x", "string")),
            "b": (("y", between), ("w", "int")),
            "c": (("z", "string"), ("v", "int")),
        }
        maker = maker_of(case(seed, query, **tables))
        assert maker is not None
        program = maker.program(maker.plan(0, {"a": "insert_only"}))
        narrowed |= {scan.table.split()[0] for scan in program.narrowed}
    assert "b" in narrowed
    assert ("c" in narrowed) == handed_on


GROUPS = "(SELECT k, sum(d) AS s, avg(d) AS m FROM a GROUP BY k) AS g"
UNKNOWN = GROUPS.replace("avg(d)", "try_sum(d)")


@pytest.mark.parametrize("query", [
    f"SELECT b.k, concat(coalesce(g.s, b.i), ' EUR') AS price FROM {GROUPS} FULL JOIN b "
    "ON g.k = b.k",
    "SELECT b.k, concat(coalesce(a.d, b.i), ' EUR') AS price FROM a FULL JOIN b ON a.k = b.k",
    "SELECT a.k, b.k AS bk, b.i FROM a FULL JOIN b ON a.k = b.k "
    "WHERE concat(coalesce(a.d, b.i), ' EUR') LIKE '%.00 EUR'",
    f"SELECT g.k, b.k AS bk, b.i FROM {GROUPS} FULL JOIN b ON g.k = b.k "
    "WHERE concat(coalesce(g.s, b.i), ' EUR') LIKE '%.00 EUR'",
    "SELECT u.k, b.k AS bk, b.i FROM (SELECT k, d FROM a UNION ALL SELECT k, d FROM a) AS u "
    "FULL JOIN b ON u.k = b.k WHERE concat(coalesce(u.d, b.i), ' EUR') LIKE '%.00 EUR'",
])  # fmt: skip
def test_what_is_missing_is_null_of_its_type(query: str) -> None:
    """5.00 EUR, not 5 EUR."""
    a = Table("a", (("k", "int"), ("d", "decimal(6,2)")), (), ((0, (1, Decimal("7.00"))),))
    b = Table("b", (("k", "int"), ("i", "int")), (), ((0, (1, 3)),))
    added = Commit("b", (Change("insert", 1, (2, 5)),))
    played = Case(1, (a, b), (), (), (), ((added,),), query=query)
    outcomes = list(check(played))
    assert [(outcome.changed, outcome.problem) for outcome in outcomes] == [(True, "")]


@pytest.mark.parametrize(
    ("output", "kept"),
    [
        ("concat(coalesce(g.m, b.i), ' EUR')", False),
        ("coalesce(g.m, b.i) + 1", False),
        ("coalesce(g.m, b.i)", True),
        ("g.m", True),
        ("g.m IS NULL", True),
        ("CASE WHEN b.i > g.m THEN 1 ELSE g.s END", True),
        ("concat(g.s, b.i)", True),
    ],
)
def test_nothing_is_computed_of_what_is_missing_and_of_unknown_type(
    output: str, kept: bool
) -> None:
    columns = {"a": (("k", "int"), ("d", "decimal(6,2)")), "b": (("k", "int"), ("i", "int"))}
    query = f"SELECT b.k, {output} AS x FROM {UNKNOWN} FULL JOIN b ON g.k = b.k"
    maker = maker_of(case(0, query, **columns))
    assert maker is not None
    stop = missing_of_unknown_type(maker.graph, maker.described.types)
    assert (stop is None) == kept
    assert stop is None or stop.code == "OUTER_JOIN"


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("coalesce(g.m, b.i) > 1", False),
        ("g.m IS NULL", True),
        ("g.m > b.i OR g.m IS NULL", True),
        ("coalesce(g.s, b.i) > 1", True),
    ],
)
def test_no_condition_is_computed_of_what_is_missing_and_of_unknown_type(
    condition: str, kept: bool
) -> None:
    types = {("a", "k"): "int", ("a", "d"): "decimal(6,2)", ("b", "k"): "int", ("b", "i"): "int"}
    query = f"SELECT b.k FROM {UNKNOWN} FULL JOIN b ON g.k = b.k WHERE {condition}"
    reason = bind(query, {"a": ("k", "d"), "b": ("k", "i")}, types).reason
    assert (reason is None) == kept
    assert reason is None or reason.code == "OUTER_JOIN"


def test_a_field_of_what_is_missing() -> None:
    types = {("a", "s"): "struct<f:int>", ("b", "k"): "int"}
    query = "SELECT b.k FROM a FULL JOIN b ON a.s.f = b.k WHERE coalesce(a.s.f, b.k) > 1"
    graph = bind(query, {"a": ("s",), "b": ("k",)}, types).graph
    assert graph is not None
    conditions = [p.sql for core in graph.branches for p in core.predicates]
    assert "coalesce(CAST(NULL AS struct<f:int>).`f`, `b`.`k`) > 1" in conditions
