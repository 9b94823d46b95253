"""What a change's least and greatest values leave of a table that is compared with them."""

from __future__ import annotations

from random import Random

import duckdb
import pytest

from deltajoin.emit.narrowing import NarrowedKey, bounded
from deltajoin.runtime.narrowing import (
    FEW_VALUES,
    Ranges,
    _ranges,
    _together,
    merged_ranges,
    share_of,
)

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


def test_a_file_with_a_row_that_is_asked_for_is_read() -> None:
    """Files of some values and NULLs against ranges of others, as DuckDB filters their rows."""
    random, left_out = Random(1), 0
    with duckdb.connect() as connection:
        for _ in range(500):
            held = [random.randint(-30, 30) for _ in range(random.randint(0, 4))]
            merged = tuple(merged_ranges([(value, value) for value in held]))
            literals = tuple((str(low), str(high)) for low, high in merged)
            asked = Ranges(literals, nulls=random.random() < 0.3, integers=merged)
            values = [random.randint(-30, 30) for _ in range(random.randint(1, 3))]
            rows = [*values, *[None] * random.randint(0, 1)]
            file = min(values), max(values), None in rows
            connection.execute("CREATE OR REPLACE TABLE f AS SELECT unnest(?::INT[]) AS x", [rows])
            for bound in ("", "from", "to"):
                condition = asked.bounded("x", bound) if bound else asked.condition("x")
                counted = f"SELECT count(*) FROM f WHERE {condition}"
                (found,) = connection.execute(counted).fetchone() or (0,)
                meets = asked.meets(file, bound)
                assert meets or not found, (condition, rows)
                left_out += not meets
    assert left_out > 300
    assert asked.meets(None, "")
    assert Ranges((("'a'", "'b'"),), nulls=False).meets((1, 2, False), "")


def test_few_values_of_several_columns_are_listed() -> None:
    some, single = range(0, 90, 9), [5, 500]
    many = _ranges("bigint", [(value, value) for value in some], False)
    few = _ranges("bigint", [(value, value) for value in single], True)
    wide = _ranges("bigint", [(1, 40), (900, 940)], False)
    assert many
    assert few
    assert wide
    both = _together([many, few])
    assert both.values == tuple(f"{value}L" for value in (*some, *single))
    assert both.listed("x").startswith(f"{both.condition('x')} AND (x IN (0L, 9L, 18L,")
    assert both.integers == tuple((value, value) for value in (*some, *single))
    assert not _together([few]).values  # each has a range of its own
    assert not _together([many, wide]).values
    more = _ranges("bigint", [(n, n) for n in range(0, 20 * FEW_VALUES, 20)], False)
    assert more
    assert not _together([many, more]).values


def test_the_column_that_leaves_out_most_has_the_smallest_share() -> None:
    """Thousands of days that are nearly all days of some years tell less than some orders."""
    day = 86_400_000_000
    every_day, orders = [day * n for n in range(2_400)], list(range(1, 6_000_000, 5_000))
    assert share_of(every_day) == 1.0
    assert share_of(orders) == 1.0  # in steps of 5,000 they are all there
    orders[-1] += 1
    assert share_of(orders) < share_of([str(n) for n in range(500)]) < share_of(every_day)
    assert share_of([7]) == 1.0
