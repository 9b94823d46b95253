"""The public functions: plan, run, read, explain; and freeze and finish for external submission.

    plan -> (no-op: done) -> freeze in the ledger -> execute in Spark -> audit from the commit

`plan` needs no Spark when sources and target are paths. Catalog names are located by a function
(`locate`), which `run` makes from its session.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from deltajoin.audit.ledger import Ledger
from deltajoin.audit.record import AuditRecord, from_commit, last_record, link
from deltajoin.catalog import TargetState, load_target, normalise
from deltajoin.contract import UNDER_A_VIEW
from deltajoin.delta.frontier import Frontier, refuse_behind
from deltajoin.delta.history import epochs_of
from deltajoin.errors import DeltaJoinError, Refusal
from deltajoin.model import Model, is_path
from deltajoin.names import split_dotted
from deltajoin.noop import find_noop, noop_record
from deltajoin.places import Locate, Logs, Sessions, find_target, sources_read
from deltajoin.runtime.commits import overtaken
from deltajoin.runtime.stopwatch import Stopwatch
from deltajoin.storage import storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from deltajoin.delta.plan import DeltaPlan

__all__ = ["check_rows", "explain", "finish", "freeze", "plan", "read", "run"]

OnStep = Callable[[str, dict[str, Any]], None]
#: What a run may fail with for which a rebuild takes its place -> what the run was.
_REBUILT = {
    "EVALUATION_FAILED": ("incremental",),
    "SUM_OVERFLOW": ("incremental",),
    "WINDOW_TIES": ("incremental", "full"),
}
_Work = TypeVar("_Work", bound=Callable[..., Any])


def _with_storage(work: _Work) -> _Work:
    """Let a function of a model work with the model's storage options."""

    @wraps(work)
    def inside(model: Model, *args: Any, **kwargs: Any) -> Any:
        with storage(model.storage_options):
            return work(model, *args, **kwargs)

    return cast(_Work, inside)


@_with_storage
def plan(
    model: Model,
    *,
    locate: Locate | None = None,
    at: Frontier | Mapping[str, Any] | None = None,
    clock: datetime | None = None,
) -> DeltaPlan:
    """Plan a run of the model as of now, or over a frontier, from the Delta logs, without Spark.

    Args:
        locate: catalog name (parts in backticks) -> Delta folder, or None if there is no table.
        at: the versions that all models of a run read, also as {folder: version}; by default each
            table's newest.
        clock: the moment, with a time zone, that the query's `current_timestamp()` and the like
            mean; by default now.

    Raises:
        DeltaJoinError: whatever rules the model or its tables out; with `at` also NOT_IN_FRONTIER,
            FRONTIER_LOST, FRONTIER_BEHIND.
    """
    return _plan(Logs(model, locate), at, clock)


@_with_storage
def plan_instead(
    model: Model, planned: DeltaPlan, failed: DeltaJoinError, *, locate: Locate | None = None
) -> DeltaPlan:
    """The rebuild over the same versions that takes the place of a run which failed.

    A lookup path computes values of rows that never stood beside one another, the old row of one
    table and the new row of another, and nets them out later. So `10 / b.v` can fail at a row that
    the query doesn't have, and would at every later run; a sum may overflow on its way. Rows that
    tie in a window's order, which any run may find, leave its result to the query's own text.

    Raises:
        DeltaJoinError: `failed` where no rebuild can help, or mode incremental_strict forbids it.
    """
    if planned.strategy not in _REBUILT.get(failed.code, ()):
        raise failed
    logs = Logs(model, locate)
    return _plan(logs, _pinned(logs, planned.frontier()), planned.clock, failed.refusal)


def _pinned(logs: Logs, frontier: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The frontier of a plan or record by the places of its sources."""
    return {logs.place(name): entry for name, entry in frontier.items()}


def _plan(
    logs: Logs,
    at: Frontier | Mapping[str, Any] | None,
    clock: datetime | None,
    failed: Refusal | None = None,
) -> DeltaPlan:
    from deltajoin.delta.build import Inputs, build_plan
    from deltajoin.delta.shadow import with_shadow

    began, model = time.monotonic(), logs.model
    if at is not None and not isinstance(at, Frontier):
        at = Frontier.read(at)
    tables = {
        name: logs.source(name) if at is None else at.table(name, logs.place(name))
        for name in sources_read(model)
    }
    (location, backing), state = logs.target, logs.state
    if at is not None:
        refuse_behind(tables, state)
    now = datetime.now(UTC) if clock is None else clock.astimezone(UTC)
    planned = build_plan(model, Inputs(tables, location, state, backing, now, failed))
    planned = _chained(with_shadow(planned, state), state)
    return replace(planned, seconds=time.monotonic() - began)


def _chained(planned: DeltaPlan, state: TargetState | None) -> DeltaPlan:
    """The plan with the digest of the record that its epoch follows; from the ledger where the
    target's log has lost the commit."""
    if state is None or planned.strategy == "noop":
        return planned
    record = last_record(state)
    last = record.to_dict() if record else Ledger(state.location).audit(planned.epoch - 1)
    return replace(planned, target=replace(planned.target, follows=link(last) if last else None))


def explain(planned: DeltaPlan) -> str:
    """The plan for people: strategy and reason, how each operator is kept, orders with runner-up,
    lookup paths with what is expected of each lookup."""
    from deltajoin.audit.explain import explanation
    from deltajoin.audit.render import render_plan

    return render_plan(planned.to_dict(), explanation(planned))


def freeze(planned: DeltaPlan, *, storage_options: Mapping[str, str] | None = None) -> DeltaPlan:
    """Write the plan to the target's ledger, as `run` does before any work.

    `storage_options` are the model's, which a plan does not hold.

    A target that does not exist yet has no folder; its plan is frozen as soon as it has. Audit
    files that a killed run left out are written first.

    Raises:
        DeltaJoinError: CONCURRENT_RUN when the epoch was committed since the plan was made.
    """
    with storage(storage_options or {}):
        state = _state(planned.target.location)
        if planned.strategy != "noop" and state is not None:
            ledger = Ledger(state.location)
            ledger.catch_up(state)
            _, last = next(epochs_of(state), (None, None))
            if last is not None and last["epoch"] >= planned.epoch:
                raise overtaken(planned.epoch, planned.target.place)
            ledger.freeze(planned.to_dict())
    return planned


@_with_storage
def run(
    model: Model,
    spark: SparkSession | Callable[[], SparkSession],
    *,
    on_step: OnStep | None = None,
    plan: DeltaPlan | None = None,
    at: Frontier | Mapping[str, Any] | None = None,
    clock: datetime | None = None,
) -> AuditRecord:
    """Bring the target to its query over the sources as they are now, or at a frontier.

    Args:
        spark: a session, or a function that starts one; it is called only when there is work.
        on_step: called with the name of each step when it is done: planned, target_created (first
            run only), plan_frozen, changes_materialised, before_merge, after_merge, verified,
            audit_written; from planned on once more where a rebuild has to take the place of an
            incremental run (`plan_instead`).
        plan: a plan made just before, instead of planning anew.
        at: the versions that all models of a run read; `at.produced` is left to the caller.
        clock: as for `plan`.

    Raises:
        DeltaJoinError: with nothing committed, except COMMIT_MISSING.
    """
    step = on_step or (lambda name, info: None)
    watch = Stopwatch(planning=plan.seconds if plan else 0.0)
    watch.begin("planning", f"of {model.name}")
    sessions = Sessions(spark, watch)
    logs = Logs(model, sessions.locate)
    unchanged = find_noop(logs) if plan is None and at is None else None
    planned = unchanged or plan or _plan(logs, at, clock)
    step("planned", {"strategy": planned.strategy, "reason": planned.reason})
    if isinstance(planned, AuditRecord) or planned.strategy == "noop":
        record = planned if isinstance(planned, AuditRecord) else _noop(planned)
        _repair(model, record, logs.state, sessions)
        return record
    try:
        record = _execute(planned, sessions, step, watch)
    except DeltaJoinError as error:
        planned = plan_instead(model, planned, error, locate=sessions.locate)
        step("planned", {"strategy": planned.strategy, "reason": planned.reason})
        record = _execute(planned, sessions, step, watch)
    step("audit_written", {"epoch": record.epoch})
    return record


def _execute(planned: DeltaPlan, sessions: Sessions, step: OnStep, watch: Stopwatch) -> AuditRecord:
    """Freeze a plan with work, run it in Spark and write its record."""
    from deltajoin.emit.job import describe_job
    from deltajoin.runtime.execute import execute

    job = describe_job(planned)
    frozen = {"epoch": planned.epoch, "plan_hash": job["plan"]["plan_hash"]}

    def passed(name: str, info: dict[str, Any]) -> None:
        step(name, info)
        if name == "target_created":
            Ledger(normalise(info["location"])).freeze(job["plan"])
            step("plan_frozen", frozen)

    if planned.target.exists:
        freeze(planned)
        step("plan_frozen", frozen)
    commit = execute(sessions.get(), job, passed, watch)
    return _write_audit(normalise(commit["location"]), planned, watch)


def _noop(planned: DeltaPlan) -> AuditRecord:
    """The finding that nothing changed."""
    state = _state(planned.target.location)
    if state is None:
        raise AssertionError("a no-op has a target")
    of_plan = planned.target.place, planned.mode, planned.frontier(), planned.warnings
    return noop_record(state, planned.epoch, *of_plan)


def _state(location: str | None) -> TargetState | None:
    return load_target(location) if location else None


def _repair(
    model: Model, record: AuditRecord, state: TargetState | None, sessions: Sessions
) -> None:
    """Give the target what is declared and a killed run left out, or something else changed: its
    clusters and properties, and in a catalog the view over it."""
    from deltajoin.delta.layout import plan_layout

    _, last = next(epochs_of(state), (None, None))
    layout = plan_layout(model, record.columns, state, last).without_work()
    in_view = not is_path(model.target) and record.kind in UNDER_A_VIEW
    if layout is None and not in_view:
        return
    from deltajoin.runtime.target import alter, show

    target = {"location": record.location, "place": model.target}
    if layout is not None:
        alter(sessions.get(), {**target, "layout": layout.to_dict()})
    if in_view:
        shown = {"kind": record.kind, "columns": record.columns, "hidden": record.hidden or ()}
        show(sessions.get(), {"name_parts": split_dotted(model.target), **target, **shown}, False)


def finish(
    planned: DeltaPlan,
    *,
    locate: Locate | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> AuditRecord:
    """The audit record of a plan that an external submission ran, read from the target's commit.

    `storage_options` are the model's, which a plan does not hold.

    Raises:
        DeltaJoinError: COMMIT_MISSING if the epoch is not committed, CONCURRENT_RUN if another
            plan committed it.
    """
    with storage(storage_options or {}):
        if planned.strategy == "noop":
            return _noop(planned)
        location = planned.target.location or find_target(planned.target.place, locate)[0]
        return _write_audit(location, planned)


def _write_audit(
    location: str | None, planned: DeltaPlan, watch: Stopwatch | None = None
) -> AuditRecord:
    state = _state(location)
    for commit, record in epochs_of(state):
        if state is None or record["epoch"] < planned.epoch:
            break
        if record["epoch"] > planned.epoch:
            continue
        if record["plan_hash"] != planned.hash:
            raise overtaken(planned.epoch, planned.target.place)
        audit, ledger = from_commit(commit, state.location), Ledger(state.location)
        if watch is not None:
            audit = replace(audit, phases=watch.phases, seconds=watch.seconds)
        try:
            ledger.settle(planned.to_dict())
            ledger.write(audit)
        except DeltaJoinError as error:
            if error.code != "LEDGER_UNWRITABLE":
                raise
            late = f"{error}; the epoch is committed, the next run writes its record"
            audit = replace(audit, warnings=(*audit.warnings, late))
        return audit
    raise DeltaJoinError(
        "COMMIT_MISSING",
        f"the target's history does not show epoch {planned.epoch}",
        where=planned.target.place,
        remedy="Look at the job's log, then run again.",
    )


@_with_storage
def read(model: Model, spark: SparkSession) -> DataFrame:
    """What a user selects from: the target's rows, a bag with its duplicates, no hidden column.

    The session gets the model's storage options: the rows are read when the caller asks for them.

    Raises:
        DeltaJoinError: TARGET_MISSING before the first run; what Spark fails with.
    """
    from deltajoin.runtime.failures import explained
    from deltajoin.runtime.object_store import set_storage
    from deltajoin.runtime.target import read_target

    with explained(f"read of {model.target}"):
        set_storage(spark)
    state = Logs(model, Sessions(spark).locate).state
    if state is None:
        raise _missing("does not exist yet", model.target)
    last = last_record(state)
    if last is None:
        raise _missing("holds no epoch yet", state.location)
    target = {"location": state.location, "kind": last.kind, "columns": last.columns}
    with explained(f"read of {model.target}"):
        return read_target(spark, {**target, "hidden": last.hidden or ()})


@_with_storage
def check_rows(model: Model, spark: SparkSession | Callable[[], SparkSession]) -> dict[str, Any]:
    """Compare what the target holds with the query as it was written, over the versions of its last
    epoch; for how floats agree see `delta/shadow.py`.

    Returns:
        {"rows": of the query, "differing": 0, "tolerances": float column -> relative tolerance}.

    Raises:
        DeltaJoinError: ROWS_DIFFER; TARGET_MISSING before the first run; what a plan over those
            versions is refused for, or the reason for which it would be rebuilt.
    """
    from deltajoin.delta.shadow import of_last_epoch
    from deltajoin.emit.sql import check_program
    from deltajoin.runtime.shadow import check_rows as check

    sessions = Sessions(spark)
    logs = Logs(replace(model, mode="auto"), sessions.locate)
    _, last = next(epochs_of(logs.state), (None, None))
    if logs.state is None or last is None:
        raise _missing("holds no epoch yet", model.target)
    at = _pinned(logs, last["frontier"])
    clock = datetime.fromisoformat(last["clock"]) if "clock" in last else None
    found = _plan(logs, at, clock)
    if found.strategy != "noop":
        raise DeltaJoinError(
            found.reason, found.detail, where=model.target, remedy="Run the model, then compare."
        )
    held = of_last_epoch(found, logs.state, last)
    shadow, target = check_program(held), held.to_dict()["target"]
    if shadow is None or held.shadow is None:
        raise AssertionError("a comparison was planned")
    job = {"settings": last["settings"], "target": target, "shadow": asdict(shadow)}
    return check(sessions.get(), {**job, "floats": held.shadow.floats})


def _missing(what: str, place: str) -> DeltaJoinError:
    return DeltaJoinError("TARGET_MISSING", f"the target {what}", where=place, remedy="Run it.")
