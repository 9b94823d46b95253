"""The lookup paths of a run.

    d(A x B x C) = d(A) x B* x C*  +  d(B) x A x C*  +  d(C) x A x B

One path per changed occurrence. A path reads an occurrence at the previous epoch if it stands
before the driver in the epoch order (`epoch_order`), at this epoch if after. Every permutation is
exact, and so is every order of lookups. An unchanged table has one version and no path.

By cost, each driver's path is ordered for itself, and against that stands what can be shared: all
paths first bind the changed relations, then take the rest together. The cheaper of both is taken,
unless the paths of the last like epoch still hold (`pinning`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from deltajoin.delta.epoch_order import epoch_order
from deltajoin.delta.path import LookupPath, LookupStep, SourceVersion, reads
from deltajoin.delta.pinning import Pins
from deltajoin.delta.references import expected_empty
from deltajoin.delta.sharing import lookups_executed, with_sharing
from deltajoin.graph import JoinGraph
from deltajoin.planner.cardinality import (
    Statistics,
    fan_out,
    kept_share_of,
    key_is_bound,
    written_order,
)
from deltajoin.planner.kept import holds, replanned
from deltajoin.planner.lookup import lookup_pricing
from deltajoin.planner.search import JoinOrder, Search
from deltajoin.planner.solver import COST, Strategy, edges_of, solve_path
from deltajoin.planner.steps import Steps

__all__ = [
    "LookupPath",
    "LookupStep",
    "SourceVersion",
    "epoch_order",
    "lookup_paths",
    "reads",
]

#: Ways to share that are weighed against separate orders.
_CORES = 2


def lookup_paths(
    graph: JoinGraph,
    statistics: Statistics,
    order: tuple[str, ...],
    versions: Mapping[str, SourceVersion],
    strategy: Strategy = COST,
    pins: Pins | None = None,
) -> tuple[LookupPath, ...]:
    """One path per relation whose table changed, in epoch order.

    Args:
        order: the epoch order, of all relations.
        pins: the orders of earlier epochs.
        strategy: by cost, or one of the solver's rules over the relations as written.
    """
    drivers = tuple(n for n in order if versions[graph.by_name[n].source].changed)
    maker = _Maker(graph, statistics, order, versions)
    if strategy != COST:
        written = tuple(relation.name for relation in graph.relations)
        rule = partial(solve_path, edges_of(graph), written, strategy)
        return with_sharing(maker.paths(maker.by_rule(drivers, rule)))
    if not statistics.known(graph):
        return with_sharing(maker.paths(maker.by_rule(drivers, partial(written_order, graph))))
    steps = Steps(graph, statistics)
    pricing = lookup_pricing(steps)
    search = Search(steps, len(drivers), pricing)
    starts = {driver: maker.start_rows(driver) for driver in drivers}
    alone = {d: maker.alone(d, search).order((d,), starts[d]) for d in drivers}
    candidates = [_Candidate(alone, sum(found.cost for found in alone.values()))]
    if len(drivers) > 1:
        candidates += _aligned(search, alone, starts)

    def weighed(candidate: _Candidate) -> tuple[float, tuple[LookupPath, ...]]:
        paths = maker.paths(candidate.orders)
        return candidate.cost + pricing.lookup * lookups_executed(paths), paths

    cost, paths = min((weighed(c) for c in candidates), key=lambda w: float(f"{w[0]:.5g}"))
    pinned = pins.paths(graph, drivers) if pins else None
    if pinned is None:
        return with_sharing(paths)
    along = {d: maker.alone(d, search).along(o, starts[d]) for d, o in pinned.items()}
    old_cost, old = weighed(_Candidate(along, sum(found.cost for found in along.values())))
    if holds(old_cost, cost):
        return with_sharing(old)
    return with_sharing(
        [_noted(path, was, old_cost, cost) for path, was in zip(paths, old, strict=True)]
    )


def _noted(path: LookupPath, was: LookupPath, old: float, new: float) -> LookupPath:
    """The path, with the costs of all paths together where its order is another than it was."""
    same = [s.relation for s in path.steps] == [s.relation for s in was.steps]
    return path if same else replace(path, replanned=replanned(f"Δ{path.driver}", old, new))


@dataclass(frozen=True)
class _Candidate:
    """An order for each driver, and what they cost together."""

    orders: Mapping[str, JoinOrder]
    cost: float


def _aligned(
    search: Search, alone: Mapping[str, JoinOrder], starts: Mapping[str, float]
) -> Iterator[_Candidate]:
    """Orders that first bind the changed relations and what links them, then all go one way."""
    steps, changed = search.steps, frozenset(alone)
    cores = {steps.set_of(_core(found.relations, changed)) for found in alone.values()}
    cores |= {steps.connected(steps.set_of(changed))}
    for within in sorted(cores - {steps.everything}, key=lambda c: (c.bit_count(), c))[:_CORES]:
        core = steps.names_of(within)
        heads = {d: search.order((d,), rows, within) for d, rows in sorted(starts.items())}
        total = sum(head.rows[-1] for head in heads.values())
        tail = search.order(core, total)
        orders = {d: _joined(head, tail, len(core)) for d, head in heads.items()}
        yield _Candidate(orders, sum(h.cost for h in heads.values()) + tail.cost)


def _core(order: tuple[str, ...], changed: frozenset[str]) -> frozenset[str]:
    """The shortest beginning of an order that holds all changed relations."""
    last = max(order.index(name) for name in changed)
    return frozenset(order[: last + 1])


def _joined(head: JoinOrder, tail: JoinOrder, core: int) -> JoinOrder:
    """A path's own beginning, then the common end with this path's part of the rows."""
    part = head.rows[-1] / tail.rows[0]
    rows = (*head.rows, *(rows * part for rows in tail.rows[1:]))
    return JoinOrder(head.relations + tail.relations[core:], rows, head.cost + tail.cost * part)


@dataclass(frozen=True)
class _Maker:
    """Orders -> paths of one run."""

    graph: JoinGraph
    statistics: Statistics
    order: tuple[str, ...]
    versions: Mapping[str, SourceVersion]

    def start_rows(self, driver: str) -> float:
        """Rows of a driver's change that its own filters keep."""
        change = self._version(driver).estimated_change
        return change * kept_share_of(self.graph, self.statistics, driver)

    def alone(self, driver: str, search: Search) -> Search:
        """The search for one driver's path, for which its measured lookups count."""
        known = self.statistics.driven_by(driver)
        if known is self.statistics:
            return search
        steps = Steps(self.graph, known, search.steps)
        return Search(steps, len(self.order), search.pricing)

    def by_rule(
        self, drivers: tuple[str, ...], rule: Callable[[str], tuple[str, ...]]
    ) -> dict[str, JoinOrder]:
        """Orders by a rule, with the rows they should give."""
        found = {}
        for driver in drivers:
            names = rule(driver)
            rows = [self.start_rows(driver)]
            for position, name in enumerate(names[1:], start=1):
                bound = frozenset(names[:position])
                rows.append(rows[-1] * fan_out(self.graph, self.statistics, bound, name))
            found[driver] = JoinOrder(names, tuple(rows), sum(rows[1:]))
        return found

    def paths(self, orders: Mapping[str, JoinOrder]) -> tuple[LookupPath, ...]:
        """The paths of some orders, in epoch order."""
        return tuple(self._path(orders[driver]) for driver in self.order if driver in orders)

    def _version(self, relation: str) -> SourceVersion:
        return self.versions[self.graph.by_name[relation].source]

    def _path(self, order: JoinOrder) -> LookupPath:
        driver = order.relations[0]
        source = self._version(driver)
        steps = tuple(self._step(order, k) for k in range(1, len(order.relations)))
        frozen = frozenset(
            s.relation
            for s in steps
            if s.epoch == "previous" or not self._version(s.relation).changed
        )
        return LookupPath(
            driver=driver,
            source=source.source,
            first_version=(source.previous or 0) + 1,
            last_version=source.version,
            estimated_rows=source.estimated_change,
            steps=steps,
            method=source.method,
            expected_empty=expected_empty(
                self.graph, self.statistics, driver, source.change_kind, frozen
            ),
        )

    def _step(self, order: JoinOrder, position: int) -> LookupStep:
        name, driver = order.relations[position], order.relations[0]
        bound = frozenset(order.relations[:position])
        looked_up = self._version(name)
        before = self.order.index(name) < self.order.index(driver) and looked_up.changed
        epoch = "previous" if before else "this"
        return LookupStep(
            relation=name,
            source=looked_up.source,
            version=looked_up.at(epoch),
            epoch=epoch,
            on=tuple(sorted(p.sql for p in self.graph.decidable(bound, name))),
            unique=key_is_bound(self.graph, self.statistics, bound, name),
            estimated_rows=round(order.rows[position]),
        )
