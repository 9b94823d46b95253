"""The view names of a plan: each source version, each change, each path. Unique and readable."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field

from sqlglot import exp

from deltajoin.catalog import StaticFiles
from deltajoin.delta.lookup_paths import TOUCHED
from deltajoin.delta.plan import DeltaPlan
from deltajoin.emit.ast import null
from deltajoin.emit.narrowing import NarrowedKey, NarrowedScan
from deltajoin.graph import ColumnRef, JoinGraph
from deltajoin.names import UniqueNames, quote, slug
from deltajoin.planner.lookup import is_large, may_be_sent, stream_bytes
from deltajoin.sql.opaque import own_view

_OTHERS = ("before", "after")


@dataclass(frozen=True)
class Scan:
    """A source at a pinned version, under a view name; as files where it has no versions, or where
    those of the version are `plain`.

    The rows of a `bag` stand there as often as it holds them.
    """

    view: str
    location: str
    version: int
    static: StaticFiles | None = None
    bag: bool = False


@dataclass(frozen=True)
class _Part:
    """The names of one query's statements: the plan's own, or those of a derived source."""

    paths: dict[tuple[str, int], str] = field(default_factory=dict)
    shared: tuple[str, ...] = ()
    touched: str = TOUCHED
    path_rows: str = "path_rows"
    others: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: JoinGraph, names: UniqueNames, end: str) -> _Part:
        paths = {
            (r.name, branch): names.take(f"path{end}_{slug(r.name)}")
            for branch in range(len(graph.branches))
            for r in graph.occurrences
        }
        return cls(
            paths=paths,
            shared=tuple(names.take(f"shared{end}_{i + 1}") for i in range(len(paths))),
            touched=names.take(f"touched{end}") if end else TOUCHED,
            path_rows=names.take(f"path_rows{end}") if end else "path_rows",
            others={what: names.take(f"{what}{end}") for what in _OTHERS} if end else {},
        )


class Views:
    """View names of a plan's versions and changes, unique and readable."""

    def __init__(self, plan: DeltaPlan) -> None:
        names = self._names = UniqueNames((_Part.path_rows, TOUCHED))
        self._narrowed: dict[tuple[str, tuple[NarrowedKey, ...]], NarrowedScan] = {}
        self._scans: dict[tuple[str, int], Scan] = {}
        self._changes: dict[str, str] = {}
        self._statistics = plan.statistics
        self._derived = frozenset(derived.source.source for derived in plan.derived)
        for source in plan.all_sources:
            base = slug(source.source)
            previous = source.version if source.previous is None else source.previous
            for version in sorted({source.version, previous}):
                view = names.take(f"{base}_v{version}")
                if plan.is_unreadable and version == source.version:
                    view = own_view(source.source) or view
                files = source.static
                if paths := dict(source.plain).get(version):
                    schema = ", ".join(f"{quote(name)} {kind}" for name, kind in source.columns)
                    files = StaticFiles("parquet", paths, schema)
                scan = Scan(view, source.location, version, files, source.bag)
                self._scans[source.source, version] = scan
            self._changes[source.source] = names.take(f"{base}_changes")
        self._types = {
            (s.source, name): "" if s.source in self._derived else kind
            for s in plan.all_sources
            for name, kind in s.columns
        }
        self._part = _Part.of(plan.graph, names, "") if plan.graph else _Part()
        self._parts = {
            d.source.source: _Part.of(d.graph, names, f"_{slug(d.source.source)}")
            for d in plan.derived
        }

    def within(self, derived: str) -> Views:
        """The same names, for the statements that find the change of a derived source."""
        inner = copy(self)
        inner._part = self._parts[derived]
        return inner

    @property
    def touched(self) -> str:
        """The view of the group keys that a net change touches."""
        return self._part.touched

    @property
    def path_rows(self) -> str:
        """The view of what all paths give."""
        return self._part.path_rows

    def named(self, what: str) -> str:
        """A name of its own for one more view of this part."""
        return self._part.others[what]

    def beside(self, what: str) -> str:
        """A name for a query that another one reads."""
        return self._names.take(slug(what))

    def is_derived(self, source: str) -> bool:
        """True for a subquery that stands as a source."""
        return source in self._derived

    def scan(self, source: str, version: int) -> Scan:
        """The scan of a source at a version."""
        return self._scans[source, version]

    def looked_up(self, source: str, version: int, keys: tuple[NarrowedKey, ...]) -> str:
        """The view in which some keys of a source are looked up: of a large table, the rows within
        the ranges of their values."""
        scan, known = self.scan(source, version), self._statistics
        if not keys or known is None or self.is_derived(source) or not is_large(known, source):
            return scan.view
        if scan.static is not None and scan.static.format != "parquet":
            return scan.view
        found = self._narrowed.get((scan.view, keys))
        if found is None:
            view = self._names.take(f"{scan.view}_within")
            found = NarrowedScan(view, scan.view, keys, f"{source} version {version}")
            self._narrowed[scan.view, keys] = found
        return found.view

    @property
    def narrowed(self) -> tuple[NarrowedScan, ...]:
        """All scans within ranges that lookups have asked for."""
        return tuple(self._narrowed.values())

    def rows(self, source: str) -> float:
        """Estimated rows of a source."""
        return self._statistics.table_rows(source) if self._statistics else 0.0

    def is_sent(self, graph: JoinGraph, bound: Iterable[str], rows: float, source: str) -> bool:
        """True when so many rows of a stream, with some relations bound, are broadcast to a source
        that is looked up."""
        known = self._statistics
        if known is None or not is_large(known, source):
            return False
        return may_be_sent(rows, stream_bytes(graph, known, bound))

    def path(self, driver: str, branch: int = 0) -> str:
        """What the views of a driver's path begin with."""
        return self._part.paths[driver, branch]

    def type_of(self, source: str, name: str) -> str:
        """The Spark type of a source's column; "" for a derived one."""
        return self._types[source, name]

    def nulls(self, graph: JoinGraph, missing: Iterable[str]) -> dict[ColumnRef, exp.Expr]:
        """A typed NULL for each column of the relations that a branch misses."""
        relations = [relation for relation in graph.relations if relation.name in set(missing)]
        return {(r.name, c): null(self.type_of(r.source, c)) for r in relations for c in r.columns}

    def shared(self, number: int) -> str:
        """What the views of shared lookups begin with; they are numbered from 0."""
        return self._part.shared[number]

    def changes(self, source: str) -> str:
        """The view of a source's consolidated change."""
        return self._changes[source]
