"""The names that a join leaves, and the equalities of USING and NATURAL.

A column of USING is the first of its name on either side. It comes first, as the left side's, the
right side's after a right join, or one made of both after a full join; what it isn't stays under
the name of its table. A semi or anti join has the left side's names only.
"""

from __future__ import annotations

from sqlglot import exp

from deltajoin.sql.dialect import closed, refused
from deltajoin.sql.nodes import Named
from deltajoin.sql.refuse import Unsupported
from deltajoin.sql.scope import Item, Scope, Shown


def joined_names(
    kind: str, left: Scope, right: Scope, join: exp.Join
) -> tuple[Scope, list[exp.Expr]]:
    """The scope over both sides, and an equality for each column of USING.

    NATURAL SEMI and ANTI, which Spark doesn't know, are `Unsupported`.
    """
    if join.method == "NATURAL" and kind in ("semi", "anti"):
        raise Unsupported("JOIN_KIND", f"NATURAL {kind.upper()} JOIN", join, "Name the columns.")
    merged: dict[str, Named] = {}
    owners: dict[str, Item | None] = {}
    equalities: list[exp.Expr] = []
    hidden: list[tuple[Item, str]] = []
    for name in _using(left, right, join):
        one, other = _column("left", left, name, join), _column("right", right, name, join)
        equalities.append(exp.EQ(this=closed(one.value), expression=closed(other.value)))
        kept = _kept(kind, one, other)
        merged[name], owners[name] = (kept.name, kept.value.copy()), kept.item
        for side in (one, other):
            if side.item is not None:
                side.item.hidden.add(name)
                hidden += [(side.item, name)] if side.item is not kept.item else []
    return Scope(
        [*left.items, *right.items],
        merged={**merged, **left.merged, **right.merged, **merged},
        outer=left.outer,
        owners={**left.owners, **right.owners, **owners},
        apart=[*hidden, *left.apart, *right.apart],
    ), equalities


def without_right(scope: Scope, left: Scope) -> Scope:
    """The names after a semi or anti join."""
    return Scope(left.items, scope.merged, {}, left.outer, scope.owners, left.apart)


def _using(left: Scope, right: Scope, join: exp.Join) -> list[str]:
    if join.method != "NATURAL":
        return [identifier.name.lower() for identifier in join.args.get("using") or []]
    there = {column.name.lower() for column in right.shown()}
    return list(dict.fromkeys(c.name.lower() for c in left.shown() if c.name.lower() in there))


def _column(side: str, scope: Scope, name: str, join: exp.Join) -> Shown:
    found = scope.first(name)
    if found is None:
        what = f"USING ({name}): the {side} side lacks it"
        raise refused("UNKNOWN_COLUMN", what, join, "Join ON two columns, or correct the name.")
    return found


def _kept(kind: str, one: Shown, other: Shown) -> Shown:
    if kind == "right":
        return other
    if kind == "full":
        either = exp.Anonymous(this="coalesce", expressions=[one.value.copy(), other.value.copy()])
        return Shown(one.name, either, None)
    return one
