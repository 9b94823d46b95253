"""Mode shadow: an incremental run that is compared with a full recomputation before it writes.

Rule: `old target + what the MERGE will do` must equal the whole query over this epoch's versions,
as multisets. Values are compared exactly, NULL with NULL; columns of type double agree within 1e-9
and of type float within 1e-6, relative to the larger value, or absolute below 1. Floats inside
structs and arrays are compared exactly. A run that is full anyway has nothing to compare.
"""

from __future__ import annotations

from dataclasses import replace

from deltajoin.catalog import TargetState
from deltajoin.delta.plan import DeltaPlan, Shadow

TOLERANCES = {"double": 1e-9, "float": 1e-6}


def with_shadow(plan: DeltaPlan, target: TargetState | None) -> DeltaPlan:
    """The plan with its comparison, if its mode asks for one."""
    if plan.mode != "shadow" or plan.strategy != "incremental" or target is None:
        return plan
    floats = tuple(
        (column.name, TOLERANCES[column.type])
        for column in target.columns
        if column.type in TOLERANCES and column.name in plan.target.columns
    )
    return replace(plan, shadow=Shadow(floats))
