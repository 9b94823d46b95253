"""Many epochs in a row of three kinds of target: no row drifts, nothing grows but what must.

Sources change by inserts, updates, deletes, replacements and compaction; the runs take every mode,
some die at one of their steps and are started again, the targets are compacted in between. Every
tenth epoch is compared with DuckDB's result of the query. By default one short history is played,
with `--thorough` three of 200 epochs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

import deltajoin
from deltajoin.audit import ledger
from deltajoin.audit.verify import verify
from deltajoin.catalog import load_target
from tests.spark.shop import (
    BAG,
    GROUPS,
    KEYS,
    SQL,
    Shop,
    as_rows,
    as_table,
    expected,
    open_shop,
)

MODELS = {"keyed": SQL, "bag": BAG, "groups": GROUPS}
MODES = ("auto", "incremental", "incremental", "incremental_strict", "shadow", "full")
STEPS = ("planned", "plan_frozen", "changes_materialised", "before_merge", "after_merge")


class Killed(BaseException):
    """A run that ends in the midst of its work, without any handler of an `Exception`."""


@dataclass
class History:
    """One random history of the shop and of the targets that are kept over it."""

    shop: Shop
    chance: Random
    seen: Counter[str] = field(default_factory=Counter)
    orders: int = 1000

    def change(self) -> None:
        """One to four commits to the sources."""
        for _ in range(self.chance.randint(1, 4)):
            action = self.chance.choice(
                ("insert", "insert", "update", "delete", "rename", "customer", "replace", "compact")
            )
            self.seen[action] += 1
            getattr(self, f"_{action}")()

    def run(self, name: str, spark: Any) -> None:
        """Bring a target up to date, in any mode, perhaps by a run that dies and one after it."""
        model = self.model(name, self.chance.choice(MODES))
        dies_at = self.chance.choice(STEPS) if self.chance.random() < 0.2 else None

        def passed(step: str, info: dict[str, Any]) -> None:
            if step == dies_at:
                raise Killed

        try:
            record = deltajoin.run(model, spark, on_step=passed)
        except Killed:
            self.seen[f"killed at {dies_at}"] += 1
            record = deltajoin.run(model, spark)
        self.seen[record.strategy] += 1

    def compact_targets(self) -> None:
        for name in MODELS:
            DeltaTable(self.shop.path(name)).optimize.compact()

    def model(self, name: str, mode: str) -> deltajoin.Model:
        target = self.shop.path(name)
        return self.shop.model(name=name, sql=MODELS[name], target=target, mode=mode)

    def assert_right(self, spark: Any) -> None:
        for name, sql in MODELS.items():
            found = deltajoin.read(self.model(name, "auto"), spark).toArrow()
            assert as_rows(found) == expected(self.shop, sql), name
            state = load_target(self.shop.path(name))
            assert state is not None
            assert verify(state) == (), name

    def _insert(self) -> None:
        rows = [(self.orders + n, self.chance.randint(0, 12), 10) for n in range(3)]
        self.orders += 3
        self.shop.append("orders", *rows)

    def _update(self) -> None:
        where = f"order_id % 17 = {self.chance.randint(0, 16)}"
        self.shop.update("orders", where, amount="amount + 1")

    def _delete(self) -> None:
        self.shop.delete("orders", f"order_id % 29 = {self.chance.randint(0, 28)}")

    def _rename(self) -> None:
        name = f"'name {self.chance.randint(0, 5)}'"
        self.shop.update("customers", f"customer_id = {self.chance.randint(0, 12)}", name=name)

    def _customer(self) -> None:
        number = self.chance.randint(0, 12)
        self.shop.delete("customers", f"customer_id = {number}")
        if self.chance.random() < 0.7:
            self.shop.append("customers", (number, f"name {number}"))

    def _replace(self) -> None:
        """The customers once more, one of them renamed: a load that overwrites."""
        customers = DeltaTable(self.shop.path("customers")).to_pyarrow_table().to_pylist()
        rows = [(row["customer_id"], row["name"]) for row in customers]
        if rows:
            rows[0] = (rows[0][0], f"reloaded {self.chance.randint(0, 3)}")
        table = as_table("customers", rows)
        write_deltalake(self.shop.path("customers"), table, mode="overwrite")

    def _compact(self) -> None:
        for name in KEYS:
            DeltaTable(self.shop.path(name)).optimize.compact()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    thorough = metafunc.config.getoption("--thorough")
    metafunc.parametrize("seed", range(1, 4 if thorough else 2))


def test_many_epochs(
    seed: int, spark: Any, tmp_path: Path, thorough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not thorough:
        monkeypatch.setattr(ledger, "FOLD", 4)
    history = History(open_shop(tmp_path), Random(seed))
    own = spark.newSession()
    last = 200 if thorough else 6
    for epoch in range(1, last + 1):
        if epoch > 1:
            history.change()
        for name in MODELS:
            history.run(name, own)
        if history.chance.random() < 0.1:
            history.compact_targets()
        if epoch % 10 == 0 or epoch == last:
            history.assert_right(own)
    assert own.sql("SHOW VIEWS").count() == 0
    for name in MODELS:
        kept = [f for f in (tmp_path / name / "_deltajoin").rglob("*") if f.is_file()]
        assert len(kept) < 4 * ledger.FOLD + 8, f"the ledger of {name} has {len(kept)} files"
    print(f"seed {seed}: {dict(sorted(history.seen.items()))}")  # noqa: T201
