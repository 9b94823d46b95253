"""`deltajoin audit` on a target whose commit carries a record; how commands end."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import CommitProperties, write_deltalake
from py4j.protocol import Py4JError

from deltajoin.adapters import cli
from deltajoin.adapters.cli import main

RECORD = {
    "format": 1,
    "model": "wide",
    "target": "/lake/wide",
    "epoch": 1,
    "strategy": "full",
    "reason": "FIRST_RUN",
    "detail": "",
    "mode": "auto",
    "plan_hash": "p" * 64,
    "fingerprint": "f" * 64,
    "frontier": {"orders": {"version": 3, "previous": None}},
    "paths": [],
    "kind": "keyed",
    "key": ["id"],
    "columns": ["id"],
    "rows": {"inserted": 1, "updated": 0, "deleted": 0},
    "settings": {},
    "warnings": [],
}
OTHERS = {
    "none": (),
    "orders and estimates": ("--reference", "a.x=b.y", "--strategy", "cost", "--order", "a,b"),
    "a model": ("--sql", "q.sql", "--source", "a=/a", "--key", "a=id", "--mode", "auto"),
    "flags": ("--no-reorder", "--name", "wide"),
}


@pytest.fixture
def target(tmp_path: Path) -> str:
    noted = CommitProperties(custom_metadata={"userMetadata": json.dumps({"deltajoin": RECORD})})
    path = str(tmp_path / "wide")
    write_deltalake(path, pa.table({"id": [1]}), commit_properties=noted)
    return path


@pytest.mark.parametrize("others", OTHERS.values(), ids=list(OTHERS))
def test_the_record_is_shown_and_verified(target: str, others: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(main, ["audit", "show", "--target", target, *others])
    assert (shown.exit_code, shown.exception) == (0, None)
    assert "wide  epoch 1  full  FIRST_RUN" in shown.output
    told = CliRunner().invoke(main, ["audit", "show", "--target", target, "--json", *others])
    assert [epoch["plan_hash"] for epoch in json.loads(told.stdout)["epochs"]] == ["p" * 64]
    lost = CliRunner().invoke(main, ["audit", "verify", "--target", target, *others])
    assert lost.exit_code == 1
    healed = CliRunner().invoke(main, ["audit", "verify", "--target", target, "--rebuild", *others])
    assert healed.output == (
        "rebuilt the audit file of epoch 1\n"
        "PLAN_LOST: the ledger held no plans when the audit files were made anew from the history"
        " (at 1 of the epochs 1 to 1)\n"
        "1 epochs, 0 findings\n"
    )
    assert healed.exit_code == 0
    told = CliRunner().invoke(main, ["audit", "verify", "--target", target, "--json", *others])
    found = json.loads(told.stdout)
    assert (found["findings"], found["verified"], len(found["warnings"])) == ([], True, 1)


def test_an_epoch_that_is_not_there_is_named(target: str) -> None:
    missing = CliRunner().invoke(main, ["audit", "show", "--target", target, "--epoch", "9"])
    assert missing.exit_code == 1
    assert "NO_EPOCH" in missing.stderr


def test_a_spark_that_has_ended_needs_no_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may end between a run's commit and the end of the command, which tells the run."""

    class Ended:
        def stop(self) -> None:
            raise Py4JError("SparkSession does not exist in the JVM")

    monkeypatch.setattr("deltajoin.runtime.session.local_session", lambda master: Ended())
    with cli._session("local[1]", None) as start:
        start()
