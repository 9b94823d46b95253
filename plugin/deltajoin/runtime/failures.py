"""Spark's and Delta's exceptions as our errors: a code, the place, what to do.

Messages of Spark can carry row values: only their first line is kept, shortened, without what Spark
put into it but for names of types, functions, columns and settings. Of an error of Java that
PySpark hands on as it is, the kind, Spark's name for it, the file and the root's kind are told.
Spark's own error is not the cause of ours, for whoever logs an error logs its causes; nor is it
logged by PySpark, as it would be besides.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from deltajoin.errors import DeltaJoinError

_JAVA = "An error occurred while calling"
_KIND = re.compile(
    r"^(?:Caused by)?: ([\w.$]+)(?:: (.*?))?(?=\n\s+at |\n\s+\.{3} |\nCaused by|\Z)",
    re.MULTILINE | re.DOTALL,
)
_RAISED = re.compile(
    r'^(?:Exception in thread "[^"]*" |(?:Caused by)?: )?([\w.$]+(?:Exception|Error))(?:: (.*))?$',
    re.MULTILINE,
)
_NAMED = re.compile(r"\[[A-Z][A-Z0-9_.]+\]")
_FILE = re.compile(r"\S+\.(?:parquet|json|bin|crc)\b")
_VALUE = re.compile(r"'.*'|(?<=The value )[^'\s]\S*")
#: Of a message's parameters those that are no values: a type or setting, names in backticks, and
#: the text by which a join stands for a scalar subquery (`sql/scalars.py`).
_NAME = re.compile(
    r"\[SCALAR_SUBQUERY_TOO_MANY_ROWS\] A subquery [a-z ]+"
    r'|"[A-Z][A-Z0-9 <>,():_]*"|"spark\.[\w.]+"|"(true|false)"|(`[^`]*`\.?)+|\W?'
)


#: The packages that raise Spark's errors.
_OF_SPARK = ("grpc", "py4j", "pyspark")

#: SQLSTATEs of an expression that fails for a value: a cast, a division by zero, an overflow, a key
#: that a map has already, `raise_error`, a function of the user's own.
_OF_VALUES = ("22", "23505", "38", "39", "P0001")
_SQL_STATE = re.compile(r"SQLSTATE: (\w{5})")

#: Code -> message, remedy.
_TOLD = {
    "KEY_VIOLATED": (
        "a declared key is not unique: two rows of the result have the same key",
        "Find the duplicates in the changed sources, correct the key, or declare no keys.",
    ),
    "WINDOW_TIES": (
        "rows that differ tie in the order of a window function, which leaves its result open",
        "Add the columns of the row's key to ORDER BY, or use a mode that rebuilds.",
    ),
    "SUM_OVERFLOW": (
        "a group's sum, or that of its change, has more digits than Spark's decimals",
        "If the query runs, use a mode that rebuilds; or cast the summed values to fewer digits.",
    ),
    "TARGET_DRIFT": (
        "the target does not hold the rows that the last epoch left",
        "Something else wrote to it; run once with mode full.",
    ),
    "ROWS_COLLIDE": (
        "rows that differ are taken for one row of the target",
        "Run once with mode full, and report it.",
    ),
    "CONCURRENT_RUN": (
        "another writer committed to the target during this run; nothing was written",
        "Run again: the next run starts from what the other one committed.",
    ),
    "SOURCE_FILES_MISSING": (
        "a file that this run needs is gone: {cause}",
        "Run again; if it stays, run once with mode full.",
    ),
    "BROADCAST_TOO_LARGE": (
        "a side of a join is too large to be broadcast: {cause}",
        "Give the driver more memory (spark.driver.memory).",
    ),
    "SPARK_LOST": (
        "Spark's process has ended, or can't be reached: {cause}",
        "See its log; it may lack memory (spark.driver.memory). Then run again.",
    ),
    "EVALUATION_FAILED": (
        "{cause}",
        "Correct the value or the expression; if the query runs, use a mode that rebuilds.",
    ),
    "SPARK_ANALYSIS": ("{cause}", "See Spark's log."),
    "SPARK_FAILED": ("{cause}", "See Spark's log."),
}

#: What our statements raise themselves (`emit.ast.fail`), as the whole of an error's message.
_OURS = re.compile(
    r"(?:\(?[\w.$]+\)?:? )?\[USER_RAISED_EXCEPTION\] deltajoin:([A-Z_]+)(?: SQLSTATE|\s*\Z)"
)

#: What the text of another error has, without its values -> code; the first that is found.
_BY_TEXT = (
    (re.compile(r"\[DELTA_MULTIPLE_SOURCE_ROW_MATCHING"), "ROWS_COLLIDE"),
    (
        re.compile(
            r"DELTA_CONCURRENT|Concurrent\w+Exception|DELTA_METADATA_CHANGED|"
            r"MetadataChangedException|ProtocolChangedException|"
            r"DELTA_PROTOCOL_CHANGED|FileAlreadyExistsException|TABLE_OR_VIEW_ALREADY_EXISTS"
        ),
        "CONCURRENT_RUN",
    ),
    (
        re.compile(
            r"FILE_NOT_EXIST|FileNotFoundException|PATH_NOT_FOUND|DELTA_MISSING_CHANGE_DATA|"
            r"DELTA_\w*FILE_NOT_FOUND|DELTA_VERSIONS_NOT_CONTIGUOUS|DELTA_CANNOT_CREATE_LOG|"
            r"(?:File|Path)\b.* does not exist"
        ),
        "SOURCE_FILES_MISSING",
    ),
    (
        re.compile(
            r"Not enough memory to build and broadcast|Cannot broadcast the table|"
            r"Could not execute broadcast in|MAX_BROADCAST_TABLE|spark\.driver\.maxResultSize"
        ),
        "BROADCAST_TOO_LARGE",
    ),
    (
        re.compile(
            r"Py4JNetworkError|ConnectionRefusedError|Answer from Java side is empty|"
            r"StatusCode\.UNAVAILABLE|RETRIES_EXCEEDED|INVALID_HANDLE\.SESSION_|"
            r"does not exist in the JVM|"
            rf"^Py4JError: {_JAVA} \S+\Z"  # and no word of what went wrong there
        ),
        "SPARK_LOST",
    ),
)


@contextmanager
def explained(where: str, *, of_spark_alone: bool = False) -> Iterator[None]:
    """Turn what Spark raises inside into a `DeltaJoinError`.

    Args:
        of_spark_alone: leave the errors of others as they are: inside is more than what asks Spark.
    """
    _keep_quiet()
    before = _inside.set(True)
    try:
        yield
    except DeltaJoinError:
        raise
    except Exception as error:
        if of_spark_alone and type(error).__module__.partition(".")[0] not in _OF_SPARK:
            raise
        raise translate(error, where) from None
    finally:
        _inside.reset(before)


@contextmanager
def undoing(undo: Callable[[], object]) -> Iterator[None]:
    """Undo something in the end. After a failure inside, that is told, and not that undoing it
    failed as well. Where Spark is lost, nothing is left to undo; a Connect client would try to
    reach its server for ten minutes."""
    try:
        yield
    except BaseException as error:
        if not is_lost(error):
            with suppress(Exception):
                undo()
        raise
    undo()


def is_lost(error: BaseException | None) -> bool:
    """True for what is raised where Spark's process has ended, or can't be reached."""
    return isinstance(error, DeltaJoinError) and error.code == "SPARK_LOST"


_inside: ContextVar[bool] = ContextVar("explained", default=False)


def _outside(_: logging.LogRecord) -> bool:
    return not _inside.get()


def _answered(record: logging.LogRecord) -> bool:
    """False for what Py4J logs, by the root logger, where a process has ended: who asked gets an
    error of it, and a thread that gives objects back asks for nobody."""
    return record.msg != "Exception while sending command."


def _keep_quiet() -> None:
    """Let PySpark log no error that is explained, and Py4J no question without an answer."""
    from pyspark.logger import PySparkLogger

    for kind in ("SQL", "DataFrame"):
        PySparkLogger.getLogger(f"{kind}QueryContextLogger").addFilter(_outside)
    logging.getLogger().addFilter(_answered)


def translate(error: Exception, where: str) -> DeltaJoinError:
    """The `DeltaJoinError` for an exception of a Spark statement."""
    try:
        return _translated(error, where)
    except Exception as lost:  # its text is asked of a process that may have ended
        return _translated(lost, where)


def _translated(error: Exception, where: str) -> DeltaJoinError:
    code = _code(error)
    if code == "SPARK_ANALYSIS":
        cause = _first_line(str(error)) or type(error).__name__
    else:
        cause = _cause(error)
    message, remedy = _TOLD[code]
    return DeltaJoinError(code, message.format(cause=cause), where=where, remedy=remedy)


def _code(error: Exception) -> str:
    """What we raised ourselves; else what failed for a value, whatever the value looks like; else
    what the text without values says."""
    messages = _messages(error)
    ours = (found[1] for found in map(_OURS.match, messages) if found)
    if code := next((code for code in ours if code in _TOLD), None):
        return code
    parameters = _parameters(error)
    text = "\n".join(_without_values(_SQL_STATE.split(each)[0], parameters) for each in messages)
    text = f"{type(error).__name__}: {text}"
    analysis = "AnalysisException" in text or "ParseException" in text
    states = [
        _sql_state(error),
        *(state for each in messages for state in _SQL_STATE.findall(each)),
    ]
    if not analysis and any(state.startswith(_OF_VALUES) for state in states):
        return "EVALUATION_FAILED"
    found = (code for pattern, code in _BY_TEXT if pattern.search(text))
    return next(found, "SPARK_ANALYSIS" if analysis else "SPARK_FAILED")


def _messages(error: Exception) -> list[str]:
    """The text of an error; of one of Java, each class in the chain of causes with its message."""
    text = str(error).strip()
    kinds = _KIND.findall(text) if text.startswith(_JAVA) else []
    return [f"{kind}: {message}" for kind, message in kinds] or [text]


def _sql_state(error: Exception) -> str:
    """The SQLSTATE of Spark's error; empty for another one."""
    return str(getattr(error, "getSqlState", str)() or "")


def _cause(error: Exception) -> str:
    """The first line of what went wrong, without values of rows."""
    text = str(error).strip()
    if text.startswith(_JAVA) and (kinds := _KIND.findall(text)):
        return _java_error(kinds)
    return _first_line(_without_values(text, _parameters(error))) or type(error).__name__


def root_cause(log: str) -> str:
    """What a log tells of the exceptions at its end, without values of rows or of settings; empty
    where there are none."""
    kinds = _RAISED.findall(log)
    return _java_error(kinds) if kinds else ""


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0][:300]


def _parameters(error: Exception) -> list[str]:
    """What Spark put into the text of an error, longest first; empty for another error."""
    found = getattr(error, "getMessageParameters", dict)() or {}
    return sorted(map(str, found.values()), key=len, reverse=True)


def _without_values(message: str, parameters: Sequence[str] = ()) -> str:
    """A message of a run without what may be a row's value.

    Example:
        >>> _without_values("[OVERFLOW] The value 12L of the type 'x' is no 'y' of `k`.")
        "[OVERFLOW] The value ... of the type '...' of `k`."
        >>> _without_values('[ILLEGAL_DAY] Illegal day: a b of "DATE".', ["a b", '"DATE"'])
        '[ILLEGAL_DAY] Illegal day: ... of "DATE".'
    """
    named = _NAMED.match(message)
    start = named.end() if named else 0
    text = message[start:]
    for value in parameters:
        if not _NAME.fullmatch(value):
            text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", "...", text)
    text = _VALUE.sub(lambda found: "'...'" if found[0][0] == "'" else "...", text)
    return message[:start] + text


def _java_error(kinds: list[tuple[str, str]]) -> str:
    """The first and the last of a chain of (class, message)."""
    (name, message), (root, _) = kinds[0], kinds[-1]
    parts = [name.rsplit(".", 1)[-1], *_NAMED.findall(message)[:1]]
    parts += [f"in {file}" for file in _FILE.findall(message)[:1]]
    if root != name:
        parts.append(f"caused by {root.rsplit('.', 1)[-1]}")
    return " ".join(parts)
