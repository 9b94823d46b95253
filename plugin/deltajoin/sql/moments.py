"""Strings that Spark reads as the time of the run: 'now', 'today', 'tomorrow', 'yesterday'.

Spark does so wherever such a constant becomes a date or a timestamp: in a typed literal, in a cast,
and silently where it meets one (`t < 'now'`, `datediff('today', d)`). Rule: the string is accepted
only where it can be nothing but text: projected as it is, as a pattern, cast to a string, as an
argument of a text function, or beside text only.
"""

from __future__ import annotations

import re

from sqlglot import exp

from deltajoin.sql.nodes import function_name, results

_MOMENT = re.compile(
    r"\s*(now|today|tomorrow|yesterday)"
    r"(\s+([a-z]+/[a-z_/+-]+|[a-z]{1,4}|(utc|gmt|ut)?[+-]\d[\d:]*))?\s*",
    re.IGNORECASE,
)
_TEXT_CALLS = frozenset(
    """
    char_length concat concat_ws contains endswith initcap instr length locate lower lpad ltrim
    regexp_extract regexp_replace replace reverse rpad rtrim split split_part startswith substr
    substring translate trim upper
    """.split()
)
_PATTERNS = (exp.Like, exp.ILike, exp.RegexpLike, exp.RegexpILike, exp.SimilarTo)


def names_a_moment(node: exp.Expr) -> bool:
    """Whether this string could stand for the time of the run where it is."""
    written = _string(node)
    if written is None or not _MOMENT.fullmatch(written):
        return False
    while isinstance(node.parent, (exp.Paren, exp.Alias)):
        node = node.parent
    parent = node.parent
    if parent is None or isinstance(parent, (exp.Select, *_PATTERNS)):
        return False
    if isinstance(parent, (exp.If, exp.Case)):
        case = parent.parent if isinstance(parent.parent, exp.Case) else parent
        return parent.this is node or not all(map(_is_text, results(case)))
    if isinstance(parent, (exp.Cast, exp.Anonymous)):
        return not _is_text(parent)
    return not all(_is_text(other) for other in parent.iter_expressions())


def _string(node: exp.Expr) -> str | None:
    """The string that a constant is: as one, raw, or in parts side by side."""
    if isinstance(node, exp.Concat):
        parts = [_string(part) for part in node.expressions]
        return None if None in parts else "".join(part or "" for part in parts)
    raw = isinstance(node, exp.RawString)
    return str(node.this) if raw or (isinstance(node, exp.Literal) and node.is_string) else None


def _is_text(node: exp.Expr) -> bool:
    if isinstance(node, exp.Paren):
        return _is_text(node.this)
    if isinstance(node, exp.Cast):
        return bool(node.to.is_type("text", "varchar", "char"))
    literal = isinstance(node, exp.Literal) and node.is_string
    return literal or isinstance(node, exp.Null) or function_name(node) in _TEXT_CALLS
