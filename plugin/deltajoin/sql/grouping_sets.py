"""GROUPING SETS, ROLLUP and CUBE -> the sets of keys, as a generator below one GROUP BY.

    SELECT k, v, sum(x) FROM t GROUP BY ROLLUP (k, v)        sets (k, v), (k), ()
    ->  SELECT ... FROM t LATERAL VIEW explode(array(0, 1, 2)) s AS `set`
        GROUP BY if(`set` in (0, 1), k, NULL), if(`set` in (0), v, NULL), `set`

Every row stands once for each set, so that equal sets count twice and an empty input has no row:
as in Spark, but for the empty set alone, which is a total. grouping() and grouping_id() are values
of the set. Aggregates read keys as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from sqlglot import exp

SET = "set"
Keys = list[exp.Expr]
_KINDS = (exp.Rollup, exp.Cube, exp.GroupingSets)
_MOST = 64


@dataclass(frozen=True)
class Sets:
    """Which keys each set has, by their numbers; `column` holds the number of a row's set."""

    members: tuple[frozenset[int], ...]
    column: exp.Column

    def value(self, number: int, key: exp.Expr) -> exp.Expr:
        """A key where its set has it, else NULL."""
        sets = [i for i, members in enumerate(self.members) if number in members]
        if len(sets) == len(self.members):
            return key
        numbers = [exp.Literal.number(i) for i in sets]
        there = exp.In(this=self.column.copy(), expressions=numbers)
        return exp.case().when(there, key.copy())

    def mark(self, keys: list[int], kind: str) -> exp.Expr:
        """The number whose bits say which of some keys the row's set lacks, the last key lowest."""
        values = [
            sum(1 << i for i, key in enumerate(reversed(keys)) if key not in members)
            for members in self.members
        ]
        case = exp.Case(this=self.column.copy())
        for number, value in enumerate(values):
            then = exp.cast(exp.Literal.number(value), kind)
            case = case.when(exp.Literal.number(number), then)
        return exp.paren(case)


def has_sets(select: exp.Select) -> bool:
    """True for a GROUP BY of sets."""
    group = select.args.get("group")
    if group is None:
        return False
    trailing = any(group.args.get(name) for name in ("rollup", "cube", "grouping_sets"))
    return trailing or any(isinstance(e, _KINDS) for e in group.expressions)


def written_sets(group: exp.Group) -> tuple[Keys, list[Keys]] | None:
    """All keys as they are first written, and the keys of each set; None where they are too many
    or written in a way that is not known."""
    first: Keys = []
    parts: list[list[Keys]] = []
    trailing = [s for name in ("rollup", "cube", "grouping_sets") for s in group.args.get(name, [])]
    if len(trailing) > 1:
        return None
    if trailing:
        first = list(group.expressions)
        own = type(trailing[0])(expressions=trailing[0].expressions or group.expressions)
        parts = [list(_sets(own))]
    else:
        parts = [list(_sets(e)) for e in group.expressions]
        if any(isinstance(e, exp.Tuple) for e in group.expressions):
            return None
    sets = [[key for keys in chosen for key in keys] for chosen in product(*parts)]
    if not 0 < len(sets) <= _MOST:
        return None
    return [*first, *(_in_order(group) if not trailing else [])], sets


def _in_order(group: exp.Group) -> Iterator[exp.Expr]:
    for node in group.expressions:
        yield from _flat(node)


def _flat(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, (*_KINDS, exp.Tuple)):
        for part in node.expressions:
            yield from _flat(part)
    else:
        yield node.unnest()


def _sets(node: exp.Expr) -> Iterator[Keys]:
    """The sets that an entry of GROUP BY stands for."""
    units = [list(_flat(part)) for part in node.expressions] if isinstance(node, _KINDS) else []
    if isinstance(node, exp.GroupingSets):
        for part in node.expressions:
            yield from _sets(part)
    elif isinstance(node, exp.Rollup):
        for size in range(len(units), -1, -1):
            yield [key for unit in units[:size] for key in unit]
    elif isinstance(node, exp.Cube):
        for chosen in product((True, False), repeat=min(len(units), 7)):
            yield [k for unit, take in zip(units, chosen, strict=False) if take for k in unit]
    else:
        yield list(_flat(node))
