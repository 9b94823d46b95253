"""Small graphs for the planner's tests: inner conjuncts in a line each, joins of two blocks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from deltajoin.graph import Block, Join, JoinGraph, Predicate, Relation
from deltajoin.planner.hypergraph import Edge, Filter, Hypergraph

_COLUMN = re.compile(r"\b([a-z]\w*)\.(\w+)\b")


def predicate(text: str) -> Predicate:
    """`a.x = b.y` is an edge, one relation a filter, all else a residual."""
    refs = tuple(sorted({(m[1], m[2]) for m in _COLUMN.finditer(text)}))
    sql = _COLUMN.sub(r"`\1`.`\2`", text)
    parts = text.split(" = ")
    columns = [_COLUMN.fullmatch(part) for part in parts]
    names = {relation for relation, _ in refs}
    if len(parts) == 2 and len(names) == 2 and all(columns):
        left, right = ((m[1], m[2]) for m in columns if m)
        return Predicate(sql, "edge", refs, left, right)
    return Predicate(sql, "filter" if len(names) == 1 else "residual", refs)


def graph(
    relations: Sequence[str], conjuncts: Iterable[str], joins: Iterable[Join] = ()
) -> JoinGraph:
    """Relations `name` or `name:source`; conjuncts of the root block."""
    pairs = [entry.partition(":")[::2] for entry in relations]
    return JoinGraph(
        tuple(Relation(name, source or name, ()) for name, source in pairs),
        tuple(predicate(text) for text in conjuncts),
        (),
        tuple(joins),
    )


def join(kind: str, left: str | Join, right: str | Join, *on: str) -> Join:
    """A join of two relations or joins."""
    sides = (Block((side,), ()) for side in (left, right))
    return Join(kind, *sides, tuple(predicate(text) for text in on))


def hypergraph(of: JoinGraph) -> Hypergraph:
    """The hypergraph of a graph, without conflict rules: enough to estimate sets."""
    names = tuple(sorted(relation.name for relation in of.relations))
    bare = Hypergraph(names, ())
    edges: list[Edge] = []
    filters: list[Filter] = []
    for found in of.predicates:
        mask = bare.set_of(found.relations)
        if found.kind == "filter":
            filters.append(Filter(mask, found))
        else:
            low = mask & -mask
            edges.append(Edge("inner", low, mask & ~low, (found,)))
    waiting = list(of.joins)
    while waiting:
        at = waiting.pop()
        left, right = (bare.set_of(frozenset(s.relations)) for s in (at.left, at.right))
        edges.append(Edge(at.kind, left, right, at.on))
        waiting += [i for side in (at.left, at.right) for i in side.items if isinstance(i, Join)]
    return Hypergraph(names, tuple(edges), tuple(filters))
