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
from deltajoin.sql.below import Below, spelling
from deltajoin.sql.columns import bound, item_of
from deltajoin.sql.dialect import exchanged, refused, text, unwrapped, with_columns
from deltajoin.sql.group_keys import REMEDY, is_aggregate, unaliased, written_keys, written_outputs
from deltajoin.sql.grouping_sets import SET, Sets
from deltajoin.sql.nodes import (
    Given,
    Named,
    bare_call,
    column,
    counts_rows,
    function_name,
    number,
    own_name,
)
from deltajoin.sql.refuse import Unsupported, check_expression
from deltajoin.sql.scope import Block, Scope

Bind = Callable[[exp.Expr], exp.Expr]


def check_grouped(node: exp.Expr) -> None:
    """`Unsupported` for what no expression over groups may hold."""
    check_expression(node, grouped=True)


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
    for i, node in enumerate(query.expressions if isinstance(query, exp.Select) else ()):
        if isinstance(node, exp.Alias) or node.is_star:
            continue
        name = own_name(node).lower()
        if not name or name in seen:
            node.replace(exp.alias_(node.copy(), f"_c{i}", quoted=True))
        seen.add(name)


def distinct_rows(block: Block, columns: list[Named]) -> Grouping:
    """The rows of a block that gives out these columns, grouped by all of them."""
    every = exp.Select(expressions=[exp.Star()], distinct=exp.Distinct())
    scope = Scope([item_of((), columns, every)])
    return make_grouping(block, bound_groups(every, scope)[0])


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
    scope: Scope,
    check: Callable[[exp.Expr], None] = check_grouped,
    relation: str = "",
) -> tuple[Groups, Bind]:
    """What a grouped SELECT says, over relations; how more of it is bound.

    Args:
        check: `Unsupported` for an output.
        relation: what gives the numbers of sets.
    """

    def over_relations(node: exp.Expr) -> exp.Expr:
        found = node if node.meta.get("bound") else bound(counted(node), scope)
        return _marked(found, keys, sets) if sets else found

    def is_key(column: exp.Column) -> bool:
        return spelling(bound(column, scope)) in map(spelling, keys)

    sets: Sets | None = None
    keys: list[exp.Expr] = []
    outputs = written_outputs(select, scope, check)
    written, members = written_keys(select, outputs, scope)
    distinct = {spelling(key): key for key in map(over_relations, written)}
    order = {key: i for i, key in enumerate(distinct)}
    if members and (distinct or len(members) > 1):
        if not all(key.find(exp.Column) for key in distinct.values()):
            raise Unsupported("AGGREGATE", "a constant in grouping sets", select, REMEDY)
        found = tuple(frozenset(order[spelling(over_relations(k))] for k in one) for one in members)
        sets = Sets(found, column(SET, relation))
        distinct[spelling(sets.column)] = sets.column
    keys = list(distinct.values())
    having = select.args.get("having")
    if having is not None:
        check_grouped(having.this)
        try:
            written_out = unaliased(having.this, outputs, scope, is_key=is_key)
            having = _as_condition(over_relations(written_out))
        except DeltaJoinError as error:
            if error.code != "AMBIGUOUS_COLUMN":
                raise
            # Spark takes the output of that name, where there is one.
            what, remedy = f"in HAVING, {error.message},", str(error.remedy)
            raise Unsupported("AGGREGATE", what, having, remedy) from error
    groups = Groups(keys, [(name, over_relations(node)) for name, node in outputs], having, sets)
    return groups, lambda node: over_relations(unaliased(node, outputs, scope))


def _marked(node: exp.Expr, keys: list[exp.Expr], sets: Sets) -> exp.Expr:
    """The expression with grouping() and grouping_id() as values of the set."""
    numbers = {spelling(key): i for i, key in enumerate(keys[:-1])}

    def mark(part: exp.Expr) -> exp.Expr | None:
        name = function_name(part)
        if name not in ("grouping", "grouping_id"):
            return None
        of = [numbers.get(spelling(e), -1) for e in part.expressions] or list(range(len(numbers)))
        if -1 in of or (name == "grouping" and len(part.expressions) != 1):
            raise Unsupported("AGGREGATE", f"{name}() of no key", part, REMEDY)
        if name == "grouping_id" and of != list(range(len(numbers))):
            raise Unsupported("AGGREGATE", "grouping_id() of some keys", part, REMEDY)
        return sets.mark(of, "tinyint" if name == "grouping" else "bigint")

    return exchanged(node, mark)


def make_grouping(block: Block, groups: Groups) -> Grouping:
    """Put what is grouped into the block's outputs; give what is made of it.

    Raises:
        Unsupported: AGGREGATE for a column that is neither grouped nor aggregated; UNNAMED_COLUMN.
        DeltaJoinError: DUPLICATE_COLUMN.
    """
    keys = list({spelling(key): key for key in groups.keys}.values())
    below = Below(INPUT, keys=keys)

    def over(node: exp.Expr) -> exp.Expr:
        return over_groups(node, below.key, lambda call: with_columns(call, below.read))

    made = [(name, over(node), node) for name, node in groups.outputs]
    having = text(over(groups.having)) if groups.having is not None else None
    check_names(made)
    values = [groups.sets.value(i, key) for i, key in enumerate(keys[:-1])] if groups.sets else []
    values = [*values, *keys[len(values) :]] or [number(1)]
    block.outputs = [(f"g{i}", key, key) for i, key in enumerate(values)]
    block.outputs += [(name, value, value) for name, value in below.values]
    shown = {n.name: name for name, n, _ in reversed(made) if isinstance(n, exp.Column)}
    names = tuple(f"g{i}" for i in range(len(keys)))
    key_outputs = (shown.get(g, f"{RESERVED_PREFIX}key_{i}") for i, g in enumerate(names))
    return Grouping(
        keys=names,
        outputs=tuple((name, text(node)) for name, node, _ in made),
        having=having,
        key_outputs=tuple(key_outputs) or (TOTAL,),
    )


def over_groups(
    node: exp.Expr,
    key: Callable[[exp.Expr], exp.Expr | None],
    aggregate: Callable[[exp.Expr], exp.Expr],
) -> exp.Expr:
    """A bound expression of a grouped SELECT, of what stands for its keys and its aggregates.

    A constant is a key as a whole only: in `SELECT 2 AS c, round(max(v), 2) ... GROUP BY 1`, the
    other 2 is none.

    Raises:
        Unsupported: AGGREGATE for a column that is neither grouped nor aggregated.
    """
    if _reads_nothing(node):
        return key(node) or node.copy()

    def over(part: exp.Expr) -> exp.Expr | None:
        if not _reads_nothing(part) and (found := key(part)) is not None:
            return found
        if is_aggregate(bare_call(part)):
            return aggregate(part)
        if isinstance(part, exp.Column):
            what = f"{part.table}.{part.name} is neither grouped nor aggregated, and"
            raise Unsupported("AGGREGATE", what, part, REMEDY)
        return None

    return exchanged(node, over)


def _reads_nothing(node: exp.Expr) -> bool:
    return node.find(exp.Column, exp.Anonymous, exp.Query) is None


def counted(node: exp.Expr) -> exp.Expr:
    """`count(*)` as `count(1)`."""

    def counts(part: exp.Expr) -> exp.Expr | None:
        if not is_aggregate(part) or not counts_rows(part):
            return None
        made = part.copy()
        made.set("expressions", [number(1)])
        return made

    return exchanged(node, counts)


def _as_condition(node: exp.Expr) -> exp.Expr:
    """A condition as a boolean, which Spark makes of numbers and texts too."""
    conditions = (exp.Predicate, exp.Connector, exp.Not, exp.Boolean)
    return node if isinstance(node.unnest(), conditions) else exp.cast(node.copy(), "boolean")


def check_names(made: list[Given]) -> None:
    """Stop at output columns (name, value, origin) without a name; refuse two with one name."""
    seen: set[str] = set()
    for name, _, origin in made:
        if not name:
            what = f"the column {text(origin)}, which has no name of its own,"
            raise Unsupported("UNNAMED_COLUMN", what, origin, "Add AS name.")
        if name.lower() in seen:
            what = f"two output columns are named '{name}'"
            raise refused("DUPLICATE_COLUMN", what, origin, "Give one of them another alias.")
        seen.add(name.lower())
