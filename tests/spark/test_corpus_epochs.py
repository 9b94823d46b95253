"""Queries of the corpus that are kept, over an epoch: the target is then the user's own text.

The planner and the emitter are the real ones, and Spark runs their statements: all of an epoch as
one query over views of both versions, so that many queries take minutes. What the MERGE does is
done here. Some queries are taken, or all with `--corpus-epochs 0`.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import deltajoin
from deltajoin.catalog import Column, TableState, TargetState, load_source
from deltajoin.catalog.target import TargetCommit
from deltajoin.delta.build import Inputs, build_plan
from deltajoin.delta.format import RULES
from deltajoin.delta.plan import DeltaPlan, Target
from deltajoin.emit.kept_groups import TARGET_STORED
from deltajoin.emit.sql import Program, build_program
from deltajoin.emit.write import TO_WRITE
from deltajoin.names import COUNT, OPERATION, SHOWN, WEIGHT
from tests.property.oracle import views_of
from tests.spark.corpus import KEYS, TABLES, Database, corpus, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JOB = 4
Rows = Counter[tuple[str | None, ...]]
#: What Spark or the rows themselves leave open.
OPEN: frozenset[str] = frozenset()


def test_an_epoch_of_written_queries(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    number, seed = (request.config.getoption(name) for name in ("--corpus-epochs", "--seed"))
    epochs = Epochs.create(spark, tmp_path)
    names = [name for name in corpus() if name not in OPEN]
    step = max(1, len(names) // number) if number else 1
    how: Counter[str] = Counter()
    problems = []
    some: list[Epoch] = []
    for name in names[seed % step :: step]:
        epoch = epochs.plan(name, corpus()[name], how)
        some += [epoch] if epoch else []
        if len(some) == JOB or name == names[-1]:
            problems += epochs.compare(some)
            print(f"{name}: {dict(how)}, {len(problems)} wrong", flush=True)
            some = []
    problems += epochs.compare(some)
    assert not problems, "\n".join([f"{len(problems)}:", *problems])
    assert how["incremental"] >= 0.6 * how.total()


@dataclass(frozen=True)
class Epoch:
    """A query, its target, and the statements of its first build and of an epoch."""

    name: str
    sql: str
    target: Target
    first: Program
    program: Program

    @property
    def to_write(self) -> str:
        """The epoch's statements as one query; "" where no path is left."""
        views = views_of(self.program)
        if not views:
            return ""
        views.insert(0, (TARGET_STORED, self.first.full or ""))
        head = ", ".join(f"{quoted(name)} AS ({sql})" for name, sql in views)
        return f"WITH {head} {self.program.fold}"


@dataclass(frozen=True)
class Epochs:
    """The tables before and after a change, in a session that has views of both."""

    before: dict[str, TableState]
    after: dict[str, TableState]
    session: SparkSession
    views: dict[str, tuple[str, int]]

    @classmethod
    def create(cls, spark: SparkSession, folder: Path) -> Epochs:
        """The tables below a folder; the session reads them as they are after the change."""
        before = Database.create(spark, folder)
        change(folder)
        after = {name: load_source(name, str(folder / name)) for name in TABLES}
        for name in TABLES:
            before.session.table(quoted(name)).createOrReplaceTempView(quoted(f"{name} before"))
        for name, state in after.items():
            rows = before.session.createDataFrame(DeltaTable(state.location).to_pyarrow_table())
            types = [
                f"CAST({quoted(c.name)} AS {c.type}) AS {quoted(c.name)}" for c in state.columns
            ]
            rows.selectExpr(*types).createOrReplaceTempView(quoted(name))
        return cls(before.states, after, before.session, {})

    def plan(self, name: str, sql: str, how: Counter[str]) -> Epoch | None:
        """An epoch of a query; None where it is not kept, or shows the clock."""
        model = deltajoin.Model(
            name=name,
            sql=sql,
            sources={name: state.location for name, state in self.before.items()},
            target="/nowhere/target",
            keys=KEYS,
            mode="incremental",
        )
        try:
            first = build_plan(model, Inputs(self.before, "/nowhere/target", None, backing=False))
            if first.graph is None or first.clock or first.graph.stamps:
                how["not kept" if first.graph is None else "by the clock"] += 1
                return None
            built = _built(first)
            plan = build_plan(model, Inputs(self.after, "/nowhere/target", built, backing=False))
        except deltajoin.DeltaJoinError as error:
            how[error.code] += 1
            return None
        how[plan.strategy if plan.strategy != "full" else plan.reason] += 1
        if plan.strategy != "incremental":
            return None
        epoch = Epoch(name, sql, plan.target, build_program(first), build_program(plan))
        self._open(epoch)
        return epoch

    def _open(self, epoch: Epoch) -> None:
        """Views of what the statements read: whole versions, also for some of their files."""
        found = {}
        for program in (epoch.first, epoch.program):
            found |= {scan.view: (scan.location, scan.version) for scan in program.scans}
            for feed in program.feeds:
                found |= {read.view: (feed.location, read.version) for read in feed.reads}
        names = {state.location: name for name, state in self.before.items()}
        for view, (location, version) in found.items():
            if self.views.get(view) != (location, version):
                name = names[location]
                after = version == self.after[name].version
                rows = self.session.table(quoted(name if after else f"{name} before"))
                rows.createOrReplaceTempView(quoted(view))
                self.views[view] = (location, version)

    def compare(self, some: list[Epoch]) -> list[str]:
        """What is wrong with some epochs, which are computed in one job; or one by one."""
        if not some:
            return []
        try:
            found = self._read([side for epoch in some for side in self._sides(epoch)])
            return [text for epoch in some if (text := _problem(epoch, found))]
        except Exception as error:
            if len(some) > 1:
                return [text for epoch in some for text in self.compare([epoch])]
            try:
                self.session.sql(some[0].sql).collect()
            except Exception:  # what Spark refuses over the rows that came
                return []
            return [f"{some[0].name}: {str(error)[:300]}\n    {some[0].sql}"]

    def _sides(self, epoch: Epoch) -> list[DataFrame]:
        texts = {"before": epoch.first.full or "", TO_WRITE: epoch.to_write, "wanted": epoch.sql}
        return [
            _as_texts(self.session.sql(sql), f"{epoch.name} {side}")
            for side, sql in texts.items()
            if sql
        ]

    def _read(self, sides: list[DataFrame]) -> dict[str, list[dict[str, str | None]]]:
        whole = sides[0]
        for side in sides[1:]:
            whole = whole.unionAll(side)
        rows: dict[str, list[dict[str, str | None]]] = {}
        for label, names, values in whole.collect():
            named = (bytes(name).decode() for name in names)
            rows.setdefault(label, []).append(dict(zip(named, values, strict=True)))
        return rows


def _built(plan: DeltaPlan) -> TargetState:
    """The target that a first build leaves."""
    target = plan.target
    record: dict[str, Any] = {
        "epoch": 1,
        "fingerprint": plan.fingerprint,
        "columns": list(target.visible),
        "hidden": list(target.hidden),
        "kind": target.kind,
        "format": 1,
        "rules": RULES,
        "frontier": plan.frontier(),
        "settings": {},
        "strategy": "full",
    }
    commit = TargetCommit(1, 0, "WRITE", {}, json.dumps({"deltajoin": record}), True)
    names = (*target.visible, *target.hidden, *((COUNT,) if target.kind == "bag" else ()))
    columns = tuple(Column(name, "string", True) for name in names)
    properties = (("deltajoin.format", "1"), ("deltajoin.model", plan.model))
    return TargetState("/nowhere/target", "id", 1, columns, properties, (commit,))


def _as_texts(rows: DataFrame, label: str) -> DataFrame:
    """(label, names, texts of the values) of rows of any type."""
    places = [f"c{i}" for i in range(len(rows.columns))]
    values = [
        f"hex({place})" if field.dataType.simpleString() == "binary" else f"CAST({place} AS STRING)"
        for place, field in zip(places, rows.schema, strict=True)
    ]
    names = ", ".join(f"unhex('{name.encode().hex()}')" for name in rows.columns)
    texts = (f"array({names})", f"array({', '.join(values)})")
    return rows.toDF(*places).selectExpr(f"'{label}'", *texts)


def _problem(epoch: Epoch, found: dict[str, list[dict[str, str | None]]]) -> str:
    """How the target after the epoch differs from the query; "" where it doesn't."""
    before, written, wanted = (
        found.get(f"{epoch.name} {side}", []) for side in ("before", TO_WRITE, "wanted")
    )
    target = epoch.target
    rows = _merged(before, written, target)
    shown = [row for row in rows if row.get(SHOWN) in (None, "true")]
    ours = _counted(shown, target.visible)
    theirs = _counted(wanted, target.visible)
    if ours == theirs:
        return ""
    missing, more = theirs - ours, ours - theirs
    return f"{epoch.name}: {missing} missing, {more} too many\n    {epoch.sql}"


def _merged(
    before: list[dict[str, str | None]], written: list[dict[str, str | None]], target: Target
) -> list[dict[str, str | None]]:
    """The target's rows once the MERGE has been there; of a bag with their number."""
    by = target.key or target.stored
    rows = {tuple(row[name] for name in by): row for row in before}
    for row in written:
        place = tuple(row[name] for name in by)
        if target.kind == "bag":
            number = int(rows.get(place, {}).get(COUNT) or 0) + int(row[WEIGHT] or 0)
            rows[place] = {**row, COUNT: str(number)}
            assert number >= 0, f"{row} goes and is not there"
        else:
            assert (row[OPERATION] == "insert") == (place not in rows), row
            rows[place] = row
        if row.get(OPERATION) == "delete" or rows[place].get(COUNT) == "0":
            del rows[place]
    return list(rows.values())


def _counted(rows: list[dict[str, str | None]], names: tuple[str, ...]) -> Rows:
    found: Rows = Counter()
    for row in rows:
        found[tuple(row[name] for name in names)] += int(row.get(COUNT) or 1)
    return found


def change(folder: Path) -> None:
    """Rows of every table: updated keys and values, deleted, appended, duplicated."""
    t, u, v, odd = (DeltaTable(str(folder / name)) for name in TABLES)
    t.update(predicate="id = 1", updates={"k": "3"})
    t.update(predicate="id = 2", updates={"g": "'a'", "b": "true", "d": "0.0", "h": "NULL"})
    t.update(predicate="id = 3", updates={"d": "-0.0", "f": "-0.0", "l": "7"})
    t.delete("id = 4")
    _append(folder, "t", [1, 6], {"id": [9, 10], "k": [2, None]})
    u.update(predicate="k = 1", updates={"name": "'Zoe'", "x": "2"})
    u.delete("k = 2 AND x IS NULL")
    _append(folder, "u", [1, 1], {"k": [9, 2], "name": ["Nine", "Bo  b"]})
    v.delete("id = 2")
    v.update(predicate="k = 1", updates={"amount": "amount + 1", "kind": "'open'"})
    _append(folder, "v", [0, 5], {"id": [8, 9], "k": [4, 1]})
    odd.update(predicate='"select" = 1', updates={"New York": "NULL"})
    _append(folder, "odd names", [1], {"select": [3]})


def _append(folder: Path, table: str, like: list[int], values: dict[str, list[object]]) -> None:
    """Copies of some rows with other values."""
    rows = TABLES[table].take(like)
    for name, column in values.items():
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, name, pa.array(column, rows.schema.field(name).type))
    write_deltalake(str(folder / table), rows, mode="append")
