"""Types of expressions, as Spark's analyzer gives them."""

from __future__ import annotations

import pytest
from sqlglot import exp

from deltajoin.emit.sql import build_program
from deltajoin.sql.bind import bind
from deltajoin.sql.dialect import parse_expression, text
from deltajoin.sql.kinds import in_place_of, kind_of
from tests.property.cases import Case, Table
from tests.property.oracle import maker_of

COLUMNS = {
    "d": "decimal(6,2)",
    "whole": "decimal(5,0)",
    "i": "int",
    "b": "bigint",
    "f": "float",
    "x": "double",
    "s": "string",
}


def kind(sql: str) -> str:
    def type_of(column: exp.Column) -> str:
        return COLUMNS[column.name]

    return kind_of(parse_expression(sql), type_of)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("d * 5", "decimal(8,2)"),
        ("5 * d", "decimal(8,2)"),
        ("d * -5", "decimal(8,2)"),
        ("d * (-5)", "decimal(8,2)"),
        ("d * 0", "decimal(8,2)"),
        ("d * 00012", "decimal(9,2)"),
        ("d + 5", "decimal(7,2)"),
        ("100000 - d", "decimal(9,2)"),
        ("d * 3000000000", "decimal(17,2)"),
        ("d * -(5)", "decimal(17,2)"),
        ("d * CAST(5 AS INT)", "decimal(17,2)"),
        ("d * i", "decimal(17,2)"),
        ("d + b", "decimal(23,2)"),
        ("coalesce(d, 5)", "decimal(12,2)"),
        ("d / 2", "decimal(10,6)"),
        ("d / d", "decimal(15,9)"),
        ("i / d", "decimal(19,7)"),
        ("d / i", "decimal(17,13)"),
        ("b / (d * d * d * d)", ""),
        ("d % 7", "decimal(3,2)"),
        ("i % d", "decimal(6,2)"),
        ("i * 5", "int"),
        ("i * 3000000000", "bigint"),
    ],
)
def test_an_integer_beside_a_decimal_has_the_digits_that_it_shows(sql: str, expected: str) -> None:
    assert kind(sql) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("coalesce(f, x, i)", "double"),
        ("coalesce(i, f)", ""),
        ("coalesce(i, f, d)", "double"),
        ("coalesce(x, 0.0)", "double"),
        ("CASE WHEN s = '' THEN x * i ELSE 0 END", "double"),
        ("coalesce(NULL, s)", "string"),
        ("coalesce(s, i)", ""),
        ("coalesce(CAST(NULL AS decimal(38,0)), d)", ""),
    ],
)
def test_the_type_of_one_of_some_values(sql: str, expected: str) -> None:
    assert kind(sql) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("2147483647", "int"),
        ("2147483648", "bigint"),
        ("-2147483648", "int"),
        ("-(2147483648)", "bigint"),
        ("-2147483649", "bigint"),
        ("9223372036854775808", "decimal(19,0)"),
        ("-9223372036854775808", "bigint"),
        ("-9223372036854775809", "decimal(19,0)"),
        ("1" + "0" * 38, ""),
        ("0.05", "decimal(2,2)"),
        ("-1.50", "decimal(3,2)"),
        ("-d", "decimal(6,2)"),
        ("-s", ""),
    ],
)
def test_numbers_and_what_a_minus_makes_of_them(sql: str, expected: str) -> None:
    assert kind(sql) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("ceil(d)", "decimal(5,0)"),
        ("ceil(whole)", "decimal(5,0)"),
        ("floor(whole)", "decimal(5,0)"),
        ("floor(i)", "bigint"),
        ("round(whole)", "decimal(6,0)"),
        ("avg(d)", "decimal(10,6)"),
        ("avg(i)", "double"),
        ("avg(CAST(d AS DECIMAL(38,10)))", "decimal(38,14)"),
    ],
)
def test_rounded_numbers(sql: str, expected: str) -> None:
    assert kind(sql) == expected


@pytest.mark.parametrize(
    ("sql", "value", "expected"),
    [
        ("t.d * q.c", "5", "CAST(5 AS int)"),
        ("t.d / (q.c)", "(-5)", "CAST(-5 AS int)"),
        ("-q.c * t.d", "3000000000", "CAST(3000000000 AS bigint)"),
        ("pmod(t.d, q.c)", "5", "CAST(5 AS int)"),
        ("t.d * q.c", "t.i", "`t`.`i`"),
        ("t.d * q.c", "1.5", "1.5"),
        ("t.d = q.c", "5", "5"),
        ("coalesce(t.d, q.c)", "5", "5"),
    ],
)
def test_an_integer_in_the_place_of_a_column_has_the_digits_of_its_type(
    sql: str, value: str, expected: str
) -> None:
    node = parse_expression(sql)
    (column,) = (c for c in node.find_all(exp.Column) if c.table == "q")
    assert text(in_place_of(column, parse_expression(value))) == expected


@pytest.mark.parametrize(
    "query",
    [
        "SELECT q.d * q.c AS r FROM (SELECT d, 5 AS c FROM t) q",
        "WITH p AS (SELECT 5 AS c) SELECT t.d * p.c AS r FROM t CROSS JOIN p",
        "SELECT 5 AS c, d * c AS r FROM t",
        "SELECT t.d * (SELECT 5) AS r FROM t",
        "SELECT i, 5 AS c, sum(d) * c AS r FROM t GROUP BY i",
    ],
)
def test_an_integer_below_is_one_of_its_type(query: str) -> None:
    types = {("t", "d"): "decimal(6,2)", ("t", "i"): "int"}
    graph = bind(query, {"t": ("d", "i")}, types).graph
    assert graph is not None
    made = (
        graph.grouping.outputs if graph.grouping else [(p.name, p.sql) for p in graph.projections]
    )
    assert "CAST(5 AS int)" in dict(made)["r"]


def test_a_column_of_a_union_is_an_integer_of_its_type() -> None:
    types = {("t", "d"): "decimal(6,2)", ("t", "i"): "int"}
    below = "SELECT d, 5 AS c FROM t UNION ALL SELECT d, i FROM t"
    graph = bind(f"SELECT q.d / q.c AS r FROM ({below}) q", {"t": ("d", "i")}, types).graph
    assert graph is not None
    made = [graph.outputs(core)[0].sql for core in graph.branches]
    assert made == ["`t`.`d` / CAST(5 AS int)", "`t_2`.`d` / `t_2`.`i`"]


def test_a_sum_from_state_has_the_type_that_the_text_gives_it() -> None:
    """Else the quotient would have other places after the point."""
    table = Table("t", (("k", "int"), ("d", "decimal(6,2)"), ("v", "int")), ("k",), ())
    query = "SELECT v, sum(d * 5) / sum(d) AS r FROM t GROUP BY v"
    maker = maker_of(Case(0, (table,), (), (), (), (), query=query))
    assert maker is not None
    fold = build_program(maker.plan(0, {"t": "mutating"})).fold
    assert fold is not None
    assert "AS DECIMAL(18, 2))" in fold.replace("decimal", "DECIMAL")
