"""DeltaPlan -> the statements of a run.

A run reads named views only, so that its SQL says what it does and runs on any engine:

    <source>_v<version>     a source at a pinned version
    <source>_changes        its consolidated change: used columns and a weight
    path_<driver>_<n>, shared_<n>_<n>   the travelling changes (`emit.paths`)
    path_rows, to_write     all paths together; what the MERGE will do, row by row

Rows are netted before they are folded to keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from sqlglot import exp

from deltajoin.delta.lookup_paths import TOUCHED
from deltajoin.delta.path import SourceVersion, reads, types_of
from deltajoin.delta.plan import DeltaPlan
from deltajoin.delta.ties import identifying_relations
from deltajoin.emit.ast import (
    call,
    column,
    is_null,
    named,
    number,
    pretty,
    string,
    table,
    union_all,
)
from deltajoin.emit.change import Feed, feed_of
from deltajoin.emit.comparison import TARGET_BEFORE, ShadowProgram, comparisons
from deltajoin.emit.derived_sources import DerivedProgram, derived_program
from deltajoin.emit.difference import rebuild_statements
from deltajoin.emit.kept_groups import add_sql, change_of, merged
from deltajoin.emit.narrowing import NarrowedScan, placed
from deltajoin.emit.parts import (
    PART_ROWS,
    REGROUPED,
    net_change,
    part_rows,
    stored_of_touched,
    touched_sql,
)
from deltajoin.emit.paths import (
    PathProgram,
    SharedProgram,
    gives_states,
    path_programs,
    path_statements,
    regroup_statements,
)
from deltajoin.emit.stream import Statement
from deltajoin.emit.views import Scan, Views
from deltajoin.emit.whole_query import Evidence, at_clock, evidence_of, full_sql, own_text
from deltajoin.emit.write import PATH_ROWS, Merge, fold_sql, merge_of, stamps_sql
from deltajoin.graph import JoinGraph
from deltajoin.sql.reading import depends_on_session


@dataclass(frozen=True)
class Program:
    """Every statement of a run; None and empty are those that it doesn't need."""

    scans: tuple[Scan, ...] = ()
    feeds: tuple[Feed, ...] = ()
    paths: tuple[PathProgram, ...] = ()
    shared: tuple[SharedProgram, ...] = ()
    fold: str | None = None
    merge: Merge | None = None
    apart: tuple[Statement, ...] = ()
    full: str | None = None
    key_check: str | None = None
    touched: str | None = None
    regroup: tuple[Statement, ...] = ()
    shadow: ShadowProgram | None = None
    derived: tuple[DerivedProgram, ...] = ()
    sketch: str | None = None
    stamps: str | None = None
    evidence: Evidence | None = None
    syntax: dict[str, str] = field(default_factory=dict)
    narrowed: tuple[NarrowedScan, ...] = ()

    def texts(self) -> Iterator[tuple[str, str]]:
        """Every statement in order, with the name of its view or what it is for."""
        return placed(self._texts(), self.narrowed)

    def _texts(self) -> Iterator[tuple[str, str]]:
        yield from ((feed.view, feed.sql) for feed in self.feeds)
        for below in self.derived:
            yield from ((part.view, part.sql) for part in below.statements())
        yield from ((p.view, p.sql) for p in path_statements(self.paths, self.shared))
        yield from [(TOUCHED, self.touched)] if self.touched else []
        yield from ((part.view, part.sql) for part in self.regroup)
        yield from ((part.view, part.sql) for part in self.apart)
        merge = self.merge.sql if self.merge else None
        ends = {"full": self.full, "to_write": self.fold, "merge": merge}
        yield from ((name, sql) for name, sql in ends.items() if sql is not None)
        yield from [("as_written", self.evidence.text)] if self.evidence else []
        for one in self.shadow.comparisons if self.shadow else ():
            yield from ((one.view, one.sql), (f"compare_{one.view}", one.compare))


def build_program(plan: DeltaPlan) -> Program:
    """All statements of a run of this plan; empty for a no-op."""
    views = Views(plan)
    if plan.strategy == "full":
        fold, merge = rebuild_statements(plan.target, plan.rebuild)
        apart = list[Statement]()
        full = full_sql(plan, views, apart=apart)
        return Program(
            scans=tuple(views.scan(s.source, s.version) for s in plan.sources),
            fold=fold,
            merge=merge,
            apart=tuple(apart),
            full=full,
            key_check=_key_check(plan, views),
            sketch=_sketch(plan, views),
            stamps=stamps_sql(plan.target),
            evidence=evidence_of(plan, views),
            # What we don't read is up to Spark.
            syntax=depends_on_session(plan.sql) if plan.graph else {},
        )
    if plan.strategy == "noop" or plan.graph is None:
        return Program()
    read, derived = _reads(plan, views)
    scans = tuple(views.scan(source, version) for source, version in sorted(read))
    paths, shared = path_programs(plan.graph, plan.paths, views, plan.state)
    touched, regroup, fold = _folded(plan, plan.graph, views)
    stored = (stored_of_touched(plan.graph, views.part.touched),) if touched else ()
    return Program(
        scans=scans,
        feeds=tuple(_feed(plan.graph, source, views) for source in plan.sources if source.changed),
        paths=paths,
        shared=shared,
        fold=fold,
        merge=merge_of(plan.target, () if plan.target.key else plan.target.exactly),
        touched=touched,
        regroup=regroup,
        shadow=_shadow(plan, views, scans),
        derived=derived,
        stamps=stamps_sql(plan.target),
        syntax=depends_on_session(plan.sql),
        narrowed=(*views.narrowed, *stored),
    )


def _reads(
    plan: DeltaPlan, views: Views
) -> tuple[set[tuple[str, int]], tuple[DerivedProgram, ...]]:
    """The versions of tables that a run reads, and the derived sources that it puts up for it."""
    chains = (*(path.steps for path in plan.paths), *plan.regroup)
    read = {pinned for steps in chains for pinned in reads(steps)}
    derived: list[DerivedProgram] = []
    for below in reversed(plan.derived):  # those that others read come later
        read |= below.reads
        versions = frozenset(v for source, v in read if source == below.source.source)
        read |= {pinned for version in versions for pinned in below.below(version)}
        derived.insert(0, derived_program(below, views, versions))
    for source in plan.sources:
        if source.changed and source.method == "difference":
            read |= {(source.source, source.at("previous")), (source.source, source.version)}
    return {pinned for pinned in read if not views.is_derived(pinned[0])}, tuple(derived)


def _folded(
    plan: DeltaPlan, graph: JoinGraph, views: Views
) -> tuple[str | None, tuple[Statement, ...], str]:
    """The touched groups or partitions, or what is added to a group's state; what leads from these
    keys to all of their rows; and from path rows, or what was made of them, to rows to write."""
    target = plan.target
    if not (plan.regroup or plan.state or graph.generation):
        return None, (), fold_sql(target)
    net_rows = net_change(graph, types_of(plan.all_sources))
    if plan.regroup:
        rows = regroup_statements(graph, plan.paths, plan.regroup, views, REGROUPED)
        parts = part_rows(graph, target, plan.state)
        return touched_sql(graph, net_rows), (*rows, parts), fold_sql(target, table(PART_ROWS))
    if plan.state and graph.grouping:
        change = change_of(graph.grouping, plan.state, net_rows)
        if gives_states(plan.paths):
            states = exp.select("*").from_(table(PATH_ROWS))
            change = merged(graph.grouping, plan.state, states, of_changes=True)
        return pretty(change), (), add_sql(target, graph, plan.state)
    return None, (), fold_sql(target, net_rows.subquery("generated"))


def check_program(plan: DeltaPlan) -> ShadowProgram | None:
    """The comparison of what a target holds with the query over the versions of a plan."""
    return _shadow(plan, Views(plan), ())


def _shadow(plan: DeltaPlan, views: Views, opened: tuple[Scan, ...]) -> ShadowProgram | None:
    """The comparison with the query as it was written; it reads through Delta also what the run
    itself reads as files, under the same names: by then nothing of the run is left to compute."""
    if plan.shadow is None or plan.target.location is None:
        return None
    by_delta = Views(replace(plan, sources=tuple(replace(s, plain=()) for s in plan.sources)))
    scans = (by_delta.scan(s.source, s.version) for s in plan.sources)
    before = Scan(TARGET_BEFORE, plan.target.location, plan.target.version)
    full = full_sql(plan, views, stamps=False)
    own = own_text(plan, views) if at_clock(plan) else full
    return ShadowProgram(
        scans=(*(scan for scan in scans if scan not in opened), before),
        comparisons=comparisons(plan.target, plan.shadow, own, full),
    )


def _feed(graph: JoinGraph, source: SourceVersion, views: Views) -> Feed:
    name, versions = source.source, (source.at("previous"), source.version)
    before, after = (views.scan(name, version).view for version in versions)
    return feed_of(graph, source, views.changes(name), (before, after))


def _identifying_sources(plan: DeltaPlan) -> frozenset[str]:
    """Sources whose key is part of the target's; a NULL in another one's key matches nothing."""
    graph = plan.graph
    if graph is None:
        return frozenset()
    types = types_of(plan.all_sources)
    keys = dict(plan.keys) | {derived.source.source: derived.key for derived in plan.derived}
    relations = identifying_relations(graph, keys, types, plan.target.kind != "bag")
    found = {graph.by_name[name].source for name in relations}
    for derived in reversed(graph.all_derived):
        below = derived.graph
        by_group = below.grouping or (below.windowing and below.windowing.first_of)
        if derived.name in found and not by_group:
            names = identifying_relations(below, keys, types, keyed=True)
            found |= {below.by_name[name].source for name in names}
    return frozenset(found)


def _sketch(plan: DeltaPlan, views: Views) -> str | None:
    """A row for each source: its rows, and about how many distinct values its columns have."""
    selects = [
        exp.select(
            named(string(source), "source"),
            named(call("count", number(1)), "rows"),
            named(_distinct(sketch["columns"]), "columns"),
        ).from_(_newest(plan, views, source))
        for source, sketch in plan.sketches.items()
    ]
    return pretty(union_all(*selects)) if selects else None


def _newest(plan: DeltaPlan, views: Views, source: str) -> exp.Table:
    """A source at this epoch."""
    (version,) = (s.version for s in plan.sources if s.source == source)
    return table(views.scan(source, version).view)


def _distinct(names: Iterable[str]) -> exp.Expr:
    """A map from each column to about how many distinct values it has."""
    pairs = ((string(name), call("approx_count_distinct", column(name))) for name in names)
    return call("map", *(part for pair in pairs for part in pair))


def _key_check(plan: DeltaPlan, views: Views) -> str | None:
    """A row for each source whose key is not unique, of those that the plan rests on."""
    keys = [(source, key) for source, key in plan.keys if source not in plan.unchecked]
    if not keys:
        return None
    identifying = _identifying_sources(plan)
    checks = []
    for source, key in keys:
        duplicates = (
            exp.select(named(string(source), "source"))
            .from_(_newest(plan, views, source))
            .group_by(*map(column, key))
            .having(call("count", number(1)) > 1)
        )
        if source not in identifying:
            duplicates = duplicates.where(*(is_null(column(name)).not_() for name in key))
        checks.append(exp.select(column("source")).from_(duplicates.limit(1).subquery()))
    return pretty(union_all(*checks))
