"""Planning within derived sources: their own earlier paths, measured and pinned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deltajoin.delta.derived import DerivedPlan, Knowledge, describe, plan_derived
from deltajoin.delta.path import SourceVersion
from deltajoin.planner.statistics import Statistics, measured_steps
from deltajoin.sql.bind import bind

COLUMNS = {"f": ("id", "g", "a", "b"), "a": ("k", "x"), "b": ("k", "x")}
TYPES = {(table, column): "bigint" for table, names in COLUMNS.items() for column in names}
SQL = """
WITH t AS (
  SELECT f.g, count(*) AS n FROM f JOIN a ON f.a = a.k JOIN b ON f.b = b.k GROUP BY f.g
)
SELECT f.id, a.x, t.n FROM f JOIN a ON f.a = a.k JOIN t ON f.g = t.g
"""
SIZES = {"f": 1_000_000, "a": 1_000, "b": 1_200}


def known(sizes: dict[str, int], changed: tuple[str, ...] = ("f",), **extra: Any) -> Knowledge:
    graph = bind(SQL, COLUMNS, TYPES).graph
    versions = {
        name: SourceVersion(
            source=name,
            location="",
            table_id=name,
            version=1,
            previous=0 if name in changed else 1,
            rows=rows,
            change_rows=rows // 100 if name in changed else 0,
            columns=(),
        )
        for name, rows in sizes.items()
    }
    hints = {"distinct": {"f.a": 4_000.0, "f.b": 4_000.0}}
    statistics = Statistics(sizes, {}, hints=hints, measured=extra.pop("measured", {}))
    return Knowledge(describe(graph, {}, TYPES), statistics, versions, **extra)


def derived(about: Knowledge) -> DerivedPlan:
    ((plan,), _) = plan_derived(bind(SQL, COLUMNS, TYPES).graph, about)
    return plan


def order(plan: DerivedPlan) -> list[str]:
    (path,) = plan.paths
    return [path.driver, *(step.relation for step in path.steps)]


def counted(plan: DerivedPlan, rows: int, **out: int) -> list[dict[str, Any]]:
    (path,) = (p.to_dict() for p in plan.paths)
    steps = [{**step, "rows_out": out[step["relation"]]} for step in path["steps"]]
    return [{**path, "change_rows": rows, "steps": steps}]


def test_measured_rows_count_where_they_were_measured() -> None:
    first = derived(known(SIZES))
    assert order(first)[1:] == ["a", "b"]
    name = first.source.source
    run = counted(first, 10_000, a=5_000_000, b=5_000_000)
    # a much dearer step is clearly dearer than the pinned order
    again = derived(known(SIZES, within={name: [run]}))
    assert order(again)[1:] == ["b", "a"]
    assert again.paths[0].replanned
    assert order(derived(known(SIZES, within={"other": [run]}))) == order(first)
    outer = measured_steps([run])
    assert outer
    assert order(derived(known(SIZES, measured=outer))) == order(first)


def test_paths_and_epoch_order_hold_under_drift() -> None:
    first = derived(known(SIZES))
    run = [path.to_dict() for path in first.paths]
    drifted = {**SIZES, "a": 1_500}
    assert order(derived(known(drifted)))[1:] == ["b", "a"]
    pinned = derived(known(drifted, within={first.source.source: [run]}))
    assert order(pinned) == order(first)
    assert not pinned.replanned

    both = known(SIZES, ("a", "b"))
    before = derived(both)
    assert [path.driver for path in before.paths] == ["a", "b"]
    run = [path.to_dict() for path in before.paths]
    moved = known({**SIZES, "a": 1_500}, ("a", "b"))
    assert [path.driver for path in derived(moved).paths] == ["b", "a"]
    kept = replace(moved, within={before.source.source: [run]})
    assert [path.driver for path in derived(kept).paths] == ["a", "b"]
