"""Hang one run's audit record on its task, wherever Airflow shows or passes on such things.

XCom `deltajoin_audit` has the whole record. The log has one group per lookup path, a summary, and
what became of the model in one line; the events of the outlet assets and, from Airflow 3.3, the
task state store have the summary. All of these are copies: the record itself lies beside the
target, the epoch in the target's own commit.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltajoin.audit.outcome import outcome_lines
from deltajoin.audit.render import derived_lines, path_lines, render_text

if TYPE_CHECKING:
    from airflow.sdk import Context

XCOM_KEY = "deltajoin_audit"
STATE_KEY = "deltajoin.audit"
_IN_SUMMARY = (
    "model",
    "target",
    "strategy",
    "reason",
    "epoch",
    "rows",
    "seconds",
    "phases",
    "target_version",
    "plan_hash",
    "frontier",
)
#: What the summary tells of a source; types of columns are in the record.
_OF_SOURCE = ("location", "id", "version", "previous")


def attach_audit(
    record: Mapping[str, Any], context: Context, outlets: Sequence[Any], log: logging.Logger
) -> str:
    """Attach the record (as plain values); gives the one-paragraph summary."""
    groups = [(f"derived source {d['source']}", derived_lines(d)) for d in record["derived"]]
    groups += [(f"lookup path {path['text']}", path_lines(path)) for path in record["paths"]]
    for head, lines in groups:
        log.info("::group::%s", head)
        for line in lines:
            log.info("%s", line)
        log.info("::endgroup::")
    text = f"deltajoin {render_text({**record, 'paths': (), 'derived': ()})}"
    for line in text.splitlines():
        log.info("%s", line)
    log.info("deltajoin %s: %s", record["model"], outcome_lines(record)[0])
    summary = summarise(record)
    first = {key: record[key] for key in _IN_SUMMARY}
    context["ti"].xcom_push(key=XCOM_KEY, value={**first, **record})
    for outlet in outlets:
        context["outlet_events"][outlet].extra["deltajoin"] = summary
    store: Any = context.get("task_state_store")
    if store is not None:
        store.set(STATE_KEY, summary)
    return text


def summarise(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record without the steps of its paths: small enough for an asset event."""
    summary = {key: record[key] for key in _IN_SUMMARY}
    summary["frontier"] = {
        source: {key: at[key] for key in _OF_SOURCE} for source, at in record["frontier"].items()
    }
    summary["paths"] = [path["text"] for path in record["paths"]]
    return summary
