"""`DeltaJoinFrontierOperator`: freeze the versions of the base tables once for a DAG run.

Its output goes to `frontier` of every `DeltaJoinOperator` that reads them; one that reads a target
of this DAG takes over the output of the task that writes it, which holds both.

    freeze = DeltaJoinFrontierOperator(task_id="freeze", sources=[orders, customers, rates])
    named = DeltaJoinOperator(task_id="named", frontier=freeze.output, ...)
    dear = DeltaJoinOperator(task_id="dear", frontier=freeze.output, ...)
    both = DeltaJoinOperator(task_id="both", frontier=[named.output, dear.output], ...)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from deltajoin.adapters.airflow.connection import merged
from deltajoin.adapters.airflow.operator import failing_once
from deltajoin.errors import DeltaJoinError

if TYPE_CHECKING:
    from airflow.sdk import Context


class DeltaJoinFrontierOperator(BaseOperator):
    """Read the newest version of each table from its Delta log, without Spark.

    :param sources: Delta paths; a table of a catalog by its folder.
    :param storage_options: as for `DeltaJoinOperator`.
    :param storage_conn_id: as for `DeltaJoinOperator`.
    """

    ui_color = "#dbe9f6"

    def __init__(
        self,
        *,
        sources: Sequence[str],
        storage_options: Mapping[str, str] | None = None,
        storage_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.sources = sources
        self.storage_options = storage_options
        self.storage_conn_id = storage_conn_id
        if isinstance(sources, str) or not all(isinstance(place, str) for place in sources):
            raise DeltaJoinError(
                "OPERATOR_ARGUMENTS",
                "sources is not a list of paths",
                where=f"task {self.task_id}",
                remedy="Give the paths of the tables that no task of this DAG joins.",
            )

    def execute(self, context: Context) -> dict[str, dict[str, Any]]:
        """Freeze; returns folder -> version and table id."""
        from deltajoin.delta.frontier import Frontier
        from deltajoin.model import is_path
        from deltajoin.places import not_located
        from deltajoin.storage import storage

        frontier = Frontier()
        given = merged(self.storage_conn_id, self.storage_options)
        with failing_once(self.log), storage(given):
            for place in self.sources:
                if not is_path(place):
                    raise not_located(place, f"task {self.task_id}", "Give the table's folder.")
                frontier.table(place, place)
        return frontier.to_dict()
