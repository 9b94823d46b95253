"""What others do to a target while a run is under way is found: before the write, or by the next.

A row that someone deletes from the target is in none of the changes that a run reads. Unless it is
found, it is gone for ever.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from deltalake import DeltaTable

import deltajoin
from deltajoin.audit.verify import verify
from deltajoin.emit.job import job_source
from deltajoin.runtime import execute
from deltajoin.runtime.job import RESULT_PREFIX, check_tables
from tests.spark import shop as shops
from tests.spark.shop import Shop, assert_right, at, never, open_shop, rows_at, written

#: Models by what is written: groups, the difference of a rebuild.
MODELS = {
    "groups": "SELECT customer_id, sum(amount) AS s FROM orders GROUP BY customer_id",
    "difference": "SELECT order_id, amount FROM orders ORDER BY amount LIMIT 20",
}


@pytest.fixture
def built(spark: Any, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Shop:
    return shops.built(spark, tmp_path_factory, tmp_path / "a shop {of} rows")


def delete_one(shop: Shop) -> None:
    table = DeltaTable(shop.path("target"))
    table.delete(f"{table.schema().fields[0].name} = 1")


@pytest.mark.sampled
@pytest.mark.parametrize("name", MODELS)
def test_a_delete_just_before_the_write(name: str, spark: Any, tmp_path: Path) -> None:
    shop = open_shop(tmp_path)
    model = shop.model(sql=MODELS[name])
    deltajoin.run(model, spark)
    shop.append("orders", (100, 1, 5))
    kept: dict[str, bytes] = {}

    def work() -> None:
        delete_one(shop)
        kept.update(written(shop))

    with pytest.raises(deltajoin.DeltaJoinError, match="DELETE at version 2") as caught:
        deltajoin.run(model, spark, on_step=at("before_merge", work))
    assert caught.value.code == "TARGET_CHANGED"
    assert written(shop) == kept
    with pytest.raises(deltajoin.DeltaJoinError, match="TARGET_FOREIGN_WRITE"):
        deltajoin.run(model, never)
    record = deltajoin.run(replace(model, mode="full"), spark)
    assert (record.strategy, record.epoch) == ("full", 2)
    assert verify(shop.target()) == ()
    found = deltajoin.read(model, spark).collect()
    assert sorted(map(tuple, found)) == sorted(shops.expected(shop, model.sql).elements())


@pytest.mark.sampled
@pytest.mark.parametrize("mode", ["incremental", "shadow"])
def test_a_run_that_commits_while_another_looks_up(mode: str, spark: Any, tmp_path: Path) -> None:
    """The slower one meets rows that it did not plan for, and says whose they are."""
    shop = open_shop(tmp_path)
    model = shop.model(sql=MODELS["groups"], mode=mode)
    deltajoin.run(model, spark)
    if mode == "incremental":
        shop.delete("orders", "customer_id = 1")
    else:
        shop.append("orders", (100, 1, 5))
    codes: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        refuse = execute._Run._check_target

        def refused(run: Any, replaced: bool) -> None:
            (codes.append(error.code) if (error := sys.exception()) else None)
            refuse(run, replaced)

        patch.setattr(execute._Run, "_check_target", refused)
        other = at("changes_materialised", lambda: deltajoin.run(model, spark))
        with pytest.raises(deltajoin.DeltaJoinError, match="CONCURRENT_RUN"):
            deltajoin.run(model, spark, on_step=other)
    assert codes == ["TARGET_DRIFT" if mode == "incremental" else "SHADOW_MISMATCH"]
    assert deltajoin.run(model, never).strategy == "noop"


def test_a_delete_in_the_moment_of_the_write(
    built: Shop, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the last look and before the commit: known to the run, the next one and the audit."""
    built.append("orders", (100, 1, 5))
    look = execute._Run._check_target

    def looked(run: Any, replaced: bool) -> None:
        look(run, replaced)
        delete_one(built)

    monkeypatch.setattr(execute._Run, "_check_target", looked)
    with pytest.raises(deltajoin.DeltaJoinError, match="TARGET_CHANGED"):
        deltajoin.run(built.model(mode="shadow"), spark)
    monkeypatch.undo()
    for mode in ("auto", "incremental_strict"):
        with pytest.raises(deltajoin.DeltaJoinError, match="DELETE at version 2"):
            deltajoin.run(built.model(mode=mode), never)
    findings = {finding.code: finding.message for finding in verify(built.target())}
    assert findings["TARGET_FOREIGN_WRITE"] == "DELETE changed rows while epoch 2 was made"
    built.append("orders", (101, 1, 5))
    assert deltajoin.run(built.model(mode="full"), spark).epoch == 3
    assert_right(built, 3)


def test_a_killed_run_leaves_it_to_the_next(built: Shop, spark: Any) -> None:
    """The same, where the run did not live to look behind its commit."""
    built.append("orders", (100, 1, 5))

    def die() -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execute._Run, "_check_target", lambda run, replaced: delete_one(built))
        with pytest.raises(KeyboardInterrupt):
            deltajoin.run(built.model(), spark, on_step=at("after_merge", die))
    with pytest.raises(deltajoin.DeltaJoinError, match="TARGET_FOREIGN_WRITE"):
        deltajoin.run(built.model(), never)


def test_what_changes_no_row_does_not_count(built: Shop, spark: Any) -> None:
    """Nor does what a rebuild replaces that was asked for."""
    table = DeltaTable(built.path("target"))
    built.append("orders", (100, 1, 5))

    def maintain() -> None:
        table.optimize.compact()
        table.alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"})

    record = deltajoin.run(built.model(), spark, on_step=at("before_merge", maintain))
    assert (record.epoch, record.strategy) == (2, "incremental")
    assert record.target_version == record.target_previous + 1
    assert_right(built, 2)
    full = built.model(mode="full")
    record = deltajoin.run(full, spark, on_step=at("before_merge", lambda: delete_one(built)))
    assert (record.epoch, record.strategy) == (3, "full")
    assert_right(built, 3)


SLOW = "SELECT * FROM to_write WHERE (SELECT max(id % 7) FROM range(20000000)) > 0"


def test_a_conflict_with_maintenance_is_tried_again(built: Shop, spark: Any) -> None:
    """OPTIMIZE rewrites the files that the MERGE has read, several times, while the rows to write
    are computed: only the MERGE is done again."""
    built.append("orders", (100, 1, 5))
    built.update("customers", "customer_id = 1", name="'changed'")
    sql, ends = type(spark).sql, list[str]()

    def optimize(over: Event) -> None:
        while not over.wait(0.1):
            with suppress(Exception):
                sql(spark, f"OPTIMIZE delta.`{built.path('target')}` ZORDER BY (amount)")

    def merging(session: Any, text: str, **more: Any) -> Any:
        if not text.startswith("MERGE"):
            return sql(session, text, **more)
        if ends:
            ends.append("again")
            return sql(session, text, **more)
        over = Event()
        maintenance = Thread(target=optimize, args=(over,))
        sql(session, SLOW).createOrReplaceTempView("slow_rows")
        maintenance.start()
        try:
            return sql(session, text.replace("`to_write`", "`slow_rows`"), **more)
        except Exception as error:
            ends.append(str(error))
            raise
        finally:
            over.set()
            maintenance.join()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(spark), "sql", merging)
        record = deltajoin.run(built.model(), spark)
    assert len(ends) == 2, "the MERGE was not refused, or more than once"
    assert "[DELTA_CONCURRENT_" in ends[0]
    assert record.epoch == 2
    assert record.target_version == record.target_previous + 1 > 2
    assert_right(built, 2)


def test_two_runs_of_an_epoch(built: Shop, spark: Any) -> None:
    """The one that comes later is told so, and writes nothing."""
    built.append("orders", (100, 1, 5))

    def other() -> None:
        deltajoin.run(built.model(), spark)

    with pytest.raises(deltajoin.DeltaJoinError) as caught:
        deltajoin.run(built.model(), spark, on_step=at("before_merge", other))
    assert caught.value.code == "CONCURRENT_RUN"
    assert_right(built, 2)


def test_another_run_in_the_moment_of_the_write(
    built: Shop, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the last look: Delta knows the epoch by its transaction, and commits it once."""
    built.update("customers", "customer_id = 1", name="'changed'")
    look = execute._Run._check_target

    def looked(run: Any, replaced: bool) -> None:
        look(run, replaced)
        monkeypatch.undo()
        deltajoin.run(built.model(), spark)

    monkeypatch.setattr(execute._Run, "_check_target", looked)
    with pytest.raises(deltajoin.DeltaJoinError, match="CONCURRENT_RUN"):
        deltajoin.run(built.model(), spark)
    assert_right(built, 2)


def test_tables_that_are_replaced_before_a_job_is_submitted(
    built: Shop, spark: Any, tmp_path: Path
) -> None:
    """The planned version may exist again, with other rows."""
    other = open_shop(tmp_path / "other")
    built.append("orders", (100, 1, 5))
    plan = deltajoin.plan(built.model()).to_dict()
    check_tables(spark, plan)
    for table, replacement in (("orders", "orders"), ("target", "customers")):
        path = Path(built.path(table))
        path.rename(path.with_name("aside"))
        shutil.copytree(other.path(replacement), path)
        with pytest.raises(deltajoin.DeltaJoinError, match=f"TABLE_REPLACED.*{table}"):
            check_tables(spark, plan)
        shutil.rmtree(path)
        path.with_name("aside").rename(path)


def test_a_source_put_back_and_written_on_before_a_job_is_submitted(
    built: Shop, spark: Any
) -> None:
    """The same table at the same version, with another commit."""
    orders, before = Path(built.path("orders")), built.root / "before"
    shutil.copytree(orders, before)
    built.append("orders", (100, 1, 5))
    plan = deltajoin.plan(built.model()).to_dict()
    shutil.rmtree(orders)
    before.rename(orders)
    built.append("orders", (101, 1, 5))
    with pytest.raises(deltajoin.DeltaJoinError, match="TABLE_REPLACED.*version 1 .*orders"):
        check_tables(spark, plan)


LEVELS = """
SELECT o.order_id, l.level FROM orders o JOIN levels l ON o.customer_id = l.customer_id
"""


@pytest.fixture
def levels(spark: Any, tmp_path: Path) -> tuple[Shop, deltajoin.Model]:
    """A target whose one source is a file, and a change of the other."""
    shop = open_shop(tmp_path)
    (tmp_path / "levels.csv").write_text("customer_id,level\n1,high\n")
    sources = {"orders": shop.path("orders"), "levels": str(tmp_path / "levels.csv")}
    model = shop.model(sql=LEVELS, sources=sources, keys={"orders": ["order_id"]})
    deltajoin.run(model, spark)
    shop.append("orders", (100, 1, 5))
    return shop, model


@pytest.mark.parametrize("then", ["customer_id,level\n1,low\n", None], ids=["other", "gone"])
def test_a_job_whose_file_has_changed_since_its_plan(
    then: str | None,
    levels: tuple[Shop, deltajoin.Model],
    spark: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shop, model = levels
    job: dict[str, Any] = {}
    exec(job_source(deltajoin.plan(model)), job)  # noqa: S102 - its own job
    kept, file = written(shop), shop.root / "levels.csv"
    file.unlink() if then is None else file.write_text(then)
    monkeypatch.setattr(type(spark), "stop", lambda session: None)
    with pytest.raises(SystemExit):
        job["main"](job["PLAN"], job["PROGRAM"])
    told = json.loads(capsys.readouterr().out.partition(RESULT_PREFIX)[2])
    assert (told["error"]["code"], told["error"]["where"]) == ("TABLE_REPLACED", f"levels: {file}")
    assert written(shop) == kept


def test_a_file_that_changes_while_it_is_read(
    levels: tuple[Shop, deltajoin.Model], spark: Any
) -> None:
    """Nothing is written; the next run rebuilds."""
    shop, model = levels
    kept = written(shop)

    def change() -> None:
        (shop.root / "levels.csv").write_text("customer_id,level\n1,low\n")

    with pytest.raises(deltajoin.DeltaJoinError, match="TABLE_REPLACED.*levels"):
        deltajoin.run(model, spark, on_step=at("changes_materialised", change))
    assert written(shop) == kept
    assert deltajoin.run(model, spark).reason == "STATIC_SOURCE_CHANGED"
    assert rows_at(model.target) == Counter((n, "low", 1) for n in (*range(1, 40, 7), 100))
