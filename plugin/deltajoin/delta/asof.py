"""The row of another table that is last before each row, found by each candidate's neighbour.

People write ASOF joins as the best of all pairs. Spark then makes all pairs, and a row that comes
late touches every row after it. Where declared keys say that the rows of `l` and `r` are told apart

    SELECT l.id, r.price FROM l LEFT JOIN r ON l.k = r.k AND r.ts <= l.ts
    QUALIFY row_number() OVER (PARTITION BY l.id ORDER BY r.ts DESC) = 1

    SELECT l.id, max_by(r.price, r.ts) FROM l LEFT JOIN r ON l.k = r.k AND r.ts <= l.ts
    GROUP BY l.id

give the rows of

    SELECT l.id, r.price FROM l LEFT JOIN
      (SELECT *, lead(ts) OVER (PARTITION BY k ORDER BY ts) AS next_ts FROM r) AS r
    ON l.k = r.k AND r.ts <= l.ts AND (l.ts < r.next_ts OR r.next_ts IS NULL)

and are kept as that (`delta.neighbours`); so are inner joins, the first row after each (`min_by`,
ascending), and further bounds on the other side (`sql.bounds`). Every other query stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from deltajoin.delta.derived import Described, describe
from deltajoin.delta.identity import Keys, Types, row_key
from deltajoin.delta.ties import Fixed
from deltajoin.graph import Core, Derived, JoinGraph, Predicate, Relation
from deltajoin.layers import INPUT
from deltajoin.names import SHOWN, UniqueNames
from deltajoin.sql.binder import over_table
from deltajoin.sql.bounds import Bounds
from deltajoin.sql.dialect import closed, exchanged, parse_expression, parsed, text, with_columns
from deltajoin.sql.nearest import Taken, taken_by_aggregates, without_aggregates
from deltajoin.sql.nodes import column, function_name, number
from deltajoin.sql.normalise import as_block, simplify
from deltajoin.sql.predicates import predicate_of, projection_of, relations_in

_FIRST = frozenset({"dense_rank", "rank", "row_number"})


def with_neighbours(graph: JoinGraph, keys: Keys, types: Types) -> JoinGraph:
    """The query with each such join in it, at any depth, written by neighbours.

    Args:
        keys: table -> its declared key.
        types: (table, column) -> type.
    """
    names = UniqueNames((*graph.sources, *(derived.name for derived in graph.all_derived)))
    made: dict[str, Derived] = {}

    def of(graph: JoinGraph) -> JoinGraph:
        for below in graph.derived:
            if below.name not in made:
                made[below.name] = below if below.text else replace(below, graph=of(below.graph))
        graph = replace(graph, derived=tuple(made[below.name] for below in graph.derived))
        best = _by_window(graph) or _by_groups(graph)
        if best is None:
            return graph
        found = _rewritten(graph, best, describe(graph, keys, types), names)
        if found is None:
            return graph
        known = describe(found, keys, types)
        # A key's values are checked, NULL among them, only where they identify the rows.
        return found if row_key(found, known.keys, known.types) else graph

    return of(graph)


@dataclass(frozen=True)
class _Best:
    """What a query says of the row that it takes of several.

    `given` are the columns that tell apart what it is taken for. `outputs` are made of the joined
    row that is taken, and the `conditions` are asked of it.
    """

    given: tuple[exp.Expr, ...]
    taken: Taken
    outputs: tuple[tuple[str, exp.Expr], ...]
    conditions: tuple[exp.Expr, ...] = ()


def _rewritten(
    graph: JoinGraph, best: _Best, known: Described, names: UniqueNames
) -> JoinGraph | None:
    if graph.generation or graph.copies or graph.has_union or len(graph.branches) != 1:
        return None
    core = graph.branches[0]
    if core.nulls:
        return None
    taken, place = best.taken, _place(core, best.taken.at.table)
    bounds = _bounds(graph, core, best, place, known)
    if bounds is None:
        return None
    own = graph.by_name[taken.at.table]
    types = {name: known.types[own.source, name] for name in own.columns}
    below = over_table(own.source, types, taken.neighbours(own.columns, bounds))
    derived = Derived(names.take(f"{own.name}_neighbours"), below, asof=taken.text)
    core = _joined(core, place, predicate_of(taken.until(own.columns, bounds)), best.conditions)
    block = as_block(core)
    relation = Relation(own.name, derived.name, (*own.columns, taken.beside(own.columns)))
    return replace(
        graph,
        relations=tuple(relation if r.name == own.name else r for r in graph.relations),
        predicates=block.predicates,
        projections=tuple(projection_of(name, value) for name, value in best.outputs),
        joins=tuple(item for item in block.items if not isinstance(item, str)),
        cores=(core,) if core.attachments else (),
        grouping=None,
        windowing=None,
        derived=tuple(sorted((*graph.derived, derived), key=lambda d: d.name)),
    )


# what is taken ------------------------------------------------------------------------------------


def _over_joined(graph: JoinGraph) -> Callable[[str | exp.Expr], exp.Expr]:
    """Makes an expression over the joined rows, of one over what windows or groups read."""
    below = {p.name: parsed(p.sql) for p in graph.projections}

    def value_of(part: exp.Column) -> exp.Expr | None:
        return closed(below[part.name]) if part.table == INPUT and part.name in below else None

    def over(node: str | exp.Expr) -> exp.Expr:
        return with_columns(parsed(node) if isinstance(node, str) else node, value_of)

    return over


def _by_window(graph: JoinGraph) -> _Best | None:
    """Of a query that keeps the first row of each partition."""
    windowing = graph.windowing
    if windowing is None or len(windowing.windows) != 1:
        return None
    ((name, sql),) = windowing.windows
    window, over, mine = parse_expression(sql), _over_joined(graph), text(column(name, INPUT))
    order = window.args.get("order")
    if function_name(window.this) not in _FIRST or order is None:
        return None
    conditions = [parsed(condition).unnest() for condition in windowing.conditions]
    others = tuple(node for node in conditions if not _is_first(node, mine))
    if len(others) == len(conditions) or any(
        name == part.name for node in others for part in node.find_all(exp.Column)
    ):
        return None

    def value(sql: str) -> exp.Expr:
        node = exchanged(parsed(sql), lambda part: number(1) if text(part) == mine else None)
        return over(node)

    best, *ties = order.expressions
    at = over(best.this).unnest()
    if not isinstance(at, exp.Column):
        return None
    return _Best(
        given=tuple(over(part).unnest() for part in window.args.get("partition_by") or []),
        taken=Taken(at, bool(best.args.get("desc")), tuple(over(part) for part in ties)),
        outputs=tuple((output.name, value(output.sql)) for output in windowing.outputs),
        conditions=tuple(over(node) for node in others),
    )


def _is_first(node: exp.Expr, number: str) -> bool:
    """True for a condition that a row's number is 1."""
    sides = [text(side.unnest()) for side in (node.this, node.args.get("expression")) if side]
    match node:
        case exp.EQ():
            return sorted(sides) == sorted((number, "1"))
        case exp.LTE():
            return sides == [number, "1"]
        case exp.LT():
            return sides == [number, "2"]
    return False


def _by_groups(graph: JoinGraph) -> _Best | None:
    """Of a query that gives out values of the last row of each group, or of the first."""
    grouping = graph.grouping
    if grouping is None or not grouping.keys or grouping.having:
        return None
    over = _over_joined(graph)
    outputs = [(name, over(sql)) for name, sql in grouping.outputs]
    taken = taken_by_aggregates(node for _, node in outputs)
    if taken is None:
        return None
    return _Best(
        given=tuple(over(column(key, INPUT)).unnest() for key in grouping.keys),
        taken=taken,
        outputs=tuple((name, without_aggregates(node, taken.at)) for name, node in outputs),
    )


# what it is taken of ------------------------------------------------------------------------------


def _bounds(
    graph: JoinGraph, core: Core, best: _Best, place: int | None, known: Described
) -> Bounds | None:
    """What the join says of its candidates, where the query takes what the neighbours give."""
    name, keys, types = best.taken.at.table, known.keys, known.types
    given = {(c.table, c.name) for c in best.given if isinstance(c, exp.Column)}
    fixed = frozenset(Fixed(graph, keys, types, set(given)).fixed)
    told = all(relations_in(node) <= fixed for node in best.given)
    source = graph.by_name[name].source
    if not told or name in fixed or source not in graph.sources or source not in keys:
        return None
    joined = place is not None or name in core.inner
    if not joined or SHOWN in graph.by_name[name].columns or _filters(core, fixed, name, place):
        return None

    def type_of(column: exp.Column) -> str:
        return types.get((graph.by_name[column.table].source, column.name), "")

    conditions = core.predicates
    if place is not None:
        attached = core.attachments[place]
        conditions = (*attached.on, *attached.core.predicates)
    bounds = Bounds(best.taken.at, best.taken.last, fixed, type_of)
    order = best.taken.order(bounds) if all(map(bounds.add, conditions)) else None
    if order is None:
        return None
    row = given | {(name, column) for column in order}
    return bounds if Fixed(graph, keys, types, row).is_row else None


def _joined(
    core: Core, place: int | None, until: Predicate, conditions: tuple[exp.Expr, ...]
) -> Core:
    """The core with the neighbour's condition, and what is asked of the row that is found."""
    own = (until,) if place is None else ()
    asked = tuple(map(predicate_of, conditions))
    core = replace(core, predicates=(*core.predicates, *own, *asked))
    if place is not None:
        attached = core.attachments[place]
        attached = replace(attached, on=(*attached.on, until))
        before, after = core.attachments[:place], core.attachments[place + 1 :]
        core = replace(core, attachments=(*before, attached, *after))
    return simplify(core)


def _place(core: Core, name: str) -> int | None:
    """Which attachment a relation is, by itself and on the left."""
    found = (i for i, a in enumerate(core.attachments) if a.core.everything == (name,))
    return next((i for i in found if core.attachments[i].kind == "left"), None)


def _filters(core: Core, fixed: frozenset[str], name: str, place: int | None) -> bool:
    """True where something besides the candidates' own join decides which of them there are."""
    inner = {name} if place is None else set[str]()
    if not all(p.relations <= fixed | inner and p.kind != "cross" for p in core.predicates):
        return True
    filters = (a for a in core.attachments if a.kind != "left")
    outer = (p.relations - frozenset(a.core.everything) for a in filters for p in a.on)
    return not all(relations <= fixed for relations in outer)
