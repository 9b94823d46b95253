"""GROUP BY as it is written: aliases of the list, ALL, conditions, aggregates of odd syntax."""

from __future__ import annotations

import pytest

from deltajoin.delta.state import group_state
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


@pytest.mark.parametrize(
    ("constant", "other", "made"),
    [
        ("2", "round(avg(y), 2)", "round(avg(`input`.`c0`), 2)"),
        ("-1", "round(avg(y), -1)", "round(avg(`input`.`c0`), -1)"),
        ("(7)", "sum(y) / 7", "sum(`input`.`c0`) / 7"),
        ("NULL", "max(y) IS NULL", "max(`input`.`c0`) IS NULL"),
        ("true", "bool_or(y > 1) IS TRUE", "bool_or(`input`.`c0` > 1) IS TRUE"),
        ("'a%'", "max(y) LIKE 'a%'", "max(`input`.`c0`) LIKE 'a%'"),
    ],
)
def test_a_constant_is_a_key_as_a_whole_only(constant: str, other: str, made: str) -> None:
    found = grouping(f"SELECT {constant} AS a, f.k, {other} AS b {JOIN} GROUP BY 1, 2")
    assert found.outputs == (("a", "`input`.`g0`"), ("k", "`input`.`g1`"), ("b", made))


@pytest.mark.parametrize("by", ["a, b", "1, 2", "ALL"])
def test_an_alias_of_an_alias_is_no_key(by: str) -> None:
    """Spark refuses it."""
    bound = bind(f"SELECT f.k + 1 AS a, a + 1 AS b, sum(y) AS s {JOIN} GROUP BY {by}", COLUMNS)
    assert bound.reason is not None
    assert bound.reason.code == "AGGREGATE"


def test_having_takes_an_alias_before_a_column_that_is_no_key() -> None:
    sql = f"SELECT f.k + 1 AS id, max(f.x) AS x {JOIN} GROUP BY f.id, f.k HAVING"
    assert grouping(f"{sql} x > 1").having == "(max(`input`.`c0`)) > 1"
    assert grouping(f"{sql} max(x) > 1").having == "max(`input`.`c0`) > 1"
    assert grouping(f"{sql} id > 1").having == "`input`.`g0` > 1"
    assert bind(f"{sql} f.x > 1", COLUMNS).reason is not None


def test_a_condition_is_a_boolean() -> None:
    sql = f"SELECT f.k, sum(y) AS s {JOIN} GROUP BY f.k HAVING"
    assert grouping(f"{sql} sum(y) + 1").having == "CAST(sum(`input`.`c0`) + 1 AS BOOLEAN)"
    assert grouping(f"{sql} (sum(y) + 1 > 2)").having == "(sum(`input`.`c0`) + 1 > 2)"


@pytest.mark.parametrize("name", ["any", "ANY", "some", "every", "bool_or"])
def test_any_is_an_aggregate_like_others(name: str) -> None:
    found = grouping(f"SELECT f.k, NOT {name}(y > 1) AND true AS b {JOIN} GROUP BY f.k")
    assert found.outputs[1] == ("b", f"NOT {name}(`input`.`c0` > 1) AND true")


SETS = [
    ("ROLLUP (f.k, f.x)", ["kx", "k", ""]),
    ("ROLLUP (f.k, (f.k, f.x))", ["kx", "k", ""]),
    ("CUBE (f.k, f.x)", ["kx", "k", "x", ""]),
    ("f.k, f.x WITH ROLLUP", ["kx", "k", ""]),
    ("f.k, f.x WITH CUBE", ["kx", "k", "x", ""]),
    ("f.k, f.x GROUPING SETS ((f.x), f.k, ())", ["x", "k", ""]),
    ("GROUPING SETS ((f.k, f.x), (f.k), (f.k), ())", ["kx", "k", "k", ""]),
    ("f.k, ROLLUP (f.x)", ["kx", "k"]),
    ("CUBE (f.k), GROUPING SETS ((f.x), (f.k))", ["kx", "k", "x", "k"]),
    ("GROUPING SETS (ROLLUP (f.k), (f.x))", ["k", "", "x"]),
    ("ROLLUP (g, 2)", ["kx", "k", ""]),
]


@pytest.mark.parametrize(("by", "sets"), SETS, ids=[by for by, _ in SETS])
def test_every_row_stands_once_for_each_set_of_keys(by: str, sets: list[str]) -> None:
    sql = f"SELECT f.k AS g, f.x AS h, sum(f.k) AS s, grouping_id() AS i {JOIN} GROUP BY {by}"
    found = bind(sql, COLUMNS).graph
    assert found is not None
    assert found.generation is not None
    assert found.grouping is not None
    numbers = ", ".join(map(str, range(len(sets))))
    assert [g.call for g in found.generation.generators] == [f"explode(array({numbers}))"]
    made = {o.name: o.sql for o in found.generation.outputs}
    order = [name for name, _ in found.grouping.outputs[:2]]
    assert order == ["g", "h"]
    for key, letter in zip(("g0", "g1"), "kx", strict=True):
        kept = [str(i) for i, one in enumerate(sets) if letter in one]
        column = "`input`.`r" if len(kept) == len(sets) else f"IN ({', '.join(kept)}) THEN `input`"
        if found.grouping.outputs[0 if letter == "k" else 1][1] == f"`input`.`{key}`":
            assert column in made[key].replace("(`input`.`r0`)", "`input`.`r0`")
    assert made["g2"] == "`v0`.`v0_0`"
    assert found.grouping.key_outputs[2] == "__deltajoin_key_2"


def test_the_empty_set_alone_is_a_total() -> None:
    assert grouping(f"SELECT count(*) AS n {JOIN} GROUP BY GROUPING SETS (())").keys == ()
    twice = grouping(f"SELECT count(*) AS n {JOIN} GROUP BY GROUPING SETS ((), ())")
    assert twice.keys == ("g0",)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT f.k, grouping(f.x) AS g {JOIN} GROUP BY ROLLUP (f.k)",
        f"SELECT f.k, grouping_id(f.x, f.k) AS g {JOIN} GROUP BY ROLLUP (f.k, f.x)",
        f"SELECT f.k, 1 AS one, sum(y) + 1 AS s {JOIN} GROUP BY ROLLUP (f.k, one)",
        f"SELECT count(*) AS n {JOIN} GROUP BY CUBE (f.k, f.x, f.id, y, f.k + 1, y + 1, f.x + 1)",
    ],
)
def test_sets_that_are_rebuilt(sql: str) -> None:
    bound = bind(sql, COLUMNS)
    assert bound.reason is not None
    assert bound.reason.code == "AGGREGATE"


def test_totals_of_sets_are_added_to() -> None:
    types = {(table, name): "int" for table, names in COLUMNS.items() for name in names}
    sql = f"SELECT f.k, sum(y) AS s, count(*) AS n {JOIN} GROUP BY ROLLUP (f.k)"
    found = bind(sql, COLUMNS).graph
    assert found is not None
    state = group_state(found, types)
    assert state is not None
    assert state.is_linear


def test_any_stands_after_like_too() -> None:
    found = bind(f"SELECT f.id, f.x LIKE ANY ('a%', 'b%') AS l {JOIN}", COLUMNS).graph
    assert found is not None
    assert found.projections[1].sql == "`f`.`x` LIKE ANY ('a%', 'b%')"
