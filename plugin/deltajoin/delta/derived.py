"""Derived sources: subqueries with groups, windows or generators, as sources among the others; and
tables under a condition on the clock.

    versions     1 is the subquery over this epoch's tables, 0 over those of the previous epoch
    change       groups or partitions that the subquery's own lookup paths touch, computed anew over
                 both epochs and subtracted; of generators what the paths give; of the clock also
                 the rows that cross between the old one and the new

Groups before are computed again, not read from anywhere: figures that depend on the order of rows
(sums of floats) may come out another way than the target holds them. They may travel to a keyed
target, whose rows are found by key, but decide nothing (`ORDER_DEPENDENT`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from deltajoin.delta.format import plain
from deltajoin.delta.identity import Keys, Types, row_key
from deltajoin.delta.lookup_paths import regroup
from deltajoin.delta.path import UNKNOWN, LookupPath, LookupStep, SourceVersion, reads
from deltajoin.delta.pinning import Paths, Pins
from deltajoin.delta.routes import routes_of
from deltajoin.delta.signed_zeros import told_apart
from deltajoin.delta.state import group_state, merged_columns
from deltajoin.errors import Refusal
from deltajoin.graph import ColumnRef, Derived, JoinGraph
from deltajoin.planner.full_query import Choice, FullQuery, plan_full_query
from deltajoin.planner.solver import COST, Strategy
from deltajoin.planner.statistics import Statistics, measured_steps
from deltajoin.sql.clocked import at_moment, text_at
from deltajoin.sql.exact import derived_outputs

Pinned = frozenset[tuple[str, int]]


@dataclass(frozen=True)
class Described:
    """Keys by source and types by (source, column), derived sources among them, and their columns
    whose values may depend on the order of rows."""

    keys: Keys
    types: Types
    inexact: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True)
class Moment:
    """The clock of this epoch and of the last, in microseconds, and whether that decides rows."""

    now: int
    before: int | None
    moved: bool


@dataclass(frozen=True)
class Knowledge:
    """What planning knows of all sources; `within`: derived source -> its lookup paths in earlier
    epochs, newest first; `moment` is None for a query that doesn't read the clock."""

    described: Described
    statistics: Statistics
    versions: Mapping[str, SourceVersion]
    within: Mapping[str, Sequence[Paths]] = field(default_factory=dict)
    moment: Moment | None = None


@dataclass(frozen=True)
class DerivedPlan:
    """How a derived source is read and how its change is found.

    `after` and `before`: from touched groups to their rows at either epoch, for each branch.
    `replanned`: old and new cost where its epoch order is given up. One of literals is its `text`.
    `earlier` is the query by the last epoch's clock, where that decides rows otherwise than this
    one's; `earlier_text` the text.
    """

    source: SourceVersion
    graph: JoinGraph
    versions: tuple[SourceVersion, ...]
    key: tuple[str, ...] = ()
    full_query: FullQuery | None = None
    paths: tuple[LookupPath, ...] = ()
    after: tuple[tuple[LookupStep, ...], ...] = ()
    before: tuple[tuple[LookupStep, ...], ...] = ()
    untraced: Refusal | None = None
    replanned: str = ""
    earlier: tuple[JoinGraph, FullQuery] | None = None
    text: str = ""
    earlier_text: str = ""

    @property
    def unchanged(self) -> DerivedPlan:
        """The same without what finds its change."""
        return replace(self, paths=(), after=(), before=(), earlier=None, earlier_text="")

    def query(self, version: int) -> tuple[JoinGraph, FullQuery | None]:
        """The query that a version is made by."""
        now = (self.graph, self.full_query)
        return now if version == self.source.version else self.earlier or now

    @property
    def reads(self) -> Pinned:
        """What finding its change reads, as (source, version)."""
        chains = (*(path.steps for path in self.paths), *self.after, *self.before)
        found = frozenset(pinned for steps in chains for pinned in reads(steps))
        return found | (self.below(0) if self.earlier else frozenset())

    def below(self, version: int) -> Pinned:
        """What one of its versions reads, as (source, version)."""
        epoch = "this" if version == self.source.version else "previous"
        return frozenset((s.source, s.at(epoch)) for s in self.versions)

    def to_dict(self) -> dict[str, Any]:
        """The plan of the source as plain values."""
        return {
            "source": self.source.source,
            "changed": self.source.changed,
            "key": list(self.key),
            "full_query": self.full_query.to_dict() if self.full_query else self.text,
            "paths": plain(self.paths),
            "after": plain(self.after),
            "before": plain(self.before),
            **({"crossing": True} if self.earlier or self.earlier_text else {}),
        }


def describe(graph: JoinGraph | None, keys: Keys, types: Types) -> Described:
    """Keys, types and exactness of the derived sources beside those of the tables."""
    tables, inexact = types, set[tuple[str, str]]()
    keys, types = dict(keys), dict(types)
    for derived in graph.all_derived if graph else ():
        name = derived.name
        apart = told_apart(derived.graph, types)
        for output, (kind, order) in derived_outputs(derived, tables).items():
            unknown = f"{UNKNOWN}{name}.{output}"
            types[name, output] = kind or unknown + (", perhaps double" if output in apart else "")
            if order:
                inexact.add((name, output))
        key = row_key(derived.graph, keys, types)
        if derived.at_most_one_row:
            keys[name] = ()
        elif key and set(key) <= set(derived.graph.output_names):
            keys[name] = key
    return Described(keys, types, frozenset(inexact))


def plan_derived(
    graph: JoinGraph | None,
    knowledge: Knowledge,
    strategy: Strategy = COST,
    choice: Choice | None = None,
) -> tuple[tuple[DerivedPlan, ...], Knowledge]:
    """The plans of all derived sources, each after those that it reads; what is known with them."""
    plans: list[DerivedPlan] = []
    if graph is None:
        return (), knowledge
    for derived in graph.all_derived:
        name, known = derived.name, knowledge.described
        source = SourceVersion(
            source=name,
            location="",
            table_id="",
            version=1,
            previous=1,
            columns=tuple((c, known.types[name, c]) for c in graph.used_columns(name)),
            rows=derived.rows,
            change_rows=0,
            method="derived",
        )
        if derived.text:
            plan = _of_text(derived, source, knowledge.moment)
        else:
            plan = _plan(derived, source, knowledge, strategy, choice)
        plan = replace(plan, key=known.keys.get(name, ()))
        plans.append(plan)
        knowledge = _with(knowledge, plan)
    return tuple(plans), knowledge


def _of_text(derived: Derived, source: SourceVersion, moment: Moment | None) -> DerivedPlan:
    """The plan of a source that reads no table: it changes with the clock, by a few rows."""
    if not derived.clocked or moment is None:
        return DerivedPlan(source, derived.graph, (), text=derived.text)
    earlier = ""
    if moment.before is not None and moment.moved:
        earlier = text_at(derived.text, moment.before)
        source = replace(source, previous=0, change_rows=1)
    now = text_at(derived.text, moment.now)
    return DerivedPlan(source, derived.graph, (), text=now, earlier_text=earlier)


def _plan(
    derived: Derived,
    source: SourceVersion,
    knowledge: Knowledge,
    strategy: Strategy,
    choice: Choice | None,
) -> DerivedPlan:
    """How the derived `source` is read and how its change is found."""
    graph, versions, types = derived.graph, knowledge.versions, knowledge.described.types
    moment = knowledge.moment if derived.clocked else None
    if moment is not None:
        graph = at_moment(graph, moment.now)
    runs = knowledge.within.get(derived.name, ())
    statistics, pins = replace(knowledge.statistics, measured=measured_steps(runs)), Pins.of(runs)
    routes = routes_of(graph, statistics, versions, strategy, pins)
    aggregated = merged_columns(graph, group_state(graph, types))
    choice = replace(choice or Choice(), aggregated=aggregated)
    full = plan_full_query(graph, statistics, types, choice)
    below = tuple(versions[name] for name in sorted({r.source for r in graph.relations}))
    rows = _rows(graph, statistics, sum(branch.plan.rows for branch in full.arms))
    earlier = None
    if moment is not None and moment.before is not None and moment.moved:
        before = at_moment(derived.graph, moment.before)
        earlier = (before, plan_full_query(before, statistics, types, choice))
    # What changed may stand only in branches that can't have rows.
    changed = bool(routes.paths) or earlier is not None
    previous = None if any(s.previous is None for s in below) else int(not changed)
    change_rows = min(rows, sum(s.estimated_change for s in below if s.changed))
    return DerivedPlan(
        source=replace(source, rows=rows, previous=previous, change_rows=change_rows),
        graph=graph,
        versions=below,
        full_query=full,
        paths=routes.paths,
        after=regroup(graph, statistics, routes.order, versions) if changed else (),
        before=regroup(graph, statistics, routes.order, versions, before=True) if changed else (),
        untraced=routes.untraced,
        replanned=f"{derived.name}, {routes.note}" if routes.note else "",
        earlier=earlier,
    )


def _rows(graph: JoinGraph, statistics: Statistics, rows: float) -> int:
    """About how many rows there are; of groups the product of the keys' distinct values, or the
    power of 3/4."""
    most = max(1.0, min(rows, 1e18))
    if graph.grouping is None:
        return int(most)
    if not graph.grouping.keys:
        return 1
    found = {key: p.column for key, p in graph.part_entries(graph.branches[0])}
    columns = [found.get(key) for key in graph.grouping.keys]
    if not columns or any(column is None for column in columns):
        return int(most**0.75)
    sources = [(graph.by_name[c[0]].source, c[1]) for c in columns if c]
    distinct = prod(statistics.distinct(*source).value for source in sources)
    return int(min(most, max(1.0, distinct)))


def _with(knowledge: Knowledge, plan: DerivedPlan) -> Knowledge:
    name, statistics = plan.source.source, knowledge.statistics
    return replace(
        knowledge,
        statistics=replace(
            statistics,
            rows={**statistics.rows, name: plan.source.rows},
            types={**statistics.types, **{(name, c): kind for c, kind in plan.source.columns}},
            keys={**statistics.keys, **({name: plan.key} if plan.key else {})},
        ),
        versions={**knowledge.versions, name: plan.source},
    )


def order_dependent(graph: JoinGraph | None, described: Described, kind: str) -> Refusal | None:
    """What stands against keeping the query: a figure that the order of rows may change, and that
    decides which rows there are.

    Args:
        kind: the target's; a bag finds its rows by all their columns.
    """
    for part in graph.parts if graph and described.inexact else ():
        source = {relation.name: relation.source for relation in part.occurrences}
        for what, ref in _deciding(part, bag=kind == "bag" and part is graph):
            if (source[ref[0]], ref[1]) in described.inexact:
                message = f"{what} on {ref[0]}.{ref[1]}, whose value may depend on row order,"
                return Refusal(
                    "ORDER_DEPENDENT",
                    f"{message} is not kept incrementally",
                    f"{ref[0]}.{ref[1]}",
                    "Aggregate integers or decimals (cast first), or declare keys for the target.",
                )
    return None


def _deciding(graph: JoinGraph, *, bag: bool) -> Iterator[tuple[str, ColumnRef]]:
    """Columns that decide which rows there are: of predicates, group keys, all of a bag."""
    for core in graph.branches:
        yield from (("a condition", ref) for p in core.all_predicates() for ref in p.refs)
    keys = graph.grouping.keys if graph.grouping else ()
    above = graph.generation or graph.windowing
    for projection in (p for core in graph.branches for p in graph.outputs(core)):
        if projection.name in keys:
            yield from (("a group key", ref) for ref in projection.refs)
        elif above is not None:
            yield from (("a window or generator", ref) for ref in projection.refs)
        elif bag and graph.grouping is None:
            yield from (("a target without key", ref) for ref in projection.refs)
