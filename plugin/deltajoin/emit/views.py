"""The view names of a plan: each source version, each change, each path. Unique and readable."""

from __future__ import annotations

from dataclasses import dataclass

from deltajoin.catalog import StaticFiles
from deltajoin.delta.plan import DeltaPlan
from deltajoin.names import UniqueNames, slug
from deltajoin.planner.steps import LARGE_TABLE_ROWS


@dataclass(frozen=True)
class Scan:
    """A source at a pinned version, under a view name; static files have paths and no versions."""

    view: str
    location: str
    version: int
    static: StaticFiles | None = None


class Views:
    """View names of a plan's versions and changes, unique and readable."""

    def __init__(self, plan: DeltaPlan) -> None:
        names = UniqueNames()
        self._scans: dict[tuple[str, int], Scan] = {}
        self._changes: dict[str, str] = {}
        self._rows = {source.source: source.rows for source in plan.sources}
        for source in plan.sources:
            base = slug(source.source)
            previous = source.version if source.previous is None else source.previous
            for version in sorted({source.version, previous}):
                view = names.take(f"{base}_v{version}")
                scan = Scan(view, source.location, version, source.static)
                self._scans[source.source, version] = scan
            self._changes[source.source] = names.take(f"{base}_changes")
        relations = plan.graph.relations if plan.graph else ()
        branches = range(len(plan.graph.branches) if plan.graph else 0)
        self._types = {(s.source, name): kind for s in plan.sources for name, kind in s.columns}
        self._paths = {
            (r.name, branch): names.take(f"path_{slug(r.name)}")
            for branch in branches
            for r in relations
        }
        self._shared = tuple(names.take(f"shared_{i + 1}") for i in range(len(relations)))

    def scan(self, source: str, version: int) -> Scan:
        """The scan of a source at a version."""
        return self._scans[source, version]

    def is_large(self, source: str) -> bool:
        """True when a change should be brought to the table rather than the table to the change."""
        rows = self._rows[source]
        return rows is None or rows >= LARGE_TABLE_ROWS

    def path(self, driver: str, branch: int = 0) -> str:
        """What the views of a driver's path begin with."""
        return self._paths[driver, branch]

    def type_of(self, source: str, name: str) -> str:
        """The Spark type of a source's column."""
        return self._types[source, name]

    def shared(self, number: int) -> str:
        """What the views of shared lookups begin with; they are numbered from 0."""
        return self._shared[number]

    def changes(self, source: str) -> str:
        """The view of a source's consolidated change."""
        return self._changes[source]
