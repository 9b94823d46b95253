"""What each mode does, run after run: rebuild, keep, refuse, or nothing at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

import deltajoin
from deltajoin.adapters.cli import main
from deltajoin.delta.format import RULES
from deltajoin.runtime.session import submit_conf, submit_environment
from deltajoin.runtime.target import facts_of
from tests.spark import shop as shops
from tests.spark.shop import (
    KEYS,
    SQL,
    Shop,
    assert_right,
    expected,
    never,
    open_shop,
    records,
    rows_at,
)

KEPT = ("auto", "incremental", "incremental_strict")


@pytest.fixture
def built(spark: Any, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Shop:
    """Tables and a target that holds epoch 1."""
    return shops.built(spark, tmp_path_factory, tmp_path / "shop")


def decided(shop: Shop, **changes: Any) -> tuple[str, str]:
    planned = deltajoin.plan(shop.model(**changes))
    return planned.strategy, planned.reason


# Decisions, by plan alone ----------------------------------------------------------------------


def test_the_first_run_builds_in_every_mode(tmp_path: Path) -> None:
    shop = open_shop(tmp_path)
    for mode in deltajoin.model.MODES:
        assert decided(shop, mode=mode) == ("full", "FIRST_RUN")


def test_a_small_change_is_kept_unless_full_is_asked(built: Shop) -> None:
    built.append("orders", (100, 1, 5))
    for mode in KEPT:
        assert decided(built, mode=mode) == ("incremental", "CHANGES")
    assert decided(built, mode="full") == ("full", "FULL_REQUESTED")


def test_a_large_change_is_rebuilt_by_auto_only(built: Shop) -> None:
    """48 rows: nine changed are less than a fifth of the rows after, fifteen are more."""
    built.append("orders", *((100 + n, 1, 5) for n in range(9)))
    assert decided(built) == ("incremental", "CHANGES")
    built.append("orders", *((200 + n, 1, 5) for n in range(6)))
    assert decided(built) == ("full", "CHANGE_TOO_LARGE")
    for mode in ("incremental", "incremental_strict"):
        assert decided(built, mode=mode) == ("incremental", "CHANGES")


NO_CHANGE = {
    "nothing": lambda shop: None,
    "compaction": lambda shop: DeltaTable(shop.path("orders")).optimize.compact(),
    "vacuum": lambda shop: DeltaTable(shop.path("orders")).vacuum(
        0, dry_run=False, enforce_retention_duration=False
    ),
    "property": lambda shop: DeltaTable(shop.path("orders")).alter.set_table_properties(
        {"delta.logRetentionDuration": "interval 60 days"}
    ),
    "empty delete": lambda shop: shop.delete("orders", "order_id = -1"),
}


@pytest.mark.parametrize("case", NO_CHANGE)
def test_no_change_starts_no_spark(built: Shop, case: str) -> None:
    NO_CHANGE[case](built)
    before = shops.files_of(built.path("target"))
    for mode in KEPT:
        record = deltajoin.run(built.model(mode=mode), never)
        assert (record.strategy, record.reason, record.epoch) == ("noop", "NO_CHANGE", 1)
        assert not any(record.rows.values())
    assert shops.files_of(built.path("target")) == before


COSMETIC = {
    "spaces and comments": SQL.replace("\n", "  \n -- x\n"),
    "keywords": SQL.replace("SELECT", "select").replace("JOIN", "inner join"),
    "comma join": "SELECT o.order_id, o.amount, c.name FROM orders o, customers c "
    "WHERE o.customer_id = c.customer_id",
    "quotes": SQL.replace("c.name", "`c`.`name`"),
    "sides": SQL.replace("o.customer_id = c.customer_id", "c.customer_id = o.customer_id"),
    "CTE": "WITH k AS (SELECT * FROM customers AS c) SELECT o.order_id, o.amount, k.name "
    "FROM orders AS o JOIN k ON o.customer_id = k.customer_id",
}
MEANINGFUL = {
    "filter": SQL + "WHERE o.amount > 0",
    "column": SQL.replace("c.name", "upper(c.name) AS name"),
    "name": SQL.replace("c.name", "c.name AS customer"),
    "order of columns": SQL.replace("o.order_id, o.amount", "o.amount, o.order_id"),
    "condition": SQL.replace("o.customer_id =", "o.order_id ="),
}


@pytest.mark.parametrize("case", COSMETIC)
def test_a_cosmetic_edit_is_no_change(built: Shop, case: str) -> None:
    assert decided(built, sql=COSMETIC[case]) == ("noop", "NO_CHANGE")


@pytest.mark.parametrize("case", MEANINGFUL)
def test_an_edit_of_the_meaning_rebuilds(built: Shop, case: str) -> None:
    for mode in ("auto", "incremental"):
        assert decided(built, sql=MEANINGFUL[case], mode=mode) == ("full", "MODEL_CHANGED")
    with pytest.raises(deltajoin.DeltaJoinError, match="MODEL_CHANGED"):
        decided(built, sql=MEANINGFUL[case], mode="incremental_strict")


def test_other_keys_are_another_model(built: Shop) -> None:
    assert decided(built, keys={}) == ("full", "MODEL_CHANGED")


@pytest.mark.parametrize("rules", [None, 0, RULES + 1])
def test_a_target_built_by_other_rules_is_rebuilt_once(
    spark: Any, built: Shop, rules: int | None
) -> None:
    """Also where no source changed, and though the fingerprint may be another one as well."""
    edit_last_record(built, rules=rules)
    for mode, sql in (("auto", SQL), ("incremental", MEANINGFUL["name"]), ("shadow", SQL)):
        assert decided(built, mode=mode, sql=sql) == ("full", "RULES_CHANGED")
    assert decided(built, mode="full") == ("full", "RULES_CHANGED")
    with pytest.raises(deltajoin.DeltaJoinError, match="RULES_CHANGED"):
        decided(built, mode="incremental_strict")
    record = deltajoin.run(built.model(), spark)
    assert (record.strategy, record.reason, record.rules) == ("full", "RULES_CHANGED", RULES)
    assert_right(built, 2)
    assert decided(built) == ("noop", "NO_CHANGE")


def edit_last_record(shop: Shop, **values: Any) -> None:
    """As if another version of deltajoin had written it; its audit file goes, a run rebuilds it."""
    table = DeltaTable(shop.path("target"))
    log = Path(shop.path("target"), "_delta_log", f"{table.version():020d}.json")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    (info,) = (line["commitInfo"] for line in lines if "commitInfo" in line)
    metadata = json.loads(info["userMetadata"])
    metadata["deltajoin"] |= values
    info["userMetadata"] = json.dumps(metadata)
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    log.with_name(f".{log.name}.crc").unlink(missing_ok=True)
    Path(shop.path("target"), "_deltajoin", "audit", "00000001.json").unlink()


DESCRIBE = """
import json, sys
import deltajoin
from deltajoin.emit.job import job_source
flip = int(sys.argv[2])
declared = json.loads(sys.argv[1])
for name in ("sources", "keys"):
    declared[name] = dict(sorted(declared[name].items(), reverse=bool(flip)))
planned = deltajoin.plan(deltajoin.Model(**declared))
print(json.dumps(planned.to_dict()), planned.hash, deltajoin.explain(planned), job_source(planned))
"""


def test_one_plan_whatever_the_order_of_hashes_and_mappings(built: Shop) -> None:
    built.append("orders", (100, 1, 5))
    built.update("customers", "customer_id = 1", name="'changed'")
    declared = json.dumps(built.model().to_dict())
    package = Path(deltajoin.__file__).parents[1]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", DESCRIBE, declared, str(seed % 2)],
            env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(package)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in range(4)
    }
    assert len(outputs) == 1
    assert len(outputs.pop()) > 1000


# Runs ------------------------------------------------------------------------------------------


def test_rows_that_did_not_change_are_not_written(spark: Any, built: Shop) -> None:
    """Values that come back to what they were: an epoch, but an empty change feed."""
    built.update("customers", "customer_id = 1", name="'changed'")
    built.update("customers", "customer_id = 1", name="'name 1'")
    built.update("orders", "order_id = 3", amount="amount")
    before = built.target().version
    record = deltajoin.run(built.model(), spark)
    assert (record.strategy, record.epoch) == ("incremental", 2)
    assert record.rows == {"inserted": 0, "updated": 0, "deleted": 0}
    assert_right(built, 2)
    feed = (
        spark.read.format("delta")
        .option("readChangeFeed", "true")
        .option("startingVersion", before + 1)
        .load(built.path("target"))
    )
    assert feed.count() == 0
    assert deltajoin.run(built.model(), never).strategy == "noop"


def test_what_a_user_reads(spark: Any, tmp_path: Path) -> None:
    """Keyed, bag and plain: each with the rows of the query, duplicates included."""
    shop = open_shop(tmp_path)
    bag = "SELECT c.name FROM orders o JOIN customers c ON o.customer_id = c.customer_id"
    plain = bag + " LIMIT 1000"
    models = {
        "keyed": shop.model(target=shop.path("keyed")),
        "bag": shop.model(target=shop.path("bag"), sql=bag, name="bag"),
        "plain": shop.model(target=shop.path("plain"), sql=plain, name="plain"),
    }
    for kind, model in models.items():
        assert deltajoin.run(model, spark).kind == kind
    shop.append("orders", (100, 1, 5), (101, 2, 5))
    shop.delete("orders", "order_id = 8")
    for model in models.values():
        deltajoin.run(model, spark)
        frame = deltajoin.read(model, spark)
        read = shops.as_rows(frame.toArrow())
        assert read == expected(shop, model.sql)
    assert DeltaTable(shop.path("bag")).schema().fields[-2].name == "__deltajoin_count"


def test_settings_of_the_full_build_hold_for_later_runs(spark: Any, tmp_path: Path) -> None:
    """Another time zone and ANSI mode in a later session do not change what rows mean."""
    shop = open_shop(tmp_path)
    sql = """
    SELECT o.order_id, date_format(timestamp_seconds(o.amount), 'HH:mm') AS at,
      CAST(c.name AS INT) AS number
    FROM orders AS o JOIN customers AS c ON o.customer_id = c.customer_id
    """
    model = shop.model(sql=sql)
    tokyo = spark.newSession()
    tokyo.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    tokyo.conf.set("spark.sql.ansi.enabled", "false")
    first = deltajoin.run(model, tokyo)
    assert first.settings["spark.sql.ansi.enabled"] == "false"
    assert first.settings["spark.sql.session.timeZone"] == "Asia/Tokyo"
    assert "session differs" not in str(first.warnings)
    lima = spark.newSession()
    lima.conf.set("spark.sql.session.timeZone", "America/Lima")
    lima.conf.set("spark.sql.ansi.enabled", "true")
    lima.conf.set("spark.sql.legacy.sizeOfNull", "false")
    shop.append("orders", (100, 1, 0))
    second = deltajoin.run(model, lima)
    assert (second.strategy, second.settings) == ("incremental", first.settings)
    (row,) = (row for row in rows_at(shop.path("target")) if row[0] == 100)
    assert row == (100, "09:00", None)
    assert lima.conf.get("spark.sql.session.timeZone") == "America/Lima"
    told = [warning for warning in second.warnings if warning.startswith("session differs: ")]
    assert [text.split(";")[0].removeprefix("session differs: ") for text in told] == [
        "spark.sql.ansi.enabled false -> true",
        "spark.sql.legacy.sizeOfNull true -> false",
        "spark.sql.session.timeZone Asia/Tokyo -> America/Lima",
    ]
    rebuilt = deltajoin.run(shop.model(sql=sql.replace("CAST", "try_cast"), mode="full"), lima)
    assert rebuilt.settings["spark.sql.session.timeZone"] == "America/Lima"
    assert "session differs" not in str(rebuilt.warnings)


def test_catalog_names(spark: Any, tmp_path: Path) -> None:
    """Sources and targets by name: a keyed table, and a bag's view over its backing table, which
    every run puts up again, and under which it stays a bag."""
    shop = open_shop(tmp_path)
    spark.sql("CREATE DATABASE IF NOT EXISTS modes")
    for table in ("orders", "customers"):
        spark.sql(f"CREATE TABLE modes.`{table}` USING delta LOCATION '{shop.path(table)}'")
    sources = {"orders": "modes.orders", "customers": "spark_catalog.modes.customers"}
    bag = "SELECT c.name FROM orders o JOIN customers c ON o.customer_id = c.customer_id"
    models = [
        shop.model(sources=sources, target="modes.keyed"),
        shop.model(sources=sources, target="modes.bag", sql=bag, name="bag", keys={}),
    ]
    try:
        for model in models:
            assert deltajoin.run(model, spark).strategy == "full"
            spark.sql("DROP VIEW IF EXISTS modes.bag")
            assert deltajoin.run(model, spark).strategy == "noop"
            assert spark.catalog.tableExists(model.target)
        made = facts_of(spark, "modes.bag")
        assert deltajoin.run(models[1], spark).strategy == "noop"
        assert facts_of(spark, "modes.bag") == made
        spark.sql("ALTER VIEW modes.bag AS SELECT name FROM modes.customers")
        assert deltajoin.run(models[1], spark).strategy == "noop"
        assert facts_of(spark, "modes.bag")["View Text"] == made["View Text"]
        shop.append("orders", (100, 1, 5))
        spark.sql("ALTER VIEW modes.bag AS SELECT name FROM modes.customers")
        for model in models:
            assert deltajoin.run(model, spark).strategy == "incremental"
            for frame in (spark.table(model.target), deltajoin.read(model, spark)):
                assert shops.as_rows(frame.toArrow()) == expected(shop, model.sql)
        with pytest.raises(deltajoin.DeltaJoinError, match="TARGET_KIND_CHANGED"):
            deltajoin.run(shop.model(sources=sources, target="modes.keyed", keys={}), spark)
        identified = shop.model(sources=sources, target="modes.bag", name="bag")
        record = deltajoin.run(identified, spark)
        assert (record.reason, record.kind) == ("MODEL_CHANGED", "bag")
        found = shops.as_rows(spark.table("modes.bag").toArrow())
        assert found == expected(shop, identified.sql)
        with pytest.raises(deltajoin.DeltaJoinError, match="SOURCE_MISSING"):
            deltajoin.run(shop.model(sources={**sources, "orders": "modes.gone"}), spark)
    finally:
        spark.sql("DROP DATABASE modes CASCADE")


@pytest.mark.thorough
def test_an_emitted_job_submitted_by_hand(built: Shop, tmp_path: Path) -> None:
    """By a spark-submit that knows only the job and its zip; the next run completes the ledger."""
    built.append("orders", (100, 1, 5))
    built.update("customers", "customer_id = 2", name="'it''s \"changed\" ${HOME}'")
    model, folder = built.model(), tmp_path / "job"
    (tmp_path / "shop.sql").write_text(model.sql)
    arguments = ["emit", "--sql", str(tmp_path / "shop.sql"), "--target", model.target]
    arguments += [w for name, at in model.sources.items() for w in ("--source", f"{name}={at}")]
    arguments += [w for name, key in KEYS.items() for w in ("--key", f"{name}={','.join(key)}")]
    emitted = CliRunner().invoke(main, [*arguments, "--out", str(folder), "--json"])
    assert emitted.exit_code == 0, emitted.output
    found = json.loads(emitted.stdout)
    assert Path(found["job"]).read_text() == found["source"]
    settings = {**submit_conf(), "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    environment = submit_environment()
    environment.pop("PYTHONPATH", None)
    command = [f"{environment['SPARK_HOME']}/bin/spark-submit", "--master", "local[2]"]
    command += [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
    command += ["--py-files", found["py_files"], found["job"]]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (line,) = (li for li in done.stdout.splitlines() if li.startswith("deltajoin-result: "))
    assert json.loads(line.partition(": ")[2])["record"]["plan_hash"] == found["plan_hash"]
    record = deltajoin.run(model, never)
    assert (record.strategy, record.epoch) == ("noop", 2)
    assert_right(built, 2)


# What a rebuild counts besides -----------------------------------------------------------------


def test_sketches_are_counted_at_a_rebuild_and_handed_on(spark: Any, tmp_path: Path) -> None:
    shop = open_shop(tmp_path / "shop")
    sql = SQL + "WHERE o.amount > 5 AND c.name <> 'name 6'"
    model = shop.model(sql=sql, sketches=True)
    deltajoin.run(model, spark)
    counted = records(shop.target())[0]["sketches"]
    assert counted["customers"] == {"rows": 8, "columns": {"customer_id": 8, "name": 8}}
    amounts = counted["orders"]["columns"].pop("amount")
    assert amounts == pytest.approx(40, rel=0.1)
    assert counted["orders"] == {"rows": 40, "columns": {"customer_id": 7}}
    counted["orders"]["columns"]["amount"] = amounts
    shop.append("orders", *((100 + n, n % 7, 7) for n in range(2)))
    record = deltajoin.run(model, spark)
    assert (record.strategy, records(shop.target())[0]["sketches"]) == ("incremental", counted)
    statistics = deltajoin.plan(model).statistics
    assert statistics is not None
    assert statistics.distinct("orders", "customer_id").source == "sketch"
    assert_right(shop, 2, sql)
    shop.append("orders", (200, 6, 1))
    off = deltajoin.plan(shop.model(sql=sql)).statistics
    assert off is not None
    assert not off.sketches


# No room on the driver for a side of a join ----------------------------------------------------


@pytest.fixture
def small_driver(spark: Any) -> Any:
    """A session that refuses to broadcast anything, as a driver without memory would."""
    small = spark.newSession()
    small.conf.set("spark.sql.maxBroadcastTableSize", "1b")
    return small


@pytest.mark.parametrize("few", [True, False])
def test_a_run_does_without_broadcasts(built: Shop, small_driver: Any, few: bool) -> None:
    """Interpreted, where few rows are, and compiled; the tables are small, so Spark sends them."""
    if not few:
        small_driver.conf.set("spark.deltajoin.fewRows", "0")
    built.append("orders", (100, 1, 5))
    record = deltajoin.run(built.model(), small_driver)
    assert record.strategy == "incremental"
    assert [w for w in record.warnings if w.endswith("run again without broadcasts")]
    assert_right(built, 2)
    rebuilt = deltajoin.run(built.model(mode="full"), small_driver)
    assert rebuilt.strategy == "full"
    assert_right(built, 3)


def test_a_first_build_without_room_is_no_other_meaning(small_driver: Any, tmp_path: Path) -> None:
    """Our form has a hint to broadcast, for which there is no room; the text has none."""
    small_driver.conf.set("spark.deltajoin.fewRows", "0")
    small_driver.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    shop = open_shop(tmp_path)
    record = deltajoin.run(shop.model(), small_driver)
    assert record.evidence is not None
    assert "differs" not in record.evidence
    assert [w for w in record.warnings if w.endswith("run again without broadcasts")]
    assert_right(shop, 1)


def test_a_broadcast_that_nothing_replaces_fails_the_run(built: Shop, small_driver: Any) -> None:
    """An outer join without an equality broadcasts a side whatever is set."""
    model = built.model(sql=SQL.replace("JOIN", "LEFT JOIN").replace("=", "<"), mode="full")
    before = shops.written(built)
    with pytest.raises(deltajoin.DeltaJoinError) as caught:
        deltajoin.run(model, small_driver)
    assert caught.value.code == "BROADCAST_TOO_LARGE"
    assert shops.written(built) == before
