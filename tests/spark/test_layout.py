"""The target lies as its model declares: partitions, clusters, properties. Rows are the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import deltajoin
from deltajoin.contract import FEED_PROPERTY
from deltajoin.delta import key_order
from deltajoin.model import Model
from deltajoin.runtime import target as targets

SQL = "SELECT o.id, o.day, c.name FROM o JOIN c ON o.customer = c.id"


@pytest.fixture
def model(spark: Any, tmp_path: Path) -> Model:
    """Orders of four days, and their customers."""
    for name, columns in (
        ("o", ("id", "id % 4 AS day", "id % 3 AS customer")),
        ("c", ("id", "concat('c', id) AS name")),
    ):
        rows = spark.range(12 if name == "o" else 3).selectExpr(*columns)
        rows.write.format("delta").save(str(tmp_path / name))
    places = {name: str(tmp_path / name) for name in ("o", "c")}
    keys = {"o": ("id",), "c": ("id",)}
    return Model("m", SQL, places, str(tmp_path / "t"), keys, mode="incremental")


def laid_out(spark: Any, model: Model) -> tuple[list[str], list[str], dict[str, str]]:
    """Partitions, clusters and the properties of the target that are not ours."""
    (found,) = spark.sql(f"DESCRIBE DETAIL delta.`{model.target}`").collect()
    own = {k: v for k, v in found["properties"].items() if k.startswith("my.")}
    clusters = [column.strip("`") for column in found["clusteringColumns"]]
    return found["partitionColumns"], clusters, own


def run(spark: Any, model: Model, change: str = "") -> Any:
    """A run after a change of the orders; its rows are the query's."""
    if change:
        spark.sql(change.format(o=f"delta.`{model.sources['o']}`"))
    record = deltajoin.run(model, spark)
    for name, place in model.sources.items():
        spark.read.format("delta").load(place).createOrReplaceTempView(name)
    wanted = sorted(map(tuple, spark.sql(model.sql).collect()))
    assert sorted(map(tuple, deltajoin.read(model, spark).collect())) == wanted
    assert record.phases["write"] > 0
    assert record.seconds == pytest.approx(sum(record.phases.values()), abs=0.01)
    return record


def run_without_work(spark: Any, model: Model) -> int:
    """How many commits of the target come with a run that has nothing to do."""
    before = DeltaTable(model.target).version()
    assert deltajoin.run(model, spark).strategy == "noop"
    return DeltaTable(model.target).version() - before


INSERT = "INSERT INTO {o} SELECT 100 + max(id), 7, 1 FROM {o}"
UPDATE = "UPDATE {o} SET day = day + 1 WHERE id < 3"


@pytest.mark.sampled
@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "bag"])
def test_partitions(spark: Any, model: Model, keyed: bool) -> None:
    model = replace(model, partition_by=("DAY",), tblproperties={"my.own": "it's"})
    model = model if keyed else replace(model, keys={})
    run(spark, model)
    assert laid_out(spark, model) == (["day"], [], {"my.own": "it's"})
    assert run(spark, model, UPDATE).strategy == "incremental"
    run(spark, replace(model, mode="full"))
    assert laid_out(spark, model)[0] == ["day"]
    other = replace(model, partition_by=("name",))
    record = run(spark, other, INSERT)
    assert (record.strategy, laid_out(spark, model)[0]) == ("incremental", ["day"])
    assert any("partitioned by day" in warning for warning in record.warnings)
    record = run(spark, replace(other, mode="full"))
    assert laid_out(spark, model)[0] == ["name"]
    assert not any("partitioned" in warning for warning in record.warnings)
    assert run(spark, other, UPDATE).strategy == "incremental"


def test_partitions_by_a_column_with_a_dot_in_its_name(spark: Any, model: Model) -> None:
    """Delta's MERGE looks for `x`.`y`."""
    dotted = replace(model, sql=SQL.replace("o.day", "o.day AS `x.y`"), partition_by=("x.y",))
    run(spark, dotted)
    assert laid_out(spark, dotted)[0] == ["x.y"]
    assert run(spark, dotted, UPDATE).strategy == "incremental"


def test_clusters_and_properties(spark: Any, model: Model) -> None:
    made = replace(model, clustered_by=("day", "id"), tblproperties={"my.own": "1"})
    run(spark, made)
    assert laid_out(spark, made) == ([], ["day", "id"], {"my.own": "1"})
    before = deltajoin.run(made, spark).target_version
    assert run(spark, made, UPDATE).target_version == before + 1
    run(spark, replace(made, mode="full"))
    assert laid_out(spark, made)[1] == ["day", "id"]
    spark.sql(f"OPTIMIZE delta.`{made.target}`")
    other = replace(made, clustered_by=("name",), tblproperties={"my.own": "2", "comment": "new"})
    assert run_without_work(spark, other) == 2
    assert laid_out(spark, made) == ([], ["name"], {"my.own": "2"})
    assert run_without_work(spark, other) == 0
    assert run(spark, other, INSERT).strategy == "incremental"
    assert laid_out(spark, made) == ([], ["name"], {"my.own": "2"})
    before = deltajoin.run(other, spark).target_version
    assert run(spark, model, UPDATE).target_version == before + 3
    assert laid_out(spark, made) == ([], [], {})
    assert run(spark, model, UPDATE).target_version == before + 4


@pytest.mark.thorough
def test_clusters_that_a_run_loses(
    spark: Any, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends between its overwrite, which takes them away, and CLUSTER BY."""
    made = replace(
        model, clustered_by=("day", "a name"), sql=SQL.replace("name", "name AS `a name`")
    )

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    run(spark, made)
    with monkeypatch.context() as patch:
        patch.setattr(targets, "cluster", stop)
        with pytest.raises(KeyboardInterrupt):
            deltajoin.run(replace(made, mode="full"), spark)
    assert laid_out(spark, made)[1] == []
    before = DeltaTable(made.target).version()
    assert run(spark, made, UPDATE).target_version == before + 2
    assert laid_out(spark, made)[1] == ["day", "a name"]
    assert run(spark, made, UPDATE).target_version == before + 3


@pytest.mark.thorough
def test_clusters_and_properties_that_others_change(spark: Any, model: Model) -> None:
    made = replace(model, clustered_by=("day",), tblproperties={"my.own": "1"})
    run(spark, made)
    for mode in ("incremental", "full"):
        table = f"ALTER TABLE delta.`{made.target}`"
        spark.sql(f"{table} CLUSTER BY (id)")
        spark.sql(
            f"{table} SET TBLPROPERTIES "
            "(delta.enableChangeDataFeed = false, my.own = 2, my.other = 3)"
        )
        run(spark, replace(made, mode=mode), UPDATE)
        assert laid_out(spark, made) == ([], ["day"], {"my.own": "1", "my.other": "3"})
        assert DeltaTable(made.target).metadata().configuration[FEED_PROPERTY] == "true"
    before = deltajoin.run(made, spark).target_version
    assert run(spark, made, UPDATE).target_version == before + 1
    spark.sql(f"ALTER TABLE delta.`{made.target}` CLUSTER BY NONE")
    assert (run_without_work(spark, made), run_without_work(spark, made)) == (1, 0)
    assert laid_out(spark, made) == ([], ["day"], {"my.own": "1", "my.other": "3"})


def test_an_unknown_column_is_refused(model: Model) -> None:
    with pytest.raises(deltajoin.DeltaJoinError) as refused:
        deltajoin.plan(replace(model, clustered_by=("nowhere",)))
    assert refused.value.code == "UNKNOWN_COLUMN"


def test_a_large_target_is_written_in_the_order_of_its_key(
    spark: Any, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files hold ranges of the key that don't meet; the change's file alone is read and written."""
    for name, least in (("_MOVED", 1), ("ROWS_A_FILE", 3)):
        monkeypatch.setattr(key_order, name, least)
    assert run(spark, model).strategy == "full"
    actions = pa.table(DeltaTable(model.target).get_add_actions(flatten=True)).to_pylist()
    ranges = sorted((action["min.id"], action["max.id"]) for action in actions)
    assert len(ranges) == 4
    assert all(one[1] < other[0] for one, other in zip(ranges, ranges[1:], strict=False))
    assert run(spark, model, UPDATE).strategy == "incremental"
    assert run(spark, replace(model, keys={}, mode="full")).strategy == "full"
