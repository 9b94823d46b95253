"""Texts that begin with another: `startswith(s, p)`, `s LIKE concat(p, '%')`, `s LIKE p || '%'`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from deltajoin.accelerate.protocol import EVERY_JOIN, Candidates, Shared, Sides, TypeOf
from deltajoin.names import RESERVED_PREFIX
from deltajoin.sql.dialect import text
from deltajoin.sql.kinds import kind_of

#: Characters of a prefix that are compared by equality.
_LONGEST = 32
#: The name of a lambda's argument, which no relation has.
_LENGTH = f"{RESERVED_PREFIX}length"
#: What a pattern begins with before its first wildcard or escape.
_PLAIN = r"'^[^%_\\\\]*'"


@dataclass(frozen=True)
class Prefixes:
    """One text begins with the other: the other is among its beginnings."""

    name: str = "prefix"
    joins: frozenset[str] = EVERY_JOIN

    def recognise(self, conditions: Sequence[exp.Expr], sides: Sides) -> Candidates | None:
        """The beginnings of the one text and the first characters of the other."""
        for node in conditions:
            found = _begins(node)
            if found is None:
                continue
            whole, prefix, pattern = found
            plain = all(is_plain_text(each, sides.type_of) for each in (whole, prefix))
            if sides.parted(whole, prefix) is None or not plain:
                continue
            start = text(prefix)
            if pattern:
                start = f"regexp_extract({start}, {_PLAIN}, 0)"
            start = f"substring({start}, 1, {_LONGEST})"
            all_starts = (
                f"transform(sequence(0, least(length({text(whole)}), {_LONGEST})), "
                f"{_LENGTH} -> substring({text(whole)}, 1, {_LENGTH}))"
            )
            many = sides.of(whole)
            left, right = (all_starts, start) if many == "left" else (start, all_starts)
            shared = Shared(left, right, frozenset({many}))
            return Candidates(self.name, (text(node),), shared=shared)
        return None


def is_plain_text(node: exp.Expr, type_of: TypeOf) -> bool:
    """True for a text that is compared byte by byte: no part of it has a collation."""
    types = [type_of(column) for column in node.find_all(exp.Column)]
    collated = node.find(exp.Collate) or any("collate" in kind.lower() for kind in types)
    return not collated and kind_of(node, type_of) == "string"


def _begins(node: exp.Expr) -> tuple[exp.Expr, exp.Expr, bool] | None:
    """The whole text, its beginning, whether that is a pattern."""
    if isinstance(node, exp.Anonymous) and str(node.this).lower() == "startswith":
        return (*node.expressions, False) if len(node.expressions) == 2 else None
    if not isinstance(node, exp.Like) or node.args.get("negate"):
        return None
    pattern = node.expression.unnest()
    parts: list[exp.Expr] = []
    if isinstance(pattern, exp.DPipe):
        parts = [pattern.this, pattern.expression]
    elif _is_concat(pattern):
        parts = list(pattern.expressions)
    ends = len(parts) == 2 and isinstance(parts[1], exp.Literal) and parts[1].this == "%"
    # A pattern that begins with a wildcard has no beginning.
    ends = ends and not _first_text(parts[0]).startswith(("%", "_"))
    return (node.this, parts[0], True) if ends else None


def _is_concat(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this).lower() == "concat"


def _first_text(node: exp.Expr) -> str:
    """The literal that a concatenation begins with; empty for another beginning."""
    while isinstance(node, (exp.DPipe, exp.Paren)) or _is_concat(node):
        node = node.expressions[0] if _is_concat(node) else node.this
    return str(node.this) if isinstance(node, exp.Literal) else ""
