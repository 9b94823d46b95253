"""Outer joins within outer joins multiply the lookups of a run."""

from __future__ import annotations

import re

import pytest

from deltajoin.delta.path import LookupPath
from deltajoin.delta.plan import DeltaPlan
from deltajoin.delta.routes import MOST_LOOKUPS, lookups_of, too_many_lookups
from deltajoin.emit.sql import build_program
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
SELECT carrier, f.flight, g.flight AS g, h.flight AS h FROM flights f
FULL JOIN airlines a USING (carrier) FULL JOIN flights g USING (carrier)
FULL JOIN flights h USING (carrier)
"""
LONGER = f"{FULL} FULL JOIN flights i USING (carrier)"


def daily(sql: str) -> DeltaPlan:
    first = flights.first_plan(flights.model(sql, keys={}))
    return flights.daily_plan(CHANGED, first)


def lookups(paths: tuple[LookupPath, ...]) -> int:
    return sum(lookups_of(path.steps) for path in paths)


@pytest.mark.parametrize(("sql", "most"), [(FLAT, 30), (NESTED, 250)])
def test_outer_joins_add_up(sql: str, most: int) -> None:
    found = daily(sql).paths
    assert lookups(found) < most
    assert too_many_lookups(found) is None


def test_full_joins_on_one_key_multiply() -> None:
    """Each full join more has some four times the lookups; these take Spark minutes to plan."""
    found = too_many_lookups(daily(LONGER).paths)
    assert found is not None
    assert found.code == "TOO_MANY_LOOKUPS"
    assert f"over {MOST_LOOKUPS}" in found.message


@pytest.mark.parametrize("sql", [FLAT, NESTED, FULL])
def test_every_statement_is_read(sql: str) -> None:
    """What nobody reads never runs, and a counter in it is waited for in vain."""
    program = build_program(daily(sql))
    lines = [[(s.view, s.sql) for s in path.statements] for path in program.paths]
    lines += [
        [(part.view, part.sql), *((s.view, s.sql) for s in part.statements)]
        for part in program.shared
    ]
    read = {name for line in lines for _, sql in line for name in re.findall("`([^`]+)`", sql)}
    unread = [view for line in lines for view, _ in line[:-1] if view not in read]
    assert lines
    assert unread == []
