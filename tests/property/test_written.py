"""Written queries over random histories: shapes of joins that random queries seldom have.

Four small tables of two columns, three values and NULL in each, in every other history some with a
key; all four may change in one epoch. The queries are those of `tests/fixtures/written.sql`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.property.cases import Case, Change, Commit, Row, Table, keys_hold
from tests.property.oracle import check, maker_of

QUERIES = Path(__file__).parent.parent / "fixtures" / "written.sql"
COLUMNS, NAMES, KEYS = (("k", "int"), ("v", "int")), "abce", (1, 2, 3, 4)
EPOCHS, LEAST_CHANGED = 4, 0.50
#: Counts over epochs, and what is wrong: seed, epoch, text.
Found = tuple[Counter[str], list[tuple[int, int, str]]]


def written(file: Path = QUERIES) -> list[str]:
    lines = [line for line in file.read_text("utf-8").splitlines() if not line.startswith("--")]
    return [" ".join(query.split()) for query in "\n".join(lines).split(";") if query.strip()]


def test_random_histories_of_written_queries(
    request: pytest.FixtureRequest, processes: ProcessPoolExecutor
) -> None:
    seen = none_is_wrong(run_query, written(), request, processes)
    assert seen["changed"] >= LEAST_CHANGED * seen["epochs"]


def none_is_wrong(
    run: Callable[..., Found],
    queries: list[str],
    request: pytest.FixtureRequest,
    processes: ProcessPoolExecutor,
) -> Counter[str]:
    """Run each query over its histories; the counts of all, once nothing is wrong."""
    histories, seen = max(2, request.config.getoption("--cases") // 300), Counter[str]()
    ran = processes.map(partial(run, seeds=range(histories)), queries)
    for query, (found, problems) in zip(queries, ran, strict=True):
        assert not problems, (query, problems)
        assert found["epochs"], query
        seen += found
    print(f"\n{len(queries)} queries: {seen['epochs']} epochs, {seen['changed']} change the target")
    return seen


def run_query(query: str, seeds: range) -> Found:
    """Counts over the epochs of some histories, and what is wrong: seed, epoch, text."""
    seen: Counter[str] = Counter()
    problems = []
    for seed in seeds:
        case = history_of(query, seed)
        if maker_of(case) is None:
            continue
        for outcome in check(case):
            seen += Counter(epochs=1, changed=outcome.changed)
            if outcome.problem:
                problems.append((seed, outcome.epoch, outcome.problem))
    return seen, problems


def history_of(query: str, seed: int) -> Case:
    """A case of a query; with an odd seed some tables have a key."""
    rng = random.Random(f"{query} {seed}")
    made = [_Rows(name, seed % 2 == 1 and rng.random() < 0.6, rng) for name in NAMES]
    tables = tuple(rows.table() for rows in made)
    epochs = []
    for _ in range(EPOCHS):
        changing = rng.sample(made, rng.randrange(1, len(made) + 1))
        commits = [Commit(rows.name, changes) for rows in changing if (changes := rows.changed())]
        epochs.append(tuple(commits))
    case = Case(0, tables, (), (), (), tuple(epochs), query=query)
    assert keys_hold(case)
    return case


class _Rows:
    """The rows of one table while a history is made, by their number."""

    def __init__(self, name: str, keyed: bool, rng: random.Random) -> None:
        self.name, self._keyed, self._rng = name, keyed, rng
        self._rows: dict[int, Row] = {}
        self._next = 0
        for _ in range(rng.randrange(5)):
            self._insert()

    def table(self) -> Table:
        key = ("k",) if self._keyed else ()
        return Table(self.name, COLUMNS, key, tuple(sorted(self._rows.items())))

    def changed(self) -> tuple[Change, ...]:
        return tuple(self._changes())

    def _changes(self) -> Iterator[Change]:
        for number, row in sorted(self._rows.items()):
            chance = self._rng.random()
            if chance < 0.2:
                del self._rows[number]
                yield Change("delete", number)
            elif chance < 0.5:
                new = (row[0] if self._keyed else self._key(), self._value())
                if new != row:
                    self._rows[number] = new
                    yield Change("update", number, new)
        for _ in range(self._rng.randrange(3)):
            number = self._insert()
            if number is not None:
                yield Change("insert", number, self._rows[number])

    def _insert(self) -> int | None:
        key = self._key()
        if self._keyed:
            free = [key for key in KEYS if key not in {row[0] for row in self._rows.values()}]
            if not free:
                return None
            key = self._rng.choice(free)
        number, self._next = self._next, self._next + 1
        self._rows[number] = (key, self._value())
        return number

    def _key(self) -> int | None:
        return self._rng.choice((None, 1, 1, 2, 3))

    def _value(self) -> int | None:
        return self._rng.choice((None, 1, 2, 2, 3))
