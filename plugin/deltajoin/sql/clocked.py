"""A relation under a condition on the clock, as a source of its own.

    FROM orders o JOIN customers c ... WHERE o.day >= current_date() - 7
    FROM (SELECT ... FROM orders WHERE day >= current_date() - 7) o JOIN customers c ...

So the condition stands in one place, and the source's change is that of the relation by the new
clock and the rows that cross between both clocks (`emit/derived_sources.py`). It may be a
condition of a WHERE, of an inner join, or of an outer, semi or anti join on its far side, over one
relation or none, in each arm of a union. What else is judged becomes such a relation first: rows of
groups, windows and generators, joined rows (`sql.judged`). Any other condition on the clock stays
where it is: then the query is not kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from deltajoin.graph import Block, Core, Derived, Join, JoinGraph, Predicate, Relation
from deltajoin.names import UniqueNames
from deltajoin.sql.clock import clock_calls, clock_read, frozen, reads_clock
from deltajoin.sql.dialect import parse_expression
from deltajoin.sql.judged import with_layers_below
from deltajoin.sql.nodes import column
from deltajoin.sql.predicates import projection_of


def with_clocked_sources(graph: JoinGraph, names: UniqueNames) -> JoinGraph:
    """The graph with conditions on the clock moved into sources.

    Args:
        names: those of all sources; new ones are taken from it.
    """
    graph = with_layers_below(graph, names, lambda below: with_clocked_sources(below, names))
    moved = movable(graph)
    graph = _without(graph, frozenset(p for own in moved.values() for p in own))
    read = set(_read(graph)) if moved else set()
    for relation in graph.relations:
        if own := moved.get(relation.name, ()):
            graph = _clocked(graph, relation, own, read, names)
    return graph


def movable(graph: JoinGraph) -> dict[str, tuple[Predicate, ...]]:
    """Relation -> conditions on the clock that filter it before all joins, wherever they stand."""
    if graph.copies:
        return {}
    found = [(core.everything, _by_relation(core)) for core in graph.branches]
    fixed = {p for _, own in found for p in own.get("", ())}
    while True:
        moved: dict[str, tuple[Predicate, ...]] = {}
        left = set(fixed)
        for name in dict.fromkeys(name for _, own in found for name in own if name):
            ways = [own.get(name, ()) for everything, own in found if name in everything]
            if any(set(way) != set(ways[0]) or fixed & set(way) for way in ways):
                left |= {p for way in ways for p in way}
            else:
                moved[name] = ways[0]
        if left == fixed:
            return moved
        fixed = left


def decided_by_clock(graph: JoinGraph) -> bool:
    """True where conditions on the clock are left that no source can take."""
    taken = {p for own in movable(graph).values() for p in own}
    found = (p for core in graph.branches for p in core.all_predicates())
    return any(p not in taken and _reads_clock(p) for p in found)


def _reads_clock(predicate: Predicate) -> bool:
    return "(" in predicate.sql and reads_clock(parse_expression(predicate.sql))


def at_moment(graph: JoinGraph, micros: int) -> JoinGraph:
    """The graph of a clocked source with the clock at a moment."""
    predicates = tuple(replace(p, sql=frozen(p.sql, micros)) for p in graph.predicates)
    return replace(graph, predicates=predicates)


def text_at(text: str, micros: int) -> str:
    """The text of a clocked source with the clock at a moment."""
    return frozen(f"({text})", micros)[1:-1]


def clock_of_sources(graph: JoinGraph) -> str:
    """What of the clock decides rows of clocked sources: "", "day" or "instant"."""
    return clock_read(
        call
        for derived in graph.all_derived
        if derived.clocked
        for sql in judging(derived)
        for call in clock_calls(parse_expression(sql))
    )


def judging(derived: Derived) -> tuple[str, ...]:
    """What of a clocked source reads the clock: conditions, or a text in brackets."""
    if derived.text:
        return (f"({derived.text})",)
    return tuple(predicate.sql for predicate in derived.graph.predicates)


def _by_relation(core: Core) -> dict[str, tuple[Predicate, ...]]:
    """The conditions on the clock by the relation that each filters before all joins, or "". A
    constant filters any that is joined inner."""
    found: dict[str, dict[Predicate, None]] = {}
    for predicate, inner in _judging(core):
        touched = [*predicate.relations] or [*inner.relations[:1]]
        alone = len(touched) == 1 and touched[0] in inner.inner
        found.setdefault(touched[0] if alone else "", {})[predicate] = None
    return {name: tuple(own) for name, own in found.items()}


def _judging(core: Core) -> Iterator[tuple[Predicate, Core]]:
    """Each condition on the clock, and the core whose rows it may filter."""
    yield from ((p, core) for p in core.predicates if _reads_clock(p))
    for attachment in core.attachments:
        yield from ((p, attachment.core) for p in attachment.on if _reads_clock(p))
        yield from _judging(attachment.core)


def _clocked(
    graph: JoinGraph,
    relation: Relation,
    own: tuple[Predicate, ...],
    read: set[tuple[str, str]],
    names: UniqueNames,
) -> JoinGraph:
    name = names.take(f"{relation.name}_by_clock")
    columns = tuple(c for c in relation.columns if (relation.name, c) in read)
    columns = columns or relation.columns[:1]
    below = tuple(d for d in graph.derived if d.name == relation.source)
    rows = JoinGraph(
        (relation,),
        own,
        tuple(projection_of(c, column(c, relation.name)) for c in columns),
        derived=below,
    )
    others = tuple(replace(r, source=name, columns=columns) if r is relation else r
                   for r in graph.relations)  # fmt: skip
    used = {r.source for r in others}
    derived = [*(d for d in graph.derived if d.name in used), Derived(name, rows, clocked=True)]
    return replace(
        graph, relations=others, derived=tuple(sorted(derived, key=lambda one: one.name))
    )


def _read(graph: JoinGraph) -> Iterator[tuple[str, str]]:
    """The columns that anything but the moved conditions reads."""
    for core in graph.branches:
        yield from (ref for p in core.all_predicates() for ref in p.refs)
        yield from (ref for p in graph.outputs(core) for ref in p.refs)
    yield from (ref for p in _written(graph.root) for ref in p.refs)


def _written(block: Block) -> Iterator[Predicate]:
    yield from block.predicates
    for item in block.items:
        if isinstance(item, Join):
            yield from (*item.on, *_written(item.left), *_written(item.right))


def _without(graph: JoinGraph, gone: frozenset[Predicate]) -> JoinGraph:
    """The graph without some conditions, in its normal form and as it was written."""

    def left(predicate: Predicate) -> bool:
        return predicate not in gone

    def of_core(core: Core) -> Core:
        attachments = tuple(
            replace(a, core=of_core(a.core), on=tuple(filter(left, a.on))) for a in core.attachments
        )
        predicates = tuple(filter(left, core.predicates))
        return replace(core, predicates=predicates, attachments=attachments)

    return replace(
        graph,
        predicates=tuple(filter(left, graph.predicates)),
        joins=tuple(join.only(left) for join in graph.joins),
        cores=tuple(map(of_core, graph.cores)),
    )
