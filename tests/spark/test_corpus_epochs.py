"""Queries of the corpus kept over two epochs: after each the target is the user's own text.

Every few queries of each family that are kept; all of them share their tables, which change in rows
of every kind: updated keys and values, deleted, appended, duplicated. `--models N` takes more.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import deltajoin
from tests.spark.corpus import KEYS, TABLES, Database, as_texts, corpus, quoted, read_texts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltajoin.model import Model

FAMILIES = ("clauses", "groups", "joins", "precedence", "stars", "windows")


def test_two_epochs_of_written_queries(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    database = Database.create(spark, tmp_path)
    models = chosen(database, tmp_path, 3 * request.config.getoption("--models"))
    for model in models:
        assert deltajoin.run(model, database.session).strategy == "full"
    how: Counter[str] = Counter()
    for change in (first_change, second_change):
        change(tmp_path)
        for name in TABLES:
            rows = database.session.read.format("delta").load(str(tmp_path / name))
            rows.createOrReplaceTempView(quoted(name))
        for model in models:
            record = deltajoin.run(model, database.session)
            wanted = as_texts(database.session.sql(model.sql), "wanted")
            found = as_texts(deltajoin.read(model, database.session), "found")
            rows_of = read_texts([wanted, found])
            assert rows_of.get("found") == rows_of.get("wanted"), (model.name, model.sql)
            how[f"{record.strategy} {record.reason if record.strategy == 'full' else ''}"] += 1
    print(f"\n{len(models)} queries over two epochs: {dict(how)}")
    assert how["incremental "] >= 0.8 * how.total()


def chosen(database: Database, folder: Path, number: int) -> list[Model]:
    """Models of kept queries, from every part of each family."""
    queries = [(name, sql) for name, sql in corpus().items() if name.split("-")[0] in FAMILIES]
    step = max(1, 2 * len(queries) // (3 * number))
    models: list[Model] = []
    for name, sql in queries[::step]:
        try:
            plan = database.plan(sql)
        except deltajoin.DeltaJoinError:
            continue
        if plan.graph is not None and plan.sources and len(models) < number:
            used = {source.source for source in plan.sources}
            models.append(
                deltajoin.Model(
                    name=name,
                    sql=sql,
                    sources={source: str(folder / source) for source in sorted(used)},
                    target=str(folder / "targets" / name),
                    keys={table: key for table, key in KEYS.items() if table in used},
                )
            )
    return models


def first_change(folder: Path) -> None:
    t, u, v = (DeltaTable(str(folder / name)) for name in "tuv")
    t.update(predicate="id = 1", updates={"k": "3"})
    t.delete("id = 4")
    _append(folder, "t", [1, 6], {"id": [9, 10], "k": [2, None]})
    u.update(predicate="k = 1", updates={"name": "'Zoe'", "x": "2"})
    _append(folder, "u", [1, 1], {"k": [9, 2], "name": ["Nine", "Bo  b"]})
    v.delete("id = 2")
    _append(folder, "v", [0], {"id": [8], "k": [4]})


def second_change(folder: Path) -> None:
    t, u, v = (DeltaTable(str(folder / name)) for name in "tuv")
    t.update(predicate="k = 1 OR id = 9", updates={"g": "'a'", "b": "true"})
    t.delete("id = 6")
    u.delete("k = 2 AND x IS NULL")
    v.update(predicate="k = 1", updates={"amount": "amount + 1", "kind": "'open'"})
    _append(folder, "v", [5, 6], {"id": [9, 10]})


def _append(folder: Path, table: str, like: list[int], values: dict[str, list[object]]) -> None:
    """Copies of some rows with other values."""
    rows = TABLES[table].take(like)
    for name, column in values.items():
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, name, pa.array(column, rows.schema.field(name).type))
    write_deltalake(str(folder / table), rows, mode="append")
