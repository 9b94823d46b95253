"""How each aggregate is kept, from the types of columns alone; what a target stores for it."""

from __future__ import annotations

import pytest
import sqlglot

from deltajoin.delta.state import (
    GROUPS,
    INSERTS,
    LINEAR,
    group_state,
    hidden_columns,
    kept_aggregates,
)
from deltajoin.graph import JoinGraph
from deltajoin.sql.aggregates import aggregate_calls
from deltajoin.sql.bind import bind
from deltajoin.sql.dialect import Verbatim
from deltajoin.sql.kinds import Exact, exact_type

TYPES = {
    "t": "tinyint",
    "i": "int",
    "b": "bigint",
    "d": "decimal(10,2)",
    "w": "decimal(30,2)",
    "e": "decimal(20,8)",
    "f": "double",
    "s": "string",
}
COLUMNS = {"x": ("k", *TYPES), "y": ("k", "n")}


def graph(aggregates: str, tail: str = "GROUP BY y.n") -> JoinGraph:
    bound = bind(f"SELECT {aggregates} FROM x JOIN y ON x.k = y.k {tail}", COLUMNS)
    assert bound.graph is not None, bound.reason
    return bound.graph


def types() -> dict[tuple[str, str], str]:
    return {("x", name): kind for name, kind in TYPES.items()}


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("i + b", Exact(20, 0, True)),
        ("-t * 2", Exact(10, 0, True)),
        ("d + 1", Exact(11, 2)),
        ("d * d", Exact(21, 4)),
        ("d * 1.5", Exact(13, 3)),
        ("coalesce(d, 0)", Exact(12, 2)),
        ("CASE WHEN s = 'a' THEN i ELSE NULL END", Exact(10, 0, True)),
        ("if(i > 1, d, e)", Exact(20, 8)),
        ("CAST(f AS DECIMAL(12, 3))", Exact(12, 3)),
        ("s::bigint", Exact(20, 0, True)),
        ("abs(i)", Exact(10, 0, True)),
        ("3000000000", Exact(20, 0, True)),
        ("length(s) + 1", Exact(10, 0, True)),
        ("nvl2(s, i, d)", Exact(12, 2)),
        ("round(d)", Exact(9, 0)),
        ("round(d * d, 3)", Exact(21, 3)),
        ("ceil(d)", Exact(9, 0)),
        ("i % 2", Exact(10, 0, True)),
        ("d * w", Exact(38, 4)),
        ("d + CAST(d AS DECIMAL(38, 4))", Exact(38, 4)),
    ],
)
def test_exact_types(sql: str, found: Exact) -> None:
    node = sqlglot.parse_one(sql, dialect=Verbatim)
    assert exact_type(node, lambda column: TYPES[column.name]) == found


@pytest.mark.parametrize(
    "sql",
    [
        "f",
        "s",
        "i + f",
        "i / 2",
        "e * w",
        "d + CAST(d AS DECIMAL(38, 8))",
        "round(d, -1)",
        "round(d, i)",
        "d % f",
        "1e3",
        "coalesce(i, f)",
        "if(i > 1, i, s)",
    ],
)
def test_what_is_not_certain_has_no_exact_type(sql: str) -> None:
    node = sqlglot.parse_one(sql, dialect=Verbatim)
    assert exact_type(node, lambda column: TYPES[column.name]) is None


@pytest.mark.parametrize(
    ("call", "kept"),
    [
        ("count(*)", LINEAR),
        ("count(x.f)", LINEAR),
        ("count(x.f, x.i)", LINEAR),
        ("count_if(x.f > 1)", LINEAR),
        ("sum(x.i)", LINEAR),
        ("sum(x.b + x.i)", LINEAR),
        ("sum(x.d) FILTER (WHERE x.f > 1)", LINEAR),
        ("sum(x.e)", LINEAR),
        ("sum(x.w)", LINEAR),
        ("sum(x.d * x.w)", LINEAR),
        ("sum(x.d * (1 - x.d) * (1 + x.d))", LINEAR),
        ("sum(x.e * x.w)", GROUPS),
        ("sum(CAST(x.d AS DECIMAL(38, 20)))", GROUPS),
        ("sum(CAST(x.d AS DECIMAL(25, 20)))", LINEAR),
        ("avg(x.w)", GROUPS),
        ("sum(x.f)", GROUPS),
        ("sum(x.s)", GROUPS),
        ("sum(DISTINCT x.i)", GROUPS),
        ("try_sum(x.i)", GROUPS),
        ("avg(x.i)", LINEAR),
        ("avg(x.b)", GROUPS),
        ("mean(x.d)", LINEAR),
        ("avg(x.f)", GROUPS),
        ("min(x.s)", INSERTS),
        ("max(x.i + 1)", GROUPS),
        ("max(x.f)", GROUPS),
        ("count(DISTINCT x.i)", GROUPS),
        ("percentile(x.i, 0.5)", GROUPS),
        ("percentile_cont(0.5) WITHIN GROUP (ORDER BY x.f)", GROUPS),
    ],
)
def test_how_an_aggregate_is_kept(call: str, kept: str) -> None:
    (found,) = kept_aggregates(graph(f"y.n, {call} AS a"), types())
    assert found.kept == kept


def test_state_columns_are_shared() -> None:
    """One count and one sum for each argument, whatever is made of them, HAVING included."""
    shown = graph(
        "avg(x.d) AS a, sum(x.d) AS s, 1 + sum(x.d) AS t, count(x.d) AS c, count(*) AS n",
        "GROUP BY y.n HAVING sum(x.i) > 1",
    )
    state = group_state(shown, types())
    assert state is not None
    assert shown.grouping is not None
    assert hidden_columns(shown, state) == (
        "__deltajoin_key_0",
        "__deltajoin_rows",
        "__deltajoin_count_0",
        "__deltajoin_sum_0",
        "__deltajoin_count_1",
        "__deltajoin_sum_1",
        "__deltajoin_shown",
    )


def test_a_total_has_a_constant_for_a_key() -> None:
    grouping = graph("sum(x.i) AS s", "").grouping
    assert grouping is not None
    assert (grouping.keys, grouping.key_outputs) == ((), ("__deltajoin_total",))


def test_one_key_written_twice_is_one() -> None:
    grouping = graph(
        "y.n, y.n AS again, (y.n) AS third, count(*) AS c", "GROUP BY n, y.n, 3"
    ).grouping
    assert grouping is not None
    assert (grouping.keys, grouping.key_outputs) == (("g0",), ("n",))


def test_calls_are_taken_apart() -> None:
    node = sqlglot.parse_one("sum(a) FILTER (WHERE b) + count_if(c) - first(d)", dialect=Verbatim)
    found = [(c.function, c.argument.sql() if c.argument else "") for c in aggregate_calls(node)]
    assert found == [
        ("sum", "CASE WHEN b THEN a END"),
        ("count", "CASE WHEN c THEN 1 END"),
        ("first", "d"),
    ]
