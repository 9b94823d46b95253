"""Chains and diamonds over one frontier, with tables that change while the run is under way."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

import deltajoin
from deltajoin.audit.verify import verify
from deltajoin.catalog import load_target
from deltajoin.chain import ModelRun, RunSummary, run_all
from tests.spark import shop as shops
from tests.spark.shop import KEYS, SQL, Shop, copied, never, open_shop, rows_at

NAMED = SQL
DEAR = """
SELECT o.order_id, o.amount * 2 AS twice, c.customer_id
FROM orders AS o JOIN customers AS c ON o.customer_id = c.customer_id WHERE o.amount >= 100
"""
BOTH = """
SELECT n.order_id, n.amount, n.name, d.twice, c.name AS again
FROM named AS n JOIN dear AS d ON n.order_id = d.order_id
JOIN customers AS c ON d.customer_id = c.customer_id
"""
DIAMOND = {
    "both": (BOTH, ("named", "dear", "customers")),
    "dear": (DEAR, ("orders", "customers")),
    "named": (NAMED, ("orders", "customers")),
}
UNIQUE = {**KEYS, "named": ["order_id"], "dear": ["order_id"]}
Rows = Counter[tuple[Any, ...]]


class Diamond:
    """`named` and `dear` over orders and customers, and `both` over all of them."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop

    def model(self, name: str, /, **changes: Any) -> deltajoin.Model:
        sql, read = DIAMOND[name]
        fields: dict[str, Any] = {
            "name": name,
            "sql": sql,
            "sources": {table: self.shop.path(table) for table in read},
            "target": self.shop.path(name),
            "keys": {table: UNIQUE[table] for table in read},
            "mode": "incremental",
        }
        return deltajoin.Model(**{**fields, **changes})

    def models(self) -> list[deltajoin.Model]:
        return [self.model(name) for name in DIAMOND]

    def run(self, spark: Any, on_run: Callable[[ModelRun], None] | None = None) -> RunSummary:
        return run_all(self.models(), spark, on_run=on_run)

    def versions(self) -> dict[str, int]:
        return {name: DeltaTable(self.shop.path(name)).version() for name in KEYS}

    def assert_right(self, versions: dict[str, int]) -> None:
        """Every target is its query over the tables at these versions, and its ledger is whole."""
        for name, rows in expected(self.shop, versions).items():
            assert rows_at(self.shop.path(name)) == rows, name
            state = load_target(self.shop.path(name))
            assert state is not None
            assert verify(state) == ()

    def change(self, order: int) -> None:
        self.shop.append("orders", (order, 1, 500))
        self.shop.update("customers", "customer_id = 2", name=f"'changed {order}'")
        self.shop.delete("orders", f"order_id = {order % 40}")


def expected(shop: Shop, versions: dict[str, int]) -> dict[str, Rows]:
    with duckdb.connect() as connection:
        for name, version in versions.items():
            table = DeltaTable(shop.path(name), version=version)
            rows = QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all()
            connection.register(name, pa.table(rows))
        found = {}
        for name in ("named", "dear", "both"):
            result = connection.sql(DIAMOND[name][0]).to_arrow_table()
            connection.register(name, result)
            found[name] = shops.as_rows(result)
        return found


def told(summary: RunSummary) -> dict[str, tuple[str, str]]:
    return {one.model: (one.status, one.code) for one in summary.runs}


@pytest.fixture(scope="module")
def epoch(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    shop = open_shop(tmp_path_factory.mktemp("diamond"))
    assert Diamond(shop).run(spark).failed == ()
    return shop


@pytest.fixture
def diamond(epoch: Shop, tmp_path: Path) -> Diamond:
    """One whose targets hold epoch 1: a copy."""
    return Diamond(copied(epoch, tmp_path / "built"))


@pytest.fixture
def unbuilt(tmp_path: Path) -> Diamond:
    return Diamond(open_shop(tmp_path))


RAN = dict.fromkeys(("dear", "named", "both"), ("ran", "CHANGES"))


def test_a_diamond_reads_one_frontier_while_its_tables_move_on(
    spark: Any, unbuilt: Diamond
) -> None:
    """Rows that come between two models of a run belong to the next run."""
    first = unbuilt.run(spark)
    assert [one.model for one in first.runs] == ["dear", "named", "both"]
    assert (told(first)["both"], first.failed) == (("ran", "FIRST_RUN"), ())
    unbuilt.assert_right(unbuilt.versions())

    unbuilt.change(101)
    before = unbuilt.versions()
    moved: list[dict[str, Any]] = []

    def move(one: ModelRun) -> None:
        moved.append(one.to_dict())
        unbuilt.change(102 + len(moved))

    second = unbuilt.run(spark, move)
    assert (told(second), second.failed) == (RAN, ())
    unbuilt.assert_right(before)
    frontier = {Path(folder).name: pin["version"] for folder, pin in second.frontier.items()}
    assert before.items() <= frontier.items()
    read = {name: at["version"] for name, at in moved[-1]["record"]["frontier"].items()}
    assert read == {name: frontier[name] for name in ("named", "dear", "customers")}
    assert unbuilt.versions() != before

    third = unbuilt.run(spark)
    assert told(third) == RAN
    unbuilt.assert_right(unbuilt.versions())
    assert {one.code for one in unbuilt.run(never).runs} == {"NO_CHANGE"}


def test_rows_that_did_not_change_stop_at_the_first_model(spark: Any, diamond: Diamond) -> None:
    """A change that comes back to what it was is an epoch upstream, and nothing downstream."""
    diamond.shop.update("customers", "customer_id = 1", name="'changed'")
    diamond.shop.update("customers", "customer_id = 1", name="'name 1'")
    models = [diamond.model("named"), deltajoin.Model(**LAST(diamond))]
    run_all(models, spark)
    diamond.shop.update("orders", "order_id = 3", amount="amount")
    version = DeltaTable(diamond.shop.path("named")).version()
    summary = run_all(models, spark)
    assert told(summary) == {"named": ("ran", "CHANGES"), "last": ("ran", "NO_CHANGE")}
    feed = (
        spark.read.format("delta")
        .option("readChangeFeed", "true")
        .option("startingVersion", version + 1)
        .load(diamond.shop.path("named"))
    )
    assert feed.count() == 0


def LAST(diamond: Diamond) -> dict[str, Any]:
    return {
        "name": "last",
        "sql": "SELECT n.order_id, n.name FROM named AS n WHERE n.amount > 50",
        "sources": {"named": diamond.shop.path("named")},
        "target": diamond.shop.path("last"),
        "keys": {"named": ["order_id"]},
        "mode": "incremental",
    }


def test_a_failure_leaves_dependants_unrun(spark: Any, diamond: Diamond) -> None:
    """`dear` fails in Spark; `both` waits; `named` runs. Then all catch up."""
    version = DeltaTable(diamond.shop.path("both")).version()
    diamond.change(101)
    rows = rows_at(diamond.shop.path("dear"))
    broken = diamond.model("dear", sql=DEAR.replace("o.amount * 2", "CAST(c.name AS INT)"))
    summary = run_all([diamond.model("both"), broken, diamond.model("named")], spark)
    assert told(summary) == {
        "dear": ("failed", "EVALUATION_FAILED"),
        "named": ("ran", "CHANGES"),
        "both": ("skipped", "UPSTREAM_FAILED"),
    }
    assert [one.model for one in summary.failed] == ["dear", "both"]
    assert "'dear' (EVALUATION_FAILED)" in str(summary.runs[-1].error)
    assert rows_at(diamond.shop.path("dear")) == rows
    assert DeltaTable(diamond.shop.path("both")).version() == version

    assert diamond.run(spark).failed == ()
    diamond.assert_right(diamond.versions())


@pytest.mark.thorough
def test_runs_beside_this_one(spark: Any, diamond: Diamond) -> None:
    """One that takes `named` further is not seen; one that took `dear` further is not undone."""
    diamond.change(101)
    frozen = diamond.versions()

    def beside(one: ModelRun) -> None:
        if one.model == "named":
            diamond.change(102)
            deltajoin.run(diamond.model("named"), spark)

    assert told(diamond.run(spark, beside)) == RAN
    assert rows_at(diamond.shop.path("both")) == expected(diamond.shop, frozen)["both"]

    def ahead(one: ModelRun) -> None:
        if one.model == "dear":
            diamond.change(103)
            deltajoin.run(diamond.model("named"), spark)

    summary = diamond.run(spark, ahead)
    assert told(summary)["named"] == ("failed", "FRONTIER_BEHIND")
    assert told(summary)["both"] == ("skipped", "UPSTREAM_FAILED")
    assert diamond.run(spark).failed == ()
    diamond.assert_right(diamond.versions())


def test_a_table_that_is_replaced_under_the_run(spark: Any, diamond: Diamond) -> None:
    """The frozen version of the old table is gone: those that still need it fail."""
    diamond.change(101)

    def replace(one: ModelRun) -> None:
        if one.model == "dear":
            shutil.rmtree(diamond.shop.path("orders"))
            other = open_shop(diamond.shop.root.with_name("other"))
            for order in range(4):
                other.append("orders", (200 + order, 1, 5))
            shutil.copytree(other.path("orders"), diamond.shop.path("orders"))

    summary = diamond.run(spark, replace)
    assert told(summary)["dear"] == ("ran", "CHANGES")
    assert told(summary)["named"] == ("failed", "FRONTIER_LOST")
    assert diamond.run(spark).failed == ()
    diamond.assert_right(diamond.versions())


BAG = "SELECT c.name FROM orders o JOIN customers c ON o.customer_id = c.customer_id"
OF_BAG = {
    "again": "SELECT b.name, c.customer_id FROM bag b JOIN customers c ON b.name = c.name",
    "counts": "SELECT b.name, count(*) AS n FROM bag b GROUP BY b.name",
    "pairs": "SELECT a.name FROM bag a JOIN bag b ON a.name = b.name WHERE a.name < 'name 3'",
}


@pytest.mark.thorough
def test_rows_of_a_bag_count_as_often_as_it_holds_them(spark: Any, unbuilt: Diamond) -> None:
    """Upstream rows without a key: joined, counted, joined with themselves; told by the feed
    and by changed files."""
    shop = unbuilt.shop
    bag = unbuilt.model("named", name="bag", target=shop.path("bag"), sql=BAG)
    models = [bag]
    for name, sql in OF_BAG.items():
        sources = {"bag": bag.target, "customers": shop.path("customers")}
        used = {table: place for table, place in sources.items() if table in sql}
        models.append(deltajoin.Model(name, sql, used, shop.path(name), {}, "incremental"))

    def run(reason: str) -> dict[str, Any]:
        summary = run_all(models, spark)
        assert set(told(summary).values()) == {("ran", reason)}
        for model in models[1:]:
            wanted = shops.expected(shop, f"WITH bag AS ({BAG}) {model.sql}")
            assert shops.as_rows(deltajoin.read(model, spark).toArrow()) == wanted, model.name
        return {one.model: one.record.to_dict() for one in summary.runs if one.record}

    run("FIRST_RUN")
    shop.append("orders", (100, 1, 5), (101, 1, 5), (102, 7, 5))
    shop.delete("orders", "customer_id = 3")
    shop.update("customers", "customer_id = 2", name="'name 1'")
    records = run("CHANGES")
    assert records["pairs"]["strategy"] == "incremental"
    place = f"delta.`{shop.path('bag')}`"
    spark.sql(f"ALTER TABLE {place} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')")
    shop.delete("orders", "order_id IN (1, 8, 100)")
    records = run("CHANGES")
    assert {path["method"] for path in records["pairs"]["paths"]} == {"files"}


@pytest.mark.thorough
def test_catalog_names_meet_paths(spark: Any, unbuilt: Diamond) -> None:
    """Targets by name, read by name, by another spelling of it, and by folder."""
    spark.sql("CREATE DATABASE IF NOT EXISTS chains")
    dear = unbuilt.model("dear", target="chains.dear")
    names = "SELECT c.name FROM orders o JOIN customers c ON o.customer_id = c.customer_id"
    bag = unbuilt.model("named", name="bag", target="chains.bag", sql=names)
    sources = {
        "named": unbuilt.shop.path("named"),
        "dear": "spark_catalog.Chains.`dear`",
        "customers": unbuilt.shop.path("customers"),
    }
    both = unbuilt.model("both", sources=sources)
    of_bag = deltajoin.Model(
        "of_bag", "SELECT name FROM b", {"b": "chains.bag"}, "chains.of_bag", {}, "auto"
    )
    models = [both, of_bag, unbuilt.model("named"), dear, bag]
    try:
        first = told(run_all(models, spark))
        assert set(first.values()) == {("ran", "FIRST_RUN")}
        unbuilt.change(101)
        folder = spark.sql("DESCRIBE DETAIL chains.dear").collect()[0]["location"]
        by_folder = unbuilt.model("both", sources={**sources, "dear": folder})
        second = run_all([by_folder, unbuilt.model("named"), dear], spark)
        assert (told(second), second.failed) == (RAN, ())
        assert [one.model for one in second.runs][-1] == "both"
        assert spark.table("chains.of_bag").count() == spark.table("chains.bag").count() > 30
        wanted = expected(unbuilt.shop, unbuilt.versions())
        assert rows_at(unbuilt.shop.path("both")) == wanted["both"]
    finally:
        spark.sql("DROP DATABASE chains CASCADE")
