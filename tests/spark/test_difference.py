"""Rebuilds by difference: right rows, a feed that tells no more than what changed."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import deltajoin
from deltajoin.audit.verify import verify
from deltajoin.catalog import load_target
from deltajoin.emit import job as jobs
from tests.spark.shop import KEYS, SQL, Shop, epochs, never, open_shop, records

Rows = Counter[tuple[Any, ...]]
JOIN = "FROM orders AS o JOIN customers AS c ON o.customer_id = c.customer_id"


@dataclass(frozen=True)
class Case:
    """A query with the kind of its target, and what a model reads from that."""

    sql: str
    kind: str
    downstream: str
    keys: Any = None


CASES = {
    "top k": Case(
        f"SELECT c.name, o.amount {JOIN} ORDER BY o.amount NULLS LAST, c.name LIMIT 25",
        "plain",
        "SELECT t.name, count(*) AS n, sum(t.amount) AS total FROM target AS t GROUP BY t.name",
    ),
    "window of all rows": Case(
        "SELECT o.amount, rank() OVER (ORDER BY o.amount) AS place, count(*) OVER () > 30 AS many "
        + JOIN,
        "plain",
        "SELECT t.place, count(*) AS n FROM target AS t GROUP BY t.place",
    ),
    "collected": Case(
        f"SELECT c.name, sort_array(collect_list(o.amount)) AS amounts {JOIN} "
        "GROUP BY c.name ORDER BY c.name LIMIT 100",
        "plain",
        "SELECT t.name, size(t.amounts) AS n FROM target AS t",
    ),
    "keyed": Case(
        SQL,
        "keyed",
        "SELECT t.name, sum(t.amount) AS total FROM target AS t GROUP BY t.name",
        KEYS,
    ),
    "bag": Case(
        f"SELECT c.name, o.amount % 3 AS third {JOIN}",
        "bag",
        "SELECT t.name, count(*) AS n FROM target AS t GROUP BY t.name",
    ),
    "grouped": Case(
        f"SELECT c.name, sum(o.amount) AS total {JOIN} GROUP BY c.name HAVING count(*) > 3",
        "grouped",
        "SELECT t.total, count(*) AS n FROM target AS t GROUP BY t.total",
    ),
}


def model(shop: Shop, case: Case, **changes: Any) -> deltajoin.Model:
    return shop.model(sql=case.sql, keys=case.keys or {}, **changes)


def by_spark(spark: Any, sql: str, paths: dict[str, str]) -> Rows:
    """The user's own text over the tables as they are now."""
    session = spark.newSession()
    for name, path in paths.items():
        session.read.format("delta").load(path).createOrReplaceTempView(name)
    return as_rows(session.sql(sql))


def as_rows(frame: Any) -> Rows:
    return Counter(tuple(frozen(value) for value in row) for row in frame.collect())


def frozen(value: Any) -> Any:
    """A value that counts: lists and structs as tuples, floats by their text."""
    if isinstance(value, (list, tuple)):
        return tuple(frozen(part) for part in value)
    return repr(value) if isinstance(value, float) else value


def stored(spark: Any, shop: Shop) -> Rows:
    return as_rows(spark.read.format("delta").load(shop.path("target")))


def told(spark: Any, shop: Shop, version: int) -> tuple[Rows, Rows]:
    """What the target's feed tells of a version: rows that came, rows that went."""
    feed = (
        spark.read.format("delta")
        .option("readChangeFeed", "true")
        .option("startingVersion", str(version))
        .option("endingVersion", str(version))
        .load(shop.path("target"))
        .drop("_commit_version", "_commit_timestamp")
    )
    came, went = (feed.where(f"_change_type IN {kinds}") for kinds in (CAME, WENT))
    return as_rows(came.drop("_change_type")), as_rows(went.drop("_change_type"))


CAME, WENT = "('insert', 'update_postimage')", "('delete', 'update_preimage')"


def assert_only_changes_are_told(spark: Any, shop: Shop, before: Rows, record: Any) -> None:
    """Every row in the feed is one that the target now holds more often or less often."""
    after = stored(spark, shop)
    came, went = told(spark, shop, record.target_version)
    assert {row for row in came | went if before[row] == after[row]} == set()
    assert Counter({row: came[row] - went[row] for row in came | went}) == Counter(
        {row: after[row] - before[row] for row in before | after if after[row] != before[row]}
    )


def change(shop: Shop, chance: random.Random, epoch: int) -> None:
    """Every order is written anew, and some of them change: too much for an incremental run."""
    shop.update("orders", "true", amount="amount")
    copies = chance.choices(range(3), k=3)
    number, customer = 1000 + 10 * epoch, chance.choice([None, 1, 2, 3])
    shop.append("orders", *((number + n, customer, 10 * copy) for n, copy in enumerate(copies)))
    shop.append("orders", (number + 9, chance.randrange(7), None))
    where = f"order_id % 7 = {chance.randrange(7)} AND order_id % 3 = 0"
    shop.update("orders", where, amount=chance.choice(["amount + 10", "20", "NULL"]))
    shop.delete("orders", f"order_id = {chance.randrange(40)}")
    if chance.random() < 0.5:
        name = chance.choice(["'name 1'", "NULL", f"'name {epoch}'"])
        shop.update("customers", f"customer_id = {chance.randrange(8)}", name=name)


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_every_epoch(spark: Any, tmp_path: Path, name: str, thorough: bool) -> None:
    """The target is the user's query, its feed the difference, and what reads it is incremental;
    where the sources changed and the rows did not, one commit with nothing in it."""
    case, shop, chance = CASES[name], open_shop(tmp_path), random.Random(name)
    tables = {table: shop.path(table) for table in KEYS}
    upstream = model(shop, case)
    downstream = deltajoin.Model(
        name="downstream",
        sql=case.downstream,
        sources={"target": shop.path("target")},
        target=shop.path("downstream"),
        mode="incremental",
    )
    assert deltajoin.run(upstream, spark).written == "overwrite"
    assert deltajoin.run(downstream, spark).strategy == "full"
    last = 7 if thorough else 3
    for epoch in range(2, last + 1):
        change(shop, chance, epoch)
        before = stored(spark, shop)
        record = deltajoin.run(upstream, spark)
        assert (record.epoch, record.kind) == (epoch, case.kind)
        assert (record.strategy, record.written) == ("full", "difference")
        rows = as_rows(deltajoin.read(upstream, spark))
        assert rows == by_spark(spark, case.sql, tables)
        assert_only_changes_are_told(spark, shop, before, record)
        if epoch in (3, last):
            assert deltajoin.run(downstream, spark).strategy == "incremental"
            deltajoin.read(upstream, spark).createOrReplaceTempView("target")
            assert as_rows(deltajoin.read(downstream, spark)) == as_rows(spark.sql(case.downstream))
    shop.update("orders", "true", amount="amount")
    record = deltajoin.run(upstream, spark)
    assert (record.strategy, record.written) == ("full", "difference")
    assert record.rows == {"inserted": 0, "updated": 0, "deleted": 0}
    assert told(spark, shop, shop.target().version) == (Counter(), Counter())
    assert deltajoin.run(upstream, never).strategy == "noop"
    assert epochs(shop.target()) == list(range(1, last + 2))
    assert verify(shop.target()) == ()


def test_what_is_counted(spark: Any, tmp_path: Path) -> None:
    """An update of a plain row is a row less and a row more; of a keyed one, an update."""
    shop = open_shop(tmp_path)
    plain = Case(f"SELECT c.name {JOIN} ORDER BY c.name LIMIT 1000", "plain", "")
    models = [
        model(shop, CASES["keyed"]),
        model(shop, plain, name="plain", target=shop.path("plain")),
    ]
    for one in models:
        deltajoin.run(one, spark)
    shop.update("orders", "true", amount="amount")
    shop.update("orders", "order_id = 0", customer_id="6")  # of customers 0..6 in turn
    shop.append("orders", (100, 1, 5))
    shop.delete("orders", "order_id IN (2, 9)")
    keyed, counted = (deltajoin.run(one, spark) for one in models)
    assert keyed.rows == {"inserted": 1, "updated": 1, "deleted": 2}
    assert counted.rows == {"inserted": 2, "updated": 0, "deleted": 3}
    state = load_target(shop.path("plain"))
    assert state is not None
    assert epochs(state) == [1, 2]
    assert records(state)[0]["rebuilt_rows"] == 39


def test_full_on_request_writes_everything(spark: Any, tmp_path: Path) -> None:
    shop = open_shop(tmp_path)
    case = CASES["top k"]
    deltajoin.run(model(shop, case), spark)
    record = deltajoin.run(model(shop, case, mode="full"), spark)
    assert (record.reason, record.written, record.rows["inserted"]) == (
        "FULL_REQUESTED",
        "overwrite",
        25,
    )


ZERO = "CASE WHEN o.amount % 2 = 0 THEN -0.0D ELSE 0.0D END AS zero"
ZEROS = {
    "plain": f"""
    SELECT {ZERO}, struct(CAST(o.amount AS FLOAT) * CAST('-0' AS FLOAT) AS inner) AS nested,
      CASE WHEN o.amount > 5 THEN double('NaN') END AS nan
    FROM orders AS o ORDER BY o.amount LIMIT 100
    """,
    "keyed": f"SELECT o.order_id, {ZERO} FROM orders AS o",
}


def test_zeros_that_differ_by_their_sign(spark: Any, tmp_path: Path) -> None:
    """Spark compares them as equal, and GROUP BY gives 0.0 for both; what it gives out differs."""
    shop = open_shop(tmp_path)
    common = {"sources": {"orders": shop.path("orders")}, "keys": {"orders": ["order_id"]}}
    models = [
        shop.model(name=kind, sql=sql, target=shop.path(kind), **common)
        for kind, sql in ZEROS.items()
    ]
    for one in models:
        deltajoin.run(one, spark)
    for amount in ("amount + 1", "CASE WHEN order_id > 20 THEN -amount ELSE amount + 1 END"):
        shop.update("orders", "true", amount=amount)
        for one in models:
            record = deltajoin.run(one, spark)
            assert (record.kind, record.written) == (one.name, "difference")
            found = as_rows(spark.read.format("delta").load(one.target))
            assert found == by_spark(spark, one.sql, {"orders": shop.path("orders")})


def test_other_columns_are_written_over(spark: Any, tmp_path: Path) -> None:
    """`*` over a table with a new column: the query is the same, its rows can't be compared."""
    shop = open_shop(tmp_path)
    case = Case("SELECT * FROM customers ORDER BY name LIMIT 100", "plain", "")
    deltajoin.run(model(shop, case), spark)
    folder = f"delta.`{shop.path('customers')}`"
    spark.sql(f"ALTER TABLE {folder} ADD COLUMNS (city STRING)")
    shop.update("customers", "customer_id = 1", city="'Lima'")
    record = deltajoin.run(model(shop, case), spark)
    assert (record.strategy, record.written) == ("full", "overwrite")
    assert record.written_because is not None
    assert "columns" in record.written_because
    assert stored(spark, shop) == by_spark(spark, case.sql, {"customers": shop.path("customers")})


def test_values_that_cannot_be_grouped_are_written_over(spark: Any, tmp_path: Path) -> None:
    shop = open_shop(tmp_path)
    sql = "SELECT o.order_id, map('a', o.amount) AS m FROM orders AS o LIMIT 100"
    case = Case(sql, "plain", "")
    deltajoin.run(model(shop, case), spark)
    shop.append("orders", (100, 1, 5))
    planned = deltajoin.plan(model(shop, case))
    assert "values of type map<string,bigint> can't be compared (m)" in deltajoin.explain(planned)
    record = deltajoin.run(model(shop, case), spark)
    assert (record.written, record.rows["inserted"]) == ("overwrite", 41)


class Stopped(Exception):
    """A run that ends at one of its steps."""


@pytest.mark.parametrize("name", ["top k", "keyed"])
def test_one_commit_an_epoch(spark: Any, tmp_path: Path, name: str) -> None:
    """Stopped before and after the MERGE, overtaken by another run: the epoch is there once."""
    case, shop = CASES[name], open_shop(tmp_path)
    deltajoin.run(model(shop, case), spark)
    shop.update("orders", "true", amount="amount + 10")

    def stop(step: str) -> Any:
        def on_step(found: str, info: dict[str, Any]) -> None:
            if found == step:
                raise Stopped(step)

        return on_step

    def overtake(found: str, info: dict[str, Any]) -> None:
        if found == "before_merge":
            with pytest.raises(Stopped):
                deltajoin.run(model(shop, case), spark, on_step=stop("after_merge"))

    with pytest.raises(Stopped):
        deltajoin.run(model(shop, case), spark, on_step=stop("before_merge"))
    assert epochs(shop.target()) == [1]
    with pytest.raises(deltajoin.DeltaJoinError, match="CONCURRENT_RUN"):
        deltajoin.run(model(shop, case), spark, on_step=overtake)
    assert epochs(shop.target()) == [1, 2]
    assert deltajoin.run(model(shop, case), never).strategy == "noop"
    tables = {table: shop.path(table) for table in KEYS}
    assert stored(spark, shop) == by_spark(spark, case.sql, tables)
    assert verify(shop.target()) == ()


def test_what_others_write_meanwhile(spark: Any, tmp_path: Path) -> None:
    """A row that is to go and is gone already: the target is not what it was compared with. The
    MERGE finds that too, should it not have been seen before."""
    case, shop = CASES["top k"], open_shop(tmp_path)
    deltajoin.run(model(shop, case), spark)
    shop.delete("orders", "order_id = 1")

    def delete(found: str, info: dict[str, Any]) -> None:
        if found == "before_merge":
            spark.sql(f"DELETE FROM delta.`{shop.path('target')}` WHERE amount = 10")

    # A small change: the query is rebuilt because it is not kept.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deltajoin.runtime.execute._Run._check_target", lambda run, replaced: None)
        with pytest.raises(deltajoin.DeltaJoinError, match="TARGET_DRIFT"):
            deltajoin.run(model(shop, case), spark, on_step=delete)
    assert epochs(shop.target()) == [1]


def test_a_key_that_is_none(spark: Any, tmp_path: Path) -> None:
    case, shop = CASES["keyed"], open_shop(tmp_path)
    deltajoin.run(model(shop, case), spark)
    shop.update("orders", "true", amount="amount + 10")
    shop.append("orders", (1, 1, 20))
    with pytest.raises(deltajoin.DeltaJoinError, match="KEY_VIOLATED"):
        deltajoin.run(model(shop, case), spark)
    assert epochs(shop.target()) == [1]


def test_rows_of_the_own_text_are_written_over(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where our form of a kept query has another type, its text is run; the statements of the
    difference are for targets with a key, and what is written has none."""
    case, shop = CASES["keyed"], open_shop(tmp_path)
    deltajoin.run(model(shop, case), spark)
    right = jobs.describe_job

    def wrong(plan: Any) -> dict[str, Any]:
        job = right(plan)
        full = job["program"]["full"]
        job["program"]["full"] = (
            f"SELECT order_id, CAST(amount AS int) AS amount, name FROM ({full})"
        )
        return job

    tables = {table: shop.path(table) for table in KEYS}
    for reason, how in (("CHANGE_TOO_LARGE", "overwrite"), ("MEANING_DIFFERS", "difference")):
        with monkeypatch.context() as patch:
            if how == "overwrite":
                patch.setattr(jobs, "describe_job", wrong)
            shop.update("orders", "true", amount="amount + 10")
            record = deltajoin.run(model(shop, case), spark)
        assert (record.reason, record.kind, record.written) == (reason, "plain", how)
        assert stored(spark, shop) == by_spark(spark, case.sql, tables)
