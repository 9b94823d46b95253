"""Correlated subqueries with groups or generated rows in EXISTS and IN: kept, or why not."""

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
