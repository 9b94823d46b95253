"""Model + table states -> DeltaPlan. No Spark, no clock, no randomness.

bind the SQL -> keys -> row identity -> what changed -> orders -> lookup paths -> strategy
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache

from deltajoin.catalog import TableState, TargetState, overlap
from deltajoin.contract import UNDER_A_VIEW
from deltajoin.delta.asof import with_neighbours
from deltajoin.delta.clock import (
    at_clock,
    clock_moved,
    day_gone,
    moment_of,
    on_day,
    reads_clock,
    stamp_columns_at,
)
from deltajoin.delta.derived import (
    Described,
    Knowledge,
    describe,
    order_dependent,
    plan_derived,
)
from deltajoin.delta.evidence import found_tied, found_to_differ
from deltajoin.delta.format import RULES, model_hash
from deltajoin.delta.history import Record, last_epoch, recent_reads
from deltajoin.delta.identity import Keys, Types, row_key
from deltajoin.delta.key_order import key_order
from deltajoin.delta.knowledge import (
    earlier_paths,
    earlier_within,
    gather_statistics,
    last_order,
    last_sketches,
    resolve_keys,
)
from deltajoin.delta.layout import layout_warnings, plan_layout
from deltajoin.delta.lookup_paths import regroup
from deltajoin.delta.missing import missing_of_unknown_type
from deltajoin.delta.pinning import Pins
from deltajoin.delta.plan import DeltaPlan, Rebuild, Recent, Target, fingerprint
from deltajoin.delta.rebuild import is_groupable, plan_rebuild
from deltajoin.delta.routes import Routes, routes_of, too_many_lookups
from deltajoin.delta.running import with_running
from deltajoin.delta.seconds import predict
from deltajoin.delta.signed_zeros import told_apart, with_one_extreme
from deltajoin.delta.sources import (
    cost_of_finding,
    reach,
    readable,
    share,
    source_versions,
    with_files,
)
from deltajoin.delta.state import GroupState, group_state, hidden_columns, merged_columns
from deltajoin.delta.strategy import Situation, decide
from deltajoin.delta.ties import ambiguous_aggregate, open_windows, with_ties_compared
from deltajoin.errors import DeltaJoinError, Refusal
from deltajoin.graph import JoinGraph
from deltajoin.model import Model, is_path
from deltajoin.names import ROW_HASH, split_dotted
from deltajoin.planner.full_query import Choice, FullQuery, arm, plan_full_query
from deltajoin.planner.solver import parse_strategy
from deltajoin.planner.statistics import Sketches, Statistics
from deltajoin.sql.bind import BoundQuery, bind
from deltajoin.sql.dialect import parse, parse_expression, text
from deltajoin.sql.origins import at_origin, origin
from deltajoin.sql.padding import loses_padding
from deltajoin.sql.ungroupable import gives_ungroupable

_CHANGING = ("NON_DETERMINISTIC", "UNKNOWN_FUNCTION", "FILE_METADATA")


#: Rows of a table from which its declared key isn't checked where nothing rests on it.
MANY_ROWS = 1_000_000
#: Epochs whose reads are looked at, to tell a better layout.
_RECENT = 10


@dataclass(frozen=True)
class Inputs:
    """What a plan is made from: source states, where the target is, its state, whether it is a
    backing table under a view, the moment that the epoch's clock shows, and what an incremental run
    over the same versions ended with, if one did."""

    tables: Mapping[str, TableState]
    location: str | None
    target: TargetState | None
    backing: bool
    clock: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    failed: Refusal | None = None


def build_plan(model: Model, inputs: Inputs) -> DeltaPlan:
    """The plan for running this model now.

    Raises:
        DeltaJoinError: whatever `bind`, `resolve_keys`, `last_epoch` and `decide` refuse.
    """
    tables, state = inputs.tables, inputs.target
    types = {(name, c.name): c.type for name, table in tables.items() for c in table.columns}
    columns = {name: readable(table) for name, table in tables.items()}
    keys = resolve_keys(model, tables)

    def bound(keys: Keys) -> BoundQuery:
        with at_origin(model.lines):
            return bind(model.sql, columns, types, model.functions, model.stamps, keys)

    _check_apart(model, inputs)
    before = last_epoch(state, model)
    last = before.record
    meaning = understood = _meaning(model, inputs, bound(keys), keys, types, last)
    query, mark = meaning.query, meaning.mark
    differs, failed = found_to_differ(last, mark), inputs.failed
    tied = found_tied(last, mark) or (failed is not None and failed.code == "WINDOW_TIES")
    stop = open_windows(meaning.graph, tied=True) if tied and meaning.graph else None
    if obstacle := differs or stop:
        meaning = meaning.as_written(obstacle, as_bag=not differs)
    if query.daily:
        meaning = meaning.on_day(inputs.clock)
    graph, described, target = meaning.graph, meaning.described, meaning.target
    layout = plan_layout(model, target.visible, state, last)
    target = replace(target, layout=layout)
    _check_kind(target, inputs)

    sources, obstacles = source_versions(tables, graph, last)
    runs = earlier_paths(state, mark)
    sketches = last_sketches(state, mark) if model.sketches else {}
    statistics = gather_statistics(tables, keys, model, runs, sketches)
    pins = Pins.of(runs, last_order(state, mark))
    strategy = parse_strategy(model.strategy)
    moved = clock_moved(query.clock, inputs.clock, last)
    if query.daily:
        obstacles = (*obstacles, *day_gone(query.daily, moved, model.mode))
    moment = moment_of(inputs.clock, last, moved) if query.clock else None
    versions = {s.source: s for s in sources}
    knowledge = Knowledge(described, statistics, versions, earlier_within(state, mark), moment)
    derived, knowledge = plan_derived(graph, knowledge, strategy, Choice(model.reorder))
    statistics = knowledge.statistics
    by = (statistics, knowledge.versions, strategy, pins)
    routes = routes_of(graph, *by) if graph else Routes()
    read = knowledge.versions.values()
    paths = with_running(routes.paths, graph, statistics, meaning.state, read)
    routes = replace(routes, paths=paths)

    unkept = meaning.obstacle or order_dependent(graph, described, target.kind)
    whole = next((o for o in (*(p.untraced for p in derived), routes.untraced) if o), None)
    paths = (*routes.paths, *(path for plan in derived for path in plan.paths))
    whole = too_many_lookups(paths) or whole
    auto = model.mode == "auto"
    expected_rows = sum(path.estimated_rows + path.given_rows for path in paths)
    predicted = predict(state, mark, sources, expected_rows) if auto else None
    moved_text = [f"the clock ({moved})"] if graph and moved else []
    decision = decide(
        Situation(
            mode=model.mode,
            first_run=last is None,
            changed_meaning=_changed_meaning(last, mark, model, target.visible),
            operator=unkept,
            sources=obstacles,
            changed=(*(s.text for s in sources if s.changed), *moved_text),
            share=share(sources),
            finding=cost_of_finding(sources),
            reach=reach(sources, routes.paths, state) if auto else None,
            untraced=whole,
            predicted=predicted,
            lost=before.lost,
            clock=None if graph else moved,
            failed=failed,
        )
    )

    unkept = unkept or (whole if whole and decision.reason == whole.code else None)
    full, works = decision.strategy == "full", decision.strategy != "noop"
    live = graph is not None and decision.strategy == "incremental"
    if works and state is not None:
        target = replace(target, records=state.records)
    clock = inputs.clock if works and reads_clock(query, target) else None
    names = {name.lower() for table in columns.values() for name in table}
    as_written = full and graph is None
    stamps = stamp_columns_at(model.sql, model.stamps, clock, names) if as_written else {}
    rebuild = plan_rebuild(decision, target, state, sources, mark, stamps)
    overwritten = rebuild == Rebuild("overwrite")

    unchecked: tuple[str, ...] = ()
    for source in _large(tables, keys) if full else ():
        fewer = {name: keys[name] for name in keys if name not in (*unchecked, source)}
        without = _meaning(model, inputs, bound(fewer), fewer, types, last)
        if without.is_like(understood, tables):
            unchecked = (*unchecked, source)

    @cache
    def full_query() -> FullQuery | None:
        types = described.types
        return (
            plan_full_query(graph, statistics, types, _choice(model, graph, types), pins.order)
            if graph
            else None
        )

    if model.order or works:
        full_query()
    return DeltaPlan(
        model=model.name,
        fingerprint=mark,
        model_hash=model_hash(model),
        sql=model.sql,
        mode=model.mode,
        strategy=decision.strategy,
        reason=decision.reason,
        detail=decision.detail,
        epoch=before.number + works,
        target=at_clock(target, clock),
        sources=tuple(with_files(s, tables[s.source]) for s in sources) if live else sources,
        keys=tuple(sorted((s, keys[s]) for s in tables if s in keys)),
        unchecked=unchecked,
        graph=graph,
        epoch_order=routes.order,
        find_full_query=full_query,
        paths=routes.paths if live else (),
        regroup=(
            regroup(graph, statistics, routes.order, knowledge.versions, meaning.state)
            if graph and live
            else ()
        ),
        derived=derived if live else tuple(plan.unchanged for plan in derived),
        state=meaning.state,
        sketches=_to_count(graph) if model.sketches and graph and full else sketches,
        settings=_settings(last) if last and not full else None,
        warnings=(
            *_warnings(tables, statistics, graph, unkept),
            *(() if overwritten else layout_warnings(layout, state)),
        ),
        statistics=statistics,
        rebuilt_because=unkept,
        find_recent=lambda: Recent(
            recent_reads(state, mark, _RECENT), lambda: state.log if state else None
        ),
        clock=clock,
        daily=query.daily.message if query.daily and graph else "",
        differs=differs.message if differs else "",
        tied=str(stop.where) if stop else "",
        predicted=predicted.to_dict() if predicted and graph and not unkept else {},
        replanned=tuple(n for n in (routes.note, *(d.replanned for d in derived)) if n and live),
        rebuild=rebuild and replace(rebuild, order=key_order(graph, target.key, layout, tables)),
    )


def _choice(model: Model, graph: JoinGraph, types: Types) -> Choice:
    merged = merged_columns(graph, group_state(graph, types))
    return Choice(model.reorder, tuple(model.order), merged)


@dataclass(frozen=True)
class _Meaning:
    """What the query means, whatever its tables hold: its graph, or the obstacle to keeping it;
    the target, and the fingerprint (`mark`) of all that."""

    query: BoundQuery
    graph: JoinGraph | None
    obstacle: Refusal | None
    described: Described
    state: GroupState | None
    target: Target
    mark: str

    def on_day(self, clock: datetime) -> _Meaning:
        """The same with a moment in place of the mark that stands for the clock."""
        return replace(self, graph=on_day(self.graph, clock), state=on_day(self.state, clock))

    def as_written(self, obstacle: Refusal, *, as_bag: bool = False) -> _Meaning:
        """The same for a query that is only run as its own text; `as_bag`: a bag stays one."""
        target = self.target
        if not as_bag or target.kind != "bag" or target.hidden:
            target = replace(target, kind="plain", key=(), hidden=(), exactly=(), columns=())
        return replace(self, graph=None, obstacle=obstacle, state=None, target=target)

    def is_like(self, other: _Meaning, tables: Collection[str]) -> bool:
        """True where the rows and the form of the target are the same, as are the keys of what is
        derived of the tables."""
        one, two = (
            {name: key for name, key in meaning.described.keys.items() if name not in tables}
            for meaning in (self, other)
        )
        return (self.mark, self.obstacle, one) == (other.mark, other.obstacle, two)


def _large(tables: Mapping[str, TableState], keys: Keys) -> list[str]:
    """The tables with a declared key that is so dear to check that it is only if it is of use."""
    return sorted(name for name in keys if (tables[name].rows or 0) >= MANY_ROWS)


def _meaning(
    model: Model,
    inputs: Inputs,
    query: BoundQuery,
    keys: Keys,
    types: Types,
    last: Record | None,
) -> _Meaning:
    graph, obstacle = _groupable(query, inputs.tables, model.lines)
    graph = with_neighbours(graph, keys, types) if graph else None
    described = describe(graph, keys, types)
    for part in graph.parts if graph else ():
        ties = ambiguous_aggregate(part, described.keys, described.types)
        if stop := ties or missing_of_unknown_type(part, described.types):
            graph, obstacle = None, stop
            break
    if graph is not None:
        graph = with_ties_compared(graph, described.keys, described.types)
    state = group_state(graph, described.types, described.inexact) if graph else None
    target = _target(model, inputs, graph, described, state, last)
    hides = target.name_parts and target.hidden
    if graph is not None and hides and (stop := open_windows(graph, tied=False)):
        graph, obstacle, state = None, stop, None
        target = _target(model, inputs, graph, described, state, last)
    if graph is not None and target.kind == "bag":
        graph = with_one_extreme(graph, described.types)
        described = describe(graph, keys, types)
    if graph is None and query.graph is not None:
        query = query.as_text(model.stamps)
    mark = fingerprint(graph, query.canonical, target.key, target.kind, state)
    return _Meaning(query, graph, obstacle, described, state, target, mark)


def _to_count(graph: JoinGraph) -> Sketches:
    """Columns whose distinct values a rebuild counts, without figures yet."""
    judged = {source: graph.judged_columns(source) for source in graph.sources}
    return {
        source: {"rows": None, "columns": dict.fromkeys(columns)}
        for source, columns in judged.items()
        if columns
    }


def _all_outputs(graph: JoinGraph) -> Iterator[tuple[str, str]]:
    """The name and expression of every output, also of derived sources and arms of unions."""
    for part in graph.parts:
        arms = [arm(part, core) for core in part.cores] if part.has_union else [part]
        yield from ((p.name, p.sql) for one in arms for p in one.projections)
        yield from part.grouping.outputs if part.grouping else ()
        for layer in (part.generation, part.windowing):
            yield from ((o.name, o.sql) for o in layer.outputs) if layer else ()
        for name, sql in part.windowing.windows if part.windowing else ():
            yield name, text(parse_expression(sql).this)


def _groupable(
    query: BoundQuery, tables: Mapping[str, TableState], lines: Sequence[str]
) -> tuple[JoinGraph | None, Refusal | None]:
    """The graph when its rows can be consolidated, else what stands against it."""
    if query.reason is not None:
        return None, origin(query.reason, lines)
    graph = query.graph
    assert graph is not None  # noqa: S101 - a bound query has a graph or a reason
    for source in graph.sources:
        types = {c.name: c.type for c in tables[source].columns}
        used = graph.used_columns(source)
        for name in used:
            if not is_groupable(types[name]):
                return None, Refusal(
                    "COLUMN_TYPE",
                    f"rows with a column of type {types[name]} can't be compared",
                    f"{source}.{name}",
                    "Leave the column out, or convert it to a struct, array or string.",
                )
        padded = [c.name for c in tables[source].columns if c.is_char and c.name in used]
        if padded and (beside := loses_padding(parse(query.sql))):
            return None, Refusal(
                "COLUMN_TYPE",
                f"a column of type CHAR beside {beside} is padded otherwise",
                f"{source}.{padded[0]}",
                "Make it a string in a table before, or use a mode that rebuilds.",
            )
    for name, sql in _all_outputs(graph):
        if gives_ungroupable(parse_expression(sql)):
            return None, Refusal(
                "COLUMN_TYPE",
                f"rows with a variant, map, collation or interval of months and days ({name}) "
                "can't be compared",
                sql,
                "Leave the column out, or cast it to a string.",
            )
    return graph, None


def _check_apart(model: Model, inputs: Inputs) -> None:
    for name, table in sorted(inputs.tables.items()):
        if inputs.location and overlap(table.location, inputs.location):
            raise DeltaJoinError(
                "TARGET_IS_SOURCE",
                f"the target's folder is, holds or lies in that of the source '{name}'",
                where=model.target,
                remedy="Choose another target.",
            )


def _target(
    model: Model,
    inputs: Inputs,
    graph: JoinGraph | None,
    described: Described,
    state: GroupState | None,
    last: Record | None,
) -> Target:
    """The target and the form of its rows. A bag under a view, which must be dropped to make place
    for a table, stays one until a rebuild is asked for."""
    key = () if graph is None else row_key(graph, described.keys, described.types)
    hidden = hidden_columns(graph, state) if graph else ()
    is_bag = inputs.backing and last is not None and last["kind"] == "bag"
    if is_bag and not hidden and model.mode != "full":
        key = ()
    kept = "grouped" if hidden else "keyed"
    kind = "plain" if graph is None else kept if key else "bag"
    return Target(
        place=model.target,
        name_parts=() if is_path(model.target) else split_dotted(model.target),
        location=inputs.location,
        exists=inputs.target is not None,
        kind=kind,
        columns=graph.output_names if graph else (),
        key=key,
        hidden=hidden,
        stamps=graph.stamps if graph else (),
        exactly=told_apart(graph, described.types) if graph else (),
        hashed=kind == "bag" and inputs.target is not None and inputs.target.has(ROW_HASH),
        version=-1 if inputs.target is None else inputs.target.version,
        table_id=None if inputs.target is None else inputs.target.table_id,
    )


def _check_kind(target: Target, inputs: Inputs) -> None:
    under = target.kind in UNDER_A_VIEW
    if target.name_parts and inputs.target is not None and inputs.backing != under:
        raise DeltaJoinError(
            "TARGET_KIND_CHANGED",
            f"rows are now kept as {target.kind}, and a catalog "
            f"{'view' if inputs.backing else 'table'} of the same name stands in the way",
            where=target.place,
            remedy="Drop the target (dbt: --full-refresh) and run again.",
        )


def _changed_meaning(
    last: Record | None, mark: str, model: Model, columns: tuple[str, ...]
) -> Refusal | None:
    """Why the target's rows may mean something else than this plan's. Another version of our rules
    comes first: it may have changed the fingerprint as well."""
    if last is None:
        return None
    if last.get("rules") != RULES:
        return Refusal(
            "RULES_CHANGED",
            "the target was built by another version of the rules that decide its rows",
            model.name,
            "Run once with mode full.",
        )
    if last["fingerprint"] == mark:
        return None
    return Refusal(
        "MODEL_CHANGED",
        "the model's definition differs from the one that the target was built with"
        + _other_columns(tuple(last["columns"]), columns),
        model.name,
        "Run once with mode full, or restore the definition.",
    )


def _other_columns(old: tuple[str, ...], new: tuple[str, ...]) -> str:
    """Output columns that came and went, as of `SELECT *` over a table with a new column."""
    if not new:
        return ""
    gained, lost = [c for c in new if c not in old], [c for c in old if c not in new]
    found = (("gained", gained), ("lost", lost))
    return "".join(f"; columns {verb}: {', '.join(names)}" for verb, names in found if names)


def _settings(last: Record) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((str(k), str(v)) for k, v in last["settings"].items()))


def _warnings(
    tables: Mapping[str, TableState],
    statistics: Statistics,
    graph: JoinGraph | None,
    operator: Refusal | None,
) -> tuple[str, ...]:
    found = [
        f"{operator.message} ({operator.where}): the target has what it gave when a source last "
        "changed"
        for operator in (operator,)
        if operator is not None and operator.code in _CHANGING
    ]
    found += [
        f"{name} has no change feed: its change is the difference of the files that changed"
        for name, table in sorted(tables.items())
        if graph and not table.change_feed and table.static is None
    ]
    found += [
        f"{name} has no row count in its log and no hint: the joins keep their written order"
        for name in (statistics.unknown(graph) if graph else ())
    ]
    return tuple(found)
