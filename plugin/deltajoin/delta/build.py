"""Model + table states -> DeltaPlan. No Spark, no clock, no randomness.

    bind the SQL -> keys -> row identity -> what changed -> strategy -> orders -> lookup paths

Caller: loads the states (`api.plan`); everything here is a function of its arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial

from deltajoin.catalog import Column, TableState, TargetState, overlap
from deltajoin.contract import UNDER_A_VIEW
from deltajoin.delta.clock import at_clock, clock_moved, moment_of, reads_clock, stamp_columns_at
from deltajoin.delta.derived import (
    Described,
    Known,
    describe,
    order_dependent,
    plan_derived,
)
from deltajoin.delta.epoch_order import chosen_epoch_order
from deltajoin.delta.evidence import found_to_differ
from deltajoin.delta.format import RULES, model_hash
from deltajoin.delta.history import Record, last_epoch
from deltajoin.delta.key_order import key_order
from deltajoin.delta.knowledge import (
    Declared,
    earlier_paths,
    earlier_within,
    gather_statistics,
    last_order,
    last_sketches,
)
from deltajoin.delta.layout import layout_warnings, plan_layout
from deltajoin.delta.lookup_paths import lookup_paths, regroup
from deltajoin.delta.partition import ambiguous_order, row_key
from deltajoin.delta.path import SourceVersion
from deltajoin.delta.pinning import Pins
from deltajoin.delta.plan import DeltaPlan, Rebuild, Target, fingerprint
from deltajoin.delta.rebuild import is_groupable, plan_rebuild
from deltajoin.delta.seconds import predict
from deltajoin.delta.sources import dear, reach, readable, share, source_versions, told, with_files
from deltajoin.delta.state import GroupState, group_state, hidden_columns
from deltajoin.delta.strategy import Obstacle, Situation, decide
from deltajoin.delta.told_apart import told_apart, with_one_extreme
from deltajoin.delta.untraced import untraced
from deltajoin.errors import DeltaJoinError
from deltajoin.graph import JoinGraph
from deltajoin.model import Model, is_path
from deltajoin.names import split_dotted
from deltajoin.planner.arms import arm
from deltajoin.planner.full_query import Choice, FullQuery, plan_full_query
from deltajoin.planner.kept import LastOrder
from deltajoin.planner.solver import parse_strategy
from deltajoin.planner.statistics import Sketches, Statistics
from deltajoin.sql.bind import BoundQuery, bind
from deltajoin.sql.dialect import parse_expression, text
from deltajoin.sql.origins import at_origin, origin
from deltajoin.sql.ungroupable import gives_ungroupable

Keys = dict[str, tuple[str, ...]]
_CHANGING = ("NON_DETERMINISTIC", "UNKNOWN_FUNCTION")


@dataclass(frozen=True)
class Inputs:
    """What a plan is made from: source states, where the target is, its state, whether it is a
    backing table under a view, and the moment that the epoch's clock shows."""

    tables: Mapping[str, TableState]
    location: str | None
    target: TargetState | None
    backing: bool
    clock: datetime = datetime(1970, 1, 1, tzinfo=UTC)


def build_plan(model: Model, inputs: Inputs) -> DeltaPlan:
    """The plan for running this model now.

    Raises:
        DeltaJoinError: whatever `bind`, `resolve_keys`, `last_epoch` and `decide` refuse.
    """
    tables = inputs.tables
    types = _types(tables)
    columns = {name: readable(table) for name, table in tables.items()}
    keys = resolve_keys(model, tables)
    with at_origin(model.lines):
        query = bind(model.sql, columns, types, model.functions, model.stamps, keys)
    graph, operator = _groupable(query, tables, model.lines)
    described = describe(graph, keys, types)
    for part in graph.parts if graph else ():
        if ties := ambiguous_order(part, described.keys, described.types):
            graph, operator = None, ties
            break
    state = group_state(graph, described.types, described.inexact) if graph else None
    target = _target(model, inputs, graph, described, state)
    if graph is not None and target.kind == "bag" and described.tied:
        graph = with_one_extreme(graph, described.types)
        described = describe(graph, keys, types)
    mark = fingerprint(graph, query.canonical, target.key, target.kind, state)
    before = last_epoch(inputs.target, model)
    last = before.record
    if differs := found_to_differ(last, mark):
        graph, operator, state = None, differs, None
        target = replace(target, kind="plain", key=(), hidden=(), exactly=(), columns=())
    layout = plan_layout(model, target.visible, inputs.target, last)
    target = replace(target, layout=layout)
    _check_kind(target, inputs)
    sources, obstacles = source_versions(tables, graph, last)
    runs = earlier_paths(inputs.target, mark)
    sketches = last_sketches(inputs.target, mark) if model.sketches else {}
    statistics = gather_statistics(tables, keys, _declared(model), runs, sketches)
    pins = Pins.of(runs, last_order(inputs.target, mark))
    strategy = parse_strategy(model.strategy)
    within = earlier_within(inputs.target, mark)
    moved = clock_moved(query.clock, inputs.clock, last)
    moment = moment_of(inputs.clock, last, moved) if query.clock else None
    known = Known(described, statistics, {s.source: s for s in sources}, within, moment)
    derived, known = plan_derived(graph, known, strategy, Choice(model.reorder))
    statistics, versions = known.statistics, known.versions
    order, note = (
        chosen_epoch_order(graph, statistics, versions, strategy, pins) if graph else ((), "")
    )
    paths = lookup_paths(graph, statistics, order, versions, strategy, pins) if graph else ()
    by_all_rows = untraced(graph, paths, statistics) if graph else None
    whole = next((o for o in (*(p.untraced for p in derived), by_all_rows) if o), None)
    against = operator or order_dependent(graph, described, target.kind)
    lookups = (*paths, *(path for plan in derived for path in plan.paths))
    predicted = predict(inputs.target, mark, sources, [path.to_dict() for path in lookups])
    decision = decide(
        Situation(
            mode=model.mode,
            first_run=last is None,
            changed_meaning=_changed_meaning(last, mark, model, target.visible),
            operator=against,
            sources=obstacles,
            changed=_changed(sources, moved if graph else None),
            share=share(sources),
            dear=dear(sources),
            reach=reach(sources, paths, inputs.target) if model.mode == "auto" else None,
            untraced=whole,
            predicted=predicted,
            lost=before.lost,
            clock=None if graph else moved,
        )
    )
    against = against or (whole if decision.reason == "NO_SCOPE" else None)
    clock = inputs.clock if decision.strategy != "noop" and reads_clock(query, target) else None
    names = {name.lower() for table in columns.values() for name in table}
    as_written = graph is None and decision.strategy == "full"
    apart = stamp_columns_at(model.sql, model.stamps, clock, names) if as_written else {}
    live = graph is not None and decision.strategy == "incremental"
    full_query = cache(partial(_full_query, graph, statistics, described, model, pins.order))
    if model.order or decision.strategy != "noop":
        full_query()
    rebuild = plan_rebuild(decision, target, inputs.target, sources, mark, apart)
    return DeltaPlan(
        model=model.name,
        fingerprint=mark,
        model_hash=model_hash(model),
        sql=model.sql,
        mode=model.mode,
        strategy=decision.strategy,
        reason=decision.reason,
        detail=decision.detail,
        epoch=before.number + (decision.strategy != "noop"),
        target=at_clock(target, clock),
        sources=tuple(with_files(s, tables[s.source]) for s in sources) if live else sources,
        keys=tuple(sorted((s, keys[s]) for s in tables if s in keys)),
        graph=graph,
        epoch_order=order,
        find_full_query=full_query,
        paths=paths if live else (),
        regroup=regroup(graph, statistics, order, versions, state) if graph and live else (),
        derived=derived if live else tuple(plan.at_rest for plan in derived),
        state=state,
        sketches=_sketches(model, graph, sketches, decision.strategy),
        settings=_settings(last, decision.strategy),
        warnings=(
            *_warnings(tables, statistics, graph, against),
            *(layout_warnings(layout, inputs.target) if rebuild != Rebuild("overwrite") else ()),
        ),
        statistics=statistics,
        rebuilt_because=against,
        clock=clock,
        differs=differs.message if differs else "",
        predicted=predicted.to_dict() if predicted and graph and not against else {},
        replanned=tuple(n for n in (note, *(d.replanned for d in derived)) if n and live),
        rebuild=rebuild and replace(rebuild, order=key_order(graph, target.key, layout, tables)),
    )


def _changed(sources: tuple[SourceVersion, ...], clock: str | None) -> tuple[str, ...]:
    """What changed, for people."""
    return (*(told(s) for s in sources if s.changed), *([f"the clock ({clock})"] if clock else ()))


def _declared(model: Model) -> Declared:
    return Declared(
        sources=tuple(sorted(model.sources)),
        references=model.references,
        hints=model.hints,
    )


def _sketches(model: Model, graph: JoinGraph | None, last: Sketches, strategy: str) -> Sketches:
    """What the run hands on; of a rebuild, the columns to count, without figures yet."""
    if graph is None or not model.sketches or strategy != "full":
        return last
    judged = {source: graph.judged_columns(source) for source in graph.sources}
    return {
        source: {"rows": None, "columns": dict.fromkeys(columns)}
        for source, columns in judged.items()
        if columns
    }


def _full_query(
    graph: JoinGraph | None,
    statistics: Statistics,
    described: Described,
    model: Model,
    last: LastOrder | None,
) -> FullQuery | None:
    if graph is None:
        return None
    choice = Choice(model.reorder, tuple(model.order))
    return plan_full_query(graph, statistics, described.types, choice, last)


def _types(tables: Mapping[str, TableState]) -> dict[tuple[str, str], str]:
    return {(name, c.name): c.type for name, table in tables.items() for c in table.columns}


def _names(columns: tuple[Column, ...]) -> tuple[str, ...]:
    return tuple(column.name for column in columns)


def resolve_keys(model: Model, tables: Mapping[str, TableState]) -> Keys:
    """Declared keys in schema spelling, for the sources that the query reads.

    Raises:
        DeltaJoinError: UNKNOWN_KEY for a table or column that is not there.
    """
    spelled = {name.lower(): name for name in model.sources}
    keys: Keys = {}
    for table, columns in sorted(model.keys.items()):
        source = spelled.get(table.lower())
        if source is None or not columns:
            raise _unknown_key(table, "is not among the sources, or its key has no column")
        if source not in tables:
            continue
        schema = {name.lower(): name for name in _names(tables[source].columns)}
        missing = [column for column in columns if column.lower() not in schema]
        if missing:
            raise _unknown_key(table, f"has no column {', '.join(missing)}")
        keys[source] = tuple(dict.fromkeys(schema[column.lower()] for column in columns))
    return keys


def _unknown_key(table: str, message: str) -> DeltaJoinError:
    return DeltaJoinError(
        "UNKNOWN_KEY", f"keys: '{table}' {message}", where=table, remedy="Correct the keys."
    )


def _made(graph: JoinGraph) -> Iterator[tuple[str, str]]:
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
) -> tuple[JoinGraph | None, Obstacle | None]:
    """The graph when its rows can be consolidated, else what stands against it."""
    if query.reason is not None:
        reason = query.reason
        return None, Obstacle(
            reason.code, reason.message, *origin(reason.where, reason.remedy, lines)
        )
    graph = query.graph
    assert graph is not None  # noqa: S101 - a bound query has a graph or a reason
    for source in graph.sources:
        types = {c.name: c.type for c in tables[source].columns}
        for name in graph.used_columns(source):
            if not is_groupable(types[name]):
                return None, Obstacle(
                    "COLUMN_TYPE",
                    f"rows with a column of type {types[name]} can't be compared",
                    f"{source}.{name}",
                    "Leave the column out, or convert it to a struct, array or string.",
                )
    for name, sql in _made(graph):
        if gives_ungroupable(parse_expression(sql)):
            return None, Obstacle(
                "COLUMN_TYPE",
                f"rows with a variant, map, collation or interval of months and days ({name}) "
                "can't be compared",
                sql,
                "Leave the column out, or cast it to a string.",
            )
    return graph, None


def _target(
    model: Model,
    inputs: Inputs,
    graph: JoinGraph | None,
    described: Described,
    state: GroupState | None,
) -> Target:
    for name, table in sorted(inputs.tables.items()):
        if inputs.location and overlap(table.location, inputs.location):
            raise DeltaJoinError(
                "TARGET_IS_SOURCE",
                f"the target's folder is, holds or lies in that of the source '{name}'",
                where=model.target,
                remedy="Choose another target.",
            )
    key = () if graph is None else row_key(graph, described.keys, described.types)
    hidden = hidden_columns(graph, state) if graph else ()
    kind = "plain" if graph is None else _kind(key, hidden)
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
        version=-1 if inputs.target is None else inputs.target.version,
        table_id=None if inputs.target is None else inputs.target.table_id,
    )


def _kind(key: tuple[str, ...], hidden: tuple[str, ...]) -> str:
    if not key:
        return "bag"
    return "grouped" if hidden else "keyed"


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
) -> Obstacle | None:
    """Why the target's rows may mean something else than this plan's. Another version of our rules
    comes first: it may have changed the fingerprint as well."""
    if last is None:
        return None
    if last.get("rules") != RULES:
        return Obstacle(
            "RULES_CHANGED",
            "the target was built by another version of the rules that decide its rows",
            model.name,
            "Run once with mode full.",
        )
    if last["fingerprint"] == mark:
        return None
    return Obstacle(
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
    told = (
        ("gained", [c for c in new if c not in old]),
        ("lost", [c for c in old if c not in new]),
    )
    return "".join(f"; columns {verb}: {', '.join(names)}" for verb, names in told if names)


def _settings(last: Record | None, strategy: str) -> tuple[tuple[str, str], ...] | None:
    if last is None or strategy == "full":
        return None
    return tuple(sorted((str(k), str(v)) for k, v in last["settings"].items()))


def _warnings(
    tables: Mapping[str, TableState],
    statistics: Statistics,
    graph: JoinGraph | None,
    operator: Obstacle | None,
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
        if not table.change_feed and table.static is None
    ]
    found += [
        f"{name} has no row count in its log and no hint: the joins keep their written order"
        for name in (statistics.unknown(graph) if graph else ())
    ]
    return tuple(found)
