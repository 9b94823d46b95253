"""The lookup paths of a run: how the change of one occurrence travels to the output.

    d(A x B x C) = d(A) x B* x C*  +  d(B) x A x C*  +  d(C) x A x B

All occurrences change one after the other, in the reverse of the epoch order (`epoch_order`): a
path reads what stands before its driver at the previous epoch and what stands after at this epoch,
at every depth. So each path changes one occurrence only, and the paths add up to the whole change.
Every permutation is exact, and so is every order of lookups (`lookup_order`). An unchanged table
has one version and no path.

A query is a sum of branches: relations joined inner, the core, and then attachments (`graph.Core`).
Inner joins alone are one branch without any.

    change in the core         look the other core relations up, then every attachment
    change in an attachment    distinct join keys of the change -> enter the core by those keys ->
                               look the core up -> join the attachment after the change and, with
                               the opposite sign, before it -> the attachments that follow

Keys are equalities of one relation of the core, without one its other comparisons (<, NOT IN ...);
whatever else of the condition is decided by the change and that relation belongs to a match, also
without keys. Only where nothing is, the core is read whole. Rows that enter may be more than those
that change: both sides of the difference are computed for the same rows. Entering filters by a semi
join, so that two spellings of one key count once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from deltajoin.delta.lookup_order import LookupOrders, Orders
from deltajoin.delta.path import LookupPath, LookupStep, SourceVersion
from deltajoin.delta.pinning import Pins
from deltajoin.delta.references import expected_empty
from deltajoin.delta.sharing import lookups_executed, with_sharing
from deltajoin.delta.state import GroupState
from deltajoin.graph import Attachment, Core, JoinGraph, Predicate
from deltajoin.planner.accelerated import candidates
from deltajoin.planner.cardinality import kept_share_of, key_is_bound, relation_rows
from deltajoin.planner.lookup import LARGE_TABLE_ROWS
from deltajoin.planner.search import JoinOrder
from deltajoin.planner.solver import COST, Strategy
from deltajoin.planner.statistics import Statistics
from deltajoin.sql.dialect import parse_expression as expression
from deltajoin.sql.dialect import text
from deltajoin.sql.keys import TURNED, JoinKey, compared, join_keys
from deltajoin.sql.normalise import simplify

#: The view of the group keys that a net change touches.
TOUCHED = "touched"


def lookup_paths(
    graph: JoinGraph,
    statistics: Statistics,
    order: tuple[str, ...],
    versions: Mapping[str, SourceVersion],
    strategy: Strategy = COST,
    pins: Pins | None = None,
) -> tuple[LookupPath, ...]:
    """One path per branch and occurrence whose table changed, in epoch order.

    Args:
        order: the epoch order, of all relations.
        strategy: by cost, or one of the solver's rules over the relations as written.
        pins: the orders of earlier epochs.
    """
    order = _with_copies(graph, order)
    reached = {name for core in graph.branches for name in core.everything}
    changed = (n for n in order if versions[graph.by_name[n].source].changed)
    drivers = tuple(name for name in changed if name in reached)
    maker = PathMaker(graph, statistics, order, versions, strategy)
    found = (maker.paths(branch, drivers, pins or Pins()) for branch in range(len(graph.branches)))
    return with_sharing([path for paths in found for path in paths])


def _with_copies(graph: JoinGraph, order: tuple[str, ...]) -> tuple[str, ...]:
    """The epoch order of all occurrences: copies follow a relation of their table."""
    last = {graph.by_name[name].source: name for name in order}
    found: list[str] = []
    for name in order:
        found += (name, *(c.name for c in graph.copies if last[c.source] == name))
    return tuple(found)


def regroup(
    graph: JoinGraph,
    statistics: Statistics,
    order: tuple[str, ...],
    versions: Mapping[str, SourceVersion],
    state: GroupState | None = None,
    *,
    before: bool = False,
) -> tuple[tuple[LookupStep, ...], ...]:
    """For each branch, the steps from touched keys to all rows of those groups or partitions; none
    where the state takes the change.

    Everything is read at this epoch, or all as it was `before`. The keys enter by the inner
    relation that holds most of them; without one, everything is read whole.
    """
    parted = graph.grouping or graph.windowing
    if parted is None or (state is not None and state.takes(versions.values())):
        return ()
    maker = PathMaker(graph, statistics, order, versions, before=before)
    found = []
    for core in graph.branches:
        by_entry: dict[str, list[tuple[str, str, str]]] = {}
        for key, p in graph.part_entries(core):
            relations = sorted({relation for relation, _ in p.refs})
            if len(relations) == 1 and relations[0] in core.inner:
                pair = (f"`{TOUCHED}`.`{key}`", p.sql, "<=>")
                by_entry.setdefault(relations[0], []).append(pair)
        found.append(maker.entered(core, by_entry))
    return tuple(found)


@dataclass(frozen=True)
class PathMaker:
    """Makes the paths of a run, or the steps of one driver's; see the module.

    `before`: the driver itself is read as it was before its change; without a driver, everything.
    `last` is what its path led through in the last like epoch.
    """

    graph: JoinGraph
    statistics: Statistics
    order: tuple[str, ...]
    versions: Mapping[str, SourceVersion]
    strategy: Strategy = COST
    driver: str = ""
    last: tuple[str, ...] = ()
    before: bool = False

    def paths(self, branch: int, drivers: tuple[str, ...], pins: Pins) -> list[LookupPath]:
        """The paths of a branch, in epoch order; those of drivers in its core are ordered together.

        Args:
            drivers: all changed occurrences.
        """
        core = self.graph.branches[branch]
        part = self.graph.inner_part(core)
        makers = {
            driver: replace(self, driver=driver, last=pins.path(driver, branch, drivers))
            for driver in drivers
            if driver in core.everything
        }
        inner = {driver: maker for driver, maker in makers.items() if driver in core.inner}
        ends = {
            d: (*maker._attached(core.attachments, maker._change), *_filters(core))
            for d, maker in inner.items()
        }

        def through_core(orders: Orders) -> dict[str, LookupPath]:
            return {
                d: maker._path(branch, (*maker._inner(part, orders[d]), *ends[d]), part)
                for d, maker in inner.items()
            }

        orders, notes = self._orders(part).together(
            {d: m._change * kept_share_of(part, self.statistics, d) for d, m in inner.items()},
            lambda orders: lookups_executed(tuple(through_core(orders).values())),
            {driver: maker.last for driver, maker in inner.items()},
        )
        found = through_core(orders) | {
            driver: maker._path(branch, (*maker._through(core, maker._change), *_filters(core)))
            for driver, maker in makers.items()
            if driver not in inner
        }
        return [replace(found[driver], replanned=notes.get(driver, "")) for driver in makers]

    def entered(
        self, core: Core, by_entry: Mapping[str, list[tuple[str, str, str]]]
    ) -> tuple[LookupStep, ...]:
        """Everything of a core, entered by keys of one relation, or read whole."""
        entry = min(
            by_entry,
            key=lambda n: (-len(by_entry[n]), self._rows(n), n),
            default=min(core.relations),
        )
        first = self._start(core, entry)
        if by_entry:
            first = replace(first, kind="enter", keys=tuple(by_entry[entry]))
        return self._all_from(core, first)

    def _path(
        self, branch: int, steps: tuple[LookupStep, ...], core: JoinGraph | None = None
    ) -> LookupPath:
        """A path by its steps; `core`: the inner joins that the driver takes part in."""
        source, empty = self._version(self.driver), ""
        if core is not None:
            inner = (step for step in steps if step.kind == "inner")
            as_before = frozenset(
                step.relation
                for step in inner
                if step.epoch == "previous" or not self._version(step.relation).changed
            )
            kind = source.change_kind
            empty = expected_empty(core, self.statistics, self.driver, kind, as_before)
        return LookupPath(
            driver=self.driver,
            source=source.source,
            first_version=(source.previous or 0) + 1,
            last_version=source.version,
            estimated_rows=source.estimated_change,
            steps=steps,
            method=source.method,
            branch=branch,
            expected_empty=empty,
        )

    # the change ----------------------------------------------------------------------------------

    def _through(self, core: Core, rows: float) -> list[LookupStep]:
        if self.driver in core.relations:
            return self._complete(core, self.driver, rows)
        number = next(n for n, a in enumerate(core.attachments) if self.driver in a.core.everything)
        attachment = core.attachments[number]
        left = Core(core.relations, core.early, core.attachments[:number])
        keys, restricted = self._keys_into(left, attachment)
        if not keys:
            keys, restricted = self._keys_into(left, attachment, equal=False)
        entry = keys[0].relation if keys else self._matched(left, attachment)
        if entry:
            below = attachment.core.everything
            if keys:
                needed = frozenset(r for key in keys for r in key.other_relations)
            else:
                needed = _relations(_decided(attachment, entry, below)) - {entry}
            at_hand = self.driver in attachment.core.relations and needed <= {self.driver}
            steps = [] if at_hand else self._through(attachment.core, rows)
            match = _decided(attachment, entry, [self.driver] if at_hand else below)
            steps.append(self._enter(restricted, entry, keys, match))
            if not any(key.operator in ("=", "<=>") for key in keys):
                rows = self._rows(entry)
        else:
            entry = min(left.relations)
            steps, rows = [self._start(left, entry)], self._rows(entry)
        after = self._attach(attachment, rows, changed=True)
        before = replace(self, before=True)._attach(attachment, rows, changed=True)
        return [
            *steps,
            *self._complete(restricted, entry, rows),
            *_filters(restricted),
            replace(after, previous=before.inside),
            *self._attached(core.attachments[number + 1 :], rows),
        ]

    # one stream ----------------------------------------------------------------------------------

    def _complete(self, core: Core, start: str, rows: float) -> list[LookupStep]:
        """Everything of a core that is not yet in a stream which holds `start`."""
        steps: list[LookupStep] = []
        if len(core.relations) > 1:
            part = self.graph.inner_part(core)
            steps = self._inner(part, self._orders(part).alone(start, max(1.0, rows), self.last))
        return [*steps, *self._attached(core.attachments, max(rows, self._change))]

    def _orders(self, part: JoinGraph) -> LookupOrders:
        as_written = self.strategy == COST and not self.statistics.known(self.graph)
        return LookupOrders(part, self.statistics, None if as_written else self.strategy)

    def _inner(self, part: JoinGraph, order: JoinOrder) -> list[LookupStep]:
        """The lookups of relations joined inner, by their order."""
        steps = []
        for position, name in enumerate(order.relations[1:], start=1):
            bound = frozenset(order.relations[:position])
            on = _as_written(part.decidable(bound, name))
            unique = key_is_bound(part, self.statistics, bound, name)
            step = self._step(name, "inner", on, round(order.rows[position]), unique)
            steps.append(self._accelerated(step, max(1.0, order.rows[position - 1])))
        return steps

    def _attached(self, attachments: Iterable[Attachment], rows: float) -> list[LookupStep]:
        return [self._attach(attachment, rows) for attachment in attachments]

    def _attach(self, attachment: Attachment, rows: float, *, changed: bool = False) -> LookupStep:
        """A left, semi or anti join of the stream, about so many rows, with an attachment."""
        core = attachment.core
        on = _as_written(attachment.on)
        label = ", ".join(core.everything)
        first = core.relations[0]
        alone = len(core.everything) == 1
        keys, entered = self._keys_into(core, attachment)
        source = self._source(first)
        # Large are also groups that are yet to be made.
        large = any(source == below.name for below in self.graph.derived)
        large = large or self.statistics.table_rows(source) >= LARGE_TABLE_ROWS
        if alone and not changed and not (large and keys):
            on = _as_written((*core.predicates, *attachment.on))
            return self._accelerated(self._step(first, attachment.kind, on, 0), rows)
        if keys and (large or not alone):
            inside = self._all_from(entered, self._enter(entered, keys[0].relation, keys))
        else:
            inside = self._all_from(core, self._start(core, min(core.relations)))
        step = self._step(keys[0].relation if keys else first, attachment.kind, on, 0)
        step = self._accelerated(step, rows, core.everything)
        return replace(step, relation=label, inside=inside)

    def _all_from(self, core: Core, first: LookupStep) -> tuple[LookupStep, ...]:
        """Everything of a core for one row, from the step that begins."""
        return (first, *self._complete(core, first.relation, 1.0), *_filters(core))

    def _keys_into(
        self, core: Core, attachment: Attachment, *, equal: bool = True
    ) -> tuple[list[JoinKey], Core]:
        """How keys enter one side of a join, and that side under them; no keys if they can't.

        `core` is the attachment's own, or what it is attached to. The relation with most keys is
        entered, then the smallest.
        """
        here = frozenset(core.everything)
        others = frozenset(r.name for r in self.graph.occurrences) - here
        found: list[tuple[tuple[int, float, str], list[JoinKey], Core]] = []
        for entry in core.everything:
            keys = [k for p in attachment.on for k in join_keys(p, entry, others, equal=equal)]
            entered = simplify(core, [k.predicate for k in keys])
            if keys and entry in entered.relations and entered.is_connected:
                rank = (-len(keys), self._rows(entry), entry)
                if equal:  # of rows with those keys, the ones within the ranges of the change
                    by = frozenset(name for key in keys for name in key.other_relations)
                    more = (k for p in attachment.on for k in join_keys(p, entry, by, equal=False))
                    keys += [key for key in more if key.operator in TURNED]
                found.append((rank, keys, entered))
        _, keys, entered = min(found, key=lambda each: each[0], default=((), [], core))
        return keys, entered

    def _matched(self, core: Core, attachment: Attachment) -> str:
        """The relation joined inner whose rows a condition, but no key, finds; empty if none."""
        below = attachment.core.everything
        names = [n for n in core.relations if _relations(_decided(attachment, n, below)) - {n}]
        return min(names, key=lambda name: (self._rows(name), name), default="")

    def _enter(
        self, core: Core, entry: str, keys: list[JoinKey], match: Iterable[Predicate] = ()
    ) -> LookupStep:
        pairs = tuple((key.other, key.mine, key.operator) for key in keys)
        of_keys = {key.predicate for key in keys}
        more = _as_written(p for p in match if p not in of_keys)
        step = replace(self._start(core, entry), kind="enter", keys=pairs, match=more)
        right = frozenset(name for key in keys for name in key.other_relations)
        right |= _relations(match) - {entry}
        rows = self.statistics.table_rows(step.source), self._change
        on = [compared(expression(mine), how, expression(other)) for other, mine, how in pairs]
        written = [*map(text, on), *more]
        served = candidates(self.graph, self.statistics, written, right, "semi", rows)
        return replace(step, accelerated=served)

    def _start(self, core: Core, name: str) -> LookupStep:
        filters = _as_written(p for p in core.predicates if p.relations <= {name})
        return self._step(name, "scan", filters, 0)

    def _accelerated(
        self, step: LookupStep, rows: float, right: tuple[str, ...] = ()
    ) -> LookupStep:
        """The lookup of a relation, or of several joined, by about so many rows of a stream."""
        both, names = (rows, self.statistics.table_rows(step.source)), right or [step.relation]
        served = candidates(self.graph, self.statistics, step.on, names, step.kind, both)
        return replace(step, accelerated=served)

    def _step(
        self, name: str, kind: str, on: tuple[str, ...], rows: int, unique: bool = False
    ) -> LookupStep:
        source = self._version(name)
        if name == self.driver or not self.driver:
            before = self.before
        else:
            before = self.order.index(name) < self.order.index(self.driver)
        epoch = "previous" if before and source.changed else "this"
        version = source.at(epoch)
        return LookupStep(name, source.source, version, epoch, on, unique, rows, kind)

    def _rows(self, name: str) -> float:
        """Rows of a relation under its own filters, where they are those of the whole query."""
        if self.graph.has_union or name not in {r.name for r in self.graph.relations}:
            return self.statistics.table_rows(self._source(name))
        return relation_rows(self.graph, self.statistics, name)

    def _source(self, name: str) -> str:
        return self.graph.by_name[name].source

    def _version(self, name: str) -> SourceVersion:
        return self.versions[self._source(name)]

    @property
    def _change(self) -> float:
        """Rows of the driver's change; one without a driver."""
        return float(self._version(self.driver).estimated_change) if self.driver else 1.0


def _filters(core: Core) -> list[LookupStep]:
    """A last step for what waits for the attachments; none for a core without."""
    on = _as_written(core.late)
    return [LookupStep("", "", 0, "this", on, False, 0, kind="filter")] if on else []


def _decided(attachment: Attachment, entry: str, others: Collection[str]) -> list[Predicate]:
    """The parts of an attachment's condition over columns of `entry`, and of `others` at most."""
    there = {entry, *others}
    return [p for p in attachment.on if entry in _relations([p]) <= there]


def _relations(predicates: Iterable[Predicate]) -> frozenset[str]:
    """The relations of which they read columns."""
    return frozenset(relation for p in predicates for relation, _ in p.refs)


def _as_written(predicates: Iterable[Predicate]) -> tuple[str, ...]:
    """Conjuncts once each, equalities of columns first, the others as they are written: one may
    guard those behind it, as in `a.v <> 0 AND b.v / a.v > 1`."""
    found = sorted(predicates, key=lambda p: p.kind != "edge")
    return tuple(dict.fromkeys(p.sql for p in found))


def own_filters(core: Core, relation: str) -> tuple[Predicate, ...]:
    """Predicates that touch one relation alone, wherever in the core it is joined inner; and those
    that touch none."""
    if relation in core.relations:
        found = (p for p in core.predicates if p.relations <= {relation})
        return tuple(sorted(found, key=lambda p: not p.relations))
    below = (a.core for a in core.attachments if relation in a.core.everything)
    return own_filters(next(below), relation)
