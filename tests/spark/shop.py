"""A small shop on disk: orders and customers as Delta tables without Spark, one model over them.

Everything is written and read with delta-rs and compared with DuckDB, so that a test starts Spark
only for what Spark has to do. `copied` gives a test its own copy of tables and target: epochs name
table ids and versions, not folders, so a copy continues where its original was.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake

import deltajoin
from deltajoin.audit.verify import verify
from deltajoin.catalog import TargetState, load_target
from deltajoin.delta.history import epochs_of
from deltajoin.names import ROW_HASH

FEED = {"delta.enableChangeDataFeed": "true"}
SQL = """
SELECT o.order_id, o.amount, c.name
FROM orders AS o
JOIN customers AS c ON o.customer_id = c.customer_id
"""
BAG = "SELECT c.name FROM orders o LEFT JOIN customers c ON o.customer_id = c.customer_id"
GROUPS = """
SELECT c.name, count(*) AS n, sum(o.amount) AS amount
FROM orders o JOIN customers c ON o.customer_id = c.customer_id GROUP BY c.name
"""
KEYS = {"orders": ["order_id"], "customers": ["customer_id"]}
ORDERS = pa.schema([("order_id", pa.int64()), ("customer_id", pa.int64()), ("amount", pa.int64())])
CUSTOMERS = pa.schema([("customer_id", pa.int64()), ("name", pa.string())])
SCHEMAS = {"orders": ORDERS, "customers": CUSTOMERS}


@dataclass(frozen=True)
class Shop:
    """The folder with `orders`, `customers` and, after a run, `target`."""

    root: Path

    def path(self, table: str) -> str:
        return str(self.root / table)

    def model(self, **changes: Any) -> deltajoin.Model:
        model = deltajoin.Model(
            name="shop",
            sql=SQL,
            sources={name: self.path(name) for name in SCHEMAS},
            target=self.path("target"),
            keys=KEYS,
        )
        return replace(model, **changes)

    def append(self, table: str, *rows: tuple[Any, ...]) -> None:
        write_deltalake(self.path(table), as_table(table, rows), mode="append")

    def delete(self, table: str, where: str) -> None:
        DeltaTable(self.path(table)).delete(where)

    def update(self, table: str, where: str, **values: str) -> None:
        DeltaTable(self.path(table)).update(predicate=where, updates=values)

    def target(self) -> TargetState:
        state = load_target(self.path("target"))
        assert state is not None
        return state


def as_table(table: str, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [[] for _ in SCHEMAS[table]]
    return pa.table([list(column) for column in columns], schema=SCHEMAS[table])


def open_shop(root: Path, configuration: Mapping[str, str | None] = FEED) -> Shop:
    """Tables with 40 orders of 8 customers, one of whom has none."""
    shop = Shop(root)
    orders = [(n, n % 7, 10 * n) for n in range(40)]
    customers = [(n, f"name {n}") for n in range(8)]
    for table, rows in (("orders", orders), ("customers", customers)):
        write_deltalake(shop.path(table), as_table(table, rows), configuration=dict(configuration))
    return shop


def copied(shop: Shop, root: Path) -> Shop:
    shutil.copytree(shop.root, root, dirs_exist_ok=True)
    return Shop(root)


def rows_at(path: str) -> Counter[tuple[Any, ...]]:
    """The rows of a Delta table, deletion vectors applied, without their hash, read without
    Spark."""
    found = QueryBuilder().register("t", DeltaTable(path)).execute("SELECT * FROM t").read_all()
    table = pa.table(found)
    return as_rows(table.select([name for name in table.column_names if name != ROW_HASH]))


def as_rows(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def expected(shop: Shop, sql: str = SQL) -> Counter[tuple[Any, ...]]:
    """The query over the tables as they are now, by DuckDB."""
    with duckdb.connect() as connection:
        for table in SCHEMAS:
            found = QueryBuilder().register("t", DeltaTable(shop.path(table)))
            rows = pa.table(found.execute("SELECT * FROM t").read_all())
            connection.register(table, rows)
        return as_rows(connection.sql(sql).to_arrow_table())


def epochs(state: TargetState) -> list[int]:
    """The epochs that the target's history holds, oldest first; twice if committed twice."""
    return [int(record["epoch"]) for record in reversed(records(state))]


def records(state: TargetState) -> list[dict[str, Any]]:
    """What the commits of the target's history carry, newest first."""
    return [record for _, record in epochs_of(state)]


def assert_right(shop: Shop, last: int, sql: str = SQL) -> None:
    """The target holds the query's rows, every epoch once, and a ledger without a fault."""
    assert rows_at(shop.path("target")) == expected(shop, sql)
    assert_whole(shop.path("target"), last)


def assert_whole(target: str, last: int) -> None:
    """Every epoch once, and a ledger without a fault."""
    state = load_target(target)
    assert state is not None
    assert epochs(state) == list(range(1, last + 1))
    assert verify(state) == ()


def files_of(folder: str) -> dict[str, bytes]:
    """Every file below a folder; the frozen plans apart, which a run may leave behind."""
    root = Path(folder)
    return {
        str(file.relative_to(root)): file.read_bytes()
        for file in sorted(root.rglob("*"))
        if file.is_file() and "_deltajoin/plans" not in str(file)
    }


def written(shop: Shop) -> dict[str, bytes]:
    """The target's log and audit files: what a refused run must leave as they are."""
    folders = ("target/_delta_log", "target/_deltajoin/audit")
    return {
        f"{folder}/{name}": content
        for folder in folders
        if (shop.root / folder).exists()
        for name, content in files_of(shop.path(folder)).items()
    }


def at(step: str, work: Callable[[], Any]) -> Callable[[str, dict[str, Any]], None]:
    """For `on_step`: some work when a run comes to a step."""
    return lambda name, info: work() if name == step else None


def never() -> Any:
    raise AssertionError("this run must not start Spark")


@lru_cache(maxsize=1)
def _first_epoch(spark: Any, root: Path) -> Shop:
    shop = open_shop(root)
    deltajoin.run(shop.model(), spark)
    return shop


def built(spark: Any, factory: Any, root: Path) -> Shop:
    """A copy of a shop whose target holds epoch 1; built once for all tests."""
    return copied(_first_epoch(spark, factory.getbasetemp() / "shop"), root)
