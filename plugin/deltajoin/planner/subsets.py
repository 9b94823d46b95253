"""How one relation's rows match every set of its few partners, all at once.

`Partners.match` for all sets, by doubling: what a relation contributes is multiplied into all sets
that do not hold it, and these are the sets that do. For cliques and stars on one key, whose every
set is asked for; one list operation instead of one call for each set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import repeat
from operator import and_, itemgetter, mul

from deltajoin.planner.classes import numbers
from deltajoin.planner.partners import NOTHING, Part, Partners, Wide, product

#: All sets of a graph are looked at where it has up to so many relations.
ALL_OF = 12


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
    sets, classes = _sets(relevant & always, partnered), [first[0]]
    there, here, present, residual = ([value] for value in first[1:5])
    for number in partnered:
        part = _part(partners, number)
        classes += [known | part[0] for known in classes] if part[0] else classes
        for values, factor in zip((there, here, present, residual), part[1:5], strict=True):
            values += [value * factor for value in values] if factor != 1.0 else values
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
    joint = _joint(partners, relevant, always, classes)
    columns = (classes, there, here, present, residual, joint, joint, apart)
    return sets, list(map(partners.share, *columns)), classes


def _sets(held: int, free: Sequence[int]) -> list[int]:
    """All sets that hold some relations and any of others: by doubling, the order of all lists."""
    sets = [held]
    for number in free:
        sets += [joined | 1 << number for joined in sets]
    return sets


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
    return list(map(mul, values, map(factors.__getitem__, where)))


def _joint(
    partners: Partners, relevant: int, always: int, classes: Sequence[int]
) -> Sequence[float]:
    """For all sets in order, the factor of joint values that counts: the least, if below one."""
    factors = _Factors(partners, relevant)
    if not partners.crossing & relevant and set(factors.alone) == {1.0}:
        return factors.alone[:1] * len(classes)
    wide = sum(1 << wide.number for wide in partners.wide)
    rows = map(factors.__getitem__, map(and_, classes, repeat(wide)))
    found = (members(row) for members, row in zip(_members(relevant, always), rows, strict=True))
    return [least if (least := min(own)) < 1.0 else max(own) for own in found]


class _Factors(dict[int, list[float]]):
    """Wide classes that meet -> the factors of the partners' joint values, by relation."""

    def __init__(self, partners: Partners, relevant: int) -> None:
        super().__init__()
        self._partners = partners
        self._crossing = numbers(partners.crossing & relevant)
        self.alone = [1.0] * relevant.bit_length()
        for number in numbers(relevant):
            least, most = partners.single.get(number, NOTHING)[5:]
            self.alone[number] = least if least < 1.0 else most

    def __missing__(self, wide: int) -> list[float]:
        classes, single = self._partners.classes, self._partners.single
        row = self[wide] = self.alone.copy()
        for number in self._crossing:
            own = (wide | single.get(number, NOTHING)[0]) & classes.of[number]
            row[number] = classes.factor(number, own)[0]
        return row


@lru_cache(maxsize=4 * ALL_OF)
def _members(relevant: int, always: int) -> list[Callable[[Sequence[float]], tuple[float, ...]]]:
    """For all sets in order, what stands at their members; of the empty set, at any."""
    sets = _sets(relevant & always, numbers(relevant & ~always))
    return [itemgetter(*(held := numbers(s or relevant)), held[0]) for s in sets]


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
    parts = _sets(always, partnered)
    there, here, apart, present = ([1.0] * len(parts) for _ in range(4))
    groups, own = partners.classes.groups, 1.0 if _by_one(wide) else wide.distinct
    for at, part in enumerate(parts):
        met = wide.links & part
        if met:
            found = groups(wide.number, part)
            if len(found) == 1:
                there[at], nonnull = found[0].distinct, found[0].present
            else:
                there[at], apart[at], nonnull = partners.side(wide.number, part, met, wide.distinct)
            here[at], present[at] = own, nonnull * wide.present
    return there, here, apart, present
