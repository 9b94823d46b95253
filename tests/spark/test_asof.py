"""The last row before each, as people write it, on Spark: moments of a zone whose clock is put
back, ties, rows that come late. Mode `shadow` holds each epoch against the query's own text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import deltajoin
from tests.spark.test_oracle import quick

BEFORE = "FROM trades t LEFT JOIN quotes q ON q.symbol = t.symbol AND q.at <= t.at"
LAST = "row_number() OVER (PARTITION BY t.id ORDER BY q.at DESC"
QUERIES = {
    "filter above": f"""
        WITH ranked AS (SELECT t.id, t.at, q.price, q.at AS quoted, {LAST}) AS n {BEFORE})
        SELECT id, at, price, quoted FROM ranked WHERE n = 1""",
    "tolerance": f"""
        SELECT t.id, q.price {BEFORE} AND t.at <= q.at + INTERVAL 90 MINUTES AND q.price > 3
        QUALIFY {LAST}, q.price DESC) = 1""",
    "groups": f"""
        SELECT t.id, t.symbol, max_by(coalesce(q.price, 0), q.at) AS price, max(q.at) AS quoted
        {BEFORE} AND q.at >= t.at - INTERVAL 2 HOURS GROUP BY t.id, t.symbol""",
    "first after": """
        SELECT t.id, q.price FROM trades t JOIN quotes q ON q.symbol = t.symbol AND q.at > t.at
        WHERE t.symbol <> 'b'
        QUALIFY row_number() OVER (PARTITION BY t.id ORDER BY q.at) = 1""",
    "subquery": """
        SELECT t.id, t.at, 1 + (
          SELECT coalesce(q.price, 0) FROM quotes q
          WHERE q.symbol = t.symbol AND q.at <= t.at AND q.at > t.at - INTERVAL 3 HOURS
          ORDER BY q.at DESC LIMIT 1) AS price FROM trades t""",
    "lateral": """
        SELECT t.symbol, l.* FROM trades t LEFT JOIN LATERAL (
          SELECT q.price, q.at FROM quotes q WHERE q.symbol = t.symbol AND q.at >= t.at
          ORDER BY q.at LIMIT 1) AS l""",
    "totals": f"""
        SELECT last.symbol, count(*) AS trades, sum(last.price) AS price
        FROM (SELECT t.id, t.symbol, q.price {BEFORE} QUALIFY {LAST}) = 1) AS last
        GROUP BY last.symbol""",
}
THOROUGH = ("filter above", "subquery", "first after", "totals", "lateral", "tolerance")
#: The clock of Berlin is put back an hour later.
START = datetime(2026, 10, 25, 0, 0, tzinfo=UTC)
FEED = {"delta.enableChangeDataFeed": "true"}


def moment(minutes: int) -> datetime:
    return START + timedelta(minutes=minutes)


class Market:
    """The tables `trades` and `quotes` in a folder, each with rows of two symbols."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("trades", [(n, "ab"[n % 2], 7 * n) for n in range(30)])
        self.write("quotes", [("ab"[n % 2], 11 * n, n % 5) for n in range(20)])

    def path(self, name: str) -> str:
        return str(self.root / name)

    def write(self, name: str, rows: list[tuple[Any, ...]]) -> None:
        at = pa.timestamp("us", "UTC")
        if name == "trades":
            names, kinds = ("id", "symbol", "at"), (pa.int64(), pa.string(), at)
            values = [(i, symbol, moment(minutes)) for i, symbol, minutes in rows]
        else:
            names, kinds = ("symbol", "at", "price"), (pa.string(), at, pa.int64())
            values = [(symbol, moment(minutes), price) for symbol, minutes, price in rows]
        columns = zip(*values, strict=True)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
        table = pa.table(arrays, names=list(names))
        write_deltalake(self.path(name), table, mode="append", configuration=FEED)

    def change(self, name: str) -> DeltaTable:
        return DeltaTable(self.path(name))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    thorough = metafunc.config.getoption("--thorough")
    metafunc.parametrize("name", [n for n in QUERIES if thorough or n not in THOROUGH])


def test_the_last_row_follows_every_change(name: str, spark: Any, tmp_path: Path) -> None:
    market, spark = Market(tmp_path), quick(spark)
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    model = deltajoin.Model(
        name="last",
        sql=QUERIES[name],
        sources={table: market.path(table) for table in ("trades", "quotes")},
        target=market.path("target"),
        keys={"trades": ("id",), "quotes": ("symbol", "at")},
        mode="shadow",
    )
    plan = deltajoin.plan(model)
    assert plan.graph is not None
    assert [d.asof for d in plan.graph.all_derived if d.asof]
    assert deltajoin.run(model, spark).strategy == "full"

    market.write("quotes", [("a", 33, 9), ("b", 60, 8), ("c", 5, 7)])  # come late
    market.write("trades", [(40, "a", 45), (41, "c", 4), (42, "c", 6)])
    assert_kept(model, spark)
    market.change("quotes").delete("price = 4")
    market.change("trades").update(updates={"symbol": "'b'"}, predicate="id < 6")
    assert_kept(model, spark)
    market.change("quotes").update(updates={"price": "price + 1"}, predicate="symbol = 'a'")
    market.change("trades").delete("id % 5 = 1")
    assert_kept(model, spark)
    assert deltajoin.run(model, spark).strategy == "noop"


def assert_kept(model: deltajoin.Model, spark: Any) -> None:
    record = deltajoin.run(model, spark)
    assert (record.strategy, record.reason) == ("incremental", "CHANGES")
