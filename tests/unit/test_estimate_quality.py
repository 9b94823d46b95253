"""Estimates against the truth: generated tables with foreign keys, counted by DuckDB.

A snowflake with two facts, a composite key, nulls and skew; random
connected queries over it with random filters. The q-error is the larger of estimate / truth and
truth / estimate, both at least one row. The bounds are loose: they catch a broken rule, not noise.
"""

from __future__ import annotations

import datetime as dt
import random
import statistics as figures

import duckdb
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from deltajoin.catalog import load_table
from deltajoin.planner.cardinality import fan_out
from deltajoin.planner.estimate import SetEstimator
from deltajoin.planner.statistics import Statistics
from tests.unit.joins import graph, hypergraph, join

ROWS = {"sales": 20_000, "returns": 3_000, "cust": 2_000, "nation": 25, "part": 800, "ps": 3_200}
KEYS = {"cust": ("id",), "nation": ("id",), "part": ("id",), "ps": ("part", "supp")}
REFERENCES = {
    ("sales", "cust"): ("cust", "id"),
    ("returns", "cust"): ("cust", "id"),
    ("cust", "nation"): ("nation", "id"),
    ("sales", "part"): ("part", "id"),
    ("ps", "part"): ("part", "id"),
}
LINKS = {
    ("sales", "cust"): ("s.cust = c.id",),
    ("returns", "cust"): ("r.cust = c.id",),
    ("sales", "returns"): ("s.cust = r.cust",),
    ("cust", "nation"): ("c.nation = n.id",),
    ("sales", "part"): ("s.part = p.id",),
    ("sales", "ps"): ("s.part = ps.part", "s.supp = ps.supp"),
    ("part", "ps"): ("p.id = ps.part",),
}
ALIAS = {"sales": "s", "returns": "r", "cust": "c", "nation": "n", "part": "p", "ps": "ps"}
FILTERS = {
    "sales": ("s.day >= '2020-07-01'", "s.day < '2020-02-01'", "s.price > 900", "s.id < 500"),
    "returns": ("r.price BETWEEN 100 AND 300", "r.note IS NULL"),
    "cust": ("c.nation = 3", "c.id IN (1, 2, 3, 4, 5)", "c.name > 'cust#001500'"),
    "nation": ("n.id = 3", "n.id <= 4"),
    "part": ("p.size <= 10", "p.size <> 7"),
    "ps": ("ps.cost < 50",),
}


def tables(rng: random.Random) -> dict[str, pa.Table]:
    """The data; customers and parts are skewed, a twentieth of the customers unknown."""
    pairs = [(part, (part * 7 + i * 13) % 40) for part in range(800) for i in range(4)]
    start = dt.date(2020, 1, 1)
    count = ROWS["sales"]
    bought = [pairs[int(len(pairs) * rng.random() ** 1.3)] for _ in range(count)]
    return {
        "sales": pa.table(
            {
                "id": range(count),
                "cust": [_maybe(rng, int(2_000 * rng.random() ** 1.5)) for _ in range(count)],
                "part": [part for part, _ in bought],
                "supp": [supp for _, supp in bought],
                "day": [start + dt.timedelta(rng.randrange(366)) for _ in range(count)],
                "price": [rng.random() * 1000 for _ in range(count)],
            }
        ),
        "returns": pa.table(
            {
                "id": range(3_000),
                "cust": [rng.randrange(2_000) for _ in range(3_000)],
                "price": [rng.random() * 1000 for _ in range(3_000)],
                "note": [None if rng.random() < 0.7 else "late" for _ in range(3_000)],
            }
        ),
        "cust": pa.table(
            {
                "id": range(2_000),
                "nation": [rng.randrange(25) for _ in range(2_000)],
                "name": [f"cust#{i:06}" for i in range(2_000)],
            }
        ),
        "nation": pa.table({"id": range(25)}),
        "part": pa.table({"id": range(800), "size": [rng.randrange(50) for _ in range(800)]}),
        "ps": pa.table(
            {
                "part": [part for part, _ in pairs],
                "supp": [supp for _, supp in pairs],
                "cost": [rng.random() * 1000 for _ in pairs],
            }
        ),
    }


def _maybe(rng: random.Random, value: int) -> int | None:
    return None if rng.random() < 0.05 else value


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[duckdb.DuckDBPyConnection, Statistics]:
    """The data in DuckDB, and what its Delta logs and declarations say of it."""
    con = duckdb.connect()
    log, folder = {}, tmp_path_factory.mktemp("tables")
    for name, table in tables(random.Random(11)).items():
        con.register(f"{name}_data", table)
        con.execute(f"CREATE TABLE {name} AS FROM {name}_data")
        step = max(1, table.num_rows // 4)
        for at in range(0, table.num_rows, step):
            write_deltalake(str(folder / name), table.slice(at, step), mode="append")
        state = load_table(name, str(folder / name))
        assert state.rows == ROWS[name]
        assert state.log is not None
        log[name] = state.log
    references = tuple(((one, (a,)), (other, (b,))) for (one, a), (other, b) in REFERENCES.items())
    return con, Statistics(ROWS, KEYS, log=log, references=references)


def random_query(rng: random.Random) -> tuple[list[str], list[str]]:
    """Tables of a connected query and its conjuncts."""
    chosen = [rng.choice(sorted(ROWS))]
    for _ in range(rng.randrange(1, 5)):
        near = sorted({b for link in LINKS for b in link if set(link) - {b} <= set(chosen)})
        fresh = [name for name in near if name not in chosen]
        if fresh:
            chosen.append(rng.choice(fresh))
    conjuncts = [c for link, on in LINKS.items() if set(link) <= set(chosen) for c in on]
    conjuncts += [rng.choice(FILTERS[name]) for name in chosen if rng.random() < 0.35]
    return chosen, conjuncts


def error(estimate: float, truth: float) -> float:
    low, high = sorted((max(estimate, 1.0), max(truth, 1.0)))
    return high / low


def report(name: str, errors: list[float]) -> float:
    middle, tail = figures.median(errors), sorted(errors)[int(0.95 * len(errors))]
    print(
        f"\n{name}: {len(errors)} queries, median {middle:.2f}, p95 {tail:.1f}, {max(errors):.0f}"
    )
    return middle


def test_inner_joins(world: tuple[duckdb.DuckDBPyConnection, Statistics]) -> None:
    con, known = world
    rng = random.Random(2)
    errors, alone = [], []
    for _ in range(200):
        chosen, conjuncts = random_query(rng)
        of = graph([f"{ALIAS[name]}:{name}" for name in chosen], conjuncts)
        sql = "SELECT count(*) FROM " + ", ".join(f"{n} {ALIAS[n]}" for n in chosen)
        if conjuncts:
            sql += " WHERE " + " AND ".join(conjuncts)
        (truth,) = con.execute(sql).fetchone() or (0,)
        hyper = hypergraph(of)
        errors.append(error(SetEstimator(of, hyper, known).rows(hyper.everything), truth))
        bare = Statistics(ROWS, {})
        alone.append(error(SetEstimator(of, hyper, bare).rows(hyper.everything), truth))
    middle = report("inner joins", errors)
    assert middle <= 1.5
    assert middle < report("inner joins, row counts alone", alone)


def test_fan_outs_of_paths(world: tuple[duckdb.DuckDBPyConnection, Statistics]) -> None:
    con, known = world
    rng = random.Random(4)
    errors = []
    for _ in range(150):
        chosen, conjuncts = random_query(rng)
        joined = [c for c in conjuncts if not any(c in f for f in FILTERS.values())]
        of = graph([f"{ALIAS[name]}:{name}" for name in chosen], joined)
        names = [ALIAS[name] for name in chosen]
        if len(names) < 2 or names[-1] not in of.neighbours(frozenset(names[:-1])):
            continue

        def count(some: list[str], joined: list[str] = joined) -> int:
            sides = ", ".join(f"{n} {ALIAS[n]}" for n in some)
            inside = {ALIAS[n] for n in some}
            on = [c for c in joined if {side.split(".")[0] for side in c.split(" = ")} <= inside]
            sql = f"SELECT count(*) FROM {sides}" + (f" WHERE {' AND '.join(on)}" if on else "")
            (found,) = con.execute(sql).fetchone() or (0,)
            return int(found)

        before, after = count(chosen[:-1]), count(chosen)
        estimate = fan_out(of, known, frozenset(names[:-1]), names[-1])
        errors.append(error(estimate * before, after))
    assert report("fan-outs", errors) <= 1.5


@pytest.mark.parametrize("kind", ["left", "full", "semi", "anti"])
def test_other_joins(world: tuple[duckdb.DuckDBPyConnection, Statistics], kind: str) -> None:
    con, known = world
    rng = random.Random(6)
    errors = []
    pairs = [*LINKS, *((b, a) for a, b in LINKS)]
    for _ in range(60):
        one, other = rng.choice(pairs)
        on = [*LINKS.get((one, other), LINKS.get((other, one), ()))]
        if rng.random() < 0.5:
            on.append(rng.choice(FILTERS[other]))
        of = graph(
            [f"{ALIAS[n]}:{n}" for n in (one, other)],
            [],
            [join(kind, ALIAS[one], ALIAS[other], *on)],
        )
        sql = (
            f"SELECT count(*) FROM {one} {ALIAS[one]} {kind} JOIN {other} {ALIAS[other]} "
            f"ON {' AND '.join(on)}"
        )
        (truth,) = con.execute(sql).fetchone() or (0,)
        if kind == "anti":  # a fiftieth is left where nothing should be: none would cost too much
            truth = max(truth, ROWS[one] / 50)
        hyper = hypergraph(of)
        errors.append(error(SetEstimator(of, hyper, known).rows(hyper.everything), truth))
    assert report(f"{kind} joins", errors) <= 1.5
