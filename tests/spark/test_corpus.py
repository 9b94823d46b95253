"""Written queries of every shape: the full build gives what Spark gives for the user's own text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.corpus import Database, compare, corpus, prepare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH, JOB = 30, 6
QUERIES = corpus()
BATCHES = {
    f"{stem}-{first}": [name for name in names[first : first + BATCH]]
    for stem in sorted({name.rsplit("-", 1)[0] for name in QUERIES})
    for names in [[name for name in QUERIES if name.rsplit("-", 1)[0] == stem]]
    for first in range(0, len(names), BATCH)
}


@pytest.fixture(scope="module")
def database(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Database:
    return Database.create(spark, tmp_path_factory.mktemp("corpus"))


@pytest.mark.parametrize("batch", BATCHES)
def test_the_full_build_is_what_was_written(batch: str, database: Database) -> None:
    names = BATCHES[batch]
    results = []
    for first in range(0, len(names), JOB):
        some = [prepare(database, name, QUERIES[name]) for name in names[first : first + JOB]]
        compare(some)
        results += some
    problems = [f"{r.name}: {r.problem}\n    {r.sql}" for r in results if r.problem]
    assert not problems, "\n".join([f"{len(problems)} of {len(results)}:", *problems])
