"""Audit records and plans as text for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def path_lines(path: Mapping[str, Any]) -> list[str]:
    """One lookup path: its text, then a line for each lookup.

    Example:
        Δweather → flights* → planes*                     change 3 → rows 12
          weather     versions 8..9
          → flights*  version 41   on flights.origin = weather.origin   rows 12 (estimated 9)
    """
    rows = path.get("change_rows")
    head = str(path["text"])
    if rows is not None:
        head += f"    change {rows:,} → rows {path['rows_out']:,}"
    else:
        head += f"    change about {path['estimated_rows']:,}"
    first, last = path["first_version"], path["last_version"]
    lines = [head, f"  Δ{path['driver']} of {path['source']}: change feed {first}..{last}"]
    for step in path["steps"]:
        star = "*" if step["epoch"] == "this" else ""
        on = " AND ".join(step["on"]).replace("`", "") or "every row"
        count = step.get("rows_out")
        shown = f"estimated {step['estimated_rows']:,}"
        if count is not None:
            shown = f"rows {count:,} ({shown})"
        unique = ", unique" if step["unique"] else ""
        lines.append(
            f"  → {step['relation']}{star}: {step['source']} version {step['version']} "
            f"({step['epoch']} epoch{unique}) on {on}: {shown}"
        )
    return lines


def render_text(record: Mapping[str, Any]) -> str:
    """An audit record (`AuditRecord.to_dict()`) as text."""
    rows = record["rows"]
    lines = [
        f"{record['model']}  epoch {record['epoch']}  {record['strategy']}  "
        f"{record['reason']}: {record['detail']}",
    ]
    if record["strategy"] != "noop":
        lines.append(
            f"  rows +{rows.get('inserted', 0):,} ~{rows.get('updated', 0):,} "
            f"-{rows.get('deleted', 0):,}  target version {record['target_version']}  "
            f"{record['seconds']} s  plan {record['plan_hash'][:12]}"
        )
    if record.get("shadow"):
        rows = record["shadow"]["rows"]
        lines.append(f"  shadow: equal to a full recomputation of {rows:,} rows")
    lines.append("  frontier " + _frontier(record["frontier"]))
    for path in record["paths"]:
        lines += ["  " + line for line in path_lines(path)]
    lines += [f"  warning: {warning}" for warning in record["warnings"]]
    return "\n".join(lines)


def _frontier(frontier: Mapping[str, Mapping[str, Any]]) -> str:
    def one(source: str, at: Mapping[str, Any]) -> str:
        before, now = at["previous"], at["version"]
        return f"{source}@{now}" if before in (None, now) else f"{source}@{before}→{now}"

    return ", ".join(one(source, at) for source, at in sorted(frontier.items()))


def render_plan(plan: Mapping[str, Any]) -> str:
    """A plan (`DeltaPlan.to_dict()`) as text: strategy, target, orders, lookup paths."""
    target = plan["target"]
    key = ", ".join(target["key"]) or "none: rows are counted"
    lines = [
        f"{plan['model']}  epoch {plan['epoch']}  {plan['strategy']}  "
        f"{plan['reason']}: {plan['detail']}",
        f"  target {target['place']} ({target['kind']}; key {key})",
        "  frontier " + _frontier(plan["frontier"]),
    ]
    lines += [f"  key of {s}: {', '.join(columns)}" for s, columns in plan["keys"].items()]
    if plan["full_order"] is not None:
        full = plan["full_order"]
        steps = [
            f"{relation} ({rows:,.0f})"
            for relation, rows in zip(full["relations"], full["rows"], strict=True)
        ]
        lines.append("  full query: " + " ⨝ ".join(steps))
        lines.append("  epoch order: " + ", ".join(plan["epoch_order"]))
    for path in plan["paths"]:
        lines += ["  " + line for line in path_lines(path)]
    lines += [f"  warning: {warning}" for warning in plan["warnings"]]
    lines.append(f"  plan {plan['plan_hash']}")
    return "\n".join(lines)
