"""Units of time are keywords wherever a text is parsed: as written, or again to be emitted."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlglot import exp

import deltajoin
from deltajoin.emit.ast import expression
from deltajoin.emit.job import job_source
from deltajoin.sql.dialect import parse, text
from tests.spark.shop import open_shop

QUERIES = (
    "SELECT o.order_id, datediff(day, o.at, c.at) AS d FROM o JOIN c USING (k)",
    "SELECT o.k, max(date_diff(HOUR, o.at, o.at)) AS d FROM o GROUP BY o.k",
    "SELECT o.k FROM o LEFT JOIN c ON o.k = c.k AND o.at < dateadd(month, 1, c.at)",
    "SELECT k, timestampdiff(DAY, at, at) AS d, timestampadd(HOUR, 1, at) AS e FROM o",
    "SELECT timediff(MINUTE, at, at) AS d, CAST(k AS STRING COLLATE UTF8_LCASE) = 'a' AS e FROM o",
    "SELECT k, dateadd(Day, 1, at) AS d FROM o UNION ALL SELECT k, date_add(week, 2, at) FROM c",
)


@pytest.mark.parametrize("query", QUERIES)
def test_no_unit_is_a_column(query: str) -> None:
    columns = {column.name.lower() for column in parse(query).find_all(exp.Column)}
    assert columns <= {"k", "at", "order_id"}


def test_what_is_bound_is_emitted_with_the_unit() -> None:
    other = exp.column("z", "g", quoted=True)
    again = expression("date_diff(day, `f`.`x`, `f`.`y`)", {("f", "x"): other})
    assert text(again) == "date_diff(day, `g`.`z`, `f`.`y`)"


def test_a_quoted_or_qualified_name_and_another_word_stay_columns() -> None:
    for name in ("`day`", "t.day", "days"):
        query = parse(f"SELECT date_add({name}, 1, 2) AS d FROM t")
        assert query.find(exp.Column) is not None


def test_plan_explain_and_job_name_units_bare(tmp_path: Path) -> None:
    sql = """
        SELECT customer_id, max(datediff(day, from_unixtime(amount), current)) AS days
        FROM (SELECT customer_id, amount, dateadd(day, 1, date '2020-01-01') AS current FROM orders)
        GROUP BY customer_id
    """
    planned = deltajoin.plan(open_shop(tmp_path).model(sql=sql))
    shown = deltajoin.explain(planned) + job_source(planned)
    assert planned.graph is not None
    assert "datediff(day, " in shown
    assert "`DAY`" not in shown.upper()
