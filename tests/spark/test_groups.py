"""Grouped targets with hidden columns on real Delta tables: state, totals, hidden keys, views."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import deltajoin
from deltajoin.audit.verify import verify
from deltajoin.catalog import load_target
from deltajoin.chain import run_all
from deltajoin.runtime import execute
from deltajoin.runtime.own_session import FEW_ROWS_SETTING, for_few_rows, own_session
from tests.spark.shop import FEED, never
from tests.spark.test_oracle import compiled, quick

SALES = pa.schema(
    [
        ("id", pa.int64()),
        ("k", pa.int32()),
        ("qty", pa.int32()),
        ("big", pa.int64()),
        ("price", pa.decimal128(10, 2)),
        ("day", pa.string()),
    ]
)
PRODUCTS = pa.schema([("k", pa.int32()), ("name", pa.string())])
JOIN = "FROM sales s JOIN products p ON s.k = p.k"
LEFT = "FROM products p LEFT JOIN sales s ON s.k = p.k"
AVERAGES = "avg(s.qty) AS aq, avg(s.price) AS ap, avg(CAST(s.price AS DECIMAL(5, 1))) AS a1"

LINEAR = {
    "sums": f"SELECT p.name, sum(s.qty) AS q, sum(s.big) AS b, sum(s.price) AS v, count(*) AS n, "
    f"count(s.qty) AS c, sum(s.qty * 2 - s.k) FILTER (WHERE s.qty > 1) AS f {LEFT} GROUP BY p.name",
    "averages": f"SELECT p.name, {AVERAGES} {LEFT} GROUP BY p.name",
    "hidden key": f"SELECT sum(s.price) / count(*) AS mean {JOIN} GROUP BY p.name, s.day",
    "total": f"SELECT sum(s.price) AS v, count(*) AS n, count_if(s.qty > 2) AS i, "
    f"count(s.qty, s.day) AS b, {AVERAGES} {JOIN}",
    "having": f"SELECT p.name, 10 / (count(*) - 1) AS odd {JOIN} GROUP BY p.name "
    "HAVING count(*) > 1",
    "total having": f"SELECT sum(s.qty) AS q {JOIN} HAVING count(*) > 30",
    "distinct": f"SELECT DISTINCT p.name, s.day {LEFT}",
}
OTHER = {
    "extremes": f"SELECT p.name, max(s.price) AS hi, min(s.day) AS lo, count(*) AS n {JOIN} "
    "GROUP BY p.name",
    "mixed": f"SELECT count(DISTINCT s.day) AS d, sum(s.qty) AS q {JOIN} GROUP BY p.name",
    "mixed total": f"SELECT count(DISTINCT s.day) AS d, max(s.big) AS m {LEFT}",
}


class Market:
    """Two tables and a model for each query over them."""

    def __init__(self, root: Path) -> None:
        self.root, self.random = root, Random(7)
        write_deltalake(self.path("sales"), self.sales(40), configuration=FEED)
        names = [f"name {n % 5}" for n in range(7)]
        rows = pa.table([list(range(7)), names], schema=PRODUCTS)
        write_deltalake(self.path("products"), rows, configuration=FEED)

    def path(self, name: str) -> str:
        return str(self.root / name.replace(" ", "_"))

    def sales(self, count: int, first: int = 0) -> pa.Table:
        def row(number: int) -> tuple[Any, ...]:
            one = self.random.random
            price = None if one() < 0.2 else Decimal(self.random.randint(-99999, 99999)) / 100
            qty = None if one() < 0.2 else self.random.randint(-3, 9)
            day = None if one() < 0.1 else f"d{self.random.randint(1, 3)}"
            big = self.random.randint(-(2**52), 2**52)
            return first + number, self.random.randint(0, 7), qty, big, price, day

        rows = [row(number) for number in range(count)]
        return pa.table([list(c) for c in zip(*rows, strict=True)], schema=SALES)

    def model(self, name: str, sql: str, **changes: Any) -> deltajoin.Model:
        tables = {table: self.path(table) for table in ("sales", "products")}
        model = deltajoin.Model(name, sql, tables, self.path(name), mode="incremental")
        return replace(model, **changes)

    def wanted(self, spark: Any, sql: str) -> Counter[Any]:
        own = able(spark, sql)
        for table in ("sales", "products"):
            own.read.format("delta").load(self.path(table)).createOrReplaceTempView(table)
        return rows_of(own.sql(sql))


def able(spark: Any, sql: str) -> Any:
    """A session for a query: interpreted, Spark divides by what HAVING rules out."""
    return compiled(spark) if "HAVING" in sql else quick(spark)


def rows_of(frame: Any) -> Counter[Any]:
    return Counter(map(tuple, frame.collect()))


@pytest.fixture
def market(tmp_path: Path) -> Market:
    return Market(tmp_path)


def history(market: Market) -> Any:
    """Changes one after the other, with a word for each."""
    sales, products = (DeltaTable(market.path(t)) for t in ("sales", "products"))
    write_deltalake(market.path("sales"), market.sales(5, 100), mode="append")
    yield "inserts"
    sales.update_incremental()
    sales.delete("k = 1 or id = 3")
    products.update(predicate="k = 2", updates={"name": "'other'"})
    yield "a group gone"
    sales.update_incremental()
    sales.update(predicate="id < 9", updates={"qty": "NULL", "price": "price + 0.01"})
    write_deltalake(market.path("sales"), market.sales(6, 200), mode="append")
    yield "values gone"
    sales.update_incremental()
    sales.delete()
    yield "nothing left"
    write_deltalake(market.path("sales"), market.sales(20, 300), mode="append")
    yield "all back"


@pytest.fixture(name="spark")
def quick_spark(spark: Any) -> Any:
    return quick(spark)


def test_averages_of_decimals_have_sparks_last_digit(spark: Any, market: Market) -> None:
    """Many quotients, ties among them: the sums stay and rows come."""
    kinds = ((10, 2), (18, 6), (5, 0), (3, 1), (20, 4))
    shown = ", ".join(
        f"avg(CAST(s.price * {n + 1} AS DECIMAL({p}, {s}))) AS a{n}"
        for n, (p, s) in enumerate(kinds)
    )
    model = market.model("averages", f"SELECT s.id % 9 AS g, {shown} {LEFT} GROUP BY s.id % 9")
    DeltaTable(market.path("sales")).update(updates={"price": "price / 1000"})
    deltajoin.run(model, spark)
    for step in range(1, 4):
        rows = market.sales(17 * step, 1000 * step)
        prices = [
            None if p is None else (p / 1000).quantize(Decimal("0.01"))
            for p in rows["price"].to_pylist()
        ]
        rows = rows.set_column(4, SALES.field(4), pa.array(prices, SALES.field(4).type))
        write_deltalake(market.path("sales"), rows, mode="append")
        assert deltajoin.plan(model).regroup == ()
        deltajoin.run(model, spark)
        assert rows_of(deltajoin.read(model, spark)) == market.wanted(spark, model.sql)


def test_groups_that_stay_are_not_written(spark: Any, market: Market) -> None:
    """An update that changes no group's state, in a table that the query doesn't see, or at all."""
    model = market.model("sums", LINEAR["sums"])
    deltajoin.run(model, spark)
    sales = DeltaTable(market.path("sales"))
    sales.update(predicate="id < 9", updates={"day": "'d9'"})
    sales.update(predicate="id < 20", updates={"qty": "qty"})
    before = DeltaTable(model.target).version()
    record = deltajoin.run(model, spark)
    assert (record.strategy, set(record.rows.values())) == ("incremental", {0})
    feed = spark.read.format("delta").option("readChangeFeed", "true")
    feed = feed.option("startingVersion", before + 1).load(model.target)
    assert feed.count() == 0


def test_shadow_compares_the_state_too(spark: Any, market: Market, thorough: bool) -> None:
    names = ("having", "averages", "total having")[: 3 if thorough else 1]
    for name in names:
        model = market.model(name, LINEAR[name])
        deltajoin.run(model, able(spark, model.sql))
    write_deltalake(market.path("sales"), market.sales(5, 100), mode="append")
    for name in names:
        model = market.model(name, LINEAR[name], mode="shadow")
        record = deltajoin.run(model, able(spark, model.sql))
        assert record.strategy == "incremental"
        assert record.shadow is not None
        shown = market.wanted(spark, LINEAR[name]).total()
        assert (record.shadow["rows"], record.shadow["differing"]) == (shown, 0)


def test_what_fails_interpreted_is_compiled(spark: Any, market: Market) -> None:
    """Few rows are interpreted; Spark then divides by what HAVING rules out."""
    odd = "SELECT s.id, 10 / (count(*) - 1) AS odd FROM sales s GROUP BY s.id HAVING count(*) > 1"
    model = market.model("odd", f"{odd} ORDER BY s.id LIMIT 5", mode="auto")
    caller = able(spark, odd)
    caller.conf.unset(FEW_ROWS_SETTING)
    caller.read.format("delta").load(market.path("sales")).createOrReplaceTempView("sales")
    with for_few_rows(caller), pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        caller.sql(model.sql).collect()
    assert caller.sql(model.sql).collect() == []
    steps: list[str] = []
    record = deltajoin.run(model, caller, on_step=lambda name, _: steps.append(name))
    assert (record.strategy, steps.count("target_created")) == ("full", 1)
    assert steps.count("before_merge") == 2
    assert deltajoin.read(model, caller).collect() == []


def test_what_means_something_else_interpreted_is_compiled(spark: Any, market: Market) -> None:
    """Few rows are interpreted; Spark then gives -1 for a distance with no limit known."""
    sql = "SELECT s.id, levenshtein('abc', 'adc', nullif(s.k, s.k)) AS d FROM sales s"
    model = market.model("distance", sql)
    caller = able(spark, "HAVING")  # compiled
    caller.conf.unset(FEW_ROWS_SETTING)
    for _ in ("full", "incremental"):
        deltajoin.run(model, caller)
        assert {row.d for row in deltajoin.read(model, spark).collect()} == {None}
        write_deltalake(market.path("sales"), market.sales(2, 100), mode="append")


def test_a_run_leaves_no_plans_behind(
    spark: Any, market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta keeps a run's session with the snapshots that it loaded; its views are gone."""
    own: list[Any] = []
    monkeypatch.setattr(
        execute, "own_session", lambda *args: own.append(own_session(*args)) or own[-1]
    )
    views: list[int] = []

    def count(name: str, _: Any) -> None:
        if name == "verified":
            views.append(len(own[-1].sql("SHOW VIEWS").collect()))

    model = market.model("sums", "SELECT k, sum(qty) AS qty FROM sales GROUP BY k")
    for _ in ("full", "incremental"):
        deltajoin.run(model, spark, on_step=count)
        write_deltalake(market.path("sales"), market.sales(2, 100), mode="append")
    assert len(own) == len(views) == 2
    assert min(views) > 0
    assert [session.sql("SHOW VIEWS").collect() for session in own] == [[], []]


@pytest.mark.sampled
@pytest.mark.parametrize("name", [*LINEAR, *OTHER])
def test_every_epoch_equals_the_query(
    spark: Any, market: Market, name: str, thorough: bool
) -> None:
    """In a short run, the first changes come three at a time."""
    model = market.model(name, {**LINEAR, **OTHER}[name])
    record = deltajoin.run(model, able(spark, model.sql))
    assert record.kind == "grouped"
    assert rows_of(deltajoin.read(model, spark)) == market.wanted(spark, model.sql)
    for word in history(market):
        if word in ("inserts", "a group gone") and not thorough:
            continue
        merged = name in LINEAR or (name == "extremes" and word in ("inserts", "all back"))
        assert bool(deltajoin.plan(model).regroup) != merged, word
        record = deltajoin.run(model, spark)
        assert (record.strategy, record.kind) == ("incremental", "grouped")
        assert rows_of(deltajoin.read(model, spark)) == market.wanted(spark, model.sql), word
    state = load_target(model.target)
    assert state is not None
    assert verify(state) == ()
    assert deltajoin.run(model, never).strategy == "noop"


def test_by_name_there_is_a_view_and_models_read_through_it(spark: Any, market: Market) -> None:
    """Also by a query that is only rebuilt; HAVING hides groups from readers."""
    spark.sql("CREATE DATABASE IF NOT EXISTS market")
    of_having = "SELECT h.name, p.k FROM h JOIN products p ON h.name = p.name"
    rebuilt = "SELECT * FROM h ORDER BY name LIMIT 100"
    sources = {"h": "market.having", "products": market.path("products")}
    models = [
        market.model("having", LINEAR["having"], target="market.having"),
        market.model("sums", LINEAR["sums"], target="market.sums"),
        market.model("last", of_having, sources=sources, target="market.last"),
        market.model("opaque", rebuilt, sources=sources, target="market.opaque"),
        market.model("by path", "SELECT s.name, s.q FROM s", sources={"s": "market.sums"}),
    ]
    try:
        for word in ("", *history(market)):
            if word in ("inserts", "a group gone"):
                continue
            assert run_all(models, spark).failed == (), word
            for model in models[:2]:
                wanted = market.wanted(spark, model.sql)
                assert rows_of(spark.table(model.target)) == wanted
                assert rows_of(deltajoin.read(model, spark)) == wanted
            shown = spark.table("market.having")
            assert shown.columns == ["name", "odd"]
            products = spark.read.format("delta").load(market.path("products"))
            wanted = rows_of(shown.join(products, "name").select("name", "k"))
            assert rows_of(spark.table("market.last")) == wanted
            assert rows_of(spark.table("market.opaque")) == rows_of(shown)
            sums = spark.table("market.sums").select("name", "q")
            assert rows_of(deltajoin.read(models[4], spark)) == rows_of(sums)
        keyed = market.model("sums", f"SELECT p.name, max(s.qty + 1) AS m {JOIN} GROUP BY p.name")
        with pytest.raises(deltajoin.DeltaJoinError, match="TARGET_KIND_CHANGED"):
            deltajoin.run(replace(keyed, target="market.sums"), spark)
    finally:
        spark.sql("DROP DATABASE market CASCADE")


WIDE = pa.schema([("id", pa.int64()), ("k", pa.int32()), ("w", pa.decimal128(38, 4))])
#: What a change's sum has room for, what the query's has, and of what the query's hasn't for two.
LARGE, LARGER, LARGEST = (Decimal("9" * digits + ".5") for digits in (24, 31, 34))
BY_WIDE = (
    "SELECT w.k, sum(w.w * (1 - p.off) * (1 + p.off)) AS paid, sum(w.w) AS total, count(*) AS n "
    "FROM wide w JOIN offers p ON p.k = w.k GROUP BY w.k"
)


@pytest.mark.sampled
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_sums_of_types_with_many_digits_are_added_to(ansi: str, spark: Any, tmp_path: Path) -> None:
    """As long as their values have room; else a rebuild takes the run's place."""
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", ansi)
    wide, offers = str(tmp_path / "wide"), str(tmp_path / "offers")

    def rows(*found: tuple[int, int, Decimal | None]) -> pa.Table:
        return pa.table([list(c) for c in zip(*found, strict=True)], schema=WIDE)

    kinds = pa.schema([("k", pa.int32()), ("off", pa.decimal128(15, 1))])
    off = pa.table([[1, 2, 3], [Decimal("0.1"), Decimal("0.5"), None]], schema=kinds)
    write_deltalake(offers, off, configuration=FEED)
    first = rows((1, 1, Decimal("10.1234")), (2, 1, None), (3, 2, LARGE), (4, 3, LARGE))
    write_deltalake(wide, first, configuration=FEED)
    places = {"wide": wide, "offers": offers}
    model = deltajoin.Model("sums", BY_WIDE, places, str(tmp_path / "sums"), mode="incremental")

    def run() -> tuple[str, str]:
        record = deltajoin.run(model, session)
        for name, place in places.items():
            session.read.format("delta").load(place).createOrReplaceTempView(name)
        assert rows_of(deltajoin.read(model, session)) == rows_of(session.sql(BY_WIDE))
        return record.strategy, record.reason.partition(":")[0]

    assert run()[0] == "full"
    write_deltalake(wide, rows(*((n, 1, LARGE) for n in range(10, 30))), mode="append")
    assert run() == ("incremental", "CHANGES")
    DeltaTable(wide).delete("id < 20")
    DeltaTable(offers).update(predicate="k = 3", updates={"off": "CAST(0.2 AS DECIMAL(15,1))"})
    assert run() == ("incremental", "CHANGES")
    write_deltalake(wide, rows((40, 3, LARGER)), mode="append")
    assert run() == ("full", "SUM_OVERFLOW")
    if ansi == "true":
        return
    write_deltalake(wide, rows((50, 1, LARGEST), (51, 1, LARGEST)), mode="append")
    assert run() == ("full", "SUM_OVERFLOW")
    write_deltalake(wide, rows((60, 1, LARGE), (61, 2, LARGE)), mode="append")
    assert run() == ("full", "SUM_OVERFLOW")
    write_deltalake(wide, rows((70, 2, LARGE)), mode="append")
    assert run() == ("incremental", "CHANGES")
    DeltaTable(wide).delete("id >= 50")
    assert run() == ("full", "SUM_OVERFLOW")
    DeltaTable(wide).delete("id = 40 OR id = 10")
    assert run()[0] == "full"
    write_deltalake(wide, rows((80, 1, LARGE), (81, 3, LARGE)), mode="append")
    assert run() == ("incremental", "CHANGES")
