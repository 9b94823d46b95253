"""Rows of every set of a small graph with a hub, for all of its paths.

    rows(S) = min over the last relation j of rows(S - j) x fan-out(S - j -> j)

What `search` grows set by set, by whole lists: nearly every set around a hub is connected, and each
path asks for all that hold its driver. The fan-outs are listed once; which sets stand before a set
is the same in every graph. A step that no predicate links has an infinite fan-out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter, mul

from deltajoin.planner.classes import numbers
from deltajoin.planner.steps import ALL_OF, Steps

#: Partners that make a relation a hub: 256 sets around it at least.
_PARTNERS = 8
_Getter = Callable[[Sequence[float]], tuple[float, ...]]


class EverySet:
    """The fan-outs of a graph, in a list by set: one for each of its relations, come last."""

    def __init__(self, steps: Steps) -> None:
        self._before = _sets_before(len(steps.names))
        self._fan_outs: list[list[float]] = [[] for _ in self._before]
        self._connected = connected = _connected(steps.adjacent)
        size = steps.size
        for new, adjacent in enumerate(steps.adjacent):
            bit, known, relevant = 1 << new, steps.fan_outs(new), steps.relevant[new]
            for joined, found in enumerate(self._fan_outs):
                if joined & bit:
                    before = joined ^ bit
                    if before & adjacent and connected[before]:
                        found.append((known.get(before & relevant) or size(before, new))[0])
                    else:
                        found.append(math.inf)

    def rings(self, bound: int, rows: float, within: int) -> list[dict[int, float]]:
        """Set -> rows, by size: all connected sets from `bound`, of `rows` rows, to `within`."""
        rows_of = [math.inf] * len(self._fan_outs)
        rows_of[bound] = rows
        before, fan_outs, connected = self._before, self._fan_outs, self._connected
        rings = [{bound: rows}]
        for layer in _layers(bound, within):
            sets = [s for s in layer if connected[s]]
            rings.append({s: min(map(mul, before[s](rows_of), fan_outs[s])) for s in sets})
            for joined, found in rings[-1].items():
                rows_of[joined] = found
        return rings


def has_hub(steps: Steps) -> bool:
    """Whether a graph is small and has a relation with many partners."""
    few = len(steps.names) <= ALL_OF
    return few and max(near.bit_count() for near in steps.adjacent) >= _PARTNERS


def _connected(adjacent: Sequence[int]) -> list[bool]:
    """For each set, whether predicates link all of it: one of it to the rest, and the rest."""
    found = [True]
    for joined in range(1, 1 << len(adjacent)):
        rest = joined
        while rest:
            bit = rest & -rest
            before = joined ^ bit
            if found[before] and (before & adjacent[bit.bit_length() - 1] or not before):
                break
            rest ^= bit
        found.append(rest != 0)
    return found


@lru_cache(maxsize=ALL_OF)
def _sets_before(size: int) -> list[_Getter]:
    """For each set of so many relations, what stands at the sets that lack one of it, by the one.

    A set needs two relations to be asked for.
    """
    sets = ([s ^ 1 << last for last in numbers(s)] for s in range(1 << size))
    return [itemgetter(*(before if len(before) > 1 else (0, 0))) for before in sets]


@lru_cache(maxsize=ALL_OF * ALL_OF)
def _layers(bound: int, within: int) -> list[list[int]]:
    """The sets between two, by size, without the first."""
    layers: list[list[int]] = [[] for _ in numbers(within & ~bound)]
    for joined in range(bound + 1, within + 1):
        if joined & bound == bound and not joined & ~within:
            layers[(joined ^ bound).bit_count() - 1].append(joined)
    return layers
