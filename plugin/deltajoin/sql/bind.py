"""SQL text -> JoinGraph: resolve names, inline subqueries, split conjuncts, classify them.

A CTE, a derived table and a parenthesised join that are plain select-project-join blocks dissolve
into their relations; each reference to a CTE is an occurrence of its own. One with groups, windows
or generators is a relation over a derived source. EXISTS and IN become semi joins, NOT EXISTS and
NOT IN anti joins, a union a relation whose columns stand for one expression on each side. What
remains is one tree of blocks, one list of projections.
Anything that does not dissolve, and anything that nothing here understands, makes the query
*opaque*: the text stays as it is and only full recomputation is possible.

    parse -> names of tables -> known and deterministic parts only -> bind -> one join graph

Caller: gives the columns of every source; gets a `BoundQuery`, or a `DeltaJoinError` where the text
can't be a query over these tables at all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from deltajoin.errors import DeltaJoinError
from deltajoin.graph import Derived, Grouping, JoinGraph
from deltajoin.layers import Generation
from deltajoin.names import RESERVED_PREFIX, SHOWN, UniqueNames
from deltajoin.sql.classify import build_graph
from deltajoin.sql.clock import names_clock
from deltajoin.sql.clocked import clock_of_sources, with_clocked_sources
from deltajoin.sql.columns import (
    bound,
    flattened,
    item_of,
    mark_missing,
    renamed,
)
from deltajoin.sql.constants import constant_source, is_constant, one_row
from deltajoin.sql.counted_sets import counted_rows, is_counted_set, repeated
from deltajoin.sql.dialect import Unreadable, closed, parse, spelled, text, unwrapped
from deltajoin.sql.exact import derived_outputs
from deltajoin.sql.generators import make_generation
from deltajoin.sql.group import (
    Groups,
    counted,
    group_rows,
    is_grouped,
    make_grouping,
    name_outputs,
)
from deltajoin.sql.group_keys import own_name
from deltajoin.sql.keys import not_in_match
from deltajoin.sql.known import check_known
from deltajoin.sql.layers import Layered, is_layered, layered
from deltajoin.sql.nulls import is_never_null, is_null_without
from deltajoin.sql.opaque import may_be_a_query
from deltajoin.sql.pivot import apart, pivoted, unpivoted
from deltajoin.sql.predicates import relations_in
from deltajoin.sql.refuse import (
    Unsupported,
    check_bare_functions,
    check_deterministic,
    check_expression,
    check_shape,
    check_union,
    join_kind,
)
from deltajoin.sql.scalars import (
    Value,
    aggregates_in,
    correlation,
    is_total,
    select_without_scalars,
    value_of,
    without_rows,
    without_scalars,
)
from deltajoin.sql.scope import Block, Item, Outer, Scope, Union
from deltajoin.sql.stamps import (
    check_clock,
    check_declared,
    clock_of_rows,
    spelled_without,
    visible,
    without_stamps,
)
from deltajoin.sql.tables import find_cte, resolve_tables, table_key
from deltajoin.sql.time_windows import with_time_windows
from deltajoin.sql.union import Output, is_distinct_set, matched
from deltajoin.sql.using import joined_names, without_right

Columns = Mapping[str, tuple[str, ...]]
Types = Mapping[tuple[str, str], str]


_SELECTS = (exp.Select, exp.SetOperation)


@dataclass(frozen=True)
class Reason:
    """Why a query can't be kept incrementally."""

    code: str
    message: str
    where: str
    remedy: str


@dataclass(frozen=True)
class BoundQuery:
    """A query on known tables: a join graph, or the reason why there is none.

    `clock`: what of it decides the rows: "", "day" or "instant"; `reads_clock` is true also where
    only stamps of a query without graph do.
    """

    sql: str
    tables: tuple[str, ...]
    graph: JoinGraph | None
    reason: Reason | None
    canonical: str
    clock: str = ""
    reads_clock: bool = False


def bind(
    sql: str,
    columns: Columns,
    types: Types | None = None,
    functions: Collection[str] = (),
    stamps: Collection[str] = (),
) -> BoundQuery:
    """Bind a query to its source tables.

    Args:
        columns: source name -> column names in schema order; SHOWN among them is no column, but
            holds for the rows that the source has.
        types: (source, column) -> type; a union is kept where types are known.
        functions: those of the user's own that are declared deterministic.
        stamps: outputs that are declared to move from run to run.

    Raises:
        DeltaJoinError: SQL_PARSE_ERROR, NOT_A_QUERY, UNKNOWN_TABLE, UNKNOWN_COLUMN,
            AMBIGUOUS_COLUMN, DUPLICATE_COLUMN, TIME_TRAVEL, RESERVED_NAME, NOT_A_STAMP.
    """
    try:
        query = parse(sql)
    except Unreadable as error:
        if not may_be_a_query(sql):
            raise
        unread = Reason(error.code, error.message, error.where or "the SQL", str(error.remedy))
        clock = "instant" if names_clock(sql) else ""
        return BoundQuery(sql, tuple(sorted(columns)), None, unread, spelled(sql), clock)
    tables = resolve_tables(query, columns)
    declared = frozenset(name.lower() for name in stamps)
    try:
        check_known(query, sql)
        check_deterministic(query, {name.lower() for name in functions})
        registry = _Registry(UniqueNames(tuple(columns)), declared)
        graph = _Binder(columns, types or {}, registry).graph(query)
        if not graph.sources:
            remedy = "Select from a table."
            raise Unsupported("NO_FROM", "a query without a table", query, remedy)
        check_clock(graph, query)
    except Unsupported as stop:
        clock, read = clock_of_rows(sql, declared)
        mark = spelled_without(sql, declared)
        return BoundQuery(sql, tables, None, _why(query, stop), mark, clock, read)
    check_declared(graph, stamps)
    return BoundQuery(sql, tables, graph, None, spelled(sql), clock_of_sources(graph))


def _why(query: exp.Query, stop: Unsupported) -> Reason:
    """Why a query is rebuilt: what changes by itself is told before anything else."""
    try:
        check_bare_functions(query)
    except Unsupported as changing:
        stop = changing
    message = f"{stop.message} is not kept incrementally"
    return Reason(stop.code, message, stop.where or "the SQL", stop.remedy)


@dataclass(frozen=True)
class _Registry:
    """The derived sources of a whole query, by the SELECT that each comes from, or by a negative
    number; their names; the stamps that are declared."""

    names: UniqueNames
    stamps: frozenset[str] = frozenset()
    derived: dict[int, Derived] = field(default_factory=dict)


class _Binder:
    """Binds one query; one more binds each subquery with a layer: groups, windows, generators."""

    def __init__(self, tables: Columns, types: Types, registry: _Registry) -> None:
        self.relations: list[tuple[str, str]] = []
        self._columns, self._types = tables, types
        self._registry = registry
        self._derived: dict[str, Derived] = {}
        self._kinds: dict[tuple[str, str], str] = {}
        self._names = UniqueNames()

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
        return without_stamps(graph, self._registry.stamps)

    def _built(self, made: Layered) -> JoinGraph:
        self._fill(made.block)
        derived = tuple(self._derived[name] for name in sorted(self._derived))
        columns = {**self._columns, **{d.name: d.graph.output_names for d in derived}}
        layers = (made.grouping, derived, made.generation, made.windowing)
        graph = build_graph(self.relations, made.block, columns, *layers)
        return with_clocked_sources(graph, self._registry.names)

    def below(self, relation: str) -> tuple[_Binder, Callable[[Layered], Block]]:
        """A binder for a source of its own below, and what puts a relation over what it made."""
        inner = _Binder(self._columns, self._types, self._registry)

        def put(made: Layered) -> Block:
            known = self._registry.derived
            derived = Derived(self._registry.names.take(relation), inner._built(made))
            known[-1 - len(known)] = derived
            self._derived[derived.name] = derived
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
        block, scope = self._rows(select, outer)
        select = self.select_of(select, block, scope)
        select = with_time_windows(select, block, scope, self._kind).select
        for projection in select.expressions:
            self._project(projection, block, scope)
        return block

    def _source(self, select: exp.Query, name: str, outer: Scope | None) -> Block:
        """One relation for a subquery with a layer of its own; a CTE read twice is one source."""
        known = self._registry.derived
        if id(select) not in known:
            try:
                graph = _Binder(self._columns, self._types, self._registry).graph(select)
            except DeltaJoinError as error:
                if error.code == "DUPLICATE_COLUMN":
                    remedy = str(error.remedy)
                    raise Unsupported(error.code, error.message, select, remedy) from error
                if outer is None or error.code != "UNKNOWN_COLUMN":
                    raise
                remedy = "Group in a subquery of FROM and join it."
                raise Unsupported("SUBQUERY", "a correlated aggregate", select, remedy) from error
            cte = select.parent
            source = cte.alias if isinstance(cte, exp.CTE) else name
            known[id(select)] = Derived(self._registry.names.take(source), graph)
        return self._over(known[id(select)], name, select)

    def _over(self, derived: Derived, name: str, origin: exp.Expr) -> Block:
        """One relation over a derived source."""
        self._derived[derived.name] = derived
        relation = self._names.take(name)
        self.relations.append((relation, derived.name))
        outputs: list[tuple[str, exp.Expr, exp.Expr]] = [
            (output, stamp or exp.column(output, table=relation, quoted=True), origin)
            for output, stamp in visible(derived.graph)
        ]
        return Block(items=[relation], outputs=outputs)

    def grouped(self, select: exp.Select) -> tuple[Block, Grouping, Generation | None]:
        """Bind a SELECT with aggregates: the rows that are grouped, and what is made of them."""
        block, scope = self._rows(select, None)
        select = self.select_of(select, block, scope)
        made = with_time_windows(select, block, scope, self._kind, self.take_name)
        grouping = group_rows(made.select, block, lambda node: bound(node, scope), scope)
        if not made.views:
            return block, grouping, None
        return block, grouping, make_generation(block, list(made.views), list(made.conditions))

    def _distinct_set(self, query: exp.Query) -> tuple[Block, Grouping]:
        """UNION: the rows of UNION ALL, grouped by all columns; INTERSECT and EXCEPT likewise."""
        block = self.block(query, distinct=True)
        columns = [(name, value) for name, value, _ in block.outputs]
        scope = Scope([item_of((), columns, query)])
        select = exp.Select(expressions=[exp.Star()], distinct=exp.Distinct())
        return block, group_rows(select, block, lambda node: bound(node, scope), scope)

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
        name = self._names.take("union")
        self._kinds |= {(name, output.name): output.kind for output in outputs}
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
            matched(f"c{i}", one[1], other[1], self._kind, one[2])
            for i, (one, other) in enumerate(zip(left, right, strict=True))
        ]

    def _kind(self, column: exp.Column) -> str:
        """The type of a bound column, empty where it is not known."""
        source = dict(self.relations).get(column.table, "")
        if source in self._derived:
            return derived_outputs(self._derived[source], self._types)[column.name][0]
        known = self._kinds if not source else self._types
        return known.get((source or column.table, column.name), "")

    def _rows(self, select: exp.Select, outer: Scope | None) -> tuple[Block, Scope]:
        block, scope = self.joined(select, outer)
        if where := select.args.get("where"):
            self.where(where.this, block, scope)
        return block, scope

    def joined(self, select: exp.Select, outer: Scope | None = None) -> tuple[Block, Scope]:
        """Bind the FROM clause of a SELECT, without its WHERE."""
        block = Block()
        source = select.args.get("from_")
        scope = Scope(outer=outer)
        if source is not None:
            scope = self._from(source.this, block, outer)
        for join in select.args.get("joins") or []:
            scope = self._join(join, block, scope)
        return block, scope

    def _from(self, node: exp.Expr, block: Block, outer: Scope | None) -> Scope:
        """The names of a FROM item, which may be joins in brackets."""
        joins = node.args.get("joins") or []
        if not joins:
            return self._item(node, block, outer)
        own = Block()
        scope = self._item(node, own, outer)
        for join in joins:
            scope = self._join(join, own, scope)
        block.add(own)
        return scope

    def _item(self, node: exp.Expr, block: Block, outer: Scope | None) -> Scope:
        pivots = node.args.get("pivots") or []
        if not pivots:
            return self._plain(node, block, outer)
        return Scope(self._turned(node, pivots, block), outer=outer)

    def _turned(self, node: exp.Expr, pivots: list[exp.Pivot], block: Block) -> list[Item]:
        """The names of an item with PIVOT or UNPIVOT after it, which is a source of its own."""
        *before, pivot = pivots
        inner, below = _Binder(self._columns, self._types, self._registry), Block()
        scope = (
            Scope(inner._turned(node, before, below)) if before else inner._plain(node, below, None)
        )
        if pivot.args.get("unpivot"):
            stay, below.outputs, view, conditions = unpivoted(
                pivot, scope, inner._kind, inner.take_name("view")
            )
            made = Layered(below, None, make_generation(below, [view], conditions), None)
        else:
            stay, groups = pivoted(pivot, scope, inner._kind)
            made = Layered(below, make_grouping(below, groups), None, None)
        name = pivot.alias or node.alias_or_name or "pivot"
        known = self._registry.derived
        if id(pivot) not in known:
            known[id(pivot)] = Derived(self._registry.names.take(name), inner._built(made))
        found = self._over(known[id(pivot)], name, pivot)
        block.add(found)
        outputs = [(output, value) for output, value, _ in found.outputs]
        if pivot.alias:
            return [item_of(((pivot.alias.lower(),),), outputs, exp.Select())]
        return apart(pivot, scope, outputs, stay)

    def _plain(self, node: exp.Expr, block: Block, outer: Scope | None) -> Scope:
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            cte = find_cte(node)
            item = self._inline(cte.this, node, block) if cte else self._base(node, block)
        elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query) and node.alias:
            item = self._inline(node.this, node, block)
        elif isinstance(node, exp.Subquery) and isinstance(node.this, _SELECTS):
            item = self._inline(node.this, node, block)
        elif isinstance(node, (exp.Subquery, exp.Paren)) and not node.alias:
            return self._from(node.this, block, outer)
        elif is_constant(node):
            item = self._constant(node, block)
        else:
            raise Unsupported("TABLE_FUNCTION", "a FROM item that is no table", node, "Use tables.")
        return Scope([item], outer=outer)

    def _constant(self, node: exp.Expr, block: Block) -> Item:
        """Rows of literals, as a relation."""
        alias = node.alias or "rows"
        known = self._registry.derived
        if id(node) not in known:
            known[id(node)] = constant_source(self._registry.names.take(alias), node)
        inner = self._over(known[id(node)], alias, node)
        block.add(inner)
        outputs = [(name, value) for name, value, _ in inner.outputs]
        return item_of(((alias.lower(),),) if node.alias else (), outputs, node)

    def _fill(self, block: Block) -> None:
        """Put one row where nothing is joined: a SELECT without FROM, alone or as a side."""
        for item in block.items:
            if not isinstance(item, str):
                self._fill(item.left)
                self._fill(item.right)
        if not block.items:
            known = self._registry.derived
            if 0 not in known:
                row = one_row(
                    self._registry.names.take("one_row"), [("one", exp.Literal.number(1))]
                )
                known[0] = row
            block.items = self._over(known[0], "one_row", exp.Select()).items

    def _hold(self, kind: str, *sides: tuple[Block, list[Item]]) -> None:
        """Make a SELECT without FROM a source, where an outer join may miss its row."""
        for missing, side in zip((("right", "full"), ("left", "full")), sides, strict=True):
            if kind in missing and not side[0].items:
                self._hold_values(*side)

    def _hold_values(self, block: Block, items: list[Item]) -> None:
        values = {f"c{i}": (item, key) for i, (item, key) in enumerate(_columns_of(items))}
        if not values:
            return
        row = [(name, item.columns[key][1]) for name, (item, key) in values.items()]
        derived = one_row(self._registry.names.take("one_row"), row)
        made = self._over(derived, "one_row", exp.Select())
        block.items = made.items
        for name, column, _ in made.outputs:
            item, key = values[name]
            item.columns[key] = (item.columns[key][0], column)

    def _base(self, node: exp.Table, block: Block) -> Item:
        key = table_key(node, self._columns)
        relation = self._names.take(node.alias or node.name)
        self.relations.append((relation, key))
        block.items.append(relation)
        expressions: list[tuple[str, exp.Expr]] = []
        for name in self._columns[key]:
            column = exp.column(name, table=relation, quoted=True)
            if name == SHOWN:
                block.conjuncts.append(column)
            else:
                expressions.append((name, column))
        parts = tuple(part.name.lower() for part in node.parts)
        qualifiers = (
            ((node.alias.lower(),),)
            if node.alias
            else tuple(parts[start:] for start in range(len(parts)))
        )
        return item_of(qualifiers, expressions, node)

    def _inline(self, query: exp.Query, node: exp.Expr, block: Block) -> Item:
        alias = node.alias or (node.name if isinstance(node, exp.Table) else "")
        inner = self.block(query, name=alias)
        block.add(inner)
        return self.given_out([(name, e) for name, e, _ in inner.outputs], node)

    @staticmethod
    def given_out(outputs: list[tuple[str, exp.Expr]], node: exp.Expr) -> Item:
        """The FROM item of a subquery or CTE that gives out these columns."""
        cte = find_cte(node) if isinstance(node, exp.Table) else None
        if cte is not None and cte.args["alias"].args.get("columns"):
            outputs = renamed(outputs, cte.args["alias"])
        alias = node.alias or (node.name if isinstance(node, exp.Table) else "")
        return item_of(((alias.lower(),),) if alias else (), outputs, node)

    def _join(self, join: exp.Join, block: Block, left: Scope) -> Scope:
        kind = join_kind(join)
        if kind in ("right", "full") and block.crossed:
            raise Unsupported(
                "OUTER_JOIN", f"{kind.upper()} JOIN after a comma", join, "Write the joins out."
            )
        block.crossed = block.crossed or text(join).startswith(",")
        if join.this.args.get("pivots"):
            raise Unsupported("PIVOT", "PIVOT or UNPIVOT of a join", join, "Put it in brackets.")
        mine = block if kind == "inner" else Block()
        right = self._from(join.this, mine, left.outer)
        self._hold(kind, (block, left.items), (mine, right.items))
        scope, on = joined_names(kind, left, right, join)
        condition = join.args.get("on")
        if kind == "inner":
            freed = _freed(condition, self._value(block, scope)) if condition else None
            block.conjuncts += on + (self._conjuncts(freed, scope) if freed else [])
            return scope
        on += self._conjuncts(condition, scope) if condition else []
        sides = [Block(block.items, block.conjuncts), mine]
        if kind in ("left", "full"):
            mark_missing(kind, right.items, scope, sides[1], on, join)
        if kind in ("right", "full"):
            mark_missing(kind, left.items, scope, sides[0], on, join)
        if kind in ("semi", "anti"):
            scope = without_right(scope, left)
        if kind == "right":
            kind, sides = "left", sides[::-1]
        block.items, block.conjuncts = [Outer(kind, sides[0], sides[1], on)], []
        return scope

    @staticmethod
    def _conjuncts(condition: exp.Expr, scope: Scope) -> list[exp.Expr]:
        conjuncts = flattened(condition)
        for conjunct in conjuncts:
            check_expression(conjunct)
        return [bound(conjunct, scope) for conjunct in conjuncts]

    def bound(self, node: exp.Expr, scope: Scope) -> exp.Expr:
        """An expression with its columns resolved."""
        return bound(node, scope)

    def take_name(self, wanted: str) -> str:
        """A name that no relation has."""
        return self._names.take(wanted)

    def where(self, condition: exp.Expr, block: Block, scope: Scope) -> None:
        """Put a condition into a block: its conjuncts, and joins for EXISTS and IN."""
        value = self._value(block, scope)
        for conjunct in [_freed(conjunct, value) for conjunct in flattened(condition)]:
            kind, node = _membership(conjunct)
            if isinstance(node, exp.Exists):
                self._subquery(kind, node.this, None, block, scope)
            elif isinstance(node, exp.In) and node.args.get("query"):
                self._subquery(kind, node.args["query"], node.this, block, scope, condition)
            else:
                block.conjuncts += self._conjuncts(conjunct, scope)

    def select_of(self, select: exp.Select, block: Block, scope: Scope) -> exp.Select:
        """The select with columns of joined sources in the place of its scalar subqueries."""
        return select_without_scalars(select, self._value(block, scope))

    def _value(self, block: Block, scope: Scope) -> Value:
        """Gives the name of a scalar subquery's value, once it is joined to the block."""

        def value(subquery: exp.Subquery, above_groups: bool) -> exp.Expr:
            name = self._names.take(f"{RESERVED_PREFIX}scalar")
            around = None if above_groups else scope
            scope.aliases[name] = closed(self._scalar(subquery.this, block, around))
            return exp.column(name, quoted=True)

        return value

    def _scalar(self, query: exp.Query, block: Block, scope: Scope | None) -> exp.Expr:
        """The value of a scalar subquery, whose row is joined to the block.

        Args:
            scope: what it may speak of; None above groups.
        """
        remedy = "Join it, or make it a total: max(...)."
        name_outputs(query)
        try:
            inner = self.block(query, name="scalar")
        except DeltaJoinError as error:
            if error.code != "UNKNOWN_COLUMN":
                raise
            found = self._correlated(query, block, scope) if scope is not None else None
            if found is None:
                raise Unsupported("SUBQUERY", "a correlated subquery", query, remedy) from error
            return found
        if len(inner.outputs) != 1:
            raise Unsupported("SUBQUERY", "a subquery of several columns", query, remedy)
        value = inner.outputs[0][1]
        source = dict(self.relations)
        sources = [self._derived.get(source.get(str(item), "")) for item in inner.items]
        if not all(derived and derived.at_most_one_row for derived in sources):
            what = "a scalar subquery that may give several rows"
            raise Unsupported("SUBQUERY", what, query, remedy)
        if not inner.conjuncts and all(d and d.exactly_one_row for d in sources):
            block.add(inner)
            return value
        if not is_null_without(value, frozenset(inner.relations)):
            raise Unsupported("SUBQUERY", "a computed scalar subquery", query, remedy)
        inner.outputs = []
        block.items = [Outer("left", Block(block.items, block.conjuncts), inner, [])]
        block.conjuncts = []
        return value

    def _correlated(self, query: exp.Query, block: Block, scope: Scope) -> exp.Expr | None:
        """The value of a total that equalities correlate: its groups are joined to the block."""
        select = check_shape(unwrapped(query))
        if not is_total(select):
            return None
        inner = _Binder(self._columns, self._types, self._registry)
        inner._names = self._names  # both speak of each other's relations
        rows, inside = inner._rows(select, scope)
        below = frozenset(rows.relations)
        apart = [c for c in rows.conjuncts if not relations_in(c) <= below]
        rows.conjuncts = [c for c in rows.conjuncts if relations_in(c) <= below]
        found = correlation(apart, below, (inner._kind, self._kind))
        select = inner.select_of(select, rows, inside)
        select = with_time_windows(select, rows, inside, inner._kind).select
        (output,) = select.expressions
        calls = aggregates_in(output)
        if found is None or not all(relations_in(c) <= below for c in rows.all_conjuncts()):
            return None
        keys = [key for key, _, _ in found.pairs]
        made = [(f"a{i}", bound(counted(call), inside)) for i, call in enumerate(calls)]
        made += [(f"k{i}", key.copy()) for i, key in enumerate(keys)]
        grouping = make_grouping(rows, Groups(keys, made, None))
        if any(
            not relations_in(value) <= frozenset(rows.relations) for _, value, _ in rows.outputs
        ):
            return None
        graph = inner._built(Layered(rows, grouping, None, None))
        groups = self._over(Derived(self._registry.names.take("scalar"), graph), "scalar", query)
        joined = {name: value for name, value, _ in groups.outputs}
        on = found.conditions([joined[f"k{i}"] for i in range(len(keys))])
        groups.outputs = []
        block.items = [Outer("left", Block(block.items, block.conjuncts), groups, on)]
        block.conjuncts = []
        values = [without_rows(call, joined[f"a{i}"]) for i, call in enumerate(calls)]
        value = value_of(output, calls, values, lambda node: bound(node, inside))
        return None if relations_in(value) & below else value

    def _subquery(
        self,
        kind: str,
        query: exp.Expr,
        member: exp.Expr | None,
        block: Block,
        scope: Scope,
        where: exp.Expr | None = None,
    ) -> None:
        """EXISTS (member is None) or `member IN`: a semi or anti join with the subquery's block.

        NOT IN takes an unknown comparison for a match, unless both sides are known to be there.
        """
        if isinstance(query, exp.Subquery):
            query = query.this
        assert isinstance(query, exp.Query)  # noqa: S101 - the parser's promise
        name_outputs(query)
        inner = self.block(query, outer=scope, distinct=True)  # a match is a match
        below = frozenset(inner.relations)
        on = [c for c in inner.conjuncts if not relations_in(c) <= below]
        inner.conjuncts = [c for c in inner.conjuncts if relations_in(c) <= below]
        if not all(relations_in(c) <= below for c in inner.all_conjuncts()):
            raise Unsupported("SUBQUERY", "a correlated join", query, "Correlate in WHERE.")
        if member is not None:
            check_expression(member)
            if len(inner.outputs) != 1:
                raise Unsupported("SUBQUERY", "IN over several columns", query, "Use EXISTS.")
            one, other = closed(bound(member, scope)), closed(inner.outputs[0][1])
            facts = [*block.conjuncts, *self._plain_conjuncts(where, scope)]
            known = is_never_null(one, [*facts, *on]) and is_never_null(
                other, [*inner.conjuncts, *on]
            )
            if kind == "anti" and not known:
                on.append(not_in_match(one, other))
            else:
                on.append(exp.EQ(this=one, expression=other))
        inner.outputs = []
        block.items = [Outer(kind, Block(block.items, block.conjuncts), inner, on)]
        block.conjuncts = []

    @staticmethod
    def _plain_conjuncts(where: exp.Expr | None, scope: Scope) -> list[exp.Expr]:
        """The conjuncts of a WHERE that hold no subquery, bound."""
        conjuncts = flattened(where) if where is not None else []
        return [bound(c, scope) for c in conjuncts if c.find(exp.Query) is None]

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


def _membership(conjunct: exp.Expr) -> tuple[str, exp.Expr]:
    """The join that EXISTS or IN is under its negations, and what stands under them."""
    kind, node = "semi", conjunct
    while isinstance(node, (exp.Not, exp.Paren)):
        kind = ("anti" if kind == "semi" else "semi") if isinstance(node, exp.Not) else kind
        node = node.this
    return kind, node


def _freed(conjunct: exp.Expr, value: Value) -> exp.Expr:
    """A conjunct without scalar subqueries; EXISTS and IN as they are.

    All of a condition before any is put into the block: what scalars join stands below it.
    """
    node = _membership(conjunct)[1]
    is_join = isinstance(node, exp.Exists) or (isinstance(node, exp.In) and node.args.get("query"))
    return conjunct if is_join else without_scalars(conjunct, value)


def _compared(query: exp.SetOperation, arms: list[Block], outputs: list[Output]) -> Block:
    """INTERSECT and EXCEPT: rows of the left side that are, or are not, on the right side."""
    kind = "semi" if isinstance(query, exp.Intersect) else "anti"
    on = [exp.NullSafeEQ(this=closed(o.left), expression=closed(o.right)) for o in outputs]
    shown = [
        (name, output.left, place)
        for (name, _, place), output in zip(arms[0].outputs, outputs, strict=True)
    ]
    for arm in arms:
        arm.outputs = []
    return Block(items=[Outer(kind, arms[0], arms[1], list(on))], outputs=shown)


def _columns_of(items: list[Item]) -> Iterator[tuple[Item, str]]:
    for item in items:
        yield from ((item, key) for key in item.columns)
