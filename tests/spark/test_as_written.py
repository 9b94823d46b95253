"""Whatever Spark runs is run: queries that nothing here understands, by their own text."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

import deltajoin
from deltajoin import DeltaJoinError
from tests.property.test_written import QUERIES, history_of, written
from tests.spark.shop import Shop, open_shop

JOIN = "FROM orders AS o JOIN customers AS c ON o.customer_id = c.customer_id"
READ_BY_SPARK_ALONE = {
    "another parser": "TABLE orders",
    "pipes": "FROM orders |> WHERE amount > 0 |> SELECT order_id, amount",
    "a CTE of a source's name": "WITH orders AS (SELECT order_id AS h FROM orders) TABLE orders",
    "sorted": "SELECT o.order_id FROM orders AS o SORT BY o.amount",
    "pivoted": "SELECT * FROM (SELECT customer_id, amount FROM orders) "
    "PIVOT (sum(amount) AS s FOR customer_id IN (1.0 AS one, 2 AS two))",
    "without names": "SELECT o.order_id, o.amount + 1 " + JOIN,
    "a literal": "SELECT 1 AS a, 'x' AS b",
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return open_shop(tmp_path_factory.mktemp("as_written"))


def assert_as_written(spark: Any, model: deltajoin.Model) -> None:
    """Columns and rows are those that Spark gives for the text."""
    own = spark.newSession()
    for source, place in model.sources.items():
        own.read.format("delta").load(place).createOrReplaceTempView(source)
    wanted = own.sql(model.sql)
    found = deltajoin.read(model, spark)
    assert found.schema.simpleString() == wanted.schema.simpleString()
    assert sorted(map(str, found.collect())) == sorted(map(str, wanted.collect()))


@pytest.mark.sampled
@pytest.mark.parametrize("name", READ_BY_SPARK_ALONE)
def test_the_text_itself_is_run(spark: Any, shop: Shop, tmp_path: Path, name: str) -> None:
    sql = READ_BY_SPARK_ALONE[name]
    model = replace(shop.model(sql=sql, keys={}), target=str(tmp_path / "target"))
    record = deltajoin.run(model, spark)
    assert record.strategy == "full"
    assert_as_written(spark, model)
    with pytest.raises(DeltaJoinError):
        deltajoin.plan(replace(model, mode="incremental_strict", target=str(tmp_path / "other")))


def test_a_function_of_the_user_is_run_and_named(spark: Any, shop: Shop, tmp_path: Path) -> None:
    sql = "SELECT o.order_id, rand() >= 0 AS always " + JOIN
    model = replace(shop.model(sql=sql), target=str(tmp_path / "target"))
    record = deltajoin.run(model, spark)
    assert record.strategy == "full"
    assert any("rand()" in warning for warning in record.warnings)
    assert deltajoin.run(model, spark).strategy == "noop"


def test_versions_that_the_text_names_are_read(spark: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "day`s")
    for value in (1, 2, 3):
        write_deltalake(place, pa.table({"k": [1, value], "v": [value, 10 * value]}), mode="append")
    own, tokyo = spark.newSession(), spark.newSession()
    zone = spark._jvm.java.util.TimeZone.getDefault().getID()  # in others Delta shifts it twice
    own.conf.set("spark.sql.session.timeZone", zone)
    tokyo.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    tokyo.createDataFrame([(1,)], "k int").collect()  # which makes it the active session
    latest = DeltaTable(place).history(1)[0]["timestamp"] - 1
    before = datetime.fromtimestamp(latest / 1000, ZoneInfo(zone)).replace(tzinfo=None)
    name = f"delta.`{place.replace('`', '``')}`"
    sql = f"""WITH first AS (SELECT * FROM {name} VERSION AS OF 0) -- the first day
        SELECT n.k, n.v, f.v AS first, s.v AS second, l.v AS last
        FROM {name} AS n LEFT JOIN first AS f ON f.v = n.v
        LEFT JOIN {name} VERSION AS OF '1' s ON s.v = n.v
        LEFT JOIN {name} TIMESTAMP AS OF '{before}' l ON l.v = n.v"""
    model = deltajoin.Model("versions", sql, {name: place}, str(tmp_path / "target"))
    for _ in range(2):
        record = deltajoin.run(model, own)
        assert record.strategy == "full"
        wanted = sorted(map(tuple, own.sql(sql).collect()), key=str)
        assert sorted(map(tuple, deltajoin.read(model, own).collect()), key=str) == wanted
        assert deltajoin.run(model, own).strategy == "noop"
        write_deltalake(place, pa.table({"k": [9], "v": [1]}), mode="append")
    with pytest.raises(DeltaJoinError, match="TIME_TRAVEL"):
        deltajoin.plan(replace(model, mode="incremental_strict", target=str(tmp_path / "other")))


def test_the_files_of_a_table_are_told(spark: Any, shop: Shop, tmp_path: Path) -> None:
    names = {f"delta.`{place}`": place for place in shop.model().sources.values()}
    orders, customers = (next(n for n in names if t in n) for t in ("orders", "customers"))
    sql = f"""SELECT order_id, o._metadata.file_path AS path, c._metadata.file_size + 1 AS size
        FROM {orders} AS o JOIN {customers} AS c ON o.customer_id = c.customer_id
        WHERE length(o._metadata.file_name) > 3"""
    model = deltajoin.Model("files", sql, names, str(tmp_path / "target"))
    record = deltajoin.run(model, spark)
    assert record.strategy == "full"
    assert any("_metadata" in warning for warning in record.warnings)
    wanted = sorted(map(tuple, spark.sql(sql).collect()))
    assert wanted
    assert sorted(map(tuple, deltajoin.read(model, spark).collect())) == wanted
    assert deltajoin.run(model, spark).strategy == "noop"


def test_what_spark_refuses_leaves_nothing(spark: Any, shop: Shop, tmp_path: Path) -> None:
    for sql in ("SELECT o.order_id >>> FROM orders AS o", "TABLE nothing_there"):
        target = tmp_path / "target"
        with pytest.raises(DeltaJoinError) as caught:
            deltajoin.run(replace(shop.model(sql=sql, keys={}), target=str(target)), spark)
        assert caught.value.code == "SPARK_ANALYSIS"
        assert not target.exists()


@pytest.mark.sampled
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM customers LIMIT 100",
        "SELECT order_id, name FROM orders NATURAL JOIN customers LIMIT 100",
        "SELECT amount, collect_list(order_id) AS ids FROM orders WHERE EXISTS "
        "(SELECT 1 FROM customers WHERE customer_id = 1 AND amount = 10) GROUP BY amount",
    ],
)
def test_a_column_that_a_source_gains_may_be_read(spark: Any, tmp_path: Path, sql: str) -> None:
    shop = open_shop(tmp_path)
    model = shop.model(sql=sql, keys={})
    assert deltajoin.run(model, spark).reason == "FIRST_RUN"
    amount = Field("amount", PrimitiveType("long"), nullable=True)
    DeltaTable(shop.path("customers")).alter.add_columns(amount)
    record = deltajoin.run(model, spark)
    assert (record.strategy, record.reason) == ("full", "SOURCE_SCHEMA_CHANGED")
    assert_as_written(spark, model)
    assert deltajoin.run(model, spark).strategy == "noop"


Rows = list[tuple[Any, ...]]
A = pa.schema([("id", pa.int32()), ("k", pa.int32()), ("s", pa.string()), ("p", pa.bool_())])
TAGGED = pa.schema([("id", pa.int32()), ("x", pa.string()), ("tags", pa.list_(pa.string()))])
#: The same rows at first as by another reading; a later change tells them apart.
READ_OTHERWISE: dict[str, tuple[str, dict[str, tuple[pa.Schema, Rows, Rows]], dict[str, str]]] = {
    "rows that a star counts": (
        "SELECT k, count(* EXCEPT (id)) AS n FROM a GROUP BY k",
        {"a": (A, [(1, 1, "x", True)], [(2, 1, None, True)])},
        {},
    ),
    "a parameter in another case": (
        "SELECT id, transform(tags, X -> upper(x)) AS s FROM a",
        {"a": (TAGGED, [(1, "q", [])], [(2, "zzz", ["a"])])},
        {},
    ),
    "a parameter of a table's name": (
        "SELECT x.id, filter(x.tags, x -> x < s) AS s FROM a AS x JOIN b ON x.id = b.id",
        {"a": (TAGGED, [(1, "q", [])], [(2, "q", ["a"])]), "b": (A, [(2, 1, "b", True)], [])},
        {},
    ),
    "comparisons in a row": (
        "SELECT a.id FROM a LEFT ANTI JOIN b ON a.p = b.p <= (b.k > 0)",
        {
            "a": (A, [(1, 1, "x", True), (2, 1, "x", False)], []),
            "b": (A, [], [(1, 1, "x", True)]),
        },
        {},
    ),
    "text in numbers": (
        "SELECT id FROM a WHERE s IN (SELECT k FROM b)",
        {
            "a": (A, [(1, 1, "1", True)], [(2, 1, "01", True)]),
            "b": (A, [(1, 1, "x", True)], []),
        },
        {"spark.sql.ansi.enabled": "false"},
    ),
    "a comment that goes on": (
        "SELECT id, k FROM a -- all of c:\\data\\\nWHERE k = 1",
        {"a": (A, [(1, 1, "x", True)], [(2, 2, "x", True)])},
        {},
    ),
    "a CTE of a view's name": (
        "WITH a_v0 AS (SELECT 99 AS id) SELECT o.id FROM a AS o UNION ALL SELECT id FROM a_v0 "
        "LIMIT 100",
        {"a": (A, [(1, 1, "x", True)], [(2, 2, "x", True)])},
        {},
    ),
    "a table with its schema": (
        "SELECT dw.a.id, dw.b.s FROM dw.a JOIN dw.b ON dw.a.k = dw.b.k",
        {
            "dw.a": (A, [(1, 1, "x", True)], [(2, 1, "x", True)]),
            "dw.b": (A, [(1, 1, "y", True)], []),
        },
        {},
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", READ_OTHERWISE)
def test_a_later_change_is_read_as_it_is_written(spark: Any, tmp_path: Path, name: str) -> None:
    sql, tables, settings = READ_OTHERWISE[name]
    session, own = spark.newSession(), spark.newSession()
    for key, value in settings.items():
        session.conf.set(key, value)
        own.conf.set(key, value)
    sources = {table: str(tmp_path / table) for table in tables}
    keys = {table: ("id",) for table in tables}
    model = deltajoin.Model("as_written", sql, sources, str(tmp_path / "target"), keys)
    for step in (1, 2):
        for table, (schema, *rows) in tables.items():
            values = [dict(zip(schema.names, row, strict=True)) for row in rows[step - 1]]
            write_deltalake(sources[table], pa.Table.from_pylist(values, schema), mode="append")
            name_of = table.replace("dw.", "dw_")
            own.read.format("delta").load(sources[table]).createOrReplaceTempView(name_of)
        deltajoin.run(model, session)
        wanted = own.sql(sql.replace("dw.", "dw_")).collect()
        found = deltajoin.read(model, session).collect()
        assert sorted(map(tuple, found)) == sorted(map(tuple, wanted)), step


def test_a_comma_before_join_by_the_session(spark: Any, shop: Shop, tmp_path: Path) -> None:
    """Spark can be told that a comma binds more weakly; we read it as Spark does by itself."""
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.relationPrecedence", "true")
    using = "JOIN customers AS c USING (customer_id)"
    sql = f"SELECT o.order_id, c.name FROM orders AS o, orders AS p {using}"
    with pytest.raises(DeltaJoinError) as caught:
        deltajoin.run(replace(shop.model(sql=sql), target=str(tmp_path / "target")), session)
    assert caught.value.code == "SESSION_SYNTAX"


@pytest.mark.parametrize("file", ["written.sql", "clocked.sql", "last_rows.sql"])
def test_what_random_histories_are_tried_on_is_sparks_sql(spark: Any, file: str) -> None:
    own = spark.newSession()
    for table in history_of("", 1).tables:
        columns = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in table.columns)
        own.sql(f"SELECT {columns}").createOrReplaceTempView(table.name)
    for query in written(QUERIES.with_name(file)):
        own.sql(query)
