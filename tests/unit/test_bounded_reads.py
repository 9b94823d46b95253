"""What a change's least and greatest values leave of a table that is compared with them."""

from __future__ import annotations

import pytest

from deltajoin.emit.narrowing import NarrowedKey, bounded
from deltajoin.runtime.narrowing import Ranges

HELD = (("changes", "at"),)
WITHIN = {("s", "at"): frozenset(HELD), ("s", "till"): frozenset({("changes", "till")})}


@pytest.mark.parametrize(
    ("condition", "bounds"),
    [
        ("`t`.`x` >= `s`.`at`", ["from"]),
        ("`s`.`at` > `t`.`x`", ["to"]),
        ("(`t`.`x` < `s`.`at`)", ["to"]),
        ("`t`.`x` BETWEEN `s`.`at` AND `s`.`at`", ["from", "to"]),
        ("`s`.`at` BETWEEN `t`.`x` AND `t`.`x`", ["from", "to"]),
        ("`t`.`x` <> `s`.`at`", []),
        ("NOT `t`.`x` < `s`.`at`", []),
        ("`t`.`x` < `s`.`at` OR `s`.`at` IS NULL", []),
        ("`t`.`x` < `s`.`at` + 1", []),
        ("`t`.`x` < `s`.`other`", []),
        ("`u`.`x` < `s`.`at`", []),
    ],
)
def test_comparisons_with_the_change_bound_a_column(condition: str, bounds: list[str]) -> None:
    expected = tuple(NarrowedKey("x", HELD, bound) for bound in bounds)
    assert bounded([condition], "t", WITHIN) == expected


def test_a_bound_is_the_outermost_of_all_ranges() -> None:
    ranges = Ranges((("1", "5"), ("7", "9")), nulls=True)
    assert ranges.bounded("x", "from") == "x >= least(1, 7)"
    assert ranges.bounded("x", "to") == "x <= greatest(5, 9)"
    assert Ranges((("1", "5"),), nulls=False).bounded("x", "to") == "x <= 5"
    assert Ranges((), nulls=True).bounded("x", "from") == "FALSE"
