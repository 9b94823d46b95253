"""deltajoin: multi-table joins as incremental Delta Lake tables that stay equal to their query.

The public names load lazily: `import deltajoin` costs nothing in a DAG file or on a cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltajoin.errors import DeltaJoinError

if TYPE_CHECKING:
    from deltajoin.api import explain, plan, read, run
    from deltajoin.audit.record import AuditRecord
    from deltajoin.chain import RunSummary, run_all
    from deltajoin.delta.frontier import Frontier
    from deltajoin.delta.plan import DeltaPlan as Plan
    from deltajoin.model import Model

__version__ = "0.1.0"
__all__ = [
    "AuditRecord",
    "DeltaJoinError",
    "Frontier",
    "Model",
    "Plan",
    "RunSummary",
    "explain",
    "plan",
    "read",
    "run",
    "run_all",
]

_HOME = {
    "AuditRecord": ("deltajoin.audit.record", "AuditRecord"),
    "Frontier": ("deltajoin.delta.frontier", "Frontier"),
    "Model": ("deltajoin.model", "Model"),
    "Plan": ("deltajoin.delta.plan", "DeltaPlan"),
    "RunSummary": ("deltajoin.chain", "RunSummary"),
    "explain": ("deltajoin.api", "explain"),
    "plan": ("deltajoin.api", "plan"),
    "read": ("deltajoin.api", "read"),
    "run": ("deltajoin.api", "run"),
    "run_all": ("deltajoin.chain", "run_all"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'deltajoin' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _HOME[name]
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value
