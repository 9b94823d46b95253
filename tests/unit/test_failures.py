"""What people are told of Spark's failures: the kind, the file, the root; never a row's value."""

from __future__ import annotations

import logging
from functools import partial

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException

from deltajoin.errors import DeltaJoinError
from deltajoin.runtime.failures import explained, is_lost, translate, undoing
from deltajoin.sql import scalars

JAVA = """An error occurred while calling o61.collectToPython.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file \
file:/lake/orders/part-00000-49833265.c000.snappy.parquet.  SQLSTATE: KD001
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(Errors.scala:1)
Caused by: java.io.IOException: can not read class PageHeader: 'secret'
\tat org.apache.parquet.format.Util.read(Util.java:455)
Caused by: org.apache.thrift.TProtocolException: Required field was not found
\tat org.apache.parquet.format.PageHeader.validate(PageHeader.java:1)
"""
CAST = "[CAST_INVALID_INPUT] The value 'it's secret' of the type \"STRING\" cannot be cast."
FOUND = {
    JAVA: "SparkException [FAILED_READ_FILE.NO_HINT] in "
    "file:/lake/orders/part-00000-49833265.c000.snappy.parquet caused by TProtocolException",
    "An error occurred while calling o1.sql.\n: java.lang.OutOfMemoryError": "OutOfMemoryError",
    "An error occurred while calling o1.sql.": "An error occurred while calling o1.sql.",
    CAST: "[CAST_INVALID_INPUT] The value '...' of the type \"STRING\" cannot be cast.",
    "[X] The value 12345L of the type": "[X] The value ... of the type",
    "[DIVIDE_BY_ZERO] Division by zero.\n== SQL ==": "[DIVIDE_BY_ZERO] Division by zero.",
}


@pytest.mark.parametrize("text", FOUND, ids=range(len(FOUND)))
def test_the_root_is_named_without_values(text: str) -> None:
    error = translate(RuntimeError(text), "query of m")
    assert (error.code, error.where) == ("SPARK_FAILED", "query of m")
    assert error.message == FOUND[text]


class Unreachable(RuntimeError):
    """An error of Java whose text is asked of a process that has ended."""

    def __str__(self) -> str:
        raise ConnectionRefusedError(111, "Connection refused")


LOST = (
    Unreachable(),
    ConnectionRefusedError(111, "Connection refused"),
    RuntimeError("Answer from Java side is empty"),
    RuntimeError("<_InactiveRpcError: status = StatusCode.UNAVAILABLE>"),
    RuntimeError("[RETRIES_EXCEEDED] The maximum number of retries has been exceeded."),
    RuntimeError("org.apache.spark.api.python.PythonUtils.toSeq does not exist in the JVM"),
    RuntimeError("[INVALID_HANDLE.SESSION_NOT_FOUND] The handle is invalid."),
    Py4JError("An error occurred while calling o97.write"),
    Py4JError("An error occurred while calling z:org.apache.spark.sql.Encoders.bean"),
)


@pytest.mark.parametrize("error", LOST)
def test_a_process_that_has_ended_is_told(error: Exception) -> None:
    found = translate(error, "lookup paths")
    assert (found.code, found.where) == ("SPARK_LOST", "lookup paths")
    assert is_lost(found)


def test_what_spark_raises_is_explained_wherever_it_is_asked() -> None:
    """What others raise within a run is theirs."""
    whole = partial(explained, "run of m", of_spark_alone=True)
    with pytest.raises(DeltaJoinError, match="SPARK_LOST"), whole():
        raise Py4JError("An error occurred while calling o97.write")
    with pytest.raises(DeltaJoinError, match="SPARK_ANALYSIS"), whole():
        raise AnalysisException("no such column")
    with pytest.raises(ZeroDivisionError), whole():
        raise ZeroDivisionError


def test_questions_without_an_answer_are_not_logged() -> None:
    """Py4J logs them by the root logger, also in a thread of its own."""
    with explained("a step"):
        pass
    messages = "Exception while sending command.", "Another message."
    records = [logging.makeLogRecord({"msg": message}) for message in messages]
    assert [bool(logging.getLogger().filter(record)) for record in records] == [False, True]


def test_what_is_undone_hides_no_failure() -> None:
    """Nor is anything undone where Spark is lost."""
    undone = []

    def undo() -> None:
        undone.append(1)
        raise ConnectionRefusedError

    for code, times in (("SPARK_FAILED", 1), ("SPARK_LOST", 1)):
        with pytest.raises(DeltaJoinError, match=code), undoing(undo):
            raise DeltaJoinError(code, "x")
        assert len(undone) == times
    with pytest.raises(ConnectionRefusedError), undoing(undo):
        pass


class Told(RuntimeError):
    """An error as Spark raises it: a text, and the parameters that were put into it."""

    def __init__(self, text: str, **parameters: str) -> None:
        super().__init__(text)
        self.parameters = parameters

    def getMessageParameters(self) -> dict[str, str]:  # noqa: N802
        return self.parameters


class Failed(Told):
    """An error as Spark raises it, with its SQLSTATE."""

    def __init__(
        self, state: str | None, text: str = "[SOME_CONDITION] It failed.", **parameters: str
    ) -> None:
        super().__init__(text, **parameters)
        self.state = state

    def getSqlState(self) -> str | None:  # noqa: N802
        return self.state


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("22012", "EVALUATION_FAILED"),
        ("P0001", "EVALUATION_FAILED"),
        ("39000", "EVALUATION_FAILED"),
        ("42K0E", "SPARK_FAILED"),
        ("XX000", "SPARK_FAILED"),
        (None, "SPARK_FAILED"),
    ],
)
def test_an_expression_that_fails_has_its_own_code(state: str | None, code: str) -> None:
    assert translate(Failed(state), "lookup paths").code == code


LONG = "first line of a secret\n" + 400 * "x"
MORE = scalars._MORE
PARAMETERS = {
    f"[USER_RAISED_EXCEPTION] {MORE} SQLSTATE: P0001": Told(
        f"[USER_RAISED_EXCEPTION] {MORE} SQLSTATE: P0001", errorMessage=MORE
    ),
    "[DUPLICATED_MAP_KEY] Duplicate map key ... was found.": Told(
        "[DUPLICATED_MAP_KEY] Duplicate map key a b was found.",
        key="a b",
        mapKeyDedupPolicy='"spark.sql.mapKeyDedupPolicy"',
    ),
    "[USER_RAISED_EXCEPTION] ... SQLSTATE: P0001": Told(
        f"[USER_RAISED_EXCEPTION] {LONG} SQLSTATE: P0001", errorMessage=LONG
    ),
    "[BINARY_ARITHMETIC_OVERFLOW] ... + ... caused overflow. Use `try_add`.": Told(
        "[BINARY_ARITHMETIC_OVERFLOW] 127S + 7S caused overflow. Use `try_add`.",
        value1="127S",
        symbol="+",
        value2="7S",
        functionName="`try_add`",
    ),
    '[INVALID_FORMAT] The input "STRING" ... does not match.': Told(
        '[INVALID_FORMAT] The input "STRING" E does not match.', inputType='"STRING"', input="E"
    ),
}


@pytest.mark.parametrize("told", PARAMETERS, ids=range(len(PARAMETERS)))
def test_what_spark_put_into_a_message_is_left_out(told: str) -> None:
    assert translate(PARAMETERS[told], "query of m").message == told


def test_names_of_an_analysis_stay() -> None:
    error = translate(RuntimeError("AnalysisException: no column 'a' of the value b"), "m")
    assert error.code == "SPARK_ANALYSIS"
    assert "'a'" in error.message


GONE = "this page does not exist"
DIVISION = (
    "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor being 0 and return "
    "NULL instead. SQLSTATE: 22012"
)
CONTEXT = "\n== SQL (line 1, position 48) ==\n...n s <> '{}' then 10/z end from a\n         ^^^^\n"
INVALID = (
    '[CAST_INVALID_INPUT] The value \'{}\' of the type "STRING" cannot be cast to "INT" because it '
    "is malformed. SQLSTATE: 22018"
)
WRITE = """An error occurred while calling o56.sql.
: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows to file:/t. \
SQLSTATE: 58030
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.taskFailedWhileWritingRowsError(Q.scala:843)
Caused by: org.apache.spark.{}
\tat org.apache.spark.sql.execution.UnsafeExternalRowSorter.sort(UnsafeExternalRowSorter.java:219)
\t... 1 more
"""
MISSING = """An error occurred while calling o465.collectToPython.
: org.apache.spark.SparkException: [FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while \
reading file file:/t/a.parquet. File does not exist. It is possible the underlying files have been \
updated.
You can explicitly invalidate the cache. SQLSTATE: KD001
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.fileNotExistError(Q.scala:902)
Caused by: java.io.FileNotFoundException: File file:/t/a.parquet does not exist
\t... 1 more
"""
GAP = """An error occurred while calling o545.load.
: org.apache.spark.sql.delta.DeltaIllegalStateException: [DELTA_VERSIONS_NOT_CONTIGUOUS] Versions \
(0, 2) are not contiguous. 
A gap in the delta log between versions 0 and 2 was detected while trying to load version -1.
\tat org.apache.spark.sql.delta.DeltaErrorsBase.deltaVersionsNotContiguousException(D.scala:1370)
"""  # noqa: W291 - so Delta says it


def raised(message: str) -> Failed:
    text = f"[USER_RAISED_EXCEPTION] {message} SQLSTATE: P0001"
    return Failed("P0001", text, errorMessage=message)


def analysis(text: str, **parameters: str) -> Exception:
    """The error of a statement that Spark could not analyse."""
    kind = type("AnalysisException", (Failed,), {})
    error: Exception = kind("42000", text, **parameters)
    return error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Failed("22018", INVALID.format(GONE), expression=f"'{GONE}'"), "EVALUATION_FAILED"),
        (Failed("22012", DIVISION + CONTEXT.format(GONE)), "EVALUATION_FAILED"),
        (raised("customer does not exist"), "EVALUATION_FAILED"),
        (raised("it says deltajoin:TARGET_DRIFT"), "EVALUATION_FAILED"),
        (raised("deltajoin:NO_SUCH_CODE"), "EVALUATION_FAILED"),
        (
            Failed("22018", INVALID.format("[USER_RAISED_EXCEPTION] deltajoin:TARGET_DRIFT")),
            "EVALUATION_FAILED",
        ),
        (Failed("22012", DIVISION + CONTEXT.format("deltajoin:KEY_VIOLATED")), "EVALUATION_FAILED"),
        (
            RuntimeError(WRITE.format("SparkNumberFormatException: " + INVALID.format(GONE))),
            "EVALUATION_FAILED",
        ),
        (
            analysis(f"[UNRESOLVED_COLUMN] No `b`. SQLSTATE: 42703; 'Filter (s = File {GONE})"),
            "SPARK_ANALYSIS",
        ),
        (Told(f"[SOME] Of the file File {GONE}.", file=f"File {GONE}"), "SPARK_FAILED"),
        (raised("deltajoin:TARGET_DRIFT"), "TARGET_DRIFT"),
        (RuntimeError("[USER_RAISED_EXCEPTION] deltajoin:ROWS_COLLIDE"), "ROWS_COLLIDE"),
        (
            RuntimeError(
                WRITE.format(
                    "SparkRuntimeException: [USER_RAISED_EXCEPTION] deltajoin:TARGET_DRIFT "
                    "SQLSTATE: P0001"
                )
            ),
            "TARGET_DRIFT",
        ),
        (
            Failed("21506", "[DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE] Cannot."),
            "ROWS_COLLIDE",
        ),
        (RuntimeError(MISSING), "SOURCE_FILES_MISSING"),
        (RuntimeError(GAP), "SOURCE_FILES_MISSING"),
        (
            analysis("[PATH_NOT_FOUND] Path does not exist: /x. SQLSTATE: 42K03", path="/x"),
            "SOURCE_FILES_MISSING",
        ),
        (
            analysis("[TABLE_OR_VIEW_ALREADY_EXISTS] Cannot create table `t`. SQLSTATE: 42P07"),
            "CONCURRENT_RUN",
        ),
    ],
)
def test_values_and_query_texts_are_no_causes(error: Exception, code: str) -> None:
    """A row's value, or a literal of the query, says nothing of the kind of failure."""
    assert translate(error, "lookup paths").code == code
