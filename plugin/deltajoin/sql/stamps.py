"""Output columns that are the same in all rows and move with the clock or the run: stamps.

    SELECT o.id, c.name, current_timestamp() AS loaded_at FROM o JOIN c ...

What the query gives out splits into rows, which are kept, and stamps, which a row gets when it is
written. A stamp reads no column, through all layers and in every arm of a union alike; that it
moves is seen from its functions, or declared, for a literal that is rendered anew at each run. The
clock anywhere else decides rows: such a query is not kept.

Caller: gives finished graphs, derived ones first; takes `stamps` for expressions where a derived
graph is read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from sqlglot import exp

from deltajoin.errors import DeltaJoinError
from deltajoin.graph import Core, Derived, Grouping, JoinGraph, Projection, Stamp
from deltajoin.layers import INPUT, Generation, Windowing
from deltajoin.sql import functions
from deltajoin.sql.clock import clock_calls, clock_read, moves, reads_clock
from deltajoin.sql.clocked import text_at
from deltajoin.sql.dialect import (
    clauses_of,
    edited,
    parse,
    parse_expression,
    place,
    spelled,
    text,
    unwrapped,
    with_columns,
)
from deltajoin.sql.grouping_sets import has_sets
from deltajoin.sql.nodes import function_name
from deltajoin.sql.refuse import Unsupported
from deltajoin.sql.spans import span_of
from deltajoin.sql.tables import find_cte, only_query

Constants = Mapping[str, str]
_NEVER = (exp.Column, exp.Query, exp.Window, exp.Star, exp.Exists, exp.Placeholder, exp.Parameter)
_REMEDY = "Filter by the clock in WHERE or HAVING; else the query is rebuilt when the clock moves."


def is_constant(node: exp.Expr) -> bool:
    """True for an expression over literals, scalar functions, the clock and the run alone.

    Example:
        >>> [is_constant(parse_expression(sql)) for sql in ("now() - interval 1 day", "count(1)")]
        [True, False]
    """
    known = functions.SCALARS | functions.CLOCK | functions.RUN
    return all(
        not isinstance(part, _NEVER)
        and (not isinstance(part, exp.Anonymous) or function_name(part) in known)
        for part in node.walk()
    )


def without_stamps(graph: JoinGraph, declared: Collection[str] = ()) -> JoinGraph:
    """The graph with its stamps apart from its rows.

    Args:
        declared: names of outputs, in lower case, that are stamps where they are constant.

    Raises:
        Unsupported: CLOCK where no other output, or no other group key, is left.
    """
    rows = _joined(graph)
    below = outputs = rows
    for layer in graph.layers:
        below, outputs = outputs, _constants(layer, outputs)
    stamps = tuple(
        Stamp(name, outputs[name], place)
        for place, name in enumerate(graph.output_names)
        if name in outputs and (name.lower() in declared or moves(parse_expression(outputs[name])))
    )
    if not stamps:
        return graph
    if len(stamps) == len(graph.output_names):
        raise Unsupported("CLOCK", "a query of stamps alone", None, "Select a column too.")
    gone = {stamp.name for stamp in stamps}
    moved = {stamp.sql for stamp in stamps}
    graph = replace(_without_outputs(graph, gone, below, moved), stamps=stamps)
    return _pruned(graph, {name for name, sql in rows.items() if sql in moved})


def visible(graph: JoinGraph) -> list[tuple[str, exp.Expr | None]]:
    """All outputs as the query gives them out, with the expression of each that is a stamp."""
    found: list[tuple[str, exp.Expr | None]] = [(name, None) for name in graph.output_names]
    for stamp in graph.stamps:
        found.insert(stamp.position, (stamp.name, parse_expression(stamp.sql)))
    return found


def check_clock(graph: JoinGraph, query: exp.Query) -> None:
    """`Unsupported` where the clock or the run decides rows, at any depth.

    Args:
        query: as it was parsed, for the line.
    """
    clocked = [derived.graph for derived in graph.all_derived if derived.clocked]
    for part in (part for part in graph.parts if part not in clocked):
        for sql in _texts(part):
            found = next((n for n in parse_expression(sql).walk() if moves(n)), None)
            if found is None:
                continue
            if not reads_clock(found):
                what = f"{sql}, which gives another result at each run,"
                raise Unsupported("NON_DETERMINISTIC", what, _line(query), _REMEDY)
            what = "the clock inside a row"
            if sql in {p.sql for core in part.branches for p in core.all_predicates()}:
                what = "the clock in an outer, semi or anti join's condition over the side it keeps"
            raise Unsupported("CLOCK", what, _line(query), _REMEDY)


def check_declared(graph: JoinGraph, declared: Collection[str]) -> None:
    """Refuse a declared stamp that is none.

    Raises:
        DeltaJoinError: NOT_A_STAMP.
    """
    found = {stamp.name.lower() for stamp in graph.stamps}
    for name in declared:
        if name.lower() not in found:
            what = f"stamps: '{name}' is no output column that is the same in all rows"
            remedy = "Declare literals and expressions of literals alone."
            raise DeltaJoinError("NOT_A_STAMP", what, where=name, remedy=remedy)


# A query that is rebuilt: by its text ------------------------------------------------------------


def stamp_outputs(query: exp.Query, declared: Collection[str] = ()) -> list[exp.Expr]:
    """The stamps of a query, also through CTEs and subqueries whose columns are all passed on, as
    nodes of its tree; one that anything else in the query may read is none."""
    found = _stamps_of(query, declared)
    inside = {id(node) for _, _, value in found for node in value.walk()}
    read = {c.name.lower() for c in query.find_all(exp.Column) if id(c) not in inside}
    return [value for name, _, value in found if name not in read]


def _stamps_of(query: exp.Expr, declared: Collection[str]) -> list[tuple[str, int, exp.Expr]]:
    """Name, position and expression of each output that may be a stamp."""
    select = _innermost(query)
    if isinstance(select, exp.SetOperation):
        left, right = (_stamps_of(arm, declared) for arm in (select.this, select.expression))
        same = set(map(_place_and_words, left)) & set(map(_place_and_words, right))
        return [stamp for stamp in (*left, *right) if _place_and_words(stamp) in same]
    found = []
    outputs = select.expressions if isinstance(select, exp.Select) else []
    for position, node in enumerate(outputs):
        value = node.unalias()
        bare = isinstance(value, exp.Column) and reads_clock(value)
        moving = node.alias_or_name.lower() in declared or bare or moves(value)
        if moving and (bare or is_constant(value)):
            found.append((node.alias_or_name.lower(), position, value))
    return found


def _place_and_words(stamp: tuple[str, int, exp.Expr]) -> tuple[int, str]:
    return stamp[1], spelled(text(stamp[2]))


def stamp_columns(query: exp.Query, declared: Collection[str] = ()) -> dict[str, str]:
    """The stamps of a query that is run as it is: name, in lower case, -> expression. Only such as
    certainly stand under that name, and with one value, in all that the query gives out."""
    first = _innermost(query)
    while isinstance(first, exp.SetOperation):
        first = _innermost(first.this)
    sets = list(query.find_all(exp.SetOperation))
    unsure = (
        any(alias.args.get("columns") for alias in query.find_all(exp.TableAlias)),
        any(has_sets(select) for select in query.find_all(exp.Select)),
        any(union.args.get("by_name") for union in sets),
        sets and any(e.is_star for s in query.find_all(exp.Select) for e in s.expressions),
    )
    if any(unsure) or not isinstance(first, exp.Select):
        return {}
    stamps = {id(stamp) for stamp in stamp_outputs(query, declared)}
    names = [node.alias_or_name.lower() for node in first.expressions]
    return {
        name: text(node.this)
        for name, node in zip(names, first.expressions, strict=True)
        if isinstance(node, exp.Alias) and id(node.this) in stamps and names.count(name) == 1
    }


def clock_of_rows(sql: str, declared: Collection[str] = ()) -> tuple[str, bool]:
    """What of the clock decides the rows of a text: "", "day" or "instant"; and whether it is read
    at all."""
    query = parse(sql)
    stamped = {id(n) for stamp in stamp_outputs(query, declared) for n in stamp.walk()}
    calls = list(clock_calls(query))
    return clock_read(call for call in calls if id(call) not in stamped), bool(calls)


def spelled_without(sql: str, declared: Collection[str]) -> str:
    """What tells a text that is rebuilt from others: its words, but for its stamps' literals."""
    spans = filter(None, map(span_of, stamp_outputs(parse(sql), declared)))
    return spelled(edited(sql, ((s.start, s.end, masked(sql[s.start : s.end])) for s in spans)))


def masked(sql: str) -> str:
    """An expression with its literals masked, so that its type is still seen.

    Example:
        >>> masked("CAST('2026-01-03 04:05' AS TIMESTAMP)"), masked("20260103"), masked("1.25")
        ("CAST('?' AS TIMESTAMP)", '0', '0.00')
    """
    sql = re.sub(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"", "'?'", sql)
    sql = re.sub(r"(?<![\w.])\d{1,9}(?![\w.])", "0", sql)
    return re.sub(r"\d", "0", sql)


def _innermost(query: exp.Expr) -> exp.Expr:
    """The query below those that give out all columns of it, and nothing else."""
    while True:
        query = unwrapped(query) if isinstance(query, exp.Query) else query
        if not isinstance(query, exp.Select) or not _passes_on(query):
            return query
        below = only_query(query)
        if not isinstance(below, exp.Query) or _is_read_again(query.args["from_"].this):
            return query
        query = below


def _is_read_again(table: exp.Expr) -> bool:
    """True for one of several readings of a CTE."""
    cte = find_cte(table) if isinstance(table, exp.Table) else None
    others = table.root().find_all(exp.Table) if cte is not None else ()
    return any(other is not table and find_cte(other) is cte for other in others)


def _passes_on(select: exp.Select) -> bool:
    """True for `SELECT * FROM x`, cut off at most."""
    known = {"kind", "expressions", "from_", "with_", "limit"}
    if clauses_of(select) - known:
        return False
    star = select.expressions[0] if len(select.expressions) == 1 else None
    return isinstance(star, exp.Star) and not any(star.args.values())


# Levels of a graph -------------------------------------------------------------------------------


def _joined(graph: JoinGraph) -> dict[str, str]:
    """The constants among the joined rows' columns, alike in all branches."""
    found: dict[str, str] = {}
    for i, projection in enumerate(graph.projections):
        values = {graph.outputs(core)[i].sql for core in graph.branches}
        sql = projection.sql
        if values == {sql} and not projection.refs and is_constant(parse_expression(sql)):
            found[projection.name] = sql
    return found


def _constants(layer: Generation | Grouping | Windowing, below: Constants) -> dict[str, str]:
    """The constants among a layer's outputs, with those of the level below written out."""
    made = (o if isinstance(o, tuple) else (o.name, o.sql) for o in layer.outputs)
    values = ((name, _written_out(sql, below)) for name, sql in made)
    return {name: text(value) for name, value in values if is_constant(value)}


def _written_out(sql: str, below: Constants) -> exp.Expr:
    def constant(column: exp.Column) -> exp.Expr | None:
        written = below.get(column.name) if column.table == INPUT else None
        return parse_expression(written) if written is not None else None

    return with_columns(parse_expression(sql), constant)


def _without_outputs(
    graph: JoinGraph, gone: set[str], below: Constants, moved: set[str]
) -> JoinGraph:
    if graph.grouping is not None:
        return replace(graph, grouping=_ungrouped(graph.grouping, gone, below, moved))
    layer = graph.windowing or graph.generation
    if layer is None:
        return _without_columns(graph, gone)
    made = replace(layer, outputs=tuple(o for o in layer.outputs if o.name not in gone))
    if isinstance(made, Windowing):
        return replace(graph, windowing=made)
    return replace(graph, generation=made)


def _ungrouped(grouping: Grouping, gone: set[str], below: Constants, moved: set[str]) -> Grouping:
    """Groups without the keys that are stamps, which are the same in all of them."""
    pairs = [
        (key, output)
        for key, output in zip(grouping.keys, grouping.key_outputs, strict=False)
        if below.get(key) not in moved
    ]
    if grouping.keys and not pairs:
        raise Unsupported("CLOCK", "a GROUP BY of stamps alone", None, "Group by a column too.")
    ends = {key: below[key] for key in grouping.keys if below.get(key) in moved}
    return replace(
        grouping,
        having=text(_written_out(grouping.having, ends)) if grouping.having else None,
        keys=tuple(key for key, _ in pairs),
        outputs=tuple(o for o in grouping.outputs if o[0] not in gone),
        key_outputs=tuple(output for _, output in pairs) or grouping.key_outputs,
    )


def _without_columns(graph: JoinGraph, gone: set[str]) -> JoinGraph:
    def kept(projections: tuple[Projection, ...]) -> tuple[Projection, ...]:
        left = tuple(p for p in projections if p.name not in gone)
        return left or (Projection(projections[0].name, "TRUE", ()),) if projections else ()

    def cut(core: Core) -> Core:
        return replace(core, projections=kept(core.projections))

    cores = tuple(map(cut, graph.cores))
    return replace(graph, projections=kept(graph.projections), cores=cores)


def _pruned(graph: JoinGraph, spare: set[str]) -> JoinGraph:
    """The graph without columns of the joined rows that were for stamps alone."""
    if graph.generation is not None and len(graph.layers) > 1:
        read = _read(graph.layers[1].texts)
        kept = tuple(o for o in graph.generation.outputs if o.column not in spare or o.name in read)
        graph = replace(graph, generation=replace(graph.generation, outputs=kept))
    return _without_columns(graph, spare - _read(graph.layers[0].texts)) if graph.layers else graph


def _read(texts: Iterable[str]) -> set[str]:
    columns = (c for sql in texts for c in parse_expression(sql).find_all(exp.Column))
    return {column.name for column in columns if column.table == INPUT}


def _texts(graph: JoinGraph) -> Iterator[str]:
    """Every expression of a graph that decides its rows, each once."""
    found: dict[str, None] = {}
    for core in graph.branches:
        found |= dict.fromkeys(p.sql for p in core.all_predicates())
        found |= dict.fromkeys(p.sql for p in graph.outputs(core))
    found |= dict.fromkeys(p.sql for p in graph.predicates)
    found |= dict.fromkeys(sql for layer in graph.layers for sql in layer.texts)
    texts = (below.text for below in graph.derived if below.text and not _is_at_any_moment(below))
    found |= dict.fromkeys(f"({sql})" for sql in texts)
    yield from (sql for sql in found if "(" in sql)


def _is_at_any_moment(derived: Derived) -> bool:
    """True for a text that moves with the clock alone, for which any moment can be put."""
    if not derived.clocked:
        return False
    fixed = parse_expression(f"({text_at(derived.text, 0)})")
    return not (moves(fixed) or reads_clock(fixed))


def _line(query: exp.Query) -> exp.Expr | None:
    """The first call of the clock or the run, or the nearest around it whose line is known."""
    for node in query.walk():
        if moves(node) and node is not query and not node.find(exp.Query):
            return node if place(node) else node.parent
    return next((c for c in clock_calls(query) if place(c)), query)
