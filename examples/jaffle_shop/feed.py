"""Ten days of a small shop with a kitchen, as seven Delta tables with a change feed.

Day 1 lands the shop with two months of orders. Each later day brings new customers, orders, items
and payments, and changes what is there: renamed customers, new prices, late payments, returned
orders with their refund, corrected and cancelled items, deleted orders; on some days a store, a
product, customers who leave and come back. What a day brings depends on the seed alone.

Keys: `id` of each table, `sku` of raw_products. Customers who leave keep their orders, and a
deleted order may keep its payment: the joins of the project must bear both.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

SEED = 20240901
START = dt.date(2024, 9, 1)
DAYS = 10
_KINDS = {"id": pa.int64(), "text": pa.string(), "cents": pa.int64(), "day": pa.date32()}


def _fields(**kinds: str) -> pa.Schema:
    return pa.schema([(name, _KINDS[kind]) for name, kind in kinds.items()])


SCHEMAS: Mapping[str, pa.Schema] = {
    "raw_customers": _fields(id="id", name="text", email="text"),
    "raw_stores": _fields(id="id", name="text", opened_at="day", tax_basis_points="cents"),
    "raw_products": _fields(sku="text", name="text", type="text", price="cents"),
    "raw_supplies": _fields(id="id", sku="text", name="text", cost="cents"),
    "raw_orders": _fields(
        id="id", customer_id="id", store_id="id", ordered_at="day", status="text"
    ),
    "raw_items": _fields(id="id", order_id="id", sku="text", quantity="cents"),
    "raw_payments": _fields(
        id="id", order_id="id", method="text", amount="cents", status="text"
    ),
}  # fmt: skip

Row = dict[str, Any]


def key_of(table: str) -> str:
    """The key column of a table."""
    return "sku" if table == "raw_products" else "id"


class Shop:
    """The rows of the shop after the days played so far, by table and key."""

    def __init__(self, orders: int = 1200, customers: int = 150) -> None:
        self.rows: dict[str, dict[Any, Row]] = {name: {} for name in SCHEMAS}
        self._chance = random.Random(SEED)
        self._ids = dict.fromkeys(SCHEMAS, 0)
        self._unpaid: list[Row] = []
        self._left: list[Row] = []
        self._size = orders, customers
        self.day = 0

    def play(self) -> dict[str, tuple[list[Row], list[Any]]]:
        """Play the next day: table -> rows that are new or changed, keys that are deleted."""
        before = {name: {k: dict(v) for k, v in rows.items()} for name, rows in self.rows.items()}
        self.day += 1
        if self.day == 1:
            self._open()
        else:
            self._trade()
        changes = {}
        for name, rows in self.rows.items():
            written = [row for key, row in rows.items() if before[name].get(key) != row]
            changes[name] = written, [key for key in before[name] if key not in rows]
        return changes

    def _open(self) -> None:
        for city, tax in (("Philadelphia", 600), ("Brooklyn", 400), ("Chicago", 625)):
            self._add("raw_stores", name=city, opened_at=START, tax_basis_points=tax)
        for number in range(12):
            kind = "jaffle" if number % 2 else "beverage"
            self._add_product(f"{kind[:3].upper()}-{number:03}", f"{kind} {number}", kind)
        for _ in range(self._size[1]):
            self._add_customer()
        for _ in range(self._size[0]):
            self._order(START - dt.timedelta(days=self._chance.randrange(1, 60)))

    def _trade(self) -> None:
        self._pay_late()
        self._change_dimensions()
        self._correct_orders()
        for _ in range(60):
            self._order(self._today())
        self._order(self._today(), shy=True)
        self._special_day()

    def _today(self) -> dt.date:
        return START + dt.timedelta(days=self.day - 1)

    def _pay_late(self) -> None:
        for order in self._unpaid:
            if order["id"] in self.rows["raw_orders"]:
                self._pay(order)
        self._unpaid = []

    def _change_dimensions(self) -> None:
        for _ in range(4):
            self._add_customer()
        for customer in self._some("raw_customers", 5):
            customer["name"] = f"{customer['name'].split(',')[0]}, since day {self.day}"
        for product in self._some("raw_products", 1):
            product["price"] += self._chance.choice([-25, 25, 50])
        for supply in self._some("raw_supplies", 2):
            supply["cost"] += 5

    def _correct_orders(self) -> None:
        for order in self._some("raw_orders", 4):
            if order["status"] == "completed":
                order["status"] = "returned"
                self._pay(order, refund=True)
        for item in self._some("raw_items", 4):
            item["quantity"] += 1
        for item in self._some("raw_items", 2):
            del self.rows["raw_items"][item["id"]]
        for order in self._some("raw_orders", 2):
            self._delete_order(order["id"])

    def _special_day(self) -> None:
        if self.day == 4:
            today = self._today()
            self._add("raw_stores", name="New Orleans", opened_at=today, tax_basis_points=400)
        if self.day == 6:
            self._add_product("JAF-900", "the day-six special", "jaffle")
        if self.day == 7:
            self._left = [dict(row) for row in self._some("raw_customers", 3)]
            for row in self._left:
                del self.rows["raw_customers"][row["id"]]
        if self.day == 9:
            self.rows["raw_customers"] |= {row["id"]: row for row in self._left}

    def _some(self, table: str, count: int) -> list[Row]:
        keys = self._chance.sample(sorted(self.rows[table]), count)
        return [self.rows[table][key] for key in keys]

    def _add(self, table: str, **values: Any) -> Row:
        self._ids[table] += 1
        row = {"id": self._ids[table], **values}
        self.rows[table][row["id"]] = row
        return row

    def _add_product(self, sku: str, name: str, kind: str) -> None:
        price = self._chance.randrange(300, 1500, 25)
        self.rows["raw_products"][sku] = {"sku": sku, "name": name, "type": kind, "price": price}
        for part in ("bread", "filling", "cup")[: self._chance.randrange(0, 4)]:
            cost = self._chance.randrange(10, 120)
            self._add("raw_supplies", sku=sku, name=part, cost=cost)

    def _add_customer(self) -> None:
        number = self._ids["raw_customers"] + 1
        email = f"c{number}@example.com" if self._chance.random() < 0.9 else None
        self._add("raw_customers", name=f"Customer {number}", email=email)

    def _order(self, day: dt.date, shy: bool = False) -> None:
        """An order with items and payment; every tenth customer is shy and orders seldom."""
        chance = self._chance
        known = shy or chance.random() < 0.97
        pool = [c for c in sorted(self.rows["raw_customers"]) if (c % 10 == 0) == shy]
        order = self._add(
            "raw_orders",
            customer_id=chance.choice(pool) if known else None,
            store_id=chance.choice(sorted(self.rows["raw_stores"])),
            ordered_at=day,
            status="completed",
        )
        for _ in range(chance.randrange(0, 5)):
            sku = chance.choice(sorted(self.rows["raw_products"]))
            quantity = chance.randrange(1, 4)
            self._add("raw_items", order_id=order["id"], sku=sku, quantity=quantity)
        if chance.random() < 0.9:
            self._pay(order)
        else:
            self._unpaid.append(order)

    def _pay(self, order: Row, refund: bool = False) -> None:
        amount = self._chance.randrange(300, 6000)
        status = "refunded" if refund else self._chance.choice(["success"] * 9 + ["failed"])
        self._add(
            "raw_payments",
            order_id=order["id"],
            method=self._chance.choice(["card", "cash", "gift"]),
            amount=-amount if refund else amount,
            status=status,
        )

    def _delete_order(self, number: int) -> None:
        del self.rows["raw_orders"][number]
        items = self.rows["raw_items"]
        for key in [key for key, item in items.items() if item["order_id"] == number]:
            del items[key]


def land(raw: Path, changes: Mapping[str, tuple[list[Row], list[Any]]]) -> dict[str, int]:
    """Write a day's changes; gives the number of rows written or deleted by table."""
    landed = {}
    for name, (rows, gone) in sorted(changes.items()):
        place, key = str(raw / name), key_of(name)
        table = pa.Table.from_pylist(rows, schema=SCHEMAS[name])
        landed[name] = len(rows) + len(gone)
        if not DeltaTable.is_deltatable(place):
            feed = {"delta.enableChangeDataFeed": "true"}
            write_deltalake(place, table, configuration=feed)
            continue
        if rows:
            merge = DeltaTable(place).merge(
                table, f"old.{key} = new.{key}", source_alias="new", target_alias="old"
            )
            merge.when_matched_update_all().when_not_matched_insert_all().execute()
        if gone:
            listed = ", ".join(f"'{k}'" if isinstance(k, str) else str(k) for k in gone)
            DeltaTable(place).delete(f"{key} in ({listed})")
    return landed
