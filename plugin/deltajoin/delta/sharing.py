"""Which steps several paths take together.

Paths of a branch whose remaining steps are equal (relation, version, conditions) need the same
columns of their streams, and the steps add the same to all. Each step is linear in the stream's
weighted rows, so the streams are united and taken on as one: a step is executed once for each
distinct end of a path that begins with it.

Not linear is a step that starts a new stream: what keys enter counts once, whichever rows have
them. Nothing is shared before such a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from deltajoin.delta.path import LookupPath, LookupStep

#: A branch, and the steps ahead there; of steps that can't be shared also the path's number.
_End = tuple[int, int | None, tuple[Any, ...]]


@dataclass(frozen=True)
class SharedEnd:
    """Steps that the paths of these numbers share, counted by how many are ahead: from where
    `first` are to where `last` are."""

    paths: tuple[int, ...]
    first: int
    last: int


def shared_ends(paths: Sequence[LookupPath]) -> tuple[SharedEnd, ...]:
    """All shared runs of steps; one comes after those whose streams it takes."""
    groups = _groups(paths)
    found: list[SharedEnd] = []
    for number, path in enumerate(paths):
        along = [groups[_end(number, path, k)] for k in range(len(path.steps))]
        for k, together in enumerate(along):
            if len(together) == 1 or together[0] != number:
                continue
            if k and along[k - 1] == together:
                continue
            last = next((m for m in range(k, len(along)) if along[m] != together), len(along))
            found.append(SharedEnd(together, len(along) - k, len(along) - last))
    return tuple(sorted(found, key=lambda end: -end.first))


def lookups_executed(paths: Sequence[LookupPath]) -> int:
    """How many steps a run makes: each shared one counts once."""
    return len(_groups(paths))


def with_sharing(paths: Sequence[LookupPath]) -> tuple[LookupPath, ...]:
    """The paths, each step with the other drivers whose paths share it."""
    groups = _groups(paths)

    def marked(number: int, path: LookupPath, k: int) -> LookupStep:
        others = (n for n in groups[_end(number, path, k)] if n != number)
        return replace(path.steps[k], shared_with=tuple(paths[n].driver for n in others))

    return tuple(
        replace(path, steps=tuple(marked(number, path, k) for k in range(len(path.steps))))
        for number, path in enumerate(paths)
    )


def _groups(paths: Sequence[LookupPath]) -> dict[_End, tuple[int, ...]]:
    """Each end of a path -> the numbers of the paths that have it."""
    groups: dict[_End, tuple[int, ...]] = {}
    for number, path in enumerate(paths):
        for k in range(len(path.steps)):
            end = _end(number, path, k)
            groups[end] = (*groups.get(end, ()), number)
    return groups


def _end(number: int, path: LookupPath, k: int) -> _End:
    ahead = path.steps[k:]
    restarts = any(step.kind in ("enter", "scan") for step in ahead)
    return path.branch, number if restarts else None, tuple(map(_identity, ahead))


def _identity(step: LookupStep) -> tuple[Any, ...]:
    """What a step does, whatever is expected of it."""
    chains = (tuple(map(_identity, chain)) for chain in (step.inside, step.previous))
    return (
        step.kind,
        step.relation,
        step.source,
        step.version,
        step.on,
        step.keys,
        step.match,
        *chains,
    )
