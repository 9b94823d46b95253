"""Runs on a Spark Connect server: every kind of target, sessions apart, errors, the command line.

The server is a process of its own. PySpark takes one kind of session in a process, by a variable of
the environment: it is set while these tests run, so that they can share a process with the others.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import deltajoin
from deltajoin.adapters.cli import main
from deltajoin.catalog import load_target
from deltajoin.delta.history import epochs_of
from deltajoin.runtime.own_session import COMPARE_ROWS_SETTING
from examples.flights.connect_server import connect_server
from tests.crash.kinds import KINDS, dies
from tests.crash.test_kill import change
from tests.spark.connect_server import session_on
from tests.spark.shop import (
    BAG,
    GROUPS,
    KEYS,
    SCHEMAS,
    Shop,
    as_rows,
    never,
    open_shop,
    written,
)

#: The kinds of run whose clients are killed.
CLIENTS = tuple(kind for kind in KINDS if kind != "large")
MARK = "spark.databricks.delta.commitInfo.userMetadata"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Spark Connect server with Delta, which ends with the tests."""
    with connect_server(tmp_path_factory.mktemp("connect")) as url:
        yield url


@pytest.fixture(scope="module")
def remote(server: str) -> Iterator[Any]:
    with session_on(server) as session:
        yield session


def assert_right(remote: Any, shop: Shop, models: list[deltajoin.Model]) -> None:
    """The targets hold what Spark makes of the texts over the tables as they are now."""
    for table in SCHEMAS:
        remote.read.format("delta").load(shop.path(table)).createOrReplaceTempView(table)
    for model in models:
        found = as_rows(deltajoin.read(model, remote).toArrow())
        assert found == as_rows(remote.sql(model.sql).toArrow()), model.name
    for table in SCHEMAS:
        remote.catalog.dropTempView(table)


def names_in(model: deltajoin.Model) -> list[str]:
    """The models that the marked commits of a target name, newest first."""
    state = load_target(model.target)
    return [record["model"] for _, record in epochs_of(state)]


def test_epochs_of_a_keyed_table_a_bag_and_groups(remote: Any, tmp_path: Path) -> None:
    """Two at a time, each by its marks; the caller's session keeps its own."""
    shop = open_shop(tmp_path)
    remote.conf.set(MARK, "the caller's")
    remote.conf.set(COMPARE_ROWS_SETTING, "0")
    models = [
        shop.model(name="keyed", target=shop.path("keyed")),
        shop.model(name="bag", target=shop.path("bag"), sql=BAG),
        shop.model(name="groups", target=shop.path("groups"), sql=GROUPS),
    ]
    rows: list[Any] = []

    def epoch(expected: str) -> None:
        with ThreadPoolExecutor(2) as threads:
            records = list(threads.map(lambda model: deltajoin.run(model, remote), models))
        for model, record in zip(models, records, strict=True):
            assert record.strategy == expected, (model.name, record.reason, record.detail)
        assert_right(remote, shop, models)
        rows.append([[path["rows_out"] for path in record.paths] for record in records])

    epoch("full")
    shop.append("customers", (90, "name 90"))
    shop.append("orders", (100, 1, 5), (101, 90, 5), (102, 91, 5))
    epoch("incremental")
    shop.update("orders", "order_id = 3", amount="amount + 1")
    shop.update("customers", "customer_id = 2", name="'changed'")
    shop.delete("orders", "order_id IN (4, 101)")
    shop.delete("customers", "customer_id = 90")
    models[0] = replace(models[0], mode="shadow")
    epoch("incremental")
    assert rows[0] == [[], [], []]
    assert rows[1] == [[1, 1], [2, 3], [1, 1]]  # counted: Δcustomers, Δorders
    assert [names_in(model) for model in models] == [[model.name] * 3 for model in models]
    assert remote.conf.get(MARK) == "the caller's"
    for key in (MARK, COMPARE_ROWS_SETTING):
        remote.conf.unset(key)
    for model in models:
        assert deltajoin.run(model, never).strategy == "noop"

    shop.update("orders", "true", amount="amount + 1")
    record = deltajoin.run(models[2], remote)
    assert (record.strategy, record.reason) == ("full", "CHANGE_TOO_LARGE")
    assert record.to_dict()["written"] == "difference"
    assert_right(remote, shop, models[2:])


@pytest.mark.crash
def test_a_client_that_is_killed(server: str, remote: Any, tmp_path: Path, thorough: bool) -> None:
    """At its k-th step, also the one that heals it; or in the midst of its MERGE, which the server
    may finish, and once."""
    kills: list[tuple[str, tuple[int, ...], str]] = [("keyed", (4,), "after=0.3")]
    if thorough:
        steps = {kind: 21 if kind == "chain" else 7 for kind in CLIENTS}
        kills = [(kind, (k,), "") for kind in CLIENTS for k in range(1, steps[kind] + 1)]
        kills += [("groups", (4,), f"after={tenths / 10}") for tenths in range(30)]
        kills += [(kind, (k, steps[kind] + 1 - k), "") for kind, (k,), when in kills if not when]
    drop_tables(remote)
    epochs, again = dict[str, int](), 0
    for kind, (k, *then), when in kills:
        shop, options = Shop(tmp_path / kind), [f"remote={server}", *filter(None, (when,))]
        if kind not in epochs:
            open_shop(shop.root)
            KINDS[kind].run(shop.root, remote)
        epoch = epochs[kind] = epochs.get(kind, 1) + 1
        change(shop, 100 + epoch)
        assert dies(shop.root, kind, k, *options)
        again += sum(dies(shop.root, kind, j, *options) for j in then)
        _run_until_it_can(kind, shop, remote)
        KINDS[kind].assert_right(shop.root, epoch, remote)
    print(f"{len(kills)} kills of clients, {again} killed again: {epochs}")  # noqa: T201


@pytest.mark.crash
def test_a_first_build_whose_client_is_killed(
    server: str, remote: Any, tmp_path: Path, thorough: bool
) -> None:
    """At its k-th step, k = 1, 2, ... until one lives, each in a folder of its own."""
    kills = 0
    for kind in CLIENTS if thorough else ("groups",):
        for k in count(1) if thorough else (5,):
            drop_tables(remote)
            shop = open_shop(tmp_path / f"{kind}-{k}")
            died = dies(shop.root, kind, k, f"remote={server}")
            _run_until_it_can(kind, shop, remote)
            KINDS[kind].assert_right(shop.root, 1, remote)
            if not died:
                break
            kills += 1
    print(f"{kills} kills of clients that build first")  # noqa: T201


def drop_tables(remote: Any) -> None:
    """What runs have made by name, of a kind whose tables have names."""
    for table in remote.catalog.listTables():
        remote.sql(f"DROP {'VIEW' if table.tableType == 'VIEW' else 'TABLE'} {table.name}")


def _run_until_it_can(kind: str, shop: Shop, remote: Any) -> None:
    """While the server still writes for a client that is gone, a run may lose to it."""
    for _ in range(20):
        try:
            return KINDS[kind].run(shop.root, remote)
        except (deltajoin.DeltaJoinError, AssertionError) as error:
            if "CONCURRENT_RUN" not in str(error):
                raise
            time.sleep(1)
    raise AssertionError("the run of a killed client is in the way for ever")


def test_a_target_named_without_its_schema_and_a_refusal(remote: Any, tmp_path: Path) -> None:
    shop = open_shop(tmp_path)
    remote.sql("CREATE DATABASE connected")
    before = remote.catalog.currentDatabase()
    remote.catalog.setCurrentDatabase("connected")
    try:
        remote.sql(f"CREATE TABLE orders USING delta LOCATION '{shop.path('orders')}'")
        sources = {"orders": "orders", "customers": shop.path("customers")}
        model = shop.model(target="wide", sources=sources)
        assert deltajoin.run(model, remote).strategy == "full"
        found = as_rows(remote.table("connected.wide").toArrow())
        assert found == as_rows(deltajoin.read(model, remote).toArrow())
        assert len(found) == 40

        shop.append("customers", (1, "twice"))
        with pytest.raises(deltajoin.DeltaJoinError, match="KEY_VIOLATED"):
            deltajoin.run(replace(model, mode="incremental_strict"), remote)
        unknown = shop.model(sql="SELECT o.order_id, nothing(o.amount) AS n FROM orders o")
        with pytest.raises(deltajoin.DeltaJoinError, match="SPARK_ANALYSIS"):
            deltajoin.run(unknown, remote)
        assert len(remote.table("wide").collect()) == 40
    finally:
        remote.catalog.setCurrentDatabase(before)
        remote.sql("DROP DATABASE connected CASCADE")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients have less patience than the ten minutes that they would."""
    from pyspark.sql.connect.client import core, retries

    class Impatient(retries.DefaultPolicy):
        def __init__(self) -> None:
            super().__init__(max_retries=1)

    monkeypatch.setattr(core, "DefaultPolicy", Impatient)


def test_a_catalog_without_its_server(
    impatient: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command line asks for a table by name."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    (tmp_path / "m.sql").write_text("SELECT id FROM o")
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
    command = ["run", "--json", "--remote", f"sc://localhost:{port}"]
    command += ["--sql", str(tmp_path / "m.sql"), "--source", "o=sales.o"]
    told = CliRunner().invoke(main, [*command, "--target", str(tmp_path / "t")])
    assert told.exit_code == 1
    error = json.loads(told.stdout)["error"]
    assert (error["code"], error["where"]) == ("SPARK_LOST", "the catalog's table `sales`.`o`")


@pytest.mark.thorough
def test_a_server_that_is_killed(impatient: None, remote: Any, tmp_path: Path) -> None:
    """In the midst of a run."""

    def kill(name: str, info: dict[str, Any]) -> None:
        steps.append(name)
        if name == "changes_materialised":
            port = url.rpartition(":")[2]
            subprocess.run(["pkill", "-KILL", "-f", f"binding.port={port} "], check=True)

    shop = open_shop(tmp_path / "shop")
    deltajoin.run(shop.model(), remote)
    shop.append("orders", (100, 1, 5))
    kept, steps = written(shop), list[str]()
    with connect_server(tmp_path / "server") as url, session_on(url) as lost:
        with pytest.raises(deltajoin.DeltaJoinError) as caught:
            deltajoin.run(shop.model(), lost, on_step=kill)
        assert (caught.value.code, steps[-1]) == ("SPARK_LOST", "changes_materialised")
    assert written(shop) == kept
    assert deltajoin.run(shop.model(), remote).strategy == "incremental"
    assert_right(remote, shop, [shop.model()])


@pytest.mark.thorough
def test_a_chain_of_models(remote: Any, tmp_path: Path) -> None:
    shop, chain = open_shop(tmp_path), KINDS["chain"]
    for epoch in (1, 2):
        if epoch > 1:
            change(shop, 100)
        chain.run(shop.root, remote)
        chain.assert_right(shop.root, epoch, remote)


def test_by_the_command_line(server: str, tmp_path: Path) -> None:
    shop = open_shop(tmp_path)
    model = shop.model()
    query = tmp_path / "model.sql"
    query.write_text(model.sql)
    command = [sys.executable, "-m", "deltajoin.adapters.cli", "run", "--remote", server]
    command += ["--sql", str(query), "--target", model.target]
    command += [w for name, path in model.sources.items() for w in ("--source", f"{name}={path}")]
    command += [w for name, key in KEYS.items() for w in ("--key", f"{name}={','.join(key)}")]
    environment = {**os.environ, "PYTHONPATH": str(Path(deltajoin.__file__).parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "rows +40" in done.stdout
