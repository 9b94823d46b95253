"""The record of an epoch, which its commit carries: what was planned, and what came of it.

Caller: adds what only the run knows; a later version of the record may hold more.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from typing import Any

#: What is taken from the plan as it is, and what where there is some; of the target too.
_OF_PLAN = (
    "format",
    "rules",
    "model",
    "epoch",
    "strategy",
    "reason",
    "detail",
    "mode",
    "plan_hash",
    "fingerprint",
    "model_hash",
    "frontier",
)
_IF_ANY = ("predicted", "clock")
_IF_ANY_OF_TARGET = ("follows", "hidden", "layout")
Reports = Iterable[dict[str, Any] | None]


def record_of(
    plan: dict[str, Any],
    target: dict[str, Any],
    reports: Reports,
    derived: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    """What the record says of the plan, its target and its paths.

    Args:
        reports: of the plan's paths, in their order; fewer where they did not run.
        derived: source -> what `runtime.derived.derive` found.
    """
    record = {name: plan[name] for name in _OF_PLAN}
    record |= {name: plan[name] for name in _IF_ANY if plan.get(name)}
    record |= {name: target[name] for name in _IF_ANY_OF_TARGET if target.get(name)}
    record |= {"target": target["place"], "kind": target["kind"], "key": target["key"]}
    record["paths"] = _path_records(plan["paths"], reports)
    record["order"] = order_record(plan)
    if plan.get("derived"):
        record["derived"] = [
            {
                "source": one["source"],
                "touched": found.get("touched"),
                "change_rows": found.get("change_rows"),
                "paths": _path_records(one["paths"], found.get("reports", ())),
            }
            for one in plan["derived"]
            for found in [derived.get(one["source"], {})]
        ]
    return record


def order_record(plan: dict[str, Any]) -> dict[str, Any] | None:
    """The order of the whole query where costs chose it, and the rows of its tables then."""
    full = plan["full_query"]
    if full is None or full["method"] in ("forced", "written"):
        return None
    rows = {source: at["rows"] for source, at in plan["frontier"].items()}
    return {"nesting": full["order"], "rows": full.get("rows_when_chosen", rows)}


def surprises(paths: list[dict[str, Any]]) -> list[str]:
    """A path that a declared reference says is empty and that had rows all the same."""
    return [
        f"the path of {path['driver']} gave {path['rows_out']} rows, but {path['expected_empty']}: "
        "the reference did not hold; the target is right all the same"
        for path in paths
        if path["expected_empty"] and path["rows_out"]
    ]


def _path_records(paths: list[dict[str, Any]], reports: Reports) -> list[dict[str, Any]]:
    records = []
    for path, report in zip_longest(paths, reports):
        found = report or {"change_rows": None, "rows_out": None, "lookup_rows": {}}
        out, among = found["lookup_rows"], found.get("candidates", {})
        steps = [{**step, "rows_out": out.get(step["relation"])} for step in path["steps"]]
        for step in steps:
            if among.get(step["relation"]) is not None:
                step["candidates"] = among[step["relation"]]
        counts = {name: found[name] for name in ("change_rows", "rows_out")}
        records.append({**path, **counts, "steps": steps})
    return records
