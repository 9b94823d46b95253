"""The ways in which a task runs a plan: Spark in the task or on a Spark Connect server, or
spark-submit of the job.

All plan without a JVM and start Spark only for a plan that has work. A submission is a context:
leaving it gives back what it has opened.
"""

from __future__ import annotations

import json
import re
import shutil
import uuid
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

from deltajoin import api
from deltajoin.catalog import open_files
from deltajoin.contract import SUBMISSION, failure_folder
from deltajoin.errors import DeltaJoinError
from deltajoin.runtime.failures import is_lost, root_cause
from deltajoin.runtime.job import RESULT_PREFIX

if TYPE_CHECKING:
    from airflow.sdk import Connection
    from pyspark.sql import SparkSession

    from deltajoin import AuditRecord, Frontier, Model, Plan

#: What spark-submit itself runs a Python driver with.
PYTHON_RUNNER = "org.apache.spark.deploy.PythonRunner"
#: Settings that the provider's hook looks at, and so gets as an argument too.
_OF_THE_HOOK = (
    "spark.kubernetes.namespace",
    "spark.kubernetes.submission.waitAppCompletion",
    "spark.yarn.submit.waitAppCompletion",
)
_STATUS = re.compile(r"(?:Error|Kubernetes spark exit) code is: -?\w+")


class InProcess:
    """Spark in the task's own process: the session that is there, else one on this machine."""

    def __init__(self, conf: Mapping[str, str], keep_session: bool) -> None:
        self._conf = conf
        self._keep_session = keep_session
        self._started: SparkSession | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        if not self._keep_session and not is_lost(error):
            self.kill()

    def plan(self, model: Model, at: Frontier | None) -> Plan:
        """Plan; only tables that are catalog names need a session for that."""
        from deltajoin.runtime.target import locate

        return api.plan(model, locate=lambda name: locate(self._session(), name), at=at)

    def run(self, model: Model, plan: Plan) -> AuditRecord:
        """Execute the plan; a session starts when the plan asks for one."""
        return api.run(model, self._session, plan=plan)

    def kill(self) -> None:
        """Stop the session that this run has started."""
        if self._started is not None:
            self._started.stop()
            self._started = None

    def _session(self) -> SparkSession:
        from pyspark.sql import SparkSession

        from deltajoin.runtime.session import local_session

        running = SparkSession.getActiveSession()
        if running is not None:
            return running
        self._started = local_session(f"deltajoin {id(self)}", conf=self._conf)
        return self._started


class SparkConnect(InProcess):
    """Spark on a Connect server, which the Airflow connection names; the run is the task's."""

    def __init__(self, conn_id: str, conf: Mapping[str, str]) -> None:
        super().__init__(conf, keep_session=False)
        self._conn_id = conn_id

    def _session(self) -> SparkSession:
        from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook

        from deltajoin.runtime.session import remote_session

        if self._started is None:
            url = SparkConnectHook(self._conn_id).get_connection_url()
            self._started = remote_session(url, self._conf)
        return self._started


class SparkSubmit:
    """spark-submit of the generated job; the master comes from the Airflow connection alone."""

    def __init__(self, conn_id: str, conf: Mapping[str, str], options: Mapping[str, Any]) -> None:
        self._conn_id = conn_id
        self._conf = conf
        self._options = options
        self._hook: Any = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def plan(self, model: Model, at: Frontier | None) -> Plan:
        """Plan; a catalog name can't be looked up here, where there is no Spark."""
        return api.plan(model, at=at)

    def run(self, model: Model, plan: Plan) -> AuditRecord:
        """Run the plan, or the rebuild that takes the place of an incremental run which failed."""
        if plan.strategy == "noop":
            return api.run(model, _no_session, plan=plan)
        try:
            return self._submit(model, plan)
        except DeltaJoinError as error:
            return self._submit(model, api.plan_instead(model, plan, error))

    def _submit(self, model: Model, plan: Plan) -> AuditRecord:
        """Freeze the plan, submit its job, and read the audit from the target's commit.

        Settings go by a file: a command line is shown by `ps`, and the hook logs it.
        """
        from airflow.exceptions import AirflowException
        from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
        from airflow.sdk import BaseHook

        from deltajoin.emit.job import write_job, write_private

        # The hook would take a missing one for YARN.
        connection = BaseHook.get_connection(self._conn_id)
        plan = api.freeze(plan)
        folder = Path(self._open.enter_context(TemporaryDirectory(prefix="deltajoin-")))
        files = write_job(plan, folder)
        options = {"name": f"deltajoin {model.name} {plan.epoch}", **self._options}
        words, package = [str(files.job)], str(files.py_files)
        if self._drives_on_a_worker(connection):
            options["java_class"] = PYTHON_RUNNER
            words = [str(shutil.copy(package, folder / "deltajoin.jar")), *words, package]
        else:
            options["py_files"] = package
        submission, given = uuid.uuid4().hex, options.get("properties_file")
        settings = {**self._settings(), SUBMISSION: submission}
        text = properties(settings)
        if given:
            text = f"{Path(given).read_text(encoding='utf-8')}\n\n{text}"
        else:  # an option that the hook doesn't know goes before the job
            words = ["--load-spark-defaults", *words]
        options["properties_file"] = str(folder / "spark.properties")
        write_private(folder / "spark.properties", text)
        options["application_args"] = [*words[1:], *(options.get("application_args") or ())]
        conf = {name: settings[name] for name in _OF_THE_HOOK if name in settings}
        self._hook = SparkSubmitHook(conn_id=self._conn_id, conf=conf, **options)
        printed = None
        try:
            self._hook.submit(words[0])
        except AirflowException as error:
            printed = failure(str(error))
        # A standalone cluster's spark-submit ends with 0 whatever became of the driver.
        failed = left_behind(plan, submission) or printed
        if failed is None or failed.code in ("SPARK_FAILED", "SPARK_LOST"):
            try:  # the answer may be lost, and the epoch be committed
                return api.finish(plan)
            except DeltaJoinError as missing:
                failed = failed or missing
        raise failed

    def kill(self) -> None:
        """Kill spark-submit and the driver that it has started."""
        if self._hook is not None:
            self._hook.on_kill()

    def _drives_on_a_worker(self, connection: Connection) -> bool:
        """True for cluster mode on a standalone cluster, for which Spark takes no Python file, but
        the class that runs one; the workers must see this machine's temporary folder."""
        extra = connection.extra_dejson.get("deploy-mode")
        host = connection.host or ""
        whole = "://" in host or not connection.port
        master = host if whole else f"{connection.conn_type}://"
        mode = self._options.get("deploy_mode") or extra
        return mode == "cluster" and master.startswith("spark://")

    def _settings(self) -> dict[str, str]:
        from deltajoin.runtime.session import submit_conf

        ours = submit_conf()
        if {"spark.jars", "spark.jars.packages"} & set(self._conf) or {
            "jars",
            "packages",
        } & set(self._options):
            ours.pop("spark.jars", None)
            ours.pop("spark.jars.packages", None)
        # Without it, spark-submit to a standalone cluster returns before the job has run.
        return {"spark.standalone.submit.waitAppCompletion": "true", **ours, **self._conf}


def _no_session() -> SparkSession:
    raise AssertionError("a plan without work has asked for a Spark session")


def properties(settings: Mapping[str, str]) -> str:
    """Settings as a file of Java's properties.

    Example:
        >>> print(properties({"spark.app.name": "a=b\\n c"}), end="")
        spark.app.name=a\\=b\\n\\ c
    """

    def escaped(text: str) -> str:
        quoted = re.sub(r"[\\ \t\f=:#!]", r"\\\g<0>", text)
        return quoted.replace("\n", "\\n").replace("\r", "\\r")

    return "".join(f"{escaped(name)}={escaped(str(v))}\n" for name, v in settings.items())


def left_behind(plan: Plan, submission: str) -> DeltaJoinError | None:
    """The error that the job of this submission has left beside its target; it goes."""
    if plan.target.location is None:
        return None
    with suppress(Exception):  # no reason to hide what the log says
        files = open_files(failure_folder(plan.target.location, plan.target.exists))
        names = files.list("")
        told = json.loads("".join(files.read_text(n) or "" for n in names if n[0] != "_"))
        if told.get("submission") == submission:
            error = DeltaJoinError(**told["error"])
            with suppress(DeltaJoinError, OSError):
                for name in names:
                    files.remove(name)
            return error
    return None


def failure(text: str) -> DeltaJoinError:
    """The error that the job printed, if its line is in the text; else that Spark failed. Of the
    text, the command and Spark's log are not told: settings and rows may be in them."""
    for line in text.splitlines():
        with suppress(ValueError, KeyError, TypeError):  # the line of a success, or not whole
            return DeltaJoinError(**json.loads(line.partition(RESULT_PREFIX)[2])["error"])
    said, _, log = text.partition("\nLast spark-submit output:\n")
    if "Cannot execute" in said:
        said = ". ".join(["spark-submit failed", *_STATUS.findall(said)])
    return DeltaJoinError(
        "SPARK_FAILED",
        ". ".join(filter(None, (said, root_cause(log)))),
        remedy="Read what spark-submit logged above; another attempt is safe.",
    )


def show_plan(plan: Plan) -> tuple[str, str]:
    """The statements of the plan, and its job, as text; empty for a plan without work."""
    from deltajoin.emit.job import job_source
    from deltajoin.emit.sql import build_program

    if plan.strategy == "noop":
        return "", ""
    texts = (f"-- {name}\n{sql};" for name, sql in build_program(plan).texts())
    return "\n\n".join(texts), job_source(plan)
