"""PIVOT and UNPIVOT: which are kept, what they give out, and why others are not."""

from __future__ import annotations

import pytest

from deltajoin.errors import DeltaJoinError
from deltajoin.sql.bind import BoundQuery, bind

COLUMNS = {"t": ("i", "k", "s", "x", "f", "d"), "u": ("k", "y")}
KINDS = ("int", "int", "string", "bigint", "double", "date")
TYPES = {("t", name): kind for name, kind in zip(COLUMNS["t"], KINDS, strict=True)}


def bound(sql: str) -> BoundQuery:
    return bind(sql, COLUMNS, TYPES | {("u", "k"): "int", ("u", "y"): "string"})


KEPT = {
    "SELECT * FROM t PIVOT (sum(x) FOR s IN ('a', 'b' AS c))": "i k f d a c",
    "SELECT * FROM t PIVOT (sum(t.x) AS n, max(f) m FOR s IN ('a', NULL))": (
        "i k d a_n a_m null_n null_m"
    ),
    "SELECT * FROM t PIVOT (count(*) FOR (s, k) IN (('a', 1), ('b', -2) AS c))": (
        "i x f d {a, 1} c"
    ),
    "SELECT r.*, a FROM t r PIVOT (sum(x) FOR s IN ('a'))": "i k f d a",
    "SELECT p.a, p.k FROM t r PIVOT (sum(x) FOR s IN ('a')) AS p": "a k",
    "SELECT y, a FROM t r PIVOT (sum(x) FOR s IN ('a')) JOIN u ON u.k = r.k": "y a",
    "SELECT * FROM t PIVOT (max(x) FOR s IN ('a')) PIVOT (max(a) FOR k IN (1, 2))": "i f d 1 2",
    "SELECT * FROM (SELECT s, x FROM t) PIVOT (sum(x) FOR s IN ('a'))": "a",
    "SELECT * FROM (t JOIN u USING (k)) PIVOT (sum(x) FOR s IN ('a')) p": "k i f d y a",
    "SELECT * FROM t UNPIVOT (v FOR n IN (i, k AS `K 2`))": "s x f d n v",
    "SELECT * FROM t UNPIVOT INCLUDE NULLS ((v, w) FOR n IN ((i, s), (x, s) b)) q": "k f d n v w",
    "SELECT y FROM u WHERE EXISTS (SELECT 1 FROM t PIVOT (sum(x) FOR s IN ('a')) WHERE a = y)": "y",
    "SELECT q.n FROM u JOIN (SELECT * FROM t UNPIVOT (v FOR n IN (i, x))) q ON q.v = u.k": "n",
}


@pytest.mark.parametrize("sql", KEPT)
def test_what_is_kept_has_sparks_columns(sql: str) -> None:
    query = bound(sql)
    assert query.graph is not None, query.reason
    wanted = KEPT[sql].replace("{a, 1}", "{a,_1}").split()
    assert [name.replace(" ", "_") for name in query.graph.output_names] == wanted


OPAQUE = {
    "SELECT * FROM u, t PIVOT (sum(x) FOR s IN ('a'))": "of a join",
    "SELECT * FROM u CROSS JOIN t UNPIVOT (v FOR n IN (i, x))": "of a join",
    "SELECT * FROM (t JOIN u USING (k)) PIVOT (sum(x) FOR s IN ('a'))": "over USING",
    "SELECT * FROM t PIVOT (sum(x), max(x) FOR s IN ('a'))": "aggregates without a name",
    "SELECT * FROM t PIVOT (sum(x) FOR t.s IN ('a'))": "no column's name",
    "SELECT * FROM t PIVOT (sum(x) FOR f IN (1.5 AS a))": "whose type is double",
    "SELECT * FROM (SELECT concat_ws(s, s) AS s, x FROM t) PIVOT (sum(x) FOR s IN ('a'))": (
        "type is not known"
    ),
    "SELECT * FROM t PIVOT (sum(x) FOR k IN (1.5 AS a))": "for a int",
    "SELECT * FROM t PIVOT (sum(x) FOR k IN (1 + 1 AS a))": "no literal",
    "SELECT * FROM t PIVOT (sum(x) FOR s IN ('a''b'))": "without a name",
    "SELECT * FROM t PIVOT (sum(x) FOR s IN ('a', 'a' AS b))": "named twice",
    "SELECT * FROM t PIVOT (sum(x) FOR s IN ('i'))": "of one name",
    "SELECT * FROM t PIVOT (count(*) AS n, max(concat_ws(s, s)) AS m FOR k IN (1))": (
        "beside a count"
    ),
    "SELECT * FROM t PIVOT (percentile(x, 0.5) FOR s IN ('a'))": "PIVOT of percentile",
    "SELECT * FROM t UNPIVOT (v FOR n IN (i, s))": "types int, string",
    "SELECT * FROM t UNPIVOT (k FOR n IN (i))": "of one name",
    "SELECT * FROM t UNPIVOT (v FOR n IN (s.y))": "of a field",
}


@pytest.mark.parametrize("sql", OPAQUE)
def test_what_is_not_certain_is_rebuilt(sql: str) -> None:
    reason = bound(sql).reason
    assert reason is not None
    assert reason.code == "PIVOT"
    assert OPAQUE[sql] in reason.message


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM t PIVOT (sum(z) FOR s IN ('a'))",
        "SELECT * FROM t UNPIVOT (v FOR n IN (i, z))",
        "SELECT r.k FROM t r PIVOT (sum(x) FOR s IN ('a')) p",
        "SELECT r.a FROM t r PIVOT (sum(x) FOR s IN ('a'))",
    ],
)
def test_names_that_spark_does_not_find(sql: str) -> None:
    with pytest.raises(DeltaJoinError) as caught:
        bound(sql)
    assert caught.value.code == "UNKNOWN_COLUMN"


def grouped(sql: str) -> dict[str, str]:
    graph = bound(sql).graph
    assert graph is not None
    (derived,) = graph.derived
    assert derived.graph.grouping is not None
    return dict(derived.graph.grouping.outputs)


def test_a_count_is_null_where_all_are_numbers_and_0_beside_a_text() -> None:
    numbers = grouped("SELECT * FROM t PIVOT (count(*) AS n, sum(x) AS m FOR k IN (1 AS a))")
    assert numbers["a_n"].startswith("(CASE WHEN count(1) FILTER(")
    texts = grouped("SELECT * FROM t PIVOT (count(*) AS n, max(s) AS m FOR k IN (1 AS a))")
    assert texts["a_n"].startswith("count(1) FILTER(")
    assert numbers["a_m"].startswith("sum(")


def test_a_cte_that_is_read_twice_is_one_source() -> None:
    sql = (
        "WITH p AS (SELECT * FROM t PIVOT (sum(x) FOR s IN ('a'))) "
        "SELECT p.i, q.a FROM p JOIN p AS q ON q.i = p.k"
    )
    graph = bound(sql).graph
    assert graph is not None
    assert len(graph.derived) == 1
