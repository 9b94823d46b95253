"""Where the lines of a query were written that was put together from a text and its views.

An error names a line of the text that was bound, which nobody has written; here it becomes the line
of the query or of the view. Caller: `sql/views.py` notes the lines, the plan's front uses them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from deltajoin.errors import Refusal, reworded

Lines = tuple[str, ...]
VIEW = "view "
_LINE = re.compile(r"line (\d+)(.*)")


def numbered(count: int, view: str = "") -> Lines:
    """The places of the lines of a query, or of a view's.

    Example:
        >>> numbered(1), numbered(2, "dw.v")
        (('line 1',), ('view dw.v, line 1', 'view dw.v, line 2'))
    """
    head = f"{VIEW}{view}, " if view else ""
    return tuple(f"{head}line {number}" for number in range(1, count + 1))


def origin(refusal: Refusal, lines: Sequence[str]) -> Refusal:
    """The refusal for who wrote the line that it names.

    Example:
        >>> lines = ("line 1", "view v, line 1", "line 1")
        >>> found = origin(Refusal("LIMIT", "LIMIT", "line 2", "Write b."), lines)
        >>> found.where, found.remedy
        ('view v, line 1', 'Write b. Or make the view a table.')
        >>> origin(Refusal("LIMIT", "LIMIT", "line 3", "Write b."), lines).where
        'line 1'
    """
    named = _LINE.fullmatch(refusal.where or "")
    if named is None or int(named[1]) > len(lines):
        return refusal
    line = lines[int(named[1]) - 1]
    more = " Or make the view a table." if line.startswith(VIEW) else ""
    remedy = ((refusal.remedy or "") + more).strip()
    return replace(refusal, where=line + named[2], remedy=remedy)


def at_origin(lines: Sequence[str]) -> AbstractContextManager[None]:
    """Raise errors about a query with the place where its line was written."""
    return reworded(lambda refusal: origin(refusal, lines))
