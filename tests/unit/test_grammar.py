"""Spark's own grammar: operators from weak to strong, calls that look like types, paths."""

from __future__ import annotations

import pytest
from sqlglot import exp

from deltajoin.emit.ast import pretty
from deltajoin.errors import DeltaJoinError
from deltajoin.sql.dialect import Unreadable, is_readable, parse, parse_expression, text

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
