"""Windows and generators on Spark: real arrays and structs, QUALIFY, ties, random trees below."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import deltajoin
from deltajoin import DeltaJoinError
from deltajoin.api import check_rows
from deltajoin.delta.ties import open_windows
from tests.property.layers import generate_layers
from tests.property.oracle import draw, maker_of
from tests.spark.test_oracle import follow, profile_of, quick

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ITEM = pa.struct([("sku", pa.string()), ("qty", pa.int64())])
PLACE = pa.struct([("city", pa.string()), ("at", pa.struct([("zip", pa.string())]))])
SALES = pa.schema(
    [
        ("id", pa.int64()),
        ("day", pa.int64()),
        ("store", pa.string()),
        ("price", pa.float64()),
        ("items", pa.list_(ITEM)),
        ("tags", pa.list_(pa.string())),
        ("place", PLACE),
        ("json", pa.string()),
    ]
)
STORES = pa.schema([("store", pa.string()), ("region", pa.string())])
JOIN = "FROM sales AS s LEFT JOIN stores AS t ON t.store = s.store"
KEYS = {"sales": ["id"], "stores": ["store"]}


def sale(number: int, **changes: Any) -> dict[str, Any]:
    items = [{"sku": f"s{(number + i) % 3}", "qty": i} for i in range(number % 4)]
    row = {
        "id": number,
        "day": number % 5,
        "store": (None, "a", "b", "c", "d")[number % 5],
        "price": number / 10,
        "items": None if number % 7 == 0 else items,
        "tags": [None, "x"] if number % 6 == 0 else ["y"] * (number % 3),
        "place": None if number % 8 == 0 else {"city": f"c{number % 3}", "at": {"zip": "1"}},
        "json": f'{{"a": {number % 4}}}',
    }
    return {**row, **changes}


@dataclass
class Sales:
    """Two tables on disk, a model over them, and a session that does not compile."""

    root: Path
    spark: SparkSession

    def path(self, name: str) -> str:
        return str(self.root / name)

    def append(self, *rows: dict[str, Any]) -> None:
        write_deltalake(
            self.path("sales"), pa.Table.from_pylist(list(rows), schema=SALES), mode="append"
        )

    def model(self, sql: str, **options: Any) -> deltajoin.Model:
        return deltajoin.Model(
            name="sales",
            sql=sql,
            sources={name: self.path(name) for name in ("sales", "stores")},
            target=self.path("target"),
            keys=KEYS,
            mode="incremental_strict",
        )

    def assert_right(self, model: deltajoin.Model) -> None:
        own = self.spark.newSession()
        for name in ("sales", "stores"):
            own.read.format("delta").load(self.path(name)).createOrReplaceTempView(name)
        wanted = own.sql(model.sql)
        found = deltajoin.read(model, self.spark).select(*wanted.columns)
        assert Counter(map(str, found.collect())) == Counter(map(str, wanted.collect()))


@pytest.fixture
def sales(spark: SparkSession, tmp_path: Path) -> Sales:
    made = Sales(tmp_path, quick(spark))
    feed = {"delta.enableChangeDataFeed": "true"}
    rows = [sale(number) for number in range(24)]
    write_deltalake(
        made.path("sales"), pa.Table.from_pylist(rows, schema=SALES), configuration=feed
    )
    stores = [{"store": name, "region": "north"} for name in "abc"]
    stores = pa.Table.from_pylist(stores, schema=STORES)
    write_deltalake(made.path("stores"), stores, configuration=feed)
    return made


QUERIES = {
    "numbers": (
        "SELECT s.id, t.region, sum(s.price) OVER w AS so_far, "
        "lag(s.price) OVER (PARTITION BY t.region ORDER BY s.id) AS before, "
        f"percent_rank() OVER (PARTITION BY t.region ORDER BY s.day) AS share {JOIN} "
        "WINDOW w AS (PARTITION BY t.region ORDER BY s.day DESC, s.id "
        "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)",
        "keyed",
    ),
    "hidden partition": (
        "SELECT s.id, s.price, row_number() OVER (PARTITION BY t.region ORDER BY s.price, s.id) "
        f"AS n {JOIN}",
        "grouped",
    ),
    "hidden partition of a bag": (
        f"SELECT s.price, rank() OVER (PARTITION BY s.day + 1 ORDER BY s.price) AS n {JOIN}",
        "bag",
    ),
    "newest of a hidden partition": (
        f"SELECT s.price, t.region {JOIN} QUALIFY row_number() OVER (PARTITION BY s.day, s.store "
        "ORDER BY s.price DESC, s.id) = 1",
        "grouped",
    ),
    "newest": (
        "WITH numbered AS (SELECT s.*, t.region, row_number() OVER (PARTITION BY s.store, s.day "
        f"ORDER BY s.price DESC, s.id) AS rn {JOIN}) "
        "SELECT * EXCEPT (rn) FROM numbered WHERE rn = 1",
        "keyed",
    ),
    "qualify": (
        f"SELECT s.day, t.region, s.price {JOIN} WHERE s.id > 1 "
        "QUALIFY rank() OVER (PARTITION BY s.day ORDER BY s.price DESC) <= 2",
        "bag",
    ),
    "views": (
        f"SELECT s.id, t.region, i.sku, i.qty + 1 AS more, p, tag, j {JOIN} "
        "LATERAL VIEW OUTER explode(s.items) e AS i LATERAL VIEW OUTER posexplode(s.tags) f "
        "AS p, tag LATERAL VIEW json_tuple(s.json, 'a') g AS j "
        "WHERE s.id > 2 AND (i.qty IS NULL OR i.qty > 0)",
        "bag",
    ),
    "inline": (
        f"SELECT s.id, sku, qty {JOIN} LATERAL VIEW inline(s.items) e AS sku, qty",
        "bag",
    ),
    "named fields": (
        "SELECT q.id, to_json(struct(q.Cost, (t.region), q.cost + 1)) AS one, (t.region, q.at.zip) "
        "AS two, arrays_zip(q.tags, array(q.cost)) AS three FROM (SELECT id, store, price * 2 AS "
        "cost, tags, place.at FROM sales) AS q LEFT JOIN stores AS t ON t.store = q.store",
        "keyed",
    ),
    "named fields of groups": (
        "SELECT t.region, to_json(max(struct(s.price, t.Region))) AS top, to_json(struct(t.region, "
        f"count(*), min(s.day) AS d)) AS n {JOIN} GROUP BY t.region",
        "keyed",
    ),
    "ordered": (
        "SELECT t.region, listagg(s.store, '; ') WITHIN GROUP (ORDER BY s.store DESC) AS names, "
        "listagg(DISTINCT s.store) WITHIN GROUP (ORDER BY s.store) AS few, sort_array(collect_list("
        "struct(s.day, s.id))) AS days, max_by(s.price, struct(s.day, s.id)) AS last, any_value("
        "t.region) AS same, concat_ws(',', sort_array(collect_set(s.store))) AS stores, "
        f"any(s.price > 1) AS dear {JOIN} GROUP BY ALL",
        "keyed",
    ),
    "windows over groups": (
        "SELECT t.region, s.day, count(*) AS n, sum(count(*)) OVER (PARTITION BY t.region) AS all, "
        "rank() OVER (PARTITION BY t.region, s.day % 2 ORDER BY max(s.id)) AS r "
        f"{JOIN} GROUP BY t.region, s.day",
        "keyed",
    ),
    "rollup": (
        "SELECT t.region, s.day, count(*) AS n, sum(s.id) AS s, grouping(s.day) AS g, "
        f"grouping_id() AS i {JOIN} GROUP BY ROLLUP (t.region, s.day) "
        "HAVING grouping_id() <> 0 OR count(*) > 1",
        "grouped",
    ),
    "sets": (
        "SELECT s.store, s.day % 2 AS odd, max(s.price) AS top, any(s.id > 30) AS a, rank() OVER "
        f"(PARTITION BY grouping_id() ORDER BY count(*)) AS r {JOIN} GROUP BY GROUPING SETS "
        "((s.store, s.day % 2), s.store, ())",
        "bag",
    ),
    "stack": (
        "SELECT s.store, stack(2, 'price', s.price, 'day', CAST(s.day AS double)) AS (what, n) "
        "FROM sales AS s",
        "bag",
    ),
    "groups": (
        "WITH lines AS (SELECT s.day, t.region, explode(s.items) AS i "
        f"{JOIN}) SELECT region, i.sku, sum(i.qty) AS qty FROM lines GROUP BY region, i.sku",
        "keyed",
    ),
    "above a view": (
        "SELECT region, sku, dense_rank() OVER (PARTITION BY region ORDER BY sku) AS r FROM "
        f"(SELECT t.region, i.sku {JOIN} LATERAL VIEW explode(s.items) e AS i) AS x",
        "bag",
    ),
    "fields": (
        "SELECT s.id, s.place.at.zip AS zip, s.items[0].sku AS first, element_at(s.tags, 1) AS tag,"
        f" CASE WHEN s.items[0].qty = 0 THEN CAST(s.price AS int) END AS whole, s.place {JOIN} "
        "WHERE s.place.city <> 'c1' AND get(s.items, 0).sku IS NOT NULL AND size(s.tags) > 0",
        "keyed",
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", list(QUERIES))
def test_real_arrays_structs_and_ranks(sales: Sales, name: str) -> None:
    sql, kind = QUERIES[name]
    model = sales.model(sql)
    assert deltajoin.run(model, sales.spark).kind == kind
    sales.append(sale(30, tags=[]), sale(31, items=[]), sale(32, day=9, store="a"))
    DeltaTable(sales.path("sales")).delete("id IN (3, 5, 7)")
    record = deltajoin.run(model, sales.spark)
    assert (record.strategy, record.reason) == ("incremental", "CHANGES")
    sales.assert_right(model)
    DeltaTable(sales.path("stores")).update(updates={"region": "'south'"}, predicate="store = 'b'")
    DeltaTable(sales.path("stores")).delete("store = 'c'")
    sales.append(sale(5), sale(40, price=99.0))
    assert deltajoin.run(model, sales.spark).strategy == "incremental"
    sales.assert_right(model)


def test_a_partition_that_comes_out_the_same_is_not_written(sales: Sales) -> None:
    sql = f"SELECT s.id, s.day, rank() OVER (PARTITION BY s.day ORDER BY s.price) AS r {JOIN}"
    model = sales.model(sql)
    deltajoin.run(model, sales.spark)
    rows = sum(1 for number in range(24) if number % 5 == 4)
    DeltaTable(sales.path("sales")).update(updates={"price": "price + 100"}, predicate="day = 4")
    assert deltajoin.run(model, sales.spark).rows == {"inserted": 0, "updated": 0, "deleted": 0}
    DeltaTable(sales.path("sales")).update(updates={"price": "0 - price"}, predicate="day = 4")
    assert deltajoin.run(model, sales.spark).rows["updated"] == rows
    sales.assert_right(model)


def test_a_bag_with_a_hidden_partition_is_compared_in_shadow(sales: Sales) -> None:
    sql = f"SELECT s.store, count(*) OVER (PARTITION BY s.day) AS n {JOIN}"
    model = replace(sales.model(sql), mode="shadow")
    assert deltajoin.run(model, sales.spark).kind == "bag"
    sales.append(sale(30), sale(31, day=0), sale(32, day=0, store="a"))
    DeltaTable(sales.path("sales")).delete("id IN (3, 4)")
    assert deltajoin.run(model, sales.spark).strategy == "incremental"
    sales.assert_right(model)


def test_rows_that_tie_stop_the_run(sales: Sales) -> None:
    """A declared key that is none would number rows as Spark happens to read them."""
    sql = f"SELECT s.day, row_number() OVER (PARTITION BY s.day ORDER BY s.id) AS n {JOIN}"
    model = sales.model(sql)
    assert deltajoin.run(model, sales.spark).kind == "bag"
    sales.append(sale(6, price=7.0))
    with pytest.raises(DeltaJoinError) as caught:
        deltajoin.run(model, sales.spark)
    assert caught.value.code == "KEY_VIOLATED"


LAST = (
    "SELECT s.store, s.id, s.json, t.region FROM sales AS s LEFT JOIN stores AS t "
    "ON t.store = s.store "
    "QUALIFY row_number() OVER (PARTITION BY s.store ORDER BY s.price DESC) = 1"
)


def test_the_last_row_of_each_is_kept_until_rows_tie(sales: Sales) -> None:
    """Rows that tie below the first one, and the same row twice, leave the query one result."""
    model = replace(sales.model(LAST), keys={"stores": ["store"]}, mode="incremental")
    assert deltajoin.run(model, sales.spark).kind == "keyed"
    below = sale(30, store="a", price=-1.0)
    for rows in [(below, {**below, "id": 31}), (sale(32, store="a", price=9.0),) * 2]:
        sales.append(*rows)
        assert deltajoin.run(model, sales.spark).reason == "CHANGES"
        sales.assert_right(model)
    sales.append(sale(33, store="b", price=9.0), sale(34, store="b", price=9.0, json="{}"))
    with pytest.raises(DeltaJoinError) as caught:
        deltajoin.run(replace(model, mode="incremental_strict"), sales.spark)
    assert (caught.value.code, caught.value.where) == ("WINDOW_TIES", "s.store, s.price")
    for number in (35, 36):
        record = deltajoin.run(model, sales.spark)
        assert (record.strategy, record.reason, record.kind) == ("full", "WINDOW_TIES", "plain")
        assert record.evidence == {"tied": "s.store, s.price"}
        sales.append(sale(number, store="c", price=9.0 + number))
    names = [row.store for row in deltajoin.read(model, sales.spark).collect()]
    assert sorted(map(str, names)) == ["None", "a", "b", "c", "d"]


@pytest.mark.sampled
@pytest.mark.parametrize("mode", ["auto", "full"])
def test_ties_of_a_bag_are_rebuilt_by_its_text(sales: Sales, mode: str) -> None:
    sql = f"SELECT s.day, s.tags, row_number() OVER (PARTITION BY s.day ORDER BY s.price) n {JOIN}"
    model = replace(sales.model(sql), keys={}, mode=mode)
    assert deltajoin.run(model, sales.spark).kind == "bag"
    sales.append(sale(30))
    record = deltajoin.run(model, sales.spark)
    assert record.reason == ("CHANGES" if mode == "auto" else "FULL_REQUESTED")
    sales.assert_right(model)
    for number in (30, 31):
        sales.append(sale(30, tags=["z"], id=number))
        record = deltajoin.run(model, sales.spark)
        assert (record.strategy, record.kind) == ("full", "bag")
        assert record.reason == ("WINDOW_TIES" if mode == "auto" else "FULL_REQUESTED")
        assert deltajoin.read(model, sales.spark).count() == number - 4
        assert check_rows(model, sales.spark)["rows"] == number - 4


def test_rows_may_tie_at_the_first_build_and_beside_a_hidden_column(sales: Sales) -> None:
    sql = f"SELECT s.id, s.store, row_number() OVER (PARTITION BY s.day ORDER BY s.day) n {JOIN}"
    model = replace(sales.model(sql), mode="auto")
    first = deltajoin.run(model, sales.spark)
    assert (first.reason, first.kind) == ("FIRST_RUN", "plain")
    sales.append(sale(30))
    assert deltajoin.run(model, sales.spark).reason == "WINDOW_TIES"
    for shown, kept in (("s.id", False), ("s.day", True)):
        named = replace(model, sql=sql.replace("s.id", shown), keys={}, target="shown")
        plan = deltajoin.plan(named, locate=lambda name: None)
        assert (plan.rebuilt_because is None, plan.graph is not None) == (kept, kept)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", [2, 3])
def test_every_epoch_of_layers_equals_the_query(
    seed: int, spark: SparkSession, tmp_path: Path
) -> None:
    """Windows and generators over random trees: the first kept case from a seed on."""
    for attempt in range(20):
        profile = replace(profile_of(seed), averages=False, keyed=True)
        case = draw(seed + 1_000 * attempt, profile, generate_layers)
        maker = maker_of(case)
        if maker is not None and open_windows(maker.graph, tied=False) is None:
            return follow(case, spark, tmp_path)
    raise AssertionError("no case is kept incrementally")
