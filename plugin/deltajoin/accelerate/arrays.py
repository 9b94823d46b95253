"""Arrays that hold a value, that overlap, or that are alike: rows share an element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from deltajoin.accelerate.protocol import EVERY_JOIN, Candidates, Shared, Sides
from deltajoin.sql.dialect import text
from deltajoin.sql.kinds import kind_of

#: Elements that are equal exactly where an equality finds them so.
_PLAIN = frozenset(
    {"tinyint", "smallint", "int", "bigint", "string", "date", "timestamp", "boolean"}
)


@dataclass(frozen=True)
class Arrays:
    """`array_contains(a, x)`, `arrays_overlap(a, b)`."""

    name: str = "array"
    joins: frozenset[str] = EVERY_JOIN

    def recognise(self, conditions: Sequence[exp.Expr], sides: Sides) -> Candidates | None:
        """The elements of the first condition on arrays of plain values."""
        for node in conditions:
            name = str(node.this).lower() if isinstance(node, exp.Anonymous) else ""
            if name not in ("array_contains", "arrays_overlap") or len(node.expressions) != 2:
                continue
            array, other = node.expressions
            kinds = kind_of(array, sides.type_of), kind_of(other, sides.type_of)
            both = name == "arrays_overlap"
            element = kinds[0].removeprefix("array<").removesuffix(">")
            if element not in _PLAIN or kinds != (
                f"array<{element}>",
                kinds[0] if both else element,
            ):
                continue
            found = shared(array, other, both, sides)
            if found:
                return Candidates(self.name, (text(node),), shared=found)
        return None


def shared(array: exp.Expr, other: exp.Expr, both: bool, sides: Sides) -> Shared | None:
    """What the rows share; `both` are arrays, or the first alone."""
    where = sides.of(array), sides.of(other)
    if set(where) != {"left", "right"}:
        return None
    many = frozenset(where if both else where[:1])
    left, right = (array, other) if where[0] == "left" else (other, array)
    return Shared(text(left), text(right), many)


@dataclass(frozen=True)
class AlikeArrays:
    """`array_size(array_intersect(a, b)) / array_size(array_union(a, b)) >= c`: sets of tokens or
    trigrams that have at least the share c of their elements in common.

    Not `size`, which is -1 for NULL in some sessions: two NULLs were alike then.

    Of a set of n elements in order, one of the first n - c n + 1 is shared then: with fewer than
    c n of its elements it would fail.
    """

    name: str = "similarity"
    joins: frozenset[str] = EVERY_JOIN

    def recognise(self, conditions: Sequence[exp.Expr], sides: Sides) -> Candidates | None:
        """The first elements of both sets."""
        for node in conditions:
            if not isinstance(node, (exp.GT, exp.GTE)) or not isinstance(
                node.expression, exp.Literal
            ):
                continue
            sets, least = _sets(node.this), node.expression
            if sets is None or least.is_string or not 0 < float(least.this) <= 1:
                continue
            kinds = {kind_of(each, sides.type_of) for each in sets}
            if len(kinds) == 1 and kinds <= {f"array<{each}>" for each in _PLAIN}:
                found = shared(*sets, True, sides)
                if found:
                    left, right = (_head(each, least.this) for each in (found.left, found.right))
                    first = Shared(left, right, found.many)
                    return Candidates(self.name, (text(node),), shared=first)
        return None


def _head(array: str, least: str) -> str:
    sets = f"sort_array(array_distinct({array}))"
    return (
        f"slice({sets}, 1, size({sets}) - CAST(ceil({least}D * size({sets}) - 1e-6D) AS INT) + 1)"
    )


def _sets(node: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
    """The two arrays of the share."""
    node = node.unnest()
    if isinstance(node, exp.Div):
        parts = [node.this, node.expression]
    elif isinstance(node, exp.Anonymous) and str(node.this).lower() == "try_divide":
        parts = list(node.expressions)
    else:
        return None
    if len(parts) != 2:
        return None
    found = [_sized(parts[0], "array_intersect"), _sized(parts[1], "array_union")]
    if found[0] is None or found[1] is None or set(map(text, found[0])) != set(map(text, found[1])):
        return None
    return found[0][0], found[0][1]


def _sized(node: exp.Expr, name: str) -> list[exp.Expr] | None:
    node = node.unnest()
    for function in ("array_size", name):
        if not isinstance(node, exp.Anonymous) or str(node.this).lower() != function:
            return None
        if function == name:
            return list(node.expressions) if len(node.expressions) == 2 else None
        node = node.expressions[0]
    return None
