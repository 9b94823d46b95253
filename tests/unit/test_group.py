"""GROUP BY as it is written: aliases of the list, ALL, conditions, aggregates of odd syntax."""

from __future__ import annotations

import pytest

from deltajoin.graph import Grouping
from deltajoin.sql.bind import bind

COLUMNS = {"f": ("id", "k", "x"), "w": ("k", "y")}
JOIN = "FROM f JOIN w ON w.k = f.k"


def grouping(sql: str) -> Grouping:
    bound = bind(sql, COLUMNS)
    assert bound.graph is not None, bound.reason
    assert bound.graph.grouping is not None
    return bound.graph.grouping


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            f"SELECT f.k, sum(y) AS s {JOIN} GROUP BY ALL",
            f"SELECT f.k, sum(y) AS s {JOIN} GROUP BY 1",
        ),
        (f"SELECT count(*) AS n {JOIN} GROUP BY ALL", f"SELECT count(1) AS n {JOIN}"),
        (
            f"SELECT f.k, sum(y) AS s, (sum(y)) + 1 AS t {JOIN} GROUP BY f.k",
            f"SELECT f.k, sum(y) AS s, s + 1 AS t {JOIN} GROUP BY f.k",
        ),
        (
            f"SELECT f.k + 1 AS a, (f.k + 1) * sum(y) AS s {JOIN} GROUP BY f.k + 1",
            f"SELECT f.k + 1 AS a, a * sum(y) AS s {JOIN} GROUP BY a",
        ),
    ],
)
def test_keys_and_aliases_are_written_out(one: str, other: str) -> None:
    assert grouping(one) == grouping(other)


def test_a_column_goes_before_an_alias() -> None:
    found = grouping(f"SELECT f.k AS x, sum(x) AS s {JOIN} GROUP BY f.k")
    assert found.outputs == (("x", "`input`.`g0`"), ("s", "sum(`input`.`c0`)"))


@pytest.mark.parametrize("by", ["a, b", "1, 2", "ALL"])
def test_an_alias_of_an_alias_is_no_key(by: str) -> None:
    """Spark refuses it."""
    bound = bind(f"SELECT f.k + 1 AS a, a + 1 AS b, sum(y) AS s {JOIN} GROUP BY {by}", COLUMNS)
    assert bound.reason is not None
    assert bound.reason.code == "AGGREGATE"


def test_a_condition_is_a_boolean() -> None:
    sql = f"SELECT f.k, sum(y) AS s {JOIN} GROUP BY f.k HAVING"
    assert grouping(f"{sql} sum(y) + 1").having == "CAST(sum(`input`.`c0`) + 1 AS BOOLEAN)"
    assert grouping(f"{sql} (sum(y) + 1 > 2)").having == "(sum(`input`.`c0`) + 1 > 2)"


@pytest.mark.parametrize("name", ["any", "ANY", "some", "every", "bool_or"])
def test_any_is_an_aggregate_like_others(name: str) -> None:
    found = grouping(f"SELECT f.k, NOT {name}(y > 1) AND true AS b {JOIN} GROUP BY f.k")
    assert found.outputs[1] == ("b", f"NOT {name}(`input`.`c0` > 1) AND true")


def test_any_stands_after_like_too() -> None:
    found = bind(f"SELECT f.id, f.x LIKE ANY ('a%', 'b%') AS l {JOIN}", COLUMNS).graph
    assert found is not None
    assert found.projections[1].sql == "`f`.`x` LIKE ANY ('a%', 'b%')"
