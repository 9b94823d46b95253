"""Null rejection: proven by a small engine of outcomes, checked against DuckDB."""

from __future__ import annotations

import duckdb
import pytest
import sqlglot

from deltajoin.sql.nulls import rejects_nulls

REJECTED = """
`b`.`x` = `a`.`x`
`a`.`x` < `b`.`x` + 1
NOT `b`.`x` = 1
`b`.`x` IS NOT NULL
NOT `b`.`x` IS NULL
`b`.`x` IN (1, 2)
`b`.`x` NOT IN (1, 2)
`b`.`x` BETWEEN 1 AND 2
`a`.`x` BETWEEN 0 AND `b`.`x`
`b`.`x` = 1 AND `a`.`x` IS NULL
`b`.`x` = 1 OR `b`.`y` > `a`.`y`
CAST(`b`.`x` AS STRING) = '1'
upper(`b`.`s`) = 'X'
`b`.`s` LIKE 'x%'
(`b`.`x` = 1) IS TRUE
coalesce(`b`.`x`, `b`.`y`) = 1
coalesce(`b`.`x` = 1, FALSE)
`b`.`x` <=> 1
CASE WHEN `b`.`x` > 0 THEN TRUE ELSE FALSE END
CASE WHEN `b`.`x` > 0 THEN TRUE END
isnotnull(`b`.`x`)
nullif(`b`.`x`, 1) = 2
abs(`b`.`x`) > 0
FALSE
NULL
1 = NULL
'a' = 'b'
'a' <> ('a')
'a' IN ('b', 'A')
1 = 2
NOT 01 = 1
`a`.`x` = 1 AND 'a' = 'A'
"""

KEPT = """
`a`.`x` = 1
`b`.`x` IS NULL
NOT `b`.`x` IS NOT NULL
`b`.`x` = 1 OR `a`.`x` = 1
NOT (`b`.`x` = 1 AND `a`.`x` = 2)
coalesce(`b`.`x`, 0) = 0
coalesce(`b`.`x`, `a`.`x`) = 1
`b`.`x` <=> `a`.`x`
`b`.`x` IS DISTINCT FROM 1
(`b`.`x` = 1) IS NOT TRUE
CASE WHEN `b`.`x` > 0 THEN FALSE ELSE TRUE END
concat_ws('-', `b`.`s`, `a`.`s`) = 'x'
isnull(`b`.`x`)
TRUE
'a' = 'a'
01 = 1
'a' IN (NULL, 'a')
'a' <> 'b' OR `b`.`x` = 1
1 = 1.0
"""


def lines(text: str) -> list[str]:
    return text.strip().splitlines()


@pytest.mark.parametrize("sql", lines(REJECTED))
def test_rejected(sql: str) -> None:
    assert rejects_nulls(sql, frozenset({"b"}))


@pytest.mark.parametrize("sql", lines(KEPT))
def test_kept(sql: str) -> None:
    assert not rejects_nulls(sql, frozenset({"b"}))


def test_an_unknown_function_never_rejects() -> None:
    assert not rejects_nulls("my_function(`b`.`x`)", frozenset({"b"}))
    assert not rejects_nulls("hash(`b`.`x`) = 42", frozenset({"b"}))


def test_columns_of_several_relations_are_null_together() -> None:
    sql = "`b`.`x` = 1 OR `c`.`x` = 1"
    assert not rejects_nulls(sql, frozenset({"b"}))
    assert rejects_nulls(sql, frozenset({"b", "c"}))


def test_a_parsed_predicate_is_taken_too() -> None:
    node = sqlglot.parse_one("`b`.`x` > 1", dialect="spark")
    assert rejects_nulls(node, frozenset({"b"}))


@pytest.fixture(scope="module")
def two_tables() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute("CREATE TABLE a (x INTEGER, y INTEGER, s VARCHAR)")
    con.execute("INSERT INTO a VALUES (1, 1, 'x'), (2, 2, 'y'), (NULL, 0, NULL)")
    con.execute("CREATE TABLE b (x INTEGER, y INTEGER, s VARCHAR)")
    con.execute("INSERT INTO b VALUES (NULL, NULL, NULL)")
    con.execute('CREATE MACRO "isnull"(v) AS (v IS NULL)')
    con.execute('CREATE MACRO "isnotnull"(v) AS (v IS NOT NULL)')
    return con


@pytest.mark.parametrize("sql", lines(REJECTED) + lines(KEPT))
def test_duckdb_agrees(sql: str, two_tables: duckdb.DuckDBPyConnection) -> None:
    """What is rejected is TRUE for no row of `a`; what is kept is TRUE for one, b being NULL."""
    text = sqlglot.transpile(
        f"SELECT count(*) FROM a, b WHERE {sql}", "spark", "duckdb", identify=True
    )[0]
    found = two_tables.execute(text).fetchall()[0][0]
    assert (found == 0) == rejects_nulls(sql, frozenset({"b"}))
