"""What `audit verify` finds when records, plans or commits were tampered with."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from deltajoin.audit.ledger import Ledger
from deltajoin.audit.record import from_commit, link
from deltajoin.audit.verify import verify
from deltajoin.catalog import TargetState, load_target
from deltajoin.delta.format import digest
from tests.unit.log_files import edit_record
from tests.unit.test_cli_audit import RECORD

EPOCHS = 5


def state_of(target: Path) -> TargetState:
    state = load_target(str(target))
    assert state is not None
    return state


def commit(target: Path, record: dict[str, Any]) -> None:
    noted = CommitProperties(custom_metadata={"userMetadata": json.dumps({"deltajoin": record})})
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


@pytest.mark.parametrize(("code", "forge"), FILES_ALONE.values(), ids=list(FILES_ALONE))
def test_the_chain_vouches_for_epochs_whose_commits_are_gone(
    code: str | None, forge: Callable[[Path], object], honest: Path, tmp_path: Path
) -> None:
    target = tmp_path / "wide"
    shutil.copytree(honest, target)
    DeltaTable(str(target)).create_checkpoint()
    for version in range(3):
        (target / "_delta_log" / f"{version:020d}.json").unlink()
    forge(target)
    found = codes(target)
    assert found == [] if code is None else code in found


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
