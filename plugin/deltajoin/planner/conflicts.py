"""Which joins may change places: the conflict rules of CD-C.

Moerkotte, Fender, Eich: On the correct and complete enumeration of the core search space, SIGMOD
2013. Three ways to swap two operators are told apart, each legal for some kinds only:

    assoc      (1 a 2) b 3  =  1 a (2 b 3)          predicates a: 1-2, b: 2-3
    l-asscom   (1 a 2) b 3  =  (1 b 3) a 2                     a: 1-2, b: 1-3
    r-asscom   1 a (2 b 3)  =  2 b (1 a 3)                     a: 1-3, b: 2-3

Where a swap is not legal, the upper operator carries a rule (S, T): a joined set that meets S must
hold all of T. Entries that need a predicate to reject NULLs count as illegal unless `sql.nulls`
proves it. A predicate may do so through a chain of left joins: c.x = d.x rejects NULLs of b where c
is attached by b.x = c.x. (The paper looks at two operators only and so misses plans of chains.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from deltajoin.graph import Predicate
from deltajoin.planner.hypergraph import Rule
from deltajoin.sql.nulls import rejects_nulls

_rejects_nulls = lru_cache(maxsize=4096)(rejects_nulls)
_BEFORE_FULL = ("inner", "left", "semi", "anti")


@dataclass(frozen=True)
class Operator:
    """A join of the query as written; `left` and `right` hold all relations below, as bit sets.

    `touched` are the relations that its predicates refer to; `names[i]` is the relation of bit i.
    `null_left` are the relations that are NULL throughout when the left side is: the side itself
    and what left joins above attach to it. `null_right` likewise.
    """

    kind: str
    left: int
    right: int
    touched: int
    predicates: tuple[Predicate, ...]
    names: tuple[str, ...]
    null_left: int = 0
    null_right: int = 0

    def needed(self, side: int) -> int:
        """What its predicates touch of one side; the whole side when they touch nothing of it."""
        return self.touched & side or side

    def rejects(self, side: int) -> bool:
        """True when it finds no partner for a row whose `side` is NULL throughout."""
        met = side & self.touched
        nulls = frozenset(name for i, name in enumerate(self.names) if met >> i & 1)
        return any(_rejects_nulls(p.sql, nulls) for p in self.predicates)

    def below(self, above: Operator) -> Operator:
        """This operator once a join stands above its left side."""
        if above.kind != "left":
            return self
        grown_left = above.right if above.rejects(self.null_left) else 0
        grown_right = above.right if above.rejects(self.null_right) else 0
        return replace(
            self,
            null_left=self.null_left | grown_left,
            null_right=self.null_right | grown_right,
        )


def operator(
    kind: str, left: int, right: int, predicates: tuple[Predicate, ...], names: tuple[str, ...]
) -> Operator:
    """A join of two sets of relations."""
    refs = {relation for predicate in predicates for relation in predicate.relations}
    touched = sum(1 << i for i, name in enumerate(names) if name in refs)
    return Operator(kind, left, right, touched, predicates, names, left, right)


#: Stands for any inner join; its swaps depend on the other operator alone.
INNER = Operator("inner", 0, 0, 0, (), ())


def assoc(a: Operator, b: Operator, middle: int) -> bool:
    """(1 a 2) b 3 = 1 a (2 b 3); `middle` are the relations that are NULL with 2."""
    if a.kind == "inner":
        return b.kind in _BEFORE_FULL
    if a.kind in ("left", "full") and b.kind == "left":
        return b.rejects(middle)
    if a.kind == "full" and b.kind == "full":
        return a.rejects(middle) and b.rejects(middle)
    return False


def l_asscom(a: Operator, b: Operator, first: int) -> bool:
    """(1 a 2) b 3 = (1 b 3) a 2; `first` are the relations that are NULL with 1."""
    if a.kind in ("inner", "semi", "anti"):
        return b.kind in _BEFORE_FULL
    if a.kind == "left":
        return b.kind in _BEFORE_FULL or a.rejects(first)
    if b.kind == "left":
        return b.rejects(first)
    return b.kind == "full" and a.rejects(first) and b.rejects(first)


def r_asscom(a: Operator, b: Operator, last: int) -> bool:
    """1 a (2 b 3) = 2 b (1 a 3); `last` are the relations that are NULL with 3."""
    if a.kind == "inner" and b.kind == "inner":
        return True
    return a.kind == "full" and b.kind == "full" and a.rejects(last) and b.rejects(last)


def left_rules(below: Operator, above: Operator) -> tuple[Rule, ...]:
    """Rules that an operator carries for one in its left side."""
    rules: tuple[Rule, ...] = ()
    if not assoc(below, above, below.null_right):
        rules += ((below.right, below.needed(below.left)),)
    if not l_asscom(below, above, below.null_left):
        rules += ((below.left, below.needed(below.right)),)
    return rules


def right_rules(above: Operator, below: Operator) -> tuple[Rule, ...]:
    """Rules that an operator carries for one in its right side."""
    rules: tuple[Rule, ...] = ()
    if not assoc(above, below, below.null_left):
        rules += ((below.left, below.needed(below.right)),)
    if not r_asscom(above, below, below.null_right):
        rules += ((below.right, below.needed(below.left)),)
    return rules


def absorb(held: int, rules: tuple[Rule, ...]) -> tuple[int, tuple[Rule, ...]]:
    """A set grown by all rules that it meets, and the rules that it leaves open.

    Rules that need the same set are one.
    """
    by_need: dict[int, int] = {}
    for met, needed in rules:
        by_need[needed] = by_need.get(needed, 0) | met
    grown = True
    while grown:
        grown = False
        for needed, met in by_need.items():
            if held & met and held & needed != needed:
                held |= needed
                grown = True
    return held, tuple(sorted((m, n) for n, m in by_need.items() if n & held != n))
