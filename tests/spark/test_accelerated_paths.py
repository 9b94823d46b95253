"""Changes of either side of a join that no equality makes: they enter the other side by the whole
condition, which an accelerator serves, under left, semi and anti joins."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

import deltajoin
from deltajoin.accelerate import choose
from tests.spark.test_accelerated import CONDITIONS, SCHEMA, Character
from tests.spark.test_narrowing import as_written, shown

#: Kind -> a condition; `inequality` last, whose accelerator serves no left join.
BY_KIND = {
    "range": "a.lo >= b.lo AND (a.lo < b.hi OR b.hi IS NULL)",
    "distance": CONDITIONS["distance"][2],
    "array": CONDITIONS["array"][0],
    "similarity": CONDITIONS["similarity"][1],
    "prefix": CONDITIONS["prefix"][0],
    "inequality": CONDITIONS["inequality"][0],
}
ROWS = Character(starts=range(-4, 9), nulls=0.1)
JOINS = """
SELECT 'left' AS part, a.id, b.id AS other FROM a LEFT JOIN b ON {on}
UNION ALL SELECT 'semi', a.id, CAST(NULL AS INT) FROM a LEFT SEMI JOIN b ON {on}
UNION ALL SELECT 'anti', a.id, CAST(NULL AS INT) FROM a LEFT ANTI JOIN b ON {on}"""


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[] if kind == "prefix" else pytest.mark.thorough)
        for kind in BY_KIND
    ],
)
def test_either_side_changes(
    kind: str, spark: SparkSession, tmp_path: Path, thorough: bool
) -> None:
    source = random.Random(kind)
    places = {name: str(tmp_path / name) for name in "ab"}

    def rows(numbers: range) -> Any:
        made = [(0, number, *ROWS.row(source)) for number in numbers]
        return spark.createDataFrame(made, SCHEMA).coalesce(1)

    for place in places.values():
        rows(range(12)).write.format("delta").save(place)
    tables = {name: f"delta.`{place}`" for name, place in places.items()}
    text = JOINS.format(on=BY_KIND[kind])
    model = deltajoin.Model(
        "m", text, places, str(tmp_path / "t"), {"a": ("id",), "b": ("id",)}, mode="incremental"
    )
    with patch.object(choose, "FEW_PAIRS", 0), patch.object(choose, "FEW_PER_KEY", 0):
        deltajoin.run(model, spark)
        for changed in "ba" if thorough else "b":
            table = tables[changed]
            spark.sql(f"DELETE FROM {table} WHERE id % 5 = 1")
            spark.sql(f"UPDATE {table} SET lo = lo + 2, hi = lo + 5, p = p + 0.4 WHERE id % 5 = 2")
            spark.sql(f"UPDATE {table} SET s = substr(s, 1, 1), arr = array(lo) WHERE id % 5 = 3")
            rows(range(12, 15)).write.format("delta").mode("append").save(places[changed])
            record = deltajoin.run(model, spark).to_dict()
            assert record["strategy"] == "incremental"
            first = [path["steps"][0] for path in record["paths"]]
            if changed == "b":
                assert {step["kind"] for step in first} == {"enter"}
                assert {step["accelerated"]["kind"] for step in first} == {kind}
            rows_kept = deltajoin.read(model, spark)
            assert shown(rows_kept) == as_written(spark, tables, text)
    parts = {row["part"] for row in rows_kept.select("part").distinct().collect()}
    assert parts == {"left", "semi", "anti"}
