"""Tables that can't be read or kept: each refused by its own code before anything is written.

Where a mode allows it, the target is rebuilt instead, with the same code as its reason. Most is
decided without Spark; `never` proves it.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

import deltajoin
from deltajoin import DeltaJoinError
from deltajoin.adapters.airflow.submit import SparkSubmit
from deltajoin.api import finish, freeze
from deltajoin.audit.verify import verify
from deltajoin.delta import sources as delta_sources
from deltajoin.emit.job import describe_job
from deltajoin.runtime.execute import execute
from tests.spark import shop as shops
from tests.spark.shop import FEED, Shop, assert_right, expected, never, open_shop, rows_at, written

KEEPING = ("auto", "incremental", "incremental_strict")


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """Tables without a target."""
    return open_shop(tmp_path / "shop")


@pytest.fixture
def built(spark: Any, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Shop:
    """Tables and a target that holds epoch 1."""
    return shops.built(spark, tmp_path_factory, tmp_path / "shop")


def refused(shop: Shop, spark: Any = never, **changes: Any) -> DeltaJoinError:
    """The refusal of a run, which must leave target and ledger as they were."""
    before = written(shop)
    with pytest.raises(DeltaJoinError) as caught:
        deltajoin.run(shop.model(**changes), spark)
    assert written(shop) == before
    assert caught.value.where
    assert caught.value.remedy
    return caught.value


# Sources that are not there --------------------------------------------------------------------


def test_a_source_that_is_not_there(shop: Shop) -> None:
    shutil.rmtree(shop.path("customers"))
    for mode in deltajoin.model.MODES:
        error = refused(shop, mode=mode)
        assert error.code == "SOURCE_MISSING"
        assert str(error.where).startswith("customers: ")
    assert not Path(shop.path("target")).exists()


def test_a_source_that_is_no_delta_table(shop: Shop) -> None:
    shutil.rmtree(shop.root / "customers" / "_delta_log")
    assert refused(shop).code == "SOURCE_NOT_DELTA"
    (shop.root / "customers" / "_delta_log").mkdir()
    assert refused(shop).code == "SOURCE_NOT_DELTA"
    (shop.root / "file.txt").write_text("1,2")
    sources = {**shop.model().sources, "customers": shop.path("file.txt")}
    assert refused(shop, sources=sources).code == "SOURCE_NOT_DELTA"
    assert not Path(shop.path("target")).exists()


def test_a_source_whose_log_is_damaged(shop: Shop) -> None:
    (shop.root / "customers" / "_delta_log" / f"{0:020d}.json").write_text('{"metaData": {')
    assert refused(shop).code == "SOURCE_UNREADABLE"


# Targets that are not ours ---------------------------------------------------------------------


def test_targets_that_hold_something_else(shop: Shop) -> None:
    taken = shop.root / "taken"
    taken.mkdir()
    (taken / "notes.txt").write_text("mine")
    assert refused(shop, target=str(taken)).code == "TARGET_NOT_DELTA"
    assert refused(shop, target=str(taken / "notes.txt")).code == "TARGET_NOT_DELTA"
    write_deltalake(shop.path("other"), pa.table({"x": [1]}))
    for mode in deltajoin.model.MODES:
        assert refused(shop, target=shop.path("other"), mode=mode).code == "TARGET_NOT_OURS"
    assert DeltaTable(shop.path("other")).version() == 0


def test_targets_in_a_source(shop: Shop) -> None:
    (shop.root / "link").symlink_to(shop.root / "orders")
    places = ["orders", "orders/../orders/", "link", "orders/sub", "."]
    for place in places:
        error = refused(shop, target=f"{shop.root}/{place}")
        assert error.code in ("TARGET_IS_SOURCE", "TARGET_NOT_DELTA")
    assert refused(shop, target=f"file://{shop.root}/orders").code == "TARGET_IS_SOURCE"
    assert DeltaTable(shop.path("orders")).version() == 0


def test_a_target_of_another_model(built: Shop) -> None:
    for mode in deltajoin.model.MODES:
        error = refused(built, name="another", mode=mode)
        assert error.code == "TARGET_OF_OTHER_MODEL"
        assert "'shop'" in error.message


def test_a_newer_format(built: Shop) -> None:
    log = built.root / "target" / "_delta_log" / f"{0:020d}.json"
    log.write_text(log.read_text().replace('"deltajoin.format":"1"', '"deltajoin.format":"99"'))
    for path in log.parent.glob("*.crc"):
        path.unlink()
    for mode in deltajoin.model.MODES:
        assert refused(built, mode=mode).code == "NEWER_FORMAT"


def test_a_target_that_lost_its_history(built: Shop, spark: Any) -> None:
    """Nothing says what the last epoch consumed: the next one is a rebuild, under its number."""
    built.append("orders", (100, 1, 5))
    target = DeltaTable(built.path("target"))
    target.alter.set_table_properties({"delta.logRetentionDuration": "interval 1 days"})
    target.create_checkpoint()
    for log in sorted((built.root / "target" / "_delta_log").glob("*.json"))[:-1]:
        log.unlink()
    audit = built.root / "target" / "_deltajoin" / "audit" / "00000001.json"
    moved = audit.rename(built.root / "moved.json")
    assert [finding.code for finding in verify(built.target())] == ["AUDIT_MISSING"]
    moved.rename(audit)
    assert refused(built, mode="incremental_strict").code == "HISTORY_LOST"
    record = deltajoin.run(built.model(mode="incremental"), spark)
    assert (record.strategy, record.reason, record.epoch) == ("full", "HISTORY_LOST", 2)
    assert rows_at(built.path("target")) == expected(built)
    assert verify(built.target()) == ()
    built.append("orders", (101, 1, 5))
    assert deltajoin.run(built.model(), spark).strategy == "incremental"
    assert rows_at(built.path("target")) == expected(built)


def test_a_target_that_something_else_wrote(built: Shop, spark: Any, tmp_path: Path) -> None:
    """Maintenance does not count; a row or a column does, in every mode but full."""
    built.append("orders", (100, 1, 5))
    deltajoin.run(built.model(), spark)
    table = DeltaTable(built.path("target"))
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"})
    assert table.version() > 3
    assert deltajoin.run(built.model(), never).reason == "NO_CHANGE"
    restored = shops.copied(built, tmp_path / "restored")
    widened = shops.copied(built, tmp_path / "widened")

    table.delete("order_id = 1")
    column = Field("x", PrimitiveType("integer"))
    DeltaTable(widened.path("target")).alter.add_columns(column)
    DeltaTable(restored.path("target")).delete("order_id = 1")
    DeltaTable(restored.path("target")).restore(table.version() - 1)
    for each, what in ((built, "DELETE"), (restored, "RESTORE"), (widened, "columns")):
        each.append("orders", (101, 1, 5))
        for mode in KEEPING:
            error = refused(each, mode=mode)
            assert error.code == "TARGET_FOREIGN_WRITE"
            assert what in error.message
            assert "full" in str(error.remedy)

    record = deltajoin.run(widened.model(mode="full"), spark)
    assert (record.strategy, record.reason, record.epoch) == ("full", "FULL_REQUESTED", 3)
    assert_right(widened, 3)
    assert deltajoin.run(widened.model(), never).strategy == "noop"


# Sources that can't tell their change ----------------------------------------------------------


def lose_feed_file(shop: Shop) -> None:
    shop.update("customers", "customer_id = 1", name="'changed'")
    (lost,) = (shop.root / "customers" / "_change_data").glob("*.parquet")
    lost.unlink()


def vacuum(shop: Shop) -> None:
    shop.update("customers", "customer_id = 1", name="'changed'")
    table = DeltaTable(shop.path("customers"))
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)


def lose_log(shop: Shop) -> None:
    shop.append("customers", (100, "x"))
    shop.append("customers", (101, "y"))
    DeltaTable(shop.path("customers")).create_checkpoint()
    (shop.root / "customers" / "_delta_log" / f"{1:020d}.json").unlink()


def recreate(shop: Shop) -> None:
    shutil.rmtree(shop.path("customers"))
    rows = [(n, f"new {n}") for n in range(8)]
    write_deltalake(shop.path("customers"), shops.as_table("customers", rows), configuration=FEED)


def recreate_and_go_on(shop: Shop) -> None:
    recreate(shop)
    shop.append("customers", (100, "x"))


def retype(shop: Shop) -> None:
    rows = pa.table({"customer_id": pa.array(range(8), pa.int64()), "name": pa.array(range(8))})
    write_deltalake(shop.path("customers"), rows, mode="overwrite", schema_mode="overwrite")


def stop_feed(shop: Shop) -> None:
    table = DeltaTable(shop.path("customers"))
    table.alter.set_table_properties({"delta.enableChangeDataFeed": "false"})
    shop.append("customers", (6, "x"))
    shop.delete("customers", "customer_id = 6 AND name = 'name 6'")
    shop.update("customers", "customer_id = 1", name="'changed'")


def stop_feed_and_vacuum(shop: Shop) -> None:
    stop_feed(shop)
    table = DeltaTable(shop.path("customers"))
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)


LOST: dict[str, tuple[Callable[[Shop], None], str]] = {
    "vacuumed feed": (vacuum, "FEED_GAP"),
    "cleaned log": (lose_log, "FEED_GAP"),
    "recreated": (recreate, "SOURCE_RECREATED"),
    "recreated and newer": (recreate_and_go_on, "SOURCE_RECREATED"),
    "retyped": (retype, "SOURCE_SCHEMA_CHANGED"),
    "feed turned off, vacuumed": (stop_feed_and_vacuum, "NO_CHANGE_FEED"),
}
RUN_IN_SPARK = ("cleaned log", "recreated", "retyped", "feed turned off, vacuumed")


@pytest.mark.sampled
@pytest.mark.parametrize("lose", [lose_feed_file, stop_feed], ids=lambda f: f.__name__)
def test_a_source_without_its_feed_is_read_by_its_files(
    built: Shop, spark: Any, lose: Callable[[Shop], None]
) -> None:
    lose(built)
    planned = deltajoin.plan(built.model())
    assert (planned.strategy, planned.paths[0].method) == ("incremental", "files")
    assert "customers: files that changed between versions" in deltajoin.explain(planned)
    record = deltajoin.run(built.model(mode="incremental_strict"), spark)
    assert (record.strategy, record.reason) == ("incremental", "CHANGES")
    assert record.frontier["customers"]["method"] == "files"
    assert record.paths[0]["change_rows"] == (2 if lose is lose_feed_file else 4)
    assert_right(built, 2)


def test_a_replaced_source_gives_its_true_change(built: Shop, spark: Any) -> None:
    """Overwritten with one other row, with and without a feed; then with the same rows."""
    rows = [(n, f"name {n}") for n in range(7)] + [(7, "another")]
    for epoch, feed in ((2, "true"), (3, "false")):
        table = DeltaTable(built.path("customers"))
        table.alter.set_table_properties({"delta.enableChangeDataFeed": feed})
        rows[1] = (1, f"name in epoch {epoch}")
        write_deltalake(table, shops.as_table("customers", rows), mode="overwrite")
        record = deltajoin.run(built.model(mode="incremental_strict"), spark)
        at = record.frontier["customers"]
        method = "feed" if feed == "true" else "files"
        assert (at["kind"], at["method"]) == ("replaced", method)
        assert record.paths[0]["change_rows"] == (4 if epoch == 2 else 2)
        assert record.rows == {"inserted": 0, "updated": 6, "deleted": 0}
        assert_right(built, epoch)
    write_deltalake(
        DeltaTable(built.path("customers")), shops.as_table("customers", rows), mode="overwrite"
    )
    record = deltajoin.run(built.model(mode="incremental"), spark)
    assert record.paths[0]["change_rows"] == 0
    assert record.rows == {"inserted": 0, "updated": 0, "deleted": 0}
    assert_right(built, 4)


def test_a_large_replaced_source_is_rebuilt_by_auto(
    built: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(n, n % 7, 10 * n) for n in range(4000)]
    write_deltalake(
        DeltaTable(built.path("orders")), shops.as_table("orders", rows), mode="overwrite"
    )
    assert deltajoin.plan(built.model()).strategy == "incremental"  # a few kilobytes are compared
    monkeypatch.setattr(delta_sources, "CHEAP_BYTES", 0)
    planned = deltajoin.plan(built.model())
    assert (planned.strategy, planned.reason) == ("full", "CHANGE_TOO_LARGE")
    assert "two versions of orders" in planned.detail
    assert deltajoin.plan(built.model(mode="incremental")).strategy == "incremental"


def test_static_files_as_sources(built: Shop, spark: Any) -> None:
    """CSV and Parquet beside a Delta table: built, looked up, unchanged, rebuilt when changed."""
    levels = built.root / "levels.csv"
    levels.write_text('id,note\n0,"a, b"\n1,"line\nbreak ""q"""\n2,\n3,plain\n4,é\n')
    names = built.root / "names"
    names.mkdir()
    for part in (0, 1):
        rows = [(n, f"file {n}") for n in range(part, 8, 2)]
        pq.write_table(shops.as_table("customers", rows), names / f"{part}.parquet")
    model = built.model(
        name="static",
        sql="SELECT o.order_id, c.name, l.note FROM orders o JOIN c ON o.customer_id = "
        "c.customer_id JOIN levels l ON l.id = c.customer_id",
        sources={
            "orders": built.path("orders"),
            "c": f"{names}/*.parquet",
            "levels": str(levels),
        },
        keys={},
        target=built.path("static"),
    )

    def rows(notes: list[str | None]) -> Counter[tuple[Any, ...]]:
        orders = rows_at(built.path("orders")).elements()
        return Counter((o, f"file {c}", notes[c], 1) for o, c, _ in orders if c < len(notes))

    notes: list[str | None] = ["a, b", 'line\nbreak "q"', None, "plain", "é"]
    assert deltajoin.run(model, spark).reason == "FIRST_RUN"
    assert rows_at(built.path("static")) == rows(notes)
    assert deltajoin.run(model, never).strategy == "noop"
    os.utime(levels)
    assert deltajoin.run(model, never).strategy == "noop"
    built.append("orders", (100, 1, 5), (101, 4, 5))
    assert deltajoin.run(model, spark).strategy == "incremental"
    assert rows_at(built.path("static")) == rows(notes)
    levels.write_text("id,note\n3,x\n0,y\n")
    with pytest.raises(DeltaJoinError, match="STATIC_SOURCE_CHANGED"):
        deltajoin.plan(replace(model, mode="incremental_strict"))
    record = deltajoin.run(model, spark)
    assert (record.strategy, record.reason) == ("full", "STATIC_SOURCE_CHANGED")
    assert rows_at(built.path("static")).total() == 12


@pytest.mark.parametrize("case", LOST)
def test_a_source_that_cannot_tell_its_change(built: Shop, spark: Any, case: str) -> None:
    lose, code = LOST[case]
    lose(built)
    error = refused(built, mode="incremental_strict")
    assert error.code == code
    assert str(error.where).startswith("customers: ")
    for mode in ("auto", "incremental"):
        planned = deltajoin.plan(built.model(mode=mode))
        assert (planned.strategy, planned.reason, planned.epoch) == ("full", code, 2)
    if case in RUN_IN_SPARK:
        record = deltajoin.run(built.model(), spark)
        assert (record.strategy, record.reason) == ("full", code)
        assert rows_at(built.path("target")) == expected(built)
        assert verify(built.target()) == ()
        assert deltajoin.run(built.model(), never).strategy == "noop"


def test_a_source_whose_log_was_cut(spark: Any, built: Shop) -> None:
    """The newest commit is gone: what was consumed can't be compared with what is there."""
    built.append("customers", (100, "x"))
    deltajoin.run(built.model(), spark)
    (built.root / "customers" / "_delta_log" / f"{1:020d}.json").unlink()
    assert refused(built, mode="incremental_strict").code == "SOURCE_ROLLED_BACK"
    planned = deltajoin.plan(built.model())
    assert (planned.strategy, planned.reason) == ("full", "SOURCE_ROLLED_BACK")


def test_a_restored_source_is_an_ordinary_change(spark: Any, built: Shop) -> None:
    built.update("customers", "customer_id = 1", name="'changed'")
    deltajoin.run(built.model(), spark)
    DeltaTable(built.path("customers")).restore(0)
    record = deltajoin.run(built.model(mode="incremental_strict"), spark)
    assert (record.strategy, record.epoch) == ("incremental", 3)
    assert_right(built, 3)


def test_a_used_column_that_is_gone(built: Shop) -> None:
    rows = pa.table({"customer_id": pa.array(range(8), pa.int64())})
    write_deltalake(built.path("customers"), rows, mode="overwrite", schema_mode="overwrite")
    for mode in deltajoin.model.MODES:
        assert refused(built, mode=mode).code == "UNKNOWN_COLUMN"


def test_sources_without_a_feed(spark: Any, tmp_path: Path) -> None:
    """No feed from the first run on: kept by the files that changed, also under strict."""
    shop = open_shop(tmp_path / "shop", {})
    record = deltajoin.run(shop.model(mode="incremental_strict"), spark)
    assert record.reason == "FIRST_RUN"
    assert any("no change feed" in warning for warning in record.warnings)
    assert deltajoin.run(shop.model(), never).strategy == "noop"
    shop.update("customers", "customer_id = 1", name="'changed'")
    shop.append("orders", (100, 1, 7))
    record = deltajoin.run(shop.model(mode="incremental_strict"), spark)
    assert (record.strategy, record.reason) == ("incremental", "CHANGES")
    assert {at["method"] for at in record.frontier.values()} == {"files"}
    assert [path["change_rows"] for path in record.paths] == [2, 1]
    assert_right(shop, 2)


# What is not kept incrementally ----------------------------------------------------------------


@pytest.mark.thorough
def test_a_window_is_rebuilt(spark: Any, shop: Shop) -> None:
    sql = """
    SELECT o.order_id,
      row_number() OVER (ORDER BY o.order_id) AS number
    FROM customers AS c
    JOIN orders AS o ON o.customer_id = c.customer_id
    """
    error = refused(shop, sql=sql, mode="incremental_strict")
    assert (error.code, error.where) == ("WINDOW", "line 3")
    record = deltajoin.run(shop.model(sql=sql), spark)
    assert (record.strategy, record.reason, record.kind) == ("full", "FIRST_RUN", "plain")
    assert_right(shop, 1, sql)
    assert deltajoin.run(shop.model(sql=sql), never).strategy == "noop"

    shop.append("orders", (100, 7, 5))
    assert refused(shop, sql=sql, mode="incremental_strict").code == "WINDOW"
    record = deltajoin.run(shop.model(sql=sql), spark)
    assert (record.strategy, record.reason) == ("full", "WINDOW")
    assert "line 3" in record.detail
    assert_right(shop, 2, sql)


@pytest.mark.thorough
def test_an_outer_join_with_groups_is_kept(spark: Any, shop: Shop) -> None:
    sql = """
    SELECT c.customer_id, count(DISTINCT o.order_id) AS orders, max(o.amount) AS most
    FROM customers AS c
    LEFT JOIN orders AS o ON o.customer_id = c.customer_id
    GROUP BY c.customer_id
    """
    model = shop.model(sql=sql, mode="incremental_strict")
    assert deltajoin.run(model, spark).kind == "keyed"
    assert_right(shop, 1, sql)
    shop.append("orders", (100, 7, 5))
    record = deltajoin.run(model, spark)
    assert (record.strategy, record.rows) == (
        "incremental",
        {"inserted": 0, "updated": 1, "deleted": 0},
    )
    assert_right(shop, 2, sql)


def test_what_only_spark_can_find_out(spark: Any, shop: Shop) -> None:
    """An unknown column in a query that is only rebuilt; a value that fails at run time."""
    sql = "SELECT o.nothing FROM orders AS o LIMIT 3"
    assert refused(shop, spark, sql=sql).code == "SPARK_ANALYSIS"
    sql = "SELECT order_id, order_id FROM orders LIMIT 3"
    assert refused(shop, spark, sql=sql).code == "SPARK_ANALYSIS"
    assert not Path(shop.path("target")).exists()

    sql = shops.SQL.replace("c.name", "CAST(c.name AS INT) AS name")
    with pytest.raises(DeltaJoinError) as caught:
        deltajoin.run(shop.model(sql=sql), spark)
    assert caught.value.code == "EVALUATION_FAILED"
    with pytest.raises(DeltaJoinError, match="TARGET_MISSING"):
        deltajoin.read(shop.model(), spark)
    record = deltajoin.run(shop.model(), spark)
    assert (record.reason, record.epoch) == ("FIRST_RUN", 1)
    assert_right(shop, 1)


MEETING = """
SELECT o.order_id, 10 / (o.amount + 1) AS a, CAST(substr(c.name, 6) AS INT) AS b
FROM orders AS o JOIN customers AS c ON o.customer_id = c.customer_id
"""
MET = (
    "SELECT order_id, 10.0 / (amount + 1), substr(name, 6)::INT FROM orders NATURAL JOIN customers"
)


def parted(shop: Shop) -> None:
    """An order's amount becomes 0 as its customer goes, a name no number as its orders go: one of
    the two meets its old partner, whichever table's change is followed first."""
    shop.delete("customers", "customer_id = 1")
    shop.update("orders", "customer_id = 1", amount="-1")
    shop.delete("orders", "customer_id = 2")
    shop.update("customers", "customer_id = 2", name="'name x'")


def test_an_incremental_run_that_fails_where_its_query_does_not(spark: Any, built: Shop) -> None:
    built.append("orders", *((n, 0, n) for n in range(40, 100)))
    modes = (*KEEPING, "submitted")
    runs = {m: built.model(sql=MEETING, target=built.path(m)) for m in modes}
    runs |= {m: replace(runs[m], mode=m) for m in KEEPING}
    for model in runs.values():
        assert deltajoin.run(model, spark).reason == "FIRST_RUN"
    parted(built)
    before = rows_at(built.path("incremental_strict"))
    with pytest.raises(DeltaJoinError) as caught:
        deltajoin.run(runs["incremental_strict"], spark)
    assert caught.value.code == "EVALUATION_FAILED"
    assert rows_at(built.path("incremental_strict")) == before
    for mode in ("auto", "incremental", "submitted"):
        model = runs[mode]
        if mode == "submitted":
            record = Submitted(spark).run(model, deltajoin.plan(model))
        else:
            record = deltajoin.run(model, spark)
        assert (record.strategy, record.reason, record.epoch) == ("full", "EVALUATION_FAILED", 2)
        assert any(word in record.detail for word in ("DIVIDE_BY_ZERO", "CAST_INVALID_INPUT"))
        assert rows_at(built.path(mode)) == expected(built, MET)
        assert deltajoin.run(model, spark).strategy == "noop"
    built.append("orders", (100, 3, 7))
    assert deltajoin.run(runs["auto"], spark).strategy == "incremental"
    assert rows_at(built.path("auto")) == expected(built, MET)


class Submitted(SparkSubmit):
    """What Airflow submits, run in the session of the tests as the job would."""

    def __init__(self, spark: Any) -> None:
        super().__init__("none", {}, {})
        self.spark = spark

    def _submit(self, model: deltajoin.Model, plan: Any) -> Any:
        execute(self.spark, describe_job(freeze(plan)))
        return finish(plan)


# Keys that do not hold -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "row"),
    [("customers", (1, "again")), ("orders", (None, 1, 10)), ("orders", (1, 1, 10))],
)
def test_a_key_violated_at_the_first_run(
    spark: Any, shop: Shop, table: str, row: tuple[Any, ...]
) -> None:
    shop.append(table, row)
    if row[0] is None:
        shop.append(table, row)
    error = refused(shop, spark)
    assert error.code == "KEY_VIOLATED"
    assert error.where == table
    assert not Path(shop.path("target")).exists()


def add_customer_again(shop: Shop) -> None:
    shop.append("customers", (1, "again"))


def add_order_again(shop: Shop) -> None:
    shop.append("orders", (1, 2, 99))


def add_order_twice(shop: Shop) -> None:
    shop.append("orders", (100, 1, 1), (100, 1, 1))


def meet_another_order(shop: Shop) -> None:
    shop.update("orders", "order_id = 1", order_id="2")


@pytest.mark.sampled
@pytest.mark.parametrize(
    "violate",
    [add_customer_again, add_order_again, add_order_twice, meet_another_order],
    ids=lambda f: f.__name__,
)
def test_a_key_violated_by_a_change(
    spark: Any, built: Shop, violate: Callable[[Shop], None]
) -> None:
    """Nothing is committed, and the epoch before stays readable."""
    rows = rows_at(built.path("target"))
    violate(built)
    error = refused(built, spark, mode="incremental_strict")
    assert error.code == "KEY_VIOLATED"
    assert rows_at(built.path("target")) == rows


# Two runs at once ------------------------------------------------------------------------------


def run_two(spark: Any, shop: Shop, meeting: str) -> list[str]:
    """Two runs that wait for each other at a step: 'done' or the code of each, sorted."""
    barrier = threading.Barrier(2, timeout=120)
    ends: list[str] = []

    def one() -> None:
        def wait(name: str, info: dict[str, Any]) -> None:
            if name == meeting:
                barrier.wait()

        try:
            deltajoin.run(shop.model(), spark, on_step=wait)
            ends.append("done")
        except DeltaJoinError as error:
            ends.append(error.code)

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(180)
    return sorted(ends)


def test_two_first_runs_at_once(spark: Any, shop: Shop) -> None:
    assert run_two(spark, shop, "planned") == ["CONCURRENT_RUN", "done"]
    assert_right(shop, 1)
    assert deltajoin.run(shop.model(), never).strategy == "noop"


def test_two_first_runs_into_a_created_target(spark: Any, shop: Shop) -> None:
    """The target exists, but a killed run left it without an epoch."""

    class Died(Exception):
        pass

    def die(name: str, info: dict[str, Any]) -> None:
        if name == "before_merge":
            raise Died

    with pytest.raises(Died):
        deltajoin.run(shop.model(), spark, on_step=die)
    assert run_two(spark, shop, "before_merge") == ["CONCURRENT_RUN", "done"]
    assert_right(shop, 1)


def test_two_incremental_runs_at_once(spark: Any, built: Shop) -> None:
    built.append("orders", (100, 1, 5))
    built.update("customers", "customer_id = 1", name="'changed'")
    assert run_two(spark, built, "before_merge") == ["CONCURRENT_RUN", "done"]
    assert_right(built, 2)
    assert deltajoin.run(built.model(), never).strategy == "noop"


def test_a_run_that_was_overtaken(spark: Any, built: Shop) -> None:
    """Its plan is of an epoch that is committed: stopped before Spark, the ledger stays right."""
    built.append("orders", (100, 1, 5))
    late = deltajoin.plan(built.model())
    built.append("orders", (101, 1, 5))
    deltajoin.run(built.model(), spark)
    before = shops.files_of(built.path("target"))
    with pytest.raises(DeltaJoinError) as caught:
        deltajoin.run(built.model(), never, plan=late)
    assert caught.value.code == "CONCURRENT_RUN"
    with pytest.raises(DeltaJoinError, match="CONCURRENT_RUN"):
        finish(late)
    assert shops.files_of(built.path("target")) == before
    assert_right(built, 2)
