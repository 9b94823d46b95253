"""What a task learns of a job that spark-submit ran: from its log, and from what the job left."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deltajoin.adapters.airflow.submit import failure, left_behind
from deltajoin.audit.verify import verify
from deltajoin.catalog import load_target
from deltajoin.contract import failure_folder
from deltajoin.errors import DeltaJoinError
from deltajoin.runtime.job import RESULT_PREFIX
from tests.secrets import PLANTED, found_in
from tests.unit.test_audit_chain import commit, record_of, state_of

ERROR = DeltaJoinError("KEY_VIOLATED", "a declared key is not unique", where="keys", remedy="Fix.")
SETTING = f"spark.hadoop.fs.azure.account.key.lake={PLANTED['environment']}"
ROW = PLANTED["value of a text"]
TRACE = f"""Traceback (most recent call last):
File "/tmp/deltajoin-x/job.py", line 9, in <module>
py4j.protocol.Py4JJavaError: An error occurred while calling o59.save.
: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing {ROW}
at org.apache.spark.sql.errors.QueryExecutionErrors$.taskFailed(Errors.scala:1)
Caused by: java.io.IOException: No space left for {ROW}"""


def told(*lines: str, code: int = 1) -> str:
    """The text of the Spark provider's exception (6.3.4)."""
    command = f"spark-submit --master local[2] --conf {SETTING} --name deltajoin m 1 /tmp/x/job.py"
    log = "\n".join(("WARNING: Using incubator modules", *lines))
    return f"Cannot execute: {command}. Error code is: {code}.\nLast spark-submit output:\n{log}"


def line(**result: Any) -> str:
    return RESULT_PREFIX + json.dumps(result)


def test_the_error_that_a_job_printed_is_found() -> None:
    found = failure(told(line(error=ERROR.to_dict()), str(ERROR)))
    assert found.to_dict() == ERROR.to_dict()


@pytest.mark.parametrize(
    "lines",
    [
        (line(record={"epoch": 7}, version=8, location="/lake/t"),),
        (line(error=ERROR.to_dict()).replace('unique",', "******"),),
        (line(error=ERROR.to_dict())[:-9],),
        (line(error={"kind": "none of ours"}),),
        (RESULT_PREFIX + "[]",),
        (),
    ],
    ids=["success", "masked", "cut", "other", "list", "none"],
)
def test_another_line_is_no_answer(lines: tuple[str, ...]) -> None:
    found = failure(told(*lines))
    assert (found.code, found.message) == (
        "SPARK_FAILED",
        "spark-submit failed. Error code is: 1",
    )


def test_the_root_is_told_without_settings_and_rows() -> None:
    text = told(f"(spark.hadoop.x,{PLANTED['environment']})", *TRACE.splitlines(), ROW, code=-1)
    assert found_in(text)
    found = failure(text)
    assert found.message == (
        "spark-submit failed. Error code is: -1. Py4JJavaError caused by IOException"
    )
    assert found_in(str(found)) == []
    thread = failure(told('Exception in thread "main" org.apache.spark.SparkException: ' + ROW))
    assert thread.message.endswith(". SparkException")
    assert failure("Invalid status: no driver id.").message == "Invalid status: no driver id."


def leave(target: Path, text: str, exists: bool) -> Path:
    """The file as a job leaves it."""
    file = Path(failure_folder(str(target), exists)) / "part-00000.txt"
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text(text)
    return file


@pytest.mark.parametrize("exists", [True, False])
def test_the_error_that_a_job_left_is_found_once(tmp_path: Path, exists: bool) -> None:
    target = tmp_path / "t"
    if exists:
        target.mkdir()
    plan: Any = SimpleNamespace(target=SimpleNamespace(location=str(target), exists=exists))
    assert left_behind(plan, "this") is None
    mine = {"submission": "this", "error": ERROR.to_dict()}
    for text in (
        json.dumps({**mine, "submission": "another"}),
        "{",
        "[]",
        '{"submission": "this"}',
    ):
        file = leave(target, text, exists)
        assert left_behind(plan, "this") is None
        assert file.read_text() == text
    leave(target, json.dumps(mine), exists)
    assert load_target(str(target)) is None
    assert target.exists() == exists
    found = left_behind(plan, "this")
    assert found is not None
    assert found.to_dict() == ERROR.to_dict()
    assert not file.exists()


def test_what_a_job_left_is_no_part_of_the_ledger(tmp_path: Path) -> None:
    target = tmp_path / "t"
    commit(target, record_of(target, 1))
    leave(target, json.dumps({"submission": "dead", "error": ERROR.to_dict()}), exists=True)
    codes = {finding.code for finding in verify(state_of(target))}
    assert codes == {"AUDIT_MISSING"}
