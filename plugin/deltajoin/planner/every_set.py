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
from deltajoin.planner.steps import Steps
from deltajoin.planner.subsets import ALL_OF

#: Partners that make a relation a hub: 256 sets around it at least.
_PARTNERS = 8
_Getter = Callable[[Sequence[float]], tuple[float, ...]]


class EverySet:
    """The fan-outs of a graph, in a list by set: one for each of its relations, come last."""

    def __init__(self, steps: Steps) -> None:
        size = len(steps.names)
        self._before = _sets_before(size)
        self._connected = connected = _connected(steps.adjacent)
        self._fan_outs: list[list[float]] = [[] for _ in self._before]
        for new, adjacent in enumerate(steps.adjacent):
            bit, relevant, known = 1 << new, steps.relevant[new], steps.fan_outs(new)
            for joined in _holding(size, new):
                if joined & adjacent and connected[joined ^ bit]:
                    met = joined & relevant
                    fan_out = known[met] if met in known else steps.size(met, new)[0]
                    self._fan_outs[joined].append(fan_out)
                else:
                    self._fan_outs[joined].append(math.inf)

    def rows(self, bound: int, rows: float, within: int) -> tuple[list[float], list[float]]:
        """By set the rows of all sets from `bound`, of `rows` rows, to `within`; the fewest of each
        size. Infinite where predicates don't link a set."""
        rows_of, least = [math.inf] * len(self._before), [rows]
        rows_of[bound] = rows
        before, fan_outs, connected = self._before, self._fan_outs, self._connected
        for layer in _layers(bound, within):
            sets = [s for s in layer if connected[s]]
            for s in sets:
                rows_of[s] = min(map(mul, before[s](rows_of), fan_outs[s]))
            least.append(min(map(rows_of.__getitem__, sets), default=math.inf))
        return rows_of, least


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
def _holding(size: int, number: int) -> list[int]:
    """The sets of so many relations that hold one."""
    return [joined for joined in range(1 << size) if joined >> number & 1]


@lru_cache(maxsize=ALL_OF * ALL_OF)
def _layers(bound: int, within: int) -> list[list[int]]:
    """The sets between two, by size, without the first."""
    layers: list[list[int]] = [[] for _ in numbers(within & ~bound)]
    for joined in range(bound + 1, within + 1):
        if joined & bound == bound and not joined & ~within:
            layers[(joined ^ bound).bit_count() - 1].append(joined)
    return layers
