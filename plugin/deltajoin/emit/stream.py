"""The steps of a path -> one SELECT each, from one travelling stream to the next.

    change     the driver's weighted rows, filtered
    inner      the stream JOIN a relation
    left ...   the stream LEFT (SEMI, ANTI) JOIN a relation, or what further steps make of several
    flip       the stream twice, with weight +1 and -1, joined after and before the change
    enter      a relation LEFT SEMI JOIN distinct values of the stream: a new stream of weight 1
    scan       a whole relation: a new stream of weight 1
    filter     the stream WHERE conditions hold

The stream's columns are named `relation.column` and sorted; only those that a later step or the
output needs travel on. So streams with the same steps ahead have the same columns.
Caller: `emit.paths`, one `StepEmitter` for each run of steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf

from sqlglot import exp

from deltajoin.accelerate.protocol import Running
from deltajoin.delta.lookup_paths import TOUCHED, own_filters
from deltajoin.delta.path import LookupPath, LookupStep
from deltajoin.delta.state import GroupState
from deltajoin.emit.ast import (
    aliased,
    broadcast,
    column,
    expression,
    joined,
    moved,
    named,
    number,
    pretty,
    refs_in,
    star,
    table,
    union_all,
)
from deltajoin.emit.candidates import Side, candidates_of
from deltajoin.emit.kept_groups import change_of, changed_states, merged, merging, states
from deltajoin.emit.narrowing import (
    Within,
    asked,
    bounded,
    carried_on,
    equal_columns,
    equalities,
    handed_on,
    of_all,
)
from deltajoin.emit.running import compared_values, known_states, parted, up_to_each
from deltajoin.emit.views import Views
from deltajoin.graph import ColumnRef, JoinGraph, Projection
from deltajoin.layers import INPUT
from deltajoin.names import PATH, WEIGHT, UniqueNames
from deltajoin.sql.dialect import parse
from deltajoin.sql.keys import TURNED, compared
from deltajoin.sql.kinds import kind_of

#: Where each column is found: in the stream, or in what is joined to it.
Columns = Mapping[ColumnRef, exp.Expr]
Refs = frozenset[ColumnRef]
_SIGN = "__deltajoin_sign"
#: The alias of what a stream asks a derived source for.
_KEYS = "__deltajoin_keys"
_JOIN = {"inner": "", "left": "left", "semi": "semi", "anti": "anti", "enter": "semi"}


@dataclass(frozen=True)
class Statement:
    """One SELECT and the view that its result is read through.

    `relation` is the one looked up, None where none is: the change itself, the output rows.
    `measured`: one row, which is computed once and then read as literals. `kept`: computed once,
    whoever reads it. `candidates`: rows among which those of the lookup are yet to be found.
    """

    view: str
    sql: str
    relation: str | None = None
    measured: bool = False
    kept: bool = False
    candidates: bool = False


@dataclass(frozen=True)
class Stream:
    """A view of travelling rows: its columns, the relations bound, about how many rows, what bounds
    the columns' values. `hidden` are the weight and, where the rows of several paths are counted
    apart, the path's number. `of` is the stream that it was before a step that takes no row away.
    """

    view: str
    refs: Refs
    bound: frozenset[str]
    rows: float
    within: Within
    hidden: tuple[str, ...] = (WEIGHT,)
    of: Stream | None = None


class StepEmitter:
    """Emits steps of one branch as the views `<prefix>_<n>`, in `statements`. Where they broadcast
    the stream, it may be `spare` times as large as expected.

    Args:
        number: the path's, for rows that are marked with it.
        state: of groups, if paths end with what they add to it in place of rows.
    """

    def __init__(
        self,
        graph: JoinGraph,
        branch: int,
        views: Views,
        prefix: str,
        number: int = 0,
        state: GroupState | None = None,
    ) -> None:
        self._state = state
        self._graph, self._views, self._prefix, self._number = graph, views, prefix, number
        self._core = graph.branches[branch]
        self._outputs = graph.outputs(self._core)
        self._end = frozenset(ref for p in self._outputs for ref in p.refs)
        names = UniqueNames()
        self._names: dict[ColumnRef, str] = {
            (relation.name, name): names.take(f"{relation.name}.{name}")
            for relation in sorted(graph.occurrences, key=lambda r: r.name)
            for name in relation.columns
        }
        self.statements: list[Statement] = []
        self.spare = inf
        self._streams = 0

    # where a stream begins -----------------------------------------------------------------------

    def change(self, path: LookupPath, *, marked: bool) -> Stream:
        """The driver's change, under the predicates that its rows alone decide."""
        driver, view = path.driver, self._views.changes(path.source)
        within = {ref: frozenset({(view, ref[1])}) for ref in self._own(driver)}
        hidden = (WEIGHT, PATH) if marked else (WEIGHT,)
        rows = float(path.estimated_rows)
        stream = Stream("", frozenset(within), frozenset({driver}), rows, within, hidden)
        filters = [p.sql for p in own_filters(self._core, driver)]
        needed, weight = self._needed(path.steps, self._end), column(WEIGHT, driver)
        select = self._rows_of(driver, view, weight, filters, stream, needed)
        return self._emit(select, None, replace(stream, refs=stream.refs & needed))

    def touched(self, rows: float) -> Stream:
        """About so many keys of touched groups or partitions."""
        keys, view = self._graph.part_keys, self._views.part.touched
        self._names |= {(TOUCHED, key): key for key in keys}
        within = {(TOUCHED, key): frozenset({(view, key)}) for key in keys}
        return Stream(view, frozenset(within), frozenset(), rows, within)

    def united(self, streams: Sequence[Stream]) -> Stream:
        """All rows of streams that have the same steps ahead."""
        if len({(stream.refs, stream.hidden) for stream in streams}) > 1:
            raise AssertionError("streams that are united must have the same columns")
        rows, within = sum(s.rows for s in streams), of_all(s.within for s in streams)
        return replace(streams[0], view=self._view(), rows=rows, within=within, of=None)

    # along the steps -----------------------------------------------------------------------------

    def follow(
        self, steps: Sequence[LookupStep], stream: Stream, left: int = 0, *, nested: bool = False
    ) -> Stream:
        """The stream after the steps, but for the last `left` of them; after all, output rows.

        Args:
            nested: these are no path's steps: see `_chain`.
        """
        last = steps[-1].accelerated if steps and not left else None
        if last is not None and last.running is not None:
            stream = self._chain(steps, stream, self._end, 1)
            return self._ended(self._up_to_each(steps[-1], last.running, stream), stream)
        stream = self._chain(steps, stream, self._end, left, nested=nested)
        if left:
            return stream
        nulls = self._views.nulls(self._graph, self._core.nulls)
        found = {**self._found(stream, "stream"), **nulls}
        outputs = [named(expression(p.sql, found), p.name) for p in self._outputs]
        select = exp.select(*outputs, column(WEIGHT, "stream")).from_(table(stream.view, "stream"))
        if self._state is not None and self._graph.grouping is not None:
            select = change_of(self._graph.grouping, self._state, select)
        return self._ended(select, stream)

    def _ended(self, select: exp.Select, stream: Stream) -> Stream:
        self.statements.append(Statement(f"{self._prefix}_rows", pretty(select)))
        return replace(stream, view=f"{self._prefix}_rows")

    def _up_to_each(self, step: LookupStep, order: Running, stream: Stream) -> exp.Select:
        """What the stream's last lookup adds to each group's state, by running aggregates."""
        grouping, state = self._graph.grouping, self._state
        assert grouping is not None and state is not None  # noqa: S101, PT018 - of such paths
        looked_up_is_right = step.relation in {relation for relation, _ in refs_in(order.right)}
        right = {step.relation} if looked_up_is_right else stream.bound
        kept, given = parted(self._outputs, right)

        def side(outputs: Sequence[Projection], of_right: bool) -> exp.Select:
            """The rows of a side, with the weight that those of the stream have."""
            is_looked_up = of_right == looked_up_is_right
            alias = "stream_" if step.relation.lower() == "stream" else "stream"
            names = {step.relation} if is_looked_up else stream.bound
            found = self._own(step.relation) if is_looked_up else self._found(stream, alias)
            values = [(p.name, p.sql) for p in outputs]
            values += compared_values(order, step.on, names, of_right)
            select = exp.select(*(named(expression(sql, found), name) for name, sql in values))
            if is_looked_up:
                return select.from_(self._relation(step, stream, alias))
            return select.select(column(WEIGHT, alias)).from_(table(stream.view, alias))

        shown, weight = [p.name for p in kept], column(WEIGHT, INPUT)
        if looked_up_is_right:
            known = known_states(order, side(given, True), states(state))
            carried = [*shown, WEIGHT]
            rows = up_to_each(order, known, side(kept, False), carried, merging(state))
            return merged(grouping, state, rows, weight)
        known = known_states(order, side(given, True), changed_states(state, weight))
        functions = merging(state, of_changes=True)
        rows = up_to_each(order, known, side(kept, False), shown, functions)
        return merged(grouping, state, rows, of_changes=True)

    def _chain(
        self,
        steps: Sequence[LookupStep],
        stream: Stream,
        end: Refs,
        left: int = 0,
        *,
        nested: bool = False,
    ) -> Stream:
        """Rows of `nested` steps are not counted, and are estimated for one row that enters."""
        for at, step in enumerate(steps[: len(steps) - left], start=1):
            needed = self._needed(steps[at:], end)
            if step.kind == "inner" and step.accelerated is not None and not nested:
                wanted = needed | _refs(step.on)
                select, after = self._joined(step, stream, wanted, candidates=True)
                after = self._emit(select, step.relation, after, candidates=True)
                select, after = self._taken(replace(step, kind="filter"), after, needed)
            else:
                select, after = self._taken(step, stream, needed)
            if step.kind == "inner":
                rows = stream.rows * max(1, step.estimated_rows) if nested else step.estimated_rows
                after = replace(after, rows=float(rows))
            stream = self._emit(select, None if nested else step.relation, after)
        return stream

    def _taken(self, step: LookupStep, stream: Stream, needed: Refs) -> tuple[exp.Select, Stream]:
        if step.kind in ("enter", "scan"):
            return self._restarted(step, stream, needed)
        if step.kind == "filter":
            found = self._found(stream, "stream")
            select = self._select(found, needed, self._hidden(stream, "stream"))
            select = select.from_(table(stream.view, "stream"))
            select = select.where(*(expression(sql, found) for sql in step.on))
            return select, replace(stream, refs=stream.refs & needed, of=None)
        return self._joined(step, stream, needed)

    # a new stream --------------------------------------------------------------------------------

    def _restarted(
        self, step: LookupStep, stream: Stream, needed: Refs
    ) -> tuple[exp.Select, Stream]:
        """Rows of a relation: those that have keys of the stream, or all."""
        relation, pairs = step.relation, _key_columns(step, stream.within)
        ranges = (f"({mine}) {how} ({other})" for other, mine, how in step.keys if how in TURNED)
        keys = asked(pairs, stream.within) + bounded(ranges, relation, stream.within)
        view = self._views.looked_up(step.source, step.version, keys)
        one = named(number(1), WEIGHT)
        select = self._rows_of(relation, view, one, step.on, stream, needed)
        rows = self._views.rows(step.source)
        if step.kind == "enter":
            select, rows = self._entered(select, step, stream), stream.rows
        within = handed_on(stream.within, pairs, relation, self._type)
        refs, bound = needed.intersection(self._own(relation)), frozenset({relation})
        return select, replace(stream, refs=refs, bound=bound, rows=rows, within=within, of=None)

    def _entered(self, select: exp.Select, step: LookupStep, stream: Stream) -> exp.Select:
        alias = "keys" if step.relation.lower() != "keys" else "keys_"
        sent = {name for name, _ in _asking(step)}
        if step.accelerated is not None or step.match:
            select = self._entered_by_match(select, step, stream, alias)
        else:
            on = [
                compared(expression(mine), operator, column(f"k{i}", alias))
                for i, (_, mine, operator) in enumerate(step.keys)
            ]
            others = (expression(other) for other, _, _ in step.keys)
            keys = self._distinct(others, stream, "stream")
            select = joined(select, "semi", aliased(keys, alias), on)
        return broadcast(select, alias) if self._sends(sent, stream, step) else select

    def _entered_by_match(
        self, select: exp.Select, step: LookupStep, stream: Stream, alias: str
    ) -> exp.Select:
        """A relation's rows that match values of the stream, as an accelerator finds them if any
        does."""
        refs = sorted(_asking(step))
        keys = self._distinct((column(name, of) for of, name in refs), stream, "stream")
        columns = {ref: column(f"k{i}", alias) for i, ref in enumerate(refs)}

        read = partial(expression, rename=columns)
        right = aliased(keys, alias)
        on = [compared(expression(mine), how, read(other)) for other, mine, how in step.keys]
        on += map(read, step.match)
        if step.accelerated is None:
            return joined(select, "semi", right, on)
        left = Side(select.args["from_"].this, step.relation, read, small=False)
        return self._by_candidates(select, step, left, Side(right, alias, read), on)

    def _rows_of(
        self,
        relation: str,
        view: str,
        weight: exp.Expr,
        filters: Sequence[str],
        stream: Stream,
        needed: Refs,
    ) -> exp.Select:
        """A relation's rows where a stream begins, marked as the stream is."""
        mark = [named(number(self._number), PATH)] if PATH in stream.hidden else []
        select = self._select(self._own(relation), needed, [weight, *mark])
        select = select.from_(table(view, relation), copy=False)
        return select.where(*map(expression, filters)) if filters else select

    # joins with the stream -----------------------------------------------------------------------

    def _joined(
        self, step: LookupStep, stream: Stream, needed: Refs, *, candidates: bool = False
    ) -> tuple[exp.Select, Stream]:
        """The stream joined with a relation, or with what further steps make of several; with all
        `candidates` of a lookup, or those alone that its conditions hold for."""
        alone = not step.inside and step.relation.lower() == "stream"
        alias = "stream_" if alone else "stream"
        left: exp.Expr = table(stream.view, alias)
        hidden = self._hidden(stream, alias)
        found = self._found(stream, alias)
        if step.inside:
            side = self._side(step, step.inside, stream, needed)
            right: exp.Expr = table(side.view, "side")
            added, bound = self._found(side, "side"), side.bound
        else:
            right = self._relation(step, stream, alias)
            added, bound = self._own(step.relation), frozenset({step.relation})
        on = [expression(sql, found | added) for sql in step.on]
        if step.previous:
            left, right, sign = self._flipped(step, stream, side, needed)
            on.append(column(_SIGN, "side").eq(sign))
            hidden[0] = named(hidden[0] * sign, WEIGHT)
        of = stream if step.kind == "left" else None
        after = replace(stream, refs=stream.refs & needed, of=of)
        if step.kind in ("inner", "left"):
            found |= added
            after = replace(after, refs=needed.intersection(found), bound=stream.bound | bound)
        select = self._select(found, needed, hidden).from_(left, copy=False)
        if step.accelerated is None:
            select = joined(select, _JOIN[step.kind], right, on)
        else:
            there = "side" if step.inside else step.relation
            read = partial(expression, rename=found | added)
            sides = Side(left, alias, read), Side(right, there, read, small=False)
            select = self._by_candidates(select, step, *sides, on, candidates=candidates)
        if step.kind != "inner":
            return select, after
        if self._sends(stream.bound, stream, step):
            select = broadcast(select, alias)
        within = carried_on(stream.within, step.on, step.relation, self._type)
        return select, replace(after, within=within)

    def _by_candidates(
        self,
        select: exp.Select,
        step: LookupStep,
        left: Side,
        right: Side,
        on: list[exp.Expr],
        *,
        candidates: bool = False,
    ) -> exp.Select:
        """The left rows joined with those that an accelerator finds."""
        assert step.accelerated is not None  # noqa: S101 - of such steps
        found = candidates_of(step.accelerated, left, right, on, self._define)
        for each in found.before:
            select = joined(select, "cross", each)
        return joined(
            select, _JOIN[step.kind], found.right, found.equal if candidates else found.on
        )

    def _define(self, sql: str) -> str:
        """A query of one row that others read, as a view."""
        name = self._views.beside(f"{self._prefix}_lines")
        self.statements.append(Statement(name, pretty(parse(sql)), measured=True))
        return name

    def _relation(self, step: LookupStep, stream: Stream, alias: str) -> exp.Expr:
        """A relation as it is looked up: within what bounds the stream's columns. Of a derived
        source only the groups that the stream asks for: an engine takes the semi join below the
        making of groups."""
        keys = asked(equal_columns(step.on, step.relation), stream.within)
        keys += bounded(step.on, step.relation, stream.within)
        rows = table(self._views.looked_up(step.source, step.version, keys), step.relation)
        pairs = equalities(step.on, step.relation)
        if not self._views.is_derived(step.source) or not pairs:
            return rows
        on: list[exp.Expr] = [
            column(mine, step.relation).eq(column(f"k{i}", _KEYS))
            for i, (mine, _) in enumerate(pairs)
        ]
        keys_asked = self._distinct((other for _, other in pairs), stream, alias)
        select = exp.select(star(step.relation)).from_(rows)
        return aliased(joined(select, "semi", aliased(keys_asked, _KEYS), on), step.relation)

    def _side(
        self, step: LookupStep, inside: Sequence[LookupStep], stream: Stream, needed: Refs
    ) -> Stream:
        """What the steps inside make of the stream's keys: rows of no path, so not marked."""
        wanted = _refs(step.on) | (needed if step.kind == "left" else frozenset())
        unmarked = replace(stream, hidden=(WEIGHT,))
        return self._chain(inside, unmarked, wanted - stream.refs, nested=True)

    def _flipped(
        self, step: LookupStep, stream: Stream, after: Stream, needed: Refs
    ) -> tuple[exp.Expr, exp.Expr, exp.Expr]:
        """The stream with either sign; the side after the change with +1, before it with -1."""
        before = self._side(step, step.previous, stream, needed)
        signs = union_all(*(exp.select(named(number(sign), _SIGN)) for sign in (1, -1)))
        twice = self._select(self._found(stream, "s"), stream.refs, self._hidden(stream, "s"))
        twice = twice.select(column(_SIGN, "signs")).from_(table(stream.view, "s"))
        twice = joined(twice, "cross", aliased(signs, "signs"))
        names = [self._names[ref] for ref in sorted(after.refs)]
        sides = [
            exp.select(*map(column, names), named(number(sign), _SIGN)).from_(table(side.view))
            for side, sign in ((after, 1), (before, -1))
        ]
        both = aliased(twice, "stream"), aliased(union_all(*sides), "side")
        return *both, column(_SIGN, "stream")

    # columns -------------------------------------------------------------------------------------

    def _needed(self, steps: Sequence[LookupStep], end: Refs) -> Refs:
        """Columns that steps to come read from the stream, and those of its end."""
        found: Refs = frozenset()
        for step in steps:
            if step.kind in ("enter", "scan"):
                return found | _asking(step)
            found |= _refs(step.on)
            for chain in (step.inside, step.previous):
                found = found.union(*map(_asking, chain[:1]))
        return found | end

    def _own(self, relation: str) -> dict[ColumnRef, exp.Expr]:
        names = self._graph.by_name[relation].columns
        return {(relation, name): column(name, relation) for name in names}

    def _type(self, ref: ColumnRef) -> str:
        """The type of a column of the stream; of a touched key, where all branches agree."""
        relation, name = ref
        if relation != TOUCHED:
            return self._views.type_of(self._graph.by_name[relation].source, name)
        branches = (dict(self._graph.part_entries(core)) for core in self._graph.branches)
        made = {branch[name].sql for branch in branches if name in branch}
        kinds = {kind_of(expression(sql), self._type_of) for sql in made}
        return kinds.pop() if len(kinds) == 1 else ""

    def _type_of(self, node: exp.Column) -> str:
        return self._type((node.table, node.name))

    def _found(self, stream: Stream, alias: str) -> dict[ColumnRef, exp.Expr]:
        return {ref: column(self._names[ref], alias) for ref in stream.refs}

    def _hidden(self, stream: Stream, alias: str) -> list[exp.Expr]:
        return [column(name, alias) for name in stream.hidden]

    def _select(self, found: Columns, needed: Refs, hidden: Sequence[exp.Expr]) -> exp.Select:
        """The needed columns under the names by which they travel, then the hidden ones."""
        shown = ((found[ref], self._names[ref]) for ref in sorted(needed.intersection(found)))
        columns = (c.copy() if c.name == name else named(c, name) for c, name in shown)
        return exp.select(*columns, *hidden)

    def _distinct(self, keys: Iterable[exp.Expr], stream: Stream, alias: str) -> exp.Select:
        """The stream's distinct keys, as k0, k1, ...; from where it has them first."""
        keys = list(keys)
        refs = frozenset((c.table, c.name) for key in keys for c in key.find_all(exp.Column))
        while stream.of is not None and refs <= stream.of.refs:
            stream = stream.of
        found = self._found(stream, alias)
        values = [named(moved(key, found), f"k{i}") for i, key in enumerate(keys)]
        return exp.select(*values).from_(table(stream.view, alias)).distinct()

    def _sends(self, relations: Iterable[str], stream: Stream, step: LookupStep) -> bool:
        """Whether these relations' columns of the stream are broadcast."""
        bound = sorted(set(relations) & self._graph.by_name.keys())
        most = self._views.most_sent(self._graph, bound, step.source)
        if not 0 < most >= stream.rows:
            return False
        self.spare = min(self.spare, most / max(stream.rows, 1.0))
        return True

    def _view(self) -> str:
        self._streams += 1
        return f"{self._prefix}_{self._streams - 1}"

    def _emit(
        self, select: exp.Select, label: str | None, stream: Stream, *, candidates: bool = False
    ) -> Stream:
        view = self._view()
        self.statements.append(Statement(view, pretty(select), label, candidates=candidates))
        return replace(stream, view=view)


def _key_columns(step: LookupStep, within: Within) -> list[tuple[str, ColumnRef]]:
    """The columns by which a relation is entered, each with the stream's column that bounds it."""
    pairs = []
    for other, mine, operator in step.keys:
        one, two = expression(mine), expression(other)
        if operator in ("=", "<=>") and isinstance(one, exp.Column) and isinstance(two, exp.Column):
            pairs.append((one.name, (two.table, two.name)))
    return [(name, ref) for name, ref in pairs if ref in within]


def _asking(step: LookupStep) -> Refs:
    """The stream's columns that say which rows of a relation enter."""
    refs = _refs((*(other for other, _, _ in step.keys), *step.match))
    return frozenset(ref for ref in refs if ref[0] != step.relation)


def _refs(texts: Iterable[str]) -> Refs:
    return frozenset(ref for sql in texts for ref in refs_in(sql))
