"""Which output columns identify a row of the target.

The key of the result is the union of the declared keys of the relations that nothing else
determines: a relation whose whole key is equated with columns of others adds nothing, because each
row of the others finds at most one row of it. Equality determines only between columns of one type
(`'01' = 1` matches two strings). If a relation lacks a key, or a key column is not in the output,
the target is a bag: distinct rows with a multiplicity.
"""

from __future__ import annotations

from collections.abc import Mapping

from deltajoin.graph import ColumnRef, JoinGraph

Keys = Mapping[str, tuple[str, ...]]
Types = Mapping[ColumnRef, str]


def target_key(graph: JoinGraph, keys: Keys, types: Types) -> tuple[str, ...]:
    """Output columns that are unique in the result, in output order; empty for a bag.

    Args:
        keys: source -> its unique columns (schema spelling).
        types: (source, column) -> type.
    """
    if any(relation.source not in keys for relation in graph.relations):
        return ()
    outputs: set[str] = set()
    for name in independent_relations(graph, keys, types):
        for column in keys[graph.by_name[name].source]:
            output = _output_of(graph, (name, column), types)
            if output is None:
                return ()
            outputs.add(output)
    return tuple(p.name for p in graph.projections if p.name in outputs)


def independent_relations(graph: JoinGraph, keys: Keys, types: Types) -> tuple[str, ...]:
    """The relations whose keys identify a row; each other one is determined by these."""
    everything = frozenset(relation.name for relation in graph.relations)
    chosen = sorted(everything)
    for name in sorted(everything, key=lambda n: (len(keys[graph.by_name[n].source]), n)):
        rest = [other for other in chosen if other != name]
        if _closure(graph, keys, types, frozenset(rest)) == everything:
            chosen = rest
    return tuple(chosen)


def _closure(graph: JoinGraph, keys: Keys, types: Types, start: frozenset[str]) -> frozenset[str]:
    known = start
    grew = True
    while grew:
        grew = False
        for relation in graph.relations:
            if relation.name not in known and all(
                any(ref[0] in known for ref in _same_type(graph, (relation.name, column), types))
                for column in keys[relation.source]
            ):
                known |= {relation.name}
                grew = True
    return known


def _same_type(graph: JoinGraph, column: ColumnRef, types: Types) -> tuple[ColumnRef, ...]:
    def type_of(ref: ColumnRef) -> str:
        return types[(graph.by_name[ref[0]].source, ref[1])]

    reached, todo = {column}, [column]
    while todo:
        here = todo.pop()
        for predicate in graph.predicates:
            if predicate.left is None or predicate.right is None:
                continue
            pair = (predicate.left, predicate.right)
            if here in pair and type_of(pair[0]) == type_of(pair[1]):
                fresh = [ref for ref in pair if ref not in reached]
                reached.update(fresh)
                todo += fresh
    return tuple(sorted(reached))


def _output_of(graph: JoinGraph, column: ColumnRef, types: Types) -> str | None:
    same = _same_type(graph, column, types)
    return next((p.name for p in graph.projections if p.column in same), None)
