"""Outer joins within outer joins multiply what a run's statements read."""

from __future__ import annotations

import pytest

from deltajoin.delta.path import LookupPath, LookupStep
from deltajoin.delta.routes import MOST_READS, reads_written_out, too_many_reads
from tests.unit import flights

CHANGED = {"flights": 900, "weather": 80, "planes": 1, "airports": 1, "airlines": 1}
FLAT = """
SELECT f.flight, a.name, p.manufacturer, d.name AS destination FROM flights f
LEFT JOIN airlines a ON f.carrier = a.carrier LEFT JOIN planes p ON f.tailnum = p.tailnum
LEFT JOIN airports d ON f.dest = d.faa
"""
NESTED = """
SELECT f.flight, a.name FROM flights f LEFT JOIN (airlines a LEFT JOIN (flights g LEFT JOIN
(planes p LEFT JOIN (flights h LEFT JOIN airports d ON h.dest = d.faa) ON h.tailnum = p.tailnum)
ON g.tailnum = p.tailnum) ON g.carrier = a.carrier) ON f.carrier = a.carrier
"""
FULL = """
SELECT carrier, f.flight, g.flight AS g, h.flight AS h, i.flight AS i FROM flights f
FULL JOIN airlines a USING (carrier) FULL JOIN flights g USING (carrier)
FULL JOIN flights h USING (carrier) FULL JOIN flights i USING (carrier)
"""


def paths(sql: str) -> tuple[LookupPath, ...]:
    first = flights.first_plan(flights.model(sql, keys={}))
    return flights.daily_plan(CHANGED, first).paths


def test_a_flat_join_reads_a_table_once_a_step() -> None:
    found = paths(FLAT)
    assert sum(reads_written_out(path.steps) for path in found) < 40
    assert too_many_reads([found]) is None


@pytest.mark.parametrize("sql", [NESTED, FULL])
def test_what_spark_could_not_plan_is_rebuilt(sql: str) -> None:
    found = too_many_reads([paths(sql)])
    assert found is not None
    assert found.code == "REPEATED_READS"
    assert f"over {MOST_READS:,}" in found.message


def test_each_level_multiplies() -> None:
    """A stream that a side is made of stands in the join and where its keys enter."""
    enter = step("enter")
    assert reads_written_out([step("inner"), step("inner")]) == 3
    assert reads_written_out([step("left", inside=(enter,))]) == 3
    inner = step("left", inside=(enter,), previous=(enter,))
    assert reads_written_out([inner]) == 5
    assert reads_written_out([step("left", inside=(enter, inner))]) == 9


def test_nothing_stands_against_no_paths() -> None:
    assert too_many_reads([()]) is None


def step(
    kind: str, inside: tuple[LookupStep, ...] = (), previous: tuple[LookupStep, ...] = ()
) -> LookupStep:
    return LookupStep("u", "u", 1, "this", (), False, 1, kind, (), inside, previous)
