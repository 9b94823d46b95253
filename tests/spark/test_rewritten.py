"""PIVOT, UNPIVOT, EXCEPT ALL, INTERSECT ALL and window() over a history of changes, with Spark's
own run of the text beside it."""

from __future__ import annotations

from typing import Any

import pytest

import deltajoin
from tests.spark.test_groups import Market, history, market, quick_spark, rows_of

__all__ = ["market", "quick_spark"]

TIMES = "(SELECT *, timestamp_seconds(qty * 40000) AS at FROM sales)"
KEPT = {
    "pivot": "SELECT * FROM (SELECT k, day, qty FROM sales) "
    "PIVOT (sum(qty) AS q, count(*) AS n, count(qty) AS c FOR day IN ('d1', 'd2' AS two, NULL))",
    "pivot of texts": "SELECT p.name, t.one_m, t.one_n, t.less_n FROM products p LEFT JOIN "
    "(SELECT * FROM (SELECT k, qty, day FROM sales) "
    "PIVOT (max(day) AS m, count(*) AS n FOR qty IN (1 AS one, -2 AS less))) t ON t.k = p.k",
    "pivot of all": "SELECT * FROM (SELECT day, qty FROM sales) "
    "PIVOT (count(*) AS n, sum(qty) AS q FOR day IN ('d1', 'd2'))",
    "unpivot": "SELECT p.name, u.what, u.amount FROM products p JOIN (SELECT * FROM sales "
    "UNPIVOT (amount FOR what IN (qty, big, id AS number))) u ON u.k = p.k",
    "unpivot with NULLs": "SELECT what, count(*) AS n, sum(amount) AS s FROM "
    "(SELECT * FROM (SELECT id, k, qty FROM sales) "
    "UNPIVOT INCLUDE NULLS (amount FOR what IN (k, qty))) GROUP BY what",
    "except all": "SELECT k, qty FROM sales EXCEPT ALL SELECT k, k + 0 FROM products",
    "intersect all": "SELECT k FROM sales INTERSECT ALL SELECT qty FROM sales",
    "window": "SELECT window.start AS s, window.end AS e, count(*) AS n, sum(big) AS b "
    f"FROM {TIMES} GROUP BY window(at, '1 day')",
    "hidden window": f"SELECT count(*) AS n, sum(qty) AS q FROM {TIMES} "
    "GROUP BY k, window(at, '1 day', '1 day', '3 hours')",
    "sliding window": f"SELECT window.start AS s, max(id) AS m, count(*) AS n FROM {TIMES} "
    "GROUP BY window(at, '1 day', '10 hours')",
    "struct of a window": f"SELECT window(at, '36 hours') AS w, p.name, count(*) AS n FROM {TIMES} "
    "JOIN products p USING (k) GROUP BY w, p.name",
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", KEPT)
def test_every_epoch_is_what_spark_gives(
    spark: Any,
    market: Market,  # noqa: F811
    name: str,
    thorough: bool,
) -> None:
    """In a short run, some changes come two at a time."""
    model = market.model(name, KEPT[name])
    assert deltajoin.plan(model).rebuilt_because is None
    deltajoin.run(model, spark)
    for word in history(market):
        if word in ("inserts", "values gone") and not thorough:
            continue
        record = deltajoin.run(model, spark)
        found = rows_of(deltajoin.read(model, spark))
        assert found == market.wanted(spark, model.sql), word
        assert record.strategy in ("incremental", "noop"), (word, record.detail)
