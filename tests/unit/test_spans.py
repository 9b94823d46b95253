"""What was written is written again as it was, with columns exchanged inside."""

from __future__ import annotations

import re

import pytest
from sqlglot import exp

from deltajoin.sql.dialect import parse, parse_expression, spelled, text

WRITTEN = """
t.ts - INTERVAL 1 DAY 12 HOURS
-INTERVAL 1 DAY 12 HOURS
INTERVAL 2 WEEKS 3 DAYS * 1.5 * t.x
CAST(t.x AS TIME) > TIME '12:00'
1 & 2 >> t.x
t.y | 1 << 2
DATE '2026-01-03'::STRING || t.x
t.x + -128Y - 9223372036854775808L + 1.5BD
t.x IS NOT NULL AND t.y NOT IN (1,2) or not t.z between 1 and t.q
f(x -> x+t.k, t.l)[ 1 ].d
case when t.a then t.b end
sum(t.x) filter (where t.y > 1)
sum(t.x) over (partition by t.z order by t.q nulls last rows between 1 preceding and 2 following)
ntile(2) over (partition by t.z order by t.q)
listagg(distinct t.x, ',') within group (order by t.y)
extract(day from t.x) + position('a' in t.x)
trim(both 'x' from t.y)
overlay(t.a placing t.b from 1 for 2)
t.x div 2 % 3
'it''s' || "a\\"b" || t.x
t.x::int::string
x'1F' || t.b
t.x like 'a%' escape '/' and t.a rlike t.b
cast(t.x as struct<a:int,b:array<string>>).a
t.x <> t.y and t.x != t.y and t.x == t.y and t.x <=> t.y
named_struct('a', t.x).a
(t.a, t.b) in ((1,2))
t.x collate UTF8_LCASE = 'a'
interval '1-2' year to month + t.x
timestamp_ntz'2020-01-01' < t.x
t.x is distinct from t.y
t.x is true
count(DISTINCT t.x, t.y)
""".strip().splitlines()


def _moved(sql: str) -> str:
    holder = exp.Paren(this=parse_expression(sql))
    for column in list(holder.find_all(exp.Column)):
        if column.table == "t":
            column.replace(exp.column(column.name, table="R", quoted=True))
    return text(holder.this)


@pytest.mark.parametrize("sql", WRITTEN)
def test_only_columns_are_exchanged(sql: str) -> None:
    moved = _moved(sql)
    assert moved.replace("`R`.`", "t.").replace("`", "") == sql
    assert moved.count("`R`.") == sql.count("t.")


def test_comments_and_lines_fold() -> None:
    written = "coalesce( t.x -- first\n , /* none */ 1L )"
    assert _moved(written) == "coalesce( `R`.`x` , 1L )"
    assert spelled(written) == spelled("COALESCE(t.x, 1l)")


def test_a_changed_node_is_written_anew() -> None:
    """What we change ourselves must not come out as it was."""
    node = parse_expression("t.x  IN  (1, 2)")
    node.append("expressions", exp.Literal.number(3))
    assert text(node) == "`t`.`x` IN (1, 2, 3)"
    call = parse_expression("count( * )")
    call.set("expressions", [exp.Literal.number(1)])
    assert text(call) == "count( 1 )"
    for sql in ("t.x NOT IN (1)", "NOT t.x IN (1)", "t.x NOT BETWEEN 1 AND 2", "t.x IS NOT NULL"):
        node = parse_expression(sql)
        node.this.replace(exp.column("found", "s"))
        assert text(node) == "NOT `s`.`found`"


CLAUSES = """
SELECT a.x FROM a JOIN (b LEFT JOIN c ON b.x=c.y JOIN d ON d.x=b.x) ON a.z=b.w WHERE a.x IS NULL
SELECT a.x FROM a GROUP BY a.x HAVING count(1)>1 ORDER BY a.x LIMIT 3 OFFSET 2
SELECT a.x FROM a LATERAL VIEW explode(a.y) v AS q LATERAL VIEW OUTER explode(a.z) w AS r
SELECT a.x FROM a TABLESAMPLE (10 ROWS) QUALIFY row_number() OVER (ORDER BY a.x)=1
SELECT a.x FROM a PIVOT (sum(a.y) FOR a.z IN (1,2)) WHERE a.x=1 SORT BY a.x
SELECT a.x FROM a WHERE a.x=1 DISTRIBUTE BY a.x SORT BY a.x
SELECT a.x FROM a WHERE a.x=1 CLUSTER BY a.x
""".strip().splitlines()


@pytest.mark.parametrize("sql", CLAUSES)
def test_clauses_keep_apart_in_what_is_written_anew(sql: str) -> None:
    tree = parse(sql)
    assert text(tree).replace("`", "") == sql
    tree.select("a.more", copy=False)
    for table in tree.find_all(exp.Table):  # a table with joins is in brackets
        table.this.set("this", table.name + "_v1")
    wanted = re.sub(r"\b(FROM |JOIN |JOIN \()([a-d])\b", r"\1\2_v1", sql)
    assert text(tree).replace("`", "") == wanted.replace("a.x FROM", "a.x, a.more FROM")


def test_a_hint_keeps_its_place() -> None:
    inner = "(SELECT /*+ BROADCAST(u), REPARTITION(3, y) */ `u`.`x` FROM `u`)"
    found = text(parse(f"SELECT x IN {inner} AS q FROM `t`"))
    assert found == f"SELECT `x` IN {inner} AS q FROM `t`"


def test_a_with_stays_where_it_stands() -> None:
    below = "(WITH h AS (SELECT 1 AS x) SELECT h.x FROM h)"
    tree = parse(f"SELECT a.x FROM {below} AS a CROSS JOIN {below} AS b")
    tree.select("b.x", copy=False)
    assert text(tree).count("WITH") == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT to_json(struct(X)) FROM t", "SELECT to_json(struct(x)) FROM t"),
        ("SELECT CAST(a AS STRUCT<X: INT>) FROM t", "SELECT CAST(a AS STRUCT<x: INT>) FROM t"),
        ("SELECT to_json(arrays_zip(X, Y)) FROM t", "SELECT to_json(arrays_zip(X, y)) FROM t"),
    ],
)
def test_a_field_in_another_case_is_another_text(one: str, other: str) -> None:
    assert spelled(one) != spelled(other)
    assert spelled(one) == spelled(one.replace("SELECT", "select").replace("INT", "Int"))
