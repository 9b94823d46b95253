"""Random models over real Delta tables: after every epoch the target is the query.

delta-rs writes the tables (appends, deletes, updates, merges, several commits between two runs; in
between OPTIMIZE, overwrites and reloads of the same rows), most of them with a change feed;
`deltajoin.run` follows, never rebuilding. Each epoch is compared with DuckDB's
result of the query, the last of each model also with Spark's own, through `deltajoin.read`.
`--models N` gives more models; each has four epochs and a seed in its name, and for every four of
them there is one of the written queries.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import deltajoin
from deltajoin.delta import lookup_paths
from deltajoin.names import SHOWN
from deltajoin.planner import lookup
from deltajoin.runtime import narrowing
from deltajoin.runtime.own_session import FEW_ROWS_SETTING
from deltajoin.sql.bind import bind
from tests.property.cases import Case, Commit, Row, State, Table, play, quote, render_sql
from tests.property.generate import Profile
from tests.property.oracle import arrow_schema, draw, full_rows
from tests.property.test_written import history_of, written
from tests.property.trees import generate_tree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPOCHS = 4
RID = "rid__"
FIRST_SEED = 1


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    models = metafunc.config.getoption("--models")
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(FIRST_SEED, FIRST_SEED + models))
    if "written_seed" in metafunc.fixturenames:
        metafunc.parametrize("written_seed", range(FIRST_SEED, FIRST_SEED + max(1, models // 4)))


def profile_of(seed: int) -> Profile:
    return Profile(epochs=(EPOCHS, EPOCHS), hard_names=False, stars=False, keyed=seed % 2 == 0)


@pytest.fixture(autouse=True)
def some_lookups_are_narrowed(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every target is large, and every table for half of the seeds; for half of these no value is
    taken, for the other half and more all are listed."""
    seed = next(iter(request.node.callspec.params.values()))
    monkeypatch.setattr(narrowing, "_MANY", 0)
    if seed % 2:
        for module in (lookup, lookup_paths):
            monkeypatch.setattr(module, "LARGE_TABLE_ROWS", 0)
    if seed % 4 == 1:
        monkeypatch.setattr(narrowing, "_TAKEN", 0)
    elif seed % 4:
        monkeypatch.setattr(narrowing, "RANGES", 1)


def test_every_epoch_equals_the_query(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    follow(draw(seed, profile_of(seed)), spark, tmp_path)


def test_every_epoch_of_a_tree_equals_the_query(
    seed: int, spark: SparkSession, tmp_path: Path
) -> None:
    """Outer, semi and anti joins, aggregates and DISTINCT."""
    follow(kept_tree(seed, profile_of(seed)), spark, tmp_path, compiles=16)


def kept_tree(seed: int, profile: Profile) -> Case:
    """The first random tree from a seed on that is kept incrementally."""
    for attempt in range(20):
        case = draw(seed + 1_000 * attempt, replace(profile, averages=False), generate_tree)
        types = {(t.name, name): kind for t in case.tables for name, kind in t.columns}
        if bind(case.query, {t.name: t.names for t in case.tables}, types).graph is not None:
            return case
    raise AssertionError("no tree is kept incrementally")


def test_every_epoch_of_a_written_query_equals_the_query(
    written_seed: int, spark: SparkSession, tmp_path: Path
) -> None:
    queries = written()
    query = queries[(written_seed - 1) * 7 % len(queries)]
    follow(replace(history_of(query, written_seed), seed=written_seed), spark, tmp_path)


def follow(
    case: Case,
    spark: SparkSession,
    tmp_path: Path,
    compiles: int = 8,
    given: SparkSession | None = None,
    writer: DeltaRs | None = None,
    **options: Any,
) -> None:
    """Run the model of a case after every epoch, and compare; one in so many compiles its plans.

    `given`: the session of the runs, in place of a quick or a compiling one. `writer`: of the
    sources. `options`: of the model.
    """
    writer = writer or DeltaRs(tmp_path)
    seed, random = case.seed, Random(case.seed)
    sql, state = render_sql(case), case.initial()
    names = {t.name: t.names for t in case.tables}
    used = sorted(bind(sql, names).tables)
    for table in case.tables:
        writer.create(table, feed=random.random() < 0.6)
    model = deltajoin.Model(
        name=f"model_{seed}",
        sql=sql,
        sources={name: str(tmp_path / name) for name in used},
        target=str(tmp_path / "target"),
        keys={t.name: t.key for t in case.tables if t.key and t.name in used},
        mode="incremental",
        **options,
    )
    started = time.monotonic()
    session = given or (quick(spark) if seed % compiles else compiled(spark))
    first = deltajoin.run(model, session)
    assert (first.strategy, first.reason) == ("full", "FIRST_RUN")
    before = full_rows(case, sql, state)
    changed, kept, last = 0, 0, state
    methods: Counter[str] = Counter()
    for number, epoch in enumerate(case.epochs):
        for commit in epoch:
            state, _ = play(state, commit)
            writer.write(case, commit)
        compacted = random.random() < 0.4
        if compacted:
            writer.compact(random.choice(used))
        again = case.table(random.choice(used))
        reloaded = random.random() < 0.2 and bool(state[again.name])
        if reloaded:
            writer.reload(again, state, random)

        record = deltajoin.run(model, session)

        committed = reloaded or any(commit.table in used for commit in epoch)
        moved = reloaded or any(state[name] != last[name] for name in used)
        if record.reason != "NO_SCOPE":
            likely = ("incremental",) if moved else ("incremental", "noop")
            assert record.strategy in (likely if committed else ("noop",)), record.detail
        last, kept = state, kept + (record.strategy != "full")
        wanted = full_rows(case, sql, state)
        found = target_rows(model, record)
        assert found == wanted, f"seed {seed}, epoch {number}: {sql}\n{record.to_dict()}"
        changed, before = changed + (wanted != before), wanted
        methods += Counter(at["method"] for at in record.frontier.values() if at["method"])
    if seed % 3 == 0:
        for name in used:
            writer.compact(name)
        assert deltajoin.run(model, session).strategy == "noop"
    assert Counter(map(tuple, deltajoin.read(model, spark).collect())) == before
    assert spark_rows(spark, case, sql, tmp_path) in (before, None)
    print(
        f"\nseed {seed}: {first.kind}, {len(used)} tables, "
        f"{changed} of {len(case.epochs)} epochs change the target, {kept} incremental, "
        f"read by {dict(methods)}, {time.monotonic() - started:.1f} s"
    )


def another(spark: SparkSession) -> SparkSession:
    """A further session, classic or on a Spark Connect server."""
    if hasattr(spark, "newSession"):
        return spark.newSession()
    assert spark.version  # a server can clone a session from its first request on
    clone: SparkSession = spark.cloneSession()
    return clone


def quick(spark: SparkSession) -> SparkSession:
    """A session for a dozen rows, whose plans stay as they were made."""
    session = another(spark)
    session.conf.set("spark.sql.adaptive.enabled", "false")
    session.conf.set("spark.sql.shuffle.partitions", "1")
    return session


def compiled(spark: SparkSession) -> SparkSession:
    """A session that compiles its plans, as Spark does where it isn't told otherwise."""
    session = another(spark)
    # Set, not unset: a run takes over what its caller has set.
    session.conf.set("spark.sql.codegen.wholeStage", "true")
    session.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
    session.conf.set(FEW_ROWS_SETTING, "0")
    return session


def as_arrow(table: Table, rows: list[tuple[int, Row]], **extra: list[str]) -> pa.Table:
    schema = arrow_schema(table.columns)
    columns = {RID: pa.array([rid for rid, _ in rows], pa.int64())}
    for i, field in enumerate(schema):
        columns[field.name] = pa.array([row[i] if row else None for _, row in rows], field.type)
    texts = {name: pa.array(values, pa.string()) for name, values in extra.items()}
    return pa.table({**columns, **texts})


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else f"'{value}'"


class DeltaRs:
    """Who writes the sources, below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def create(self, table: Table, *, feed: bool) -> None:
        """The table at its first version; `rid__` gives its rows an identity that no query uses."""
        rows = as_arrow(table, list(table.rows))
        configuration = {"delta.enableChangeDataFeed": str(feed).lower()}
        write_deltalake(str(self.root / table.name), rows, configuration=configuration)

    def compact(self, name: str) -> None:
        """OPTIMIZE."""
        DeltaTable(str(self.root / name)).optimize.compact()

    def reload(self, table: Table, state: State, random: Random) -> None:
        """The table's rows as they are, written anew: truncated and loaded, or replaced."""
        rows = as_arrow(table, list(state[table.name].items()))
        target = DeltaTable(self.root / table.name)
        if random.random() < 0.5:
            target.delete()
            write_deltalake(target, rows, mode="append")
        else:
            whole = random.choice((None, "overwrite"))
            write_deltalake(target, rows, mode="overwrite", schema_mode=whole)

    def write(self, case: Case, commit: Commit) -> None:
        """One commit on a table: an append, a delete, an update or a merge."""
        table, target = case.table(commit.table), DeltaTable(str(self.root / commit.table))
        kinds = {change.kind for change in commit.changes}
        rids = [change.rid for change in commit.changes]
        rows = [(change.rid, change.row) for change in commit.changes]
        if kinds == {"insert"}:
            write_deltalake(target, as_arrow(table, rows), mode="append")
        elif kinds == {"delete"}:
            target.delete(f"{RID} IN ({', '.join(map(str, rids))})")
        elif len(rows) == 1:
            values = dict(zip(table.names, rows[0][1], strict=True))
            updates = {f'"{name}"': literal(value) for name, value in values.items()}
            target.update(predicate=f"{RID} = {rids[0]}", updates=updates)
        else:
            source = as_arrow(table, rows, op=[change.kind for change in commit.changes])
            new = {f'"{name}"': f's."{name}"' for name in (RID, *table.names)}
            (
                target.merge(source, f"t.{RID} = s.{RID}", source_alias="s", target_alias="t")
                .when_matched_delete("s.op = 'delete'")
                .when_matched_update(new, "s.op = 'update'")
                .when_not_matched_insert(new)
                .execute()
            )


def target_rows(model: deltajoin.Model, record: Any) -> Counter[Any]:
    """The rows of the target, read without Spark; a bag with its multiplicities."""
    from deltalake import QueryBuilder

    table = DeltaTable(model.target)
    shown = any(field.name == SHOWN for field in table.schema().fields)
    query = f"SELECT * FROM t WHERE {SHOWN}" if shown else "SELECT * FROM t"
    stored = pa.table(QueryBuilder().register("t", table).execute(query).read_all())
    hidden = (record.hidden or ()) if record.kind == "bag" else ()
    rows = stored.select([*record.columns, *hidden, *_count(record.kind)])
    tuples = [tuple(column) for column in zip(*(c.to_pylist() for c in rows.columns), strict=True)]
    if record.kind != "bag":
        return Counter(tuples)
    assert len({row[:-1] for row in tuples}) == len(tuples)
    counted: Counter[Any] = Counter()
    for row in tuples:
        counted[row[: len(record.columns)]] += row[-1]
    return counted


def _count(kind: str) -> list[str]:
    return ["__deltajoin_count"] if kind == "bag" else []


def spark_rows(spark: SparkSession, case: Case, sql: str, root: Path) -> Counter[Any] | None:
    """Spark's own result of the user's query; None where Spark refuses it: in `k.x`, of a table `k`
    with a column `k` that USING has joined, it looks for a field of the column."""
    from pyspark.errors import AnalysisException

    own = another(spark)
    for table in case.tables:
        rows = own.read.format("delta").load(str(root / table.name))
        rows.createOrReplaceTempView(quote(table.name))
    try:
        return Counter(map(tuple, own.sql(sql).collect()))
    except AnalysisException as error:
        if error.getCondition() != "INVALID_EXTRACT_BASE_FIELD_TYPE":
            raise
        return None
