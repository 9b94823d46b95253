"""Tables in a catalog beside Spark's own, by names of three parts, as Unity Catalog has them.

The catalog is a small class over Delta's, compiled by the Java compiler that Spark ships; like
Unity's open one it knows no views.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import deltajoin
from deltajoin.places import Sessions, known_as
from tests.spark.shop import BAG, SQL, as_rows, expected, open_shop

LAKE = """
    public class LakeCatalog extends org.apache.spark.sql.delta.catalog.DeltaCatalog {
      public LakeCatalog() {
        setDelegateCatalog(org.apache.spark.sql.classic.SparkSession$.MODULE$.active()
          .sessionState().catalogManager().v2SessionCatalog());
      }
      public String name() { return "lake"; }
    }"""


@pytest.fixture
def lake(spark: Any) -> Iterator[Any]:
    """A session with a catalog `lake` that has a schema `sales`."""
    java = spark._jvm
    thread = java.java.lang.Thread.currentThread()
    before = thread.getContextClassLoader()
    compiler = java.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(before)
    compiler.cook(LAKE)
    thread.setContextClassLoader(compiler.getClassLoader())
    own = spark.newSession()
    own.conf.set("spark.sql.catalog.lake", "LakeCatalog")
    own.sql("CREATE SCHEMA lake.sales")
    yield own
    own.sql("DROP SCHEMA lake.sales CASCADE")
    thread.setContextClassLoader(before)


def test_sources_and_target_by_three_names(lake: Any, tmp_path: Path) -> None:
    shop = open_shop(tmp_path)
    for table in ("orders", "customers"):
        lake.sql(f"CREATE TABLE lake.sales.{table} USING delta LOCATION '{shop.path(table)}'")
    sources = {"orders": "lake.sales.orders", "customers": "`lake`.sales.customers"}
    model = shop.model(sources=sources, target="lake.sales.wide")
    assert deltajoin.run(model, lake).strategy == "full"
    shop.append("orders", (100, 1, 5))
    assert deltajoin.run(model, lake).strategy == "incremental"
    assert deltajoin.run(model, lake).strategy == "noop"
    for frame in (lake.table("lake.sales.wide"), deltajoin.read(model, lake)):
        assert as_rows(frame.toArrow()) == expected(shop, SQL)
    assert lake.sql("SHOW TABLES IN lake.sales").count() == 3

    lake.sql("USE lake.sales")
    here = shop.model(sources={"orders": "orders", "customers": "customers"}, target="here")
    assert deltajoin.run(here, lake).strategy == "full"
    assert as_rows(lake.table("lake.sales.here").toArrow()) == expected(shop, SQL)


def test_a_chain_by_short_and_by_full_names(lake: Any, tmp_path: Path) -> None:
    """Each model reads the last one's target, which is not there yet."""
    shop = open_shop(tmp_path)
    lake.sql("USE lake.sales")
    models = [shop.model(name="z", target="wide")]
    for number, name in enumerate(("wide", "sales.wide", "lake.sales.wide")):
        sources, keys = {"wide": name}, {"wide": ["order_id"]}
        chained = shop.model(
            name=f"a{number}", sql="SELECT * FROM wide", sources=sources, keys=keys
        )
        models.append(replace(chained, target=str(tmp_path / chained.name)))
    runs = deltajoin.run_all(models, lake).runs
    assert [(one.model, one.code) for one in runs] == [
        (name, "FIRST_RUN") for name in ("z", "a0", "a1", "a2")
    ]


def test_names_of_one_table_and_of_another(lake: Any) -> None:
    """None of them is there yet."""

    def names(name: str) -> frozenset[str]:
        return known_as(name, Sessions(lake))

    lake.sql("USE lake.sales")
    short = names("wide")
    for name in ("WIDE", "`sales`.wide", "lake.sales.wide"):
        assert names(name) == short
    for name in ("spark_catalog.sales.wide", "lake.other.wide", "other.wide", "other.sales.wide"):
        assert not names(name) & short
    lake.sql("USE spark_catalog.default")
    assert names("sales.wide") == names("spark_catalog.sales.wide")
    assert names("wide") == names("Spark_Catalog.default.wide")
    assert names("lake.sales.wide") == short


def test_a_target_that_needs_a_view(lake: Any, tmp_path: Path) -> None:
    """A bag's rows lie under a view, which this catalog can't have: nothing is made."""
    shop = open_shop(tmp_path)
    with pytest.raises(deltajoin.DeltaJoinError, match="does not support views") as caught:
        deltajoin.run(shop.model(sql=BAG, target="lake.sales.bag"), lake)
    assert caught.value.code == "CATALOG_WITHOUT_VIEWS"
    assert lake.sql("SHOW TABLES IN lake.sales").collect() == []
