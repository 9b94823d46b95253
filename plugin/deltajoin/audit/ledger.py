"""The ledger beside the target: frozen plans and audit records, one file an epoch.

    <target>/_deltajoin/plans/00000207.json         written before any work of epoch 207
    <target>/_deltajoin/audit/00000207.json         written after its commit
    <target>/_deltajoin/folded/00000065.json.gz     plans and records of epochs 65 to 128
    <target>/_deltajoin/failed/                     a submitted job's error, until it is read

The target's commit is the truth; the ledger explains it. A frozen plan without a commit is a run
that died: the next run plans anew and replaces it, because the commit's transaction id decides who
writes an epoch and its plan hash says what was written. A lost audit file is rebuilt; a commit does
not hold its plan, so that where the whole ledger is lost, the new audit files say that plans are.

So that the folder does not grow by two files a run, every `FOLD`-th epoch folds those more than
`FOLD` epochs old into one file for each `FOLD` of them. A file of one epoch goes before the fold,
and is removed after the fold is whole.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

from deltajoin.audit.record import AuditRecord, from_commit
from deltajoin.catalog import TargetCommit, TargetState, open_files
from deltajoin.contract import LEDGER
from deltajoin.delta.format import canonical_json
from deltajoin.delta.history import epochs_of

FOLD = 64
KINDS = ("plans", "audit")

Entries = dict[str, dict[str, Any]]  # by kind and epoch, such as `audit/00000007`
Found = tuple[TargetCommit, Mapping[str, Any]]  # a commit with its record


class Ledger:
    """Plans and audit records of one target."""

    def __init__(self, location: str) -> None:
        self._files = open_files(f"{location}/{LEDGER}")
        self._folds: dict[str, Entries] = {}  # read so far, by file

    def freeze(self, plan: Mapping[str, Any]) -> None:
        """Write the plan of the coming epoch, replacing that of a run that died."""
        self._files.write_text(f"{_name('plans', int(plan['epoch']))}.json", canonical_json(plan))

    def settle(self, plan: Mapping[str, Any]) -> None:
        """Keep the plan that was committed, where that of a run beside it took its place."""
        if self.plan(int(plan["epoch"])) != plan:
            self.freeze(plan)

    def plan(self, epoch: int) -> dict[str, Any] | None:
        """The frozen plan of an epoch."""
        return self._read("plans", epoch)

    def write(self, record: AuditRecord) -> None:
        """Write the audit record of a committed epoch; sometimes, fold what is old."""
        text = canonical_json(record.to_dict())
        self._files.write_text(f"{_name('audit', record.epoch)}.json", text)
        if record.epoch % FOLD == 0:
            self._fold(record.epoch - FOLD)

    def audit(self, epoch: int) -> dict[str, Any] | None:
        """The audit record of an epoch, None when it is missing or no JSON."""
        return self._read("audit", epoch)

    def epochs(self) -> tuple[int, ...]:
        """Epochs that have an audit record, ascending; reads every fold."""
        folds = [self._entries(f"folded/{name}") for name in self._files.list("folded")]
        folded = {int(name[6:]) for fold in folds for name in fold if name.startswith("audit/")}
        return tuple(sorted(folded | self._single("audit")))

    def catch_up(self, state: TargetState) -> None:
        """Write the newest audit records, down to the first that is there: of runs that died after
        their commit, and all that a clone has from its original. Asks for one file where none is
        lost."""
        lost: list[Found] = []
        for commit, record in epochs_of(state):
            epoch = int(record["epoch"])
            if self._has(epoch):
                break
            lost.append((commit, record))
            if epoch == 1 or self._has(epoch - 1):  # before an older commit is read
                break
        self._write_anew(lost, state)

    def rebuild(self, state: TargetState) -> tuple[int, ...]:
        """Write every audit record that is missing or cannot be read and that the history still
        holds; which epochs'."""
        lost = (found for found in epochs_of(state) if self.audit(int(found[1]["epoch"])) is None)
        return self._write_anew(lost, state)

    def _has(self, epoch: int) -> bool:
        return self._files.exists(f"{_name('audit', epoch)}.json")

    def _write_anew(self, lost: Iterable[Found], state: TargetState) -> tuple[int, ...]:
        """Write records from their commits; of an epoch that a clone has from its original, the
        plan too. The oldest goes first, so that `catch_up` goes on where it was cut off."""
        originals: dict[str, Ledger] = {}
        commits = {int(record["epoch"]): commit for commit, record in reversed([*lost])}
        without_plans = commits and not (self._files.list("plans") or self._files.list("folded"))
        for epoch, commit in sorted(commits.items()):
            if commit.original is not None:
                original = originals.setdefault(commit.original, Ledger(commit.original))
                if (plan := original.plan(epoch)) is not None:
                    self.settle(plan)
            record = from_commit(commit, state.location)
            plan_lost = without_plans and self.plan(epoch) is None
            self.write(replace(record, plan_lost=plan_lost or None))
        return tuple(sorted(commits))

    def _fold(self, last: int) -> None:
        """Fold the files of epochs up to `last`; those that hold no JSON stay, for `verify`."""
        single = {(epoch, kind) for kind in KINDS for epoch in self._single(kind) if epoch <= last}
        for fold, names in groupby(sorted(single), key=lambda name: _fold_of(name[0])):
            self._fold_into(fold, [_name(kind, epoch) for epoch, kind in names])

    def _fold_into(self, fold: str, names: Iterable[str]) -> None:
        found = {name: _value(self._files.read(f"{name}.json")) for name in names}
        readable = {name: value for name, value in found.items() if value is not None}
        self._folds.pop(fold, None)  # a run beside this one may have folded them
        entries = {**self._entries(fold), **readable}
        self._files.write(fold, gzip.compress(canonical_json(entries).encode(), mtime=0))
        self._folds[fold] = entries
        for name in readable:
            self._files.remove(f"{name}.json")

    def _single(self, kind: str) -> set[int]:
        """The epochs that have a file of their own."""
        names = self._files.list(kind)
        return {int(n[:-5]) for n in names if n.endswith(".json") and n[:-5].isdigit()}

    def _read(self, kind: str, epoch: int) -> dict[str, Any] | None:
        name = _name(kind, epoch)
        content = self._files.read(f"{name}.json")
        return self._entries(_fold_of(epoch)).get(name) if content is None else _value(content)

    def _entries(self, fold: str) -> Entries:
        """What a fold holds; nothing where it is missing or cannot be read."""
        if fold not in self._folds:
            content = self._files.read(fold)
            try:
                text = gzip.decompress(content) if content else None
            except (OSError, EOFError, zlib.error):
                text = None
            self._folds[fold] = _value(text) or {}
        return self._folds[fold]


def _value(text: bytes | None) -> dict[str, Any] | None:
    try:
        value = json.loads(text) if text else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _name(kind: str, epoch: int) -> str:
    return f"{kind}/{epoch:08d}"


def _fold_of(epoch: int) -> str:
    return f"folded/{epoch - (epoch - 1) % FOLD:08d}.json.gz"
