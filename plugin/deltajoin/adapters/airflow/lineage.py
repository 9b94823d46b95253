"""What OpenLineage is told of a run: the tables read, the target, the audit summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.providers.openlineage.extractors import OperatorLineage
from attrs import define
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import RunFacet

if TYPE_CHECKING:
    from deltajoin.model import Model


@define
class DeltaJoinRunFacet(RunFacet):
    """The summary of the audit record, as the task's log shows it."""

    audit: str = ""


def operator_lineage(model: Model, audit: str) -> Any:
    """Datasets are named as OpenLineage names files: by scheme and path."""
    return OperatorLineage(
        inputs=[InputDataset(*_name(place)) for place in sorted(set(model.sources.values()))],
        outputs=[OutputDataset(*_name(model.target))],
        run_facets={"deltajoin": DeltaJoinRunFacet(audit=audit)},
    )


def _name(location: str) -> tuple[str, str]:
    parts = urlsplit(location)
    if parts.scheme in ("", "file"):
        return "file", parts.path
    return f"{parts.scheme}://{parts.netloc}", parts.path.lstrip("/") or "/"
