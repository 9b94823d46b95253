"""`EXISTS (... WHERE a < b)`: some b is greater exactly where the greatest is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from deltajoin.accelerate.families import as_doubles
from deltajoin.accelerate.protocol import Candidates, Extreme, Sides
from deltajoin.sql.dialect import text
from deltajoin.sql.keys import TURNED, comparisons


@dataclass(frozen=True)
class Inequality:
    """One comparison, beside equalities alone, of a semi or anti join."""

    name: str = "inequality"
    joins: frozenset[str] = frozenset({"semi", "anti"})

    def recognise(self, conditions: Sequence[exp.Expr], sides: Sides) -> Candidates | None:
        """The extreme that stands for all of the right side."""
        across = [node.unnest() for node in conditions if sides.of(node) == "both"]
        compared = [node for node in across if len(comparisons(node)) == 1]
        others = [node for node in across if node not in compared]
        if len(compared) != 1 or not all(isinstance(node, exp.EQ) for node in others):
            return None
        if any("both" in map(sides.of, (n.this, n.expression)) for n in across):
            return None
        (node,) = compared
        ((left, operator, right),) = comparisons(node)
        if sides.of(left) == "right":
            left, operator, right = right, TURNED[operator], left
        if as_doubles([left, right], sides.type_of) is None:
            return None
        extreme = Extreme(text(left), operator, text(right))
        return Candidates(self.name, (text(node),), extreme=extreme)
