"""A subquery of EXISTS or IN that makes groups or generated rows, and speaks of rows around it.

    EXISTS (SELECT 1 FROM u WHERE u.k = t.k GROUP BY u.g HAVING count(*) > 1)

What correlates goes out of it: it gives out what it says of its own rows, groups them by that too,
and the condition stands at the semi or anti join.

    t LEFT SEMI JOIN (SELECT 1, u.k AS k0 FROM u GROUP BY u.g, u.k HAVING count(*) > 1) AS q
      ON q.k0 = t.k

Rule: groups are correlated by equalities alone; generated rows, which stand for themselves, by any
condition. A total gives a row without any rows too, so that it can't be grouped so.

The first row by an order, of those that equalities find, is the first of its partition:

    (SELECT u.x FROM u WHERE u.k = t.k ORDER BY u.at DESC LIMIT 1)
    t LEFT JOIN (SELECT u.x, u.k AS k0 FROM u
                 QUALIFY row_number() OVER (PARTITION BY u.k ORDER BY u.at DESC) = 1) AS q
      ON q.k0 = t.k
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from deltajoin.errors import DeltaJoinError
from deltajoin.graph import Derived
from deltajoin.sql.below import spelling
from deltajoin.sql.columns import bound, flattened
from deltajoin.sql.dialect import closed, with_columns
from deltajoin.sql.group import is_grouped
from deltajoin.sql.group_keys import has_plain_keys
from deltajoin.sql.kinds import kind_of
from deltajoin.sql.layers import rows_of
from deltajoin.sql.nodes import Named, call, number
from deltajoin.sql.scalars import are_alike, takes_first
from deltajoin.sql.scope import Block, Scope

if TYPE_CHECKING:
    from deltajoin.sql.binder import Binder

_INSIDE = "_deltajoin_inside"
_MORE = ("distinct", "qualify", "windows", "limit", "offset")


def correlated_source(binder: Binder, select: exp.Query, name: str, outer: Scope) -> Block | None:
    """A correlated subquery as a source, under the conditions that correlate it."""
    made = _parted(binder, select) if isinstance(select, exp.Select) else None
    if made is None:
        return None
    uncorrelated, names, conditions = made
    try:
        graph = binder.inner().graph(uncorrelated)
    except DeltaJoinError as error:
        if error.code != "UNKNOWN_COLUMN":
            raise
        return None
    block = binder.over(Derived(binder.sources.names.take(name), graph), name, select)
    given = {output: value for output, value, _ in block.outputs}
    scope = Scope(aliases={n: closed(given[n]) for n in names}, outer=outer)
    if is_grouped(uncorrelated) or uncorrelated.args.get("qualify"):
        for condition in conditions:
            sides = given[condition.this.name], bound(condition.expression, outer)
            if not are_alike(*(kind_of(side, binder.type_of) for side in sides)):
                return None
    block.conjuncts = [bound(condition, scope) for condition in conditions]
    block.outputs = [output for output in block.outputs if output[0] not in names]
    return block


def _parted(
    binder: Binder, select: exp.Select
) -> tuple[exp.Select, list[str], list[exp.Expr]] | None:
    """The subquery without what correlates it, the names of what it gives out for that, and the
    conditions over these; None where that would change it."""
    where, first = select.args.get("where"), takes_first(select)
    if where is None or not (first or _may_be_parted(select)):
        return None
    by_equality = first or is_grouped(select)
    scope = _own_scope(binder, select)
    given: dict[str, Named] = {}

    def further(value: exp.Expr) -> exp.Column:
        name, _ = given.setdefault(spelling(value), (f"{_INSIDE}_{len(given)}", value))
        return exp.column(name, quoted=True)

    def condition(conjunct: exp.Expr) -> exp.Expr | None:
        if not by_equality:
            return with_columns(conjunct, lambda c: further(c) if _is_inside(c, scope) else None)
        node = conjunct.unnest()
        sides = _sides(node, scope)
        return type(node)(this=further(sides[0]), expression=sides[1].copy()) if sides else None

    conjuncts = flattened(where.this)
    rest = [conjunct for conjunct in conjuncts if _is_own(conjunct, scope)]
    found = [condition(conjunct) for conjunct in conjuncts if not _is_own(conjunct, scope)]
    conditions = [condition for condition in found if condition is not None]
    if not conditions or len(conditions) < len(found):
        return None
    made = select.copy()
    made.parent = select.parent
    made.set("where", exp.Where(this=exp.and_(*rest)) if rest else None)
    for name, value in given.values():
        made.append("expressions", exp.alias_(value.copy(), name, quoted=True))
        if not first and by_equality:
            made.args["group"].append("expressions", value.copy())
    if first:
        _take_first(made, [value for _, value in given.values()])
    return made, [name for name, _ in given.values()], conditions


def _take_first(select: exp.Select, partition: list[exp.Expr]) -> None:
    """Let a SELECT give the first row of each partition in the place of the first of all."""
    window = exp.Window(
        this=call("row_number"),
        partition_by=[value.copy() for value in partition],
        order=select.args["order"].copy(),
        over="OVER",
    )
    select.set("qualify", exp.Qualify(this=exp.EQ(this=window, expression=number(1))))
    select.set("order", None)
    select.set("limit", None)


def _may_be_parted(select: exp.Select) -> bool:
    """True for rows, and for groups by plain keys."""
    if select.find(exp.Window) or any(map(select.args.get, _MORE)):
        return False
    return not is_grouped(select) or has_plain_keys(select)


def _own_scope(binder: Binder, select: exp.Select) -> Scope:
    """The names of a SELECT without those around it."""
    alone = select.copy()
    alone.parent = select.parent
    for clause in ("where", "group", "having", "order", "expressions"):
        alone.set(clause, None)
    rows, _ = rows_of(alone, binder.alone())
    return rows.scope


def _is_inside(column: exp.Column, scope: Scope) -> bool:
    """True where a SELECT has such a column itself, and doesn't take it from around it."""
    try:
        scope.resolve(column)
    except DeltaJoinError as error:
        if error.code != "UNKNOWN_COLUMN":
            raise
        return False
    return True


def _is_own(conjunct: exp.Expr, scope: Scope) -> bool:
    """True for a condition that speaks of inside alone, as one with a subquery has to."""
    columns = [] if conjunct.find(exp.Query) else conjunct.find_all(exp.Column)
    return all(_is_inside(column, scope) for column in columns)


def _sides(node: exp.Expr, scope: Scope) -> tuple[exp.Expr, exp.Expr] | None:
    """The sides of an equality that speak of inside and of outside alone."""
    if not isinstance(node, (exp.EQ, exp.NullSafeEQ)):
        return None
    for inside, outside in ((node.this, node.expression), (node.expression, node.this)):
        mine = {_is_inside(column, scope) for column in inside.find_all(exp.Column)}
        theirs = {_is_inside(column, scope) for column in outside.find_all(exp.Column)}
        if mine == {True} and theirs == {False}:
            return inside, outside
    return None
