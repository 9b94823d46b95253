"""Tables in S3: planned, found unchanged, verified, with few requests and without a secret told."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import CommitProperties, DeltaTable, write_deltalake

import deltajoin
from deltajoin import api
from deltajoin.adapters.cli import main
from deltajoin.adapters.dbt.build import model_of, storage_of
from deltajoin.adapters.dbt.options import read_options
from deltajoin.audit.ledger import FOLD, Ledger
from deltajoin.catalog import overlap
from deltajoin.delta.format import model_hash
from deltajoin.delta.history import RECENT
from deltajoin.delta.plan import DeltaPlan
from deltajoin.emit.job import job_source
from deltajoin.errors import DeltaJoinError
from deltajoin.model import Model, load_model
from deltajoin.runtime.object_store import hadoop_settings
from deltajoin.storage import HIDDEN, options_of, storage
from tests.unit.log_files import OURS, give_properties
from tests.unit.s3 import ACCESS_KEY, BUCKET, S3, SECRET_KEY, s3_server

SQL = "SELECT o.id, c.name FROM o JOIN c ON o.customer = c.id"
RECORDED = ("model", "epoch", "mode", "format", "rules", "fingerprint", "model_hash", "frontier")
TARGET_RECORDED = ("kind", "key", "columns")


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with s3_server() as server:
        yield server


def model_in(s3: S3, folder: str) -> Model:
    """A join of two tables of a folder of the bucket."""
    at = f"s3://{BUCKET}/{folder}"
    sources = {name: f"{at}/{name}" for name in ("o", "c")}
    keys = {"o": ("id",), "c": ("id",)}
    return Model("m", SQL, sources, f"{at}/t", keys, storage_options=s3.options)


def lake(
    s3: S3,
    folder: str,
    tmp_path: Path,
    commits: int = 0,
    *,
    checkpoint: bool = True,
    epoch: int = 1,
) -> Model:
    """The model's tables, its target at an epoch whose record alone the log holds; each log has so
    many commits more."""
    model = model_in(s3, folder)
    orders = pa.table({"id": range(10), "customer": [1] * 10})
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(tmp_path / "o", orders, configuration=feed)
    write_deltalake(tmp_path / "c", pa.table({"id": [1], "name": ["a"]}), configuration=feed)
    for name in ("o", "c"):
        _lengthen(tmp_path / name, commits)
        if checkpoint:
            DeltaTable(tmp_path / name).create_checkpoint()
        s3.upload(tmp_path / name, f"{folder}/{name}")
    rows = pa.table({"id": [1, 2], "name": ["a", "a"]})
    write_deltalake(tmp_path / "t", rows)
    give_properties(tmp_path / "t", OURS)
    _lengthen(tmp_path / "t", commits)
    first = deltajoin.plan(model)
    record = {**_record(first), "epoch": epoch}
    noted = CommitProperties(custom_metadata={"userMetadata": json.dumps({"deltajoin": record})})
    write_deltalake(tmp_path / "t", rows, mode="overwrite", commit_properties=noted)
    if checkpoint:
        DeltaTable(tmp_path / "t").create_checkpoint()
    Ledger(str(tmp_path / "t")).freeze(first.to_dict())
    s3.upload(tmp_path / "t", f"{folder}/t")
    return model


def _record(plan: DeltaPlan) -> dict[str, Any]:
    values = plan.to_dict()
    record = {
        name: values[name] for name in (*RECORDED, "plan_hash", "strategy", "reason", "detail")
    }
    record |= {name: values["target"][name] for name in TARGET_RECORDED}
    empty: dict[str, Any] = {"paths": [], "rows": {}, "settings": {}, "warnings": []}
    return {**record, **empty, "target": plan.target.place}


def _lengthen(table: Path, commits: int) -> None:
    """Add commits of one row each, as a writer without checkpoints does."""
    for version in range(1, commits + 1):
        add = {
            "path": f"part-{version:05d}.parquet",
            "size": 1000,
            "partitionValues": {},
            "modificationTime": version,
            "dataChange": True,
            "stats": '{"numRecords":1}',
        }
        info = {
            "operation": "WRITE",
            "operationParameters": {"mode": "Append"},
            "timestamp": version,
        }
        lines = (json.dumps(action) for action in ({"commitInfo": info}, {"add": add}))
        (table / "_delta_log" / f"{version:020d}.json").write_text("\n".join(lines))


def append(model: Model, table: str, **columns: list[Any]) -> None:
    write_deltalake(
        model.sources[table],
        pa.table(columns),
        mode="append",
        storage_options=dict(model.storage_options),
    )


def never() -> Any:
    raise AssertionError("no Spark is needed")


def arguments(s3: S3) -> list[str]:
    return [
        word
        for name, value in s3.options.items()
        for word in ("--storage-option", f"{name}={value}")
    ]


def test_a_target_is_planned_found_unchanged_and_verified(s3: S3, tmp_path: Path) -> None:
    model = lake(s3, "steps", tmp_path)
    assert deltajoin.run(model, never).reason == "NO_CHANGE"
    assert deltajoin.run_all([model], never).failed == ()
    told = CliRunner().invoke(main, ["audit", "verify", "--target", model.target, *arguments(s3)])
    assert (told.exit_code, told.output) == (0, "1 epochs, 0 findings\n")
    append(model, "o", id=[10], customer=[1])
    plan = deltajoin.plan(model)
    assert (plan.strategy, plan.reason, plan.epoch) == ("incremental", "CHANGES", 2)
    assert {at["location"] for at in plan.frontier().values()} == set(model.sources.values())
    api.freeze(plan, storage_options=s3.options)
    with storage(s3.options):
        frozen = Ledger(model.target).plan(2)
    assert frozen is not None
    assert frozen["plan_hash"] == plan.hash
    with pytest.raises(DeltaJoinError) as caught:
        api.finish(plan, storage_options=s3.options)
    assert caught.value.code == "COMMIT_MISSING"


def test_without_options_nothing_is_reached(s3: S3, tmp_path: Path) -> None:
    model = replace(lake(s3, "bare", tmp_path), storage_options={"AWS_SKIP_SIGNATURE": "true"})
    closed = {**s3.options, "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "max_retries": "0"}
    for wrong in (model, replace(model, storage_options=closed)):
        with pytest.raises(DeltaJoinError):
            deltajoin.plan(wrong)


def test_both_names_of_a_folder_in_s3_are_one() -> None:
    assert overlap("s3a://lake/t/", "s3://lake/t")
    assert not overlap("s3a://lake/t", "s3://lake/tt")


# secrets ------------------------------------------------------------------------------------------


def has_secret(text: str) -> bool:
    return ACCESS_KEY in text or SECRET_KEY in text


def test_what_is_written_and_told_has_no_secret(s3: S3, tmp_path: Path) -> None:
    model = lake(s3, "told", tmp_path)
    record = deltajoin.run(model, never)
    append(model, "o", id=[10], customer=[1])
    plan = deltajoin.plan(model)
    api.freeze(plan, storage_options=s3.options)
    planned = CliRunner().invoke(main, ["explain", "--model", _file(model, tmp_path), "--json"])
    assert planned.exit_code == 0, planned.output
    told = (
        repr(model),
        json.dumps(model.to_dict()),
        repr(plan),
        json.dumps(plan.to_dict()),
        deltajoin.explain(plan),
        job_source(plan),
        repr(record),
        json.dumps(record.to_dict()),
        planned.output,
    )
    assert not any(map(has_secret, told))
    assert model_hash(model) == model_hash(replace(model, storage_options={}))
    store = s3.client()
    kept = store.list_objects_v2(Bucket=BUCKET, Prefix="told/")["Contents"]
    texts = [store.get_object(Bucket=BUCKET, Key=one["Key"])["Body"].read() for one in kept]
    assert not any(has_secret(text.decode(errors="replace")) for text in texts)


def _file(model: Model, folder: Path) -> str:
    values = {**model.to_dict(), "storage_options": dict(model.storage_options)}
    file = folder / "model.yml"
    file.write_text(json.dumps({name: value for name, value in values.items() if value}))
    return str(file)


def test_what_fails_leaves_without_secrets() -> None:
    options = {"AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_REGION": "us-east-1", "token": "a"}
    error = DeltaJoinError("SOURCE_UNREADABLE", f"with {SECRET_KEY}", where=SECRET_KEY)
    error.__cause__ = OSError(f"403 of {SECRET_KEY} in us-east-1")
    with suppress(DeltaJoinError), storage(options):
        raise error
    assert str(error) == f"SOURCE_UNREADABLE: with {HIDDEN} (at {HIDDEN})."
    assert error.to_dict()["message"] == f"with {HIDDEN}"
    assert str(error.__cause__) == f"403 of {HIDDEN} in us-east-1"


@pytest.mark.parametrize("given", [SECRET_KEY, f"={SECRET_KEY}", f"AWS_SECRET:{SECRET_KEY}"])
def test_a_mistyped_option_is_not_repeated(given: str) -> None:
    told = CliRunner().invoke(main, ["plan", "--model", "m.yml", "--storage-option", given])
    assert told.exit_code == 2
    assert "number 1 is not NAME=VALUE" in told.output
    assert not has_secret(told.output)


@pytest.mark.parametrize("given", [[SECRET_KEY], {"key": [SECRET_KEY]}, SECRET_KEY])
def test_options_of_a_wrong_type_are_refused(given: Any) -> None:
    with pytest.raises(DeltaJoinError) as caught:
        Model("m", SQL, {"o": "/o", "c": "/c"}, "/t", storage_options=given)
    assert caught.value.code == "INVALID_MODEL"
    assert not has_secret(str(caught.value))


# where options come from --------------------------------------------------------------------------


def test_a_value_may_be_a_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "m.yml"
    file.write_text(
        "{sql: SELECT 1 AS x, sources: {}, target: s3://lake/t, storage_options: {a: '${LAKE_A}'}}"
    )
    model = load_model(file)
    monkeypatch.delenv("LAKE_A", raising=False)
    with pytest.raises(DeltaJoinError) as caught, storage(model.storage_options):
        pass
    assert caught.value.code == "STORAGE_OPTION_UNSET"
    monkeypatch.setenv("LAKE_A", "found")
    with storage(model.storage_options):
        assert options_of(model.target) == {"a": "found"}


def test_dbt_takes_a_profile_and_a_model() -> None:
    profile = {"deltajoin.storage.a": "profile", "deltajoin.storage.b": 1, "spark.c": "other"}
    given = storage_of(SimpleNamespace(server_side_parameters=profile))
    assert given == {"a": "profile", "b": "1"}
    relation = SimpleNamespace(schema="db", identifier="t")
    node = {"unique_id": "model.p.m", "config": {"deltajoin": {"storage_options": {"a": "own"}}}}
    model = model_of(node, "SELECT 1 AS x", relation, {}, storage_options=given)
    assert model.storage_options == {"a": "own", "b": "1"}
    with pytest.raises(DeltaJoinError) as caught:
        read_options({"storage_options": SECRET_KEY}, "model m")
    assert caught.value.code == "INVALID_OPTION"
    assert not has_secret(str(caught.value))


def test_threads_have_options_of_their_own() -> None:
    together = Barrier(2)

    def work(name: str) -> dict[str, str] | None:
        with storage({"name": name}):
            together.wait(timeout=60)
            return options_of("s3://lake/t")

    with storage({"name": "outer"}), ThreadPoolExecutor(2) as threads:
        assert list(threads.map(work, "ab")) == [{"name": "a"}, {"name": "b"}]
        assert options_of("s3://lake/t") == {"name": "outer"}
    assert options_of("s3://lake") is None, "they end with the block"


def test_spark_gets_the_options_by_its_own_names(s3: S3) -> None:
    assert hadoop_settings(s3.options) == {
        "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "fs.s3a.access.key": ACCESS_KEY,
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.endpoint": s3.endpoint,
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.secret.key": SECRET_KEY,
    }


# long logs ----------------------------------------------------------------------------------------

COMMIT = re.compile(r"(GET|HEAD) /lake/\w+/(\w+)/_delta_log/(\d{20})\.json")


def steps(s3: S3, model: Model) -> list[list[str]]:
    """The requests of a run without changes, and of a plan after one more commit."""
    s3.requests()
    assert deltajoin.run(model, never).reason == "NO_CHANGE"
    unchanged = s3.requests()
    append(model, "o", id=[10], customer=[1])
    s3.requests()
    assert deltajoin.plan(model).reason == "CHANGES"
    return [unchanged, s3.requests()]


def test_a_long_log_with_a_checkpoint_costs_no_more_requests(
    s3: S3, tmp_path: Path, thorough: bool
) -> None:
    """Apart from the list of a log, a request for each thousand of its files; of a table of many
    files no older version is opened, to be read as files."""
    counted = []
    for commits in (100, 10_000 if thorough else 1000):
        model = lake(s3, f"long{commits}", tmp_path / str(commits), commits)
        unchanged, changed = steps(s3, model)
        counted.append((len(unchanged), sum("delimiter=" not in one for one in changed)))
        print(f"{commits} commits: {len(unchanged)} requests unchanged, {len(changed)} changed")  # noqa: T201
        assert len(changed) <= 203
    assert counted[0][0] == counted[1][0] <= 51
    assert counted[0][1] >= counted[1][1]


def test_without_a_checkpoint_each_commit_is_read_a_fixed_number_of_times(
    s3: S3, tmp_path: Path
) -> None:
    """deltalake reads each commit twice for each table that it opens; what the planner itself reads
    are the newest commits of the target, newest first."""
    most = []
    for commits in (16, 72):
        model = lake(s3, f"plain{commits}", tmp_path / str(commits), commits, checkpoint=False)
        for requests in steps(s3, model):
            found = [match.groups() for one in requests if (match := COMMIT.match(one))]
            read = Counter((table, version) for kind, table, version in found if kind == "GET")
            most.append(max(read.values()))
            own = [int(at) for kind, table, at in found if (kind, table) == ("HEAD", "t")]
            assert own == sorted(own, reverse=True)
            assert own[0] == commits + 1
            assert len(own) <= RECENT
    assert most[:2] == most[2:]


def test_an_old_target_costs_no_more_requests(s3: S3, tmp_path: Path) -> None:
    """Whatever its ledger holds, and whether it has lost records whose commits are gone."""
    counted = []
    for epoch in (1, 20 * FOLD):
        model = lake(s3, f"old{epoch}", tmp_path / str(epoch), 100, epoch=epoch)
        for first in range(1, epoch - 2 * FOLD, FOLD):
            entries = {f"audit/{at:08d}": {"epoch": at} for at in range(first, first + FOLD)}
            fold = tmp_path / "folds" / f"{first:08d}.json.gz"
            fold.parent.mkdir(exist_ok=True)
            fold.write_bytes(gzip.compress(json.dumps(entries).encode()))
        if epoch > 1:
            s3.upload(tmp_path / "folds", f"old{epoch}/t/_deltajoin/folded")
        assert deltajoin.run(model, never).epoch == epoch  # writes its record
        s3.requests()
        assert deltajoin.run(model, never).reason == "NO_CHANGE"
        counted.append(len(s3.requests()))
    print(f"{counted} requests unchanged")  # noqa: T201
    assert counted[0] == counted[1]
    assert counted[0] <= 50
