"""What share of all pairs of rows match between two sets of relations.

Columns that are equated form a class, and a class counts once, however many conjuncts state it:

    pairs that match = all pairs / max(distinct values on one side, on the other)       (one class)

- A set that already holds several columns of a class has the distinct values of the smallest.
- What several classes have together, and what keys say of them, stands in `classes`.
- Nulls match nothing: each column counts its share of values, once.
- Inequalities and expressions over several relations have fixed shares (`selectivity`); what
  filters that follow from them take is not counted again.

The share is symmetric and depends on the two sets alone. Source: Ebergen's thesis on DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, reduce
from operator import and_
from typing import NamedTuple

from deltajoin.catalog.statistics import Value
from deltajoin.graph import ColumnRef, Predicate, Relation
from deltajoin.planner.classes import FLOOR, LEAST, MOST, Classes, numbers, product_of
from deltajoin.planner.hypergraph import union
from deltajoin.planner.selectivity import Facts, kept_share
from deltajoin.planner.statistics import TRUST, Measured, Statistics
from deltajoin.sql.imply import implied_filters

#: Lookups by the relevant set that is bound and the number that is looked up.
_Lookups = dict[tuple[int, int], Measured]


class Pairs(NamedTuple):
    """Two sets that meet.

    `one` and `other` are the distinct values of what is equated on each side (1 each without an
    equality). `apart` makes up for members of a class that only now meet. `present` is the share
    that is not null, `residual` what all else keeps; `classes` are those that meet, as a bit set.
    `source` is what decides alone: a covered key or a guessed residual; else empty.
    """

    one: float
    other: float
    apart: float
    present: float
    residual: float
    classes: int
    source: str

    @property
    def share(self) -> float:
        """Share of the pairs of rows that match; above zero."""
        distinct = min(max(self.one, self.other, 1.0) * self.apart, MOST)
        return max(self.present * self.residual / distinct, FLOOR)


class Matching:
    """The predicates over some relations; relation i is bit 1 << i."""

    def __init__(
        self,
        relations: Sequence[Relation],
        predicates: Iterable[Predicate],
        statistics: Statistics,
    ) -> None:
        self._facts = _Facts({r.name: r for r in relations}, statistics)
        self._numbers = {r.name: i for i, r in enumerate(relations)}
        self._statistics = statistics
        self._rows = [statistics.table_rows(r.source) for r in relations]
        given = sorted(set(predicates), key=lambda p: p.sql)
        filters = [p for p in given if p.kind == "filter"]
        own = frozenset(p.sql for p in filters)
        self._residuals: list[list[tuple[int, int, float]]] = [[] for _ in relations]
        equalities: list[Predicate] = []
        for number, predicate in enumerate(given):
            names = sorted(predicate.relations)
            if len(names) < 2 or predicate.kind == "cross":
                continue
            if not all(name in self._numbers for name in names):
                continue
            if predicate.left is not None and predicate.right is not None:
                equalities.append(predicate)
                continue
            needs, share = self.mask(names), self._kept_beside(predicate.sql, own)
            for name in names:
                self._residuals[self._numbers[name]].append((number, needs, share))
        self._filtered = [self._filter(r, filters) for r in relations]
        kept = [r * f for r, f in zip(self._rows, self._filtered, strict=True)]
        self._classes = Classes(relations, equalities, statistics, kept)
        #: The relations that a lookup of this one depends on when they are bound.
        self.relevant: Callable[[int], int] = cache(self._relevant)
        #: The relations that have a column in each of some classes.
        self.spans: Callable[[int], int] = cache(self._spans)
        self._looked_up = cache(self.pairs)
        #: The lookups of earlier runs on a driver's path, by relevant set and number.
        self.measured: Callable[[str | None], _Lookups] = cache(self._measured)

    def mask(self, names: Iterable[str]) -> int:
        """The bit set of some relations."""
        return sum(1 << self._numbers[name] for name in names)

    def kept(self, relation: str) -> float:
        """Share of a relation's rows that its own filters keep, at least one row's worth."""
        return self._filtered[self._numbers[relation]]

    def rows(self, relation: str) -> float:
        """Rows of a relation after its own filters."""
        number = self._numbers[relation]
        return self._rows[number] * self._filtered[number]

    def lookup(self, bound: int, new: int) -> Pairs:
        """`pairs` of a set and relation number `new`, kept by the part of the set that matters."""
        return self._looked_up(bound & self.relevant(new), 1 << new)

    def pairs(self, one: int, other: int) -> Pairs:
        """How the rows of two disjoint sets match."""
        small, large = (one, other) if one.bit_count() < other.bit_count() else (other, one)
        residual, touched, seen = 1.0, 0, set[int]()
        for number in numbers(small):
            touched |= self._classes.of[number]
            for index, needs, share in self._residuals[number]:
                if needs & large and not needs & ~(one | other) and index not in seen:
                    seen.add(index)
                    residual *= share
        here = there = apart = present = 1.0
        classes, spans, meeting = 0, self._classes.spans, self._classes.meeting
        for number in numbers(touched):
            span = spans[number]
            if span & large:
                met = meeting(number, one & span, other & span)
                if met is not None:
                    classes |= 1 << number
                    here, there, apart = here * met.one, there * met.other, apart * met.apart
                    present *= met.present
        source = "" if classes else "key"
        if classes & (classes - 1):
            factor, by_key = self._classes.joint(classes, one)
            here = min(here, MOST) * factor
            factor, by_other_key = self._classes.joint(classes, other)
            there = min(there, MOST) * factor
            source = "key" if by_key or by_other_key else ""
        source = "guess" if seen else source
        residual = residual if classes else max(residual, LEAST)
        return Pairs(here, there, min(apart, MOST), max(present, LEAST), residual, classes, source)

    def source(self, one: int, other: int) -> str:
        """The least trusted source (`TRUST`) that the share of two disjoint sets stands on."""
        pairs = self.pairs(one, other)
        found = (self._classes.source(number, one, other) for number in numbers(pairs.classes))
        return pairs.source or max(("key", *found), key=TRUST.index)

    def _filter(self, relation: Relation, filters: Sequence[Predicate]) -> float:
        own = [p.sql for p in filters if p.relations == {relation.name}]
        if not own:
            return 1.0
        rows = self._rows[self._numbers[relation.name]]
        return max(kept_share(own, self._facts), 1 / rows, FLOOR)

    def _measured(self, driver: str | None) -> _Lookups:
        """The rows into a path's first lookup were counted before the driver's own filters."""
        found: _Lookups = {}
        every = self._statistics.measured.items()
        steps = [(bound, new, seen) for (name, bound, new), seen in every if name == driver]
        for bound, new, seen in sorted(steps, key=lambda step: (sorted(step[0]), step[1])):
            if new not in self._numbers or not bound <= self._numbers.keys():
                continue
            number = self._numbers[new]
            at = (self.mask(bound) & self.relevant(number), number)
            old = found.get(at, Measured(0.0, 0.0, 0))
            kept = self.kept(driver) if driver and len(bound) == 1 else 1.0
            found[at] = Measured(
                old.rows_in + kept * seen.rows_in,
                old.rows_out + seen.rows_out,
                old.runs + seen.runs,
            )
        return found

    def _relevant(self, number: int) -> int:
        needed = union(needs for _, needs, _ in self._residuals[number])
        return (needed | union(self.spans_of(number))) & ~(1 << number)

    def spans_of(self, number: int) -> list[int]:
        """The relations of each class that holds a column of this one."""
        return [self._classes.spans[one] for one in numbers(self._classes.of[number])]

    def _spans(self, classes: int) -> int:
        return reduce(and_, (self._classes.spans[one] for one in numbers(classes)), -1)

    def kept_by(self, sql: str) -> float:
        """Share of the rows that a predicate over any of the relations keeps; above zero."""
        return max(kept_share((sql,), self._facts), LEAST)

    def _kept_beside(self, sql: str, filters: frozenset[str]) -> float:
        """The same of rows that the filters kept which follow from the predicate itself."""
        known = [self.kept_by(each) for each in implied_filters(sql) if each in filters]
        return min(1.0, self.kept_by(sql) / max(product_of(known), LEAST))

    def signature(self, number: int) -> tuple[float, ...]:
        """What sets a relation apart but its name: rows, filtered share, values equated."""
        values = sorted(m[number].distinct for m in self._classes.members if number in m)
        return (-self._rows[number], self._filtered[number], *values)

    def partners(self, number: int) -> list[int]:
        """Relations that an equality links to this one; one for each class."""
        links = (self._classes.links[joined] for joined in numbers(self._classes.of[number]))
        return [partner for each in links for partner in numbers(each[number])]


class _Facts(Facts):
    """Columns of relations, as the statistics know their tables."""

    def __init__(self, relations: Mapping[str, Relation], statistics: Statistics) -> None:
        self._sources = {name: relation.source for name, relation in relations.items()}
        self._statistics = statistics

    def distinct(self, column: ColumnRef) -> float:
        source = self._sources.get(column[0])
        return self._statistics.distinct(source, column[1]).value if source else 1.0

    def guessed(self, column: ColumnRef) -> bool:
        source = self._sources.get(column[0])
        if source is None or self._statistics.column(source, column[1]).domain is not None:
            return False
        return self._statistics.distinct(source, column[1]).source == "guess"

    def range_share(self, column: ColumnRef, low: Value | None, high: Value | None) -> float | None:
        log = self._statistics.log.get(self._sources.get(column[0], ""))
        return log.share(column[1], low, high) if log else None

    def null_share(self, column: ColumnRef) -> float | None:
        source = self._sources.get(column[0])
        return self._statistics.column(source, column[1]).null_share if source else None
