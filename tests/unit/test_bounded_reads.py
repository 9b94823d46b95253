"""What a change's least and greatest values leave of a table that is compared with them."""

from __future__ import annotations

import pytest

from deltajoin.emit.narrowing import NarrowedKey, bounded
from deltajoin.runtime.narrowing import Ranges, share_of

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


def test_the_column_that_leaves_out_most_has_the_smallest_share() -> None:
    """Thousands of days that are nearly all days of some years tell less than some orders."""
    day = 86_400_000_000
    every_day, orders = [day * n for n in range(2_400)], list(range(1, 6_000_000, 5_000))
    assert share_of(every_day) == 1.0
    assert share_of(orders) == 1.0  # in steps of 5,000 they are all there
    orders[-1] += 1
    assert share_of(orders) < share_of([str(n) for n in range(500)]) < share_of(every_day)
    assert share_of([7]) == 1.0
