"""When a run's plans are interpreted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from deltajoin import DeltaJoinError
from deltajoin.runtime.own_session import FEW_ROWS, FEW_ROWS_SETTING, may_interpret


def session(value: str | None) -> Any:
    given = {} if value is None else {FEW_ROWS_SETTING: value}
    return SimpleNamespace(conf=SimpleNamespace(get=given.get))


def plan(*rows: int | None, sql: str = "SELECT a FROM t") -> dict[str, Any]:
    return {"sql": sql, "frontier": {f"t{i}": {"rows": count} for i, count in enumerate(rows)}}


@pytest.mark.parametrize(
    ("setting", "rows", "few"),
    [
        (None, (FEW_ROWS - 1, 1), True),
        (None, (FEW_ROWS, 1), False),
        (None, (1, None), False),
        ("0", (1,), False),
        ("", (1,), False),
        (" 10 ", (5, 5), True),
        ("10", (5, 6), False),
    ],
)
def test_the_rows_of_all_sources_decide(
    setting: str | None, rows: tuple[int | None, ...], few: bool
) -> None:
    assert may_interpret(session(setting), plan(*rows)) is few


def test_what_means_something_else_interpreted_is_compiled() -> None:
    assert not may_interpret(session(None), plan(1, sql="SELECT Levenshtein (a, b, c) FROM t"))


@pytest.mark.parametrize("setting", ["many", "1e5", "-1", "100 000"])
def test_a_setting_that_is_no_number_is_named(setting: str) -> None:
    with pytest.raises(DeltaJoinError) as caught:
        may_interpret(session(setting), plan(1))
    assert caught.value.code == "INVALID_SETTING"
    assert setting in caught.value.message
    assert caught.value.remedy is not None
