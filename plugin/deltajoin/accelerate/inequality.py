"""One comparison, which alone says nothing of ranges.

EXISTS (... WHERE a < b)           some b is greater exactly where the greatest is
sum(b.v) ... JOIN b ON a >= b.x    the rows up to a value have the running sum there
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from deltajoin.accelerate.families import alike, as_doubles
from deltajoin.accelerate.protocol import EVERY_JOIN, Candidates, Extreme, Running, Sides
from deltajoin.sql.dialect import text
from deltajoin.sql.keys import TURNED, comparisons


@dataclass(frozen=True)
class Inequality:
    """One comparison, beside equalities alone, of a semi or anti join, or below aggregates."""

    name: str = "inequality"
    joins: frozenset[str] = EVERY_JOIN

    def recognise(self, conditions: Sequence[exp.Expr], sides: Sides) -> Candidates | None:
        """The extreme that stands for all of the right side, or the order of its rows."""
        is_extreme = sides.kind in ("semi", "anti")
        if not (is_extreme or sides.aggregated):
            return None
        across = [node.unnest() for node in conditions if sides.of(node) == "both"]
        compared = [node for node in across if len(comparisons(node)) == 1]
        others = [node for node in across if node not in compared]
        if len(compared) != 1 or not all(isinstance(node, exp.EQ) for node in others):
            return None
        keys = [pair for node in others if (pair := sides.parted(node.this, node.expression))]
        (node,) = compared
        ((one, operator, other),) = comparisons(node)
        ends = sides.parted(one, other)
        if ends is None or len(keys) < len(others):
            return None
        operator = operator if ends == (one, other) else TURNED[operator]
        left, right = map(text, ends)
        if is_extreme:
            if as_doubles([*ends], sides.type_of) is None:
                return None
            extreme = Extreme(left, operator, right)
            return Candidates(self.name, (text(node),), extreme=extreme)
        if not all(alike(*pair, sides.type_of) for pair in (ends, *keys)):
            return None
        equal = tuple((text(mine), text(theirs)) for mine, theirs in keys)
        running = Running(left, operator, right, equal)
        return Candidates(self.name, (text(node),), running=running)
