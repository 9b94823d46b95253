"""What follows from a disjunction: filters of one relation each, and what all its parts share."""

from __future__ import annotations

from itertools import product

import duckdb
import pytest

from deltajoin.planner.matching import Matching
from deltajoin.planner.statistics import Statistics
from deltajoin.sql.bind import bind
from deltajoin.sql.imply import MOST_PARTS
from tests.unit import joins

COLUMNS = {"a": ("k", "x", "y"), "b": ("k", "x", "y"), "c": ("k", "x", "y")}
FROM = "SELECT a.k FROM a JOIN b ON a.k = b.k JOIN c ON a.k = c.k"


def conjuncts(condition: str) -> list[str]:
    graph = bind(f"{FROM} WHERE {condition}", COLUMNS).graph
    assert graph is not None
    return [p.sql.replace("`", "") for p in graph.predicates if p.sql not in JOINED]


JOINED = ("`a`.`k` = `b`.`k`", "`a`.`k` = `c`.`k`")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (
            "(a.x = 1 AND b.y = 'f') OR (a.x = 2 AND b.y = 'g')",
            [
                "((a.x = 1 AND b.y = 'f') OR (a.x = 2 AND b.y = 'g'))",
                "(a.x = 1 OR a.x = 2)",
                "(b.y = 'f' OR b.y = 'g')",
            ],
        ),
        (
            "(a.x = 1 AND b.y = 2 AND c.x = 3) OR (a.x BETWEEN 4 AND 5 AND a.y IS NULL)",
            [
                "((a.x = 1 AND b.y = 2 AND c.x = 3) OR (a.x BETWEEN 4 AND 5 AND a.y IS NULL))",
                "(a.x = 1 OR (a.x BETWEEN 4 AND 5 AND a.y IS NULL))",
            ],
        ),
        (
            "a.x = 1 OR (b.x > DATE '2020-01-01' AND (a.x = 3 OR a.y < b.y AND a.x = 4))",
            [
                "(a.x = 1 OR (b.x > DATE '2020-01-01' AND (a.x = 3 OR a.y < b.y AND a.x = 4)))",
                "(a.x = 1 OR (a.x = 3 OR a.x = 4))",
            ],
        ),
        (
            "(a.x = b.x AND a.y = 1) OR (b.y = 2 AND b.x = a.x)",
            ["a.x = b.x", "(a.y = 1 OR b.y = 2)"],
        ),
        (
            "(a.x = b.x AND a.y = 1) OR (a.x = b.x AND b.y = 2)",
            ["a.x = b.x", "(a.y = 1 OR b.y = 2)"],
        ),
        ("a.x = 1 OR (a.x = 1 AND b.y = 2)", ["a.x = 1"]),
        ("(a.x = 1 AND b.y = 2) OR c.x = 3", None),
        ("(a.x + 1 = 2 AND b.y = 2) OR (1 / a.x > 3 AND c.y = 2)", None),
        ("(a.x = b.x) OR (a.x IS NULL)", None),
        ("NOT (a.x = 1 OR b.x = 2)", None),
        (" OR ".join(f"(a.x = {n} AND b.x = {n})" for n in range(MOST_PARTS + 1)), None),
    ],
)
def test_conjuncts(condition: str, expected: list[str] | None) -> None:
    found = conjuncts(condition)
    if expected is None:
        assert len(found) == 1
    else:
        assert found == expected


def test_a_filter_that_follows_is_counted_once() -> None:
    either = "(a.x = 1 AND b.x = 2) OR (a.x = 2 AND b.x = 1)"
    own = ("(a.x = 1 OR a.x = 2)", "(b.x = 2 OR b.x = 1)")
    statistics = Statistics({"a": 1000, "b": 1000}, {"a": ("x",), "b": ("x",)})
    given = [
        joins.predicate(f"({either})"),
        *map(joins.predicate, (own[0], "(b.x = 2 OR b.x = 1)")),
    ]
    matching = Matching(joins.graph(["a", "b"], []).relations, given, statistics)
    assert matching.rows("a") == pytest.approx(2)
    assert matching.rows("b") == pytest.approx(2)
    share = matching.pairs(1, 2).share
    assert matching.rows("a") * matching.rows("b") * share == pytest.approx(2, rel=0.01)


PARTS = ("a.x = 1", "a.y IS NULL", "b.x = 1", "NOT b.y = 1", "a.x = b.x")


def test_no_row_changes_whatever_is_null() -> None:
    con = duckdb.connect()
    values = "(VALUES (0, NULL), (1, 1), (NULL, 1), (1, 0), (0, 0), (NULL, NULL)) AS"
    rows = f"FROM {values} a(x, y), {values} b(x, y)"
    for one, two, three, four in product(PARTS, repeat=4):
        condition = f"({one} AND {two}) OR ({three} AND {four})"
        after = " AND ".join(conjuncts(condition))
        sql = f"SELECT count(*) {rows} WHERE (({condition}) IS TRUE) <> (({after}) IS TRUE)"
        assert con.execute(sql).fetchone() == (0,), condition
