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

#: Module -> the public names that it holds.
_HOMES = {
    "deltajoin.api": ("explain", "plan", "read", "run"),
    "deltajoin.audit.record": ("AuditRecord",),
    "deltajoin.chain": ("RunSummary", "run_all"),
    "deltajoin.delta.frontier": ("Frontier",),
    "deltajoin.delta.plan": ("Plan",),
    "deltajoin.model": ("Model",),
}


def __getattr__(name: str) -> Any:
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'deltajoin' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), "DeltaPlan" if name == "Plan" else name)
    globals()[name] = value
    return value
