"""The models of the benchmark: SQL that Spark and DuckDB read alike."""

from __future__ import annotations

from dataclasses import dataclass

WIDE = """
SELECT l_orderkey, l_linenumber, l_quantity, l_extendedprice, l_discount, l_tax, l_returnflag,
       l_linestatus, l_shipdate, l_shipmode, o_orderstatus, o_totalprice, o_orderdate,
       o_orderpriority, c_custkey, c_name, c_mktsegment, c_acctbal, p_partkey, p_name, p_brand,
       p_type, p_retailprice, s_suppkey, s_name, s_acctbal, n_name
FROM lineitem
JOIN orders ON o_orderkey = l_orderkey
JOIN customer ON c_custkey = o_custkey
JOIN part ON p_partkey = l_partkey
JOIN supplier ON s_suppkey = l_suppkey
JOIN nation ON n_nationkey = c_nationkey"""


@dataclass(frozen=True)
class Table:
    """A model's name, which later ones of its chain may read, its SQL and the tables in it."""

    name: str
    sql: str
    tables: tuple[str, ...]


MODELS = {
    "wide": (
        Table("wide", WIDE, ("lineitem", "orders", "customer", "part", "supplier", "nation")),
    ),
}
