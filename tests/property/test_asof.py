"""The last row before each, as people write it, over random histories: kept by neighbours.

Small tables with NULL in every column but ids, ties in every order, and few keys; all may change in
one epoch. DuckDB, from the query's own text, is the judge.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from deltajoin.graph import JoinGraph
from tests.property.cases import Case, Change, Commit, Row, Table, keys_hold
from tests.property.test_written import Found, none_is_wrong, run_cases, written

QUERIES = Path(__file__).parent.parent / "fixtures" / "asof.sql"
#: Table -> its columns and its key.
TABLES = {
    "l": (("id", "k", "at", "x"), ("id",)),
    "r": (("k", "at", "v"), ("k", "at")),
    "s": (("n", "k", "at", "v"), ("n",)),
    "e": (("k", "z"), ("k",)),
}
EPOCHS, ROWS = 4, 9


def test_random_histories_of_asof_joins(
    request: pytest.FixtureRequest, processes: ProcessPoolExecutor
) -> None:
    seen = none_is_wrong(_run, written(QUERIES), request, processes)
    assert seen["changed"] >= 0.5 * seen["epochs"]


def _run(query: str, seeds: range) -> Found:
    return run_cases({seed: history_of(query, seed) for seed in seeds}, _not_by_neighbours)


def _not_by_neighbours(graph: JoinGraph | None) -> str:
    kept = graph is not None and any(derived.asof for derived in graph.all_derived)
    return "" if kept else "not kept by neighbours"


def history_of(query: str, seed: int) -> Case:
    """A case of a query: first rows, and changes of some tables in each epoch."""
    rng = random.Random(f"{query} {seed}")
    made = {name: _Rows(columns, key, rng) for name, (columns, key) in TABLES.items()}
    tables = tuple(
        Table(name, tuple((c, "int") for c in rows.columns), rows.key, rows.first())
        for name, rows in made.items()
    )
    epochs = []
    for _ in range(EPOCHS):
        changing = rng.sample(sorted(made), rng.randrange(1, len(made) + 1))
        commits = ((name, tuple(made[name].changes())) for name in changing)
        epochs.append(tuple(Commit(name, changes) for name, changes in commits if changes))
    case = Case(seed, tables, (), (), (), tuple(epochs), query=query)
    assert keys_hold(case)
    return case


class _Rows:
    """The rows of one table while a history is made, by their number."""

    def __init__(self, columns: tuple[str, ...], key: tuple[str, ...], rng: random.Random) -> None:
        self.columns, self.key, self._rng = columns, key, rng
        self._at = [columns.index(name) for name in key]
        self._rows: dict[int, Row] = {}
        self._next = 0

    def first(self) -> tuple[tuple[int, Row], ...]:
        for _ in range(self._rng.randrange(ROWS // 2, ROWS)):
            self._insert()
        return tuple(sorted(self._rows.items()))

    def changes(self) -> Iterator[Change]:
        for number in sorted(self._rows):
            chance = self._rng.random()
            if chance < 0.15:
                del self._rows[number]
                yield Change("delete", number)
            elif chance < 0.4 and (new := self._free(number)):
                self._rows[number] = new
                yield Change("update", number, new)
        for _ in range(self._rng.randrange(3)):
            number = self._insert()
            if number is not None:
                yield Change("insert", number, self._rows[number])

    def _insert(self) -> int | None:
        row = self._free()
        if row is None:
            return None
        number, self._next = self._next, self._next + 1
        self._rows[number] = row
        return number

    def _free(self, number: int | None = None) -> Row | None:
        """A row, or another one in a row's place, whose key no other has."""
        others = {tuple(r[i] for i in self._at) for n, r in self._rows.items() if n != number}
        for _ in range(9):
            row = tuple(self._value(name) for name in self.columns)
            if tuple(row[i] for i in self._at) not in others:
                return row
        return None

    def _value(self, name: str) -> int | None:
        if name in ("id", "n"):
            return self._rng.randrange(2 * ROWS)
        if name == "at":
            return self._rng.choice((None, 1, 2, 3, 4, 5, 6))
        return self._rng.choice((None, 1, 1, 2, 3))
