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

from deltajoin.planner.classes import FLOOR, LEAST, Classes, numbers, product_of

RUN = 8
_RUN = (1 << RUN) - 1
MOST = 1e200

#: Classes that meet; distinct values on the set's side, on the relation's; shares of values that
#: are not null, of pairs that residuals keep; least and most factor of a partner's joint values.
Part = tuple[int, float, float, float, float, float, float]
NOTHING: Part = (0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)


class Side(NamedTuple):
    """A wide class on a set's side: fewest values, what makes up for members that only meet by the
    relation, share of values that are not null."""

    distinct: float
    apart: float
    present: float


class Wide(NamedTuple):
    """A class of several partners: its bit, the relation's links by it, all its relations; the
    relation's distinct values and share not null; what it is on the sets that were asked for."""

    number: int
    links: int
    span: int
    distinct: float
    present: float
    sides: dict[int, Side]


class Partners:
    """The predicates between one relation and others; see the module."""

    def __init__(
        self, classes: Classes, number: int, residuals: Iterable[tuple[int, float]]
    ) -> None:
        """`residuals` are the relations that each touches, and the share that it keeps."""
        self.classes = classes
        self.number = number
        self.rows = classes.rows[number]
        self.keyed = classes.may_cover(number)
        self.wide = tuple(
            Wide(c, classes.links[c][number], classes.spans[c], own.distinct, own.present, {})
            for c in numbers(classes.of[number])
            if len(classes.members[c]) > 2
            for own in (classes.members[c][number],)
        )
        together = [(needs & ~(1 << number), share) for needs, share in residuals]
        self.residuals = tuple((n, share) for n, share in together if n & (n - 1))
        #: Partners whose joint values depend on which wide classes meet.
        self.crossing = 0
        self.single = self._parts([(n, share) for n, share in together if not n & (n - 1)])
        runs = sorted({partner // RUN * RUN for partner in self.single})
        self._runs = tuple((run, dict[int, Part]()) for run in runs)

    def match(self, bound: int) -> tuple[float, int]:
        """Share of the pairs that match, above zero; the classes that meet, as a bit set."""
        together = NOTHING
        for run, parts in self._runs:
            part = bound >> run & _RUN
            if part:
                more = parts.get(part) or self._part(run, parts, part)
                together = product(together, more) if together is not NOTHING else more
        apart = 1.0
        if self.wide or self.residuals:
            together, apart = self._widened(together, bound)
        if self.crossing & bound and together[0] & (together[0] - 1):
            together = self._crossed(together, bound)
        return self.share(*together, apart), together[0]

    def share(
        self,
        classes: int,
        there: float,
        here: float,
        present: float,
        residual: float,
        least: float,
        most: float,
        apart: float,
    ) -> float:
        """The share of what partners contribute together, a `Part`, and what makes up for members
        that meet here."""
        if not classes:
            return residual if residual > LEAST else LEAST
        if classes & (classes - 1):
            if self.keyed:
                here = min(here, MOST) * self.classes.factor(self.number, classes)[0]
            elif here > self.rows:
                here = self.rows
            there = (there if there < MOST else MOST) * (least if least < 1.0 else most)
        distinct = (there if there > here else here) * apart
        if distinct > MOST or distinct < apart:
            distinct = min(max(distinct, apart), MOST)
        share = (present if present > LEAST else LEAST) * residual / distinct
        return share if share > FLOOR else FLOOR

    def _crossed(self, together: Part, bound: int) -> Part:
        """With the joint values of partners that wide classes cross."""
        classes, _, _, _, _, least, most = together
        for partner in numbers(self.crossing & bound):
            factor = self.classes.factor(partner, classes & self.classes.of[partner])[0]
            least, most = min(least, factor), max(most, factor)
        return (*together[:5], least, most)

    def _widened(self, together: Part, bound: int) -> tuple[Part, float]:
        """With the wide classes and residuals; and what makes up for members that meet here."""
        classes, there, here, present, residual, least, most = together
        apart = 1.0
        for number, links, span, distinct, nonnull, sides in self.wide:
            if links & bound:
                within = span & bound
                side = sides.get(within)
                if side is None:
                    side = sides[within] = self.side(number, within, links & within, distinct)
                classes |= 1 << number
                there *= side[0]
                here *= distinct
                apart *= side[1]
                present *= side[2] * nonnull
        for needs, share in self.residuals:
            if needs & bound == needs:
                residual *= share
        there, here = min(there, MOST), min(here, MOST)
        return (classes, there, here, present, residual, least, most), apart

    def side(self, number: int, within: int, met: int, distinct: float) -> Side:
        """What members of a wide class are, of which some are linked with the relation."""
        groups = self.classes.groups(number, within)
        if len(groups) == 1:
            return Side(groups[0].distinct, 1.0, groups[0].present)
        groups = tuple(group for group in groups if group.relations & met)
        values = [group.distinct for group in groups]
        apart = 1.0
        if len(values) > 1:
            smallest = sorted((*values, distinct))
            apart = product_of(smallest[1:]) / max(min(values), distinct)
        return Side(min(values), apart, math.prod(group.present for group in groups))

    def _parts(self, residuals: Iterable[tuple[int, float]]) -> dict[int, Part]:
        """What each partner contributes by itself, by its number."""
        classes, own = self.classes, 1 << self.number
        wide = sum(1 << w.number for w in self.wide)
        alone: dict[int, int] = {}
        for partner, joined in classes.linked[self.number]:
            alone[partner] = alone.get(partner, 0) | (0 if wide >> joined & 1 else 1 << joined)
        for joined in numbers(wide):
            for partner in numbers(classes.spans[joined] & ~own):
                alone.setdefault(partner, 0)
        kept: dict[int, float] = {}
        for needs, share in residuals:
            partner = needs.bit_length() - 1
            alone.setdefault(partner, 0)
            kept[partner] = kept.get(partner, 1.0) * share
        parts = {}
        for partner, shared in alone.items():
            both = [
                (classes.members[c][partner], classes.members[c][self.number])
                for c in numbers(shared)
            ]
            there = product_of(member.distinct for member, _ in both)
            here = product_of(member.distinct for _, member in both)
            present = product_of(m.present * n.present for m, n in both)
            factor = 1.0
            if wide & classes.of[partner]:
                if self._may_join(partner, shared | wide & classes.of[partner]):
                    self.crossing |= 1 << partner
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
        values = product_of(self.classes.members[c][number].distinct for c in numbers(own))
        return values > self.classes.rows[number] or self.classes.may_cover(number)

    def _part(self, run: int, parts: dict[int, Part], part: int) -> Part:
        """What the partners of a part of a run contribute together."""
        low = part & -part
        found = self.single.get(run + low.bit_length() - 1, NOTHING)
        if part != low:
            rest = part ^ low
            found = product(found, parts.get(rest) or self._part(run, parts, rest))
        parts[part] = found
        return found


def product(one: Part, other: Part) -> Part:
    """What two partners, or more, contribute together."""
    classes, there, here, present, residual, least, most = one
    classes_, there_, here_, present_, residual_, least_, most_ = other
    there *= there_
    here *= here_
    return (
        classes | classes_,
        there if there < MOST else MOST,
        here if here < MOST else MOST,
        present * present_,
        residual * residual_,
        least if least < least_ else least_,
        most if most > most_ else most_,
    )
