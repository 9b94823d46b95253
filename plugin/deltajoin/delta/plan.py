"""The DeltaPlan: everything a run will read and write, as one frozen value with a hash.

A plan is canonical: the same inputs give the same bytes. It is made without Spark, frozen in the
target's ledger before any work, and its hash is what the commit is checked against.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from deltajoin.catalog.statistics import FileStatistics
from deltajoin.contract import FORMAT
from deltajoin.delta.derived import DerivedPlan
from deltajoin.delta.format import (
    RULES,
    SELDOM,
    canonical_json,
    digest,
    fields_of,
    noop_hash,
    plain,
)
from deltajoin.delta.key_order import KeyOrder
from deltajoin.delta.layout import Layout
from deltajoin.delta.path import LookupPath, LookupStep, SourceVersion, schema_of
from deltajoin.delta.state import GroupState
from deltajoin.errors import Refusal
from deltajoin.graph import Core, JoinGraph, Predicate, Stamp, with_stamps
from deltajoin.planner.full_query import FullQuery
from deltajoin.planner.statistics import Sketches, Statistics
from deltajoin.sql.dialect import spelled
from deltajoin.sql.stamps import masked


@dataclass(frozen=True)
class Target:
    """Where rows go.

    `place` is what the user gave, `location` the Delta folder (None until a catalog creates it).
    `name_parts` are empty for a path. `kind`: keyed (one row per key), bag (distinct rows with a
    multiplicity), plain (rebuilt only; columns are known to Spark alone), grouped (one row per key,
    with `hidden` columns that a user does not see, as may be whole rows). A bag may have such too;
    it is `hashed` where its table has a hash of each row.
    `stamps` stand among the columns and are none of the row: they are written with it, by the clock
    of the epoch. `version` and `table_id` are what the plan saw, on which the run stands; -1 and
    None before there is a table. `records` are the rows in its files where the run has work, those
    that are marked as deleted among them. `follows` is the digest of the last epoch's record.
    """

    place: str
    name_parts: tuple[str, ...]
    location: str | None
    exists: bool
    kind: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    hidden: tuple[str, ...] = field(default=(), metadata=SELDOM)
    stamps: tuple[Stamp, ...] = field(default=(), metadata=SELDOM)
    exactly: tuple[str, ...] = field(default=(), metadata=SELDOM)
    hashed: bool = field(default=False, metadata=SELDOM)
    layout: Layout = field(default=Layout(), metadata=SELDOM)
    version: int = -1
    table_id: str | None = field(default=None, metadata=SELDOM)
    records: int | None = field(default=None, metadata=SELDOM)
    follows: str | None = field(default=None, metadata=SELDOM)

    @property
    def stored(self) -> tuple[str, ...]:
        """Columns of the table; a bag's multiplicity and hash, and stamps apart."""
        return (*self.columns, *self.hidden)

    @property
    def visible(self) -> tuple[str, ...]:
        """Columns that a user sees, in order."""
        return with_stamps(self.columns, self.stamps)

    def to_dict(self) -> dict[str, Any]:
        """The target as plain values."""
        return fields_of(self) | ({"visible": self.visible} if self.stamps else {})


@dataclass(frozen=True)
class Recent:
    """The last incremental epochs of a target, newest first: what each read within ranges, table
    (as `t version 3`, or `target`) -> columns; what the target's files say of their values."""

    reads: tuple[Mapping[str, Mapping[str, Any]], ...]
    target_log: Callable[[], FileStatistics | None]


@dataclass(frozen=True)
class Shadow:
    """A comparison before the write.

    `floats` are (column, tolerance): values a, b agree if |a - b| <= tolerance * max(1, |a|, |b|).
    """

    floats: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Rebuild:
    """How a rebuild is written (`delta/rebuild.py`): by "difference" or "overwrite", and why so
    where the run's reason doesn't say. Of a difference: the columns as they are stored, a bag's
    multiplicity apart, and those of them that are compared by their text besides; `stamps` of a
    text that is run as it is are not compared. `order`: how rows that are all written are put in
    order.
    """

    written: str
    because: str = ""
    columns: tuple[str, ...] = ()
    exactly: tuple[str, ...] = ()
    stamps: tuple[Stamp, ...] = field(default=(), metadata=SELDOM)
    order: KeyOrder | None = field(default=None, metadata=SELDOM)


@dataclass(frozen=True)
class DeltaPlan:
    """A run that could be made now.

    `graph` is None for a query that is only rebuilt; `settings` are None before the first epoch,
    when the session's are taken over; `shadow` is None but for an incremental run in that mode,
    `state` but for groups to which a change can be added, `rebuild` but for a full one; `regroup`
    is empty where there is a `state`.
    `find_full_query` makes the order of the whole query when it is first asked for; a run that has
    nothing to do never asks, so that it is no part of such a plan's hash. `replanned` are notes on
    earlier orders that were given up. `differs` says how our form of the query was found to differ
    from its text, by which it is run therefore, `tied` in the order of which columns rows were
    found to tie. `clock` is the moment that the query's clock shows, None for a query without;
    `daily` says why it is kept for a day alone. `predicted` are seconds
    by strategy, by past runs. `unchecked` are large sources on whose declared keys nothing rests,
    so that a rebuild doesn't check them.
    `statistics`, `rebuilt_because` (what stands against keeping the query incrementally) and
    `find_recent` are for explain, `seconds` are those that planning took; they are no part of the
    plan's identity.
    """

    model: str
    fingerprint: str
    model_hash: str
    sql: str
    mode: str
    strategy: str
    reason: str
    detail: str
    epoch: int
    target: Target
    sources: tuple[SourceVersion, ...]
    keys: tuple[tuple[str, tuple[str, ...]], ...]
    graph: JoinGraph | None
    epoch_order: tuple[str, ...]
    find_full_query: Callable[[], FullQuery | None] = field(compare=False, repr=False)
    paths: tuple[LookupPath, ...]
    settings: tuple[tuple[str, str], ...] | None
    warnings: tuple[str, ...] = ()
    regroup: tuple[tuple[LookupStep, ...], ...] = ()
    shadow: Shadow | None = field(default=None, metadata=SELDOM)
    derived: tuple[DerivedPlan, ...] = field(default=(), metadata=SELDOM)
    state: GroupState | None = field(default=None, metadata=SELDOM)
    sketches: Sketches = field(default_factory=dict, metadata=SELDOM)
    statistics: Statistics | None = field(default=None, compare=False, repr=False)
    rebuilt_because: Refusal | None = field(default=None, compare=False)
    find_recent: Callable[[], Recent] | None = field(default=None, compare=False, repr=False)
    clock: datetime | None = field(default=None, metadata=SELDOM)
    daily: str = field(default="", metadata=SELDOM)
    differs: str = field(default="", metadata=SELDOM)
    tied: str = field(default="", metadata=SELDOM)
    predicted: Mapping[str, float] = field(default_factory=dict, metadata=SELDOM)
    unchecked: tuple[str, ...] = field(default=(), metadata=SELDOM)
    replanned: tuple[str, ...] = field(default=(), metadata=SELDOM)
    rebuild: Rebuild | None = field(default=None, metadata=SELDOM)
    seconds: float = field(default=0.0, compare=False)

    @property
    def is_unreadable(self) -> bool:
        """True for a text that Spark alone may be able to read."""
        return self.rebuilt_because is not None and self.rebuilt_because.code == "SQL_PARSE_ERROR"

    @cached_property
    def recent(self) -> Recent | None:
        """The epochs before, read when they are first asked for; None for a plan that was read
        back."""
        return self.find_recent() if self.find_recent else None

    @cached_property
    def full_query(self) -> FullQuery | None:
        """The order of the whole query; None where Spark is given the query as it is."""
        return self.find_full_query()

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values; `plan_hash` is over all the others, of a plan without work over
        what was found unchanged."""
        own = ("graph", "sources", "keys", "settings")
        content = fields_of(self, without=own) | {
            "format": FORMAT,
            "rules": RULES,
            "frontier": self.frontier(),
            "changed_files": {
                s.source: plain(s.files) for s in self.sources if s.files and s.changed
            },
            "static": {s.source: plain(s.static) for s in self.sources if s.static},
            "keys": dict(self.keys),
            "graph": None if self.graph is None else _graph(self.graph),
            "full_query": plain(self.full_query),
            "settings": None if self.settings is None else dict(self.settings),
        }
        content = json.loads(canonical_json(content))
        return {**content, "plan_hash": self._noop_hash or digest(content)}

    def frontier(self) -> dict[str, dict[str, Any]]:
        """Source -> location, table id, version, previous version and a digest of the columns
        consumed; what happened in between and how its change is read, None without change."""
        return {
            s.source: {
                "location": s.location,
                "id": s.table_id,
                "version": s.version,
                "commit": s.commit,
                "previous": s.previous,
                "schema": schema_of(s.columns),
                "rows": s.rows,
                "kind": s.change_kind if s.changed else None,
                "method": s.method if s.changed else None,
            }
            for s in self.sources
        }

    @property
    def all_sources(self) -> tuple[SourceVersion, ...]:
        """Tables, then derived sources."""
        return (*self.sources, *(derived.source for derived in self.derived))

    @property
    def hash(self) -> str:
        """SHA-256 that identifies the plan, in hexadecimal."""
        return self._noop_hash or str(self.to_dict()["plan_hash"])

    @property
    def _noop_hash(self) -> str:
        """The hash of a plan without work; empty for another."""
        if self.strategy != "noop":
            return ""
        return noop_hash(self.model, self.epoch, self.fingerprint, self.frontier())


#: Fields of a graph that say something of few queries; left out where they are empty.
_SELDOM = (
    "clocked",
    "compared",
    "copies",
    "derived",
    "generation",
    "given",
    "name",
    "outputs",
    "projections",
    "stamps",
    "windowing",
    "within",
)


def _graph(graph: JoinGraph) -> dict[str, Any]:
    """The graph as plain values; what few queries have is left out."""
    return asdict(
        graph, dict_factory=lambda pairs: {k: v for k, v in pairs if v or k not in _SELDOM}
    )


def fingerprint(
    graph: JoinGraph | None,
    canonical_sql: str,
    key: tuple[str, ...],
    kind: str,
    state: GroupState | None = None,
) -> str:
    """Identity of the model's meaning: differs when the target's rows or shape could differ."""
    meaning: Any = canonical_sql if graph is None else _meaning(graph)
    if state is not None:
        meaning["state"] = state.to_dict()
    return digest({"format": FORMAT, "meaning": meaning, "key": key, "kind": kind})


def _meaning(graph: JoinGraph) -> dict[str, Any]:
    meaning: dict[str, Any] = {
        "relations": sorted((r.name, r.source) for r in graph.relations),
        "predicates": _conditions(graph.predicates),
        "projections": [(p.name, spelled(p.sql)) for p in graph.projections],
        "outputs": graph.output_names,
    }
    if graph.cores:
        meaning["cores"] = [_core(core) for core in graph.cores]
    for name in ("grouping", "generation", "windowing"):
        if made := getattr(graph, name):
            meaning[name] = _spelled(asdict(made, dict_factory=_lasting))
    if graph.stamps:
        meaning["stamps"] = [(s.name, s.position, spelled(masked(s.sql))) for s in graph.stamps]
    if graph.derived:
        meaning["derived"] = [
            (derived.name, spelled(derived.text) if derived.text else _meaning(derived.graph))
            for derived in graph.derived
        ]
    return meaning


def _lasting(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """A layer without how rows that tie are found, but with whether any may."""
    kept = {name: value for name, value in fields if name not in ("compared", "within")}
    return kept | ({"open": "true"} if dict(fields).get("compared") else {})


def _core(core: Core) -> dict[str, Any]:
    outputs = [(p.name, spelled(p.sql)) for p in core.projections]
    return {
        **({"projections": outputs} if outputs else {}),
        "relations": sorted(core.relations),
        "predicates": _conditions(core.predicates),
        "attachments": [(a.kind, _core(a.core), _conditions(a.on)) for a in core.attachments],
        "nulls": sorted(core.nulls),
    }


def _conditions(predicates: tuple[Predicate, ...]) -> list[str]:
    """Conjuncts in no order; which side of an equality stands first says nothing."""
    return sorted(spelled(p.sql) if p.left is None else f"{p.left} = {p.right}" for p in predicates)


def _spelled(value: Any) -> Any:
    """Plain values with every text in them spelled; of names, their case is among the outputs."""
    if isinstance(value, dict):
        return {key: _spelled(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_spelled(part) for part in value]
    return spelled(value) if isinstance(value, str) else value
