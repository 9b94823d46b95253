"""Which columns may hold values that are equal and not the same."""

from __future__ import annotations

import pytest

from deltajoin.delta.signed_zeros import joined_apart, told_apart, with_one_extreme
from deltajoin.sql.bind import bind

COLUMNS = {"t": ("k", "d", "f", "n", "a")}
TYPES = {
    ("t", "k"): "int",
    ("t", "d"): "double",
    ("t", "f"): "struct<x:float>",
    ("t", "n"): "string",
    ("t", "a"): "array<double>",
}


@pytest.mark.parametrize(
    ("outputs", "apart"),
    [
        ("d, f, n, k", "d f"),
        ("CAST(d AS string) AS t, d > 0 AS p, CAST(d AS decimal(9, 2)) AS m", ""),
        ("0 / k AS q, CAST(n AS float) AS c, k * 1e0 AS e, k * 1.0 AS m, -0.0D AS z", "q c e z"),
        ("if(k > 0, d, 0) AS i, upper(n) AS u, a[0] AS a", "i a"),
        ("arrays_zip(a, a) AS z, concat(a, a) AS c, concat(n, 'x') AS t", "z c"),
        ("d, max(d) OVER (PARTITION BY k) AS m, count(d) OVER (PARTITION BY k) AS c", "d m"),
    ],
)
def test_columns_are_told_apart_by_what_they_are_made_of(outputs: str, apart: str) -> None:
    graph = bind(f"SELECT {outputs} FROM t", COLUMNS, TYPES).graph
    assert graph is not None
    assert told_apart(graph, TYPES) == tuple(apart.split())


def test_keys_of_groups_are_not_and_extremes_are_decided_by_text() -> None:
    sql = "SELECT d, max(f) AS m, min(k) AS k, max(CAST(d AS string)) AS t FROM t GROUP BY d"
    graph = bind(sql, COLUMNS, TYPES).graph
    assert graph is not None
    assert told_apart(graph, TYPES) == ("m",)
    settled = with_one_extreme(graph, TYPES)
    assert graph.grouping is not None
    assert settled.grouping is not None
    assert [name for name, _ in set(settled.grouping.outputs) - set(graph.grouping.outputs)] == [
        "m"
    ]
    assert len(joined_apart(graph, TYPES)) == 3


def test_generated_rows_and_unions() -> None:
    generated = bind("SELECT k, e FROM t LATERAL VIEW explode(a) AS e", COLUMNS, TYPES).graph
    assert generated is not None
    assert told_apart(generated, TYPES) == ("e",)
    union = bind("SELECT k AS x FROM t UNION ALL SELECT d FROM t", COLUMNS, TYPES).graph
    assert union is None or told_apart(union, TYPES) == ("x",)
