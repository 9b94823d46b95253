"""Check the ledger against the target's history.

Every epoch in the history must have an audit file that says the same, every audit file of an epoch
that the history still reaches must have its commit, epochs must be consecutive, and nobody else may
have changed rows since the last epoch, or while one was made and no rebuild came after it. Findings
carry a code; none means verified.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from deltajoin.audit.ledger import Ledger
from deltajoin.audit.record import from_commit
from deltajoin.catalog import TargetState
from deltajoin.contract import committed_record
from deltajoin.delta.format import digest
from deltajoin.delta.history import epochs_of, stood_on


@dataclass(frozen=True)
class Finding:
    """One disagreement: code, epoch (or target version) and what was found."""

    code: str
    where: str
    message: str

    def to_dict(self) -> dict[str, str]:
        """The finding as plain values."""
        return asdict(self)


def history(state: TargetState) -> tuple[dict[str, Any], ...]:
    """The audit records that the target's commits carry, oldest epoch first, as plain values."""
    records = [from_commit(commit, state.location).to_dict() for commit, _ in epochs_of(state)]
    return tuple(sorted(records, key=lambda record: (record["epoch"], record["target_version"])))


def verify(state: TargetState) -> tuple[Finding, ...]:
    """All disagreements between ledger and history, oldest epoch first."""
    ledger = Ledger(state.location)
    committed: dict[int, dict[str, Any]] = {}
    findings: list[Finding] = []
    stands_on, healed = -1, False
    for commit in state.commits:
        record = committed_record(commit.user_metadata)
        if record is not None:
            stands_on = commit.version if healed else stood_on(commit, record)
            healed = healed or record["strategy"] == "full"
            epoch = int(record["epoch"])
            if epoch in committed:
                findings.append(Finding("EPOCH_TWICE", f"epoch {epoch}", "committed twice"))
            committed[epoch] = from_commit(commit, state.location).to_dict()
        elif commit.data_change and commit.version > stands_on:
            when = f"while epoch {min(committed)} was made" if committed else "after the last epoch"
            text = f"{commit.operation} changed rows {when}"
            findings.append(Finding("TARGET_FOREIGN_WRITE", f"version {commit.version}", text))
    for epoch in sorted(committed):
        findings += _check_epoch(ledger, epoch, committed[epoch])
    if committed:
        findings += _check_sequence(sorted(committed), ledger.epochs())
    return tuple(findings)


def _check_epoch(ledger: Ledger, epoch: int, committed: dict[str, Any]) -> list[Finding]:
    where = f"epoch {epoch}"
    findings: list[Finding] = []
    written = ledger.audit(epoch)
    if written is None:
        findings.append(Finding("AUDIT_MISSING", where, "no readable audit file"))
    elif changed := _differing(written, committed):
        text = "the audit file differs from the commit in: " + ", ".join(changed)
        findings.append(Finding("AUDIT_ALTERED", where, text))
    plan = ledger.plan(epoch)
    if plan is not None:
        content = {key: value for key, value in plan.items() if key != "plan_hash"}
        if not digest(content) == plan.get("plan_hash") == committed["plan_hash"]:
            text = "the frozen plan's hash differs from the commit's"
            findings.append(Finding("PLAN_ALTERED", where, text))
    return findings


def _differing(written: dict[str, Any], committed: dict[str, Any]) -> list[str]:
    """Fields that differ; apart from the folder, which a moved target keeps as it was, and from
    times, which the file alone knows to the end."""
    names = {*written, *committed} - {"location", "phases", "seconds"}
    return sorted(name for name in names if written.get(name) != committed.get(name))


def _check_sequence(committed: list[int], written: tuple[int, ...]) -> list[Finding]:
    findings = [
        Finding("EPOCH_GAP", f"epoch {after}", f"the epoch before it is {before}")
        for before, after in zip(committed, committed[1:], strict=False)
        if after != before + 1
    ]
    orphans = [epoch for epoch in written if epoch > committed[-1]]
    findings += [
        Finding("AUDIT_ORPHAN", f"epoch {epoch}", "an audit file without a commit")
        for epoch in orphans
    ]
    return findings
