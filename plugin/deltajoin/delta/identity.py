"""Which output columns identify a row of the target.

The key of the result is the union of the declared keys of the relations that nothing else
determines: a relation whose whole key is equated with columns of others adds nothing, because each
row of the others finds at most one row of it; so does one that they put between neighbours
(`delta.neighbours`). Equality determines only between columns of one type (`'01' = 1` matches two
strings). What an outer join attaches never determines what it is attached to, but it is told
apart among its own matches only: of `o LEFT JOIN l ON l.order = o.id` the key (order, line) of l
adds `line`, as its order is that of o, and where there is no match there is one row. Semi and anti
joins add nothing. If a relation lacks a key, a key column is not given out, or a full join adds
rows of either side, the target is a bag: distinct rows with a multiplicity.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from deltajoin.delta.neighbours import Lookup, lines_of
from deltajoin.graph import ColumnRef, Core, JoinGraph, Predicate

Keys = Mapping[str, tuple[str, ...]]
Types = Mapping[ColumnRef, str]


def row_key(graph: JoinGraph, keys: Keys, types: Types) -> tuple[str, ...]:
    """Output columns that are unique in what the query gives out, in output order; empty for a bag.

    Generators repeat rows, so that nothing identifies a row above one.
    """
    windowing = graph.windowing
    if graph.grouping is not None:
        return graph.grouping.key_outputs
    if windowing is not None and windowing.first_of:
        return windowing.first_of
    if graph.generation is not None:
        return ()
    return target_key(_given_out(graph), keys, types)


def why_a_bag(graph: JoinGraph, keys: Keys, types: Types) -> str:
    """What keeps rows from being identified; empty where a key does."""
    if graph.generation is not None:
        return "a generator repeats rows"
    if _is_united(graph):
        return "rows of several branches (UNION ALL, a full join) may be equal"
    if unknown := sorted(_sources(graph) - keys.keys()):
        return f"no key of {', '.join(unknown)} is declared"
    columns = [*_key_columns(_given_out(graph), keys, types)]
    if not columns:
        return "there is one row at most, which needs no key"
    lost = sorted(f"{name}.{column}" for (name, column), given in columns if not given)
    return f"{', '.join(lost)}, of its key, is not selected" if lost else ""


def _given_out(graph: JoinGraph) -> JoinGraph:
    """The joined rows with the names under which what is above windows gives them out."""
    windowing = graph.windowing
    if windowing is None:
        return graph
    below = {p.name: p for p in graph.projections}
    outputs = (o for o in (*windowing.outputs, *windowing.hidden) if o.column)
    shown = tuple(replace(below[o.column or ""], name=o.name) for o in outputs)
    return replace(graph, projections=shown)


def joined_columns(graph: JoinGraph) -> dict[str, str]:
    """Column of the rows that groups or windows read -> that of the joined rows which it is, where
    it is one."""
    if graph.generation is None:
        return {name: name for name in graph.row_names}
    return {o.name: o.column for o in graph.generation.outputs if o.column}


def target_key(graph: JoinGraph, keys: Keys, types: Types) -> tuple[str, ...]:
    """The same of the joined rows.

    Args:
        keys: source -> its unique columns (schema spelling).
        types: (source, column) -> type.
    """
    if _is_united(graph) or not _sources(graph) <= keys.keys():
        return ()
    outputs = {given for _, given in _key_columns(graph, keys, types)}
    return () if "" in outputs else tuple(p.name for p in graph.projections if p.name in outputs)


def _is_united(graph: JoinGraph) -> bool:
    return len(graph.branches) > 1 or graph.has_union


def _sources(graph: JoinGraph) -> set[str]:
    """The sources that add rows or columns, in what is no union."""
    levels = _levels(graph.branches[0])
    return {graph.by_name[name].source for level in levels for name in level.relations}


def _key_columns(graph: JoinGraph, keys: Keys, types: Types) -> Iterator[tuple[ColumnRef, str]]:
    """The columns that identify a row, each with the output that has it; empty where none does."""
    joined = _Joined(graph, keys, types)
    for level in _levels(graph.branches[0]):
        for name in joined.independent(level):
            for column in keys[graph.by_name[name].source]:
                if not joined.is_known(level, (name, column), level.known):
                    same = joined.same(level.inner, (name, column))
                    given = (p.name for p in graph.projections if p.column in same)
                    yield (name, column), next(given, "")


def independent_relations(graph: JoinGraph, keys: Keys, types: Types) -> tuple[str, ...]:
    """The relations whose keys identify a row; each other one is determined by these."""
    joined, levels = _Joined(graph, keys, types), _levels(graph.branches[0])
    return tuple(name for level in levels for name in joined.independent(level))


@dataclass(frozen=True)
class _Level:
    """Relations joined inner, what is known before them, and the predicates that may be used."""

    relations: tuple[str, ...]
    known: frozenset[str]
    inner: tuple[Predicate, ...]
    predicates: tuple[Predicate, ...]


def _levels(
    core: Core, known: frozenset[str] = frozenset(), above: tuple[Predicate, ...] = ()
) -> Iterator[_Level]:
    own = core.early
    yield _Level(core.relations, known, own, (*above, *own))
    known |= core.inner
    for attachment in core.attachments:
        if attachment.kind == "left":
            yield from _levels(attachment.core, known, (*above, *own, *attachment.on))
            known |= frozenset(attachment.core.everything)


@dataclass(frozen=True)
class _Joined:
    """The joined rows of a query: what determines which relation on a level."""

    graph: JoinGraph
    keys: Keys
    types: Types

    def independent(self, level: _Level) -> tuple[str, ...]:
        """The relations of a level that no others determine."""
        everything = frozenset(level.relations) | level.known
        chosen = sorted(level.relations)
        for name in sorted(chosen, key=lambda n: (len(self.keys[self._source(n)]), n)):
            rest = [other for other in chosen if other != name]
            if self._closure(level, frozenset(rest)) == everything:
                chosen = rest
        return tuple(chosen)

    def _closure(self, level: _Level, start: frozenset[str]) -> frozenset[str]:
        known = start | level.known
        grew = True
        while grew:
            grew = False
            for name in level.relations:
                if name not in known and self._is_determined(level, name, known):
                    known |= {name}
                    grew = True
        return known

    def _is_determined(self, level: _Level, name: str, known: frozenset[str]) -> bool:
        def are_known(columns: Iterable[str]) -> bool:
            return all(self.is_known(level, (name, c), known) for c in columns)

        def type_of(column: exp.Column) -> str:
            return self.types.get((self._source(column.table), column.name), "")

        source = self._source(name)
        if are_known(self.keys[source]):
            return True
        below = next((d.graph for d in self.graph.derived if d.name == source), None)
        lines = [line for line in (lines_of(below) if below else ()) if are_known(line.partition)]
        asked = Lookup(name, known, level.predicates, type_of)
        return any(line.finds_one(asked) for line in lines) or any(
            line.finds_nearest(other, asked) for line in lines if line.upward for other in lines
        )

    def is_known(self, level: _Level, column: ColumnRef, known: frozenset[str]) -> bool:
        """Whether a column of a match is equal to one of the known relations."""
        return any(ref[0] in known for ref in self.same(level.predicates, column))

    def same(self, predicates: tuple[Predicate, ...], column: ColumnRef) -> tuple[ColumnRef, ...]:
        """A column and those of its type that predicates equate it with, also by way of others."""
        reached, todo = {column}, [column]
        while todo:
            here = todo.pop()
            for predicate in predicates:
                if predicate.left is None or predicate.right is None:
                    continue
                pair = (predicate.left, predicate.right)
                if here in pair and self._type(pair[0]) == self._type(pair[1]):
                    fresh = [ref for ref in pair if ref not in reached]
                    reached.update(fresh)
                    todo += fresh
        return tuple(sorted(reached))

    def _source(self, name: str) -> str:
        return self.graph.by_name[name].source

    def _type(self, ref: ColumnRef) -> str:
        return self.types[(self._source(ref[0]), ref[1])]
