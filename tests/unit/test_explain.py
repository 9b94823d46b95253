"""Explain: runner-up against brute force, sources of estimates, refusals, picture, trace, CLI."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake

import deltajoin
from deltajoin.adapters.cli import main
from deltajoin.audit import layout
from deltajoin.audit.explain import explanation, trace_text
from deltajoin.audit.picture import picture
from deltajoin.catalog.statistics import FileStatistics
from deltajoin.delta.layout import Layout
from deltajoin.delta.lookup_paths import lookup_paths
from deltajoin.delta.plan import DeltaPlan, Recent
from deltajoin.emit.paths import path_programs
from deltajoin.emit.sql import build_program
from deltajoin.emit.views import Views
from deltajoin.errors import DeltaJoinError, Refusal
from deltajoin.names import ROW_HASH
from deltajoin.planner.combine import Combiner
from deltajoin.planner.enumerate import exact_plan
from deltajoin.planner.full import full_plan
from deltajoin.planner.runner_up import exact_runner_up, started_runner_up, two_best
from deltajoin.planner.statistics import TRUST, measured_steps
from deltajoin.planner.trace import SHOWN, Trace, capped
from examples.plan_search import all_trees, spark_combiner
from examples.planner_graphs import SHAPES, SummedRows, inner_graph, large_query, mixed_graph
from tests.property.join_queries import all_plans
from tests.unit import flights

Golden = Callable[[str, str], None]
DAY = {"flights": 900, "weather": 80, "planes": 1}
OUTER = """
SELECT f.carrier, count(*) AS n FROM flights f JOIN airlines a USING (carrier)
LEFT JOIN planes p ON f.tailnum = p.tailnum FULL JOIN airports o ON f.origin = o.faa
GROUP BY f.carrier
"""


def outer_plan(**options: Any) -> DeltaPlan:
    return flights.first_plan(flights.model(OUTER, **options))


# the runner-up ------------------------------------------------------------------------------------


def test_the_runner_up_is_the_second_cheapest_of_all_trees() -> None:
    alone = 0
    for seed in range(60):
        size = 2 + seed % 4
        if seed % 2:
            combiner = Combiner(*inner_graph(SHAPES[seed % len(SHAPES)], size, seed), SummedRows())
        else:
            graph, estimator, _ = mixed_graph(size, seed)
            combiner = Combiner(graph, estimator, SummedRows())
        plans = all_plans(combiner)
        costs = sorted(plan.cost for plan in plans)
        assert len({plan.tree for plan in plans}) == len(plans), "one plan for each tree"
        best = two_best(combiner)
        chosen = exact_plan(combiner)
        runner = exact_runner_up(combiner, chosen, 0)
        assert best[0].cost == pytest.approx(chosen.cost)
        if len(costs) == 1:
            alone += 1
            assert runner.plan is None
            continue
        assert runner.plan is not None
        assert runner.plan.tree != chosen.tree
        assert runner.plan.cost == pytest.approx(costs[1]), seed
    assert alone < 30


def test_the_runner_up_is_that_of_whole_trees_under_the_real_cost() -> None:
    for seed in range(120):
        graph, statistics = large_query(3 + seed % 2, seed)
        best = two_best(spark_combiner(graph, statistics))
        trees: dict[frozenset[int], float] = {}
        for plan in all_trees(graph, statistics):
            trees[plan.tree] = min(plan.cost, trees.get(plan.tree, plan.cost))
        costs = sorted(trees.values())[:2]
        assert [plan.cost for plan in best] == pytest.approx(costs), seed
        assert len({plan.tree for plan in best}) == len(best)


def test_beyond_the_budget_the_runner_up_is_another_start() -> None:
    for shape, seed in (("chain", 3), ("clique", 0)):
        combiner, trace = Combiner(*inner_graph(shape, 12, seed), SummedRows()), Trace()
        found = full_plan(combiner, 50, trace=trace)
        assert found.method == "greedy"
        assert found.plan == full_plan(combiner, 50).plan
        runner = started_runner_up(trace, found.plan)
        assert runner.plan is not None
        assert runner.plan.tree != found.plan.tree
        assert runner.plan.cost >= found.plan.cost * (1 - 1e-9)
        assert "other starts" in runner.among


def test_a_forced_order_is_held_against_the_best() -> None:
    model = flights.model(order=["o", "w", "f", "p", "a", "d"])
    plan = flights.first_plan(model)
    runner = explanation(plan)["full_query"]["runner_up"]
    assert plan.full_query is not None
    assert plan.full_query.method == "forced"
    assert runner["gap"] < 1
    assert runner["order"] == flights.first_plan().full_query.nesting()  # type: ignore[union-attr]


def test_without_row_counts_there_is_no_runner_up() -> None:
    plan = flights.first_plan()
    assert plan.statistics is not None
    rows = {**plan.statistics.rows, "planes": None}
    plan = replace(plan, statistics=replace(plan.statistics, rows=rows))
    runner = explanation(plan)["full_query"]["runner_up"]
    assert runner["order"] is None
    assert runner["among"] == "no costs without a row count of planes"
    assert "runner-up: none: no costs" in deltajoin.explain(plan)
    assert trace_text(plan) == "nothing was considered: no row count of planes"


# text and JSON ------------------------------------------------------------------------------------


def test_the_text_of_a_day(golden: Golden) -> None:
    golden("plans/flights_day_explained.txt", deltajoin.explain(flights.daily_plan(DAY)) + "\n")


def test_each_lookup_says_where_its_estimate_comes_from() -> None:
    plan = flights.daily_plan(DAY)
    told = explanation(plan)
    assert [path["driver"] for path in told["paths"]] == [path.driver for path in plan.paths]
    for path, found in zip(plan.paths, told["paths"], strict=True):
        for step, expected in zip(path.steps, found["steps"], strict=True):
            assert expected["relation"] == step.relation
            assert expected["source"] in TRUST
            assert expected["rows"] == step.estimated_rows
            assert expected["arrangement"].startswith(f"{step.source}: ")
            assert expected["exchange"].split()[0] in ("broadcast", "exchange")
    assert json.loads(json.dumps(told)) == told


def test_the_job_makes_each_lookup_as_explain_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change is broadcast where explain says so: to a large table, while it is short enough."""
    rng, seen = random.Random(7), set()
    for _ in range(40):
        sizes = {name: int(10 ** rng.uniform(2, 9)) for name in flights.ROWS}
        monkeypatch.setattr(flights, "ROWS", sizes)
        driver = rng.choice(sorted(set(sizes) - {"airports"}))
        plan = flights.daily_plan({driver: int(10 ** rng.uniform(0, 7))})
        (told,) = explanation(plan)["paths"]
        (path,) = build_program(plan).paths
        lookups = [s for s in path.statements if s.relation]
        for step, statement in zip(told["steps"], lookups, strict=True):
            seen.add(step["exchange"])
            sent = "/*+ BROADCAST(`stream`) */" in statement.sql
            assert sent == (step["exchange"] == "broadcast the change"), (step, statement)
    assert {"broadcast the change", "broadcast the table", "exchange both"} <= seen


def test_keys_are_broadcast_to_a_large_table_while_they_are_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A change of an attachment enters the table that it is attached to by its keys."""
    monkeypatch.setitem(flights.ROWS, "flights", 50_000_000)
    sql = "SELECT f.flight, p.year FROM flights f LEFT JOIN planes p ON f.tailnum = p.tailnum"
    plan = flights.first_plan(flights.model(sql))
    assert plan.graph is not None
    for change, sent in ((1_000, True), (90_000, True), (900_000, False), (2_000_000, False)):
        sources = tuple(
            replace(s, previous=6 if s.source == "planes" else 8, change_rows=change)
            for s in plan.sources
        )
        assert plan.statistics is not None
        versions = {s.source: s for s in sources}
        paths = lookup_paths(plan.graph, plan.statistics, ("f", "p"), versions)
        views = Views(replace(plan, sources=sources))
        (program,), _ = path_programs(plan.graph, paths, views)
        (entered,) = (s for s in program.statements if "LEFT SEMI JOIN" in s.sql)
        assert ("/*+ BROADCAST(`keys`) */" in entered.sql) == sent, entered.sql


def test_measured_rows_are_named_as_the_source() -> None:
    plan = flights.daily_plan(DAY)
    record = {"driver": "f", "change_rows": 900, "steps": []}
    record["steps"] = [{"relation": s.relation, "rows_out": 900} for s in plan.paths[-1].steps]
    assert plan.statistics is not None
    measured = replace(plan.statistics, measured=measured_steps([[record]]))
    steps = explanation(replace(plan, statistics=measured))["paths"][-1]["steps"]
    assert {step["source"] for step in steps} == {"measured"}


def test_every_operator_says_how_it_is_kept() -> None:
    found = [
        (o["operator"], o["kept"].split(":")[0]) for o in explanation(outer_plan())["operators"]
    ]
    assert found == [
        ("inner join", "by lookup paths"),
        ("left join", "by scope"),
        ("full join", "in branches"),
        ("GROUP BY", "by state"),
    ]


def test_every_aggregate_says_how_it_is_kept() -> None:
    rows = "FROM flights f JOIN airlines a USING (carrier) GROUP BY f.carrier, f.origin"
    some = "sum(f.flight * 2) AS s, avg(f.dep_delay) AS v, max(f.flight) AS m"
    plan = flights.first_plan(flights.model(f"SELECT {some} {rows}"))
    operator = explanation(plan)["operators"][-1]
    assert operator["over"] == "f.carrier, f.origin"
    assert operator["kept"].startswith("by touched groups")
    assert [tuple(a.values()) for a in operator["aggregates"]] == [
        ("sum(f.flight * 2)", "linear"),
        ("avg(f.dep_delay)", "affected groups"),
        ("max(f.flight)", "merged while rows only come, else affected groups"),
    ]
    plan = flights.first_plan(flights.model(f"SELECT {some.replace('avg', 'count')} {rows}"))
    assert plan.state is not None
    assert explanation(plan)["operators"][-1]["kept"].startswith("by state")
    assert "    sum(f.flight * 2): linear\n" in deltajoin.explain(plan)


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT flight FROM flights WHERE dep_delay > 3", ("rows", "flights", "row by row")),
        ("SELECT DISTINCT origin FROM flights", ("DISTINCT", "origin", "by state")),
        (
            "SELECT flight, rank() OVER (PARTITION BY origin ORDER BY dep_delay) AS r FROM flights",
            ("window", "flights.origin", "by touched partitions"),
        ),
    ],
)
def test_an_operator_is_named_as_it_is_written(sql: str, told: tuple[str, str, str]) -> None:
    (found,) = explanation(flights.first_plan(flights.model(sql, keys={})))["operators"]
    assert (found["operator"], found["over"], found["kept"].split(":")[0]) == told


def test_groups_of_generated_rows_are_named_by_their_keys() -> None:
    sql = (
        "SELECT window.start AS s, count(*) AS n FROM flights "
        "GROUP BY origin, window(time_hour, '1 day', '12 hours')"
    )
    found = explanation(flights.first_plan(flights.model(sql, keys={})))["operators"]
    assert [(o["operator"], o["over"]) for o in found] == [
        ("generator", "explode"),
        ("GROUP BY", "flights.origin, s"),
    ]


def test_an_aggregate_that_keeps_the_others_from_a_state_is_named() -> None:
    sql = "SELECT origin, count(*) AS n, avg(dep_delay) AS a FROM flights GROUP BY origin"
    (found,) = explanation(flights.first_plan(flights.model(sql, keys={})))["operators"]
    assert found["kept"].endswith("; without avg(flights.dep_delay) a state would do")
    only = sql.replace("count(*) AS n, ", "")
    (found,) = explanation(flights.first_plan(flights.model(only, keys={})))["operators"]
    assert "without" not in found["kept"]


def test_a_query_with_unions_is_told_by_its_branches() -> None:
    sql = """SELECT f.flight AS x, p.manufacturer AS m FROM flights f LEFT JOIN planes p
             USING (tailnum) UNION ALL SELECT NULL, manufacturer FROM planes"""
    plan = flights.first_plan(flights.model(sql, keys={}))
    told = explanation(plan)
    assert [o["operator"] for o in told["operators"]] == ["left join", "UNION ALL"]
    assert [node["name"] for node in told["graph"]["nodes"]] == ["f", "p"]
    (second,) = told["further"]
    assert second["graph"]["nodes"][0]["name"] == "planes"
    assert second["full_query"]["runner_up"]["order"] is None
    text = deltajoin.explain(plan)
    assert "full query: (f ⟕ p)" in text
    assert "full query: planes" in text
    picture = drawn(plan)
    ElementTree.fromstring(picture)  # noqa: S314 - our own text
    assert picture.count(">join graph<") == picture.count("runner-up: ") == 2
    assert trace_text(plan).count("full query (exact)") == 2


def test_a_forced_order_of_a_union_is_that_of_its_branches() -> None:
    sql = """SELECT f.flight AS x FROM flights f JOIN planes p USING (tailnum)
             UNION ALL SELECT g.flight FROM flights g JOIN airlines a USING (carrier)"""
    model = flights.model(sql, keys={}, order=["a", "p", "g", "f"])
    full = flights.first_plan(model).full_query
    assert full is not None
    assert [branch.nesting() for branch in full.arms] == ["(f ⨝ p)", "(g ⨝ a)"]
    assert {branch.method for branch in full.arms} == {"forced"}


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (["f", "w", "p", "a", "o"], "the order names f, w, p, a, o; the query joins "),
        (["f", "w", "p", "a", "o", "d", "d"], "the query joins "),
        (["w", "p", "f", "a", "o", "d"], "p can't be joined at its place"),
    ],
)
def test_an_order_that_can_not_be_forced_is_refused(order: list[str], message: str) -> None:
    with pytest.raises(DeltaJoinError, match=message) as refused:
        flights.first_plan(flights.model(order=order))
    assert refused.value.code == "INVALID_ORDER"


def test_a_query_that_is_rebuilt_says_why_and_what_to_change() -> None:
    plan = flights.first_plan(flights.model("SELECT flight FROM flights LIMIT 3", keys={}))
    told = explanation(plan)
    assert plan.graph is None
    assert told["rebuilt_because"]["code"] == "LIMIT"
    (operator,) = told["operators"]
    assert operator["refused"] == told["rebuilt_because"]
    text = deltajoin.explain(plan)
    assert f"LIMIT at {told['rebuilt_because']['where']}: LIMIT is not kept" in text
    assert "to keep it: " + told["rebuilt_because"]["remedy"] in text
    assert trace_text(plan).startswith("nothing was considered")


def test_a_join_without_scope_is_the_one_that_is_rebuilt() -> None:
    stop = Refusal("NO_SCOPE", "no equality leads to p", "p", "Join on an equality.")
    found = explanation(replace(outer_plan(), rebuilt_because=stop))["operators"]
    assert [o["operator"] for o in found if o["kept"] == "rebuilt"] == ["left join"]
    other = explanation(replace(outer_plan(), rebuilt_because=replace(stop, where="")))["operators"]
    assert [o["operator"] for o in other if o["kept"] == "rebuilt"] == ["query"]


def test_a_plan_without_its_statistics_is_still_told() -> None:
    plan = replace(flights.daily_plan(DAY), statistics=None)
    assert explanation(plan)["paths"] == []
    assert plan.paths[0].text in deltajoin.explain(plan)


def test_a_table_whose_files_lie_by_no_column_that_is_asked_for_is_to_be_clustered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`by_k` lies by k, `mixed` by none; what is small, or declared so, is told nothing of."""
    for name, step in (("by_k", 100), ("mixed", 1), ("target", 1)):
        for part in range(5):
            k = [part * step + 5 * n if step == 1 else part * step + n for n in range(100)]
            rows = pa.table({"k": k, "v": [n % 7 for n in range(100)], "s": ["x"] * 100})
            write_deltalake(str(tmp_path / name), rows, mode="append")
    sql = "SELECT m.k, m.v, b.s FROM by_k b JOIN mixed m ON b.k = m.k"
    sources = {name: str(tmp_path / name) for name in ("by_k", "mixed")}
    model = deltajoin.Model("m", sql, sources, str(tmp_path / "new"))
    files = DeltaTable(str(tmp_path / "target")).get_add_actions(flatten=True)
    asked = {"k": {"ranges": 1}, "v": {"ranges": 1}, "s": {"ranges": 1}, ROW_HASH: {"ranges": 1}}
    reads = ({"by_k version 4": asked, "mixed version 4": asked, "target": asked}, {})
    recent = Recent(reads, lambda: FileStatistics(files))
    planned = replace(deltajoin.plan(model), find_recent=lambda: recent)
    assert explanation(planned)["layout"] == []
    monkeypatch.setattr(layout, "SMALL", 0)
    mixed, target = explanation(planned)["layout"]
    assert (mixed["table"], mixed["is_target"], mixed["column"]) == ("mixed", False, "k")
    assert (mixed["epochs"], mixed["of"]) == (1, 2)
    assert mixed["bytes_of_a_value"] == mixed["bytes"]
    assert (target["table"], target["is_target"], target["column"]) == ("target", True, "k")
    told = deltajoin.explain(planned)
    assert "layout: 1 of the last 2 incremental epochs asked mixed for values of k, each" in told
    declared = replace(planned.target, layout=Layout(clustered_by=("v",)))
    (only,) = explanation(replace(planned, target=declared))["layout"]
    assert only == mixed
    assert explanation(deltajoin.plan(model))["layout"] == []


# the picture --------------------------------------------------------------------------------------


def drawn(plan: DeltaPlan) -> str:
    return picture(plan.to_dict(), explanation(plan))


def test_the_picture_is_well_formed_and_shows_everything() -> None:
    plan = outer_plan()
    root = ElementTree.fromstring(drawn(plan))  # noqa: S314 - our own text
    space = "{http://www.w3.org/2000/svg}"
    texts = [element.text or "" for element in root.iter(f"{space}text")]
    for name in ("f", "a", "p", "o"):
        assert texts.count(name) == 2, "once in the graph, once in the tree"
    assert "27,004 rows" in texts
    assert any(text.startswith("runner-up: ((") for text in texts)
    arrows = [e for e in root.iter(f"{space}line") if e.get("marker-end")]
    both = [e for e in arrows if e.get("marker-start")]
    assert (len(arrows), len(both)) == (2, 1)
    titles = [element.text for element in root.iter(f"{space}title")]
    assert "left: `f`.`tailnum` = `p`.`tailnum`" in titles


@pytest.mark.parametrize("name", ["a<b>&\"c'", "]]>", "x\x01y", "--><svg>"])
def test_a_picture_escapes_every_name(name: str) -> None:
    plan = outer_plan()
    told = explanation(plan)
    told["graph"]["nodes"][0]["name"], old = name, told["graph"]["nodes"][0]["name"]
    for edge in told["graph"]["edges"]:
        for side in ("left", "right"):
            edge[side] = [name if one == old else one for one in edge[side]]
        edge["on"] = [name]
    content = {**plan.to_dict(), "model": name}
    ElementTree.fromstring(picture(content, told))  # noqa: S314


def test_pictures_of_one_relation_and_of_a_refusal() -> None:
    for sql in ("SELECT flight FROM flights", "SELECT flight FROM flights LIMIT 3"):
        text = drawn(flights.first_plan(flights.model(sql, keys={})))
        ElementTree.fromstring(text)  # noqa: S314
        assert ("rebuilt: LIMIT" in text) is ("LIMIT" in sql)


def test_text_and_picture_are_the_same_under_any_hash_seed() -> None:
    code = (
        "from tests.unit import test_explain as t; from tests.unit import flights; import hashlib;"
        "import deltajoin; from deltajoin.audit.explain import trace_text;"
        f"plans = [flights.daily_plan({DAY!r}), t.outer_plan()];"
        "text = ''.join(deltajoin.explain(p) + t.drawn(p) + trace_text(p) for p in plans);"
        "print(hashlib.sha256(text.encode()).hexdigest())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            cwd=Path(__file__).parents[2],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in (1, 2)
    }
    assert len(seen) == 1


# the trace ----------------------------------------------------------------------------------------


def test_the_trace_lists_sets_and_steps() -> None:
    lines = trace_text(flights.daily_plan(DAY)).splitlines()
    assert lines[0] == "full query (exact): the best plan of each set"
    assert sum(line.startswith("  {") for line in lines) == 32 + 5 + 1, (
        "with f any of five others, each of these alone, and o with w by their common f.origin"
    )
    at = lines.index("Δp: steps considered; * kept")
    assert lines[at + 1].startswith("  p → f  rows 8")
    assert lines[at + 1].endswith("*")
    assert any(not line.endswith("*") for line in lines[at + 2 :])


def test_a_trace_changes_no_plan() -> None:
    for seed in range(10):
        combiner, trace = Combiner(*inner_graph("cyclic", 7, seed), SummedRows()), Trace()
        assert exact_plan(combiner, trace) == exact_plan(combiner)
        assert trace.sets[-1].relations == combiner.graph.everything
        assert len({plan.relations for plan in trace.sets}) == len(trace.sets)


def test_a_long_trace_says_how_much_more_there_is() -> None:
    lines = [str(number) for number in range(SHOWN + 1234)]
    assert capped(lines)[:SHOWN] == lines[:SHOWN]
    assert capped(lines)[SHOWN:] == ["... and 1,234 more"]
    assert capped(lines[:SHOWN]) == lines[:SHOWN]


# the command --------------------------------------------------------------------------------------


def test_the_command_prints_text_json_trace_and_picture(tmp_path: Path) -> None:
    for name in ("f", "d"):
        write_deltalake(tmp_path / name, pa.table({"k": [1, 2, 3], name: [1, 2, 3]}))
    (tmp_path / "q.sql").write_text("SELECT f.f, d.d FROM f JOIN d ON f.k = d.k")
    sources = [part for n in "fd" for part in ("--source", f"{n}={tmp_path / n}")]
    options = ["--sql", str(tmp_path / "q.sql"), *sources, "--target", str(tmp_path / "out")]
    plain = CliRunner().invoke(main, ["explain", *options])
    assert plain.exit_code == 0, plain.output
    assert "inner join of f, d: by lookup paths" in plain.output
    svg = tmp_path / "plan.svg"
    full = CliRunner().invoke(main, ["explain", "--json", "--trace", "--svg", str(svg), *options])
    assert full.exit_code == 0, full.output
    found = json.loads(full.stdout)
    assert sorted(found) == ["explain", "explanation", "plan", "plan_hash", "svg", "trace"]
    assert found["plan"]["plan_hash"] == found["plan_hash"]
    assert found["explanation"]["graph"]["nodes"][0]["rows"] == 3
    assert found["trace"][0].startswith("full query")
    ElementTree.fromstring(svg.read_text(encoding="utf-8"))  # noqa: S314
    traced = CliRunner().invoke(main, ["explain", "--trace", *options])
    assert "the best plan of each set" in traced.output
    lost = CliRunner().invoke(main, ["explain", "--svg", str(tmp_path / "no" / "x.svg"), *options])
    assert lost.exit_code == 2
