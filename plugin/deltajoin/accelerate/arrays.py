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
            name, parts = _call(node)
            if name not in ("array_contains", "arrays_overlap") or len(parts) != 2:
                continue
            kinds = [kind_of(each, sides.type_of) for each in parts]
            element, both = kinds[0][len("array<") : -1], name == "arrays_overlap"
            array = f"array<{element}>"
            if element not in _PLAIN or kinds != [array, array if both else element]:
                continue
            found = shared(parts[0], parts[1], both, sides)
            if found:
                return Candidates(self.name, (text(node),), shared=found)
        return None


def shared(array: exp.Expr, other: exp.Expr, both: bool, sides: Sides) -> Shared | None:
    """What the rows share; `both` are arrays, or the first alone."""
    pair = sides.parted(array, other)
    if pair is None:
        return None
    many = {"left", "right"} if both else {sides.of(array)}
    return Shared(text(pair[0]), text(pair[1]), frozenset(many))


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
            if not isinstance(node, (exp.GT, exp.GTE)):
                continue
            sets, least = _sets(node.this), node.expression
            if not sets or not isinstance(least, exp.Literal) or least.is_string:
                continue
            kinds = {kind_of(each, sides.type_of) for each in sets}
            plain = len(kinds) == 1 and kinds <= {f"array<{each}>" for each in _PLAIN}
            alike = plain and 0 < float(least.this) <= 1
            if alike and (found := shared(sets[0], sets[1], True, sides)):
                left, right = (_head(each, least.this) for each in (found.left, found.right))
                first = Shared(left, right, found.many)
                return Candidates(self.name, (text(node),), shared=first)
        return None


def _head(array: str, least: str) -> str:
    sets = f"sort_array(array_distinct({array}))"
    return (
        f"slice({sets}, 1, size({sets}) - CAST(ceil({least}D * size({sets}) - 1e-6D) AS INT) + 1)"
    )


def _sets(node: exp.Expr) -> list[exp.Expr]:
    """The two arrays of the share; none where it is something else."""
    node = node.unnest()
    name, parts = _call(node)
    if isinstance(node, exp.Div):
        parts = [node.this, node.expression]
    elif name != "try_divide":
        return []
    names = ("array_intersect", "array_union")
    sets = [_sized(part, made) for part, made in zip(parts, names, strict=False)]
    alike = len(parts) == 2 and {*map(text, sets[0])} == {*map(text, sets[1])}
    return sets[0] if alike and len(sets[0]) == len(sets[1]) == 2 else []


def _sized(node: exp.Expr, made: str) -> list[exp.Expr]:
    """The arrays of which an array is made whose size this is."""
    sized, arrays = _call(node.unnest())
    name, parts = _call(arrays[0].unnest()) if arrays else ("", [])
    return parts if (sized, name) == ("array_size", made) else []


def _call(node: exp.Expr) -> tuple[str, list[exp.Expr]]:
    """The function that is called, in lower case, and its arguments; "" for no call."""
    if not isinstance(node, exp.Anonymous):
        return "", []
    return str(node.this).lower(), list(node.expressions)
