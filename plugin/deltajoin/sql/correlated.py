"""A subquery of EXISTS or IN that makes groups or generated rows, and speaks of rows around it.

    EXISTS (SELECT 1 FROM u WHERE u.k = t.k GROUP BY u.g HAVING count(*) > 1)

What correlates goes out of it: it gives out what it says of its own rows, groups them by that too,
and the condition stands at the semi or anti join.

    t LEFT SEMI JOIN (SELECT 1, u.k AS k0 FROM u GROUP BY u.g, u.k HAVING count(*) > 1) AS q
      ON q.k0 = t.k

Rule: groups are correlated by equalities alone; generated rows, which stand for themselves, by any
condition. A total gives a row without any rows too, so that it can't be grouped so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from deltajoin.sql.columns import flattened
from deltajoin.sql.group import is_grouped
from deltajoin.sql.group_keys import has_plain_keys

_INSIDE = "_deltajoin_inside"


@dataclass(frozen=True)
class Parted:
    """The subquery without what correlates it; `conditions` read its further outputs `names`.

    `equal`: of groups, the names and the other sides of the equalities.
    """

    select: exp.Select
    conditions: tuple[exp.Expr, ...]
    names: tuple[str, ...]
    equal: tuple[tuple[str, exp.Expr], ...]


def parted(select: exp.Select, is_inside: Callable[[exp.Column], bool]) -> Parted | None:
    """A correlated subquery in two; None where that would change it."""
    where = select.args.get("where")
    if where is None or select.find(exp.Window) or not _is_plain(select):
        return None
    grouped = is_grouped(select)
    made = select.copy()
    made.parent = select.parent
    rest, conditions, inside = [], [], dict[str, exp.Expr]()
    equal = []
    for conjunct in flattened(where.this):
        columns = [] if conjunct.find(exp.Query) else list(conjunct.find_all(exp.Column))
        own = {id(column) for column in columns if is_inside(column)}
        if len(own) == len(columns):
            rest.append(conjunct.copy())
            continue
        if not grouped:
            conditions.append(_renamed(conjunct, own, inside))
            continue
        sides = _sides(conjunct, own)
        if sides is None:
            return None
        name = _name(inside, sides[0])
        equal.append((name, sides[1]))
        kind = type(conjunct.unnest())
        conditions.append(kind(this=exp.column(name, quoted=True), expression=sides[1].copy()))
    if not conditions:
        return None
    made.set("where", exp.Where(this=exp.and_(*rest)) if rest else None)
    for name, value in inside.items():
        made.append("expressions", exp.alias_(value.copy(), name, quoted=True))
        if grouped:
            made.args["group"].append("expressions", value.copy())
    return Parted(made, tuple(conditions), tuple(inside), tuple(equal))


def _is_plain(select: exp.Select) -> bool:
    """Rows, or groups by plain keys."""
    if any(select.args.get(name) for name in ("distinct", "qualify", "windows", "limit", "offset")):
        return False
    return not is_grouped(select) or has_plain_keys(select)


def _sides(conjunct: exp.Expr, own: set[int]) -> tuple[exp.Expr, exp.Expr] | None:
    """The sides of an equality that speak of inside and of outside alone."""
    node = conjunct.unnest()
    if not isinstance(node, (exp.EQ, exp.NullSafeEQ)):
        return None
    for inside, outside in ((node.this, node.expression), (node.expression, node.this)):
        mine = [id(column) in own for column in inside.find_all(exp.Column)]
        theirs = [id(column) in own for column in outside.find_all(exp.Column)]
        if mine and all(mine) and theirs and not any(theirs):
            return inside, outside
    return None


def _renamed(conjunct: exp.Expr, own: set[int], inside: dict[str, exp.Expr]) -> exp.Expr:
    """A conjunct that reads its inner columns by their new names."""
    holder = exp.Paren(this=conjunct.copy())
    pairs = zip(conjunct.find_all(exp.Column), list(holder.this.find_all(exp.Column)), strict=True)
    for column, place in pairs:
        if id(column) in own:
            place.replace(exp.column(_name(inside, column), quoted=True))
    made: exp.Expr = holder.this
    return made


def _name(inside: dict[str, exp.Expr], value: exp.Expr) -> str:
    """The name under which the subquery gives out a value."""
    for name, known in inside.items():
        if known == value:
            return name
    name = f"{_INSIDE}_{len(inside)}"
    inside[name] = value
    return name
