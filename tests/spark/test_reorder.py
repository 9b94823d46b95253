"""Nested joins as Spark reads them: the rows of the query as written, on small tables."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from deltajoin.planner.enumerate import exact_plan
from tests.property.join_queries import (
    COLUMNS,
    TABLES,
    WrongSizes,
    combiner_of,
    database,
    draw,
    literal_rows,
    plan_sql,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = 24


def test_plans_give_the_same_rows_on_spark(spark: SparkSession) -> None:
    session = spark.newSession()
    for name in (f"t{number}" for number in range(TABLES)):
        rows = database().execute(f"SELECT {', '.join(COLUMNS)} FROM {name}").fetchall()
        session.createDataFrame(rows, "k INT, v INT").createOrReplaceTempView(name)
    kinds: set[str] = set()
    for seed in range(QUERIES):
        graph = draw(seed)
        combiner = combiner_of(graph, WrongSizes(None, seed))
        sql = plan_sql(graph, combiner.graph, exact_plan(combiner))
        rows = Counter(tuple(row) for row in session.sql(sql).collect())
        assert rows == literal_rows(graph), f"seed {seed}: {sql}"
        kinds |= {edge.kind for edge in combiner.graph.edges}
    assert kinds == {"inner", "left", "full", "semi", "anti"}
