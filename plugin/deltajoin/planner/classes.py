"""Equality classes: which columns are equated, and what values they share.

A class holds, for each relation, its column with the fewest distinct values. A column that meets a
key refers to it: a guess, or the log's range of numbers, has no more values than the smallest key
of its class has rows. Where the log shows fewer values than that key has (five years of a calendar
of two hundred), the rows that filters leave of the key's table are taken to lie among these.
Several classes together have no more distinct values than their table has rows; a covered key has
exactly so many. Relations are numbers; relation i is bit 1 << i.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import NamedTuple

from deltajoin.graph import ColumnRef, JoinGraph, Predicate, Relation
from deltajoin.planner.statistics import Statistics

LEAST, FLOOR, MOST = 1e-6, 1e-30, 1e200
_BOUNDED = ("sketch", "log", "hint")


@dataclass(frozen=True)
class Member:
    """A relation's column within a class."""

    distinct: float
    source: str
    present: float
    key: bool


@dataclass(frozen=True)
class Key:
    """A relation's key, when all its columns are equated with something; classes as a bit set."""

    relation: int
    classes: int
    rows: float


class Meeting(NamedTuple):
    """A class between two sets: fewest values on each side, what makes up for members that only now
    meet, share of values not null."""

    one: float
    other: float
    apart: float
    present: float


class Group(NamedTuple):
    """Members of a class that a set equates: what they are equated with anywhere, their column with
    the fewest values, and its share of values for one alone."""

    linked: int
    distinct: float
    present: float


class Classes:
    """The classes of some equalities between relations.

    `members[c]` are the columns of class c by relation, `links[c]` the partners of each of them by
    it, as bit sets, and `spans[c]` all of them; `of[i]` are the classes of relation i.
    """

    def __init__(
        self,
        relations: Sequence[Relation],
        equalities: Sequence[Predicate],
        statistics: Statistics,
        kept: Sequence[float],
    ) -> None:
        self._relations = {r.name: r for r in relations}
        self._numbers = {r.name: i for i, r in enumerate(relations)}
        self._statistics = statistics
        self.rows = [statistics.table_rows(r.source) for r in relations]
        self._class_of = class_numbers(equalities)
        count = len(set(self._class_of.values()))
        self.of = [0] * len(relations)
        self.spans = [0] * count
        self.links: list[dict[int, int]] = [{} for _ in range(count)]
        self.members: list[dict[int, Member]] = [{} for _ in range(count)]
        self._fill(kept)
        for predicate in equalities:
            self._link(predicate)
        self._keys = self._covered_keys()
        self._factor = cache(self._factor_of)
        self._grouped = cache(self._groups)
        #: How a class links what two disjoint sets hold of it; None when no equality does.
        self.meeting: Callable[[int, int, int], Meeting | None] = cache(self._meeting)

    def joint(self, classes: int, side: int) -> tuple[float, bool]:
        """Distinct combinations of values of several classes in a set, over the product of their
        distinct values; and whether a covered key decides."""
        least, by_key, most = 1.0, False, 1.0
        for number in numbers(side):
            own = classes & self.of[number]
            if own & (own - 1):
                factor, decided = self._factor(number, own)
                if factor > most:
                    most = factor
                if factor < least:
                    least, by_key = factor, decided
        return (least, by_key) if least < 1.0 else (most, most > 1.0)

    def _factor_of(self, number: int, own: int) -> tuple[float, bool]:
        single = {c: self.members[c][number].distinct for c in numbers(own)}
        product = product_of(single.values())
        joint, decided = min(product, self.rows[number]), False
        for key in self._keys:
            if key.classes & own == key.classes:
                rest = product_of(single[c] for c in numbers(own & ~key.classes))
                same = key.relation == number
                joint = key.rows if same else min(joint, key.rows * rest)
                decided = decided or key.rows <= joint
                if same:
                    break
        return joint / product, decided

    def _meeting(self, number: int, one: int, other: int) -> Meeting | None:
        here = [group for group in self._grouped(number, one) if group.linked & other]
        there = [group for group in self._grouped(number, other) if group.linked & one]
        if not here:
            return None
        least = (min([g.distinct for g in here]), min([g.distinct for g in there]))
        apart, present = 1.0, math.prod([group.present for group in here + there])
        if len(here) + len(there) > 2:
            smallest = sorted(group.distinct for group in here + there)
            apart = product_of(smallest[1:]) / max(least)
        return Meeting(*least, apart, present)

    def _groups(self, number: int, within: int) -> tuple[Group, ...]:
        """The members of a class within a set, grouped by what equates them within the set."""
        members, links, found = self.members[number], self.links[number], list[Group]()
        while within:
            group, linked, least = within & -within, 0, math.inf
            waiting = group
            while waiting:
                one = waiting.bit_length() - 1
                waiting &= ~(1 << one)
                least = min(least, members[one].distinct)
                linked |= links[one]
                reached = links[one] & within & ~group
                group |= reached
                waiting |= reached
            single = group & (group - 1) == 0
            present = members[group.bit_length() - 1].present if single else 1.0
            found.append(Group(linked, least, present))
            within &= ~group
        return tuple(found)

    def source(self, number: int, one: int, other: int) -> str:
        """What the share of a class between two sets stands on: its member of the most values."""
        links = self.links[number]
        met = [i for i in links if links[i] & (other if one >> i & 1 else one)]
        met = [i for i in met if (one | other) >> i & 1]
        return max((self.members[number][i] for i in met), key=weight).source

    def _link(self, predicate: Predicate) -> None:
        one, other = (self._numbers[relation] for relation, _ in predicate.refs)
        joined = self._class_of[predicate.refs[0]]
        for here, there in ((one, other), (other, one)):
            links = self.links[joined]
            links[here] = links.get(here, 0) | 1 << there

    def _fill(self, kept: Sequence[float]) -> None:
        """Give each relation of a class its column with the fewest values."""
        for (name, column), joined in sorted(self._class_of.items()):
            number, source = self._numbers[name], self._relations[name].source
            distinct = self._statistics.distinct(source, column)
            nulls = self._statistics.column(source, column).null_share or 0.0
            key = self._statistics.keys.get(source) == (column,)
            member = Member(distinct.value, distinct.source, 1.0 - nulls, key)
            self.of[number] |= 1 << joined
            self.spans[joined] |= 1 << number
            old = self.members[joined].get(number)
            if old is None or weight(member) < weight(old):
                self.members[joined][number] = member
        for members in self.members:
            _refer_to_keys(members)
            _meet_references(members, kept)

    def _covered_keys(self) -> tuple[Key, ...]:
        """Keys of several columns that are all equated; a key of one is its column's values."""
        found = []
        for number, relation in enumerate(self._relations.values()):
            columns = self._statistics.keys.get(relation.source, ())
            classes = [self._class_of.get((relation.name, column)) for column in columns]
            if len(columns) > 1 and None not in classes:
                known = sum(1 << c for c in {c for c in classes if c is not None})
                found.append(Key(number, known, self.rows[number]))
        return tuple(sorted(found, key=lambda k: (-k.classes.bit_count(), k.rows, k.relation)))


def _refer_to_keys(members: dict[int, Member]) -> None:
    """A guess, or a range of the log, has no more values than the smallest key in its class."""
    keys = [member for member in members.values() if member.key]
    if not keys:
        return
    smallest = min(keys, key=weight)
    for number, member in members.items():
        bound = member.source in ("guess", "log") and not member.key
        if bound and member.distinct > smallest.distinct:
            members[number] = replace(member, distinct=smallest.distinct, source=smallest.source)


def _meet_references(members: dict[int, Member], kept: Sequence[float]) -> None:
    """A filtered key has no more values than it has rows left, nor fewer than refer to it.

    So rows that refer to it lose no more than the filter takes from what they can refer to.
    """
    known = [m.distinct for m in members.values() if not m.key and m.source in _BOUNDED]
    for number, member in members.items():
        if member.key and known and max(known) < member.distinct:
            values = min(member.distinct, max(*known, kept[number], 1.0))
            members[number] = replace(member, distinct=values)


def class_numbers(equalities: Iterable[Predicate]) -> dict[ColumnRef, int]:
    """Column -> the number of its class, in the order of their smallest columns."""
    equal = JoinGraph((), tuple(equalities), ()).equivalence
    order = {column: i for i, column in enumerate(sorted({min(each) for each in equal.values()}))}
    return {column: order[min(columns)] for column, columns in equal.items()}


def product_of(values: Iterable[float]) -> float:
    """A product that stays a number however many values there are."""
    return min(math.prod(values), MOST)


def weight(member: Member) -> tuple[float, str]:
    """Members by their distinct values; the source breaks ties."""
    return (member.distinct, member.source)


@lru_cache(maxsize=1 << 16)
def numbers(mask: int) -> tuple[int, ...]:
    """The numbers of a bit set, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return tuple(found)
