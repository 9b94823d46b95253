"""How one relation's rows match a set, for searches that ask it of thousands of sets.

    share(set, relation)  as `Matching.pairs` has it, without its source

Classes that the relation shares with one partner alone, and residuals over the two, count the same
whatever else is bound. What several such partners contribute is a product; it is kept for each part
of a run of `RUN` relations, so that a set takes one step for each run. Classes of three and more
relations, and residuals over three and more, are judged by what of them is bound.

Caller: `Matching.lookup`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from deltajoin.planner.classes import FLOOR, LEAST, Classes, bits, product_of

RUN = 8
_RUN = (1 << RUN) - 1
_MOST = 1e200

#: Classes that meet; distinct values on the set's side, on the relation's; shares of values that
#: are not null, of pairs that residuals keep; least and most factor of a partner's joint values.
_Part = tuple[int, float, float, float, float, float, float]
_NOTHING: _Part = (0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)


class _Wide(NamedTuple):
    """A class of several partners: its bit, the relation's links by it, its distinct values."""

    number: int
    links: int
    distinct: float
    present: float


class Partners:
    """The predicates between one relation and others; see the module."""

    def __init__(
        self, classes: Classes, number: int, residuals: Iterable[tuple[int, float]]
    ) -> None:
        """`residuals` are the relations that each touches, and the share that it keeps."""
        self._classes = classes
        self._number = number
        self._rows = classes.rows[number]
        self._keyed = classes.may_cover(number)
        self._wide = tuple(
            _Wide(c, links[number], members[number].distinct, members[number].present)
            for c in bits(classes.of[number])
            if len(members := classes.members[c]) > 2
            for links in (classes.links[c],)
        )
        own = 1 << number
        together = [(needs & ~own, share) for needs, share in residuals]
        self._residuals = tuple((n, share) for n, share in together if n & (n - 1))
        #: Partners whose joint values depend on which wide classes meet.
        self._crossing = 0
        self._single = self._parts([(n, share) for n, share in together if not n & (n - 1)])
        runs = sorted({partner // RUN * RUN for partner in self._single})
        self._runs = tuple((run, dict[int, _Part]()) for run in runs)

    def match(self, bound: int) -> tuple[float, int]:
        """Share of the pairs that match, above zero; the classes that meet, as a bit set."""
        together = _NOTHING
        for run, parts in self._runs:
            part = bound >> run & _RUN
            if part:
                more = parts.get(part) or self._part(run, parts, part)
                together = _product(together, more) if together is not _NOTHING else more
        apart = 1.0
        if self._wide or self._residuals:
            together, apart = self._widened(together, bound)
        classes, there, here, present, residual, least, most = together
        if not classes:
            return max(residual, LEAST), 0
        if classes & (classes - 1):
            here *= self._joint(classes, here)
            for partner in bits(self._crossing & bound):
                own = classes & self._classes.of[partner]
                factor = self._classes.factor(partner, own)[0]
                least, most = min(least, factor), max(most, factor)
            there *= least if least < 1.0 else most
        distinct = min(max(there, here, 1.0) * apart, _MOST)
        return max(max(present, LEAST) * residual / distinct, FLOOR), classes

    def _widened(self, together: _Part, bound: int) -> tuple[_Part, float]:
        """With the wide classes and residuals; and what makes up for members that meet here."""
        classes, there, here, present, residual, least, most = together
        apart = 1.0
        for number, links, distinct, nonnull in self._wide:
            met = links & bound
            if met:
                classes |= 1 << number
                value, values, share = self._side(number, bound, met)
                there, here = min(there * value, _MOST), min(here * distinct, _MOST)
                present *= share * nonnull
                if len(values) > 1:
                    smallest = sorted((*values, distinct))
                    apart *= product_of(smallest[1:]) / max(value, distinct)
        for needs, share in self._residuals:
            if needs & bound == needs:
                residual *= share
        return (classes, there, here, present, residual, least, most), apart

    def _side(self, number: int, bound: int, met: int) -> tuple[float, list[float], float]:
        """A wide class on the set's side: fewest values, those of each group, share not null."""
        values, present = [], 1.0
        for relations, distinct, share in self._classes.groups(number, bound):
            if relations & met:
                values.append(distinct)
                present *= share
        return min(values), values, present

    def _joint(self, classes: int, product: float) -> float:
        if self._keyed:
            return self._classes.factor(self._number, classes)[0]
        return min(product, self._rows) / product

    def _parts(self, residuals: Iterable[tuple[int, float]]) -> dict[int, _Part]:
        """What each partner contributes by itself, by its number."""
        classes, own = self._classes, 1 << self._number
        wide = sum(1 << w.number for w in self._wide)
        alone: dict[int, int] = {}
        for partner, joined in classes.linked[self._number]:
            alone[partner] = alone.get(partner, 0) | (0 if wide >> joined & 1 else 1 << joined)
        for joined in bits(wide):
            for partner in bits(classes.spans[joined] & ~own):
                alone.setdefault(partner, 0)
        kept: dict[int, float] = {}
        for needs, share in residuals:
            partner = needs.bit_length() - 1
            alone.setdefault(partner, 0)
            kept[partner] = kept.get(partner, 1.0) * share
        parts = {}
        for partner, shared in alone.items():
            both = [
                (classes.members[c][partner], classes.members[c][self._number])
                for c in bits(shared)
            ]
            there = product_of(member.distinct for member, _ in both)
            here = product_of(member.distinct for _, member in both)
            present = product_of(m.present * n.present for m, n in both)
            factor = 1.0
            if (shared | wide & classes.of[partner]).bit_count() > shared.bit_count():
                self._crossing |= 1 << partner
            else:
                factor = classes.factor(partner, shared)[0]
            residual = kept.get(partner, 1.0)
            if shared or residual != 1.0:
                parts[partner] = (
                    shared,
                    there,
                    here,
                    present,
                    residual,
                    min(factor, 1.0),
                    max(factor, 1.0),
                )
        return parts

    def _part(self, run: int, parts: dict[int, _Part], part: int) -> _Part:
        """What the partners of a part of a run contribute together."""
        low = part & -part
        found = self._single.get(run + low.bit_length() - 1, _NOTHING)
        if part != low:
            rest = part ^ low
            found = _product(found, parts.get(rest) or self._part(run, parts, rest))
        parts[part] = found
        return found


def _product(one: _Part, other: _Part) -> _Part:
    classes, there, here, present, residual, least, most = one
    classes_, there_, here_, present_, residual_, least_, most_ = other
    there *= there_
    here *= here_
    return (
        classes | classes_,
        there if there < _MOST else _MOST,
        here if here < _MOST else _MOST,
        present * present_,
        residual * residual_,
        least if least < least_ else least_,
        most if most > most_ else most_,
    )
