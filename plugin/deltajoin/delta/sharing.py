"""Which lookups several paths take together.

Two paths whose remaining lookups are equal (relation, version, predicates) have bound the same
relations, so they carry the same columns: their streams are united and looked up once. All paths
together make a tree of ends; a lookup is executed once for each distinct end that begins with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from deltajoin.delta.path import LookupPath, LookupStep

_End = tuple[tuple[str, int, tuple[str, ...]], ...]


@dataclass(frozen=True)
class SharedEnd:
    """Steps `first` up to `last` (excluded), counted from 0, that the paths of `drivers` share."""

    drivers: tuple[str, ...]
    first: int
    last: int


def shared_ends(paths: Sequence[LookupPath]) -> tuple[SharedEnd, ...]:
    """All shared runs of lookups; one comes after those whose streams it takes."""
    groups = _groups(paths)
    found: list[SharedEnd] = []
    for path in paths:
        along = [groups[_end(path.steps[k:])] for k in range(len(path.steps))]
        for k, drivers in enumerate(along):
            if len(drivers) == 1 or drivers[0] != path.driver:
                continue
            if k and along[k - 1] == drivers:
                continue
            last = next((m for m in range(k, len(along)) if along[m] != drivers), len(along))
            found.append(SharedEnd(drivers, k, last))
    return tuple(sorted(found, key=lambda end: end.first))


def lookups_executed(paths: Sequence[LookupPath]) -> int:
    """How many lookups a run makes: each shared one counts once."""
    return len(_groups(paths))


def with_sharing(paths: Sequence[LookupPath]) -> tuple[LookupPath, ...]:
    """The paths, each step with the other drivers whose paths share it."""
    groups = _groups(paths)

    def marked(path: LookupPath, k: int, step: LookupStep) -> LookupStep:
        others = (d for d in groups[_end(path.steps[k:])] if d != path.driver)
        return replace(step, shared_with=tuple(others))

    return tuple(
        replace(path, steps=tuple(marked(path, k, step) for k, step in enumerate(path.steps)))
        for path in paths
    )


def _groups(paths: Sequence[LookupPath]) -> dict[_End, tuple[str, ...]]:
    """Each end of a path -> the drivers that have it."""
    groups: dict[_End, tuple[str, ...]] = {}
    for path in paths:
        for k in range(len(path.steps)):
            end = _end(path.steps[k:])
            groups[end] = (*groups.get(end, ()), path.driver)
    return groups


def _end(steps: Sequence[LookupStep]) -> _End:
    return tuple((step.relation, step.version, step.on) for step in steps)
