"""The epoch order, and the lookup paths that follow from it.

    d(A x B x C) = d(A) x B* x C*  +  d(B) x A x C*  +  d(C) x A x B

One path per changed occurrence. A path reads an occurrence at the previous epoch if it stands
before the driver in the epoch order, at this epoch if after. Every permutation is exact; this one
is by ascending size, so that the largest table stands last and every other path reads it at this
epoch, which is the snapshot Delta has at hand. An unchanged table has one version and no path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from deltajoin.catalog import ChangedFiles, StaticFiles
from deltajoin.graph import JoinGraph
from deltajoin.planner.cardinality import Statistics, key_is_bound
from deltajoin.planner.search import best_order


@dataclass(frozen=True)
class SourceVersion:
    """One source in the frontier: what the last epoch consumed and what this one will.

    `previous` equals `version` for a source without change; None before the first epoch.
    `change_rows` is the estimate from the log, None when it says none. `change_kind` is what came:
    (noop, insert_only, mutating, replaced), `method` how the change is read (feed, files,
    difference), `why` what stands against the feed. `static` is None for a Delta table.
    """

    source: str
    location: str
    table_id: str
    version: int
    previous: int | None
    columns: tuple[tuple[str, str], ...]
    rows: int | None
    change_rows: int | None = None
    change_kind: str = "mutating"
    method: str = "feed"
    why: str = ""
    files: ChangedFiles | None = None
    bytes: int | None = None
    static: StaticFiles | None = None

    @property
    def changed(self) -> bool:
        """True when rows may differ between the previous epoch and this one."""
        return self.previous is not None and self.previous != self.version

    @property
    def read_whole(self) -> bool:
        """True when both versions are read to find the change, whatever its size."""
        named = self.files is not None and self.files.names and not self.files.partitions
        return self.changed and (self.method == "difference" or bool(named))

    @property
    def estimated_change(self) -> int:
        """Changed rows, a hundredth of the table when the log doesn't say; at least one."""
        guess = (self.rows or 1000) // 100
        return max(1, guess if self.change_rows is None else self.change_rows)


@dataclass(frozen=True)
class LookupStep:
    """One lookup: the relation, the version it is read at, what it is matched on.

    `kind` is inner, left, semi or anti for a join with the stream; enter and scan for one that
    starts a new stream, from distinct `keys` (stream side, new side, operator) of the old one or
    from nothing; filter for predicates alone. `inside` are the lookups that make up the other side
    of a join, `previous` the same before the change: then the step gives both, with opposite signs.
    """

    relation: str
    source: str
    version: int
    epoch: str
    on: tuple[str, ...]
    unique: bool
    estimated_rows: int
    kind: str = "inner"
    keys: tuple[tuple[str, str, str], ...] = ()
    inside: tuple[LookupStep, ...] = ()
    previous: tuple[LookupStep, ...] = ()

    @property
    def text(self) -> str:
        """The step for people: a star is a read at this epoch, a question mark may be missing."""
        mark = {"left": "?", "semi": " exists", "anti": " not exists", "enter": " by keys"}
        return self.relation + ("*" if self.epoch == "this" else "") + mark.get(self.kind, "")


@dataclass(frozen=True)
class LookupPath:
    """A driver's change and the ordered lookups it travels."""

    driver: str
    source: str
    first_version: int
    last_version: int
    estimated_rows: int
    steps: tuple[LookupStep, ...]
    method: str = "feed"
    branch: int = 0

    @property
    def text(self) -> str:
        """The path for people.

        Example: `Δweather → flights → planes* → airlines*`; a star is a read at this epoch.
        """
        lookups = (step.text for step in self.steps if step.kind != "filter")
        return " → ".join((f"Δ{self.driver}", *lookups))

    def to_dict(self) -> dict[str, Any]:
        """The path as plain values."""
        return {**asdict(self), "text": self.text}


def reads(steps: tuple[LookupStep, ...]) -> Iterator[tuple[str, int]]:
    """Every (source, version) that steps read, those inside them too."""
    for step in steps:
        if step.source and not step.inside:
            yield step.source, step.version
        yield from reads(step.inside)
        yield from reads(step.previous)


def epoch_order(graph: JoinGraph, statistics: Statistics) -> tuple[str, ...]:
    """Relations by ascending table size; ties by name."""
    return tuple(
        sorted(
            (relation.name for relation in graph.relations),
            key=lambda name: (statistics.table_rows(graph.by_name[name].source), name),
        )
    )


def lookup_paths(
    graph: JoinGraph,
    statistics: Statistics,
    order: tuple[str, ...],
    versions: Mapping[str, SourceVersion],
) -> tuple[LookupPath, ...]:
    """One path per relation whose table changed, in epoch order."""
    return tuple(
        _path(graph, statistics, order, versions, driver)
        for driver in order
        if versions[graph.by_name[driver].source].changed
    )


def _path(
    graph: JoinGraph,
    statistics: Statistics,
    order: tuple[str, ...],
    versions: Mapping[str, SourceVersion],
    driver: str,
) -> LookupPath:
    source = versions[graph.by_name[driver].source]
    change = source.estimated_change
    best = best_order(graph, statistics, driver, float(change))
    steps: list[LookupStep] = []
    for position, name in enumerate(best.relations[1:], start=1):
        bound = frozenset(best.relations[:position])
        looked_up = versions[graph.by_name[name].source]
        before = order.index(name) < order.index(driver) and looked_up.changed
        version = looked_up.previous if before else looked_up.version
        steps.append(
            LookupStep(
                relation=name,
                source=looked_up.source,
                version=version if version is not None else looked_up.version,
                epoch="previous" if before else "this",
                on=tuple(sorted(p.sql for p in graph.decidable(bound, name))),
                unique=key_is_bound(graph, statistics, bound, name),
                estimated_rows=round(best.rows[position]),
            )
        )
    return LookupPath(
        driver=driver,
        source=source.source,
        first_version=(source.previous or 0) + 1,
        last_version=source.version,
        estimated_rows=change,
        steps=tuple(steps),
        method=source.method,
    )
