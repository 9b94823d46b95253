"""How each operator of a query is kept: by lookup paths, by scope, by branches, by groups, or not.

    inner join                 lookup paths: the change travels through the other tables
    left, semi, anti join      scope: the join keys that the change touches, both versions
    full join                  branches: the left join, and the right rows without a match
    UNION ALL                  branches: each SELECT with the joins around it
    GROUP BY, DISTINCT         the groups that the change touches; below a join, as a source
    anything else              rebuilt: code, message, place, what to change

Caller: gives a plan just made, which still knows what stood against keeping it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deltajoin.delta.plan import DeltaPlan
from deltajoin.graph import Block, Grouping, Join, JoinGraph

_KEPT = {
    "left": "by scope: rows of the join keys that a change touches are compared before and after",
    "semi": "by scope: rows of the join keys that a change touches are compared before and after",
    "anti": "by scope: rows of the join keys that a change touches are compared before and after",
    "full": "in branches: the left join, and rows of the right side without a match",
    "union": "in branches: each SELECT is kept by itself, with the joins around it",
}
_INNER = "by lookup paths: a change travels through the other tables"
_GROUPS = "by touched groups: groups that a change reaches are computed anew from their rows"

_DERIVED = "as a source: groups that a change reaches are computed before and after it"


def operators(planned: DeltaPlan) -> list[dict[str, Any]]:
    """Every operator with how it is kept, from the innermost; a refused one with its reason."""
    stop = planned.rebuilt_because
    refused = None
    if stop is not None:
        refused = {
            "code": stop.code,
            "message": stop.message,
            "where": stop.where,
            "remedy": stop.remedy,
        }
    if planned.graph is None:
        return (
            []
            if stop is None
            else [{"operator": "query", "over": stop.where, "kept": "rebuilt", "refused": refused}]
        )
    found = []
    for derived in planned.graph.all_derived:
        found += [{**one, "within": derived.name} for one in _operators(derived.graph, _DERIVED)]
    found += _operators(planned.graph, _GROUPS)
    for operator in found:
        if stop is not None and _is_at(operator, stop.where):
            operator |= {"kept": "rebuilt", "refused": refused}
            break
    else:
        if refused is not None:
            found.append(
                {
                    "operator": "query",
                    "over": stop.where if stop else "",
                    "kept": "rebuilt",
                    "refused": refused,
                }
            )
    return found


def _operators(graph: JoinGraph, groups: str) -> list[dict[str, Any]]:
    found = list(_block(graph.root))
    return [*found, _grouped(graph.grouping, groups)] if graph.grouping else found


def _is_at(operator: dict[str, Any], where: str) -> bool:
    """True for the join whose right side a reason names."""
    right = ", ".join(sorted(where.split(", ")))
    return bool(where) and str(operator["over"]).endswith(f" with {right}")


def _block(block: Block) -> Iterator[dict[str, Any]]:
    for item in block.items:
        if isinstance(item, Join):
            yield from _block(item.left)
            yield from _block(item.right)
            over = (
                f"{', '.join(item.left.relations)} with {', '.join(sorted(item.right.relations))}"
            )
            name = "UNION ALL" if item.kind == "union" else f"{item.kind} join"
            yield {"operator": name, "over": over, "kept": _KEPT[item.kind]}
    if len(block.items) > 1:
        over = ", ".join(block.relations)
        yield {"operator": "inner join", "over": over, "kept": _INNER}


def _grouped(grouping: Grouping, how: str) -> dict[str, Any]:
    keys = ", ".join(grouping.key_outputs) or "one group of all rows"
    return {"operator": "GROUP BY", "over": keys, "kept": how}
