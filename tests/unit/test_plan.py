"""Plans and jobs: the paths of the flights model, golden plan and job, determinism."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import deltajoin
from deltajoin.catalog import ChangedFiles, Column, TargetCommit, TargetState
from deltajoin.delta.build import Inputs, build_plan
from deltajoin.delta.format import RULES
from deltajoin.delta.strategy import Decision, Seconds, Situation, decide
from deltajoin.emit.job import describe_job, job_source, write_job
from deltajoin.emit.sql import build_program
from deltajoin.errors import DeltaJoinError, Refusal
from tests.unit import flights

Golden = Callable[[str, str], None]
DAY = {"flights": 900, "weather": 80, "planes": 1}


def test_only_changed_tables_have_a_path_and_each_occurrence_its_own() -> None:
    assert sorted(p.driver for p in flights.daily_plan(DAY).paths) == ["f", "p", "w"]
    assert [p.driver for p in flights.daily_plan({"airports": 1}).paths] == ["d", "o"]


def test_reads_follow_the_epoch_order() -> None:
    plan = flights.daily_plan({**DAY, "airports": 1})
    changed = {"flights", "weather", "planes", "airports"}
    for path in plan.paths:
        for step in path.steps:
            before = plan.epoch_order.index(step.relation) < plan.epoch_order.index(path.driver)
            previous = before and step.source in changed
            assert step.epoch == ("previous" if previous else "this"), (path.driver, step)
            assert step.version == (6 if previous else 8)


def test_every_predicate_is_applied_exactly_once_on_each_path() -> None:
    plan = flights.daily_plan(DAY)
    assert plan.graph is not None
    for path in plan.paths:
        applied = sorted(sql for step in path.steps for sql in step.on)
        assert applied == sorted(p.sql for p in plan.graph.predicates)


def test_the_first_plan(golden: Golden) -> None:
    plan = flights.first_plan()
    golden("plans/flights_first.json", json.dumps(plan.to_dict(), indent=1, sort_keys=True) + "\n")
    golden("jobs/flights_first.py.txt", job_source(plan))


def test_a_daily_plan(golden: Golden) -> None:
    plan = flights.daily_plan(DAY)
    golden("plans/flights_day.json", json.dumps(plan.to_dict(), indent=1, sort_keys=True) + "\n")
    golden("jobs/flights_day.py.txt", job_source(plan))


GROUPS = """
SELECT a.name, count(*) AS flights, sum(f.flight) AS numbers
FROM flights f JOIN airlines a ON f.carrier = a.carrier
GROUP BY a.name, f.origin HAVING count(*) > 100
"""


def test_a_plan_of_groups_with_a_state(golden: Golden) -> None:
    """The change is added to what is stored; no row of a group is read again."""
    first = flights.first_plan(flights.model(GROUPS))
    assert (first.target.kind, first.target.key) == ("grouped", ("name", "__deltajoin_key_1"))
    plan = flights.daily_plan({"flights": 900}, first)
    assert plan.regroup == ()
    golden("jobs/flights_groups.py.txt", job_source(plan))


def test_a_bag_plan(golden: Golden) -> None:
    plan = flights.daily_plan({"planes": 3}, flights.first_plan(flights.model(keys={})))
    golden("jobs/flights_bag.py.txt", job_source(plan))


def test_declared_keys_are_checked_even_where_the_target_is_a_bag() -> None:
    plan = flights.first_plan(flights.model(flights.SQL.replace("f.flight,", "")))
    assert plan.target.kind == "bag"
    check = build_program(plan).key_check
    assert check is not None
    assert all(f"'{name}' AS `source`" in check for name in flights.KEYS)
    assert build_program(flights.first_plan(flights.model(keys={}))).key_check is None


LATEST = """
SELECT carrier, name FROM (
  SELECT f.carrier, a.name,
    row_number() OVER (PARTITION BY f.carrier ORDER BY f.time_hour, f.flight) AS n
  FROM flights f JOIN airlines a ON f.carrier = a.carrier
) WHERE n = 1
"""
RESTING = {
    "a target with a key": (flights.SQL, ()),
    "a bag": (flights.SQL.replace("f.flight,", ""), ("airlines", "flights")),
    "groups": (GROUPS, ("airlines", "flights")),
    "an order by the key": (LATEST, ()),
    "a query that is not kept": (GROUPS + " LIMIT 3", ("airlines", "flights")),
}


@pytest.mark.parametrize("of", RESTING)
def test_keys_of_large_tables_are_checked_where_the_result_rests_on_them(of: str) -> None:
    sql, unchecked = RESTING[of]
    large = {"flights": 10**6, "airlines": 10**6}
    rows = {name: n for name, n in (flights.ROWS | large).items() if f" {name} " in sql}
    tables = {name: replace(flights.table(name), rows=n) for name, n in rows.items()}
    plan = build_plan(flights.model(sql), Inputs(tables, "/data/out", None, False))
    assert plan.strategy == "full"
    assert plan.unchecked == unchecked
    check = build_program(plan).key_check or ""
    for name in tables:
        assert (f"'{name}' AS `source`" in check) is (name not in unchecked)
    assert ("nothing rests on it" in deltajoin.explain(plan)) is bool(unchecked)


def test_a_key_that_rules_ties_out_is_another_meaning() -> None:
    """A target that was rebuilt for rows that tie must not be taken for one without such rows."""
    declared, not_declared = (
        flights.first_plan(flights.model(LATEST, keys=keys)) for keys in (flights.KEYS, {})
    )
    assert declared.target == not_declared.target
    assert declared.fingerprint != not_declared.fingerprint


NUMBERED = LATEST.replace("SELECT carrier,", "SELECT n, carrier,").replace("WHERE n = 1", "")


@pytest.mark.parametrize(("sql", "kind"), [(LATEST, "plain"), (NUMBERED, "bag")])
def test_a_query_whose_rows_were_found_to_tie_is_run_as_its_own_text(sql: str, kind: str) -> None:
    model, tables = (
        flights.model(sql, keys={}),
        {name: flights.table(name) for name in flights.ROWS},
    )
    kept = build_plan(model, Inputs(tables, "/data/out", None, False))
    failed = Refusal("WINDOW_TIES", "rows tie", "a query", "")
    plan = build_plan(model, Inputs(tables, "/data/out", None, False, failed=failed))
    assert (kept.graph is None, plan.graph is None) == (False, True)
    assert plan.rebuilt_because is not None
    assert plan.rebuilt_because.code == "WINDOW_TIES"
    assert plan.tied == plan.rebuilt_because.where == "f.carrier, f.time_hour, f.flight"
    assert (plan.target.kind, plan.fingerprint) == (kind, kept.fingerprint)
    program = build_program(plan)
    written = {one.view: one.sql for one in program.apart} or {"": program.full}
    (text,) = written.values()
    assert text is not None
    assert "ORDER BY f.time_hour, f.flight) AS n" in text
    strict = replace(model, mode="incremental_strict")
    with pytest.raises(DeltaJoinError, match="WINDOW_TIES"):
        build_plan(strict, Inputs(tables, "/data/out", None, False, failed=failed))


def job_values(source: str) -> dict[str, object]:
    """PLAN and PROGRAM of a job, evaluated without running it."""
    tree = ast.parse(source)
    names: dict[str, object] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = ast.fix_missing_locations(ast.Expression(node.value))
            code = compile(value, "job", "eval")
            names[node.targets[0].id] = eval(code, {"__builtins__": {}}, dict(names))  # noqa: S307
    return names


@pytest.mark.parametrize(
    "name",
    ['a"""b', "a'''\\", "x`; DROP TABLE t --", "new\nline", "ünï", "__import__('os')", 'q" + "'],
)
def test_a_job_says_what_the_plan_says_for_any_name(name: str) -> None:
    output = name.replace("`", "``")
    sql = f"SELECT f.flight AS `{output}`, p.year FROM flights f JOIN planes p USING (tailnum)"
    plan = flights.daily_plan(DAY, flights.first_plan(flights.model(sql, keys={})))
    source = job_source(plan)
    values = job_values(source)
    job = json.loads(json.dumps(describe_job(plan)))
    assert values["PLAN"] == job["plan"]
    assert values["PROGRAM"] == job["program"]
    kinds = [type(node).__name__ for node in ast.parse(source).body]
    assert kinds[:2] == ["Expr", "ImportFrom"]
    assert kinds[-1] == "If"
    assert set(kinds[2:-1]) == {"Assign"}


def test_a_job_imports_only_what_is_shipped(tmp_path: Path) -> None:
    files = write_job(flights.daily_plan(DAY), tmp_path)
    code = f"""
import sys
sys.path.insert(0, {str(files.py_files)!r})
sys.modules.update(dict.fromkeys(["sqlglot", "deltalake", "pyarrow", "click", "yaml"]))
import deltajoin.runtime.job, deltajoin.runtime.execute
assert {str(files.py_files)!r} in deltajoin.runtime.job.__file__
"""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    subprocess.run([sys.executable, "-I", "-c", code], check=True, env=environment)


def test_a_job_is_its_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its creation on, also in place of a file that others may read."""
    (tmp_path / "job.py").touch(mode=0o644)
    written = Path.write_text
    modes = []

    def seen(path: Path, *args: Any, **options: Any) -> int:
        modes.append(path.stat().st_mode & 0o777)
        return written(path, *args, **options)

    monkeypatch.setattr(Path, "write_text", seen)
    before = os.umask(0)
    try:
        files = write_job(flights.daily_plan(DAY), tmp_path)
    finally:
        os.umask(before)
    assert [*modes, files.job.stat().st_mode & 0o777] == [0o600, 0o600]


def test_the_same_inputs_give_the_same_bytes_under_any_hash_seed() -> None:
    code = (
        "from tests.unit import flights; from deltajoin.emit.job import job_source; import hashlib;"
        f"print(hashlib.sha256(job_source(flights.daily_plan({DAY!r})).encode()).hexdigest())"
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
        for seed in (0, 1, 2)
    }
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("old", "told"),
    [
        (("tailnum", "manufacturer"), "; columns gained: year"),
        (("tailnum", "manufacturer", "year", "seats"), "; columns lost: seats"),
        (("tailnum", "manufacturer", "year"), ""),
    ],
)
def test_a_changed_model_names_the_columns_that_came_and_went(
    old: tuple[str, ...], told: str
) -> None:
    """As when a table under `SELECT *` gains a column: the fingerprint alone would not say."""
    model = flights.model("SELECT * FROM planes", keys={}, mode="auto")
    record = {
        "epoch": 1,
        "fingerprint": "other",
        "columns": old,
        "kind": "bag",
        "format": 1,
        "rules": RULES,
        "frontier": {},
        "settings": {},
    }
    commit = TargetCommit(1, 0, "WRITE", {}, json.dumps({"deltajoin": record}), True)
    properties = (("deltajoin.format", "1"), ("deltajoin.model", "flights_enriched"))
    columns = tuple(Column(name, "string", True) for name in (*old, "__deltajoin_count"))
    target = TargetState("/data/out", "id", 1, columns, properties, (commit,))
    inputs = Inputs({"planes": flights.table("planes")}, "/data/out", target, False)
    plan = build_plan(model, inputs)
    assert (plan.strategy, plan.reason) == ("full", "MODEL_CHANGED")
    assert plan.detail.endswith("was built with" + told)


def test_a_source_without_a_feed_is_told_in_plan_and_explain() -> None:
    first = flights.first_plan(flights.model(keys={}))
    files = ChangedFiles(left=("/data/planes/a",), came=("/data/planes/b",))
    sources = tuple(
        replace(s, method="files", files=files) if s.source == "planes" else s
        for s in first.sources
    )
    plan = flights.daily_plan({"planes": 3}, replace(first, sources=sources))
    assert plan.to_dict()["frontier"]["planes"]["method"] == "files"
    assert plan.to_dict()["changed_files"]["planes"]["came"] == ["/data/planes/b"]
    assert plan.paths[0].method == "files"
    assert "planes: files that changed between versions 6 and 8" in deltajoin.explain(plan)
    (feed,) = build_program(plan).feeds
    assert [(r.view, r.version, r.paths) for r in feed.reads] == [
        ("planes_changes_left", 6, ("/data/planes/a",)),
        ("planes_changes_came", 8, ("/data/planes/b",)),
    ]
    assert {r.schema for r in feed.reads} == {"`tailnum` string, `manufacturer` string"}


def obstacle(code: str) -> Refusal:
    return Refusal(code, "text", "place", "remedy")


def situation(**changes: object) -> Situation:
    values: dict[str, object] = {
        "mode": "auto",
        "first_run": False,
        "changed_meaning": None,
        "operator": None,
        "sources": (),
        "changed": ("f",),
        "share": 0.01,
    }
    return Situation(**{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "strategy", "reason"),
    [
        ({}, "incremental", "CHANGES"),
        ({"changed": ()}, "noop", "NO_CHANGE"),
        ({"share": 0.2001}, "full", "CHANGE_TOO_LARGE"),
        ({"share": 0.2}, "incremental", "CHANGES"),
        ({"share": None}, "incremental", "CHANGES"),
        ({"finding": "much"}, "full", "CHANGE_TOO_LARGE"),
        ({"finding": "much", "mode": "incremental"}, "incremental", "CHANGES"),
        ({"predicted": Seconds(20.0, 10.0)}, "full", "REBUILD_CHEAPER"),
        ({"predicted": Seconds(10.0, 20.0)}, "incremental", "CHANGES"),
        ({"predicted": Seconds(20.0, 10.0), "mode": "incremental"}, "incremental", "CHANGES"),
        ({"untraced": obstacle("NO_SCOPE")}, "full", "NO_SCOPE"),
        ({"untraced": obstacle("NO_SCOPE"), "mode": "incremental"}, "incremental", "CHANGES"),
        (
            {"untraced": obstacle("NO_SCOPE"), "mode": "incremental_strict"},
            "incremental",
            "CHANGES",
        ),
        ({"failed": obstacle("EVALUATION_FAILED")}, "full", "EVALUATION_FAILED"),
        (
            {"failed": obstacle("EVALUATION_FAILED"), "mode": "incremental"},
            "full",
            "EVALUATION_FAILED",
        ),
        ({"share": 0.9, "mode": "incremental"}, "incremental", "CHANGES"),
        ({"share": 0.9, "mode": "incremental_strict"}, "incremental", "CHANGES"),
        ({"mode": "full", "changed": ()}, "full", "FULL_REQUESTED"),
        ({"first_run": True, "mode": "incremental_strict"}, "full", "FIRST_RUN"),
        ({"first_run": True, "lost": obstacle("HISTORY_LOST")}, "full", "HISTORY_LOST"),
        ({"changed_meaning": obstacle("MODEL_CHANGED")}, "full", "MODEL_CHANGED"),
        ({"changed_meaning": obstacle("RULES_CHANGED"), "changed": ()}, "full", "RULES_CHANGED"),
        ({"changed_meaning": obstacle("RULES_CHANGED"), "mode": "full"}, "full", "RULES_CHANGED"),
        ({"sources": (obstacle("FEED_GAP"),)}, "full", "FEED_GAP"),
        ({"operator": obstacle("OUTER_JOIN")}, "full", "OUTER_JOIN"),
        ({"operator": obstacle("OUTER_JOIN"), "changed": ()}, "noop", "NO_CHANGE"),
    ],
)
def test_strategies(changes: dict[str, object], strategy: str, reason: str) -> None:
    decision = decide(situation(**changes))
    assert isinstance(decision, Decision)
    assert (decision.strategy, decision.reason) == (strategy, reason)


@pytest.mark.parametrize("field", ["changed_meaning", "operator", "failed"])
def test_strict_refuses_what_auto_rebuilds(field: str) -> None:
    with pytest.raises(DeltaJoinError) as caught:
        decide(situation(mode="incremental_strict", **{field: obstacle("SOME_CODE")}))
    assert caught.value.code == "SOME_CODE"
    assert caught.value.remedy == "remedy"
