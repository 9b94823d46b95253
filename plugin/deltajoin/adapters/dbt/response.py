"""What a run leaves in dbt's artifacts: the adapter response that carries the audit record.

dbt writes the response of the statement `main` to `run_results.json` under `adapter_response` and
prints its message at the end of the model's line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dbt.adapters.contracts.connection import AdapterResponse


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
        ('OK incremental epoch 7 (+12 ~3 -1)', 16)
        >>> str(respond({"strategy": "noop", "epoch": 7, "reason": "NO_CHANGE", "rows": {}}))
        'OK noop epoch 7 (+0 ~0 -0)'
        >>> record["strategy"], record["reason"] = "full", "FEED_GAP"
        >>> str(respond(record))
        'OK full epoch 7 (+12 ~3 -1) FEED_GAP'
    """
    rows = audit.get("rows") or {}
    inserted, updated, deleted = (
        int(rows.get(kind) or 0) for kind in ("inserted", "updated", "deleted")
    )
    strategy = str(audit.get("strategy"))
    message = f"OK {strategy} epoch {audit.get('epoch')} (+{inserted} ~{updated} -{deleted})"
    if strategy == "full":
        message += f" {audit.get('reason')}"
    return DeltaJoinResponse(
        _message=message,
        code=strategy.upper(),
        rows_affected=inserted + updated + deleted,
        deltajoin=dict(audit),
    )
