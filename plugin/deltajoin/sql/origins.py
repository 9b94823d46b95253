"""Where the lines of a query were written that was put together from a text and its views.

An error names a line of the text that was bound, which nobody has written; here it becomes the line
of the query or of the view. Caller: `sql/views.py` notes the lines, the plan's front uses them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from deltajoin.errors import DeltaJoinError

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


def origin(where: str, remedy: str, lines: Sequence[str]) -> tuple[str, str]:
    """Place and remedy for who wrote the line that a place names.

    Example:
        >>> lines = ("line 1", "view v, line 1", "line 1")
        >>> origin("line 2", "Write b.", lines)
        ('view v, line 1', 'Write b. Or make the view a table.')
        >>> origin("line 3", "Write b.", lines), origin("orders.id", "Write b.", lines)
        (('line 1', 'Write b.'), ('orders.id', 'Write b.'))
    """
    named = _LINE.fullmatch(where)
    if named is None or int(named[1]) > len(lines):
        return where, remedy
    found = lines[int(named[1]) - 1]
    more = " Or make the view a table." if found.startswith(VIEW) else ""
    return found + named[2], (remedy + more).strip()


@contextmanager
def at_origin(lines: Sequence[str]) -> Iterator[None]:
    """Raise errors about a query with the place where its line was written."""
    try:
        yield
    except DeltaJoinError as error:
        where, remedy = origin(error.where or "", error.remedy or "", lines)
        if where == (error.where or ""):
            raise
        raise DeltaJoinError(error.code, error.message, where=where, remedy=remedy) from error
