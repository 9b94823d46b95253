"""One frontier for all delta_join models of a dbt invocation.

Rule: the first model that reads a table pins it; the others of the invocation, in whatever thread,
read the same version. dbt runs a model after those that it refers to, so a model pins a target of
this invocation at what has just been written. The frontiers of the last invocations are kept, for
a process may run several at once.
"""

from __future__ import annotations

from threading import Lock

from deltajoin.delta.frontier import Frontier

KEPT = 8

_frontiers: dict[str, Frontier] = {}
_lock = Lock()


def frontier_of(invocation: str) -> Frontier:
    """The frontier of an invocation, by its id; an open one at first.

    Example:
        >>> frontier_of("one") is frontier_of("one"), frontier_of("one") is frontier_of("two")
        (True, False)
    """
    with _lock:
        found = _frontiers.setdefault(invocation, Frontier())
        while len(_frontiers) > KEPT:
            del _frontiers[next(name for name in _frontiers if name != invocation)]
        return found
