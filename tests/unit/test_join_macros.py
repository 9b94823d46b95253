"""The dbt macros that write joins, and that what they write is accelerated."""

from __future__ import annotations

from types import SimpleNamespace

from sqlglot import exp

from deltajoin.accelerate.choose import recognised
from deltajoin.accelerate.protocol import Sides
from deltajoin.sql.columns import flattened
from deltajoin.sql.dialect import parse_expression


def test_a_distance_is_served_by_its_bands(macros: SimpleNamespace) -> None:
    written = macros.distance("a.lat", "a.lon", "b.lat", "b.lon") + " <= 100"
    found = recognised([parse_expression(written)], Sides(frozenset("b"), lambda _: "double"))
    assert found is not None
    assert found.kind == "distance"
    assert len(found.spans) == 3


def test_a_row_by_its_time_is_served_by_a_range(macros: SimpleNamespace) -> None:
    for macro in (macros.is_last_before, macros.is_first_after, macros.is_nearest):
        conditions = flattened(parse_expression(macro("a.at", "b", "at")))
        found = recognised(conditions, Sides(frozenset("b"), lambda _: "timestamp", "left"))
        assert found is not None
        assert found.kind == "range"
        assert len(found.spans) == 1


def test_the_nearest_row_is_that_of_a_computed_time(macros: SimpleNamespace) -> None:
    written = macros.is_nearest("a.at - INTERVAL 5 MINUTES", "b", "at")
    assert "b.next_at - (a.at - INTERVAL 5 MINUTES)" in written
    assert "b.at - (a.at - INTERVAL 5 MINUTES)" in written


def test_polygons_are_served_by_their_boxes(macros: SimpleNamespace) -> None:
    def type_of(column: exp.Column) -> str:
        return "array<struct<x:double,y:double>>" if column.name == "ring" else "double"

    for written in (
        macros.point_in_polygon("a.x", "a.y", "b.ring"),
        macros.point_in_polygon("b.x", "b.y", "a.ring"),
        macros.polygons_intersect("a.ring", "b.ring"),
    ):
        conditions = flattened(parse_expression(written))
        found = recognised(conditions, Sides(frozenset("b"), type_of))
        assert found is not None
        assert found.kind == "range"
        assert len(found.spans) == 2


def test_the_next_row_is_one_of_the_same_key(macros: SimpleNamespace) -> None:
    assert macros.with_next("w", ["k", "l"], "at") == (
        "(SELECT *, lead(at) OVER (PARTITION BY k, l ORDER BY at) AS next_at FROM w)"
    )
