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

from deltajoin.sql.nodes import chosen, number

SET = "set"
Keys = list[exp.Expr]
_KINDS = (exp.Rollup, exp.Cube, exp.GroupingSets)
_MOST = 64


@dataclass(frozen=True)
class Sets:
    """Which keys each set has, by their numbers; `column` holds the number of a row's set."""

    members: tuple[frozenset[int], ...]
    column: exp.Column

    def value(self, place: int, key: exp.Expr) -> exp.Expr:
        """A key where its set has it, else NULL."""
        sets = [i for i, members in enumerate(self.members) if place in members]
        if len(sets) == len(self.members):
            return key
        there = exp.In(this=self.column.copy(), expressions=[*map(number, sets)])
        return exp.case().when(there, key.copy())

    def mark(self, keys: list[int], kind: str) -> exp.Expr:
        """The number whose bits say which of some keys the row's set lacks, the last key lowest."""
        values = [
            sum(1 << i for i, key in enumerate(reversed(keys)) if key not in members)
            for members in self.members
        ]
        return exp.paren(chosen(self.column, (exp.cast(number(v), kind) for v in values)))


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
    written = group.expressions
    trailing = [s for name in ("rollup", "cube", "grouping_sets") for s in group.args.get(name, [])]
    if trailing:
        keys = list(written)
        parts = [list(_sets(type(trailing[0])(expressions=trailing[0].expressions or written)))]
    else:
        keys = [key for node in written for key in _flat(node)]
        parts = [list(_sets(node)) for node in written]
    sets = [[key for keys in together for key in keys] for together in product(*parts)]
    apart = not trailing and any(isinstance(node, exp.Tuple) for node in written)
    return None if apart or len(trailing) > 1 or not 0 < len(sets) <= _MOST else (keys, sets)


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
        for taken in product((True, False), repeat=min(len(units), 7)):
            yield [k for unit, take in zip(units, taken, strict=False) if take for k in unit]
    else:
        yield list(_flat(node))
