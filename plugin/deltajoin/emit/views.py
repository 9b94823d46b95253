"""The view names of a plan: each source version, each change, each path. Unique and readable."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field

from sqlglot import exp

from deltajoin.catalog import PlainFiles, StaticFiles, zoned
from deltajoin.delta.lookup_paths import TOUCHED
from deltajoin.delta.path import known_types
from deltajoin.delta.plan import DeltaPlan
from deltajoin.delta.strategy import FEW_ROWS
from deltajoin.emit.ast import null
from deltajoin.emit.narrowing import ListedFiles, NarrowedKey, NarrowedScan
from deltajoin.emit.write import PATH_ROWS
from deltajoin.graph import ColumnRef, JoinGraph
from deltajoin.names import UniqueNames, quote, slug
from deltajoin.planner.lookup import is_large, most_sent, stream_bytes
from deltajoin.sql.opaque import names_in, own_view


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
class Part:
    """The names of one query's statements: the plan's own, or those of a derived source.

    `paths` and `shared` are what the views of a driver's path in a branch, and of lookups that are
    shared, begin with; `touched` are the keys that a net change touches, `rows` what all paths
    give, `before` and `after` the rows of touched groups.
    """

    paths: dict[tuple[str, int], str] = field(default_factory=dict)
    shared: tuple[str, ...] = ()
    touched: str = TOUCHED
    rows: str = PATH_ROWS
    before: str = ""
    after: str = ""

    @classmethod
    def of(cls, graph: JoinGraph, names: UniqueNames, derived: str = "") -> Part:
        """The names of a query: of a plan, or of the source that is `derived` by it."""
        end = f"_{slug(derived)}" if derived else ""
        paths = {
            (r.name, branch): names.take(f"path{end}_{slug(r.name)}")
            for branch in range(len(graph.branches))
            for r in graph.occurrences
        }
        shared = tuple(names.take(f"shared{end}_{i + 1}") for i in range(len(paths)))
        own = (TOUCHED, PATH_ROWS, "before", "after")
        return cls(paths, shared, *(names.take(f"{name}{end}") for name in own if derived))


class Views:
    """View names of a plan's versions and changes, unique and readable; `part` are those of the
    query whose statements are made."""

    def __init__(self, plan: DeltaPlan) -> None:
        names = self._names = UniqueNames((PATH_ROWS, TOUCHED, *names_in(plan.sql)))
        self._narrowed: dict[tuple[str, tuple[NarrowedKey, ...]], NarrowedScan] = {}
        self._scans: dict[tuple[str, int], Scan] = {}
        #: Of scans whose files may be read as they are: the columns, and the files.
        self._plain: dict[str, tuple[str, PlainFiles]] = {}
        self._changes: dict[str, str] = {}
        self._statistics = plan.statistics
        #: (source, column) -> type, where it is certain.
        self.types = known_types(plan.all_sources)
        rows = [source.rows for source in plan.sources]
        #: True where the sources are known to have few rows together.
        self.few_rows = None not in rows and sum(map(int, filter(None, rows))) <= FEW_ROWS
        for source in plan.all_sources:
            base = slug(source.source)
            for version in sorted({source.at("previous"), source.version}):
                view = names.take(f"{base}_v{version}")
                if plan.is_unreadable and version == source.version:
                    view = own_view(source.source) or view
                files = source.static
                if plain := dict(source.plain).get(version):
                    schema = ", ".join(
                        f"{quote(name)} {zoned(kind)}" for name, kind in source.columns
                    )
                    self._plain[view] = schema, plain
                    if plain.few:
                        files = StaticFiles("parquet", tuple(sorted(plain.paths)), schema)
                scan = Scan(view, source.location, version, files, source.bag)
                self._scans[source.source, version] = scan
            self._changes[source.source] = names.take(f"{base}_changes")
        self.part = Part.of(plan.graph, names) if plan.graph else Part()
        below = {derived.source.source: derived.graph for derived in plan.derived}
        self._parts = {name: Part.of(graph, names, name) for name, graph in below.items()}

    def within(self, derived: str) -> Views:
        """The same names, for the statements that find the change of a derived source."""
        inner = copy(self)
        inner.part = self._parts[derived]
        return inner

    def beside(self, what: str) -> str:
        """A name for a query that another one reads."""
        return self._names.take(slug(what))

    def is_derived(self, source: str) -> bool:
        """True for a subquery that stands as a source."""
        return source in self._parts

    def scan(self, source: str, version: int) -> Scan:
        """The scan of a source at a version."""
        return self._scans[source, version]

    def changes(self, source: str) -> str:
        """The view of a source's consolidated change."""
        return self._changes[source]

    def looked_up(self, source: str, version: int, keys: tuple[NarrowedKey, ...]) -> str:
        """The view in which some keys of a source are looked up: of a large table, the rows within
        the ranges of their values."""
        scan, statistics = self.scan(source, version), self._statistics
        listed = scan.static is None or scan.static.format == "parquet"
        if statistics is None or self.is_derived(source) or not (keys and listed):
            return scan.view
        if not is_large(statistics, source):
            return scan.view
        found = self._narrowed.get((scan.view, keys))
        if found is None:
            view = self._names.take(f"{scan.view}_within")
            files, table = self._files(scan, keys), f"{source} version {version}"
            found = NarrowedScan(view, scan.view, keys, table, files)
            self._narrowed[scan.view, keys] = found
        return found.view

    def _files(self, scan: Scan, keys: tuple[NarrowedKey, ...]) -> ListedFiles | None:
        """The files of a scan with the bounds of some keys, where they may be read as they are."""
        if scan.view not in self._plain:
            return None
        schema, plain = self._plain[scan.view]
        columns = sorted({key.column for key in keys})
        bounds = zip(*(plain.log.integers(column) for column in columns), strict=True)
        files = sorted(zip(plain.paths, bounds, strict=True))
        return ListedFiles(schema, tuple(columns), tuple(files))

    def type_of(self, source: str, column: str) -> str:
        """The type of a source's column, empty where it is not known."""
        return self.types.get((source, column), "")

    @property
    def narrowed(self) -> tuple[NarrowedScan, ...]:
        """All scans within ranges that lookups have asked for."""
        return tuple(self._narrowed.values())

    def rows(self, source: str) -> float:
        """Estimated rows of a source."""
        return self._statistics.table_rows(source) if self._statistics else 0.0

    def most_sent(self, graph: JoinGraph, bound: Iterable[str], source: str) -> float:
        """Up to how many rows of a stream, with some relations bound, are broadcast to a source
        that is looked up; 0 where none are."""
        statistics = self._statistics
        if statistics is None or not is_large(statistics, source):
            return 0.0
        return most_sent(stream_bytes(graph, statistics, bound))

    def nulls(self, graph: JoinGraph, missing: Iterable[str]) -> dict[ColumnRef, exp.Expr]:
        """A NULL for each column of the relations that a branch misses; of a table's, typed."""
        relations = [relation for relation in graph.relations if relation.name in set(missing)]
        return {
            (r.name, c): null(self.types.get((r.source, c), ""))
            for r in relations
            for c in r.columns
        }
