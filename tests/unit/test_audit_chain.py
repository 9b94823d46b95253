"""What `audit verify` finds when records, plans or commits were tampered with."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from deltajoin.audit.ledger import Ledger
from deltajoin.audit.record import from_commit, link
from deltajoin.audit.verify import verify
from deltajoin.catalog import TargetState, load_target
from deltajoin.delta.format import digest
from tests.unit.log_files import edit_record, give_properties
from tests.unit.test_cli_audit import RECORD

EPOCHS = 5


def state_of(target: Path) -> TargetState:
    state = load_target(str(target))
    assert state is not None
    return state


def commit(target: Path, record: dict[str, Any]) -> None:
    noted = CommitProperties(
        custom_metadata={"userMetadata": json.dumps({"deltajoin": record})},
        app_transactions=[Transaction("deltajoin:wide", record["epoch"])],
    )
    rows = pa.table({"id": [record["epoch"]]})
    write_deltalake(str(target), rows, mode="append", commit_properties=noted)


def record_of(target: Path, epoch: int) -> dict[str, Any]:
    """What an honest run commits next, its plan frozen before."""
    content = {"epoch": epoch, "sql": f"SELECT {epoch}"}
    plan = {**content, "plan_hash": digest(content)}
    Ledger(str(target)).freeze(plan)
    record = {**RECORD, "epoch": epoch, "plan_hash": plan["plan_hash"]}
    if epoch > 1:
        record["follows"] = link(from_commit(next(iter(state_of(target).commits)), "").to_dict())
    return record


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target of five epochs with its whole ledger."""
    target = tmp_path_factory.mktemp("chain") / "wide"
    for epoch in range(1, EPOCHS + 1):
        commit(target, record_of(target, epoch))
    give_properties(target, {"deltajoin.model": "wide"})
    Ledger(str(target)).rebuild(state_of(target))
    return target


def folder(target: Path, name: str, epoch: int) -> Path:
    return target / "_deltajoin" / name / f"{epoch:08d}.json"


def edit(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def edit_commit(target: Path, epoch: int, **fields: Any) -> None:
    """Change the record in the log itself, and its audit file with it."""
    edit_record(target, epoch - 1, **fields)
    edit(folder(target, "audit", epoch), **fields)


def exchange(target: Path, one: int, other: int) -> None:
    paths = [folder(target, "audit", epoch) for epoch in (one, other)]
    texts = [path.read_text() for path in paths]
    for path, text in zip(paths, reversed(texts), strict=True):
        path.write_text(text)


def forge_next(target: Path, **fields: Any) -> None:
    """A commit in our form that no run made."""
    last = from_commit(next(iter(state_of(target).commits)), "").to_dict()
    record = {**RECORD, "epoch": EPOCHS + 1, "follows": link(last)}
    commit(target, {**record, **fields})
    Ledger(str(target)).rebuild(state_of(target))


ROWS = {"inserted": 7, "updated": 0, "deleted": 0}
FORGERIES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a record is removed": ("AUDIT_MISSING", lambda t: folder(t, "audit", 2).unlink()),
    "the first is removed": ("AUDIT_MISSING", lambda t: folder(t, "audit", 1).unlink()),
    "the last is removed": ("AUDIT_MISSING", lambda t: folder(t, "audit", 5).unlink()),
    "a record is cut": ("AUDIT_MISSING", lambda t: folder(t, "audit", 2).write_text("{")),
    "rows are edited": ("AUDIT_ALTERED", lambda t: edit(folder(t, "audit", 2), rows=ROWS)),
    "a reason is edited": ("AUDIT_ALTERED", lambda t: edit(folder(t, "audit", 5), reason="X")),
    "a field is added": ("AUDIT_ALTERED", lambda t: edit(folder(t, "audit", 2), by="somebody")),
    "two are exchanged": ("AUDIT_ALTERED", lambda t: exchange(t, 2, 3)),
    "one stands twice": (
        "AUDIT_ALTERED",
        lambda t: shutil.copy(folder(t, "audit", 2), folder(t, "audit", 3)),
    ),
    "one of the future": (
        "AUDIT_ORPHAN",
        lambda t: shutil.copy(folder(t, "audit", 5), folder(t, "audit", 6)),
    ),
    "a plan is removed": ("PLAN_MISSING", lambda t: folder(t, "plans", 2).unlink()),
    "a plan is cut": ("PLAN_MISSING", lambda t: folder(t, "plans", 2).write_text("")),
    "a plan is edited": ("PLAN_ALTERED", lambda t: edit(folder(t, "plans", 2), sql="SELECT 0")),
    "a plan of another epoch": (
        "PLAN_ALTERED",
        lambda t: shutil.copy(folder(t, "plans", 2), folder(t, "plans", 3)),
    ),
    "an old commit and its record": ("CHAIN_BROKEN", lambda t: edit_commit(t, 2, rows=ROWS)),
    "a link is taken out": ("CHAIN_BROKEN", lambda t: edit_commit(t, 3, follows=None)),
    "a forged epoch": ("PLAN_MISSING", forge_next),
    "a forged epoch of another past": (
        "CHAIN_BROKEN",
        lambda t: forge_next(t, follows="0" * 64),
    ),
    "an epoch twice": ("EPOCH_TWICE", lambda t: forge_next(t, epoch=EPOCHS)),
    "an epoch left out": ("EPOCH_GAP", lambda t: forge_next(t, epoch=EPOCHS + 2)),
}


def codes(target: Path) -> list[str]:
    return [finding.code for finding in verify(state_of(target))]


def test_an_honest_ledger_has_no_findings(honest: Path) -> None:
    assert codes(honest) == []


@pytest.mark.parametrize(("code", "forge"), FORGERIES.values(), ids=list(FORGERIES))
def test_each_forgery_is_found(
    code: str, forge: Callable[[Path], object], honest: Path, tmp_path: Path
) -> None:
    target = tmp_path / "wide"
    shutil.copytree(honest, target)
    forge(target)
    assert code in codes(target)


FILES_ALONE = {
    "nothing": (None, lambda t: None),
    "a record is removed": ("AUDIT_MISSING", lambda t: folder(t, "audit", 2).unlink()),
    "rows are edited": ("CHAIN_BROKEN", lambda t: edit(folder(t, "audit", 2), rows=ROWS)),
    "two are exchanged": ("AUDIT_ALTERED", lambda t: exchange(t, 1, 2)),
    "a plan is edited": ("PLAN_ALTERED", lambda t: edit(folder(t, "plans", 2), sql="SELECT 0")),
}


def without_commits(honest: Path, target: Path, commits: int) -> Path:
    """A copy whose log has been cleaned of so many of its commits, behind a checkpoint."""
    shutil.copytree(honest, target)
    DeltaTable(str(target)).create_checkpoint()
    for version in range(commits):
        (target / "_delta_log" / f"{version:020d}.json").unlink()
    return target


@pytest.mark.parametrize("commits", [3, EPOCHS])
@pytest.mark.parametrize(("code", "forge"), FILES_ALONE.values(), ids=list(FILES_ALONE))
def test_the_chain_vouches_for_epochs_whose_commits_are_gone(
    code: str | None,
    forge: Callable[[Path], object],
    commits: int,
    honest: Path,
    tmp_path: Path,
) -> None:
    target = without_commits(honest, tmp_path / "wide", commits)
    forge(target)
    found = codes(target)
    assert found == [] if code is None else code in found


NEWEST: dict[str, tuple[set[str], Callable[[Path], object]]] = {
    "a record is removed": ({"AUDIT_MISSING"}, lambda t: folder(t, "audit", 5).unlink()),
    "two are removed": (
        {"AUDIT_MISSING"},
        lambda t: [folder(t, "audit", epoch).unlink() for epoch in (4, 5)],
    ),
    "the ledger is removed": (
        {"AUDIT_MISSING"},
        lambda t: shutil.rmtree(t / "_deltajoin"),
    ),
    "one of the future": (
        {"AUDIT_MISSING", "AUDIT_ORPHAN"},
        lambda t: folder(t, "audit", 5).rename(folder(t, "audit", 6)),
    ),
    "the newest is edited, which nothing vouches for": (
        set(),
        lambda t: edit(folder(t, "audit", 5), rows=ROWS),
    ),
}


@pytest.mark.parametrize(("expected", "forge"), NEWEST.values(), ids=list(NEWEST))
def test_the_newest_epoch_is_known_where_no_commit_is_left(
    expected: set[str], forge: Callable[[Path], object], honest: Path, tmp_path: Path
) -> None:
    target = without_commits(honest, tmp_path / "wide", EPOCHS)
    forge(target)
    assert set(codes(target)) == expected


def test_newest_commits_that_are_gone_leave_a_gap(honest: Path, tmp_path: Path) -> None:
    target = without_commits(honest, tmp_path / "wide", 0)
    (target / "_delta_log" / f"{EPOCHS - 1:020d}.json").unlink()
    assert codes(target) == ["EPOCH_GAP"]


# what is made anew --------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["rebuild", "catch_up"])
def test_a_lost_ledger_is_made_anew_without_its_plans(
    by: str, honest: Path, tmp_path: Path
) -> None:
    target = Path(shutil.copytree(honest, tmp_path / "wide"))
    shutil.rmtree(target / "_deltajoin")
    getattr(Ledger(str(target)), by)(state_of(target))
    (told,) = verify(state_of(target))
    assert (told.code, told.where) == ("PLAN_LOST", "5 of the epochs 1 to 5")
    commit(target, record_of(target, EPOCHS + 1))
    Ledger(str(target)).catch_up(state_of(target))
    assert codes(target) == ["PLAN_LOST"]
    folder(target, "plans", EPOCHS + 1).unlink()
    assert codes(target) == ["PLAN_MISSING", "PLAN_LOST"]


def test_a_plan_is_looked_for_where_its_record_alone_was_lost(honest: Path, tmp_path: Path) -> None:
    target = Path(shutil.copytree(honest, tmp_path / "wide"))
    folder(target, "audit", 2).unlink()
    Ledger(str(target)).rebuild(state_of(target))
    assert codes(target) == []
    folder(target, "plans", 2).unlink()
    assert codes(target) == ["PLAN_MISSING"]
    folder(target, "audit", 2).unlink()
    assert Ledger(str(target)).rebuild(state_of(target)) == (2,)
    assert codes(target) == ["PLAN_MISSING"], "of a ledger that holds others"


def test_records_that_cannot_be_read_are_made_anew(honest: Path, tmp_path: Path) -> None:
    target = Path(shutil.copytree(honest, tmp_path / "wide"))
    for epoch, content in {1: b"\xff", 2: b"", 3: b"{", 4: b"[]"}.items():
        folder(target, "audit", epoch).write_bytes(content)
    assert codes(target) == ["AUDIT_MISSING"] * 4
    assert Ledger(str(target)).rebuild(state_of(target)) == (1, 2, 3, 4)
    assert codes(target) == []


def test_a_run_writes_the_newest_records_alone(honest: Path, tmp_path: Path) -> None:
    """Down to the first that is there; of a killed one, the oldest were written first."""
    target = Path(shutil.copytree(honest, tmp_path / "wide"))
    for epoch in (2, 4, 5):
        folder(target, "audit", epoch).unlink()
    Ledger(str(target)).catch_up(state_of(target))
    assert [finding.where for finding in verify(state_of(target))] == ["epoch 2"]


def test_older_ledgers_have_no_links(honest: Path, tmp_path: Path) -> None:
    """The chain begins with the first epoch of a version that knows of it."""
    target = tmp_path / "wide"
    for epoch in range(1, 5):
        record = record_of(target, epoch)
        commit(target, record if epoch > 3 else {**record, "follows": None})
    Ledger(str(target)).rebuild(state_of(target))
    assert codes(target) == []
    edit_commit(target, 3, rows=ROWS)
    assert codes(target) == ["CHAIN_BROKEN"]
