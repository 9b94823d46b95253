"""What a run leaves in dbt's artifacts: the adapter response that carries the audit record.

dbt writes the response of the statement `main` to `run_results.json` under `adapter_response` and
prints its message at the end of the model's line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dbt.adapters.contracts.connection import AdapterResponse

from deltajoin.audit.outcome import outcome


@dataclass
class DeltaJoinResponse(AdapterResponse):
    """A response with the audit record of the run (`AuditRecord.to_dict()`) as `deltajoin`."""

    deltajoin: dict[str, Any] = field(default_factory=dict)


def respond(audit: Mapping[str, Any]) -> DeltaJoinResponse:
    """The response for one audit record.

    Example:
        >>> rows = {"inserted": 12, "updated": 3, "deleted": 1}
        >>> record = {"strategy": "incremental", "epoch": 7, "reason": "CHANGES", "rows": rows}
        >>> str(respond(record)), respond(record).rows_affected
        ('OK kept, epoch 7: +12 ~3 -1 rows', 16)
    """
    return DeltaJoinResponse(
        _message=f"OK {outcome(audit)}",
        code=str(audit.get("strategy")).upper(),
        rows_affected=sum(int(count or 0) for count in (audit.get("rows") or {}).values()),
        deltajoin=dict(audit),
    )
