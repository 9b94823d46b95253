"""What all delta_join models of a dbt invocation share: one frontier, and what became of each.

Rule: the first model that reads a table pins it; the others of the invocation, in whatever thread,
read the same version. dbt runs a model after those that it refers to, so a model pins a target of
this invocation at what has just been written. The last invocations are kept, for a process may run
several at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltajoin.delta.frontier import Frontier

KEPT = 8


def _open() -> Frontier:
    from deltajoin.delta.frontier import Frontier

    return Frontier()


@dataclass(frozen=True)
class Invocation:
    """One run of dbt; `outcomes` are the lines about each model, by its unique id."""

    frontier: Frontier = field(default_factory=_open)
    outcomes: dict[str, tuple[str, ...]] = field(default_factory=dict)


_invocations: dict[str, Invocation] = {}
_lock = Lock()


def invocation(name: str) -> Invocation:
    """The invocation of this id; a new one with an open frontier at first.

    Example:
        >>> invocation("one") is invocation("one"), invocation("one") is invocation("two")
        (True, False)
    """
    with _lock:
        found = _invocations.setdefault(name, Invocation())
        while len(_invocations) > KEPT:
            del _invocations[next(other for other in _invocations if other != name)]
        return found


def outcomes_of(name: str) -> Mapping[str, tuple[str, ...]]:
    """The lines about the models of an invocation; none where no delta_join model ran."""
    with _lock:
        return dict(_invocations[name].outcomes) if name in _invocations else {}
