"""Random trees whose joins stand on ranges, which accelerators serve, or on conditions that compare
no column with another one, more than on equalities; and groups over one comparison."""

from __future__ import annotations

from random import Random

from tests.property.cases import Case
from tests.property.generate import TUNED, Profile
from tests.property.trees import Tree, _Trees

_RANGES = (
    "{one} >= {two} AND {one} <= {two} + {gap}",
    "{one} > {two} - {gap} AND {one} < {two} + {gap}",
    "{one} BETWEEN {two} - {gap} AND {two} + {gap}",
    "{two} BETWEEN {one} AND {one} + {gap}",
    "{one} <= {two} AND ({other} > {two} OR {other} IS NULL)",
    "({one} <= {two} OR {one} IS NULL) AND {other} + {gap} >= {two}",
    "{one} <= {another} AND {two} <= {other}",
    "{one} <= {two} AND {another} <= {other}",
    *("{one} < {two}", "{one} >= {two}", "{one} < {two}"),
    "abs({one} - {two}) <= {gap}",
    "({one} = {two} OR {one} + {another} = {gap})",
    "({one} + {two} = {gap} OR {other} > {another})",
)


def generate_ranges(seed: int, profile: Profile = TUNED, attempt: int = 0) -> Case:
    """The case of a seed."""
    return _Ranges(seed, profile, attempt).case()


class _Ranges(_Trees):
    def __init__(self, seed: int, profile: Profile, attempt: int) -> None:
        super().__init__(seed, profile, attempt)
        self.random = Random(f"deltajoin:ranges:{seed}:{attempt}")
        self.crossed = self.scalars = self.literals = 0.0

    def condition(self, left: Tree, right: Tree) -> str:
        mine, theirs = (
            [name for name, sort in side.columns if sort == "number"] for side in (left, right)
        )
        if not mine or not theirs or self.chance(0.25):
            return super().condition(left, right)
        pick = self.random.choice
        found = pick(_RANGES).format(
            one=pick(mine),
            other=pick(mine),
            two=pick(theirs),
            another=pick(theirs),
            gap=pick((0, 1, 3)),
        )
        if self.chance(0.3):
            found += f" AND {pick(mine)} = {pick(theirs)}"
        if self.chance(0.15):
            found += f" AND {pick(mine)} <> {pick(theirs)}"
        return found


def generate_running(seed: int, profile: Profile = TUNED, attempt: int = 0) -> Case:
    """A query whose groups are of one side of a comparison, with aggregates of the other."""
    return _Running(seed, profile, attempt).case()


class _Running(_Trees):
    def __init__(self, seed: int, profile: Profile, attempt: int) -> None:
        super().__init__(seed, profile, attempt)
        self.random = Random(f"deltajoin:running:{seed}:{attempt}")
        self.crossed = self.scalars = self.literals = 0.0
        self.nested = int(self.chance(0.3))

    def query(self, count: int) -> str:
        left, right = self.tree(max(1, count - 1)), self.tree(1 if self.chance(0.8) else 2)
        alike = [
            (one, other)
            for one, _ in left.columns
            for other, _ in right.columns
            if self.kinds.get(one, "") == self.kinds.get(other)
        ]
        if not alike:
            return super().query(count)
        pick = self.random.choice
        one, other = pick(alike)
        on = f"{one} {pick(('<', '<=', '>', '>='))} {other}"
        if self.chance(0.5):
            on += " AND {} = {}".format(*pick(alike))
        on += f" AND ({self.filter(pick((left, right)))})" if self.chance(0.2) else ""
        kind, where = ("JOIN", [left, right]) if self.chance(0.75) else ("LEFT JOIN", [left])
        ((key, _),) = self.random.sample(left.columns, 1)
        self.sorts = pick((1, 1, 2) if kind == "JOIN" else (1,))
        made = [f"{self.aggregate(right)} AS a{n}" for n in range(self.random.randint(1, 3))]
        text = (
            f"SELECT {key} AS g0, {', '.join(made)}, count(*) AS n "
            f"FROM {left.text} {kind} {right.text} ON {on}"
        )
        filters = [f"({self.filter(side)})" for side in where if self.chance(0.2)]
        text += f" WHERE {' AND '.join(filters)}" if filters else ""
        text += f" GROUP BY {key}"
        return text + (f" HAVING {self.having(right)}" if self.chance(0.2) else "")
