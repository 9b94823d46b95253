"""Aggregates over ordered rows: when their value is one only, by types and declared keys."""

from __future__ import annotations

import pytest

from deltajoin.delta.ties import ambiguous_aggregate, identifying_relations
from deltajoin.graph import JoinGraph
from deltajoin.sql.bind import bind

KINDS = {"id": "bigint", "k": "int", "at": "timestamp", "s": "string", "x": "double"}
COLUMNS = {"f": (*KINDS, "c"), "w": ("k", "y", "c")}
TYPES = {("f", name): kind for name, kind in KINDS.items()} | {
    ("f", "c"): "string collate UTF8_LCASE",
    ("w", "k"): "int",
    ("w", "y"): "string",
    ("w", "c"): "array<int>",
}
INNER = "FROM f JOIN w ON w.k = f.k"
LEFT = "FROM f LEFT JOIN w ON w.k = f.k"


def graph(call: str, join: str = INNER, by: str = "w.k") -> JoinGraph:
    bound = bind(f"SELECT {by} AS g, {call} AS v {join} GROUP BY {by}", COLUMNS, TYPES)
    assert bound.graph is not None, bound.reason
    return bound.graph


def is_kept(found: JoinGraph, **keys: tuple[str, ...]) -> bool:
    return ambiguous_aggregate(found, keys, TYPES) is None


@pytest.mark.parametrize(
    "call",
    [
        "sort_array(collect_list(f.s), false)",
        "array_sort(collect_set(f.at))",
        "sort_array(array_distinct(array_agg(f.s) FILTER (WHERE f.x > 1)))",
        "concat_ws(',', sort_array(collect_list(upper(f.s))))",
        "transform(sort_array(collect_list(struct(f.at, f.s))), e -> e.s)",
        "sort_array(collect_list(named_struct('a', f.at, 'b', f.k + 1)))",
        "sort_array(collect_list(CAST(f.x AS decimal(10, 2))))",
        "array_max(collect_list(f.s))",
        "size(collect_set(f.x))",
        "array_contains(collect_list(f.c), 'a')",
        "listagg(f.s, ',') WITHIN GROUP (ORDER BY f.s DESC)",
        "string_agg(DISTINCT f.s) WITHIN GROUP (ORDER BY f.s)",
        "listagg(CAST(f.at AS string)) WITHIN GROUP (ORDER BY f.x, f.at)",
        "max_by(f.at, struct(f.id, f.at))",
    ],
)
def test_values_in_an_order_of_their_own_need_no_key(call: str) -> None:
    assert is_kept(graph(call))


@pytest.mark.parametrize(
    "call",
    [
        "sort_array(collect_list(f.x))",
        "sort_array(collect_list(f.x / 2))",
        "array_sort(collect_set(f.c))",
        "sort_array(collect_list(upper(f.c)))",
        "sort_array(collect_list(struct(f.at, f.x)))",
        "listagg(f.c) WITHIN GROUP (ORDER BY f.c)",
        "listagg(f.s) WITHIN GROUP (ORDER BY f.at)",
        "max_by(f.s, f.at)",
        "any_value(f.s)",
        "mode(f.s)",
    ],
)
def test_values_that_differ_in_one_place_of_the_order_are_rebuilt(call: str) -> None:
    stop = ambiguous_aggregate(graph(call), {"w": ("k",)}, TYPES)
    assert stop is not None
    assert stop.code == "AGGREGATE_ORDER"


@pytest.mark.parametrize(
    ("call", "join", "by", "key"),
    [
        ("max_by(f.x, f.id)", INNER, "w.k", ("id",)),
        ("max_by(struct(f.x, w.y), f.id)", INNER, "f.k", ("id",)),
        ("min_by(f.x, struct(f.at, f.id))", LEFT, "f.s", ("id",)),
        ("min_by(w.y, struct(f.at, f.id))", LEFT, "f.s", ("id",)),
        ("listagg(f.c) WITHIN GROUP (ORDER BY f.at)", INNER, "w.k", ("k", "at")),
        ("any_value(w.y)", INNER, "f.k", ("id",)),
        ("first(w.y, true)", LEFT, "f.k", ("id",)),
        ("any_value(f.x)", INNER, "f.id", ("id",)),
    ],
)
def test_keys_fix_the_order(call: str, join: str, by: str, key: tuple[str, ...]) -> None:
    found = graph(call, join, by)
    assert is_kept(found, f=key, w=("k",))
    assert not is_kept(found)
    assert identifying_relations(found, {"f": key, "w": ("k",)}, TYPES, keyed=True)


@pytest.mark.parametrize(
    ("call", "join", "by"),
    [
        ("max_by(f.x, f.at)", INNER, "w.k"),
        ("any_value(w.y)", INNER, "f.s"),
        ("any_value(w.y)", "FROM f LEFT JOIN w ON w.k = f.k AND f.x > 1", "f.k"),
        ("max_by(w.c, f.id)", "FROM f JOIN w ON w.y = f.s", "f.k"),
        (
            "any_value(q.y)",
            "FROM f JOIN (SELECT k, y FROM w UNION ALL SELECT k, s FROM f) AS q ON q.k = f.k",
            "f.k",
        ),
    ],
)
def test_keys_that_fix_something_else_do_not_help(call: str, join: str, by: str) -> None:
    assert not is_kept(graph(call, join, by), f=("id",), w=("k",))


@pytest.mark.parametrize(
    ("call", "kept"),
    [
        ("max_by(q.b, q.a)", False),
        ("max_by(q.a, struct(q.b, q.a))", True),
    ],
)
def test_branches_may_give_out_other_columns(call: str, kept: bool) -> None:
    """In the first branch, `b` is what `a` is."""
    first = "SELECT k, s AS a, s AS b FROM f"
    second = "SELECT k, s AS a, y AS b FROM f JOIN w USING (k)"
    found = graph(call, f"FROM ({first} UNION ALL {second}) AS q", "q.k")
    assert is_kept(found, f=("id",), w=("k",)) == kept


@pytest.mark.parametrize(
    "call",
    [
        "collect_list(f.s)",
        "concat_ws(',', collect_set(f.s))",
        "array_sort(collect_list(f.s), (a, b) -> 0)",
        "sort_array(slice(collect_list(f.s), 1, 2))",
        "listagg(f.s, ',')",
    ],
)
def test_what_is_collected_without_an_order_is_rebuilt(call: str) -> None:
    bound = bind(f"SELECT f.k, {call} AS v {INNER} GROUP BY f.k", COLUMNS)
    assert bound.reason is not None
    assert "without an order" in bound.reason.message
