"""Written queries of every shape: the full build gives what Spark gives for the user's own text.

What Spark refuses is refused here too; what it runs is run. The last test prints how: kept from the
query's graph, or run as written, and why.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.spark.corpus import Database, Result, compare, corpus, prepare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH, JOB, LEAST = 40, 8, 600
QUERIES = corpus()


def _batches() -> dict[str, list[str]]:
    families: dict[str, list[str]] = {}
    for name in QUERIES:
        families.setdefault(name.rsplit("-", 1)[0], []).append(name)
    return {
        f"{family}-{first + 1}": names[first : first + BATCH]
        for family, names in families.items()
        for first in range(0, len(names), BATCH)
    }


BATCHES = _batches()
SEEN: list[Result] = []


@pytest.fixture(scope="module")
def database(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Database:
    return Database.create(spark, tmp_path_factory.mktemp("corpus"))


@pytest.mark.parametrize("batch", BATCHES)
def test_the_full_build_is_what_was_written(batch: str, database: Database) -> None:
    names, results = BATCHES[batch], []
    for first in range(0, len(names), JOB):
        some = [prepare(database, name, QUERIES[name]) for name in names[first : first + JOB]]
        compare(some)
        results += some
    SEEN.extend(results)
    if not batch.startswith("errors"):
        for result in results:
            result.problem = result.problem or result.error
    problems = [f"{r.name}: {r.problem}\n    {r.sql}" for r in results if r.problem]
    assert not problems, "\n".join([f"{len(problems)} of {len(results)}:", *problems])


def test_most_are_kept_and_none_is_refused() -> None:
    ran = [result for result in SEEN if not result.error]
    kept = [result for result in ran if result.how == "kept"]
    why = Counter(result.code for result in ran if result.how == "written")
    refused = Counter(result.code for result in ran if result.how == "refused")
    print(f"\n{len(SEEN)} queries, {len(ran)} run: {len(kept)} kept, {why.total()} as written")
    print(f"as written: {dict(why.most_common())}; refused: {dict(refused)}")
    assert not refused
    if len(SEEN) == len(QUERIES):
        assert len(ran) >= LEAST
        assert len(kept) >= 0.6 * len(ran)
