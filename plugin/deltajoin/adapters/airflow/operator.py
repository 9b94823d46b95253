"""`DeltaJoinOperator`: one task keeps one target table equal to its join query.

A DAG file that uses it parses without Spark, deltalake or sqlglot: they load in `execute`. Nothing
that reaches Spark is a template field, so that no run conf, XCom or variable can become SQL, a path
or a Spark setting. Of the template fields, `frontier` holds only numbers of versions to compare and
pin; the others are outputs, set by `execute` for the "Rendered" tab.
A retry is safe: the epoch of a killed attempt is committed once, whichever attempt gets there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from deltajoin.errors import DeltaJoinError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from deltajoin.adapters.airflow.submit import InProcess, SparkSubmit
    from deltajoin.delta.frontier import Frontier
    from deltajoin.model import Model

RETRYABLE = frozenset(
    {
        "COMMIT_MISSING",
        "CONCURRENT_RUN",
        "SOURCE_FILES_MISSING",
        "SOURCE_UNREADABLE",
        "SPARK_FAILED",
        "SPARK_LOST",
        "TABLE_REPLACED",
    }
)
"""Codes that another attempt can heal; all others fail the task at once."""
SUBMISSIONS = ("in_process", "spark_connect", "spark_submit")
#: What a DAG gives of a model where it names no file of one.
_OPTIONS = (
    "sql",
    "sources",
    "target",
    "keys",
    "stamps",
    "partition_by",
    "clustered_by",
    "tblproperties",
    "mode",
    "model_name",
)


@contextmanager
def failing_once(log: logging.Logger) -> Iterator[None]:
    """Log our errors; fail the task for good unless another attempt can heal them."""
    from airflow.sdk.exceptions import AirflowFailException

    try:
        yield
    except DeltaJoinError as error:
        log.error("deltajoin %s: %s", error.code, error.message)
        log.error("where: %s", error.where or "-")
        log.error("remedy: %s", error.remedy or "-")
        if error.code in RETRYABLE:
            raise
        raise AirflowFailException(str(error)) from error


class DeltaJoinOperator(BaseOperator):
    """Bring `target` to equal `sql` over the sources as they are now, and attach the audit record.

    :param sql: the query, or a file that ends in `.sql` (relative to the DAG file).
    :param model: instead of sql, sources, target, keys: a `deltajoin.Model` or its `.yml` file.
    :param sources: table name as the SQL writes it -> Delta path or catalog name.
    :param target: Delta path of the target.
    :param keys: table name -> columns that are unique in it.
    :param stamps: output columns that are rendered anew at each run, as a literal of its start.
    :param partition_by: columns by which the target is partitioned.
    :param clustered_by: columns by which it is clustered (liquid clustering, made by OPTIMIZE).
    :param tblproperties: properties of the target's table.
    :param storage_options: how object stores are reached, by delta-rs's names (also of a `model`,
        over its own). A value `${NAME}` is a variable of the worker's environment.
    :param storage_conn_id: Airflow connection of type `aws` that gives keys, region and endpoint;
        `storage_options` go over it.
    :param mode: `auto`, `incremental`, `incremental_strict`, `full` or `shadow`.
    :param model_name: name of the epochs in the target; the last part of `target` by default.
    :param submit: `in_process` runs Spark in the task, `spark_connect` on a Spark Connect server;
        `spark_submit` plans in the task, without a JVM, and submits the generated job. A run
        without changes starts no Spark in any.
    :param conn_id: for `spark_submit`, the Spark connection, which alone names the master
        (`spark_default`); for `spark_connect`, that of the server (`spark_connect_default`).
    :param conf: Spark settings of the session or of the submitted job.
    :param submit_options: further arguments of `SparkSubmitHook`, such as `driver_memory`. With
        `deploy_mode="cluster"`, the workers of a standalone cluster must see the task's temporary
        folder.
    :param frontier: the versions of all sources: `.output` of a `DeltaJoinFrontierOperator`, or of
        the tasks that write sources of this one, or a list of these. By default the newest.
    :param keep_session: for `in_process`, leave a session that this task has started running.
    """

    template_fields: Sequence[str] = (
        "frontier",
        "audit_summary",
        "generated_sql",
        "generated_job",
    )
    template_fields_renderers = {"generated_sql": "sql", "generated_job": "python"}
    overwrite_rtif_after_execution = True
    ui_color = "#dbe9f6"

    def __init__(
        self,
        *,
        sql: str | Path | None = None,
        model: Model | str | Path | None = None,
        sources: Mapping[str, str] | None = None,
        target: str | None = None,
        keys: Mapping[str, Sequence[str]] | None = None,
        stamps: Sequence[str] | None = None,
        partition_by: Sequence[str] | None = None,
        clustered_by: Sequence[str] | None = None,
        tblproperties: Mapping[str, str] | None = None,
        storage_options: Mapping[str, str] | None = None,
        storage_conn_id: str | None = None,
        mode: str | None = None,
        model_name: str | None = None,
        submit: str = "in_process",
        conn_id: str | None = None,
        conf: Mapping[str, str] | None = None,
        submit_options: Mapping[str, Any] | None = None,
        frontier: Any = None,
        keep_session: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.model = model
        self.sql = sql
        self.sources = sources
        self.target = target
        self.keys = keys
        self.stamps = stamps
        self.partition_by = partition_by
        self.clustered_by = clustered_by
        self.tblproperties = tblproperties
        self.mode = mode
        self.model_name = model_name
        self.storage_options = storage_options
        self.storage_conn_id = storage_conn_id
        self.submit = submit
        self.conn_id = conn_id
        self.conf = conf
        self.submit_options = submit_options
        self.frontier = frontier
        self.keep_session = keep_session
        self.audit_summary = ""
        self.generated_sql = ""
        self.generated_job = ""
        self._submission: InProcess | SparkSubmit | None = None
        self._refuse_wrong_arguments()

    def execute(self, context: Context) -> dict[str, dict[str, Any]]:
        """Plan, run, attach the audit; what no retry can heal fails the task at once.

        Returns: the frontier of the run with what it left in the target, for `frontier` of the
        tasks that read it: folder -> version and table id.
        """
        from deltajoin.adapters.airflow.attach_audit import attach_audit
        from deltajoin.delta.frontier import Frontier

        with failing_once(self.log):
            at = Frontier() if self.frontier is None else Frontier.read(self.frontier)
            record = self._run(at)
        self.audit_summary = attach_audit(record, context, self.outlets, self.log)
        return at.to_dict()

    def on_kill(self) -> None:
        """End what the run has started."""
        if self._submission is not None:
            self._submission.kill()

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Sources, target and the audit summary, for the OpenLineage provider."""
        from deltajoin.adapters.airflow.lineage import operator_lineage

        return operator_lineage(self._model(), self.audit_summary)

    def _run(self, at: Frontier) -> Mapping[str, Any]:
        """Run the model with its storage options and the task's; `at` gets what it has left."""
        from deltajoin.adapters.airflow.connection import merged
        from deltajoin.adapters.airflow.submit import (
            InProcess,
            SparkConnect,
            SparkSubmit,
            show_plan,
        )
        from deltajoin.storage import storage

        model, conf = self._model(), dict(self.conf or {})
        given = merged(self.storage_conn_id, model.storage_options, self.storage_options)
        model = replace(model, storage_options=given)
        if self.submit == "spark_submit":
            conn_id, options = self.conn_id or "spark_default", dict(self.submit_options or {})
            self._submission = SparkSubmit(conn_id, conf, options)
        elif self.submit == "spark_connect":
            self._submission = SparkConnect(self.conn_id or "spark_connect_default", conf)
        else:
            self._submission = InProcess(conf, self.keep_session)
        with storage(given), self._submission as submission:
            plan = submission.plan(model, at)
            self.generated_sql, self.generated_job = show_plan(plan)
            record = submission.run(model, plan).to_dict()
            at.produced(record["location"], record["target_version"])
        return record

    def _model(self) -> Model:
        from deltajoin.model import Model, load_model

        if self.model is not None:
            if isinstance(self.model, Model):
                return self.model
            return load_model(self._beside_dag(self.model))
        fields = {name: value for name, value in self._given().items() if value}
        sql, target = str(self.sql), str(self.target)
        if isinstance(self.sql, Path) or sql.rstrip().endswith(".sql"):
            sql = self._beside_dag(sql.strip()).read_text(encoding="utf-8")
        name = fields.pop("model_name", target.rstrip("/").rsplit("/", 1)[-1])
        return Model(**{"sources": {}, **fields, "name": name, "sql": sql, "target": target})

    def _beside_dag(self, file: str | Path) -> Path:
        found = Path(self.dag.fileloc).parent / file if self.has_dag() else Path(file)
        if not found.is_file():
            raise DeltaJoinError(
                "FILE_MISSING",
                f"{file} is not a file",
                where=f"task {self.task_id}",
                remedy="Name it relative to the folder of the DAG file, or absolutely.",
            )
        return found

    def _given(self) -> dict[str, Any]:
        """The model's options that the DAG gives, by name."""
        values = ((name, getattr(self, name)) for name in _OPTIONS)
        return {name: value for name, value in values if value is not None}

    def _refuse_wrong_arguments(self) -> None:
        given = self._given()
        if self.model is not None:
            problem = [f"{name} beside model" for name in given]
        else:
            needed = ("sql", "sources", "target")
            problem = [f"no {name}" for name in needed if name not in given]
        if self.submit not in SUBMISSIONS:
            problem.append(f"submit={self.submit!r}")
        for name in ("sql", "target", "mode", "model_name"):
            if not isinstance(given.get(name, ""), str | Path):
                problem.append(f"{name} is not text")
        if problem:
            raise DeltaJoinError(
                "OPERATOR_ARGUMENTS",
                "; ".join(problem),
                where=f"task {self.task_id}",
                remedy="Give either model, or sql, sources and target; "
                f"submit is one of {', '.join(SUBMISSIONS)}.",
            )
