"""Subqueries that make groups, as sources among others: kept by the groups that are touched."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import deltajoin
from deltajoin.audit.render import render_plan, render_text
from tests.spark.shop import Shop, assert_right, expected, open_shop
from tests.spark.test_oracle import quick

OF_CUSTOMERS = """
WITH per_customer AS (
  SELECT customer_id, count(*) AS orders, sum(amount) AS total, max(amount) AS largest
  FROM orders WHERE amount >= 0 GROUP BY customer_id
)
SELECT c.customer_id, c.name, p.orders, coalesce(p.total, 0) AS total
FROM customers AS c LEFT JOIN per_customer AS p ON c.customer_id = p.customer_id
"""
SHARES = """
WITH per_customer AS (SELECT customer_id, sum(amount) AS total FROM orders GROUP BY customer_id),
named AS (
  SELECT c.name, count(*) AS customers, sum(p.total) AS total
  FROM per_customer AS p JOIN customers AS c ON p.customer_id = c.customer_id
  GROUP BY c.name HAVING count(*) > 0
)
SELECT o.order_id, o.amount, p.total AS of_customer, n.total AS of_name, n.customers
FROM orders AS o
JOIN per_customer AS p ON o.customer_id = p.customer_id
JOIN customers AS c ON o.customer_id = c.customer_id
JOIN named AS n ON n.name = c.name
WHERE o.customer_id IN (SELECT DISTINCT customer_id FROM customers WHERE name <> 'nobody')
"""
LATEST = """
WITH ranked AS (
  SELECT *, row_number() OVER (PARTITION BY customer_id ORDER BY amount DESC, order_id) AS n
  FROM orders
),
largest AS (SELECT * FROM ranked WHERE n = 1),
letters AS (
  SELECT customer_id, count(letter) AS letters
  FROM customers LATERAL VIEW explode(split(name, '')) l AS letter GROUP BY customer_id
)
SELECT c.customer_id, c.name, o.order_id, o.amount, l.letters
FROM customers AS c
LEFT JOIN largest AS o ON c.customer_id = o.customer_id
LEFT JOIN letters AS l ON c.customer_id = l.customer_id
"""
SUBQUERIES = """
SELECT c.customer_id, c.name, s.n,
  EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.customer_id AND o.amount > 150) AS large,
  (SELECT o.amount FROM orders AS o WHERE o.customer_id = c.customer_id
   ORDER BY o.order_id DESC LIMIT 1) AS latest
FROM customers AS c
LEFT JOIN LATERAL (
  SELECT count(*) AS n FROM orders AS o WHERE o.customer_id = c.customer_id GROUP BY o.customer_id
) AS s ON true
WHERE c.customer_id < 5 OR c.customer_id IN (SELECT customer_id FROM orders WHERE amount < 60)
"""
MODELS = {
    "a left join": OF_CUSTOMERS,
    "groups of groups": SHARES,
    "subqueries": SUBQUERIES,
    "layers": LATEST,
}
EXPLODED = "customers LATERAL VIEW explode(split(name, '')) l AS letter"
UNNESTED = "customers, unnest(string_split(name, '')) AS l(letter)"


@pytest.mark.sampled
@pytest.mark.parametrize("sql", MODELS.values(), ids=MODELS)
def test_groups_below_joins_follow_every_change(sql: str, spark: Any, tmp_path: Path) -> None:
    shop, spark = open_shop(tmp_path), quick(spark)
    model = shop.model(sql=sql, mode="incremental_strict")
    changes = (
        lambda: shop.append("orders", (100, 1, 5), (101, 7, 9)),
        lambda: shop.update("orders", "order_id = 3", amount="amount + 1", customer_id="2"),
        lambda: shop.delete("orders", "customer_id = 4"),
        lambda: (shop.append("orders", (102, 4, 3)), shop.update("customers", "true", name="'x'")),
        lambda: (
            shop.delete("customers", "customer_id < 3"),
            shop.delete("orders", "amount > 200"),
        ),
    )
    assert deltajoin.run(model, spark).strategy == "full"
    for epoch, change in enumerate(changes, start=2):
        change()
        record = deltajoin.run(model, spark)
        assert record.strategy == "incremental"
        assert_right(shop, epoch, sql.replace(EXPLODED, UNNESTED))
    assert deltajoin.run(model, spark).strategy == "noop"


SCALARS = """
SELECT o.order_id, (SELECT c.name FROM customers c WHERE c.customer_id = o.customer_id) AS name
FROM orders AS o WHERE o.amount > (SELECT customer_id FROM customers WHERE customer_id = 2)
"""


@pytest.mark.sampled
@pytest.mark.parametrize("sql", [SCALARS, SCALARS.replace("o.order_id", "o.amount")])
def test_scalar_subqueries_of_one_row_stop_at_two(spark: Any, tmp_path: Path, sql: str) -> None:
    shop, spark = open_shop(tmp_path), quick(spark)
    model = shop.model(sql=sql, mode="incremental_strict")
    deltajoin.run(model, spark)
    shop.update("customers", "customer_id = 1", name="'renamed'")
    shop.append("orders", (70, 3, 5), (71, 99, 5), (72, None, 8))
    shop.delete("customers", "customer_id = 3")
    assert deltajoin.run(model, spark).strategy == "incremental"
    assert rows_of(model, spark) == expected(shop, sql)
    before = rows_of(model, spark)
    shop.append("customers", (1, "another"))
    for mode in ("incremental_strict", "full"):
        with pytest.raises(deltajoin.DeltaJoinError, match=r"TOO_MANY_ROWS|KEY_VIOLATED"):
            deltajoin.run(replace(model, mode=mode), spark)
    shop.delete("customers", "name = 'another'")
    shop.append("customers", (2, "another"))
    with pytest.raises(deltajoin.DeltaJoinError, match=r"TOO_MANY_ROWS|KEY_VIOLATED"):
        deltajoin.run(model, spark)
    assert rows_of(model, spark) == before
    shop.delete("customers", "name = 'another'")
    deltajoin.run(model, spark)
    assert rows_of(model, spark) == expected(shop, sql)


def rows_of(model: deltajoin.Model, spark: Any) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in deltajoin.read(model, spark).collect())


def test_the_audit_tells_of_groups_touched(spark: Any, tmp_path: Path) -> None:
    shop = open_shop(tmp_path)
    model = shop.model(sql=OF_CUSTOMERS)
    deltajoin.run(model, spark)
    shop.append("orders", (100, 1, 5), (101, 7, 9), (102, 7, -1))
    planned = deltajoin.plan(model)
    assert planned.target.key == ("customer_id",)
    assert "per_customer, a derived source" in render_plan(planned.to_dict())
    record = deltajoin.run(model, spark).to_dict()
    (derived,) = record["derived"]
    assert (derived["source"], derived["touched"], derived["change_rows"]) == ("per_customer", 2, 3)
    assert [path["driver"] for path in derived["paths"]] == ["orders"]
    assert derived["paths"][0]["change_rows"] == 3
    assert [(p["driver"], p["rows_out"]) for p in record["paths"]] == [("p", 4)]
    assert record["rows"] == {"inserted": 0, "updated": 2, "deleted": 0}
    assert "parts touched 2 → rows 3" in render_text(record)


def test_a_change_that_groups_do_not_show_ends_there(spark: Any, tmp_path: Path) -> None:
    """A filtered row, and an update that changes no sum: nothing is written."""
    shop = open_shop(tmp_path)
    model = shop.model(sql=OF_CUSTOMERS)
    deltajoin.run(model, spark)
    shop.append("orders", (100, 1, -5))
    shop.update("orders", "order_id = 1", order_id="1001")
    record = deltajoin.run(model, spark).to_dict()
    assert record["rows"] == {"inserted": 0, "updated": 0, "deleted": 0}
    assert record["derived"][0]["touched"] == 0
    assert_right(shop, 2, OF_CUSTOMERS)


def test_what_row_order_may_change_decides_nothing(tmp_path: Path) -> None:
    shop: Shop = open_shop(tmp_path)
    sums = OF_CUSTOMERS.replace("sum(amount)", "sum(amount / 3)")
    assert deltajoin.plan(shop.model(sql=sums)).rebuilt_because is None
    for wrong in (sums + "WHERE p.total > 1", sums.replace("c.customer_id, c.name", "c.name")):
        stop = deltajoin.plan(shop.model(sql=wrong)).rebuilt_because
        assert stop is not None
        assert stop.code == "ORDER_DEPENDENT"
