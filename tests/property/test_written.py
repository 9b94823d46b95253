"""Written queries over random histories: shapes of joins that random queries seldom have.

Four small tables of two columns, three values and NULL in each, in every other history some with a
key; all four may change in one epoch. The queries are those of `tests/fixtures/written.sql`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from deltajoin.graph import JoinGraph
from tests.property.cases import Case, Change, Commit, Row, Table, keys_hold
from tests.property.oracle import check, maker_of

QUERIES = Path(__file__).parent.parent / "fixtures" / "written.sql"
COLUMNS, NAMES, KEYS = (("k", "int"), ("v", "int")), "abce", (1, 2, 3, 4)
VALUES = (None, 1, 2, 3)
EPOCHS, LEAST_CHANGED = 4, 0.50
#: Counts over epochs, and what is wrong: seed, epoch, text.
Found = tuple[Counter[str], list[tuple[int, int, str]]]


def written(file: Path = QUERIES) -> list[str]:
    lines = [line for line in file.read_text("utf-8").splitlines() if not line.startswith("--")]
    return [" ".join(query.split()) for query in "\n".join(lines).split(";") if query.strip()]


#: Of a query over the last rows of others: table -> its key.
LAST = {"a": ("k", "v"), "b": ("k",), "c": ("k", "v"), "e": ("k",)}


def test_random_histories_of_last_rows(
    request: pytest.FixtureRequest, processes: ProcessPoolExecutor
) -> None:
    """Windows whose order fixes a row by way of equalities and keys; all are kept."""
    queries = written(QUERIES.with_name("last_rows.sql"))
    none_is_wrong(partial(run_query, keys=LAST), queries, request, processes)


def test_random_histories_of_written_queries(
    request: pytest.FixtureRequest, processes: ProcessPoolExecutor, thorough: bool
) -> None:
    """With few cases, of every third query."""
    few = not thorough and request.config.getoption("--cases") < 300
    queries = written()[:: 3 if few else 1]
    seen = none_is_wrong(run_query, queries, request, processes)
    assert seen["changed"] >= LEAST_CHANGED * seen["epochs"]


def none_is_wrong(
    run: Callable[..., Found],
    queries: list[str],
    request: pytest.FixtureRequest,
    processes: ProcessPoolExecutor,
) -> Counter[str]:
    """Run each query over its histories; the counts of all, once nothing is wrong."""
    histories, seen = max(1, request.config.getoption("--cases") // 300), Counter[str]()
    seeds = [range(n % 2, n % 2 + histories) for n in range(len(queries))]  # odd ones have keys
    ran = processes.map(partial(_of_a_query, run), queries, seeds)
    for query, (found, problems) in zip(queries, ran, strict=True):
        assert not problems, (query, problems)
        assert found["epochs"], query
        seen += found
    print(f"\n{len(queries)} queries: {seen['epochs']} epochs, {seen['changed']} change the target")
    return seen


def _of_a_query(run: Callable[..., Found], query: str, seeds: range) -> Found:
    """Where these histories don't let it be kept, as the keys of others do, over more of them."""
    found, problems = run(query, seeds=seeds)
    return (found, problems) if found or problems else run(query, seeds=range(seeds.stop, 4))


def run_query(query: str, seeds: range, keys: Mapping[str, tuple[str, ...]] | None = None) -> Found:
    """Counts over the epochs of some histories, and what is wrong: seed, epoch, text; where keys
    are given, also a query that is not kept."""
    return run_cases(
        {seed: history_of(query, seed, keys) for seed in seeds},
        lambda graph: "not kept" if keys and graph is None else "",
    )


def run_cases(cases: Mapping[int, Case], problem_of: Callable[[JoinGraph | None], str]) -> Found:
    """The same of cases by their seed; what is wrong with the graph that is kept, None for none."""
    seen: Counter[str] = Counter()
    problems: list[tuple[int, int, str]] = []
    for seed, case in cases.items():
        maker = maker_of(case)
        if problem := problem_of(maker.graph if maker else None):
            problems.append((seed, 0, problem))
        if problem or maker is None:
            continue
        for outcome in check(case):
            seen += Counter(epochs=1, changed=outcome.changed)
            if outcome.problem:
                problems.append((seed, outcome.epoch, outcome.problem))
    return seen, problems


def history_of(query: str, seed: int, keys: Mapping[str, tuple[str, ...]] | None = None) -> Case:
    """A case of a query; with an odd seed some tables have a key, unless these are said."""
    rng = random.Random(f"{query} {seed}")

    def key_of(name: str) -> tuple[str, ...]:
        if keys is not None:
            return keys.get(name, ())
        return ("k",) if seed % 2 == 1 and rng.random() < 0.6 else ()

    made = [_Rows(name, key_of(name), rng) for name in NAMES]
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

    def __init__(self, name: str, key: tuple[str, ...], rng: random.Random) -> None:
        self.name, self._key, self._rng = name, key, rng
        self._rows: dict[int, Row] = {}
        self._next = 0
        for _ in range(rng.randrange(5) if len(key) < len(COLUMNS) else rng.randrange(5, 12)):
            self._insert()

    def table(self) -> Table:
        return Table(self.name, COLUMNS, self._key, tuple(sorted(self._rows.items())))

    def changed(self) -> tuple[Change, ...]:
        return tuple(self._changes())

    def _changes(self) -> Iterator[Change]:
        for number, row in sorted(self._rows.items()):
            chance = self._rng.random()
            if chance < 0.2:
                del self._rows[number]
                yield Change("delete", number)
            elif chance < 0.5:
                new = (row[0] if self._key else self._any_key(), self._value())
                if new != row and self._may_be(new, number):
                    self._rows[number] = new
                    yield Change("update", number, new)
        for _ in range(self._rng.randrange(3)):
            number = self._insert()
            if number is not None:
                yield Change("insert", number, self._rows[number])

    def _insert(self) -> int | None:
        key = self._any_key()
        if self._key:
            free = [key for key in KEYS if any(self._may_be((key, v)) for v in VALUES)]
            if not free:
                return None
            key = self._rng.choice(free)
        value = self._value()
        if not self._may_be((key, value)):
            value = self._rng.choice([v for v in VALUES if self._may_be((key, v))])
        number, self._next = self._next, self._next + 1
        self._rows[number] = (key, value)
        return number

    def _may_be(self, new: Row, at: int | None = None) -> bool:
        """Whether a row may come, or one may become it: no other has its key."""
        rows = (row for number, row in self._rows.items() if number != at)
        width = len(self._key)
        return not width or new[:width] not in {row[:width] for row in rows}

    def _any_key(self) -> int | None:
        return self._rng.choice((None, 1, 1, 2, 3))

    def _value(self) -> int | None:
        return self._rng.choice((None, 1, 2, 2, 3))
