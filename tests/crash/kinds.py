"""The kinds of run that tests kill: how each is run, and what then must be true of its targets.

A `view` is a target by name whose rows lie under a view; its catalog is a metastore of its own
below the folder, which one process at a time can open. A `chain` is three models over one frontier.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import deltajoin
from deltajoin import chain
from deltajoin.catalog import load_target
from tests.spark.shop import BAG, GROUPS, SQL, Shop, as_rows, assert_whole, epochs, expected
from tests.spark.test_chains import Diamond

OnStep = Callable[[str, dict[str, Any]], None]


@dataclass(frozen=True)
class Kind:
    """One model over the shop."""

    sql: str = SQL
    changes: Mapping[str, Any] = field(default_factory=dict)

    def conf(self, folder: Path) -> dict[str, str]:
        """Settings of the session that runs it."""
        return {}

    def model(self, folder: Path) -> deltajoin.Model:
        return Shop(folder).model(sql=self.sql, **self.changes)

    def run(self, folder: Path, spark: Any, on_step: OnStep | None = None) -> None:
        deltajoin.run(self.model(folder), spark, on_step=on_step)

    def assert_right(self, folder: Path, epoch: int, spark: Any) -> None:
        """The query's rows, one commit an epoch, and a whole ledger."""
        model = self.model(folder)
        found = as_rows(deltajoin.read(model, spark).toArrow())
        assert found == expected(Shop(folder), self.sql)
        assert_whole(model.target, epoch)


@dataclass(frozen=True)
class Rebuilt(Kind):
    """One model in mode `full`, whose every run is an epoch: also the run that heals, where the
    killed one had committed its own."""

    def assert_right(self, folder: Path, epoch: int, spark: Any) -> None:
        state = load_target(self.model(folder).target)
        assert state is not None
        last = epochs(state)[-1]
        assert last >= epoch
        super().assert_right(folder, last, spark)


@dataclass(frozen=True)
class Named(Kind):
    """Sources and a target by name, in a metastore that only its runs open, or on a server; each
    run tells the target's folder and its rows."""

    def conf(self, folder: Path) -> dict[str, str]:
        metastore = f"jdbc:derby:;databaseName={folder}/metastore;create=true"
        return {
            "spark.sql.catalogImplementation": "hive",
            "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
            "spark.hadoop.javax.jdo.option.ConnectionURL": metastore,
        }

    def run(self, folder: Path, spark: Any, on_step: OnStep | None = None) -> None:
        session = spark() if callable(spark) else spark
        for name in self.changes["sources"]:
            where = f"USING delta LOCATION '{Shop(folder).path(name)}'"
            session.sql(f"CREATE TABLE IF NOT EXISTS {name} {where}")
        record = deltajoin.run(self.model(folder), session, on_step=on_step)
        rows = [list(row) for row in session.table("wide").collect()]
        (folder / "told.json").write_text(json.dumps([record.location, rows]))

    def assert_right(self, folder: Path, epoch: int, spark: Any) -> None:
        location, rows = json.loads((folder / "told.json").read_text())
        assert sorted(rows) == sorted(map(list, expected(Shop(folder), self.sql).elements()))
        assert_whole(location, epoch)


@dataclass(frozen=True)
class Chain(Kind):
    """`named` and `dear`, and `both` that reads them."""

    def run(self, folder: Path, spark: Any, on_step: OnStep | None = None) -> None:
        def run(*args: Any, **kwargs: Any) -> Any:
            return deltajoin.run(*args, **kwargs, on_step=on_step)

        once, chain.run = chain.run, run
        try:
            summary = chain.run_all(Diamond(Shop(folder)).models(), spark)
        finally:
            chain.run = once
        assert summary.failed == (), summary.to_dict()

    def assert_right(self, folder: Path, epoch: int, spark: Any) -> None:
        diamond = Diamond(Shop(folder))
        diamond.assert_right(diamond.versions())
        for model in diamond.models():
            assert_whole(model.target, epoch)


def start(folder: Path, kind: str, step: int, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a kind of model by `child.py` until it dies at its k-th step, or lives (0)."""
    repository = Path(__file__).parents[2]
    child = [str(Path(__file__).with_name("child.py")), str(repository)]
    return subprocess.run(
        [sys.executable, *child, str(folder), kind, str(step), *options],
        capture_output=True,
        text=True,
        timeout=300,
        start_new_session=True,
    )


def dies(folder: Path, kind: str, step: int, *options: str) -> bool:
    """Whether a run dies at its k-th step: else it lives, for want of such a step."""
    done = start(folder, kind, step, *options)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-3000:]
    return done.returncode != 0


@dataclass(frozen=True)
class Large(Kind):
    """One model that makes a text as long as an amount, with little memory."""

    def conf(self, folder: Path) -> dict[str, str]:
        return {"spark.driver.memory": "600m"}


SOURCES = ("orders", "customers")
KINDS: Mapping[str, Kind] = {
    "keyed": Kind(),
    "full": Rebuilt(changes={"mode": "full"}),
    "bag": Kind(BAG),
    "groups": Kind(GROUPS),
    "view": Named(GROUPS, {"target": "wide", "sources": {n: f"default.{n}" for n in SOURCES}}),
    "chain": Chain(),
    "large": Large(SQL.replace("o.amount", "length(repeat('x', CAST(o.amount AS INT))) AS n")),
}
