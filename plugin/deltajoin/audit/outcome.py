"""What became of a model in a run, in one line: kept, rebuilt because of what, or nothing to do.

It is the line that dbt and Airflow show of each model; a rebuild says its code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def outcome(record: Mapping[str, Any]) -> str:
    """The line of an audit record (`AuditRecord.to_dict()`), without the reason's text.

    Example:
        >>> rows = {"inserted": 1200, "updated": 3, "deleted": 1}
        >>> record = {"strategy": "incremental", "epoch": 7, "reason": "CHANGES", "rows": rows}
        >>> outcome(record)
        'kept, epoch 7: +1,200 ~3 -1 rows'
        >>> outcome(record | {"strategy": "full", "reason": "FEED_GAP", "rows": {"inserted": 5}})
        'rebuilt because FEED_GAP, epoch 7: 5 rows'
        >>> outcome(record | {"strategy": "noop", "reason": "NO_CHANGE", "rows": {}})
        'nothing to do, epoch 7'
    """
    strategy, epoch = record.get("strategy"), record.get("epoch")
    if strategy == "noop":
        return f"nothing to do, epoch {epoch}"
    if strategy == "full" and record.get("reason") != "FIRST_RUN":
        what = f"rebuilt because {record.get('reason')}"
    else:
        what = "built" if strategy == "full" else "kept"
    rows = record.get("rows") or {}
    kinds = ("inserted", "updated", "deleted")
    inserted, updated, deleted = (int(rows.get(kind) or 0) for kind in kinds)
    counts = f"+{inserted:,} ~{updated:,} -{deleted:,}"
    if strategy == "full" and not updated and not deleted:
        counts = f"{inserted:,}"
    return f"{what}, epoch {epoch}: {counts} rows"


def outcome_lines(record: Mapping[str, Any]) -> tuple[str, ...]:
    """The line with the text of a rebuild's reason, and one line for each warning.

    Example:
        >>> record = {"strategy": "full", "epoch": 2, "reason": "LIMIT", "rows": {"inserted": 5}}
        >>> outcome_lines(record | {"detail": "LIMIT is not kept", "warnings": ["slow"]})
        ('rebuilt because LIMIT, epoch 2: 5 rows; LIMIT is not kept', 'warning: slow')
    """
    line, rebuilt = outcome(record), record.get("strategy") == "full"
    if rebuilt and record.get("reason") != "FIRST_RUN" and record.get("detail"):
        line += f"; {record['detail']}"
    return (line, *(f"warning: {warning}" for warning in record.get("warnings") or ()))
