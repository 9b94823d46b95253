"""The law, checked on DuckDB: previous target + net of all lookup paths = the query on new tables.

The planner and the emitter are the real ones; only the engine is another. Every statement is Spark
SQL that sqlglot turns into DuckDB's. A version is 1 (previous epoch) or 2 (this epoch), so that the
statements of all epochs of a case are alike. The epoch order is the planner's in one half of the
cases and any permutation in the other: every permutation must be exact. Paths are ordered by cost
or by a rule.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import cache, lru_cache
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot

from deltajoin.catalog import ChangedFiles
from deltajoin.delta.asof import with_neighbours
from deltajoin.delta.clock import micros
from deltajoin.delta.derived import Knowledge, Moment, describe, order_dependent, plan_derived
from deltajoin.delta.epoch_order import epoch_order
from deltajoin.delta.identity import row_key
from deltajoin.delta.lookup_paths import lookup_paths, regroup
from deltajoin.delta.path import SourceVersion
from deltajoin.delta.plan import DeltaPlan, Target
from deltajoin.delta.running import with_running
from deltajoin.delta.state import group_state, hidden_columns, merged_columns
from deltajoin.delta.ties import ambiguous_aggregate, with_ties_compared
from deltajoin.emit.derived_sources import DerivedProgram
from deltajoin.emit.narrowing import placed
from deltajoin.emit.sql import Program, build_program
from deltajoin.emit.stream import Statement
from deltajoin.graph import JoinGraph
from deltajoin.names import SHOWN, quote
from deltajoin.planner.full_query import Choice, plan_full_query
from deltajoin.planner.solver import COST, STRATEGIES
from deltajoin.planner.statistics import Statistics
from deltajoin.sql.bind import bind
from deltajoin.sql.clock import frozen_query
from tests.property.cases import Case, Row, State, play, render_sql
from tests.property.generate import TUNED, Profile, generate
from tests.property.lateral import with_lateral_joins

Bag = Counter[tuple[Any, ...]]
Feeds = dict[str, list[tuple[str, Row]]]
Make = Callable[[int, Profile, int], Case]
METHODS = ("feed", "feed", "files", "difference")
SOME_FILES = ChangedFiles(left=("/a",), came=("/b",))


@dataclass(frozen=True)
class Mutant:
    """A known mistake: it alters the plan, the program, or the feed that a run would read.

    Each function gives None where there is nothing to get wrong. `seed`: of a random case that
    shows it, where a search may begin.
    """

    name: str
    plan: Callable[[DeltaPlan], DeltaPlan | None] | None = None
    program: Callable[[Program, DeltaPlan], Program | None] | None = None
    feed: Callable[[Feeds], Feeds | None] | None = None
    seed: int = 0


@dataclass(frozen=True)
class Outcome:
    """What came of one epoch; `problem` is empty when the target is right.

    `kind` is that of the target; `rebuilt` for a query not kept; `whole` where a change has no key
    and a side of its join is read whole.
    """

    epoch: int
    kind: str
    changed: bool
    problem: str = ""


class Mismatch(AssertionError):
    """The backfill differs from the query."""


@cache
def connection() -> duckdb.DuckDBPyConnection:
    """One DuckDB in memory for the whole process; a case replaces the views of the one before."""
    con = duckdb.connect()
    con.execute("SET threads = 1; SET enable_progress_bar = false")
    con.execute("SET max_expression_depth TO 10000")  # all views of an epoch are one statement
    # Over Arrow tables, DuckDB 2.0 makes `LEFT JOIN r ... WHERE r.k IS NULL` an anti join without
    # the conditions of r, and in a union gives rows of `ANTI JOIN r ON 1 = 1` though r has some.
    con.execute("SET disabled_optimizers = 'outer_join_simplification,statistics_propagation'")
    con.execute("CREATE MACRO timestamp_micros(n) AS make_timestamp(n)")
    return con


def forget_connection() -> None:
    """Begin with another database at the next case."""
    connection.cache_clear()
    _registered.clear()


@lru_cache(maxsize=4096)
def to_duckdb(sql: str) -> str:
    """One Spark statement as DuckDB's."""
    silent = sqlglot.ErrorLevel.IGNORE  # hints are dropped
    tree = with_lateral_joins(sqlglot.parse_one(sql, dialect="spark"))
    text = tree.sql("duckdb", identify=True, unsupported_level=silent)
    text = text.replace("RAISE_ERROR(", "ERROR(").replace("raise_error(", "error(")
    for name in ("ARG_MAX", "ARG_MIN"):  # of a NULL, too, as in Spark
        text = text.replace(f"{name}(", f"{name}_NULL(")
    return text.replace("LEFT SEMI JOIN", "SEMI JOIN").replace("LEFT ANTI JOIN", "ANTI JOIN")


def history(case: Case, tables: Collection[str]) -> Iterator[tuple[State, State, Feeds]]:
    """For each epoch the state before and after it, and the change feeds of the tables given."""
    state = case.initial()
    for commits in case.epochs:
        before, feeds = state, Feeds()
        for commit in commits:
            state, feed = play(state, commit)
            if commit.table in tables:
                feeds.setdefault(commit.table, []).extend(feed)
        yield before, state, feeds


def check(  # noqa: C901
    case: Case, mutant: Mutant | None = None, clocks: Sequence[datetime] = ()
) -> Iterator[Outcome]:
    """The outcome of each epoch in turn; with a mutant, of the epochs that it alters.

    The backfill comes first and has no outcome: it is right or raises. A query of free text that is
    not kept incrementally has none at all.

    Args:
        clocks: what the clock shows at the backfill and at each epoch, for a query that reads it.
    """
    sql, maker = render_sql(case), maker_of(case)
    if maker is None:
        return
    if clocks:
        sql = maker.move(clocks[0])
    state = case.initial()
    target = full_rows(case, sql, state)
    stored = _stored(case, maker, sql, state)
    if stored is None:
        return
    if mutant is None:
        _check_backfill(case, maker, state, target)
    for number, (before, state, feeds) in enumerate(history(case, maker.tables)):
        if clocks:
            sql = maker.move(clocks[number + 1])
        wanted = full_rows(case, sql, state)
        changed, old, target = wanted != target, target, wanted
        before_table, now = stored, _stored(case, maker, sql, state)
        plan = maker.plan_or_none(number, _kinds(feeds))
        if plan is None:
            yield Outcome(number, "rebuilt", changed)
            continue
        work = _mutated(plan, feeds, mutant) if mutant else (maker.program(plan), feeds)
        if work is None:
            continue
        program, feeds = work
        _load(case, program, {1: before, 2: state}, feeds)
        _register("target_stored", before_table)
        try:
            problem = _problem(program, plan.target, old, before_table, wanted, now)
        except Mismatch as error:
            problem = str(error)
        except duckdb.Error as error:
            if now is None and _tells_ties(error):
                yield Outcome(number, "tied", changed)
                return
            if mutant is None:
                raise
            problem = str(error)
        if now is None:
            problem = problem or "rows that differ tie, and the run does not tell"
            yield Outcome(number, "tied", changed, problem)
            return
        stored = now
        whole = any(step.kind == "scan" for path in plan.paths for step in path.steps)
        yield Outcome(number, "whole" if whole else plan.target.kind, changed, problem)


def _kinds(feeds: Feeds) -> dict[str, str]:
    """Changed tables with what happened to each."""
    return {
        name: "insert_only" if all(kind == "insert" for kind, _ in events) else "mutating"
        for name, events in feeds.items()
    }


def _problem(
    program: Program,
    target: Target,
    old: Bag,
    table: pa.Table,
    wanted: Bag,
    stored: pa.Table | None,
) -> str:
    """What is wrong with the target after the run: with what a user sees of it, or with the rest.

    Args:
        table, stored: the target's rows before, and as a rebuild would store them now; None where
            it stops at ties.
    """
    if target.kind == "bag":
        if target.hidden:
            old = Bag({row[:-1]: row[-1] for row in _rows(table)})
        return _difference(_seen(_applied(program, target, old), target), wanted)
    found = _applied(program, target, _rows(table))
    if problem := _difference(_seen(found, target), wanted):
        return problem
    problem = _difference(found, _rows(stored)) if stored is not None else ""
    return f"hidden: {problem}" if problem else ""


def _rows(table: pa.Table) -> Bag:
    columns = [column.to_pylist() for column in table.columns]
    return Counter(zip(*columns, strict=True))


def _seen(found: Bag, target: Target) -> Bag:
    """The rows that a user sees."""
    names = target.stored
    shown = names.index(SHOWN) if SHOWN in names else None
    seen = Bag()
    for row, count in found.items():
        if shown is None or row[shown]:
            seen[row[: len(target.columns)]] += count
    return seen


def maker_of(case: Case) -> _PlanMaker | None:
    """The planner of a case; None for free text that is not kept incrementally."""
    sql, schemas = render_sql(case), {t.name: t.names for t in case.tables}
    types = {(t.name, name): kind for t in case.tables for name, kind in t.columns}
    keys = {t.name: t.key for t in case.tables}
    query = bind(sql, {t: schemas[t] for t in sorted(schemas)}, types, keys=keys)
    if query.graph is None:
        assert case.query, query.reason
        return None
    known = {t: key for t, key in keys.items() if key}
    graph = with_neighbours(query.graph, known, types)
    described = describe(graph, known, types)
    graph = with_ties_compared(graph, described.keys, described.types)
    maker = _PlanMaker(case, sql, graph)
    return None if maker.is_ambiguous() else maker


def _mutated(plan: DeltaPlan, feeds: Feeds, mutant: Mutant) -> tuple[Program, Feeds] | None:
    """What a run with this mistake would execute and read; None where it makes no difference."""
    altered = mutant.plan(plan) if mutant.plan else plan
    if altered is None or not feeds:
        return None
    program: Program | None = build_program(altered)
    if mutant.program:
        program = mutant.program(build_program(altered), plan)
    read = mutant.feed(feeds) if mutant.feed else feeds
    return None if program is None or read is None else (program, read)


def draw(seed: int, profile: Profile = TUNED, make: Make = generate) -> Case:
    """The case of a seed, of some attempts the first whose query has rows: a join that is empty
    mostly stays so, and shows little."""
    for attempt in range(2 if make is generate else 4):
        case = make(seed, profile, attempt)
        if full_rows(case, render_sql(case), case.initial()):
            break
    return case


def full_rows(case: Case, sql: str, state: State) -> Bag:
    """The user's own query on DuckDB, over the tables as they are."""
    con = connection()
    for table in case.tables:
        _register(table.name, _arrow(table.columns, tuple(state[table.name].values())))
    return Counter(con.execute(to_duckdb(sql)).fetchall())


def _tells_ties(error: duckdb.Error) -> bool:
    return "deltajoin:WINDOW_TIES" in str(error)


def _stored(case: Case, maker: _PlanMaker, sql: str, state: State) -> pa.Table | None:
    """The rows that a rebuild stores, with their types; None where it finds rows that tie."""
    con = connection()
    if maker.graph.grouping is None and maker.graph.windowing is None:
        for table in case.tables:
            _register(table.name, _arrow(table.columns, tuple(state[table.name].values())))
        return con.sql(to_duckdb(sql)).to_arrow_table()
    _load(case, maker.full, {1: state, 2: state}, {})
    try:
        return con.sql(_whole(maker.full)).to_arrow_table()
    except duckdb.Error as error:
        if _tells_ties(error):
            return None
        raise


def _check_backfill(case: Case, maker: _PlanMaker, state: State, wanted: Bag) -> None:
    program, target = maker.full, maker.target
    _load(case, program, {1: state, 2: state}, {})
    con = connection()
    rows = con.execute(_whole(program)).fetchall()
    found = Counter(rows)
    if target.kind == "bag":
        if len(found) != len(rows):
            raise Mismatch("backfill: a distinct row comes twice")
        found = Counter({row[:-1]: row[-1] for row in rows})
    found = _seen(found, target)
    if problem := _difference(found, wanted):
        raise Mismatch(f"backfill: {problem}")
    if program.key_check and con.execute(to_duckdb(program.key_check)).fetchall():
        raise Mismatch("key check: found a violation where there is none")


def _whole(program: Program) -> str:
    """A rebuild's query as one text: what Spark opens before it stands before it by name."""
    assert program.full is not None
    return _over(_texts(program.apart), program.full)


class _PlanMaker:
    """Plans for a case: the real planner on random statistics and random epoch orders."""

    def __init__(self, case: Case, sql: str, graph: JoinGraph) -> None:
        self.case, self.sql, self.graph, self.tables = case, sql, graph, graph.sources
        self.keys = {t.name: t.key for t in case.tables if t.key}
        types = {(t.name, name): kind for t in case.tables for name, kind in t.columns}
        self.described = describe(graph, self.keys, types)
        keys, types = self.described.keys, self.described.types
        key = row_key(graph, keys, types)
        self.state = group_state(graph, types, self.described.inexact)
        hidden = hidden_columns(graph, self.state)
        self.target = Target(
            place="/target",
            name_parts=(),
            location="/target",
            exists=True,
            kind=("grouped" if hidden else "keyed") if key else "bag",
            columns=graph.output_names,
            key=key,
            hidden=hidden,
        )

        random = Random(case.seed)
        sizes = (None, 0, 1, 10, 1_000, 50_000, 10_000_000)
        self.rows = {name: random.choice(sizes) for name in graph.sources}
        self.change_rows = {
            name: random.choice((None, 0, 3, 500, 2_000_000)) for name in graph.sources
        }
        self.statistics = Statistics(self.rows, self.keys, types=types)
        self.order: tuple[str, ...] | None = None
        if random.random() < 0.5:
            names = tuple(relation.name for relation in graph.relations)
            self.order = tuple(random.sample(names, len(names)))
        cores = (core for part in graph.parts for core in part.branches)
        crossed = any(p.kind == "cross" for core in cores for p in core.all_predicates())
        by_cost = random.random() < 0.7 or crossed
        self.strategy = COST if by_cost else random.choice(STRATEGIES)
        self.methods = {name: random.choice(METHODS) for name in graph.sources}
        self.programs: dict[tuple[Any, ...], Program] = {}
        self.moment: Moment | None = None

    def move(self, clock: datetime) -> str:
        """Plan by this clock from now on; gives the query at that moment."""
        now, before = micros(clock), self.moment.now if self.moment else None
        self.moment = Moment(now, before, before not in (None, now))
        sql = frozen_query(self.sql, now, [n for t in self.case.tables for n in t.names])
        assert sql is not None
        return sql

    def is_ambiguous(self) -> bool:
        """True for aggregates whose result depends on how rows that tie are ordered."""
        known = self.described
        return any(ambiguous_aggregate(part, known.keys, known.types) for part in self.graph.parts)

    def program(self, plan: DeltaPlan) -> Program:
        """The plan's statements, which depend on nothing but which sources changed."""
        changed = (*((s.source, s.change_kind) for s in plan.sources if s.changed), self.moment)
        if changed not in self.programs:
            self.programs[changed] = build_program(plan)
        return self.programs[changed]

    @property
    def full(self) -> Program:
        """The statements of a rebuild, over version 1."""
        key = ("full", self.moment)
        if key not in self.programs:
            self.programs[key] = build_program(replace(self.plan(0, {}), strategy="full"))
        return self.programs[key]

    def plan_or_none(self, epoch: int, changed: dict[str, str]) -> DeltaPlan | None:
        """The plan of an epoch; None where it can't be kept and the run is full."""
        if order_dependent(self.graph, self.described, self.target.kind):
            return None
        return self.plan(epoch, changed)

    def plan(self, epoch: int, changed: dict[str, str]) -> DeltaPlan:
        """The plan of an epoch; `changed`: table -> what happened to it."""
        versions = {
            name: SourceVersion(
                source=name,
                location=name,
                table_id="",
                version=2 if name in changed else 1,
                previous=1,
                columns=self.case.table(name).columns,
                rows=self.rows[name],
                change_rows=self.change_rows[name],
                change_kind=changed.get(name, "noop"),
                method=self.methods[name],
                files=SOME_FILES if self.methods[name] == "files" else None,
            )
            for name in self.graph.sources
        }
        order, tables = self.order, versions
        known = Knowledge(self.described, self.statistics, versions, moment=self.moment)
        derived, known = plan_derived(self.graph, known, self.strategy)
        statistics, versions = known.statistics, dict(known.versions)
        if order is None:
            order, _ = epoch_order(self.graph, statistics, versions, self.strategy)
        state = group_state(self.graph, self.described.types)
        choice = Choice(aggregated=merged_columns(self.graph, state))
        paths = lookup_paths(self.graph, statistics, order, versions, self.strategy)
        return DeltaPlan(
            model="m",
            fingerprint="",
            model_hash="",
            sql=self.sql,
            mode="incremental",
            strategy="incremental" if changed or self.moment else "noop",
            reason="",
            detail="",
            epoch=epoch,
            target=self.target,
            sources=tuple(tables[name] for name in sorted(tables)),
            keys=tuple(sorted((s, k) for s, k in self.keys.items() if s in tables)),
            graph=self.graph,
            epoch_order=order,
            find_full_query=lambda: plan_full_query(
                self.graph, statistics, self.described.types, choice
            ),
            paths=with_running(paths, self.graph, statistics, self.state, versions.values()),
            settings=None,
            regroup=regroup(self.graph, statistics, order, versions, self.state),
            derived=derived,
            state=self.state,
            statistics=statistics,
        )


# loading ------------------------------------------------------------------------------------------


def _arrow_type(kind: str) -> pa.DataType:
    if kind.startswith("decimal"):
        return pa.decimal128(6, 2)
    return {"int": pa.int32(), "bigint": pa.int64(), "string": pa.string(), "date": pa.date32()}[
        kind
    ]


@lru_cache(maxsize=256)
def arrow_schema(columns: tuple[tuple[str, str], ...]) -> pa.Schema:
    return pa.schema([(name, _arrow_type(kind)) for name, kind in columns])


@lru_cache(maxsize=256)
def _arrow(columns: tuple[tuple[str, str], ...], rows: tuple[Row, ...]) -> pa.Table:
    schema = arrow_schema(columns)
    arrays = [pa.array([row[i] for row in rows], type=field.type) for i, field in enumerate(schema)]
    return pa.Table.from_arrays(arrays, schema=schema)


_registered: dict[str, pa.Table] = {}


def _register(view: str, rows: pa.Table) -> None:
    if _registered.get(view) is not rows:
        connection().register(view, rows)
        _registered[view] = rows


def _load(case: Case, program: Program, states: dict[int, State], feeds: Feeds) -> None:
    for scan in program.scans:
        table = case.table(scan.location)
        rows = states[scan.version][table.name].values()
        _register(scan.view, _arrow(table.columns, tuple(rows)))
    for feed in program.feeds:
        columns = (*case.table(feed.source).columns, ("_change_type", "string"))
        events = tuple((*row, kind) for kind, row in feeds.get(feed.source, ()))
        if feed.method == "feed":
            _register(feed.raw_view, _arrow(columns, events))
        for read in feed.reads:
            rows = states[read.version][feed.source].values()
            _register(read.view, _arrow(case.table(feed.source).columns, tuple(rows)))


# evaluation ---------------------------------------------------------------------------------------


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _applied(program: Program, target: Target, old: Bag) -> Bag:
    """The target after the run's statements, as the MERGE would leave it."""
    sql = to_write(program)
    if sql is None:
        return old
    rows = connection().execute(sql).fetchall()
    return _merge_bag(rows, old) if target.kind == "bag" else _merge_keyed(rows, target, old)


def to_write(program: Program) -> str | None:
    """The run's statements as one query for what is written; None where no path is left."""
    views = views_of(program)
    if not views:
        return None
    assert program.fold is not None
    return _over(views, program.fold)


def _over(views: Sequence[tuple[str, str]], sql: str) -> str:
    """A query after others that it reads by name, for DuckDB."""
    head = ", ".join(f"{_identifier(name)} AS ({to_duckdb(text)})" for name, text in views)
    return f"WITH {head} SELECT * FROM ({to_duckdb(sql)})" if views else to_duckdb(sql)


def views_of(program: Program) -> list[tuple[str, str]]:
    """The views that a run's last statement reads, each over those before it; none without a path.

    What is read of tables is not among them.
    """
    views = [(feed.view, feed.sql) for feed in program.feeds]
    for derived in program.derived:
        views += _texts(derived.scans)
        if derived.change is None:
            continue
        views += _path_views(derived, derived.rows)
        views += _texts([derived.touched] if derived.touched else [])
        views += _texts((*derived.regroup, derived.change))
    found = _path_views(program, "path_rows")
    if not found:  # a no-op, or every path dropped
        return []
    views += found
    if program.touched:
        views.append(("touched", program.touched))
        views += _texts(program.regroup)
    return list(placed(views, program.narrowed))


def _texts(statements: Sequence[Statement]) -> list[tuple[str, str]]:
    return [(s.view, s.sql) for s in statements]


def _path_views(program: Program | DerivedProgram, name: str) -> list[tuple[str, str]]:
    """The views of all paths and last the union of what they give; none without a path."""
    views, ends = [], []
    for path in program.paths:
        views += _texts(path.statements)
        ends.append(path.statements[-1].view)
    for part in program.shared:
        views.append((part.view, part.sql))
        views += _texts(part.statements)
        ends = [view for view in ends if view not in part.inputs]
        ends.append(part.statements[-1].view)
    union = " UNION ALL ".join(f"SELECT * FROM {quote(view)}" for view in ends)
    return [*views, (name, union)] if ends else []


def _merge_bag(rows: list[tuple[Any, ...]], old: Bag) -> Bag:
    new = old.copy()
    for row in rows:
        new[row[:-1]] += int(row[-1])
        if row[-1] == 0 or new[row[:-1]] < 0:
            raise Mismatch(f"multiplicity of {row[:-1]} changes by {row[-1]}")
    return +new


def _merge_keyed(rows: list[tuple[Any, ...]], target: Target, old: Bag) -> Bag:
    at = [target.stored.index(name) for name in target.key]
    rest = [i for i in range(len(target.stored)) if i not in at]
    by_key = {tuple(row[i] for i in at): row for row in old}
    if len(by_key) != old.total():
        raise Mismatch("the target's key is not unique in the query's rows")
    for *values, operation in rows:
        key = tuple(values[: len(at)])
        if (key in by_key) == (operation == "insert"):
            raise Mismatch(f"{operation} of key {key}")
        if operation == "delete":
            del by_key[key]
            continue
        row: list[Any] = [None] * len(target.stored)
        for i, value in zip((*at, *rest), values, strict=True):
            row[i] = value
        if key in by_key and _rough(by_key[key]) == _rough(tuple(row)):
            raise Mismatch(f"the unchanged row {row} is written again")
        by_key[key] = tuple(row)
    return Counter(by_key.values())


def _rough(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The row with averages to three digits: DuckDB's of decimals are doubles, Spark's are not."""
    return tuple(_digits(v) if isinstance(v, (float, Decimal)) else v for v in row)


def _roughly(bag: Bag) -> Bag:
    rough = Bag()
    for row, count in bag.items():
        rough[_rough(row)] += count
    return rough


def _digits(value: float | Decimal) -> float | Decimal:
    fine = isinstance(value, float) or int(value.as_tuple().exponent) < -2
    return math.floor(float(value) * 1000 + 0.123) / 1000 if fine else value


def _difference(found: Bag, wanted: Bag) -> str:
    if found == wanted:
        return ""
    found, wanted = (_roughly(bag) for bag in (found, wanted))
    if found == wanted:
        return ""
    missing, surplus = wanted - found, found - wanted
    return (
        f"missing {sorted(missing.items(), key=repr)}, too many {sorted(surplus.items(), key=repr)}"
    )
