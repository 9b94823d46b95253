"""One SELECT, or one set operation, with all that stands below it -> blocks of joins, and a graph.

    FROM (`from_clause`), WHERE and its subqueries (`subqueries`), time windows, GROUP BY or the
    layers above (`layers`), the select list; then the joins judged by the clock, stamps

What has groups, windows, generators or a set of its own below is bound by a binder of its own, as a
derived source. Caller: `sql.bind`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from deltajoin.errors import DeltaJoinError
from deltajoin.graph import Derived, Grouping, JoinGraph
from deltajoin.layers import Generation
from deltajoin.names import UniqueNames
from deltajoin.sql.classify import build_graph
from deltajoin.sql.clock import moves
from deltajoin.sql.clocked import decided_by_clock, with_clocked_sources
from deltajoin.sql.columns import (
    bound,
    item_of,
)
from deltajoin.sql.correlated import correlated_source
from deltajoin.sql.counted_sets import counted_rows, is_counted_set, repeated
from deltajoin.sql.dialect import closed, unwrapped
from deltajoin.sql.exact import derived_outputs
from deltajoin.sql.from_clause import fill, joined
from deltajoin.sql.generators import make_generation
from deltajoin.sql.group import (
    distinct_rows,
    group_rows,
    is_grouped,
    make_grouping,
    name_outputs,
)
from deltajoin.sql.judged import joined_rows, judged_by_clock
from deltajoin.sql.layers import is_layered, layered
from deltajoin.sql.nodes import own_name
from deltajoin.sql.refuse import (
    Unsupported,
    check_expression,
    check_shape,
    check_union,
)
from deltajoin.sql.scope import Block, Layered, Outer, Scope, Union
from deltajoin.sql.stamps import (
    visible,
    without_stamps,
)
from deltajoin.sql.subqueries import add_where, select_of
from deltajoin.sql.time_windows import with_time_windows
from deltajoin.sql.union import Output, is_distinct_set, matched

Columns = Mapping[str, tuple[str, ...]]
Types = Mapping[tuple[str, str], str]


@dataclass(frozen=True)
class Sources:
    """The derived sources of a whole query, each by the part that it comes from; their names, the
    declared keys of the tables, the stamps that are declared."""

    names: UniqueNames
    stamps: frozenset[str] = frozenset()
    keys: Columns = field(default_factory=dict)
    _made: dict[int, tuple[object, Derived]] = field(default_factory=dict)

    def once(self, part: object, make: Callable[[], Derived]) -> Derived:
        """The source of a part, made when it is first read; parts are kept, so that no other gets
        the same id."""
        if id(part) not in self._made:
            self._made[id(part)] = (part, make())
        return self._made[id(part)][1]


class Binder:
    """Binds one query; one more binds each subquery with a layer: groups, windows, generators."""

    def __init__(self, columns: Columns, types: Types, sources: Sources) -> None:
        self.relations: list[tuple[str, str]] = []
        self.columns, self.types = columns, types
        self.sources = sources
        self.derived: dict[str, Derived] = {}
        self.kinds: dict[tuple[str, str], str] = {}
        self.names = UniqueNames()

    def graph(self, query: exp.Query) -> JoinGraph:
        """The join graph of a query, with GROUP BY, UNION or further layers on top or without."""
        grouping = generation = windowing = None
        if is_distinct_set(query):
            block, grouping = self._distinct_set(query)
        elif is_counted_set(query):
            block, generation = self._counted_set(query)
        elif isinstance(query, exp.SetOperation):
            block = self.block(query)
        elif is_layered(query):
            made = layered(query, self)
            block, grouping = made.block, made.grouping
            generation, windowing = made.generation, made.windowing
        elif is_grouped(select := check_shape(query)):
            block, grouping, generation = self.grouped(select)
        else:
            block = self.block(query)
        graph = self._built(Layered(block, grouping, generation, windowing))
        graph = without_stamps(graph, self.sources.stamps)
        return with_clocked_sources(graph, self.sources.names)

    def inner(self) -> Binder:
        """A binder for what stands below, as a source."""
        return Binder(self.columns, self.types, self.sources)

    def alone(self) -> Binder:
        """A binder that leaves no trace in this query."""
        return Binder(self.columns, self.types, Sources(UniqueNames(tuple(self.columns))))

    def source(self, made: Layered, name: str) -> Derived:
        """What was bound here, as a source."""
        graph = with_clocked_sources(self._built(made), self.sources.names)
        return Derived(self.sources.names.take(name), graph)

    def _built(self, made: Layered) -> JoinGraph:
        fill(self, made.block)
        graph = self._assembled(made)
        if not decided_by_clock(graph):
            return graph
        for block in judged_by_clock(made.block):
            self._put_below(block, made.block)
        return self._assembled(made)

    def _assembled(self, made: Layered) -> JoinGraph:
        read = sorted({source for _, source in self.relations if source in self.derived})
        derived = tuple(self.derived[name] for name in read)
        columns = {**self.columns, **{d.name: d.graph.output_names for d in derived}}
        layers = (made.grouping, derived, made.generation, made.windowing)
        return build_graph(self.relations, made.block, columns, *layers)

    def _put_below(self, block: Block, root: Block) -> None:
        """Make the joins of a block a source, whose rows its conditions on the clock judge."""
        relation = self.names.take("joined")
        inner, put = self.below(relation)
        names = frozenset(block.relations)
        inner.relations = [pair for pair in self.relations if pair[0] in names]
        self.relations = [pair for pair in self.relations if pair[0] not in names]
        inner.derived, inner.kinds = dict(self.derived), self.kinds
        block.items = put(Layered(joined_rows(block, root, relation), None, None, None)).items

    def below(self, relation: str) -> tuple[Binder, Callable[[Layered], Block]]:
        """A binder for a source of its own below, and what puts a relation over what it made."""
        inner = self.inner()

        def put(made: Layered) -> Block:
            derived = inner.source(made, relation)
            self.derived[derived.name] = derived
            self.relations.append((relation, derived.name))
            return Block(items=[relation])

        return inner, put

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
        select = check_shape(query)
        block, scope = self.rows(select, outer)
        select = select_of(self, select, block, scope)
        select = with_time_windows(select, block, scope, self.type_of).select
        for projection in select.expressions:
            self._project(projection, block, scope)
        return block

    def _source(self, select: exp.Query, name: str, outer: Scope | None) -> Block:
        """One relation for a subquery with a layer of its own; a CTE read twice is one source."""
        cte = select.parent
        source = cte.alias if isinstance(cte, exp.CTE) else name

        def make() -> Derived:
            graph = self.inner().graph(select)
            return Derived(self.sources.names.take(source), graph)

        try:
            return self.over(self.sources.once(select, make), name, select)
        except DeltaJoinError as error:
            if error.code == "DUPLICATE_COLUMN":
                remedy = str(error.remedy)
                raise Unsupported(error.code, error.message, select, remedy) from error
            if outer is None or error.code != "UNKNOWN_COLUMN":
                raise
            if apart := correlated_source(self, select, name, outer):
                return apart
            remedy = "Group in a subquery of FROM and join it."
            raise Unsupported("SUBQUERY", "a correlated aggregate", select, remedy) from error

    def over(self, derived: Derived, name: str, origin: exp.Expr) -> Block:
        """One relation over a derived source."""
        self.derived[derived.name] = derived
        relation = self.names.take(name)
        self.relations.append((relation, derived.name))
        outputs: list[tuple[str, exp.Expr, exp.Expr]] = [
            (output, stamp or exp.column(output, table=relation, quoted=True), origin)
            for output, stamp in visible(derived.graph)
        ]
        return Block(items=[relation], outputs=outputs)

    def grouped(self, select: exp.Select) -> tuple[Block, Grouping, Generation | None]:
        """Bind a SELECT with aggregates: the rows that are grouped, and what is made of them."""
        block, scope = self.rows(select, None)
        select = select_of(self, select, block, scope)
        made = with_time_windows(select, block, scope, self.type_of, self.take_name)
        grouping = group_rows(made.select, block, scope)
        if not made.views:
            return block, grouping, None
        return block, grouping, make_generation(block, list(made.views), list(made.conditions))

    def _distinct_set(self, query: exp.Query) -> tuple[Block, Grouping]:
        """UNION: the rows of UNION ALL, grouped by all columns; INTERSECT and EXCEPT likewise."""
        block = self.block(query, distinct=True)
        columns = [(name, value) for name, value, _ in block.outputs]
        scope = Scope([item_of((), columns, query)])
        return block, distinct_rows(block, scope)

    def _counted_set(self, query: exp.SetOperation) -> tuple[Block, Generation]:
        """EXCEPT ALL and INTERSECT ALL: each row as often as its counts on both sides say."""
        inner, put = self.below("counted")
        arms, outputs = inner._arms(query, None, distinct=False)
        shown = [(name, origin) for name, _, origin in arms[0].outputs]
        block, groups = counted_rows(query, arms, outputs, inner.take_name("union"))
        block = put(Layered(block, make_grouping(block, groups), None, None))
        return block, repeated(block, [*shown], self.take_name("view"))

    def _set(self, query: exp.SetOperation, outer: Scope | None, distinct: bool) -> Block:
        distinct = distinct or not isinstance(query, exp.Union)
        arms, outputs = self._arms(query, outer, distinct=distinct)
        if not isinstance(query, exp.Union):
            return _compared(query, arms, outputs)
        name = self.names.take("union")
        self.kinds |= {(name, output.name): output.kind for output in outputs}
        shown = [(shown, place) for shown, _, place in arms[0].outputs]
        columns = [exp.column(output.name, table=name, quoted=True) for output in outputs]
        for arm in arms:
            arm.outputs = []
        return Block(
            items=[Union(name, arms[0], arms[1], outputs)],
            outputs=[(s, c, p) for (s, p), c in zip(shown, columns, strict=True)],
        )

    def _arms(
        self, query: exp.SetOperation, outer: Scope | None, *, distinct: bool
    ) -> tuple[list[Block], list[Output]]:
        """Both sides of a set operation, and what its columns stand for in them."""
        check_union(query)
        name_outputs(query.expression)
        arms = [self.block(arm, outer, distinct=distinct) for arm in (query.this, query.expression)]
        left, right = (arm.outputs for arm in arms)
        if len(left) != len(right):
            message = f"a union of {len(left)} with {len(right)} columns"
            raise Unsupported("SET_OPERATION", message, query, "Give out as many on each side.")
        return arms, [
            matched(f"c{i}", one[1], other[1], self.type_of, one[2])
            for i, (one, other) in enumerate(zip(left, right, strict=True))
        ]

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

    def take_name(self, wanted: str) -> str:
        """A name that no relation has."""
        return self.names.take(wanted)

    def _project(self, node: exp.Expr, block: Block, scope: Scope) -> None:
        if node.is_star and isinstance(node, (exp.Star, exp.Column)):
            block.outputs += [(name, e, node) for name, e in scope.expand_star(node)]
            return
        check_expression(node)
        value = node.this if isinstance(node, exp.Alias) else node
        expression = bound(value, scope)
        name = node.alias if isinstance(node, exp.Alias) else own_name(value)
        block.outputs.append((name, expression, node))
        if isinstance(node, exp.Alias):
            scope.aliases[name.lower()] = exp.paren(expression.copy())


def _compared(query: exp.SetOperation, arms: list[Block], outputs: list[Output]) -> Block:
    """INTERSECT and EXCEPT: rows of the left side that are, or are not, on the right side."""
    kind = "semi" if isinstance(query, exp.Intersect) else "anti"
    told = [o for o in outputs if o.left != o.right or not moves(o.left) or o.left.find(exp.Column)]
    on = [exp.NullSafeEQ(this=closed(o.left), expression=closed(o.right)) for o in told]
    shown = [
        (name, output.left, place)
        for (name, _, place), output in zip(arms[0].outputs, outputs, strict=True)
    ]
    for arm in arms:
        arm.outputs = []
    return Block(items=[Outer(kind, arms[0], arms[1], list(on))], outputs=shown)
