"""The dbt macros that write joins, and that what they write is accelerated."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import jinja2
import pytest

from deltajoin.accelerate.choose import recognised
from deltajoin.accelerate.protocol import Sides
from deltajoin.sql.dialect import parse_expression

FILE = Path(__file__).parents[2] / "macros" / "joins.sql"


@pytest.fixture(scope="module")
def macros() -> ModuleType:
    return jinja2.Environment(autoescape=False).from_string(FILE.read_text("utf-8")).module  # type: ignore[return-value]


def test_a_distance_is_served_by_its_bands(macros: ModuleType) -> None:
    written = macros.distance("a.lat", "a.lon", "b.lat", "b.lon") + " <= 100"
    found = recognised([parse_expression(written)], Sides(frozenset("b"), lambda _: "double"))
    assert found is not None
    assert found.kind == "distance"
    assert len(found.spans) == 3


def test_the_last_row_before_is_served_by_a_range(macros: ModuleType) -> None:
    written = macros.is_last_before("a.at", "b", "at")
    both = list(parse_expression(written).flatten())
    found = recognised(both, Sides(frozenset("b"), lambda _: "timestamp", "left"))
    assert found is not None
    assert found.kind == "range"


def test_the_next_row_is_one_of_the_same_key(macros: ModuleType) -> None:
    assert macros.with_next("w", ["k", "l"], "at") == (
        "(SELECT *, lead(at) OVER (PARTITION BY k, l ORDER BY at) AS next_at FROM w)"
    )
