"""A run with nothing to do, found from the last commit before any SQL is parsed.

Rule: where the model is declared as it was, no clock is read, and every source is the table and
stands at the version that the last epoch read, a plan could only say NO_CHANGE. Whatever is not so,
or can't be told here, is the planner's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltajoin.audit.ledger import Ledger
from deltajoin.audit.record import AuditRecord, from_commit
from deltajoin.catalog import TargetState, normalise
from deltajoin.delta.format import model_hash, noop_hash
from deltajoin.delta.history import epochs_of, last_epoch
from deltajoin.delta.strategy import NO_CHANGE
from deltajoin.places import Logs


def find_noop(logs: Logs) -> AuditRecord | None:
    """The record of a run without work; None where the planner must look."""
    model = logs.model
    if model.mode == "full":
        return None
    try:
        state = logs.state
        last = last_epoch(state, model).record
        if state is None or last is None or "clock" in last:
            return None
        if last.get("model_hash") != model_hash(model):
            return None
        frontier = {}
        for name, entry in last["frontier"].items():
            if logs.newest(name) != (entry["id"], entry["version"], entry.get("commit")):
                return None
            unchanged = {"previous": entry["version"], "kind": None, "method": None}
            frontier[name] = {**entry, "location": normalise(logs.place(name)), **unchanged}
    except Exception:  # the planner refuses it with code and place
        return None
    return noop_record(state, int(last["epoch"]), model.target, model.mode, frontier)


def noop_record(
    state: TargetState,
    epoch: int,
    target: str,
    mode: str,
    frontier: Mapping[str, Mapping[str, Any]],
    warnings: tuple[str, ...] = (),
) -> AuditRecord:
    """The finding that nothing changed since an epoch; also heals an audit file that a killed run
    left out."""
    Ledger(state.location).catch_up(state)
    version = state.version
    for commit, record in epochs_of(state):
        if record["epoch"] <= epoch:
            break
        version = commit.version - 1  # a run beside this one has gone on
    last = from_commit(commit, state.location)
    kept = ("model", "fingerprint", "kind", "key", "columns", "hidden", "settings")
    return AuditRecord(
        **{name: getattr(last, name) for name in kept},
        strategy=NO_CHANGE.strategy,
        reason=NO_CHANGE.reason,
        detail=NO_CHANGE.detail,
        target=target,
        epoch=epoch,
        frontier=frontier,
        paths=(),
        plan_hash=noop_hash(last.model, epoch, last.fingerprint, frontier),
        rows={"inserted": 0, "updated": 0, "deleted": 0},
        mode=mode,
        warnings=warnings,
        target_version=version,
        location=state.location,
    )
