"""One SELECT, or one set operation, with all that stands below it -> blocks of joins, and a graph.

    FROM (`from_clause`), WHERE and its subqueries (`subqueries`), time windows, GROUP BY or the
    layers above (`layers`), the select list; then the joins judged by the clock, stamps

What has groups, windows, generators or a set of its own below is bound by a binder of its own, as a
derived source. Caller: `sql.bind`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from deltajoin.errors import DeltaJoinError
from deltajoin.graph import Derived, JoinGraph
from deltajoin.names import UniqueNames
from deltajoin.sql.classify import build_graph
from deltajoin.sql.clocked import decided_by_clock, with_clocked_sources
from deltajoin.sql.constants import by_clock
from deltajoin.sql.correlated import correlated_source
from deltajoin.sql.dialect import parse, unwrapped
from deltajoin.sql.exact import Types, derived_outputs
from deltajoin.sql.from_clause import fill, joined
from deltajoin.sql.group import distinct_rows, is_grouped, make_grouping, name_outputs
from deltajoin.sql.judged import joined_rows, judged_by_clock
from deltajoin.sql.layers import is_layered, layered, plain_rows
from deltajoin.sql.nodes import Given, Named, column
from deltajoin.sql.refuse import Unsupported, check_shape, check_union
from deltajoin.sql.scope import Block, Layered, Outer, Output, Scope, Union
from deltajoin.sql.stamps import visible, without_stamps
from deltajoin.sql.subqueries import add_where
from deltajoin.sql.union import (
    compared,
    counted_rows,
    is_counted_set,
    is_distinct_set,
    literals_of,
    matched,
    repeated,
)

Columns = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Sources:
    """The derived sources of a whole query, each by the part that it comes from; their names, the
    declared keys of the tables, the stamps that are declared; `taken` are the names that no
    relation may have, for a lambda's parameter stands before it: `x -> x + x.k`; `tried` the parts
    of which it is known whether they can be bound by themselves."""

    names: UniqueNames
    stamps: frozenset[str] = frozenset()
    taken: frozenset[str] = frozenset()
    keys: Columns = field(default_factory=dict)
    tried: dict[int, bool] = field(default_factory=dict)
    _derived: dict[int, tuple[object, Derived]] = field(default_factory=dict)

    def once(self, part: object, make: Callable[[], Derived]) -> Derived:
        """The source of a part, made when it is first read; parts are kept, so that no other gets
        the same id."""
        if id(part) not in self._derived:
            self._derived[id(part)] = (part, make())
        return self._derived[id(part)][1]


class Binder:
    """Binds one query; one more binds each subquery with a layer: groups, windows, generators."""

    def __init__(self, columns: Columns, types: Types, sources: Sources) -> None:
        self.relations: list[tuple[str, str]] = []
        self.columns, self.types = columns, types
        self.sources = sources
        self.derived: dict[str, Derived] = {}
        self.kinds: dict[tuple[str, str], str] = {}
        self.names = UniqueNames(tuple(sources.taken))

    def graph(self, query: exp.Query) -> JoinGraph:
        """Layer a query, normalise it, set apart its stamps and its sources under the clock."""
        layers = self._layers(query)
        graph = self._normalised(layers)
        graph = without_stamps(graph, self.sources.stamps)
        return with_clocked_sources(graph, self.sources.names)

    def _layers(self, query: exp.Query) -> Layered:
        """The joins of a query, with GROUP BY, UNION or further layers on top or without."""
        if is_distinct_set(query):
            return self._distinct_set(query)
        if is_counted_set(query):
            return self._counted_set(query)
        if isinstance(query, exp.Select) and (is_layered(query) or is_grouped(query)):
            return layered(query, self)
        return Layered(self.block(query))

    def inner(self) -> Binder:
        """A binder for what stands below, as a source."""
        return Binder(self.columns, self.types, self.sources)

    def alone(self) -> Binder:
        """A binder that leaves no trace in this query."""
        names, ours = UniqueNames(tuple(self.columns)), self.sources
        sources = Sources(names, taken=ours.taken, tried=ours.tried)
        return Binder(self.columns, self.types, sources)

    def can_bind(self, query: exp.Query) -> bool:
        """Whether a query can be bound by itself."""
        tried = self.sources.tried
        if id(query) not in tried:
            try:
                self.alone().graph(query)
                tried[id(query)] = True
            except (Unsupported, DeltaJoinError):
                tried[id(query)] = False
        return tried[id(query)]

    def source(self, layers: Layered, name: str) -> Derived:
        """What was bound here, as a source."""
        graph = with_clocked_sources(self._normalised(layers), self.sources.names)
        return Derived(self.sources.names.take(name), graph)

    def _normalised(self, layers: Layered) -> JoinGraph:
        """The graph of what was bound here; joins that the clock judges stand below."""
        fill(self, layers.block)
        graph = self._assembled(layers)
        if not decided_by_clock(graph):
            return graph
        for block in judged_by_clock(layers.block):
            self._put_below(block, layers.block)
        return self._assembled(layers)

    def _assembled(self, layers: Layered) -> JoinGraph:
        read = sorted({source for _, source in self.relations if source in self.derived})
        derived = tuple(self.derived[name] for name in read)
        columns = {**self.columns, **{d.name: d.graph.output_names for d in derived}}
        type_of = self.type_of if self.types else None
        return build_graph(self.relations, layers, columns, derived, type_of)

    def _put_below(self, block: Block, root: Block) -> None:
        """Make the joins of a block a source, whose rows its conditions on the clock judge."""
        relation = self.names.take("joined")
        inner, put = self.below(relation)
        names = block.relations
        inner.relations = [pair for pair in self.relations if pair[0] in names]
        self.relations = [pair for pair in self.relations if pair[0] not in names]
        inner.derived, inner.kinds = dict(self.derived), self.kinds
        block.items = put(Layered(joined_rows(block, root, relation))).items

    def below(self, relation: str) -> tuple[Binder, Callable[[Layered], Block]]:
        """A binder for a source of its own below, and what puts a relation over what it made."""
        inner = self.inner()

        def put(layers: Layered) -> Block:
            derived = inner.source(layers, relation)
            self.derived[derived.name] = derived
            self.relations.append((relation, derived.name))
            return Block(items=[relation])

        return inner, put

    def over_table(self, source: str, columns: Sequence[str], text: str) -> JoinGraph:
        """The graph of a query over some columns of a table, which it calls r."""
        types = {name: self.types.get((source, name), "") for name in columns}
        return over_table(source, types, text)

    def block(
        self,
        query: exp.Query,
        outer: Scope | None = None,
        name: str = "",
        *,
        distinct: bool = False,
    ) -> Block:
        """Bind one SELECT or union with everything below it.

        Args:
            outer: the scope around a subquery.
            name: what the subquery is called here; a CTE that is a source has its own name.
            distinct: rows that occur again make no difference.
        """
        query = unwrapped(query)
        if isinstance(query, exp.SetOperation):
            plain = distinct and not isinstance(query, exp.Except)
            if is_counted_set(query) and not plain or is_distinct_set(query) and not distinct:
                return self._source(query, name or "union", outer)
            return self._set(query, outer, distinct)
        if distinct and isinstance(query.args.get("distinct"), exp.Distinct):
            query.set("distinct", query.args["distinct"].args.get("on"))
        if is_layered(query) or is_grouped(check_shape(query)):
            return self._source(query, name or "groups", outer)
        return plain_rows(check_shape(query), self, outer)

    def _source(self, select: exp.Query, name: str, outer: Scope | None) -> Block:
        """One relation for a subquery with a layer of its own; a CTE read twice is one source."""
        cte = select.parent
        source = cte.alias if isinstance(cte, exp.CTE) else name

        def make() -> Derived:
            graph = self.inner().graph(select)
            return by_clock(select, Derived(self.sources.names.take(source), graph))

        try:
            return self.over(self.sources.once(select, make), name, select)
        except DeltaJoinError as error:
            if error.code == "DUPLICATE_COLUMN":
                raise Unsupported(error.code, error.message, select, str(error.remedy)) from error
            if outer is None or error.code != "UNKNOWN_COLUMN":
                raise
            if apart := self.correlated(select, name, outer):
                return apart
            remedy = "Group in a subquery of FROM and join it."
            raise Unsupported("SUBQUERY", "a correlated aggregate", select, remedy) from error

    def correlated(self, select: exp.Query, name: str, outer: Scope) -> Block | None:
        """A correlated subquery as a source, under the conditions that correlate it."""
        return correlated_source(self, select, name, outer)

    def over(self, derived: Derived, name: str, origin: exp.Expr) -> Block:
        """One relation over a derived source."""
        self.derived[derived.name] = derived
        relation = self.names.take(name)
        self.relations.append((relation, derived.name))
        outputs: list[Given] = [
            (output, stamp or column(output, relation), origin)
            for output, stamp in visible(derived.graph)
        ]
        return Block(items=[relation], outputs=outputs)

    def _distinct_set(self, query: exp.Query) -> Layered:
        """UNION: the rows of UNION ALL, grouped by all columns; INTERSECT and EXCEPT likewise."""
        block = self.block(query, distinct=True)
        return Layered(block, distinct_rows(block, block.columns))

    def _counted_set(self, query: exp.SetOperation) -> Layered:
        """EXCEPT ALL and INTERSECT ALL: each row as often as its counts on both sides say."""
        inner, put = self.below("counted")
        arms, outputs, shown = inner._arms(query, None, distinct=False)
        block, groups = counted_rows(query, arms, outputs, inner.names.take("union"))
        block = put(Layered(block, make_grouping(block, groups)))
        return Layered(block, generation=repeated(block, shown, self.names.take("view")))

    def _set(self, query: exp.SetOperation, outer: Scope | None, distinct: bool) -> Block:
        union = isinstance(query, exp.Union)
        arms, outputs, shown = self._arms(query, outer, distinct=distinct or not union)
        if union:
            name = self.names.take("union")
            self.kinds |= {(name, output.name): output.kind for output in outputs}
            item: Union | Outer = Union(name, arms[0], arms[1], outputs)
            values: list[exp.Expr] = [column(output.name, name) for output in outputs]
        else:
            item = compared(query, arms, outputs)
            values = [output.left for output in outputs]
        named = zip(shown, values, strict=True)
        return Block(items=[item], outputs=[(name, value, at) for (name, at), value in named])

    def _arms(
        self, query: exp.SetOperation, outer: Scope | None, *, distinct: bool
    ) -> tuple[list[Block], list[Output], list[Named]]:
        """Both sides of a set operation, what its columns stand for in them, and (name, origin) of
        what it gives out."""
        check_union(query)
        name_outputs(query.expression)
        arms = [self.block(arm, outer, distinct=distinct) for arm in (query.this, query.expression)]
        left, right = (self._with_constants(arm) for arm in arms)
        if len(left) != len(right):
            message = f"a union of {len(left)} with {len(right)} columns"
            raise Unsupported("SET_OPERATION", message, query, "Give out as many on each side.")
        outputs = [
            matched(f"c{i}", one, other, self.type_of)
            for i, (one, (_, other, _)) in enumerate(zip(left, right, strict=True))
        ]
        for arm in arms:
            arm.outputs = []
        return arms, outputs, [(name, origin) for name, _, origin in left]

    def _with_constants(self, arm: Block) -> list[Given]:
        """What an arm gives out, with literals for the columns of groups that are such in each."""
        literals = {
            (item, name): literal
            for item, source in self.relations
            if item in arm.items and source in self.derived
            for name, literal in literals_of(self.derived[source].graph)
        }

        def known(value: exp.Expr) -> exp.Expr:
            if isinstance(value, exp.Column):
                return literals.get((value.table, value.name), value)
            return value

        return [(name, known(value), origin) for name, value, origin in arm.outputs]

    def type_of(self, column: exp.Column) -> str:
        """The type of a bound column, empty where it is not known."""
        source = dict(self.relations).get(column.table, "")
        if source in self.derived:
            return derived_outputs(self.derived[source], self.types)[column.name][0]
        known = self.kinds if not source else self.types
        return known.get((source or column.table, column.name), "")

    def rows(self, select: exp.Select, outer: Scope | None) -> tuple[Block, Scope]:
        block, scope = joined(self, select, outer)
        if where := select.args.get("where"):
            add_where(self, where.this, block, scope)
        return block, scope


def over_table(source: str, types: Mapping[str, str], text: str) -> JoinGraph:
    """The graph of a query over columns of a table, by their types; it calls the table r."""
    sources = Sources(UniqueNames(("r",)))
    binder = Binder({"r": tuple(types)}, {("r", c): kind for c, kind in types.items()}, sources)
    graph = binder.graph(parse(text))
    return replace(graph, relations=tuple(replace(r, source=source) for r in graph.relations))
