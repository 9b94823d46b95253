"""JoinGraph -> Hypergraph: edges with their conflict rules, implied edges, delayed filters.

Blocks are walked from below. What a block hands up is what may not be split by a join above it:
its operators (rules of CD-C), its core (what its inner conjuncts touch: a join that may not change
places with an inner one needs all of it) and what its filters need. A conjunct over columns of the
null-supplied side of a join below needs that join done; the rules say so, hence it can't sink.
Where no conjunct reaches a part of a block, a cross product stands between the parts, named so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

from deltajoin.graph import Block, ColumnRef, Join, JoinGraph, Predicate
from deltajoin.names import quote
from deltajoin.planner.canonical import anonymous, canonical_names
from deltajoin.planner.conflicts import (
    INNER,
    Operator,
    absorb,
    left_rules,
    operator,
    right_rules,
)
from deltajoin.planner.hypergraph import Edge, Filter, Hypergraph, Rule, bits, union
from deltajoin.planner.push_down import push_down

Types = Mapping[tuple[str, str], str]


@dataclass(frozen=True)
class _Below:
    """A part of the query seen from above: all its relations, its operators, its inner rules."""

    relations: int
    operators: tuple[Operator, ...] = ()
    inner: tuple[Rule, ...] = ()


def build_hypergraph(graph: JoinGraph, types: Types | None = None) -> Hypergraph:
    """The hypergraph of a query.

    Args:
        types: (source, column) -> type. Equalities are closed over columns of one known type only:
            '01' = 1 and 1 = '1' do not make '01' = '1'.
    """
    builder = _Builder(graph, types or {})
    builder.block(push_down(graph.root))
    numbers = {name: number for number, name in enumerate(builder.names)}

    def edge_order(edge: Edge) -> tuple[object, ...]:
        texts = tuple(anonymous(predicate.sql, numbers) for predicate in edge.predicates)
        return (edge.relations, edge.left, edge.kind, edge.implied, texts)

    def filter_order(judged: Filter) -> tuple[object, ...]:
        return (judged.needs, anonymous(judged.predicate.sql, numbers))

    return Hypergraph(
        builder.names,
        tuple(sorted(dict.fromkeys(builder.edges), key=edge_order)),
        tuple(sorted(dict.fromkeys(builder.filters), key=filter_order)),
    )


class _Builder:
    def __init__(self, graph: JoinGraph, types: Types) -> None:
        self.names = canonical_names(graph)
        self.edges: list[Edge] = []
        self.filters: list[Filter] = []
        self._bit = {name: 1 << i for i, name in enumerate(self.names)}
        self._source = {relation.name: relation.source for relation in graph.relations}
        self._types = types

    def _touched(self, predicate: Predicate) -> int:
        return union(self._bit[relation] for relation in predicate.relations)

    def block(self, block: Block) -> _Below:
        """Add what a block joins; the block seen from above."""
        items = [self._item(item) for item in block.items]
        relations = union(item.relations for item in items)
        edges: list[Edge] = []
        filters: list[Filter] = []
        at = {bit: number for number, item in enumerate(items) for bit in bits(item.relations)}

        def holding(touched: int) -> list[_Below]:
            return [
                items[number] for number in sorted({at[bit] for bit in bits(touched) if bit in at})
            ]

        for predicate in (p for p in block.predicates if p.kind != "cross"):
            touched = self._touched(predicate) or self._first(block)
            met = holding(touched)
            if len(met) > 1:
                edges.append(_inner_edge((predicate,), touched, met))
            else:
                filters.append(Filter(absorb(touched, _rules(met))[0], predicate))
        for predicate in self._implied(block, items):
            touched = self._touched(predicate)
            edges.append(_inner_edge((predicate,), touched, holding(touched), implied=True))
        edges += _crosses(items, edges)
        self.edges += edges
        self.filters += filters
        inner = [rule for item in items for rule in item.inner]
        inner += [(f.needs, f.needs) for f in filters if f.needs & (f.needs - 1)]
        if edges:
            inner.append((relations, union(edge.relations for edge in edges)))
        operators = tuple(below for item in items for below in item.operators)
        return _Below(relations, operators, tuple(inner))

    def _item(self, item: str | Join) -> _Below:
        return _Below(self._bit[item]) if isinstance(item, str) else self._join(item)

    def _join(self, join: Join) -> _Below:
        left, right = self.block(join.left), self.block(join.right)
        joined = operator(join.kind, left.relations, right.relations, join.on, self.names)
        rules: list[Rule] = []
        for below in left.operators:
            rules += left_rules(below, joined)
        for below in right.operators:
            rules += right_rules(joined, below)
        if left_rules(INNER, joined):
            rules += left.inner
        if right_rules(joined, INNER):
            rules += right.inner
        needed = joined.needed(left.relations) | joined.needed(right.relations)
        held, open_rules = absorb(needed, tuple(rules))
        self.edges.append(
            Edge(join.kind, held & left.relations, held & right.relations, join.on, open_rules)
        )
        return _Below(
            left.relations | right.relations,
            (*(below.below(joined) for below in left.operators), *right.operators, joined),
            (*left.inner, *right.inner),
        )

    def _first(self, block: Block) -> int:
        """A relation whose rows are those of the block; where a constant is judged."""
        starts = (
            self._bit[item] if isinstance(item, str) else self._first(item.left)
            for item in block.items
        )
        return min(starts)

    def _implied(self, block: Block, items: list[_Below]) -> tuple[Predicate, ...]:
        """Equalities between items that follow from those of the block, and are not written."""
        written = {frozenset(p.refs) for p in block.predicates if p.left is not None}
        same = tuple(p for p in _equalities(block) if self._is_of_one_type(p))
        classes = JoinGraph((), same, ()).equivalence
        home = {bit: i for i, item in enumerate(items) for bit in bits(item.relations)}
        implied: dict[tuple[ColumnRef, ColumnRef], Predicate] = {}
        for members in dict.fromkeys(classes.values()):
            for one, other in combinations(sorted(members), 2):
                apart = home[self._bit[one[0]]] != home[self._bit[other[0]]]
                if apart and frozenset((one, other)) not in written:
                    implied[one, other] = _equality(one, other)
        return tuple(implied[key] for key in sorted(implied))

    def _is_of_one_type(self, equality: Predicate) -> bool:
        kinds = {self._types.get((self._source[rel], name)) for rel, name in equality.refs}
        return len(kinds) == 1 and None not in kinds


def _equality(one: ColumnRef, other: ColumnRef) -> Predicate:
    left, right = (f"{quote(relation)}.{quote(column)}" for relation, column in (one, other))
    return Predicate(f"{left} = {right}", "edge", (one, other), one, other)


def _equalities(block: Block) -> Iterator[Predicate]:
    """Equalities that hold on every row of a block: its own and those of preserved sides."""
    yield from (p for p in block.predicates if p.kind == "edge")
    for item in block.items:
        if isinstance(item, Join) and item.kind != "full":
            yield from _equalities(item.left)


def _rules(items: Iterable[_Below]) -> tuple[Rule, ...]:
    """What an inner conjunct over these items must not split."""
    return tuple(
        rule
        for item in items
        for below in item.operators
        for rule in (*left_rules(below, INNER), *right_rules(INNER, below))
    )


def _inner_edge(
    predicates: tuple[Predicate, ...], touched: int, items: list[_Below], implied: bool = False
) -> Edge:
    held, open_rules = absorb(touched, _rules(items))
    parts = sorted(held & item.relations for item in items)
    edge = Edge("inner", parts[0], union(parts[1:]), predicates, open_rules, (), implied)
    return edge if len(parts) == 2 else replace(edge, parts=tuple(parts))


def _crosses(items: list[_Below], edges: list[Edge]) -> list[Edge]:
    """Cross products between the parts of a block that its edges leave apart.

    An edge over more than two parts connects nothing by itself: two of them must meet first.
    """
    parts = sorted(items, key=lambda item: item.relations & -item.relations)
    crosses: list[Edge] = []
    waiting = edges
    while True:
        parts, waiting = _grown(parts, waiting)
        if len(parts) == 1:
            return crosses
        spans = [[p for p in parts if p.relations & edge.relations] for edge in waiting]
        apart = min(spans, key=len, default=parts)
        for one, other in combinations(apart, 2):
            both = one.relations | other.relations
            crosses.append(_inner_edge((), both, [one, other]))
        parts = [part for part in parts if part not in apart] + [_merged(apart)]


def _grown(parts: list[_Below], edges: list[Edge]) -> tuple[list[_Below], list[Edge]]:
    """Parts merged along edges that span exactly two, until none does; the edges left over."""
    while True:
        left: list[Edge] = []
        merged = False
        for edge in edges:
            met = [part for part in parts if part.relations & edge.relations]
            if len(met) == 2:
                parts = [part for part in parts if part not in met] + [_merged(met)]
                merged = True
            elif len(met) > 2:
                left.append(edge)
        if not merged or not left:
            return parts, left
        edges = left


def _merged(parts: list[_Below]) -> _Below:
    return _Below(
        union(part.relations for part in parts),
        tuple(below for part in parts for below in part.operators),
    )
