"""Run several models over one frontier, each after those whose targets it reads.

    order by targets -> freeze the base tables -> run -> pin what was written -> run what reads it

Rule: a table that no model of the list writes is read by all of them at the version at which it was
frozen; a target of the list is read at the version that this run left in it. So a model that joins
two others sees both over the same versions. A model that fails leaves those that read its target
unrun; all others still run. Targets and sources meet by folder (also through links) or by catalog
name, whichever fits; single names belong to the current schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from deltajoin.api import run
from deltajoin.audit.record import AuditRecord
from deltajoin.catalog import overlap
from deltajoin.delta.frontier import Frontier
from deltajoin.errors import DeltaJoinError
from deltajoin.model import Model, is_path
from deltajoin.places import Sessions, known_as, source_place, sources_read
from deltajoin.storage import storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Upstream = Mapping[int, frozenset[int]]


@dataclass(frozen=True)
class ModelRun:
    """What became of one model.

    `status`: ran (also when nothing had changed), failed, or skipped because a model that it reads
    did not run. `record` is there when it ran, `error` when not; `code` is the record's reason or
    the error's code.
    """

    model: str
    target: str
    status: str
    code: str
    record: AuditRecord | None = None
    error: DeltaJoinError | None = None

    def to_dict(self) -> dict[str, Any]:
        """The outcome as plain values."""
        return {
            "model": self.model,
            "target": self.target,
            "status": self.status,
            "code": self.code,
            "record": self.record.to_dict() if self.record else None,
            "error": self.error.to_dict() if self.error else None,
        }


@dataclass(frozen=True)
class RunSummary:
    """All models in the order in which they ran, and the versions that they read and wrote."""

    runs: tuple[ModelRun, ...]
    frontier: Mapping[str, Mapping[str, Any]]

    @property
    def failed(self) -> tuple[ModelRun, ...]:
        """The models that did not run: failed, or skipped because of one that failed."""
        return tuple(one for one in self.runs if one.status != "ran")

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain values."""
        return {
            "frontier": {location: dict(pin) for location, pin in self.frontier.items()},
            "runs": [one.to_dict() for one in self.runs],
            "failed": [one.model for one in self.failed],
        }


def run_all(
    models: Iterable[Model],
    spark: SparkSession | Callable[[], SparkSession],
    *,
    on_run: Callable[[ModelRun], None] | None = None,
) -> RunSummary:
    """Bring every model's target to its query over one frontier.

    Args:
        spark: as for `run`; it is called only when there is work or a catalog name.
        on_run: called with the outcome of each model when it is known.

    Returns: the outcome of each model; look at `failed`. A failure of a model raises nothing.

    Raises:
        DeltaJoinError: MODEL_CYCLE, TARGET_TWICE, SPARK_LOST; nothing has run then.
    """
    listed = sorted(models, key=lambda model: (model.name, model.target))
    sessions, frontier = Sessions(spark), Frontier()
    places = [_Places.of(model, sessions) for model in listed]
    upstream = _upstream(listed, places)
    ordered = _ordered(listed, upstream)
    for i in ordered:
        written = frozenset[str]().union(*(places[j].target for j in upstream[i]))
        with _failing(listed[i], places[i].failures), storage(listed[i].storage_options):
            for name, names in places[i].sources.items():
                if not names & written:
                    frontier.table(name, source_place(listed[i], name, sessions.locate))
    frontier.close()
    done: dict[int, ModelRun] = {}
    clock = datetime.now(UTC)
    for i in ordered:
        waits_for = [done[j] for j in sorted(upstream[i]) if done[j].status != "ran"]
        done[i] = (
            _not_run(listed[i], "skipped", _waiting(listed[i], waits_for))
            if waits_for
            else _run(listed[i], places[i].failures, sessions, frontier, clock)
        )
        if on_run:
            on_run(done[i])
    return RunSummary(tuple(done[i] for i in ordered), frontier.to_dict())


def _run(
    model: Model,
    failures: list[DeltaJoinError],
    sessions: Sessions,
    frontier: Frontier,
    clock: datetime,
) -> ModelRun:
    """Run a model, unless it has failed before."""
    if not failures:
        with _failing(model, failures):
            record = run(model, sessions.get, at=frontier, clock=clock)
            if record.location is None or record.target_version is None:
                raise AssertionError("a record without its commit")
            with storage(model.storage_options):
                frontier.produced(record.location, record.target_version)
            return ModelRun(model.name, model.target, "ran", record.reason, record)
    return _not_run(model, "failed", failures[0])


@contextmanager
def _failing(model: Model, failures: list[DeltaJoinError]) -> Iterator[None]:
    """Keep what fails inside: the other models still have their turn."""
    try:
        yield
    except DeltaJoinError as error:
        failures.append(error)
    except Exception as error:
        failures.append(_unexpected(model, error))


def _not_run(model: Model, status: str, error: DeltaJoinError) -> ModelRun:
    return ModelRun(model.name, model.target, status, error.code, error=error)


def _waiting(model: Model, waits_for: Sequence[ModelRun]) -> DeltaJoinError:
    names = ", ".join(f"'{one.model}' ({one.code})" for one in waits_for)
    return DeltaJoinError(
        "UPSTREAM_FAILED",
        f"it reads what did not run: {names}",
        where=model.name,
        remedy="Correct that model, then run all again; what ran is not repeated.",
    )


def _unexpected(model: Model, error: Exception) -> DeltaJoinError:
    text = (str(error).strip().splitlines() or [""])[0][:300]
    failure = DeltaJoinError(
        "UNEXPECTED_FAILURE",
        f"{type(error).__name__}: {text}",
        where=model.name,
        remedy="See the cause of this error; a repeated run is safe.",
    )
    failure.__cause__ = error
    return failure


# what is frozen, and in which order ---------------------------------------------------------------


@dataclass(frozen=True)
class _Places:
    """By what a model's target and the sources that it reads are known, and what rules it out."""

    target: frozenset[str]
    sources: dict[str, frozenset[str]] = field(default_factory=dict)
    failures: list[DeltaJoinError] = field(default_factory=list)

    @classmethod
    def of(cls, model: Model, sessions: Sessions) -> _Places:
        places = cls(known_as(model.target, sessions, target=True))
        try:
            read = sources_read(model)
        except DeltaJoinError as error:
            places.failures.append(error)
            return places
        known = {name: known_as(model.sources[name], sessions) for name in read}
        return replace(places, sources=known)


def _upstream(models: Sequence[Model], places: Sequence[_Places]) -> Upstream:
    """Model -> the models whose targets it reads.

    Raises:
        DeltaJoinError: TARGET_TWICE.
    """
    for j, one in enumerate(places):
        for i in range(j):
            paths = (models[i].target, models[j].target)
            if one.target & places[i].target or (all(map(is_path, paths)) and overlap(*paths)):
                raise DeltaJoinError(
                    "TARGET_TWICE",
                    f"the models '{models[i].name}' and '{models[j].name}' have one target",
                    where=models[j].target,
                    remedy="Give each model a target of its own.",
                )
    found: dict[int, frozenset[int]] = {}
    for i, one in enumerate(places):
        read = frozenset[str]().union(*one.sources.values())
        found[i] = frozenset(j for j, other in enumerate(places) if j != i and other.target & read)
    return found


def _ordered(models: Sequence[Model], upstream: Upstream) -> tuple[int, ...]:
    """The models after all that they read, else by name.

    Raises:
        DeltaJoinError: MODEL_CYCLE.
    """
    order: list[int] = []
    while len(order) < len(models):
        free = [i for i in upstream if i not in order and upstream[i] <= set(order)]
        if not free:
            ring = sorted({models[i].name for i in upstream if i not in order})
            raise DeltaJoinError(
                "MODEL_CYCLE",
                "each of these models waits for another one of them: " + ", ".join(ring),
                where=ring[0],
                remedy="Remove a source from one of them.",
            )
        order.append(min(free))
    return tuple(order)
