"""GROUP BY, HAVING and DISTINCT on top of a select -> the rows that are grouped, and what is made.

The rows are given out as one projection per group key (`g0`, `g1`, ...) and one per column that an
aggregate reads (`c0`, ...). Aggregate calls stay as they are written, over those columns. DISTINCT
is a group-by without aggregates. A total has no keys: the rows carry a constant in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from deltajoin.errors import DeltaJoinError
from deltajoin.graph import Grouping
from deltajoin.layers import INPUT
from deltajoin.names import RESERVED_PREFIX, TOTAL
from deltajoin.sql.dialect import exchanged, place, spelled, text, unwrapped, with_columns
from deltajoin.sql.group_keys import (
    REMEDY,
    Named,
    is_aggregate,
    own_name,
    unaliased,
    written_keys,
    written_outputs,
)
from deltajoin.sql.grouping_sets import SET, Sets
from deltajoin.sql.refuse import Unsupported, check_expression
from deltajoin.sql.scope import Block, Scope

Bind = Callable[[exp.Expr], exp.Expr]


def is_grouped(select: exp.Select) -> bool:
    """True for a select with GROUP BY, HAVING, DISTINCT or an aggregate among its outputs."""
    if any(select.args.get(name) for name in ("group", "having", "distinct")):
        return True
    return any(is_aggregate(node) for e in select.expressions for node in own_nodes(e))


def own_nodes(node: exp.Expr) -> Iterator[exp.Expr]:
    """The nodes of an expression but for those within its subqueries."""
    return node.walk(prune=lambda part: isinstance(part, exp.Query))


def name_outputs(query: exp.Query) -> None:
    """Name what a query gives out without a name of its own, or by one that it gave out before.

    In place, where nobody sees these names: in EXISTS and IN, and on a union's right side.
    """
    query = unwrapped(query)
    while isinstance(query, exp.SetOperation):
        query = unwrapped(query.this)
    seen: set[str] = set()
    for number, node in enumerate(query.expressions if isinstance(query, exp.Select) else ()):
        if isinstance(node, exp.Alias) or node.is_star:
            continue
        name = own_name(node).lower()
        if not name or name in seen:
            node.replace(exp.alias_(node.copy(), f"_c{number}", quoted=True))
        seen.add(name)


def group_rows(select: exp.Select, block: Block, bind: Bind, scope: Scope) -> Grouping:
    """Put the rows to be grouped into the block's outputs; give what is made of them.

    Args:
        bind: resolves the columns of an expression to relations.

    Raises:
        Unsupported: AGGREGATE for grouping sets and aggregates that depend on row order.
        DeltaJoinError: UNNAMED_COLUMN, DUPLICATE_COLUMN.
    """
    groups, _ = bound_groups(select, bind, scope)
    return make_grouping(block, groups)


@dataclass(frozen=True)
class Groups:
    """A grouped SELECT over relations: keys, outputs as (name, expression), and a condition; with
    sets of keys, the last key is the number of the set."""

    keys: list[exp.Expr]
    outputs: list[Named]
    having: exp.Expr | None
    sets: Sets | None = None


def bound_groups(
    select: exp.Select,
    bind: Bind,
    scope: Scope,
    check: Callable[[exp.Expr], None] | None = None,
    relation: str = "",
) -> tuple[Groups, Bind]:
    """What a grouped SELECT says, over relations; how more of it is bound.

    Args:
        check: `Unsupported` for an output; without it what no group can give out.
        relation: what gives the numbers of sets.
    """

    def bound(node: exp.Expr) -> exp.Expr:
        found = node if node.meta.get("bound") else bind(counted(node))
        return _marked(found, keys, sets) if sets else found

    def also(node: exp.Expr) -> exp.Expr:
        return bound(unaliased(node, outputs, scope))

    def is_key(column: exp.Column) -> bool:
        return plain(bind(column)) in map(plain, keys)

    sets: Sets | None = None
    keys: list[exp.Expr] = []
    outputs = written_outputs(select, scope, check or check_grouped)
    written, members = written_keys(select, outputs, scope)
    distinct = {plain(key): key for key in map(bound, written)}
    order = {key: i for i, key in enumerate(distinct)}
    if members and (distinct or len(members) > 1):
        if not all(key.find(exp.Column) for key in distinct.values()):
            raise Unsupported("AGGREGATE", "a constant in grouping sets", select, REMEDY)
        found = tuple(frozenset(order[plain(bound(k))] for k in one) for one in members)
        sets = Sets(found, exp.column(SET, table=relation, quoted=True))
        distinct[plain(sets.column)] = sets.column
    keys = list(distinct.values())
    having = select.args.get("having")
    if having is not None:
        check_grouped(having.this)
        written_out = unaliased(having.this, outputs, scope, is_key=is_key)
        having = _as_condition(bound(written_out))
    return Groups(keys, [(name, bound(node)) for name, node in outputs], having, sets), also


def _marked(node: exp.Expr, keys: list[exp.Expr], sets: Sets) -> exp.Expr:
    """The expression with grouping() and grouping_id() as values of the set."""
    number = {plain(key): i for i, key in enumerate(keys[:-1])}

    def mark(call: exp.Expr) -> exp.Expr | None:
        name = str(call.this).lower() if isinstance(call, exp.Anonymous) else ""
        if name not in ("grouping", "grouping_id"):
            return None
        of = [number.get(plain(e), -1) for e in call.expressions] or list(range(len(number)))
        if -1 in of or (name == "grouping" and len(call.expressions) != 1):
            raise Unsupported("AGGREGATE", f"{name}() of no key", call, REMEDY)
        if name == "grouping_id" and of != list(range(len(number))):
            raise Unsupported("AGGREGATE", "grouping_id() of some keys", call, REMEDY)
        return sets.mark(of, "tinyint" if name == "grouping" else "bigint")

    return exchanged(node, mark)


def check_grouped(node: exp.Expr) -> None:
    """`Unsupported` for what no expression over groups may hold."""
    check_expression(node, grouped=True)


def make_grouping(block: Block, groups: Groups) -> Grouping:
    """Put what is grouped into the block's outputs; give what is made of it."""
    keys = list({plain(key): key for key in groups.keys}.values())
    maker = _Maker(keys)
    made = [(name, maker.over_input(node), node) for name, node in groups.outputs]
    having = text(maker.over_input(groups.having)) if groups.having is not None else None
    check_names(made)
    values = [groups.sets.value(i, key) for i, key in enumerate(keys[:-1])] if groups.sets else []
    values = [*values, *keys[len(values) :]] or [exp.Literal.number(1)]
    block.outputs = [(f"g{i}", key, key) for i, key in enumerate(values)]
    block.outputs += [(name, column, column) for name, column in maker.columns()]
    shown = {n.name: name for name, n, _ in reversed(made) if isinstance(n, exp.Column)}
    names = tuple(f"g{i}" for i in range(len(keys)))
    hidden = (f"{RESERVED_PREFIX}key_{i}" for i in range(len(keys)))
    return Grouping(
        keys=names,
        outputs=tuple((name, text(node)) for name, node, _ in made),
        having=having,
        key_outputs=tuple(shown.get(g, key) for g, key in zip(names, hidden, strict=True))
        or (TOTAL,),
    )


def counted(node: exp.Expr) -> exp.Expr:
    """`count(*)` as `count(1)`."""
    holder = exp.Paren(this=node.copy())
    for call in list(holder.find_all(exp.Anonymous)):
        if is_aggregate(call) and any(isinstance(e, exp.Star) for e in call.expressions):
            call.set("expressions", [exp.Literal.number(1)])
    found: exp.Expr = holder.this
    return found


def _as_condition(node: exp.Expr) -> exp.Expr:
    """A condition as a boolean, which Spark makes of numbers and texts too."""
    plain = (exp.Predicate, exp.Connector, exp.Not, exp.Boolean)
    return node if isinstance(node.unnest(), plain) else exp.cast(node.copy(), "boolean")


class _Maker:
    """Rewrites bound expressions over relations to expressions over the grouped rows."""

    def __init__(self, keys: list[exp.Expr]) -> None:
        self._keys = {plain(key): f"g{i}" for i, key in reversed(list(enumerate(keys)))}
        self._columns: dict[str, tuple[str, exp.Expr]] = {}

    def columns(self) -> list[tuple[str, exp.Expr]]:
        """What the aggregates read: (name, column of a relation)."""
        return list(self._columns.values())

    def over_input(self, node: exp.Expr) -> exp.Expr:
        return exchanged(node, self._over)

    def _over(self, node: exp.Expr) -> exp.Expr | None:
        key = self._keys.get(plain(node))
        if key is not None:
            return input_column(key)
        if is_aggregate(node) or isinstance(node, (exp.Filter, exp.WithinGroup)):
            return with_columns(node, self._column)
        if isinstance(node, exp.Column):
            raise not_grouped(node)
        return None

    def _column(self, column: exp.Column) -> exp.Column:
        name, _ = self._columns.setdefault(plain(column), (f"c{len(self._columns)}", column.copy()))
        return input_column(name)


def not_grouped(column: exp.Column) -> Unsupported:
    """The stop at a column that a query with groups gives out as it is."""
    what = f"{column.table}.{column.name} is neither grouped nor aggregated, and"
    return Unsupported("AGGREGATE", what, column, REMEDY)


def input_column(name: str) -> exp.Column:
    """A column of the rows below."""
    return exp.column(name, table=INPUT, quoted=True)


def plain(node: exp.Expr) -> str:
    """What tells an expression from others: its words, without the parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return spelled(text(node))


def check_names(made: list[tuple[str, exp.Expr, exp.Expr]]) -> None:
    """Stop at output columns (name, value, origin) without a name; refuse two with one name."""
    seen: set[str] = set()
    for name, _, origin in made:
        if not name:
            what = f"the column {text(origin)}, which has no name of its own,"
            raise Unsupported("UNNAMED_COLUMN", what, origin, "Add AS name.")
        if name.lower() in seen:
            raise DeltaJoinError(
                "DUPLICATE_COLUMN",
                f"two output columns are named '{name}'",
                where=place(origin),
                remedy="Give one of them another alias.",
            )
        seen.add(name.lower())
