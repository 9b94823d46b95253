"""Four small tables of many types, and a query over them run twice: as written, and as we run it.

    t  rows with columns of every type; `k` points to u, NULLs, duplicates, edge values
    u  what they point to: `k` with duplicates, NULL, and values that t lacks
    v  a few events with times; a key
    odd names  columns that need quotes

Both results are compared as texts of their values, so that one job reads both: the types are
compared before.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import write_deltalake

import deltajoin
from deltajoin.catalog import TableState, load_source
from deltajoin.delta.build import Inputs, build_plan
from deltajoin.delta.plan import DeltaPlan
from deltajoin.emit.sql import build_program
from deltajoin.errors import DeltaJoinError
from deltajoin.names import COUNT, SHOWN
from deltajoin.runtime.own_session import own_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FOLDER = Path(__file__).parent.parent / "fixtures" / "corpus"
HEADING = "--- "
#: Plans over a dozen rows are interpreted.
QUICK = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timeType.enabled": "true",
}

_STRUCT = pa.struct(
    [("x", pa.int32()), ("y", pa.string()), ("Zz", pa.struct([("d", pa.float64())]))]
)
_T = {
    "id": pa.int32(),
    "k": pa.int32(),
    "g": pa.string(),
    "b": pa.bool_(),
    "y": pa.int8(),
    "h": pa.int16(),
    "l": pa.int64(),
    "f": pa.float32(),
    "d": pa.float64(),
    "m": pa.decimal128(10, 2),
    "dt": pa.date32(),
    "ts": pa.timestamp("us", "UTC"),
    "tn": pa.timestamp("us"),
    "bin": pa.binary(),
    "a": pa.list_(pa.int32()),
    "sa": pa.list_(pa.string()),
    "st": _STRUCT,
    "mp": pa.map_(pa.string(), pa.int32()),
    "ast": pa.list_(pa.struct([("p", pa.int32()), ("q", pa.string())])),
    "js": pa.string(),
}
_U = {
    "k": pa.int32(),
    "name": pa.string(),
    "w": pa.decimal128(12, 3),
    "since": pa.date32(),
    "tags": pa.list_(pa.string()),
    "x": pa.int64(),
}
_V = {
    "id": pa.int32(),
    "k": pa.int32(),
    "at": pa.timestamp("us", "UTC"),
    "amount": pa.int64(),
    "kind": pa.string(),
}
_ODD = {
    "select": pa.int32(),
    "a.b": pa.int32(),
    "tick`s": pa.string(),
    "größe": pa.float64(),
    "New York": pa.string(),
}


def _moment(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


def _rows_of_t() -> Iterator[tuple[Any, ...]]:
    """A row a line; `id` is unique."""
    none: tuple[Any, ...] = (None,) * 18
    nan, infinite = float("nan"), float("inf")
    first = _moment(2024, 2, 29, 23, 59, 59, 123456)
    second, third = _moment(2026, 3, 29, 1, 30), _moment(1969, 12, 31, 12)
    # fmt: off
    yield (1, 1, "a", True, 1, 300, 5_000_000_000, 1.5, 2.5, Decimal("12.50"), date(2024, 2, 29),
           first, first.replace(tzinfo=None), b"abc", [1, 2, 3], ["x", "y"],
           {"x": 1, "y": "one", "Zz": {"d": 0.5}}, [("a", 1), ("b", 2)],
           [{"p": 1, "q": "u"}, {"p": 2, "q": None}],
           '{"a": 1, "b": {"c": [1, 2, "z"]}, "n": null}')
    yield (2, 1, "A", False, -128, -300, -1, -0.25, -2.5, Decimal("-0.01"), date(2023, 12, 31),
           second, second.replace(tzinfo=None), b"\x00\xff", [3, None, 1, 3], ["y", None, ""],
           {"x": None, "y": "", "Zz": None}, [("b", None)], [], '{"a": "text", "b": null}')
    yield (3, 2, "ä ö", None, 127, 0, 0, 0.0, 0.0, Decimal("0.00"), date(1970, 1, 1),
           third, third.replace(tzinfo=None), b"", [], [],
           {"x": -7, "y": "it's", "Zz": {"d": None}}, [], [{"p": None, "q": "q"}], "[1, 2, 3]")
    yield (4, 2, "it's; \"q\" \\ %_", True, 0, 32767, 2**62, 3.25, 1e300,
           Decimal("99999999.99"), date(2026, 1, 31), _moment(2026, 1, 31, 8, 15),
           datetime(2026, 1, 31, 8, 15), "größe".encode(), [7], ["a,b", "c d"],
           {"x": 4, "y": "Straße", "Zz": {"d": -1.25}}, [("ü", -3), ("a", 10)],
           [{"p": 5, "q": "five"}], "not json")
    yield (5, None, "", False, -1, -32768, -(2**62), infinite, nan, Decimal("-12.50"),
           date(2000, 2, 28), _moment(2000, 2, 28, 23, 30), datetime(2000, 2, 28, 23, 30), b"abc",
           [-1, -2], ["Zebra", "apple", "apple"], {"x": 0, "y": None, "Zz": {"d": 0.0}}, None, None,
           '{"a": 2.5, "t": [true, false]}')
    yield (6, 3, None, True, 5, 12, 99, -7.75, 1e-5, Decimal("1.10"), date(2024, 2, 29), first,
           first.replace(tzinfo=None), None, None, ["Ω", "😀"], None, [("z", 26)],
           [{"p": 9, "q": "n"}, {"p": 1, "q": "m"}, {"p": 9, "q": "k"}], None)
    yield (7, 9, " padded ", False, 2, 7, 123_456_789, 2.0, -1.0, Decimal("7.77"),
           date(2026, 12, 31), _moment(2026, 12, 31, 22), datetime(2026, 12, 31, 22), b"\x01",
           [10, 20, 30, 40], ["one two", "three"], {"x": 42, "y": "b", "Zz": {"d": 3.5}},
           [("a", 0), ("c", 3)], [{"p": 3, "q": "x"}], '{"a": -1, "b": {"c": []}}')
    # fmt: on
    yield (8, 1, *none)


_ROWS_OF_U = (
    (1, "Anna", Decimal("10.500"), date(2020, 1, 1), ["vip", "old"], 10),
    (2, "Bo  b", Decimal("-3.125"), date(2024, 2, 29), [], -20),
    (2, "bo  B", None, None, None, None),
    (3, "Çelik", Decimal("0.000"), date(2026, 1, 31), ["new", None], 0),
    (4, None, Decimal("999999999.999"), date(1999, 12, 31), ["x"], 2**53),
    (None, "nobody", Decimal("1.000"), None, ["vip"], 7),
)
_ROWS_OF_V = (
    (1, 1, _moment(2026, 1, 1, 10), 5, "open"),
    (2, 1, _moment(2026, 1, 1, 10, 5), -5, "close"),
    (3, 2, _moment(2026, 1, 1, 23, 59), 100, "open"),
    (4, None, _moment(2026, 1, 2), 1, "open"),
    (5, 3, None, None, "lost"),
    (6, 1, _moment(2026, 1, 3, 12), 5, None),
    (7, 2, _moment(2026, 2, 1), 100, "open"),
)
_ROWS_OF_ODD = ((1, 10, "p", 1.5, "n"), (2, 20, "q`r", -0.5, None), (None, 10, None, None, "m"))


def _table(columns: dict[str, pa.DataType], rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    values = list(zip(*rows, strict=True))
    arrays = [
        pa.array(found, type=kind) for found, kind in zip(values, columns.values(), strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema(list(columns.items())))


TABLES = {
    "t": _table(_T, tuple(_rows_of_t())),
    "u": _table(_U, _ROWS_OF_U),
    "v": _table(_V, _ROWS_OF_V),
    "odd names": _table(_ODD, _ROWS_OF_ODD),
}
KEYS = {"t": ["id"], "v": ["id"]}


def corpus() -> dict[str, str]:
    """The queries of all files by their name: file and number."""
    found = {}
    for file in sorted(FOLDER.glob("*.sql")):
        lines = file.read_text("utf-8").split("\n")
        text = "\n".join(line for line in lines if not line.startswith(HEADING))
        queries = [query.strip("\n") for query in text.split(";\n") if query.strip()]
        found.update({f"{file.stem}-{i + 1}": query for i, query in enumerate(queries)})
    return found


@dataclass(frozen=True)
class Database:
    """The tables as Delta tables on disk and as views of a session."""

    states: dict[str, TableState]
    session: SparkSession
    views: set[str]

    @classmethod
    def create(cls, spark: SparkSession, folder: Path) -> Database:
        """The tables below a folder; a session of its own reads them as views."""
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        session = own_session(spark, QUICK)
        states = {}
        for name, rows in TABLES.items():
            write_deltalake(str(folder / name), rows)
            states[name] = load_source(name, str(folder / name))
            types = [
                f"CAST({quoted(c.name)} AS {c.type}) AS {quoted(c.name)}"
                for c in states[name].columns
            ]
            session.createDataFrame(rows).selectExpr(*types).createOrReplaceTempView(quoted(name))
        return cls(states, session, set(states))

    def plan(self, query: str) -> DeltaPlan:
        """The first build of a query as a model."""
        model = deltajoin.Model(
            name="model",
            sql=query,
            sources={name: state.location for name, state in self.states.items()},
            target="/nowhere/target",
            keys=KEYS,
        )
        return build_plan(model, Inputs(self.states, None, None, backing=False))

    def full_build(self, plan: DeltaPlan) -> DataFrame:
        """The rows of a first build that a user sees; of a bag with their number in COUNT."""
        program = build_program(plan)
        known = {state.location: name for name, state in self.states.items()}
        for scan in program.scans:
            if scan.view not in self.views:
                rows = self.session.table(quoted(known[scan.location]))
                rows.createOrReplaceTempView(quoted(scan.view))
                self.views.add(scan.view)
        assert program.full is not None
        assert not program.apart
        rows = self.session.sql(program.full)
        return rows.where(quoted(SHOWN)) if SHOWN in rows.columns else rows


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@dataclass
class Result:
    """What came of one query. `how`: kept (run from its graph), written (run as its own text),
    refused (`code` says why). `problem` is empty where both sides agree, `error` says what Spark
    has against the text."""

    name: str
    sql: str
    how: str = ""
    code: str = ""
    error: str = ""
    problem: str = ""
    wanted: DataFrame | None = None
    found: DataFrame | None = None


def prepare(database: Database, name: str, sql: str) -> Result:
    """Both sides of a query before any row is read: schemas are compared, rows are not yet."""
    result = Result(name, sql)
    try:
        wanted = database.session.sql(sql)
    except Exception as error:
        result.error = _first_line(error)
        wanted = None
    try:
        plan = database.plan(sql)
        result.how = "written" if plan.graph is None else "kept"
        result.code = plan.rebuilt_because.code if plan.rebuilt_because else ""
        found = database.full_build(plan)
    except DeltaJoinError as error:
        result.how, result.code = "refused", error.code
        result.problem = "" if wanted is None else f"refused: {error}"
        return result
    except Exception as error:
        is_spark = hasattr(error, "getCondition")
        result.how = result.how or "crash"
        if wanted is not None or not is_spark:
            result.problem = f"{type(error).__name__}: {_first_line(error)}"
        return result
    if wanted is None:
        result.problem = f"Spark refuses it, we don't: {result.error}"
        return result
    types, ours = _types(wanted), _types(found, plan.target.hidden)
    if types != ours:
        result.problem = f"columns: {types} in Spark, {ours} here"
    result.wanted = as_texts(wanted, f"{name} wanted")
    result.found = as_texts(found, f"{name} found", plan.target.hidden)
    return result


def compare(results: Sequence[Result]) -> None:
    """Read the rows of both sides of some queries in one job; one by one where that fails."""
    open_ones = [r for r in results if r.wanted is not None and r.found is not None]
    try:
        rows = read_texts(
            [side for r in open_ones for side in (r.wanted, r.found) if side is not None]
        )
    except Exception:
        for result in open_ones:
            _compare_alone(result)
        return
    for result in open_ones:
        _judge(result, rows)


def _compare_alone(result: Result) -> None:
    rows: dict[str, Counter[tuple[Any, ...]]] = {}
    errors = []
    for side in (result.wanted, result.found):
        try:
            rows |= read_texts([side] if side is not None else [])
            errors.append("")
        except Exception as error:
            errors.append(_first_line(error))
    result.error = errors[0]
    if bool(errors[0]) != bool(errors[1]):
        result.problem = f"Spark: {errors[0] or 'rows'}; here: {errors[1] or 'rows'}"
    elif not errors[0]:
        _judge(result, rows)


def _judge(result: Result, rows: dict[str, Counter[tuple[Any, ...]]]) -> None:
    wanted = rows.get(f"{result.name} wanted", Counter())
    found = rows.get(f"{result.name} found", Counter())
    if wanted != found and not result.problem:
        missing, more = list((wanted - found).items())[:3], list((found - wanted).items())[:3]
        result.problem = f"rows: {missing} missing, {more} too many"


def read_texts(sides: Sequence[DataFrame]) -> dict[str, Counter[tuple[Any, ...]]]:
    rows: dict[str, Counter[tuple[Any, ...]]] = {}
    if sides:
        for label, number, values in reduce(lambda a, b: a.unionAll(b), sides).collect():
            rows.setdefault(label, Counter())[tuple(values)] += number
    return rows


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:300]


def _types(rows: DataFrame, hidden: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Names and types of what a user sees; whether NULL may be in them is not asked."""
    fields = [f for f in rows.schema if f.name not in (COUNT, *hidden)]
    return [(f.name, f.dataType.simpleString()) for f in fields]


def as_texts(rows: DataFrame, label: str, hidden: Sequence[str] = ()) -> DataFrame:
    """(label, number, texts of the values): what rows of any type are as rows of one type."""
    fields = [(f"c{i}", field) for i, field in enumerate(rows.schema)]
    number = next((name for name, field in fields if field.name == COUNT), "1")
    values = [
        f"hex({name})" if field.dataType.simpleString() == "binary" else f"CAST({name} AS STRING)"
        for name, field in fields
        if field.name not in (COUNT, *hidden)
    ]
    named = rows.toDF(*(name for name, _ in fields))
    return named.selectExpr(
        f"'{label}'", f"CAST({number} AS BIGINT)", f"array({', '.join(values)})"
    )
