"""Mode shadow: an incremental run that is compared with a full recomputation before it writes.

`old target + what the MERGE will do` must equal the whole query over this epoch's versions, as
multisets. Values are compared exactly, NULL with NULL; columns of type double agree within 1e-9
and of type float within 1e-6, relative to the larger value, or absolute below 1. Floats inside
structs and arrays are compared exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from deltajoin.catalog import TargetState
from deltajoin.delta.plan import DeltaPlan, Shadow

TOLERANCES = {"double": 1e-9, "float": 1e-6}


def with_shadow(plan: DeltaPlan, target: TargetState | None) -> DeltaPlan:
    """The plan with its comparison, if its mode asks for one."""
    if plan.mode != "shadow" or plan.strategy != "incremental" or target is None:
        return plan
    return replace(plan, shadow=_shadow(plan, target))


def of_last_epoch(plan: DeltaPlan, target: TargetState, record: Mapping[str, Any]) -> DeltaPlan:
    """A plan that found no work, with the comparison of what the target holds.

    Args:
        record: of the last epoch, which knows columns that only Spark could find out.
    """
    stamps = {stamp.name for stamp in plan.target.stamps}
    holds = replace(
        plan.target,
        kind=str(record["kind"]),
        columns=tuple(name for name in record["columns"] if name not in stamps),
        key=tuple(record["key"]),
        hidden=tuple(record.get("hidden") or ()),
    )
    plan = replace(plan, target=holds)
    return replace(plan, shadow=_shadow(plan, target))


def _shadow(plan: DeltaPlan, target: TargetState) -> Shadow:
    floats = tuple(
        (column.name, TOLERANCES[column.type])
        for column in target.columns
        if column.type in TOLERANCES and column.name in plan.target.columns
    )
    return Shadow(floats)
