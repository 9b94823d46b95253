"""Subqueries that speak of the rows around them: kept, by which join, or why not."""

from __future__ import annotations

import pytest

from deltajoin.sql.bind import bind

COLUMNS = {"t": ("k", "v", "name"), "u": ("k", "v", "a")}
TYPES = {("t", "k"): "int", ("t", "v"): "int", ("t", "name"): "string"} | {
    ("u", "k"): "int",
    ("u", "v"): "int",
    ("u", "a"): "array<int>",
}
ROWS = "SELECT 1 FROM u WHERE u.k = t.k"


@pytest.mark.parametrize(
    ("condition", "on"),
    [
        (f"EXISTS ({ROWS} GROUP BY v HAVING count(*) > 1)", ["semi", "{0} = `t`.`k`"]),
        (f"NOT EXISTS ({ROWS} GROUP BY u.k)", ["anti", "{0} = `t`.`k`"]),
        (
            "t.v IN (SELECT max(v) FROM u WHERE t.k IS NOT DISTINCT FROM u.k GROUP BY a)",
            ["semi", "{0} IS NOT DISTINCT FROM `t`.`k`", "`t`.`v` = `groups`.`_c0`"],
        ),
        (
            "EXISTS (SELECT 1 FROM u LATERAL VIEW explode(a) AS e WHERE e > t.k AND u.v = 1)",
            ["semi", "{0} > `t`.`k`"],
        ),
        (
            "t.k NOT IN (SELECT explode(a) AS e FROM u WHERE u.k = t.v)",
            [
                "anti",
                "{0} = `t`.`v`",
                "(`t`.`k` = `groups`.`e` OR (`t`.`k` = `groups`.`e`) IS NULL)",
            ],
        ),
    ],
)
def test_what_correlates_stands_at_the_join(condition: str, on: list[str]) -> None:
    graph = bind(f"SELECT t.k FROM t WHERE {condition}", COLUMNS, TYPES).graph
    assert graph is not None
    (join,) = graph.joins
    inside = "`groups`.`_deltajoin_inside_0`"
    assert [join.kind, *(p.sql for p in join.on)] == [text.format(inside) for text in on]


@pytest.mark.parametrize(
    "subquery",
    [
        "SELECT 1 FROM u WHERE u.k > t.k GROUP BY v HAVING count(*) > 1",
        "SELECT 1 FROM u WHERE u.k = t.name GROUP BY v HAVING count(*) > 1",
        f"{ROWS} GROUP BY v HAVING count(*) > t.v",
        "SELECT count(*) FROM u WHERE u.k = t.k HAVING count(*) < 1",
        "SELECT v FROM u WHERE u.k = t.k QUALIFY row_number() OVER (PARTITION BY v ORDER BY k) = 1",
    ],
)
def test_what_groups_can_not_answer_is_rebuilt(subquery: str) -> None:
    query = bind(f"SELECT t.k FROM t WHERE EXISTS ({subquery})", COLUMNS, TYPES)
    assert query.reason is not None
    assert query.reason.code == "SUBQUERY"


@pytest.mark.parametrize(
    "rows", ["range(3) AS u(k)", "u UNPIVOT (w FOR n IN (v, name))", "(VALUES (1)) AS u(k)"]
)
def test_what_is_no_table_by_its_key_is_rebuilt(rows: str) -> None:
    text = f"SELECT t.k, (SELECT u.k FROM {rows} WHERE u.k = t.k) AS y FROM t"
    query = bind(text, COLUMNS, TYPES, keys={"u": ("k",)})
    assert query.reason is not None


FIRST = "(SELECT u.v FROM u WHERE u.k = t.k ORDER BY u.v DESC LIMIT 1)"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT t.k, EXISTS (SELECT 1 FROM u WHERE u.k = t.k) AS e FROM t",
        "SELECT t.k FROM t WHERE t.v = 1 OR EXISTS (SELECT DISTINCT u.v FROM u WHERE u.k = t.k "
        "ORDER BY u.v LIMIT 3)",
        "SELECT t.k FROM t WHERE (t.v = 1 OR t.k IN (SELECT u.k FROM u))",
        "SELECT CASE WHEN t.k IN (SELECT k FROM u) THEN 1 END AS one FROM t",
        "SELECT t.k FROM t WHERE t.v = 1 OR (t.k, t.v) IN (SELECT u.k, u.v FROM u)",
        "SELECT t.k FROM t WHERE (t.k, t.v) NOT IN (SELECT u.k, u.v FROM u)",
        "SELECT t.k FROM t WHERE t.v = 1 OR t.k NOT IN (SELECT k FROM u)",
        "SELECT t.k FROM t WHERE t.v = 1 OR NOT (t.k IN (SELECT v FROM u WHERE u.k = t.k))",
        "SELECT t.k FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k > t.k LIMIT 1)",
        f"SELECT t.k, {FIRST} AS x FROM t",
        f"SELECT t.k, s.v FROM t LEFT JOIN LATERAL {FIRST} AS s",
        "SELECT t.k, s.v FROM t, LATERAL (SELECT u.v FROM u WHERE u.k > t.k) AS s",
        "SELECT t.k, s.n FROM t LEFT JOIN LATERAL (SELECT count(*) FROM u WHERE u.k = t.k) AS s(n)",
    ],
)
def test_what_is_kept(text: str) -> None:
    assert bind(text, COLUMNS, TYPES).graph is not None


def test_null_is_a_match_of_not_in() -> None:
    graph = bind(
        "SELECT t.k FROM t WHERE t.v = 1 OR t.k NOT IN (SELECT k FROM u)", COLUMNS, TYPES
    ).graph
    assert graph is not None
    assert "OR NOT ((coalesce(" in graph.predicates[0].sql
    found, rows, nulls = ([p.sql for p in d.graph.predicates] for d in graph.derived)
    assert (found, rows, nulls) == ([], [], ["`u`.`k` IS NULL"])
    assert [key for d in graph.derived if d.graph.grouping for key in d.graph.grouping.keys] == [
        "g0"
    ]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        # NULL, which tells, or is one of several columns
        ("SELECT t.k FROM t WHERE NOT (t.v = 1 OR t.k IN (SELECT k FROM u))", "SUBQUERY"),
        ("SELECT t.k FROM t WHERE t.v = 1 OR NOT NOT t.k IN (SELECT k FROM u)", "SUBQUERY"),
        ("SELECT t.k, t.k IN (SELECT k FROM u) AS e FROM t", "SUBQUERY"),
        ("SELECT t.k, t.k NOT IN (SELECT k FROM u) AS e FROM t", "SUBQUERY"),
        ("SELECT CASE t.v = 1 WHEN t.k IN (SELECT k FROM u) THEN 1 END AS e FROM t", "SUBQUERY"),
        ("SELECT t.k FROM t WHERE t.v = 1 OR (t.k, t.v) NOT IN (SELECT k, v FROM u)", "SUBQUERY"),
        ("SELECT t.k, (t.k, t.v) IN (SELECT k, v FROM u) AS e FROM t", "SUBQUERY"),
        # other rows than those of joins and WHERE
        ("SELECT t.k FROM t WHERE t.v = 1 OR t.k IN (SELECT max(k) FROM u)", "SUBQUERY"),
        ("SELECT t.k, EXISTS (SELECT max(v) FROM u WHERE u.k = t.k) AS e FROM t", "SUBQUERY"),
        ("SELECT t.k, EXISTS (SELECT explode(a) FROM u WHERE u.k = t.k) AS e FROM t", "SUBQUERY"),
        ("SELECT t.k FROM t WHERE EXISTS (SELECT 1 FROM u LIMIT 0)", "LIMIT"),
        ("SELECT t.k FROM t WHERE EXISTS (SELECT 1 FROM u LIMIT 1 OFFSET 1)", "LIMIT"),
        ("SELECT t.k FROM t WHERE t.k IN ((SELECT k FROM u) LIMIT 2)", "NOT_A_SELECT"),
        ("SELECT t.k FROM t WHERE t.v = 1 OR t.k IN ((SELECT k FROM u) LIMIT 2)", "SUBQUERY"),
        # no equality of one type, not as many columns
        ("SELECT t.k, EXISTS (SELECT 1 FROM u WHERE u.k < t.k) AS e FROM t", "SUBQUERY"),
        ("SELECT t.k FROM t WHERE t.v = 1 OR t.name IN (SELECT k FROM u)", "SUBQUERY"),
        ("SELECT t.k FROM t WHERE (t.k, t.name) IN (SELECT k, v FROM u)", "SUBQUERY"),
        ("SELECT t.k FROM t WHERE (t.k, t.v) IN (SELECT k FROM u)", "SUBQUERY"),
        ("SELECT t.k FROM t WHERE t.v = 1 OR (t.k, t.v) IN (SELECT k FROM u)", "SUBQUERY"),
        # no first row, or by what the order of a window can't say
        (f"SELECT t.k, {FIRST.replace('LIMIT 1', 'LIMIT 2')} AS x FROM t", "LIMIT"),
        (f"SELECT t.k, {FIRST.replace('ORDER BY u.v DESC', '')} AS x FROM t", "LIMIT"),
        (f"SELECT t.k, {FIRST.replace('u.v DESC', '1')} AS x FROM t", "LIMIT"),
        (
            f"SELECT t.k, {FIRST.replace('u.v', 'v').replace('v FROM', '-v AS v FROM')} FROM t",
            "LIMIT",
        ),
        (f"SELECT t.k, {FIRST.replace('u.k =', 'u.k <')} AS x FROM t", "LIMIT"),
        (f"SELECT t.k, {FIRST.replace('t.k', 't.name')} AS x FROM t", "LIMIT"),
        (
            "SELECT t.k, s.n FROM t LEFT JOIN LATERAL (SELECT count(*) AS n FROM u WHERE u.k = t.k)"
            " AS s ON s.n > 1",
            "SUBQUERY",
        ),
        (
            "SELECT t.k, s.m FROM t LEFT JOIN LATERAL (SELECT max(u.v) AS m FROM u WHERE u.k = t.k)"
            " AS s ON t.v > 1",
            "SUBQUERY",
        ),
        (
            "SELECT t.k, s.n FROM t, LATERAL (SELECT count(*) AS n FROM u WHERE u.k < t.k) AS s",
            "SUBQUERY",
        ),
        (
            "SELECT t.k, s.v FROM t, LATERAL (SELECT u.v FROM u WHERE u.k = t.k LIMIT 2) AS s",
            "LIMIT",
        ),
    ],
)
def test_what_is_rebuilt(text: str, code: str) -> None:
    query = bind(text, COLUMNS, TYPES)
    assert query.graph is None
    assert query.reason is not None
    assert query.reason.code == code
