"""How many candidates and copies of rows a join by ranges makes, where lengths are uneven."""

from __future__ import annotations

import duckdb
import pytest
from sqlglot import exp

from deltajoin.accelerate.choose import Sizes, accelerated
from deltajoin.accelerate.protocol import Sides
from deltajoin.emit.ast import table
from deltajoin.emit.candidates import Side, candidates_of
from deltajoin.sql.dialect import parse_expression, text
from tests.property.oracle import to_duckdb

YEAR, DAY = 365 * 86_400, 86_400


def rows(seed: int, count: int, length: str) -> str:
    """Intervals that begin in a year, each of a length; without one where that is NULL."""
    low = f"CAST(hash(i + {seed}) % {YEAR} AS BIGINT)"
    return f"SELECT i AS id, {low} AS low, {low} + {length} AS high FROM range({count}) t(i)"


def counted(left: str, right: str, *on: str) -> tuple[int, int, int]:
    """Of a lookup, which measures the left side alone: copies of right rows, candidates, pairs."""
    types = {"id": "bigint", "low": "bigint", "high": "bigint"}
    sides = Sides(frozenset({"b"}), lambda column: types[column.name])
    found = accelerated(on, sides, Sizes(1e6, 1e6, 1e6))
    assert found is not None
    con = duckdb.connect()
    con.execute(f"CREATE TABLE a AS {left}; CREATE TABLE b AS {right}")

    def define(sql: str) -> str:
        con.execute(f"CREATE TABLE lines AS {to_duckdb(sql)}")
        return "lines"

    made = candidates_of(
        found,
        Side(table("a"), "a", parse_expression),
        Side(table("b"), "b", parse_expression, small=False),
        [],
        define,
    )
    before = "".join(f" CROSS JOIN {text(each)}" for each in made.before)
    joined = f"FROM a{before} JOIN {text(made.right)} ON {text(exp.and_(*made.on))}"

    def count(sql: str) -> int:
        found = con.execute(to_duckdb(f"SELECT count(*) AS n {sql}")).fetchone()
        assert found
        return int(found[0])

    pairs = count(f"FROM a JOIN b ON {' AND '.join(map('({})'.format, on))}")
    assert count(f"{joined} AND {' AND '.join(map('({})'.format, on))}") == pairs
    return count(f"FROM {text(made.right)}"), count(joined), pairs


@pytest.mark.parametrize("open_ones", [0, 1, 20, 100])
@pytest.mark.parametrize(
    "before_end", ["b.low < coalesce(a.high, 253402300799)", "(b.low < a.high OR a.high IS NULL)"]
)
def test_versions_without_an_end_stretch_no_bins(before_end: str, open_ones: int) -> None:
    """A changed dimension of 200 versions, some of them still valid, and 20,000 facts."""
    versions = rows(7, 200, f"CASE WHEN i >= {open_ones} THEN {DAY} END")
    copies, candidates, pairs = counted(
        versions, rows(0, 20_000, "0"), "b.low >= a.low", before_end
    )
    assert copies <= 16 * 20_000
    assert candidates <= 8 * pairs


def test_long_rows_of_the_other_side_are_not_repeated_without_end() -> None:
    """A changed minute here and there, looked up among intervals of thirty days."""
    copies, candidates, pairs = counted(
        rows(7, 200, "60"), rows(0, 100, f"{30 * DAY}"), "a.low <= b.high", "a.high >= b.low"
    )
    assert copies <= 100 * 200
    assert candidates <= 4 * pairs


def test_short_rows_among_long_ones_have_few_candidates() -> None:
    """All begin together, one is valid for years: the others' ends are told apart."""
    lengths = f"CASE WHEN i = 0 THEN {20 * YEAR} ELSE i * 600 END"
    left = f"SELECT i AS id, 0 AS low, {lengths} AS high FROM range(500) t(i)"
    copies, candidates, pairs = counted(
        left, rows(0, 5_000, "0"), "b.low >= a.low", "b.low < a.high"
    )
    assert copies <= 16 * 5_000
    assert candidates <= 8 * pairs
