"""Joins by edit distance: `levenshtein(a.s, b.s) <= n`.

An edit adds, takes away or exchanges one character, so texts within n edits differ by n characters
in length at most. The span of the one is its length, of the other its length, n less to n more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from deltajoin.accelerate.protocol import EVERY_JOIN, Candidates, Sides, Span
from deltajoin.sql.dialect import text


@dataclass(frozen=True)
class EditDistance:
    """`levenshtein(a.s, b.s) <= n` or `< n`, where n is a whole number."""

    name: str = "edit distance"
    joins: frozenset[str] = EVERY_JOIN

    def recognise(self, conditions: Sequence[exp.Expr], sides: Sides) -> Candidates | None:
        """The lengths of both texts of the first such condition."""
        for node in conditions:
            if not isinstance(node, (exp.LT, exp.LTE)) or not _whole(node.expression):
                continue
            call = node.this
            # With a third argument, a distance beyond that is -1, which is less than n.
            if not isinstance(call, exp.Anonymous) or len(call.expressions) != 2:
                continue
            texts = {sides.of(each): each for each in call.expressions}
            if str(call.this).lower() == "levenshtein" and set(texts) == {"left", "right"}:
                left, right = _length(texts["left"]), _length(texts["right"])
                most = f"{node.expression.this}D"
                span = Span((left, left), (f"({right} - {most})", f"({right} + {most})"))
                return Candidates(self.name, (text(node),), (span,))
        return None


def _length(node: exp.Expr) -> str:
    return f"CAST(length(CAST({text(node)} AS STRING)) AS DOUBLE)"


def _whole(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdigit()
