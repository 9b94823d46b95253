"""Rows of lookups and of joined sets: the rules one by one, and what no figure may break."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from deltajoin.catalog import load_table
from deltajoin.catalog.statistics import ColumnStatistics
from deltajoin.graph import JoinGraph, Predicate
from deltajoin.planner.cardinality import (
    fan_out,
    fan_out_estimate,
    kept_share_of,
    relation_rows,
    written_order,
)
from deltajoin.planner.estimate import SetEstimator
from deltajoin.planner.statistics import Estimate, Measured, Statistics, measured_steps
from tests.unit.joins import graph, hypergraph, join

SALES = Statistics(
    rows={"f": 1_000_000, "c": 50_000, "n": 25, "p": 20_000, "ps": 80_000, "s": 1_000},
    keys={"f": ("id",), "c": ("id",), "n": ("id",), "p": ("id",), "ps": ("p", "s"), "s": ("id",)},
)


def rows_of(of: JoinGraph, statistics: Statistics, *names: str) -> float:
    hyper = hypergraph(of)
    names = names or hyper.names
    return SetEstimator(of, hyper, statistics).rows(hyper.set_of(frozenset(names)))


def fan(of: JoinGraph, statistics: Statistics, bound: str, new: str) -> Estimate:
    return fan_out_estimate(of, statistics, frozenset(bound.split()), new)


# rules --------------------------------------------------------------------------------------------


def test_a_lookup_by_key_gives_one_row() -> None:
    of = graph(["f", "c"], ["f.c = c.id"])
    assert fan(of, SALES, "f", "c") == (pytest.approx(1.0), "key")
    assert fan(of, SALES, "c", "f") == (pytest.approx(20.0), "key")
    assert rows_of(of, SALES) == pytest.approx(1_000_000)


def test_the_key_sides_filter_passes_to_the_join() -> None:
    of = graph(["f", "c"], ["f.c = c.id", "c.id = 7"])
    assert rows_of(of, SALES) == pytest.approx(20)
    of = graph(["f", "c"], ["f.c = c.id", "c.name LIKE 'a%'"])
    assert rows_of(of, SALES) == pytest.approx(100_000)


def logged(folder: Path, key: str = "k", **tables: pa.Table) -> Statistics:
    """Statistics of Delta tables; `c` has a key."""
    for name, table in tables.items():
        write_deltalake(str(folder / name), table)
    states = {name: load_table(name, str(folder / name)) for name in tables}
    rows = {name: state.rows for name, state in states.items()}
    log = {name: state.log for name, state in states.items() if state.log is not None}
    return Statistics(rows, {"c": (key,)}, log=log)


def test_a_calendar_wider_than_the_facts_is_met_where_they_are(tmp_path: Path) -> None:
    days = [dt.date(1900, 1, 1) + dt.timedelta(n) for n in range(73_000)]
    calendar = pa.table({"k": range(73_000), "year": [day.year for day in days]})
    sold = [36_500 + n % 1_825 for n in range(20_000)]
    statistics = logged(tmp_path, c=calendar, f=pa.table({"day": sold}))
    whole = graph(["f", "c"], ["f.day = c.k"])
    assert rows_of(whole, statistics) == pytest.approx(20_000)
    year = graph(["f", "c"], ["f.day = c.k", "c.year = 2001"])
    assert rows_of(year, statistics) == pytest.approx(4_000, rel=0.02)
    none = graph(["f", "c"], ["f.day = c.k", "c.k = 36501"])
    assert rows_of(none, statistics) == pytest.approx(20_000 / 1_825)


def test_a_key_with_gaps_is_met_by_all_that_refers_to_it(tmp_path: Path) -> None:
    gaps = range(0, 8_000, 4)
    lines = [key for key in gaps for _ in range(6)]
    statistics = logged(tmp_path, c=pa.table({"k": gaps}), f=pa.table({"order": lines}))
    assert statistics.distinct("f", "order").value > 2_000, "the range of the log is wider"
    of = graph(["f", "c"], ["f.order = c.k"])
    assert rows_of(of, statistics) == pytest.approx(len(lines))
    assert fan(of, statistics, "f", "c").value == pytest.approx(1.0)


def test_a_guess_of_what_refers_to_a_key_leaves_the_key_as_it_is() -> None:
    of = graph(["f", "c"], ["f.c = c.id", "c.name LIKE 'a%'"])
    few = replace(SALES, rows={"f": 100, "c": 50_000})
    assert rows_of(of, few) == pytest.approx(10)


def test_a_string_in_the_bounds_keeps_a_tenth_as_a_filter_and_is_a_key_in_a_join(
    tmp_path: Path,
) -> None:
    names = [f"{n:05}" for n in range(10_000)]
    table = pa.table({"k": range(10_000), "kind": names, "color": names})
    statistics = logged(tmp_path, c=table, d=table)
    assert rows_of(graph(["c"], ["c.kind = '01234'"]), statistics) == pytest.approx(1_000)
    assert rows_of(graph(["c"], ["c.kind = 'x'"]), statistics) == pytest.approx(1)
    two = graph(["c"], ["c.kind = '01234'", "c.color = '04321'"])
    assert rows_of(two, statistics) == pytest.approx(10_000 * 0.1**1.5)
    joined = graph(["c", "d"], ["c.kind = d.kind"])
    assert rows_of(joined, statistics) == pytest.approx(100e6 / 10_000**0.75)


def test_a_composite_key_gives_one_row_and_its_table_as_many_as_refer_to_it() -> None:
    of = graph(["f", "ps"], ["f.p = ps.p", "f.s = ps.s"])
    assert fan(of, SALES, "f", "ps") == (pytest.approx(1.0), "key")
    assert fan(of, SALES, "ps", "f") == (pytest.approx(12.5), "key")
    assert rows_of(of, SALES) == pytest.approx(1_000_000)


def test_a_composite_key_bound_by_two_tables() -> None:
    of = graph(["p", "s", "ps"], ["ps.p = p.id", "ps.s = s.id"])
    assert fan(of, SALES, "p s", "ps").value == pytest.approx(80_000 / 20e6)
    assert rows_of(of, SALES) == pytest.approx(80_000)


def test_an_equality_class_counts_once() -> None:
    chain = ["f.c = c.id", "c.id = g.c"]
    statistics = replace(SALES, rows={**SALES.rows, "g": 5_000})
    closed = graph(["f", "c", "g"], [*chain, "f.c = g.c"])
    assert rows_of(graph(["f", "c", "g"], chain), statistics) == pytest.approx(
        rows_of(closed, statistics)
    )
    assert fan(closed, statistics, "f c", "g").value == pytest.approx(
        fan(closed, statistics, "f", "g").value
    )


def test_parts_of_a_class_that_only_now_meet_are_each_counted() -> None:
    of = graph(["f", "c", "g"], ["f.c = c.id", "c.id = g.c"])
    statistics = replace(
        SALES,
        rows={**SALES.rows, "g": 5_000},
        hints={"distinct": {"f.c": 40_000, "g.c": 2_000}},
    )
    together = fan(of, statistics, "f g", "c").value
    assert together == pytest.approx(50_000 / (50_000 * 40_000))
    assert rows_of(of, statistics) == pytest.approx(1e6 * 5_000 * together)


def test_one_lookup_does_not_depend_on_unlinked_members_of_its_class() -> None:
    of = graph(["f", "c", "g"], ["f.c = c.id", "c.id = g.c"])
    statistics = replace(SALES, hints={"distinct": {"f.c": 40_000, "g.c": 2}})
    assert fan(of, statistics, "f", "c").value == pytest.approx(1.0)


def test_a_declared_reference_bounds_the_values() -> None:
    of = graph(["f", "g"], ["f.n = g.n"])
    rows = {**SALES.rows, "g": 10_000}
    loose = replace(SALES, rows=rows)
    tight = replace(loose, references=((("f", ("n",)), ("n", ("id",))),))
    tight = replace(tight, references=(*tight.references, (("g", ("n",)), ("n", ("id",)))))
    assert fan(of, loose, "f", "g") == (pytest.approx(10_000 / 1e6**0.75), "guess")
    assert fan(of, tight, "f", "g") == (pytest.approx(10_000 / 25), "reference")


def test_hints_fill_what_the_log_leaves_open() -> None:
    of = graph(["f", "g"], ["f.x = g.x"])
    unknown = Statistics({"f": None, "g": 10}, {})
    assert unknown.unknown(of) == ("f",)
    assert not unknown.known(of)
    hinted = replace(unknown, hints={"rows": {"f": 500, "g": 99}, "distinct": {"f.x": 50}})
    assert hinted.known(of)
    assert hinted.rows_of("f") == (500.0, "hint")
    assert hinted.rows_of("g") == (10.0, "log"), "a log is trusted more"
    assert fan(of, hinted, "g", "f") == (pytest.approx(10.0), "hint")


def test_a_sets_rows_name_the_least_trusted_source() -> None:
    left = join("left", "f", "c", "f.c = c.id")
    of = graph(["f", "c", "p", "g"], ["f.p = p.id", "f.x = g.x"], [left])
    statistics = replace(SALES, hints={"rows": {"g": 10}, "distinct": {"g.x": 5, "f.x": 5}})
    hyper = hypergraph(of)
    estimator = SetEstimator(of, hyper, statistics)

    def source(*names: str) -> str:
        return estimator.source(hyper.set_of(frozenset(names)))

    assert source("f") == source("f", "c", "p") == "log"
    assert source("f", "c", "g") == "hint"
    assert SetEstimator(of, hyper, SALES).source(hyper.everything) == "guess"


def test_the_written_order_is_kept_as_far_as_it_is_connected() -> None:
    of = graph(["d", "a", "c", "b"], ["a.x = b.x", "b.y = c.y", "c.z = d.z"])
    assert written_order(of) == ("d", "c", "b", "a")
    assert written_order(of, "a") == ("a", "b", "c", "d")


def test_outer_semi_and_anti_joins() -> None:
    sizes = {"o": 1_000, "i": 3_000, "k": 400}
    statistics = Statistics(
        sizes, {"o": ("id",), "k": ("id",)}, hints={"distinct": {"i.o": 600, "o.k": 400}}
    )

    def rows(kind: str, *on: str) -> float:
        one, other = ("o", "k") if "k" in on[0] else ("o", "i")
        return rows_of(graph([one, other], [], [join(kind, one, other, *on)]), statistics)

    assert rows("semi", "o.id = i.o") == pytest.approx(600)
    assert rows("anti", "o.id = i.o") == pytest.approx(400)
    assert rows("left", "o.id = i.o") == pytest.approx(3_400)
    assert rows("full", "o.id = i.o") == pytest.approx(3_400)
    assert rows("left", "o.k = k.id") == pytest.approx(1_000)
    assert rows("anti", "o.k = k.id") == pytest.approx(20), "a floor, never none"
    assert rows("left", "o.id = i.o", "i.v > o.v") >= 1_000
    assert rows("semi", "o.id = i.o", "i.v > o.v") < 600
    assert rows("full", "o.id = i.o", "i.v = 3") >= 3_000


def test_a_left_join_keeps_its_rows_under_further_joins() -> None:
    left = join("left", "f", "c", "f.c = c.id", "c.name = 'x'")
    of = graph(["f", "c", "p"], ["f.p = p.id"], [left])
    assert rows_of(of, SALES) == pytest.approx(1_000_000)
    assert rows_of(of, SALES, "f", "p") == pytest.approx(1_000_000)
    assert rows_of(of, SALES, "f", "c") == pytest.approx(1_000_000)


@pytest.mark.parametrize("shape", ["star", "chain"])
def test_a_hundred_relations(shape: str) -> None:
    names = [f"r{i:03}" for i in range(100)]
    pairs = [(0 if shape == "star" else i - 1, i) for i in range(1, 100)]
    of = graph(names, [f"r{one:03}.k{i} = r{i:03}.id" for one, i in pairs])
    rows = {name: 1_000 + i for i, name in enumerate(names)}
    statistics = Statistics(rows, dict.fromkeys(names, ("id",)))
    assert rows_of(of, statistics) == pytest.approx(1_000)
    assert rows_of(of, statistics, *names[:50]) == pytest.approx(1_000)


def test_filters_count_once_and_leave_a_row() -> None:
    of = graph(["n"], [f"n.x{i} LIKE 'a%'" for i in range(9)])
    assert relation_rows(of, SALES, "n") == pytest.approx(1.0)
    of = graph(["f", "c"], ["f.c = c.id", "f.v > 1"])
    assert kept_share_of(of, SALES, "f") == pytest.approx(1 / 3)
    assert fan(of, SALES, "f", "c").value == pytest.approx(1.0), "the driver's filter is not new"


# measured rows ------------------------------------------------------------------------------------


def path(driver: str, rows: int, *steps: tuple[str, int | None]) -> dict[str, object]:
    counted = [{"relation": name, "rows_out": out} for name, out in steps]
    return {"driver": driver, "change_rows": rows, "steps": counted}


def test_measured_lookups_are_summed_over_runs_and_fade() -> None:
    runs = [
        [path("f", 100, ("c", 300), ("p", 0), ("s", 0)), path("c", 0, ("f", None))],
        [path("f", 100, ("c", 100), ("p", 50))],
    ]
    found = measured_steps(runs)
    bound = frozenset({"f"})
    assert found["f", bound, "c"] == Measured(pytest.approx(170), pytest.approx(370), 2)
    assert found["f", bound | {"c"}, "p"] == Measured(pytest.approx(370), pytest.approx(35), 2)
    assert set(found) == {("f", bound, "c"), ("f", bound | {"c"}, "p")}


def test_a_measured_fan_out_is_used_for_its_driver_alone() -> None:
    of = graph(["f", "c", "p"], ["f.c = c.id", "f.p = p.id", "f.v > 1"])
    seen = measured_steps([[path("f", 300, ("c", 1_000), ("p", 5_000))]])
    statistics = replace(SALES, measured=seen)
    assert fan(of, statistics, "f", "c").source == "key"
    driven = statistics.driven_by("f")
    assert fan(of, driven, "f", "c") == (pytest.approx(1001 / 101), "measured")
    assert fan(of, driven, "f c", "p") == (pytest.approx(5001 / 1001), "measured")
    assert fan(of, driven, "f p", "c") == fan(of, driven, "f", "c"), "p is nothing to c"
    assert fan(of, driven, "c", "p").source != "measured"
    assert fan(of, statistics.driven_by("c"), "c", "f").source == "key"


def test_measured_nothing_is_not_nothing() -> None:
    of = graph(["f", "c"], ["f.c = c.id"])

    def after(rows: int) -> float:
        seen = measured_steps([[path("f", rows, ("c", 0))]])
        return fan(of, replace(SALES, measured=seen).driven_by("f"), "f", "c").value

    assert after(1) == pytest.approx(0.5), "one row proves little"
    assert 0 < after(10_000) < 0.001


# whatever the figures say -------------------------------------------------------------------------

FIGURES = (None, 0, 1, 7, 1_000, 10**18)


def any_case(seed: int) -> tuple[JoinGraph, Statistics]:
    rng = random.Random(seed)
    size = rng.randrange(2, 8)
    names = [f"r{i}" for i in range(size)]
    conjuncts = []
    for i in range(1, size):
        one, other = names[rng.randrange(i)], names[i]
        columns = rng.choice(["id", "k"]), rng.choice(["id", "k", "m"])
        operator = rng.choice(["=", "=", "=", "<=", "<>"])
        conjuncts.append(f"{one}.{columns[0]} {operator} {other}.{columns[1]}")
    for _ in range(rng.randrange(4)):
        one, other = rng.sample(names, 2)
        conjuncts.append(f"{one}.m = {other}.{rng.choice(['m', 'id'])}")
    for name in names:
        if rng.random() < 0.4:
            conjuncts.append(f"{name}.v {rng.choice(['>', '=', '<>'])} {rng.randrange(9)}")
    joins = []
    if size >= 4:
        kind = rng.choice(["left", "full", "semi", "anti"])
        on = ["a.k = b.id", *(["a.v < b.v"] if rng.random() < 0.5 else [])]
        joins.append(join(kind, "a", "b", *on))
        names += ["a", "b"]
        conjuncts.append("r0.id = a.id")
    rows = {name: rng.choice(FIGURES) for name in names}
    keys = {n: rng.choice([("id",), ("id", "k"), ("m",)]) for n in names if rng.random() < 0.6}
    hinted = {f"{n}.{c}": float(rng.choice(FIGURES[1:]) or 0) for n in names for c in "km"}
    hints = {"distinct": {k: v for k, v in hinted.items() if rng.random() < 0.3}}
    return graph(names, dict.fromkeys(conjuncts), joins), Statistics(rows, keys, hints=hints)


@pytest.mark.parametrize("seeds", [range(i, i + 60) for i in range(0, 300, 60)])
def test_no_figure_gives_nothing_or_infinity(seeds: range) -> None:
    for seed in seeds:
        of, statistics = any_case(seed)
        hyper = hypergraph(of)
        estimator = SetEstimator(of, hyper, statistics)
        for joined in range(1, hyper.everything + 1):
            rows = estimator.rows(joined)
            assert 0 < rows < math.inf, (seed, joined)
        inner = [r.name for r in of.relations if r.name.startswith("r")]
        for new, size in itertools.product(inner, range(1, len(inner))):
            bound = frozenset([n for n in inner if n != new][:size])
            assert 0 < fan_out(of, statistics, bound, new) < math.inf, (seed, bound, new)


def test_a_lookup_of_one_relation_is_the_general_case_of_two_sets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every set and relation; keys of two columns, wide classes, residuals, nulls, any figures."""
    nulls = {"id": 0.0, "k": 0.4, "m": 0.9, "v": None}
    monkeypatch.setattr(
        Statistics, "column", lambda _, __, name: ColumnStatistics(None, None, nulls[name], None)
    )
    several = 0
    for seed in range(400):
        of, statistics = any_case(seed)
        if len(of.relations) > 2:
            refs = tuple((relation.name, "v") for relation in of.relations[:3])
            sum_of_two = Predicate("`a`.`v` + `b`.`v` > `c`.`v`", "residual", refs)
            of = replace(of, predicates=(*of.predicates, sum_of_two))
        matching = statistics.matching(of)
        for new in range(len(of.relations)):
            others = (1 << len(of.relations)) - 1 & ~(1 << new)
            for bound in (s for s in range(1, others + 1) if s & others == s):
                found = matching.lookup(bound, new)
                general = matching.pairs(bound, 1 << new).share
                turned = matching.pairs(1 << new, bound)
                assert found.share == pytest.approx(general, rel=1e-9), (seed, new, bound)
                assert turned.share == pytest.approx(general, rel=1e-9), (seed, new, bound)
                assert turned.classes == found.classes
                several += found.classes & (found.classes - 1) != 0
    assert several > 1000


def test_many_equalities_of_huge_tables_stay_numbers() -> None:
    on = [f"a.k{i} = b.k{i}" for i in range(40)]
    apart = [f"r{i}.k{i} = b.k{i}" for i in range(40)]
    for conjuncts, names in ((on, ["a", "b"]), (apart, [*(f"r{i}" for i in range(40)), "b"])):
        statistics = Statistics(
            dict.fromkeys(names, 10**18),
            {"b": ("k0", "k1")},
            hints={"distinct": {f"{n}.k{i}": 1e18 for n in names for i in range(40)}},
        )
        of = graph(names, conjuncts)
        assert 0 < rows_of(of, statistics) < math.inf
        found = fan_out(of, statistics, frozenset(names[:-1]), "b")
        assert 0 < found < math.inf


def renamed(seed: int, of: JoinGraph) -> dict[str, str]:
    names = [r.name for r in of.relations]
    fresh = [f"z{i}" for i in range(len(names))]
    random.Random(seed).shuffle(fresh)
    return dict(zip(names, fresh, strict=True))


def test_estimates_depend_neither_on_names_nor_on_writing_order() -> None:
    for seed in range(200):
        of, statistics = any_case(seed)
        names = renamed(seed, of)

        def text(predicate_: object, names: dict[str, str] = names) -> str:
            sql = str(predicate_.sql).replace("`", "")  # type: ignore[attr-defined]
            for old, new in names.items():
                sql = sql.replace(f"{old}.", f"{new}.")
            return sql

        conjuncts = [text(p) for p in of.predicates]
        random.Random(seed).shuffle(conjuncts)
        joins = [
            join(j.kind, names["a"], names["b"], *reversed([text(p) for p in j.on]))
            for j in of.joins
        ]
        relations = sorted(f"{names[r.name]}:{r.source}" for r in of.relations)
        other = graph(relations, conjuncts, joins)
        one_hyper, other_hyper = hypergraph(of), hypergraph(other)
        one = SetEstimator(of, one_hyper, statistics)
        two = SetEstimator(other, other_hyper, statistics)
        everything = list(range(1, one_hyper.everything + 1))
        random.Random(seed).shuffle(everything)
        for joined in everything:
            members = [n for n in one_hyper.names if one_hyper.bit[n] & joined]
            mapped = other_hyper.set_of(frozenset(names[n] for n in members))
            assert one.rows(joined) == pytest.approx(two.rows(mapped), rel=1e-9), (seed, members)
        inner = [r.name for r in of.relations if r.name.startswith("r")]
        for new in inner:
            bound = frozenset(n for n in inner if n != new)
            if bound:
                assert fan_out(of, statistics, bound, new) == pytest.approx(
                    fan_out(other, statistics, frozenset(names[n] for n in bound), names[new]),
                    rel=1e-9,
                ), (seed, new)


def test_more_rows_of_a_table_never_give_fewer_of_a_join_by_key() -> None:
    of = graph(["f", "c"], ["f.c = c.id"])
    seen = [
        rows_of(of, Statistics({"f": n, "c": 100}, {"c": ("id",)})) for n in (1, 10, 10**3, 10**6)
    ]
    assert seen == sorted(seen)
