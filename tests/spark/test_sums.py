"""Full joins under joins, unions, NOT IN: kept as sums of branches, by Spark itself."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import deltajoin
from tests.spark.shop import expected, open_shop

UNITED = """
WITH events AS (
  SELECT customer_id AS who, amount, 'order' AS what, CAST(amount AS int) AS small FROM orders
  UNION ALL
  SELECT customer_id, NULL, name, 0 FROM customers WHERE name <> 'name 2'
)
SELECT c.name, e.what, coalesce(e.amount, -1) AS amount, e.small
FROM customers AS c LEFT JOIN events AS e ON e.who = c.customer_id
"""
CHAIN = """
SELECT customer_id, o.amount, c.name, p.amount AS other
FROM orders AS o
FULL JOIN customers AS c USING (customer_id)
FULL JOIN (SELECT customer_id, amount FROM orders WHERE amount < 100) AS p USING (customer_id)
WHERE coalesce(o.order_id, 1) NOT IN (SELECT customer_id FROM customers WHERE name = 'x')
"""
DISTINCT = """
SELECT customer_id AS id, CAST(NULL AS string) AS name FROM orders
UNION SELECT c.customer_id, c.name FROM customers AS c
LEFT ANTI JOIN orders AS o ON o.amount < c.customer_id
"""
BELOW = """
SELECT u.who, count(*) AS n, sum(o.amount) AS total
FROM (SELECT customer_id AS who FROM orders UNION SELECT customer_id FROM customers) AS u
LEFT JOIN orders AS o ON o.customer_id = u.who
GROUP BY u.who
"""
QUERIES = {"union": UNITED, "full": CHAIN, "distinct": DISTINCT, "below": BELOW}


@pytest.mark.sampled
@pytest.mark.parametrize("sql", QUERIES.values(), ids=list(QUERIES))
def test_sums_follow_every_change(sql: str, spark: Any, tmp_path: Path) -> None:
    shop = open_shop(tmp_path)
    model = shop.model(sql=sql, mode="incremental_strict", keys={})
    changes = (
        lambda: shop.append("orders", (100, 1, 5), (None, 9, 9), (102, None, 50)),
        lambda: shop.update("customers", "customer_id = 3", name="'x'"),
        lambda: (
            shop.delete("customers", "customer_id < 2"),
            shop.update("orders", "order_id < 12", amount="amount + 1", customer_id="2"),
        ),
        lambda: shop.append("customers", (None, "nobody"), (9, "nine")),
    )
    assert deltajoin.run(model, spark).strategy == "full"
    for change in changes:
        change()
        assert deltajoin.run(model, spark).strategy == "incremental"
        found = Counter(map(tuple, deltajoin.read(model, spark).collect()))
        assert found == expected(shop, sql.replace("LEFT ANTI", "ANTI"))
    assert deltajoin.run(model, spark).strategy == "noop"
