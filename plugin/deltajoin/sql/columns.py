"""Expressions and columns while a FROM clause is bound: resolved, split into conjuncts, named."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from deltajoin.sql.dialect import closed, refused, with_columns
from deltajoin.sql.fields import name_fields
from deltajoin.sql.kinds import in_place_of
from deltajoin.sql.nodes import Named, connected, is_not_null
from deltajoin.sql.nulls import is_null_without
from deltajoin.sql.predicates import relations_in
from deltajoin.sql.refuse import Unsupported, check_expression
from deltajoin.sql.scope import Block, Item, Scope

#: Nodes of an expression over others' expressions. A chain of subqueries in which each repeats the
#: one before it a few times doubles and doubles; Spark keeps the steps apart.
LARGEST = 10_000


def mark_missing(
    kind: str, items: list[Item], scope: Scope, side: Block, on: list[exp.Expr], join: exp.Join
) -> None:
    """Make computed columns of a null-supplied side NULL where no row of it matched.

    `coalesce(x, 0)` in a subquery must not become 0 for an unmatched row: it is kept under a test
    of a column that every matched row has. A full join also keeps rows that lack that column.
    """
    below = side.relations
    equal = [c for c in on if isinstance(c, exp.EQ) and kind != "full"]
    sides = (side for c in equal for side in (c.this, c.expression))
    present = next((side for side in sides if is_null_without(side, below)), None)
    for item in items:
        for key, (name, value) in item.columns.items():
            if is_null_without(value, below):
                continue
            if present is None:
                what = f"the computed column {name} on the missing side of an outer join"
                raise Unsupported("OUTER_JOIN", what, join, "Compute it above the join.")
            there = is_not_null(closed(present))
            item.columns[key] = (name, exp.case().when(there, value.copy()))
    for name, value in scope.merged.values():
        if relations_in(value) <= below and not is_null_without(value, below):
            raise Unsupported("OUTER_JOIN", f"the merged column {name}", join, "Join ON.")


def bound(node: exp.Expr, scope: Scope) -> exp.Expr:
    """An expression over relations, of one over the names of a scope.

    Raises:
        Unsupported: STAR, EXPRESSION_TOO_LARGE; what `Scope.resolve` raises.
    """
    if node.find(exp.Star):
        raise Unsupported("STAR", "* inside an expression", node, "List the columns.")
    holder = exp.Paren(this=node.copy())
    name_fields(holder)
    found = with_columns(holder.this, lambda c: closed(in_place_of(c, scope.resolve(c))))
    if _parts(found) > max(LARGEST, 2 * _parts(node)):
        what = "an expression that grows too large once what it names is written out"
        remedy = "Keep a step before it as a model of its own."
        raise Unsupported("EXPRESSION_TOO_LARGE", what, node, remedy)
    return found


def _parts(node: exp.Expr) -> int:
    return sum(1 for _ in node.walk())


def flattened(condition: exp.Expr) -> list[exp.Expr]:
    """The conjuncts of a condition, without brackets around them."""
    return [conjunct.unnest() for conjunct in connected(condition, exp.And)]


def conjuncts_of(
    condition: exp.Expr, scope: Scope, check: Callable[[exp.Expr], None] = check_expression
) -> list[exp.Expr]:
    """The conjuncts of a condition, bound; `check` stops at what none of them may hold."""
    conjuncts = flattened(condition)
    for conjunct in conjuncts:
        check(conjunct)
    return [bound(conjunct, scope) for conjunct in conjuncts]


def item_of(qualifiers: tuple[tuple[str, ...], ...], outputs: list[Named], node: exp.Expr) -> Item:
    """A FROM item that gives out these columns, under the aliases that it gives them.

    Raises:
        DeltaJoinError: COLUMN_ALIASES.
    """
    outputs = renamed(outputs, node)
    keys = [name.lower() for name, _ in outputs]
    columns = {key: column for key, column in zip(keys, outputs, strict=True) if key}
    several = frozenset(key for key in columns if keys.count(key) > 1)
    alike = {key for key in several if _is_one([e for name, e in outputs if name.lower() == key])}
    return Item(qualifiers, columns, set(), several, several - alike, "" in keys)


def _is_one(values: list[exp.Expr]) -> bool:
    """True for one and the same column, given out more than once."""
    return isinstance(values[0], exp.Column) and all(value == values[0] for value in values)


def renamed(outputs: list[Named], node: exp.Expr) -> list[Named]:
    """Outputs under the column aliases that a FROM item or CTE gives them, if any."""
    names = node.alias_column_names
    if len(names) not in (0, len(outputs)):
        what = f"{len(names)} column aliases for {len(outputs)} columns"
        raise refused("COLUMN_ALIASES", what, node.args["alias"], "Give one alias to each column.")
    if not names:
        return outputs
    return [(name, value) for name, (_, value) in zip(names, outputs, strict=True)]
