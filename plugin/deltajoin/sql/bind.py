"""SQL text -> JoinGraph: one pass after the other.

    inline     views -> subqueries with their text        `views`, before a text comes here
    parse      text -> tree                               `dialect` (`grammar`, `spans`)
    resolve    names of tables -> sources                 `tables`
    check      known clauses, deterministic calls         `known`, `refuse`
    layer      tree -> blocks of joins, layers on them    `binder` (`from_clause`, `layers`, ...)
    normalise  blocks -> predicates, normal forms         `classify` (`imply`, `normalise`, ...)
    set apart  stamps, and sources under the clock        `stamps`, `clocked`
    check      the clock decides rows nowhere else        `stamps`

To layer, normalise and set apart is done for each derived source, then for the whole; so these
three stand in `Binder.graph`. A CTE, a derived table and joins in brackets that are plain
select-project-join blocks dissolve into their relations; each reference to a CTE is an occurrence
of its own. One with groups, windows or generators is a relation over a derived source. Anything
that nothing here understands makes the query *opaque*: the text stays as it is and only full
recomputation is possible.

Caller: gives the columns of every source; gets a `BoundQuery`, or a `DeltaJoinError` where the text
can't be a query over these tables at all.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from sqlglot import exp

from deltajoin.errors import Refusal
from deltajoin.graph import JoinGraph
from deltajoin.names import UniqueNames
from deltajoin.sql.binder import Binder, Columns, Sources
from deltajoin.sql.clock import names_clock, on_a_day
from deltajoin.sql.clocked import clock_of_sources
from deltajoin.sql.dialect import Unreadable, parse, spelled
from deltajoin.sql.exact import Types
from deltajoin.sql.generators import as_views
from deltajoin.sql.known import check_known
from deltajoin.sql.opaque import may_be_a_query
from deltajoin.sql.refuse import Unsupported, bare_functions, check_deterministic
from deltajoin.sql.scope import UnknownColumn
from deltajoin.sql.stamps import (
    check_clock,
    check_declared,
    clock_of_rows,
    spelled_without,
    stamp_outputs,
)
from deltajoin.sql.tables import resolve_tables


@dataclass(frozen=True)
class BoundQuery:
    """A query on known tables: a join graph, or the reason why there is none.

    `clock`: what of it decides the rows: "", "day" or "instant"; `reads_clock` is true also where
    only stamps of a query without graph do. `daily` says where the graph is that of one day, with a
    mark in place of the clock (`sql.clock.dated`).
    """

    sql: str
    tables: tuple[str, ...]
    graph: JoinGraph | None
    reason: Refusal | None
    canonical: str
    clock: str = ""
    reads_clock: bool = False
    daily: Refusal | None = None

    def as_text(self, stamps: Collection[str]) -> BoundQuery:
        """The same as a query that is run as its own text: its stamps are told from the text."""
        declared = frozenset(map(str.lower, stamps))
        canonical = spelled_without(self.sql, declared)
        clock, reads_clock = clock_of_rows(self.sql, declared)
        found = replace(self, graph=None, daily=None, canonical=canonical)
        return replace(found, clock=clock, reads_clock=reads_clock)


_NESTED = Refusal(
    "SQL_PARSE_ERROR", "an expression that is nested too deeply", "the SQL", "Divide it."
)


def bind(
    sql: str,
    columns: Columns,
    types: Types | None = None,
    functions: Collection[str] = (),
    stamps: Collection[str] = (),
    keys: Columns | None = None,
) -> BoundQuery:
    """Bind a query to its source tables; one that the date decides, as it is on one day.

    Args:
        columns: source name -> column names in schema order; SHOWN among them is no column, but
            holds for the rows that the source has.
        types: (source, column) -> type; a union is kept where types are known.
        functions: those of the user's own that are declared deterministic.
        stamps: outputs that are declared to move from run to run.
        keys: source -> its declared key.

    Raises:
        DeltaJoinError: SQL_PARSE_ERROR, NOT_A_QUERY, UNKNOWN_TABLE, UNKNOWN_COLUMN,
            AMBIGUOUS_COLUMN, DUPLICATE_COLUMN, RESERVED_NAME, NOT_A_STAMP.
    """
    given = (columns, types, functions, stamps, keys)
    found = _bind(sql, *given)
    if found.reason is None or (found.reason.code, found.clock) != ("CLOCK", "day"):
        return found
    names = {column.lower() for source in columns.values() for column in source}
    declared = frozenset(name.lower() for name in stamps)
    fixed = on_a_day(sql, names, lambda query: stamp_outputs(query, declared))
    one_day = _bind(fixed, *given) if fixed else found
    if one_day.graph is None or one_day.clock:
        return found
    return replace(found, graph=one_day.graph, reason=None, daily=found.reason)


def _bind(
    sql: str,
    columns: Columns,
    types: Types | None,
    functions: Collection[str],
    stamps: Collection[str],
    keys: Columns | None,
) -> BoundQuery:
    try:
        query = parse(sql)
    except Unreadable as error:
        if not may_be_a_query(sql):
            raise
        unread = replace(error.refusal, where=error.where or "the SQL")
        clock = "instant" if names_clock(sql) else ""
        return BoundQuery(sql, tuple(sorted(columns)), None, unread, spelled(sql), clock)
    canonical = spelled(sql)
    tables = resolve_tables(query, columns)
    declared = frozenset(map(str.lower, stamps))
    lambdas = query.find_all(exp.Lambda)
    taken = frozenset(p.name.lower() for each in lambdas for p in each.expressions)
    sources = Sources(UniqueNames(tuple(columns)), declared, taken, keys or {})
    try:
        check_known(query, sql)
        check_deterministic(query, {name.lower() for name in functions})
        as_views(query)
        graph = Binder(columns, types or {}, sources).graph(query)
        if not graph.sources:
            raise Unsupported("NO_FROM", "a query without a table", query, "Select from a table.")
        check_clock(graph, query)
    except (Unsupported, UnknownColumn, RecursionError) as stop:
        if isinstance(stop, UnknownColumn) and not stop.is_known(query, columns):
            raise
        refusal = _NESTED if isinstance(stop, RecursionError) else stop.refusal
        if isinstance(stop, UnknownColumn):
            what = f"a query in which {refusal.message}, which Spark may know otherwise,"
            refusal = replace(refusal, message=what)
        # What changes by itself is told before anything else.
        found = next((bare.refusal for bare in bare_functions(query)), refusal)
        why = replace(found, message=f"{found.message} is not kept incrementally")
        return BoundQuery(sql, tables, None, why, canonical).as_text(stamps)
    check_declared(graph, stamps)
    return BoundQuery(sql, tables, graph, None, canonical, clock_of_sources(graph))
