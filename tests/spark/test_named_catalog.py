"""Tables in a catalog beside Spark's own, by names of three parts, as Unity Catalog has them.

The catalog is a small class over Delta's, compiled by the Java compiler that Spark ships; like
Unity's open one it knows no views.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import deltajoin
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


def test_a_target_that_needs_a_view(lake: Any, tmp_path: Path) -> None:
    """A bag's rows lie under a view, which this catalog can't have: nothing is made."""
    shop = open_shop(tmp_path)
    with pytest.raises(deltajoin.DeltaJoinError, match="does not support views") as caught:
        deltajoin.run(shop.model(sql=BAG, target="lake.sales.bag"), lake)
    assert caught.value.code == "CATALOG_WITHOUT_VIEWS"
    assert lake.sql("SHOW TABLES IN lake.sales").collect() == []
