"""Audit records and plans as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from deltajoin.runtime.stopwatch import PHASES


def path_lines(path: Mapping[str, Any], expected: Mapping[str, Any] | None = None) -> list[str]:
    """One lookup path: its text, then a line for each lookup and what is `expected` of it.

    Example:
        Δweather → flights* → planes*                     change 3 → rows 12
          weather     versions 8..9
          → flights*  version 41   on flights.origin = weather.origin   rows 12 (estimated 9)
    """
    head = f"{path['text']}    change "
    if path.get("change_rows") is None:
        head += f"about {path['estimated_rows']:,}"
    else:
        head += f"{path['change_rows']:,} → rows {path['rows_out']:,}"
    lines = [head, f"  Δ{path['driver']} of {path['source']}: {_reading(path)}"]
    for name in ("expected_empty", "replanned"):
        lines += [f"  {name.replace('_', ' ')}: {path[name]}"] if path.get(name) else []
    for step, told in zip_longest(path["steps"], expected["steps"] if expected else ()):
        lines.append(_lookup(step))
        if told and (text := _expected(told)):
            lines.append(f"      {text}")
    return lines


def _lookup(step: Mapping[str, Any]) -> str:
    star = "*" if step["epoch"] == "this" else ""
    rows = f"estimated {step['estimated_rows']:,}"
    if step.get("rows_out") is not None:
        rows = f"rows {step['rows_out']:,} ({rows})"
    unique = ", unique" if step["unique"] else ""
    rows += _accelerator(step)
    if step.get("shared_with"):
        rows += ", shared with " + ", ".join(f"Δ{name}" for name in step["shared_with"])
    return (
        f"  → {step['relation']}{star}: {step['source']} version {step['version']} "
        f"({step['epoch']} epoch{unique}) on {_on(step)}: {rows}"
    )


def _on(join: Mapping[str, Any]) -> str:
    return " AND ".join(join["on"]).replace("`", "") or "every row"


def _accelerator(join: Mapping[str, Any]) -> str:
    """What serves a join that no equality makes.

    Example:
        >>> served = {"kind": "range", "serves": ["`a`.`x` < `b`.`y`"]}
        >>> _accelerator({"accelerated": served, "candidates": 1200})
        ', accelerated by range: a.x < b.y, of 1,200 candidates'
    """
    served = join.get("accelerated")
    if not served:
        return ""
    conditions = (f"({sql})" if " or " in sql.lower() else sql for sql in served["serves"])
    told = f", accelerated by {served['kind']}: {' AND '.join(conditions)}".replace("`", "")
    among = join.get("candidates")
    return told if among is None else f"{told}, of {among:,} candidates"


def derived_lines(derived: Mapping[str, Any]) -> list[str]:
    """A derived source: what came of its change, and the lookup paths within.

    Example:
        by_customer, a derived source: parts touched 3 → rows 6
          Δorders → customers*    change 4 → rows 4
    """
    head = f"{derived['source']}, a derived source"
    if derived.get("touched") is not None:
        head += f": parts touched {derived['touched']:,}"
    if derived.get("change_rows") is not None:
        head += f" → rows {derived['change_rows']:,}"
    return [head, *("  " + line for path in derived["paths"] for line in path_lines(path))]


def _reading(path: Mapping[str, Any]) -> str:
    """How the change that drives a path is read; records of old epochs name no method."""
    first, last = path["first_version"], path["last_version"]
    method = path.get("method", "feed")
    if method == "derived":
        return "its rows after minus its rows before"
    if method == "feed":
        return f"change feed {first}..{last}"
    how = "files that changed" if method == "files" else "difference"
    return f"{how} between versions {first - 1} and {last}"


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
    if phases := record.get("phases"):
        times = (f"{phase} {phases[phase]:.1f}" for phase in PHASES if phase in phases)
        lines.append(f"  seconds: {', '.join(times)}")
    if predicted := record.get("predicted"):
        seconds = (f"{strategy} {expected:.1f}" for strategy, expected in sorted(predicted.items()))
        lines.append(f"  expected seconds, by past runs: {', '.join(seconds)}")
    lines += _written(record.get("written"), record.get("written_because"))
    if record.get("shadow"):
        rows = record["shadow"]["rows"]
        lines.append(f"  shadow: equal to a full recomputation of {rows:,} rows")
    lines.append("  frontier " + _frontier(record["frontier"]))
    lines += _indented(record)
    lines += _narrowed(record.get("narrowed") or {})
    lines += [f"  warning: {warning}" for warning in record["warnings"]]
    return "\n".join(lines)


def _indented(record: Mapping[str, Any]) -> Iterator[str]:
    """The lines of derived sources, then of paths."""
    for derived in record.get("derived") or ():
        yield from ("  " + line for line in derived_lines(derived))
    for path in record["paths"]:
        yield from ("  " + line for line in path_lines(path))


def _narrowed(tables: Mapping[str, Mapping[str, Mapping[str, int]]]) -> list[str]:
    """Tables of which a run read no more than ranges of what changed.

    Example:
        >>> _narrowed({"target": {"id": {"ranges": 1, "values": 90}, "at": {"ranges": 3}}})
        ['  target read within ranges of id (1, 90 values), at (3)']
        >>> _narrowed({"t version 3": {"id": {"ranges": 1, "files": 2, "of_files": 68}}})
        ['  t version 3 read within ranges of id (1): 2 of 68 files']
        >>> _narrowed({"target": {"a": {"ranges": 2}, "a, b": {"hashes": 90}}})
        ['  target read within ranges of a (2), a, b together (90 hashes)']
    """

    def one(column: str, report: Mapping[str, int]) -> str:
        if "hashes" in report:
            return f"{column} together ({report['hashes']:,} hashes)"
        listed = f", {report['values']:,} values" if "values" in report else ""
        return f"{column} ({report['ranges']:,}{listed})"

    def files(columns: Mapping[str, Mapping[str, int]]) -> str:
        told = [each for each in columns.values() if "files" in each]
        return f": {told[0]['files']:,} of {told[0]['of_files']:,} files" if told else ""

    return [
        f"  {table} read within ranges of {', '.join(one(*each) for each in columns.items())}"
        f"{files(columns)}"
        for table, columns in tables.items()
    ]


def _written(how: str | None, because: str | None) -> list[str]:
    """How a rebuild is written, where that is more than its reason says."""
    if how == "difference":
        return ["  written by difference: rows that did not change stay where they are"]
    return [f"  the whole target is written: {because}"] if because else []


def _frontier(frontier: Mapping[str, Mapping[str, Any]]) -> str:
    def one(source: str, at: Mapping[str, Any]) -> str:
        before, now = at["previous"], at["version"]
        return f"{source}@{now}" if before in (None, now) else f"{source}@{before}→{now}"

    return ", ".join(one(source, at) for source, at in sorted(frontier.items()))


def _full_query(full: Mapping[str, Any], explained: Mapping[str, Any] | None) -> Iterator[str]:
    """The order of the whole query: what was chosen, how, and what it wins."""
    how = full["method"] + (f" ({full['fallback']})" if full["fallback"] else "")
    if full["pairs"]:
        how += f", {full['pairs']:,} pairs"
    gain = full["written_cost"] / full["cost"] if full["cost"] else 1.0
    yield f"  full query: {full['order']}  {how}; as written costs {gain:.2f}x"
    if full.get("replanned"):
        yield f"    replanned: {full['replanned']}"
    if explained is not None:
        yield f"    {_runner_up(explained['runner_up'])}"
    for join, expected in zip_longest(full["joins"], explained["joins"] if explained else ()):
        yield (
            f"    {join['kind']} join with {join['right']} on {_on(join)}: {join['rows']:,.0f} rows"
            f"{_accelerator(join)}{_way(expected) if expected else ''}"
        )


def _runner_up(runner: Mapping[str, Any]) -> str:
    if runner["order"] is None:
        return f"runner-up: none: {runner['among']}"
    return (
        f"runner-up: {runner['order']}  cost {runner['cost']:.4g}, {runner['gap']:.2f}x the chosen "
        f"(among {runner['among']})"
    )


def _way(join: Mapping[str, Any]) -> str:
    if join["broadcast"]:
        way = f"broadcast {', '.join(join['broadcast'])}"
    else:
        sides = [f"{{{', '.join(side)}}}" for side in join["exchanged"]]
        way = "exchange " + " and ".join(sides) if sides else "no exchange"
    return f" by {join['source']}; {way}{_compared(join)}"


def _compared(join: Mapping[str, Any]) -> str:
    """Why no accelerator serves a join or lookup; empty where none is asked for."""
    return f"; {join['compared']}" if join.get("compared") else ""


def _expected(step: Mapping[str, Any]) -> str:
    """What is expected of one lookup of a path; empty where nothing is estimated."""
    if "source" not in step:
        return f"{step.get('arrangement', '')}{_compared(step)}".removeprefix("; ")
    return (
        f"{step['fan_out']:,.4g} a row by {step['source']}; {step['arrangement']}; "
        f"{step['exchange']}{_compared(step)}"
    )


def _operators(operators: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for operator in operators:
        within = f"{operator['within']}: " if "within" in operator else ""
        yield f"  {within}{operator['operator']} of {operator['over']}: {operator['kept']}"
        for one in operator.get("aggregates", ()):
            yield f"    {one['aggregate']}: {one['kept']}"
        if refused := operator.get("refused"):
            yield f"    {refused['code']} at {refused['where']}: {refused['message']}"
            yield f"    to keep it: {refused['remedy']}"


def _advice(one: Mapping[str, Any]) -> str:
    """How a table might lie better, and why."""
    held, size = (f"{one[name] / 2**20:,.0f}" for name in ("bytes_of_a_value", "bytes"))
    column, how = one["column"], "clustered_by" if one["is_target"] else "CLUSTER BY"
    return (
        f"  layout: {one['epochs']} of the last {one['of']} incremental epochs asked "
        f"{one['table']} for values of {column}, each of which may lie in {held} of {size} MB: "
        f"cluster it by {column} ({how})"
    )


def render_plan(plan: Mapping[str, Any], explained: Mapping[str, Any] | None = None) -> str:
    """A plan (`DeltaPlan.to_dict()`) as text: strategy, target, orders, lookup paths.

    Args:
        explained: `explain.explanation`: runner-up, sources of estimates, how operators are kept.
    """
    target = plan["target"]
    key = ", ".join(target["key"]) or "none: rows are counted"
    if explained and (because := explained["bag_because"]):
        key += f", as {because}"
    lines = [
        f"{plan['model']}  epoch {plan['epoch']}  {plan['strategy']}  "
        f"{plan['reason']}: {plan['detail']}",
        f"  target {target['place']} ({target['kind']}; key {key})",
        "  frontier " + _frontier(plan["frontier"]),
    ]
    if rebuild := plan.get("rebuild"):
        lines += _written(rebuild["written"], rebuild["because"])
    lines += [
        f"  key of {source}: {', '.join(columns)}"
        + (" (not checked: nothing rests on it)" if source in plan.get("unchecked", ()) else "")
        for source, columns in plan["keys"].items()
    ]
    lines += _operators(explained["operators"] if explained else ())
    if (full := plan["full_query"]) is not None:
        branches = [explained, *explained["further"]] if explained else []
        for order, branch in zip_longest([full, *full.get("further", ())], branches):
            lines += _full_query(order, branch and branch["full_query"])
        lines.append("  epoch order: " + ", ".join(plan["epoch_order"]))
    for derived in plan.get("derived") or ():
        lines += ["  " + line for line in derived_lines(derived)]
    lines += [f"  replanned: {note}" for note in plan.get("replanned", ())]
    for path, expected in zip_longest(plan["paths"], explained["paths"] if explained else ()):
        lines += ["  " + line for line in path_lines(path, expected)]
    lines += [_advice(one) for one in explained["layout"]] if explained else []
    lines += [f"  warning: {warning}" for warning in plan["warnings"]]
    lines.append(f"  plan {plan['plan_hash']}")
    return "\n".join(lines)
