"""Which files of a table a query's own literal filters leave: counted in the log, not guessed.

A file is left out when its bounds of one column meet none of the ranges that a filter allows. Of
several columns the one that leaves the fewest bytes is told. A range is never narrower than what
the filters say, so a file that is left out holds no row that they keep.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from deltajoin.catalog.statistics import FileStatistics, Range, Surviving
from deltajoin.graph import ColumnRef
from deltajoin.planner.selectivity import Shape, shape_of

Ranges = dict[ColumnRef, tuple[Range, ...]]


def pruned(log: FileStatistics, filters: Iterable[str]) -> tuple[str, Surviving] | None:
    """The column that leaves the fewest bytes and what it leaves; None without ranges.

    Args:
        filters: conjuncts over one relation of the table.
    """
    ranges = _all(shape_of(sql) for sql in sorted(filters))
    left = [(log.surviving(ref[1], each), ref[1]) for ref, each in sorted(ranges.items())]
    if not left:
        return None
    files, column = min(left, key=lambda found: (found[0].bytes, found[0].files, found[1]))
    return column, files


def _ranges(shape: Shape) -> Ranges:
    """Column -> ranges that hold each value with which the predicate can be true."""
    if shape.kind == "range":
        return {shape.column: ((shape.low, shape.high),)}
    if shape.kind == "in":
        return {shape.column: tuple((value, value) for value in shape.values)}
    if shape.kind == "and":
        return _all(shape.parts)
    if shape.kind == "or":
        parts = [_ranges(part) for part in shape.parts]
        both = set(parts[0]).intersection(*parts[1:])
        return {ref: tuple(each for part in parts for each in part[ref]) for ref in sorted(both)}
    return {}


def _all(shapes: Iterable[Shape]) -> Ranges:
    found: Ranges = {}
    for shape in shapes:
        found = _met(found, _ranges(shape))
    return found


def _met(one: Ranges, other: Ranges) -> Ranges:
    """Both hold: two half-open ranges become one, else either says enough."""
    found = {**other, **one}
    for ref in one.keys() & other.keys():
        found[ref] = _narrowed(one[ref], other[ref])
    return found


def _narrowed(one: tuple[Range, ...], other: tuple[Range, ...]) -> tuple[Range, ...]:
    if len(one) == len(other) == 1:
        (low, high), (start, end) = one[0], other[0]
        if None in (low, start) and None in (high, end):
            return ((_given(low, start), _given(high, end)),)
    return one if all(None not in each for each in one) else other


def _given(one: Any, other: Any) -> Any:
    return other if one is None else one
