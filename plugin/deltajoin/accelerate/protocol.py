"""What an accelerator is: it recognises a condition that no equality serves, and says which pairs
of rows can meet it at all, in a form that an equality finds.

    Span      both rows have an interval of one line; rows match only where these meet
    Shared    both rows have values; rows match only where they have one in common
    Extreme   of a semi or anti join: some row matches exactly where the extreme one does
    Running   of a join whose right rows are only aggregated: those that match one left row are the
              first ones of an order, so that their aggregates are running ones

The candidates may be more than what matches: the condition itself is checked on each. Their use in
each type of join is the driver's part (`emit.candidates`). Expressions are Spark SQL over
`relation`.`column`, as in the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

TypeOf = Callable[[exp.Column], str]


@dataclass(frozen=True)
class Sides:
    """A join: the relations of its right side, all others stand on the left; the types of columns
    ("" where unknown); its kind (inner, left, semi, anti).

    `aggregated`: of its right rows nothing is given out but aggregates that can be made of others.
    """

    right: frozenset[str]
    type_of: TypeOf
    kind: str = "inner"
    aggregated: bool = False

    def of(self, node: exp.Expr) -> str:
        """The side whose columns an expression reads: left, right, both or neither ("")."""
        tables = {column.table for column in node.find_all(exp.Column)} - {""}
        if not tables:
            return ""
        if tables <= self.right:
            return "right"
        return "both" if tables & self.right else "left"

    def parted(self, one: exp.Expr, other: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
        """What is of the left and what of the right, where each of two is of one side."""
        where = self.of(one), self.of(other)
        if where == ("left", "right"):
            return one, other
        return (other, one) if where == ("right", "left") else None


@dataclass(frozen=True)
class Span:
    """The low and the high end of each row's interval, as doubles; a point has one text for both.

    An end may be rounded, as long as no order of two values is turned round by it.
    """

    left: tuple[str, str]
    right: tuple[str, str]


@dataclass(frozen=True)
class Shared:
    """Values of the left and of the right row; an array of them where `many` names the side."""

    left: str
    right: str
    many: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Extreme:
    """`left` compares (<, <=, >, >=) with the greatest or least `right`."""

    left: str
    operator: str
    right: str


@dataclass(frozen=True)
class Running:
    """`left` compares (<, <=, >, >=) with `right`, within equal `keys` of the left and the right.

    Each pair of values is of one type, of which values compare as they are sorted.
    """

    left: str
    operator: str
    right: str
    keys: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Candidates:
    """Which pairs can match.

    `kind` is the accelerator, `serves` the conditions that it serves, as they are written; all
    spans must meet, and the values be shared.
    """

    kind: str
    serves: tuple[str, ...]
    spans: tuple[Span, ...] = ()
    shared: Shared | None = None
    extreme: Extreme | None = None
    running: Running | None = None

    def to_dict(self) -> dict[str, object]:
        """The kind and what it serves, for people."""
        return {"kind": self.kind, "serves": list(self.serves)}

    @property
    def left(self) -> tuple[str, ...]:
        """All expressions over the left row."""
        return self._of("left")

    @property
    def right(self) -> tuple[str, ...]:
        """All expressions over the right row."""
        return self._of("right")

    def _of(self, side: str) -> tuple[str, ...]:
        ends = (end for span in self.spans for end in getattr(span, side))
        parts = (self.shared, self.extreme, self.running)
        keys = self.running.keys if self.running else ()
        values = (getattr(part, side) for part in parts if part)
        return (*ends, *values, *(key[side == "right"] for key in keys))


class Accelerator(Protocol):
    """One kind of join."""

    @property
    def name(self) -> str:
        """The kind, for people."""

    @property
    def joins(self) -> frozenset[str]:
        """The types of joins that it may serve: of inner, left, semi, anti."""

    def recognise(self, conditions: Sequence[exp.Expr], sides: Sides) -> Candidates | None:
        """The candidates of a join under some conditions, all of which must hold; None where this
        kind has nothing to say."""


#: What serves every type of join that the driver knows.
EVERY_JOIN = frozenset({"inner", "left", "semi", "anti"})
