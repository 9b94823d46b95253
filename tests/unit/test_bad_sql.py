"""SQL and declarations that can't be kept: each refused by its own code, before anything is there.

No Spark: `deltajoin.plan` decides from the SQL and the Delta logs alone.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import deltajoin
from deltajoin import DeltaJoinError, Model
from deltajoin.sql.dialect import Verbatim, parse
from deltajoin.sql.known import check_known
from deltajoin.sql.refuse import Unsupported

JOIN = "FROM a JOIN b ON a.k = b.k"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tables")
    columns = {
        "k": pa.array([1], pa.int64()),
        "v": pa.array(["x"]),
        "t": pa.array([0], pa.timestamp("us", "UTC")),
        "list": pa.array([[1]], pa.list_(pa.int64())),
    }
    for name in ("a", "b", "c"):
        table = pa.table({**columns, f"{name}_only": pa.array([2], pa.int64())})
        feed = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(str(root / name), table, configuration=feed)
    return root


@pytest.fixture
def model(tables: Path, tmp_path: Path) -> Model:
    return Model(
        name="m",
        sql=f"SELECT a.k, b.v {JOIN}",
        sources={name: str(tables / name) for name in ("a", "b", "c")},
        target=str(tmp_path / "target"),
        keys={"a": ["k"]},
    )


def refused(model: Model, **changes: Any) -> DeltaJoinError:
    """The refusal of the changed model, in every mode the same; nothing is left behind."""
    seen = []
    modes = [changes.pop("mode")] if "mode" in changes else list(deltajoin.model.MODES)
    for mode in modes:
        with pytest.raises(DeltaJoinError) as caught:
            deltajoin.plan(replace(model, **changes, mode=mode))
        seen.append(caught.value)
        assert not Path(model.target).exists()
    assert len({str(error) for error in seen}) == 1
    assert seen[0].message
    assert seen[0].remedy
    return seen[0]


def rebuilt(model: Model, **changes: Any) -> DeltaJoinError:
    """The refusal under incremental_strict; every other mode rebuilds for the same reason."""
    for mode in ("auto", "incremental", "full", "shadow"):
        planned = deltajoin.plan(replace(model, **changes, mode=mode))
        assert planned.strategy == "full"
        assert planned.graph is None
        because = planned.rebuilt_because
        assert because is not None
    error = refused(model, **changes, mode="incremental_strict")
    assert (error.code, error.where, error.remedy) == (because.code, because.where, because.remedy)
    return error


NOT_SQL = {
    "nonsense": ("SELEC a", "NOT_A_QUERY"),
    "open string": ("SELECT 'a FROM a", "SQL_PARSE_ERROR"),
    "open backtick": ("SELECT `a FROM a", "SQL_PARSE_ERROR"),
    "empty": ("", "NOT_A_QUERY"),
    "comment only": ("-- nothing", "NOT_A_QUERY"),
    "two statements": (f"SELECT a.k {JOIN}; SELECT 1 AS x", "NOT_A_QUERY"),
    "a statement after": (f"SELECT a.k {JOIN}; DROP TABLE a", "NOT_A_QUERY"),
    "insert": ("INSERT INTO a SELECT * FROM b", "NOT_A_QUERY"),
    "delete": ("DELETE FROM a", "NOT_A_QUERY"),
    "create": ("CREATE TABLE x AS SELECT * FROM a", "NOT_A_QUERY"),
    "set": ("SET spark.sql.ansi.enabled = false", "NOT_A_QUERY"),
}


@pytest.mark.parametrize(("sql", "code"), NOT_SQL.values(), ids=list(NOT_SQL))
def test_what_is_not_one_query(model: Model, sql: str, code: str) -> None:
    assert refused(model, sql=sql).code == code


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT {'(' * 5000}a.k{')' * 5000} AS k FROM a",
        f"SELECT {'coalesce(' * 900}a.k{')' * 900} AS k FROM a",
        f"SELECT {' + '.join(['a.k'] * 4000)} AS k FROM a",
    ],
    ids=["brackets", "calls", "terms"],
)
def test_what_is_nested_too_deeply_for_us(model: Model, sql: str) -> None:
    assert rebuilt(model, sql=sql).code == "SQL_PARSE_ERROR"


def test_a_parse_error_names_its_line(model: Model) -> None:
    """Spark may read what our parser can't: it is asked where the mode lets it."""
    error = rebuilt(model, sql="SELECT a.k\nFROM a\nJOIN b ON ON a.k")
    assert (error.code, error.where and error.where.startswith("line 3")) == (
        "SQL_PARSE_ERROR",
        True,
    )


def test_sqlglots_compiled_build_is_named(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parser can't be subclassed: what is raised then is no riddle."""

    def parser(self: Any, **options: Any) -> Any:
        raise TypeError("interpreted classes cannot inherit from compiled")

    monkeypatch.setattr(Verbatim, "parser", parser)
    with pytest.raises(DeltaJoinError) as raised:
        deltajoin.plan(model)
    assert raised.value.code == "SQLGLOT_COMPILED"
    assert "sqlglotc" in str(raised.value.remedy)


NAMES = {
    "unknown table": ("SELECT a.k FROM a\nJOIN nowhere n ON a.k = n.k", "UNKNOWN_TABLE"),
    "unknown schema": ("SELECT a.k FROM a\nJOIN s.b ON a.k = b.k", "UNKNOWN_TABLE"),
    "a CTE read before it is": (
        "WITH x AS (SELECT * FROM\ny), y AS (SELECT * FROM a) SELECT x.k FROM x JOIN b USING (k)",
        "UNKNOWN_TABLE",
    ),
    "unknown column": (f"SELECT a.k,\na.nothing {JOIN}", "UNKNOWN_COLUMN"),
    "unknown unqualified": (f"SELECT a.k,\nnothing {JOIN}", "UNKNOWN_COLUMN"),
    "unknown in ON": ("SELECT a.k FROM a JOIN b\nON a.k = b.nothing", "UNKNOWN_COLUMN"),
    "unknown in WHERE": (f"SELECT a.k {JOIN}\nWHERE b.nothing > 1", "UNKNOWN_COLUMN"),
    "unknown in USING": ("SELECT a.k FROM a\nJOIN b USING (nothing)", "UNKNOWN_COLUMN"),
    "on one side of USING": ("SELECT a.k FROM a\nJOIN b USING (a_only)", "UNKNOWN_COLUMN"),
    "unknown alias": (f"SELECT a.k,\nz.k AS zk {JOIN}", "UNKNOWN_COLUMN"),
    "hidden by its alias": ("SELECT x.k,\na.v FROM a AS x JOIN b ON x.k = b.k", "UNKNOWN_COLUMN"),
    "unknown star": (f"SELECT a.k,\nz.* {JOIN}", "UNKNOWN_TABLE"),
    "ambiguous column": (f"SELECT a.k,\nv {JOIN}", "AMBIGUOUS_COLUMN"),
    "ambiguous in WHERE": (f"SELECT a.k {JOIN}\nWHERE v = 'x'", "AMBIGUOUS_COLUMN"),
    "one alias twice": ("SELECT x.k FROM a x\nJOIN b x ON x.k = x.k", "AMBIGUOUS_COLUMN"),
    "duplicate name": (f"SELECT a.k,\nb.k {JOIN}", "DUPLICATE_COLUMN"),
    "duplicate but for case": (f"SELECT a.k,\nb.v AS K {JOIN}", "DUPLICATE_COLUMN"),
    "duplicate by star": (f"SELECT\n* {JOIN}", "DUPLICATE_COLUMN"),
    "duplicate below": (
        "SELECT s.k FROM (SELECT a.k, b.k FROM a JOIN b ON a.k = b.k)\nAS s JOIN c ON s.k = c.k",
        "AMBIGUOUS_COLUMN",
    ),
    "too many aliases": (
        "SELECT s.p FROM (SELECT a.k FROM a)\nAS s(p, q) JOIN b ON s.p = b.k",
        "COLUMN_ALIASES",
    ),
    "reserved output": (f"SELECT a.k,\nb.v AS __deltajoin_weight {JOIN}", "RESERVED_NAME"),
    "reserved in any case": (f"SELECT a.k,\nb.v AS __DeltaJoin_x {JOIN}", "RESERVED_NAME"),
    "empty name": (f"SELECT a.k,\nb.v AS ` ` {JOIN}", "INVALID_NAME"),
    "overlong name": (f"SELECT a.k,\nb.v AS {'x' * 256} {JOIN}", "INVALID_NAME"),
}


@pytest.mark.parametrize(("sql", "code"), NAMES.values(), ids=list(NAMES))
def test_names_that_mean_nothing_or_too_much(model: Model, sql: str, code: str) -> None:
    error = refused(model, sql=sql)
    assert error.code == code
    assert error.where


CHANGING = [
    "rand()",
    "RAND(7)",
    "randn()",
    "random()",
    "randstr(3)",
    "uniform(1, 2)",
    "uuid()",
    "current_time",
    "current_time()",
    "timestamp'now'",
    "TIMESTAMP ' Now '",
    "timestamp_ntz'now'",
    "timestamp_ltz'today'",
    "date'tomorrow'",
    "CAST('now' AS TIMESTAMP)",
    "CAST('today Europe/Amsterdam' AS TIMESTAMP)",
    "a.t < 'now'",
    "a.t BETWEEN 'yesterday' AND 'today'",
    "a.t IN ('2020-01-01', 'today')",
    "coalesce(CAST(NULL AS DATE), 'tomorrow')",
    "datediff('today', a.t)",
    "year('today')",
    "if(a.k = 1, a.t, 'now')",
    "CASE WHEN a.k = 1 THEN a.t ELSE 'now' END",
    "CASE a.t WHEN 'now' THEN 1 END",
    "CAST('yesterday' AS DATE)",
    "try_cast('now' AS TIMESTAMP)",
    "'now'::timestamp",
    "timestamp('now')",
    "date('today')",
    "to_date('today')",
    "to_timestamp('now')",
    "shuffle(a.list)",
    "monotonically_increasing_id()",
    "spark_partition_id()",
    "input_file_name()",
    "input_file_block_start()",
    "current_catalog()",
    "current_database()",
    "current_schema()",
    "system.builtin.rand()",
    "java_method('java.util.UUID', 'randomUUID')",
    "reflect('java.util.UUID', 'randomUUID')",
    "aes_encrypt(a.v, 'k')",
    "upper(concat(uuid(), 'x'))",
    "transform(a.list, x -> x + rand())",
    "CAST(a.k = 1 AND uuid() = 'x' AS INT)",
]


@pytest.mark.parametrize("expression", CHANGING)
def test_what_gives_another_result_at_each_run(model: Model, expression: str) -> None:
    for sql in (
        f"SELECT a.k,\n{expression} AS x {JOIN}",
        f"SELECT a.k {JOIN}\nWHERE {expression} IS NOT NULL",
        f"SELECT a.k FROM a LEFT JOIN b\nON a.k = b.k AND {expression} IS NOT NULL",
        f"SELECT count(\n{expression}) AS n {JOIN} GROUP BY a.k",
    ):
        error = rebuilt(model, sql=sql)
        assert error.code == "NON_DETERMINISTIC", sql
        assert error.where
        assert error.where.startswith("line")


@pytest.mark.parametrize(
    "sample",
    ["TABLESAMPLE (10 PERCENT)", "TABLESAMPLE (5 ROWS)", "TABLESAMPLE (BUCKET 1 OUT OF 2)"],
)
def test_samples(model: Model, sample: str) -> None:
    error = rebuilt(model, sql=f"SELECT a.k FROM a {sample} JOIN b ON a.k = b.k")
    assert (error.code, error.where) == ("NON_DETERMINISTIC", "line 1")


@pytest.mark.parametrize("call", ["my_udf(a.k)", "db.my_udf(a.k)", "ai_query('x', a.v)"])
def test_functions_that_spark_does_not_know(model: Model, call: str) -> None:
    for sql in (f"SELECT a.k,\n{call} AS x {JOIN}", f"SELECT a.k {JOIN}\nWHERE {call} = 1"):
        error = rebuilt(model, sql=sql)
        assert error.code == "UNKNOWN_FUNCTION"
        assert error.where
        assert error.where.startswith("line 2")
        planned = deltajoin.plan(replace(model, sql=sql))
        assert call.split("(")[0] in planned.warnings[0]


@pytest.mark.parametrize("call", ["my_udf(a.k)", "db.my_udf(a.k)"])
def test_a_function_can_be_declared(model: Model, call: str) -> None:
    declared = {call.split("(")[0].upper(): "deterministic"}
    sql = f"SELECT a.k,\n{call} AS x {JOIN}"
    planned = deltajoin.plan(replace(model, sql=sql, functions=declared))
    assert planned.graph is not None
    assert planned.graph.projections[1].sql == call.replace("a.k", "`a`.`k`")
    with pytest.raises(DeltaJoinError, match="functions"):
        replace(model, functions={"my_udf": "stable"})


@pytest.mark.parametrize("column", ["a.k + 1", "upper(b.v)", "'x'"])
def test_columns_without_a_name_have_sparks(model: Model, column: str) -> None:
    assert rebuilt(model, sql=f"SELECT a.k,\n{column} {JOIN}").code == "UNNAMED_COLUMN"


UNKNOWN = {
    "PIVOT of a join": "SELECT * FROM a, b PIVOT (max(v) FOR k IN (1, 2))",
    "SORT of SELECT": "SELECT a.k FROM a SORT BY a.k",
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_a_clause_that_nobody_knows_never_disappears(model: Model, what: str) -> None:
    error = rebuilt(model, sql=UNKNOWN[what])
    assert error.code in ("UNKNOWN_CLAUSE", "PIVOT")
    assert error.code == "PIVOT" or what in error.message


def test_what_the_parser_lost_is_missed() -> None:
    sql = f"SELECT a.k, a.v AS x {JOIN}"
    query = parse(sql)
    check_known(query, sql)
    query.expressions[1].pop()
    with pytest.raises(Unsupported, match="'a' is not understood"):
        check_known(query, sql)


def test_pipes_are_rebuilt(model: Model) -> None:
    assert rebuilt(model, sql="FROM a |> SELECT k").code == "PIPE"


@pytest.mark.parametrize("marker", ["?", ":name", "@name", "@@name"])
def test_parameter_markers(model: Model, marker: str) -> None:
    error = refused(model, sql=f"SELECT a.k {JOIN} WHERE a.k = {marker}")
    assert error.code in ("SQL_PARAMETER", "SQL_PARSE_ERROR")


SUBSTITUTED = {
    "sql": {"sql": f"SELECT a.k, '${{env:HOME}}' AS x {JOIN}"},
    "sql name": {"sql": f"SELECT a.k AS `${{env:HOME}}` {JOIN}"},
    "sql comment": {"sql": f"SELECT a.k /* ${{x}} */ {JOIN}"},
    "name": {"name": "m${x}"},
    "target": {"target": "/tmp/${x}"},
    "source name": {"sources": {"${x}": "/tmp/a"}},
    "source path": {"sources": {"a": "/tmp/${x}"}},
    "key table": {"keys": {"${x}": ["k"]}},
    "key column": {"keys": {"a": ["${x}"]}},
}


@pytest.mark.parametrize("changes", SUBSTITUTED.values(), ids=list(SUBSTITUTED))
@pytest.mark.parametrize(
    ("instead", "code"), [("${", "VARIABLE_SUBSTITUTION"), ("\0", "INVALID_NAME")]
)
def test_text_that_spark_would_change_or_cut(
    model: Model, changes: dict[str, Any], instead: str, code: str
) -> None:
    def put(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace("${", instead)
        if isinstance(value, list):
            return [put(item) for item in value]
        return {put(key): put(item) for key, item in value.items()}

    error = refused(model, **put(changes))
    assert error.code == code
    assert error.where


def test_names_out_of_the_schema_are_looked_at_too(model: Model, tmp_path: Path) -> None:
    table = pa.table({"k": [1], "${env:HOME}": ["x"]})
    mapping = {"delta.columnMapping.mode": "name", "delta.minReaderVersion": "2"}
    write_deltalake(str(tmp_path / "s"), table, configuration={**mapping})
    sources = {**model.sources, "b": str(tmp_path / "s")}
    assert refused(model, sql=f"SELECT b.* {JOIN}", sources=sources).code in (
        "VARIABLE_SUBSTITUTION"
    )


DECLARED = {
    "unknown mode": ({"mode": "fast"}, "UNKNOWN_MODE"),
    "mode in another case": ({"mode": "AUTO"}, "UNKNOWN_MODE"),
    "key of an unknown table": ({"keys": {"nowhere": ["k"]}}, "UNKNOWN_KEY"),
    "unknown key column": ({"keys": {"a": ["k", "nothing"]}}, "UNKNOWN_KEY"),
    "key without a column": ({"keys": {"a": []}}, "UNKNOWN_KEY"),
    "key as text": ({"keys": {"a": "k"}}, "INVALID_MODEL"),
    "keys as text": ({"keys": "a=k"}, "INVALID_MODEL"),
    "no name": ({"name": " "}, "INVALID_MODEL"),
    "no target": ({"target": ""}, "INVALID_MODEL"),
    "a password": ({"sources": {"a": "s3://me:pass@lake/a"}}, "INVALID_MODEL"),
    "a target's password": ({"target": "s3a://me:word@lake/t"}, "INVALID_MODEL"),
    "no source": ({"sources": {}}, "UNKNOWN_TABLE"),
    "endless SQL": ({"sql": "SELECT 1 -- " + "x" * 1_000_000}, "INVALID_MODEL"),
    "catalog name": ({"sources": {"a": "db.a", "b": "db.b"}}, "CATALOG_NAME"),
}


@pytest.mark.parametrize(("changes", "code"), DECLARED.values(), ids=list(DECLARED))
def test_declarations(model: Model, changes: dict[str, Any], code: str) -> None:
    assert refused(model, **changes).code == code


def test_a_catalog_target_needs_a_session(model: Model) -> None:
    assert refused(model, target="db.t").code == "CATALOG_NAME"


UNSUPPORTED = {
    "window": (f"SELECT a.k,\nrow_number() OVER (ORDER BY b.v) AS r {JOIN}", "WINDOW"),
    "qualify": (f"SELECT a.k {JOIN}\nQUALIFY row_number() OVER (ORDER BY a.k) = 1", "WINDOW"),
    "scalar": (f"SELECT a.k,\n(SELECT c.k FROM c WHERE c.v = a.v) AS m {JOIN}", "SUBQUERY"),
    "types of a union": (f"SELECT\na.k {JOIN} UNION ALL SELECT 'x' FROM c", "SET_OPERATION"),
    "types of a counted set": (f"SELECT\na.k {JOIN} EXCEPT ALL SELECT 'x' FROM c", "SET_OPERATION"),
    "limit": (f"SELECT a.k {JOIN}\nORDER BY a.k LIMIT 3", "LIMIT"),
    "offset": (f"SELECT a.k {JOIN}\nORDER BY a.k OFFSET 3", "LIMIT"),
    "no common partition": (
        "SELECT a.k, b.v,\nrank() OVER (PARTITION BY a.k ORDER BY b.v) AS r, "
        f"count(*) OVER (PARTITION BY b.v) AS n {JOIN}",
        "WINDOW",
    ),
    "window below": (
        "SELECT s.k, b.v FROM (SELECT k,\nrank() OVER (ORDER BY v) AS r FROM a) s "
        "JOIN b ON s.k = b.k",
        "WINDOW",
    ),
    "generator below": (
        "SELECT s.x, b.v FROM (SELECT k, size(\nexplode(list)) AS x FROM a) s JOIN b ON s.x = b.k",
        "GENERATOR",
    ),
    "lateral join": (
        "SELECT a.k, s.n FROM a,\nLATERAL (SELECT count(*) AS n FROM b WHERE b.k < a.k) s",
        "SUBQUERY",
    ),
    "made rows": ("SELECT a.k FROM a JOIN\nexplode(array(1)) AS r ON a.k = 1", "TABLE_FUNCTION"),
    "pivot": ("SELECT * FROM a\nPIVOT (max(v), min(v) FOR k IN (1, 2))", "PIVOT"),
    "correlated": (
        "SELECT a.k FROM a WHERE EXISTS (SELECT\nb.k FROM b WHERE b.v > a.v GROUP BY b.k)",
        "SUBQUERY",
    ),
    "recursive": (
        "WITH RECURSIVE r AS (SELECT k FROM a\nUNION ALL SELECT k + 1 FROM r WHERE k < 3) "
        "SELECT r.k FROM r JOIN b ON r.k = b.k",
        None,
    ),
    "no table": ("SELECT\n1 AS x", "NO_FROM"),
    "replaced star": ("SELECT\na.* REPLACE (1 AS k) FROM a JOIN b ON a.k = b.k", "STAR"),
}


ORDERED = {
    "first": (f"SELECT\nfirst(b.k) AS n {JOIN}", "AGGREGATE_ORDER"),
    "window over groups": (
        f"SELECT a.k,\nrank() OVER (PARTITION BY a.k ORDER BY sum(b.v)) AS r {JOIN} GROUP BY a.k",
        "ORDER_DEPENDENT",
    ),
    "below": (
        "SELECT s.n, a.v FROM (SELECT k,\nfirst(v) AS n FROM b GROUP BY k) s JOIN a ON s.k = a.k",
        "AGGREGATE_ORDER",
    ),
}


@pytest.mark.parametrize(("sql", "code"), ORDERED.values(), ids=list(ORDERED))
def test_what_the_order_of_rows_decides(model: Model, sql: str, code: str) -> None:
    assert refused(model, sql=sql, mode="incremental_strict").code == code


@pytest.mark.parametrize(("sql", "code"), UNSUPPORTED.values(), ids=list(UNSUPPORTED))
def test_what_is_not_kept_incrementally(model: Model, sql: str, code: str | None) -> None:
    """Refused with its line under incremental_strict, planned in full otherwise."""
    with pytest.raises(DeltaJoinError) as caught:
        deltajoin.plan(replace(model, sql=sql, mode="incremental_strict"))
    error = caught.value
    if code is None:
        assert error.code
        return
    assert error.code == code
    assert error.where
    assert error.where.startswith("line")
    assert error.remedy
    for mode in ("auto", "incremental", "full"):
        planned = deltajoin.plan(replace(model, sql=sql, mode=mode))
        assert (planned.strategy, planned.target.kind, planned.graph) == ("full", "plain", None)
    assert not Path(model.target).exists()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.k, `now`.v FROM a JOIN b AS `now` ON a.k = `now`.k",
        "SELECT a.k, b.v AS current_date FROM a JOIN b ON a.k = b.k",
        f"SELECT a.k, 'now' AS x, to_date('2020-01-01') AS d {JOIN}",
        f"SELECT a.k, unix_timestamp(a.t) AS x, CAST('2020-01-01' AS DATE) AS d {JOIN}",
        f"SELECT a.k, CASE WHEN a.k = 1 THEN 'now' ELSE 'later' END AS x {JOIN}",
        f"SELECT a.k, concat(a.v, 'now') AS x {JOIN} WHERE a.v LIKE 'now' OR a.v = concat('now')",
        f"SELECT a.k, CAST('now' AS STRING) AS x {JOIN} WHERE a.v = 'now and then'",
        f"SELECT a.k, '$' AS x, '{{' AS y {JOIN}",
        f"SELECT a.k, concat_ws(',', a.v, b.v) AS x {JOIN} -- now() rand() ; SELECT 2",
        f"SELECT a.k {JOIN};",
        "SELECT a.k FROM a, b WHERE a.k = b.k",
        "SELECT a.k FROM a JOIN b ON a.k < b.k",
        "SELECT k FROM a JOIN b USING (k)",
        "SELECT a.k FROM a\nLEFT JOIN b ON a.k = b.k",
        "SELECT b.k FROM a\nRIGHT OUTER JOIN b ON a.k = b.k",
        "SELECT a.k FROM a\nFULL JOIN b ON a.k = b.k",
        "SELECT k FROM a\nNATURAL LEFT JOIN b",
        "SELECT a.k FROM a\nLEFT SEMI JOIN b ON a.k = b.k",
        "SELECT a.k FROM a\nLEFT ANTI JOIN b ON a.k = b.k",
        f"SELECT a.k\n{JOIN}\nGROUP BY a.k",
        f"SELECT sum(a.k) AS n {JOIN}\nGROUP BY b.k",
        f"SELECT sum(a.k) AS n {JOIN}",
        f"SELECT count(*) AS n {JOIN}\nHAVING count(*) > 1",
        f"SELECT DISTINCT\na.k {JOIN}",
        f"SELECT a.k {JOIN}\nWHERE a.k IN (SELECT c.k FROM c)",
        f"SELECT a.k {JOIN}\nWHERE EXISTS (SELECT 1 FROM c)",
    ],
)
def test_what_only_looks_bad_is_planned(model: Model, sql: str) -> None:
    planned = deltajoin.plan(replace(model, sql=sql, mode="incremental_strict"))
    assert (planned.strategy, planned.reason) == ("full", "FIRST_RUN")


@pytest.mark.parametrize(
    ("part", "code"),
    [
        ("a.v > r'today'", "NON_DETERMINISTIC"),
        ("a.v > 'no' 'w'", "NON_DETERMINISTIC"),
        ("array_contains(fetch, 1)", "UNKNOWN_CLAUSE"),
        ("interval + 1 > 2", "UNKNOWN_CLAUSE"),
        ("coalesce(distinct, a.k) > 1", "UNKNOWN_CLAUSE"),
        ("_metadata.file_path LIKE '%-c000%'", "FILE_METADATA"),
        ("b._Metadata.file_size > 1", "FILE_METADATA"),
        ("array(distinct)[0] > 1", "UNKNOWN_CLAUSE"),
        ("struct(distinct, a.k) IS NULL", "UNKNOWN_CLAUSE"),
        ("coalesce(all, 1) > 1", "UNKNOWN_CLAUSE"),
        ("exists(array(a.v), input -> input > 1)", "UNKNOWN_CLAUSE"),
        ("a.v = b.v <= b.k", "UNKNOWN_CLAUSE"),
    ],
)
def test_what_our_parser_would_read_otherwise_is_rebuilt(
    model: Model, part: str, code: str
) -> None:
    assert rebuilt(model, sql=f"SELECT a.k {JOIN} WHERE {part}").code == code
