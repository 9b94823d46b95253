"""Shares of predicates: by bounds and distinct values where the log has them, else fixed."""

from __future__ import annotations

from typing import Any

import pytest

from deltajoin.graph import ColumnRef
from deltajoin.planner.selectivity import Facts, kept_share


class Hundred(Facts):
    """Column x holds 0 to 99 evenly; column n too, but half of it is null; of others, nothing."""

    def distinct(self, column: ColumnRef) -> float:
        return 100.0 if column[1] in ("x", "n") else 1000.0

    def guessed(self, column: ColumnRef) -> bool:
        return column[1] not in ("x", "n")

    def range_share(self, column: ColumnRef, low: Any, high: Any) -> float | None:
        if column[1] not in ("x", "n") or isinstance(low or high, str):
            return None
        low, high = max(0, 0 if low is None else low), min(99, 99 if high is None else high)
        return max(0.0, (high - low + 1) / 100)

    def null_share(self, column: ColumnRef) -> float | None:
        return {"x": 0.0, "n": 0.5}.get(column[1])


@pytest.mark.parametrize(
    ("predicates", "share"),
    [
        (["`t`.`x` = 5"], 0.01),
        (["5 = `t`.`x`"], 0.01),
        (["`t`.`x` <=> 5"], 0.01),
        (["`t`.`x` = 500"], 0.0),
        (["`t`.`x` <> 5"], 0.99),
        (["`t`.`x` IN (1, 2, 2, 300)"], 0.02),
        (["`t`.`x` NOT IN (1, 2)"], 0.98),
        (["`t`.`x` >= 90"], 0.1),
        (["90 <= `t`.`x`"], 0.1),
        (["`t`.`x` >= CAST(90 AS BIGINT)"], 0.1),
        (["`t`.`x` > -5"], 1.0),
        (["`t`.`x` BETWEEN 10 AND 19"], 0.1),
        (["`t`.`x` >= 20", "`t`.`x` <= 29"], 0.1),
        (["`t`.`x` >= 20 AND `t`.`x` <= 29"], 0.1),
        (["`t`.`x` >= 20", "`t`.`x` >= 90"], 0.1),
        (["`t`.`x` >= 90", "`t`.`x` <= 20"], 0.0),
        (["`t`.`x` < 10 OR `t`.`x` >= 90"], 0.2),
        (["NOT (`t`.`x` < 9)"], 0.9),
        (["`t`.`n` IS NULL"], 0.5),
        (["`t`.`n` IS NOT NULL"], 0.5),
        (["`t`.`n` >= 50"], 0.25),
        (["`t`.`n` >= 50", "`t`.`n` <= 74"], 0.125),
        (["`t`.`y` >= 90"], 1 / 3),
        (["`t`.`y` >= 90", "`t`.`y` < 95"], 0.1),
        (["`t`.`y` = 'a'"], 0.1),
        (["`t`.`s` LIKE 'a%'"], 0.1),
        (["`t`.`flag`"], 0.5),
        (["TRUE"], 1.0),
        (["FALSE"], 0.0),
        (["some_function(`t`.`x`)"], 0.25),
        (["some_function(1) = 1"], 0.25),
        (["`a`.`x` <= `b`.`y`"], 1 / 3),
        (["`a`.`x` + `b`.`x` = 10"], 0.01),
        (["upper(`t`.`y`) = 'A'"], 0.1),
        (["`a`.`x` IS NOT DISTINCT FROM `b`.`y`"], 0.01),
        (["`t`.`x` BETWEEN 5 AND 5"], 0.01),
        (["`t`.`y` IN (1, 2, 3)"], 0.3),
        (["`t`.`y` IN (1, 2, 3, 4, 5, 6, 7)"], 0.5),
        (["`t`.`y` <> 'a'"], 0.9),
        (["no (sql"], 0.25),
        ([], 1.0),
    ],
)
def test_shares(predicates: list[str], share: float) -> None:
    found = kept_share(predicates, Hundred())
    assert found == pytest.approx(share, abs=0.011 if " OR " in " ".join(predicates) else 1e-9)
    assert found == kept_share(list(reversed(predicates)), Hundred())


@pytest.mark.parametrize(
    ("predicates", "share"),
    [
        (["`t`.`y` = 1", "`t`.`z` = 2"], 0.1**1.5),
        (["`t`.`y` = 1", "`t`.`z` = 2", "`t`.`s` LIKE '%a'"], 0.1**1.75),
        (["`t`.`flag`", "`t`.`y` = 1"], 0.1 * 0.5**0.5),
        (["`t`.`y` >= 1", "`t`.`z` = 2"], 0.1 * 3**-0.5),
        (["`t`.`y` = 1", "`u`.`y` = 2"], 0.01),
        (["`t`.`y` = 1", "`t`.`x` = 5"], 0.001),
        (["`t`.`x` = 5", "`t`.`n` = 5"], 0.01 * 0.005),
    ],
)
def test_only_guesses_on_the_same_relation_back_off(predicates: list[str], share: float) -> None:
    assert kept_share(predicates, Hundred()) == pytest.approx(share)
    assert kept_share([" AND ".join(predicates)], Hundred()) == pytest.approx(share)


def test_one_more_conjunct_never_keeps_more() -> None:
    conjuncts = ["`t`.`y` = 1", "`t`.`z` IN (1, 2)", "`t`.`flag`", "`t`.`x` > 4", "`u`.`y` = 3"]
    shares = [kept_share(conjuncts[:count], Hundred()) for count in range(len(conjuncts) + 1)]
    assert shares == sorted(shares, reverse=True)
