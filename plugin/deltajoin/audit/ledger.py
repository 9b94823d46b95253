"""The ledger beside the target: frozen plans and audit records, one file an epoch.

    <target>/_deltajoin/plans/00000007.json     written before any work of epoch 7
    <target>/_deltajoin/audit/00000007.json     written after its commit

The target's commit is the truth; the ledger explains it. A frozen plan without a commit is a run
that died: the next run plans anew and replaces it, because the commit's transaction id decides who
writes an epoch and its plan hash says what was written. A lost audit file is rebuilt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from deltajoin.audit.record import AuditRecord, from_commit
from deltajoin.catalog import Store, TargetState
from deltajoin.delta.format import canonical_json
from deltajoin.delta.history import epochs_of


class Ledger:
    """Plans and audit records of one target."""

    def __init__(self, location: str) -> None:
        self._store = Store(location)

    def freeze(self, plan: Mapping[str, Any]) -> None:
        """Write the plan of the coming epoch, replacing that of a run that died."""
        self._store.write_text(_name("plans", int(plan["epoch"])), canonical_json(plan))

    def settle(self, plan: Mapping[str, Any]) -> None:
        """Keep the plan that was committed, where that of a run beside it took its place."""
        if self.plan(int(plan["epoch"])) != plan:
            self.freeze(plan)

    def plan(self, epoch: int) -> dict[str, Any] | None:
        """The frozen plan of an epoch."""
        return self._read(_name("plans", epoch))

    def write(self, record: AuditRecord) -> None:
        """Write the audit record of a committed epoch."""
        self._store.write_text(_name("audit", record.epoch), canonical_json(record.to_dict()))

    def audit(self, epoch: int) -> dict[str, Any] | None:
        """The audit file of an epoch, None when it is missing or no JSON."""
        return self._read(_name("audit", epoch))

    def epochs(self) -> tuple[int, ...]:
        """Epochs that have an audit file, ascending."""
        names = [name.rsplit("/", 1)[-1] for name in self._store.list("audit")]
        return tuple(sorted(int(n[:-5]) for n in names if n.endswith(".json") and n[:-5].isdigit()))

    def rebuild(self, state: TargetState) -> tuple[int, ...]:
        """Write every audit file that is missing and that the history still holds."""
        present, rebuilt = set(self.epochs()), []
        missing: set[int] | None = None
        for commit, record in epochs_of(state):
            epoch = int(record["epoch"])
            if missing is None:  # the newest of ours
                missing = set(range(1, epoch + 1)) - present
            if epoch in missing:
                self.write(from_commit(commit, state.location))
                rebuilt.append(epoch)
            missing.discard(epoch)
            if not missing:
                break
        return tuple(sorted(rebuilt))

    def _read(self, name: str) -> dict[str, Any] | None:
        text = self._store.read_text(name)
        try:
            value = json.loads(text) if text else None
        except ValueError:
            return None
        return value if isinstance(value, dict) else None


def _name(folder: str, epoch: int) -> str:
    return f"{folder}/{epoch:08d}.json"
