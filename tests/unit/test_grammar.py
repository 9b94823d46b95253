"""Spark's own grammar: operators from weak to strong, calls that look like types, paths."""

from __future__ import annotations

import pytest
from sqlglot import exp

from deltajoin.emit.ast import pretty
from deltajoin.errors import DeltaJoinError
from deltajoin.sql.dialect import (
    Unreadable,
    Verbatim,
    is_readable,
    parse,
    parse_expression,
    text,
)

BRACKETS = {
    "a & b >> c": "a & (b >> c)",
    "a | b ^ c & d << e + f": "a | (b ^ (c & (d << (e + f))))",
    "a || b + c || d": "((a || b) + c) || d",
    "a >>> b << c": "(a >>> b) << c",
    "a & b = c": "(a & b) = c",
    "a | b + c * d": "a | (b + (c * d))",
}


@pytest.mark.parametrize("sql", BRACKETS)
def test_operators_bind_as_in_spark(sql: str) -> None:
    flat, bracketed = parse_expression(sql), parse_expression(BRACKETS[sql])
    for paren in list(bracketed.find_all(exp.Paren)):
        paren.replace(paren.this)
    assert flat == bracketed


COLUMNS = {
    "array(t.x, t.y)[1]": "x y",
    "array(array(t.x))[0][t.y]": "x y",
    "array(struct(t.x AS p))[0].p": "x",
    "substr(t.x FROM t.y FOR t.z)": "x y z",
    "t.v:a.b[0]::int + t.k": "k v",
    "f(t.x):['a b']": "x",
    "t.x >>> t.y": "x y",
}


@pytest.mark.parametrize("sql", COLUMNS)
def test_no_column_is_lost(sql: str) -> None:
    node = parse_expression(sql)
    assert " ".join(sorted(c.name for c in node.find_all(exp.Column))) == COLUMNS[sql]
    assert text(node).replace("`", "") == sql


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a, FROM t",
        "SELECT a FROM t,",
        "SELECT f(a, ) FROM t",
        "SELECT a ?? b FROM t",
        "SELECT a FROM t FOR UPDATE",
        "SELECT sum(a) OVER (ORDER BY b ROWS 1 PRECEDING EXCLUDE TIES) FROM t",
        "SELECT a AS größe FROM t",
    ],
)
def test_what_spark_cannot_read_is_not_read(sql: str) -> None:
    with pytest.raises(DeltaJoinError) as caught:
        parse(sql)
    assert isinstance(caught.value, Unreadable)


@pytest.mark.parametrize(
    ("sql", "goes_on"),
    [
        ("SELECT a -- c:\\\n, b FROM t", True),
        ("SELECT a -- /* c:\\\n, b FROM t", True),
        ("SELECT a /* /* x */ */ -- c:\\\n, b FROM t", True),
        ("SELECT a /* c:\\\n */ FROM t", False),
        ("SELECT a /* /* x */ -- c:\\ */ -- y\n, 'z\\\n' AS b FROM t", False),
        ("SELECT a -- c:\\ \n, b FROM t", False),
    ],
)
def test_a_line_of_comment_goes_on_behind_a_backslash(sql: str, goes_on: bool) -> None:
    assert is_readable(sql) is not goes_on


def test_groups_may_follow_a_comma() -> None:
    assert parse("SELECT a FROM t GROUP BY a, ROLLUP (b), GROUPING SETS ((c), ())")


def test_a_line_break_in_a_string_is_not_indented() -> None:
    case = parse_expression("CASE WHEN t.a THEN 'x\ny' ELSE upper(t.b) END")
    assert "'x\ny'" in pretty(exp.select(exp.alias_(case, "s")).from_("t"))


#: Where a name may stand, and be taken for a word of SQL.
PLACES = """
SELECT {0}, -{0} AS x, NOT {0} AS y, {0}.f AS z, {0}[0] AS e, {0}::int AS i, ({0}, a) AS p FROM t
SELECT struct({0}, a) AS x, array({0}, {0}) AS y, map({0}, 1) AS z, f({0}, 1) AS f FROM t
SELECT CASE {0} WHEN {0} THEN {0} ELSE {0} END AS x, a + {0} AS y, {0} || a AS z FROM t
SELECT a FROM t WHERE {0} BETWEEN {0} AND {0} AND {0} IN ({0}, 1) AND {0} LIKE 'a' OR {0} IS NULL
SELECT {0}, sum({0}) AS s FROM t GROUP BY {0}, a HAVING count(DISTINCT {0}) > 1 ORDER BY {0} DESC
SELECT lag({0}, 1) OVER (PARTITION BY a, {0} ORDER BY {0}, a) AS x FROM t QUALIFY {0} > 1
SELECT a AS {0}, {0} AS b FROM (SELECT a AS {0} FROM t) z JOIN u USING ({0})
SELECT {0}.a, t.{0} FROM t AS {0} JOIN {0} AS b ON {0}.a = b.{0}
SELECT x FROM t LATERAL VIEW explode({0}) e AS x WHERE exists(a, {0} -> {0} > 1)
WITH {0} AS (SELECT a FROM t) SELECT * EXCEPT ({0}) FROM {0}
SELECT interval 1 day + {0} AS x, extract(YEAR FROM {0}) AS y, trim({0}) AS z FROM t
"""
NAMES = """
    value key name status rank order group user first last start end comment percent rows range role
    index location table column database schema position desc asc current row json year month day
    hour minute second week quarter level period zone at by to of do no off cost filter lead lag
    count sum match view cache data format path partition bucket source target action unique primary
    references check default version next pivot temporary escape nulls ignore only set cascade
    window values
"""
TYPES = sorted(
    word.lower()
    for word, token in Verbatim.Tokenizer.KEYWORDS.items()
    if token in Verbatim.Parser.TYPE_TOKENS and word.isidentifier()
)


@pytest.mark.parametrize("query", PLACES.strip().splitlines())
def test_a_name_may_be_a_word_of_sql(query: str) -> None:
    plain = parse(query.format("zzz"))
    for name in {*NAMES.split(), *TYPES} - {"interval", "null", "union"}:
        assert _renamed(parse(query.format(name)), name) == plain, name


def _renamed(query: exp.Expr, name: str) -> exp.Expr:
    for part in query.find_all(exp.Identifier):
        part.set("this", "zzz" if part.this == name else part.this)
    return query
