"""Check the ledger against the target's history.

Every epoch must have an audit file, which says what its commit does where the history still reaches
it, and the frozen plan that was committed; each record must follow the one before it, epochs must
be consecutive, and nobody else may have changed rows since the last epoch, or while one was made
and no rebuild came after it. Which epoch is the newest, the target's transaction identifier says
also where the log holds no commit of ours. Findings carry a code; none but WARNINGS means verified.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from deltajoin.audit.ledger import Ledger
from deltajoin.audit.record import UNSEALED, from_commit, link
from deltajoin.catalog import TargetState
from deltajoin.contract import committed_record
from deltajoin.delta.format import digest
from deltajoin.delta.history import epochs_of, stood_on

#: What is told, but is no disagreement: plans that were lost with the whole ledger.
WARNINGS = frozenset({"PLAN_LOST"})


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
    committed: dict[int, dict[str, Any]] = {}
    findings = [*_check_commits(state, committed)]
    ledger = Ledger(state.location)
    written = ledger.epochs()
    newest = max(*committed, _transaction(state), 0)
    records: dict[int, dict[str, Any]] = {}
    lost: list[int] = []
    for epoch in range(1, (newest or max(written, default=0)) + 1):
        record, plan = ledger.audit(epoch), ledger.plan(epoch)
        findings += _check_file(epoch, record, committed.get(epoch))
        known = committed.get(epoch) or record
        if known is not None:
            records[epoch] = known
        if plan is None and record is not None and record.get("plan_lost"):
            lost.append(epoch)
        elif known is not None:
            findings += _check_plan(plan, epoch, known)
    findings += _check_chain(records)
    findings += [
        Finding("EPOCH_GAP", f"epoch {epoch + 1}", "the history holds earlier ones, but not it")
        for epoch in sorted(committed)
        if epoch < newest and epoch + 1 not in committed
    ]
    findings += [
        Finding("AUDIT_ORPHAN", f"epoch {epoch}", "an audit file without a commit")
        for epoch in written
        if 0 < newest < epoch
    ]
    if lost:
        text = "the ledger held no plans when the audit files were made anew from the history"
        where = f"{len(lost)} of the epochs {lost[0]} to {lost[-1]}"
        findings.append(Finding("PLAN_LOST", where, text))
    return tuple(findings)


def _transaction(state: TargetState) -> int:
    """The newest epoch by Delta's transaction identifier, which checkpoints keep; 0 without."""
    model = dict(state.properties).get("deltajoin.model")
    return state.transaction(f"deltajoin:{model}") or 0


def _check_commits(state: TargetState, committed: dict[int, dict[str, Any]]) -> Iterator[Finding]:
    """Epochs that were committed twice, and what others wrote; `committed` gets the records."""
    stands_on, healed, in_original = -1, False, False
    for commit in state.commits:
        record = committed_record(commit.user_metadata)
        if commit.original is not None and not in_original:
            stands_on, in_original = -1, True  # versions of another log
        if record is not None:
            stands_on = commit.version if healed else stood_on(commit, record)
            healed = healed or record["strategy"] == "full"
            epoch = int(record["epoch"])
            if epoch in committed:
                yield Finding("EPOCH_TWICE", f"epoch {epoch}", "committed twice")
            committed[epoch] = from_commit(commit, state.location).to_dict()
        elif commit.data_change and commit.version > stands_on:
            when = f"while epoch {min(committed)} was made" if committed else "after the last epoch"
            text = f"{commit.operation} changed rows {when}"
            yield Finding("TARGET_FOREIGN_WRITE", f"version {commit.version}", text)


def _check_file(
    epoch: int, written: dict[str, Any] | None, committed: dict[str, Any] | None
) -> Iterator[Finding]:
    if written is None:
        lost = "" if committed else ", and the log no longer holds its commit"
        yield Finding("AUDIT_MISSING", f"epoch {epoch}", f"no readable audit file{lost}")
        return
    differing = _differing(written, committed or {**written, "epoch": epoch})
    if not differing:
        return
    text = "the audit file differs from the commit in: " + ", ".join(differing)
    yield Finding("AUDIT_ALTERED", f"epoch {epoch}", text)


def _check_plan(
    plan: dict[str, Any] | None, epoch: int, record: dict[str, Any]
) -> Iterator[Finding]:
    if plan is None:
        yield Finding("PLAN_MISSING", f"epoch {epoch}", "no readable frozen plan")
        return
    content = {key: value for key, value in plan.items() if key != "plan_hash"}
    if not digest(content) == plan.get("plan_hash") == record["plan_hash"]:
        text = "the frozen plan's hash differs from the commit's"
        yield Finding("PLAN_ALTERED", f"epoch {epoch}", text)


def _differing(written: dict[str, Any], committed: dict[str, Any]) -> list[str]:
    names = {*written, *committed} - UNSEALED
    return sorted(name for name in names if written.get(name) != committed.get(name))


def _check_chain(records: dict[int, dict[str, Any]]) -> Iterator[Finding]:
    """Each record names the one before it, from the first on that names one."""
    chained = False
    for epoch, record in records.items():
        before, follows = records.get(epoch - 1), record.get("follows")
        chained = chained or follows is not None
        if chained and before is not None and follows != link(before):
            text = f"epoch {epoch} does not follow the record that is there"
            yield Finding("CHAIN_BROKEN", f"epoch {epoch - 1}", text)
