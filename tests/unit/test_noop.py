"""A run with nothing to do is found without the parser, and says what the planner would say."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

import deltajoin
from deltajoin.model import Model
from deltajoin.noop import find_noop
from deltajoin.places import Logs
from tests.unit.log_files import OURS, edit_record, give_properties

SQL = "SELECT o.id, c.name FROM o JOIN c ON o.customer = c.id"


def rows(**columns: list[object]) -> pa.Table:
    """A table of some columns."""
    return pa.table(columns)


@pytest.fixture
def model(tmp_path: Path) -> Model:
    """A model whose target holds the first epoch, as far as its log tells."""
    write_deltalake(str(tmp_path / "o"), rows(id=[1, 2], customer=[1, 1]))
    write_deltalake(str(tmp_path / "c"), rows(id=[1], name=["a"]))
    places = {name: str(tmp_path / name) for name in ("o", "c")}
    made = Model("m", SQL, places, str(tmp_path / "t"), {"o": ("id",), "c": ("id",)})
    plan = deltajoin.plan(made).to_dict()
    names = ("model", "epoch", "mode", "format", "rules", "fingerprint", "model_hash", "frontier")
    record = {name: plan[name] for name in (*names, "plan_hash", "strategy", "reason", "detail")}
    target = plan["target"]
    record |= {name: target[name] for name in ("kind", "key", "columns")}
    record |= {"target": made.target, "paths": [], "rows": {}, "settings": {}, "warnings": []}
    write_deltalake(
        made.target,
        rows(id=[1, 2], name=["a", "a"]),
        commit_properties=CommitProperties(
            custom_metadata={"userMetadata": json.dumps({"deltajoin": record})}
        ),
    )
    give_properties(Path(made.target), OURS)
    return made


def never() -> None:
    """A session that nobody should start."""
    raise AssertionError("a session was started")


def test_it_says_what_the_planner_says(model: Model) -> None:
    found, planned = find_noop(Logs(model, None)), deltajoin.plan(model)
    assert found is not None
    assert planned.strategy == found.strategy == "noop"
    assert (planned.reason, planned.detail) == (found.reason, found.detail)
    assert (planned.hash, planned.epoch) == (found.plan_hash, found.epoch)
    assert planned.to_dict()["plan_hash"] == found.plan_hash
    assert planned.to_dict()["frontier"] == found.to_dict()["frontier"]
    by_plan = deltajoin.run(model, never, plan=planned).to_dict()
    assert {**by_plan, "warnings": []} == found.to_dict()


def test_whatever_is_otherwise_is_planned(model: Model, tmp_path: Path) -> None:
    others = (
        replace(model, mode="full"),
        replace(model, mode="incremental"),
        replace(model, sql=SQL + " "),
        replace(model, keys={}),
        replace(model, stamps=("name",)),
        replace(model, name="other"),
        replace(model, sources={**model.sources, "o": str(tmp_path / "nowhere")}),
        replace(model, target=str(tmp_path / "nowhere")),
    )
    assert [find_noop(Logs(other, None)) for other in others] == [None] * len(others)
    assert find_noop(Logs(model, None)) is not None
    write_deltalake(model.sources["c"], rows(id=[2], name=["b"]), mode="append")
    assert find_noop(Logs(model, None)) is None


def test_a_table_made_anew_is_another(model: Model) -> None:
    shutil.rmtree(model.sources["c"])
    write_deltalake(model.sources["c"], rows(id=[1], name=["a"]))
    assert find_noop(Logs(model, None)) is None


def test_a_version_made_anew_is_another(model: Model) -> None:
    """A table that was put back from a copy counts on from there."""
    commit = Path(model.sources["c"], "_delta_log", f"{0:020d}.json")
    commit.write_text(commit.read_text() + "\n")
    assert find_noop(Logs(model, None)) is None
    assert deltajoin.plan(model).reason == "SOURCE_ROLLED_BACK"


def test_a_query_that_reads_the_clock_is_planned(model: Model) -> None:
    edit_record(Path(model.target), 0, clock="2026-01-01")
    assert find_noop(Logs(model, None)) is None


def test_a_foreign_write_is_refused_all_the_same(model: Model) -> None:
    DeltaTable(model.target).optimize.compact()
    assert find_noop(Logs(model, None)) is not None
    write_deltalake(model.target, rows(id=[9], name=["z"]), mode="append")
    assert find_noop(Logs(model, None)) is None
    with pytest.raises(deltajoin.DeltaJoinError) as refused:
        deltajoin.run(model, never)
    assert refused.value.code == "TARGET_FOREIGN_WRITE"


def test_no_parser_is_imported(model: Model, tmp_path: Path) -> None:
    file = tmp_path / "m.sql"
    file.write_text(SQL)
    options = [f"--source={name}={place}" for name, place in model.sources.items()]
    options += [f"--key={name}=id" for name in model.keys]
    arguments = ["run", f"--sql={file}", "--name=m", f"--target={model.target}", *options]
    program = (
        "import sys\nfrom deltajoin.adapters.cli import main\n"
        "main(sys.argv[1:], standalone_mode=False)\n"
        "assert not {'sqlglot', 'pyspark', 'pyarrow'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "NO_CHANGE" in done.stdout
