"""Mode shadow: equal runs pass and say so, and every kind of difference stops the run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import deltajoin
from deltajoin.emit import job as jobs
from deltajoin.runtime.own_session import EXAMPLES_SETTING
from tests.spark import shop as shops
from tests.spark.shop import FEED, Shop, assert_right, rows_at, written

BAG = "SELECT c.name FROM orders o JOIN customers c ON o.customer_id = c.customer_id"


@pytest.fixture
def built(spark: Any, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Shop:
    return shops.built(spark, tmp_path_factory, tmp_path / "shop")


def change(shop: Shop) -> None:
    shop.append("orders", (100, 1, 5), (101, 2, 5))
    shop.update("customers", "customer_id = 3", name="'changed'")
    shop.delete("orders", "order_id = 8")


def disguised(path: str, work: Callable[[DeltaTable], Any]) -> None:
    """A change of rows whose commit says that it changes none, as OPTIMIZE does."""
    table = DeltaTable(path)
    work(table)
    file = Path(path, "_delta_log", f"{table.version():020d}.json")
    kept = []
    for line in file.read_text().splitlines():
        ((kind, body),) = json.loads(line).items()
        if kind in ("add", "remove"):
            body["dataChange"] = False
        if kind != "cdc":
            kept.append(json.dumps({kind: body}))
    file.write_text("\n".join(kept) + "\n")


def refused(spark: Any, model: deltajoin.Model) -> str:
    before = DeltaTable(model.target).version()
    with pytest.raises(deltajoin.DeltaJoinError) as caught:
        deltajoin.run(model, spark)
    assert caught.value.code == "SHADOW_MISMATCH"
    assert DeltaTable(model.target).version() == before
    return caught.value.message


def test_equal_runs_are_committed_and_say_so(spark: Any, built: Shop) -> None:
    change(built)
    record = deltajoin.run(built.model(mode="shadow"), spark)
    assert (record.strategy, record.mode, record.epoch) == ("incremental", "shadow", 2)
    assert record.shadow == {"rows": 41, "differing": 0, "tolerances": {}}
    assert_right(built, 2)
    assert deltajoin.run(built.model(mode="shadow"), shops.never).strategy == "noop"

    bag = built.model(sql=BAG, name="bag", target=built.path("bag"), mode="shadow", keys={})
    first = deltajoin.run(bag, spark)
    assert (first.strategy, first.reason, first.shadow) == ("full", "FIRST_RUN", None)
    built.append("orders", *((200 + n, 1, 5) for n in range(30)))
    built.delete("orders", "order_id = 9")
    second = deltajoin.run(bag, spark)
    assert (second.strategy, second.kind) == ("incremental", "bag")
    assert second.shadow is not None
    assert second.shadow["rows"] == 70
    assert shops.as_rows(deltajoin.read(bag, spark).toArrow()) == shops.expected(built, BAG)


WINDOWS = """
SELECT {} c.name, sum(o.amount) OVER (PARTITION BY c.name) AS total
FROM orders o JOIN customers c ON o.customer_id = c.customer_id
"""


@pytest.mark.thorough
def test_windows_are_compared_too(spark: Any, built: Shop) -> None:
    """By a key and without one, where a partition's rows are alike."""
    models = [
        built.model(sql=WINDOWS.format(key), name=name, target=built.path(name), mode="shadow")
        for name, key in (("keyed", "o.order_id,"), ("bag", ""))
    ]
    for model in models:
        deltajoin.run(model, spark)
    change(built)
    for model in models:
        record = deltajoin.run(model, spark)
        assert (record.strategy, record.kind) == ("incremental", model.name)
        assert record.shadow == {"rows": 41, "differing": 0, "tolerances": {}}
        rows = shops.as_rows(deltajoin.read(model, spark).toArrow())
        assert rows == shops.expected(built, model.sql)


ROWS: dict[str, tuple[Callable[[DeltaTable], Any], str]] = {
    "a lost row": (lambda t: t.delete("order_id = 20"), "0 rows too many and lack 1"),
    "another value": (
        lambda t: t.update(predicate="order_id = 20", updates={"amount": "amount + 1"}),
        "1 rows too many and lack 1",
    ),
    "a NULL": (
        lambda t: t.update(predicate="order_id = 20", updates={"name": "NULL"}),
        "1 rows too many and lack 1",
    ),
    "a row too many": (
        lambda t: t.update(predicate="order_id = 20", updates={"order_id": "20 + 1000"}),
        "1 rows too many and lack 1",
    ),
}


@pytest.mark.parametrize("case", ROWS)
def test_a_target_that_drifted_unseen(spark: Any, built: Shop, case: str) -> None:
    """What passes for a compaction escapes an incremental run, and not its shadow."""
    work, message = ROWS[case]
    disguised(built.path("target"), work)
    change(built)
    before = written(built)
    found = refused(spark, built.model(mode="shadow"))
    assert message in found
    assert "order_id=20" not in found
    assert written(built) == before
    assert deltajoin.run(built.model(mode="incremental"), spark).epoch == 2
    assert rows_at(built.path("target")) != shops.expected(built)
    deltajoin.run(built.model(mode="full"), spark)
    assert_right(built, 3)


@pytest.mark.parametrize("sql", [shops.SQL, BAG], ids=["keyed", "bag"])
def test_a_wrong_path(spark: Any, built: Shop, sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement that loses one row of a path."""
    model = built.model(sql=sql, name="m", target=built.path("m"), mode="shadow")
    deltajoin.run(model, spark)
    change(built)
    right = jobs.describe_job

    def wrong(plan: Any) -> dict[str, Any]:
        job = right(plan)
        (path,) = (p for p in job["program"]["paths"] if p["driver"] == "o")
        first = path["statements"][0]
        column = "order_id" if sql == shops.SQL else "customer_id"
        lost = 100 if sql == shops.SQL else 2
        first["sql"] = f"SELECT * FROM ({first['sql']}) WHERE `o.{column}` <> {lost}"
        return job

    monkeypatch.setattr(jobs, "describe_job", wrong)
    assert "0 rows too many and lack 1" in refused(spark, model)
    monkeypatch.undo()
    assert deltajoin.run(model, spark).shadow is not None


@pytest.mark.thorough
def test_floats_agree_within_the_tolerance(spark: Any, tmp_path: Path) -> None:
    """Relative above 1, absolute below; NaN, NULL and the infinities only with themselves."""
    values = [0.5, 1e12, float("nan"), float("inf"), None, -3.0, 0.0]
    facts = pa.table(
        {
            "id": list(range(7)),
            "x": pa.array(values, pa.float64()),
            "y": pa.array([1.0] * 7, pa.float32()),
        }
    )
    names = pa.table({"id": list(range(7)), "name": [f"n{i}" for i in range(7)]})
    for table, rows in (("facts", facts), ("names", names)):
        write_deltalake(tmp_path / table, rows, configuration=FEED)
    model = deltajoin.Model(
        name="m",
        sql="SELECT f.id, f.x, f.y, n.name FROM facts f JOIN names n ON f.id = n.id",
        sources={name: str(tmp_path / name) for name in ("facts", "names")},
        target=str(tmp_path / "target"),
        keys={"facts": ["id"], "names": ["id"]},
        mode="shadow",
    )
    deltajoin.run(model, spark)
    telling = spark.newSession()
    telling.conf.set(EXAMPLES_SETTING, 3)

    def shifted(where: int, **updates: str) -> None:
        disguised(model.target, lambda t: t.update(predicate=f"id = {where}", updates=updates))
        DeltaTable(tmp_path / "names").update(predicate="id = 6", updates={"name": "name || '+'"})

    shifted(0, x="x + 1e-10")
    shifted(1, x="x + 100")
    shifted(5, y="CAST(1.0000005 AS REAL)")
    record = deltajoin.run(model, spark)
    assert record.strategy == "incremental"
    assert record.shadow == {"rows": 7, "differing": 0, "tolerances": {"x": 1e-9, "y": 1e-6}}
    for where, x in ((0, "x + 1e-8"), (1, "x + 2000"), (3, "5.0"), (2, "5.0"), (4, "0.0")):
        shifted(where, x=x)
        found = refused(telling, model)
        assert "1 rows too many and lack 1" in found
        assert f"for example (id={where})" in found
        deltajoin.run(deltajoin.Model(**{**model.to_dict(), "mode": "full"}), spark)
