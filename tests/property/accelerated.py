"""Random trees whose joins stand on ranges, which accelerators serve, or on conditions that compare
no column with another one, more than on equalities."""

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
