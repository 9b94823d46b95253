"""How one relation's rows match every set of its few partners, all at once.

`Partners.match` for all sets, by doubling: what a relation contributes is multiplied into all sets
that do not hold it, and these are the sets that do. For cliques and stars on one key, whose every
set is asked for; one list operation instead of one call for each set.
"""

from __future__ import annotations

from collections.abc import Sequence

from deltajoin.planner.classes import Classes, numbers
from deltajoin.planner.partners import NOTHING, Part, Partners, Wide, product


def every_match(
    partners: Partners, relevant: int, always: int = 0
) -> tuple[list[int], list[float], list[int]]:
    """All sets of some relations, the share of pairs that match of each, the classes that meet.

    Args:
        always: relations that all of the sets hold.
    """
    partnered = numbers(relevant & ~always)
    first = NOTHING
    for number in numbers(relevant & always):
        first = product(first, _part(partners, number))
    sets, classes = [relevant & always], [first[0]]
    there, here, present, residual, least, most = ([value] for value in first[1:])
    for number in partnered:
        bit, part = 1 << number, _part(partners, number)
        sets += [joined | bit for joined in sets]
        classes += [known | part[0] for known in classes] if part[0] else classes
        for values, factor in zip((there, here, present, residual), part[1:5], strict=True):
            values += [value * factor for value in values] if factor != 1.0 else values
        least += [min(value, part[5]) for value in least] if part[5] < 1.0 else least
        most += [max(value, part[6]) for value in most] if part[6] > 1.0 else most
    apart = [1.0] * len(sets)
    for wide in partners.wide:
        where = _places(partnered, wide.span)
        spanned = [n for n in partnered if wide.span >> n & 1]
        sides = _sides(partners, wide, wide.span & always, spanned)
        there, here, apart, present = (
            _multiplied(values, side, where)
            for values, side in zip((there, here, apart, present), sides, strict=True)
        )
    for needs, share in partners.residuals:
        residual = [
            value * share if needs & joined == needs else value
            for value, joined in zip(residual, sets, strict=True)
        ]
    for number in numbers(partners.crossing & relevant):
        bit, factors = 1 << number, _Factors(partners.classes, number)
        of = partners.classes.of[number]
        own = [
            factors[known & of] if joined & bit else 1.0
            for known, joined in zip(classes, sets, strict=True)
        ]
        least = [a if a < b else b for a, b in zip(least, own, strict=True)]
        if max(own) > 1.0:
            most = [max(pair) for pair in zip(most, own, strict=True)]
    parts = zip(classes, there, here, present, residual, least, most, strict=True)
    return sets, list(map(partners.share, parts, apart)), classes


def _part(partners: Partners, number: int) -> Part:
    """What a partner contributes, with the wide classes that meet by it alone or with others."""
    classes, there, here, *rest = partners.single.get(number, NOTHING)
    for wide in partners.wide:
        if wide.links >> number & 1:
            classes |= 1 << wide.number
            here *= wide.distinct if _by_one(wide) else 1.0
    return (classes, there, here, rest[0], rest[1], rest[2], rest[3])


def _by_one(wide: Wide) -> bool:
    return wide.links & (wide.links - 1) == 0


def _multiplied(values: list[float], factors: Sequence[float], where: Sequence[int]) -> list[float]:
    if min(factors) == max(factors) == 1.0:
        return values
    return [value * factors[at] for value, at in zip(values, where, strict=True)]


class _Factors(dict[int, float]):
    """Classes of a relation's own -> the factor of their joint values."""

    def __init__(self, classes: Classes, number: int) -> None:
        super().__init__()
        self._classes, self._number = classes, number

    def __missing__(self, own: int) -> float:
        found = self[own] = self._classes.factor(self._number, own)[0]
        return found


def _places(partnered: Sequence[int], span: int) -> list[int]:
    """For all sets in order, where the part within a span stands among all parts."""
    places, step = [0], 1
    for number in partnered:
        if span >> number & 1:
            places += [place + step for place in places]
            step *= 2
        else:
            places += places
    return places


def _sides(
    partners: Partners, wide: Wide, always: int, partnered: Sequence[int]
) -> tuple[list[float], list[float], list[float], list[float]]:
    """Of a wide class on all parts of its span: distinct values on the set's side and on the
    relation's where several partners link it, what makes up for members that meet here, share not
    null; ones where none meets."""
    parts = [always]
    for number in partnered:
        parts += [part | 1 << number for part in parts]
    there, here, apart, present = ([1.0] * len(parts) for _ in range(4))
    for at, part in enumerate(parts):
        met = wide.links & part
        if met:
            side = wide.sides.get(part)
            if side is None:
                side = partners.side(wide.number, part, met, wide.distinct)
                wide.sides[part] = side
            there[at], apart[at] = side.distinct, side.apart
            here[at] = 1.0 if _by_one(wide) else wide.distinct
            present[at] = side.present * wide.present
    return there, here, apart, present
