"""The ledger of many epochs: old ones are folded, and read, checked and rebuilt as before."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deltajoin.audit import ledger as ledgers
from deltajoin.audit.ledger import Ledger
from deltajoin.audit.record import from_commit
from deltajoin.audit.verify import verify
from deltajoin.catalog.files import LocalFiles
from tests.unit.test_audit_chain import commit, record_of, state_of

FOLD = 8  # fewer than the ledger's own, for time's sake
EPOCHS = 3 * FOLD + 5


@pytest.fixture(scope="module", autouse=True)
def small_folds() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledgers, "FOLD", FOLD)
        yield


def grow(target: Path, last: int) -> None:
    """Epochs as runs make them: plan, commit, audit record."""
    first = max(Ledger(str(target)).epochs(), default=0) + 1
    for epoch in range(first, last + 1):
        commit(target, record_of(target, epoch))
        newest = next(iter(state_of(target).commits))
        Ledger(str(target)).write(from_commit(newest, str(target)))


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory, small_folds: None) -> Path:
    target = tmp_path_factory.mktemp("folded") / "wide"
    grow(target, EPOCHS)
    return target


@pytest.fixture
def target(grown: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(grown, tmp_path / "wide"))


def files(target: Path, kind: str) -> list[str]:
    return sorted(file.name for file in (target / "_deltajoin" / kind).iterdir())


def edit_fold(target: Path, name: str, **fields: Any) -> None:
    fold = target / "_deltajoin" / "folded" / f"{1:08d}.json.gz"
    entries = json.loads(gzip.decompress(fold.read_bytes()))
    entries[name] = {**entries[name], **fields}
    fold.write_bytes(gzip.compress(json.dumps(entries).encode()))


def codes(target: Path) -> list[str]:
    return [f"{finding.code} {finding.where}" for finding in verify(state_of(target))]


def test_old_epochs_are_folded_and_told_as_before(grown: Path) -> None:
    target, ledger, state = grown, Ledger(str(grown)), state_of(grown)
    assert files(target, "folded") == [f"{1:08d}.json.gz", f"{1 + FOLD:08d}.json.gz"]
    for kind in ("plans", "audit"):
        assert len(files(target, kind)) == EPOCHS - 2 * FOLD
    assert ledger.epochs() == tuple(range(1, EPOCHS + 1))
    for found in state.commits:
        record = from_commit(found, str(target))
        assert ledger.audit(record.epoch) == json.loads(json.dumps(record.to_dict()))
        plan = ledger.plan(record.epoch)
        assert plan is not None
        assert plan["plan_hash"] == record.plan_hash
    assert verify(state) == ()
    assert ledger.rebuild(state) == ()


def test_a_fold_that_was_killed_is_made_up_for(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(files: LocalFiles, name: str) -> None:
        raise KeyboardInterrupt

    grow(target, 4 * FOLD - 1)
    with monkeypatch.context() as patch:
        patch.setattr(LocalFiles, "remove", killed)
        with pytest.raises(KeyboardInterrupt):
            grow(target, 4 * FOLD)
    assert len(files(target, "folded")) == 3
    assert codes(target) == []
    grow(target, 5 * FOLD)
    assert len(files(target, "folded")) == 4
    assert len(files(target, "plans")) == len(files(target, "audit")) == FOLD
    assert codes(target) == []


def test_what_happens_to_a_fold_is_found(target: Path) -> None:
    edit_fold(target, f"audit/{7:08d}", reason="X")
    edit_fold(target, f"plans/{8:08d}", sql="SELECT 0")
    assert codes(target) == ["AUDIT_ALTERED epoch 7", "PLAN_ALTERED epoch 8"]
    for content in (b"", b"no gzip", gzip.compress(b"{")):
        (target / "_deltajoin" / "folded" / f"{1:08d}.json.gz").write_bytes(content)
        lost = ("AUDIT_MISSING", "PLAN_MISSING")
        assert codes(target) == [f"{c} epoch {n}" for n in range(1, FOLD + 1) for c in lost]
    assert Ledger(str(target)).rebuild(state_of(target)) == tuple(range(1, FOLD + 1))
    assert codes(target) == [f"PLAN_MISSING epoch {n}" for n in range(1, FOLD + 1)]


def test_a_file_that_cannot_be_read_is_not_folded(target: Path) -> None:
    broken = target / "_deltajoin" / "audit" / f"{2 * FOLD + 3:08d}.json"
    broken.write_text("{")
    grow(target, 4 * FOLD)
    assert broken.exists()
    assert codes(target) == [f"AUDIT_MISSING epoch {2 * FOLD + 3}"]


@pytest.mark.parametrize(("folder", "file"), [(0o700, 0o600), (0o750, 0o640), (0o755, 0o644)])
def test_files_are_as_private_as_the_targets_folder(tmp_path: Path, folder: int, file: int) -> None:
    tmp_path.chmod(folder)
    LocalFiles(str(tmp_path)).write("_deltajoin/a.json", b"{}")
    assert (tmp_path / "_deltajoin" / "a.json").stat().st_mode & 0o777 == file
