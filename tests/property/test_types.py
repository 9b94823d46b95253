"""Columns of unlike types that are equal, or stand for each other."""

from __future__ import annotations

import pytest

from tests.property.cases import Case, Table
from tests.property.oracle import maker_of

Columns = tuple[tuple[str, str], ...]


def case(seed: int, query: str, **tables: Columns) -> Case:
    made = tuple(Table(name, columns, (), ()) for name, columns in tables.items())
    return Case(seed, made, (), (), (), (), query=query)


@pytest.mark.parametrize("query", [
    "SELECT a.k, c.v FROM a JOIN b ON a.x = b.y JOIN c ON c.z = b.y",
    "SELECT a.k, c.v FROM b JOIN c ON c.z = b.y LEFT JOIN a ON a.x = b.y",
])  # fmt: skip
@pytest.mark.parametrize(("between", "handed_on"), [("string", True), ("int", False)])
def test_values_go_on_through_columns_of_their_type(
    query: str, between: str, handed_on: bool
) -> None:
    """'007' = 7 = '7': the texts of a change don't bound those of `c` by way of a number."""
    narrowed = set[str]()
    for seed in range(30):
        tables = {
            "a": (("k", "int"), ("x", "string")),
            "b": (("y", between), ("w", "int")),
            "c": (("z", "string"), ("v", "int")),
        }
        maker = maker_of(case(seed, query, **tables))
        assert maker is not None
        program = maker.program(maker.plan(0, {"a": "insert_only"}))
        narrowed |= {scan.table.split()[0] for scan in program.narrowed}
    assert "b" in narrowed
    assert ("c" in narrowed) == handed_on
