"""What people are told of Spark's failures: the kind, the file, the root; never a row's value."""

from __future__ import annotations

import pytest

from deltajoin.errors import DeltaJoinError
from deltajoin.runtime.failures import is_lost, translate, undoing
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
    RuntimeError("[INVALID_HANDLE.SESSION_NOT_FOUND] The handle is invalid."),
)


@pytest.mark.parametrize("error", LOST)
def test_a_process_that_has_ended_is_told(error: Exception) -> None:
    found = translate(error, "lookup paths")
    assert (found.code, found.where) == ("SPARK_LOST", "lookup paths")
    assert is_lost(found)


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


class Failed(RuntimeError):
    """An error as Spark raises it, with its SQLSTATE."""

    def __init__(self, state: str | None) -> None:
        super().__init__("[SOME_CONDITION] It failed.")
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
