"""How one relation's rows match a set, for searches that ask it of thousands of sets.

    share(set, relation)  as `Matching.pairs` has it, without its source

Classes that the relation shares with one partner alone, and residuals over the two, count the same
whatever else is bound. What several such partners contribute is a product; it is kept for each part
of a run of `RUN` relations, so that a set takes one step for each run. Classes of three and more
relations, and residuals over three and more, are judged by what of them is bound.

Caller: `Matching.lookup`.
"""

from __future__ import annotations

import math
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


class _Side(NamedTuple):
    """A wide class on a set's side: fewest values, what makes up for members that only meet by the
    relation, share of values that are not null."""

    distinct: float
    apart: float
    present: float


class _Wide(NamedTuple):
    """A class of several partners: its bit, the relation's links by it, all its relations; the
    relation's distinct values and share not null; what it is on the sets that were asked for."""

    number: int
    links: int
    span: int
    distinct: float
    present: float
    sides: dict[int, _Side]


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
            _Wide(c, classes.links[c][number], classes.spans[c], own.distinct, own.present, {})
            for c in bits(classes.of[number])
            if len(classes.members[c]) > 2
            for own in (classes.members[c][number],)
        )
        together = [(needs & ~(1 << number), share) for needs, share in residuals]
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
            if self._keyed:
                here *= self._classes.factor(self._number, classes)[0]
            elif here > self._rows:
                here = self._rows
            if self._crossing & bound:
                least, most = self._crossed(classes, bound, least, most)
            there *= least if least < 1.0 else most
        distinct = there if there > here else here
        distinct = min(distinct * apart, _MOST) if distinct > 1.0 else min(apart, _MOST)
        share = (present if present > LEAST else LEAST) * residual / distinct
        return (share if share > FLOOR else FLOOR), classes

    def _crossed(self, classes: int, bound: int, least: float, most: float) -> tuple[float, float]:
        """The factors of joint values with those of partners that wide classes cross."""
        for partner in bits(self._crossing & bound):
            factor = self._classes.factor(partner, classes & self._classes.of[partner])[0]
            least, most = min(least, factor), max(most, factor)
        return least, most

    def _widened(self, together: _Part, bound: int) -> tuple[_Part, float]:
        """With the wide classes and residuals; and what makes up for members that meet here."""
        classes, there, here, present, residual, least, most = together
        apart = 1.0
        for number, links, span, distinct, nonnull, sides in self._wide:
            if links & bound:
                within = span & bound
                side = sides.get(within)
                if side is None:
                    side = sides[within] = self._side(number, within, links & within, distinct)
                classes |= 1 << number
                there *= side[0]
                here *= distinct
                apart *= side[1]
                present *= side[2] * nonnull
        for needs, share in self._residuals:
            if needs & bound == needs:
                residual *= share
        there, here = min(there, _MOST), min(here, _MOST)
        return (classes, there, here, present, residual, least, most), apart

    def _side(self, number: int, within: int, met: int, distinct: float) -> _Side:
        groups = [g for g in self._classes.groups(number, within) if g.relations & met]
        values = [group.distinct for group in groups]
        apart = 1.0
        if len(values) > 1:
            smallest = sorted((*values, distinct))
            apart = product_of(smallest[1:]) / max(min(values), distinct)
        return _Side(min(values), apart, math.prod(group.present for group in groups))

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
            if wide & classes.of[partner]:
                if self._may_join(partner, shared | wide & classes.of[partner]):
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

    def _may_join(self, number: int, own: int) -> bool:
        """Whether some of these classes may have fewer values together than their product."""
        values = product_of(self._classes.members[c][number].distinct for c in bits(own))
        return values > self._classes.rows[number] or self._classes.may_cover(number)

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
