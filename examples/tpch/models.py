"""The models of the benchmark: SQL that Spark and DuckDB read alike, and their batches."""

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

LEFT = """
SELECT o_orderkey, o_orderstatus, o_totalprice, o_orderdate, c_name, c_mktsegment, c_acctbal,
       l_linenumber, l_quantity, l_extendedprice, l_discount, l_shipdate, p_name, p_brand
FROM orders
LEFT JOIN customer ON c_custkey = o_custkey
LEFT JOIN lineitem ON l_orderkey = o_orderkey
LEFT JOIN part ON p_partkey = l_partkey"""

Q3 = """
SELECT l_orderkey, o_orderdate, o_shippriority, sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM customer
JOIN orders ON c_custkey = o_custkey
JOIN lineitem ON l_orderkey = o_orderkey
WHERE c_mktsegment = 'BUILDING' AND o_orderdate < DATE '1995-03-15'
  AND l_shipdate > DATE '1995-03-15'
GROUP BY l_orderkey, o_orderdate, o_shippriority"""

Q5 = """
SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue, count(*) AS lines
FROM customer
JOIN orders ON c_custkey = o_custkey
JOIN lineitem ON l_orderkey = o_orderkey
JOIN supplier ON l_suppkey = s_suppkey AND c_nationkey = s_nationkey
JOIN nation ON s_nationkey = n_nationkey
JOIN region ON n_regionkey = r_regionkey
WHERE r_name = 'ASIA' AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'
GROUP BY n_name"""

Q10 = """
SELECT c_custkey, c_name, c_acctbal, n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM customer
JOIN orders ON c_custkey = o_custkey
JOIN lineitem ON l_orderkey = o_orderkey
JOIN nation ON c_nationkey = n_nationkey
WHERE o_orderdate >= DATE '1993-10-01' AND o_orderdate < DATE '1994-01-01' AND l_returnflag = 'R'
GROUP BY c_custkey, c_name, c_acctbal, n_name"""

MARGINS = """
SELECT n_name, p_brand, o_orderdate, count(*) AS lines,
       sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM wide GROUP BY n_name, p_brand, o_orderdate"""


@dataclass(frozen=True)
class Table:
    """A table that a model keeps, its SQL and the tables in it; later ones of a chain may read it.

    `hand_key` are the columns by which a hand-written MERGE matches, where one is compared: it
    takes the new rows of lineitem alone, as an incremental model by a time stamp does.
    """

    name: str
    sql: str
    tables: tuple[str, ...]
    hand_key: tuple[str, ...] = ()


_WIDE = Table(
    "wide",
    WIDE,
    ("lineitem", "orders", "customer", "part", "supplier", "nation"),
    ("l_orderkey", "l_linenumber"),
)
MODELS = {
    "wide": (_WIDE,),
    "left": (Table("left_joined", LEFT, ("orders", "customer", "lineitem", "part")),),
    "q3": (Table("q3", Q3, ("customer", "orders", "lineitem")),),
    "q5": (Table("q5", Q5, ("customer", "orders", "lineitem", "supplier", "nation", "region")),),
    "q10": (Table("q10", Q10, ("customer", "orders", "lineitem", "nation")),),
    "chain": (_WIDE, Table("margins", MARGINS, ("wide",))),
}
#: What is timed where no batch is named: much of the first model, one share of the others.
SHARES = ("0.0001", "0.01")
GRID = (
    *(f"orders:{share}:{shape}" for share in SHARES for shape in ("clustered", "scattered")),
    "customer:0.0001:scattered",
)
ONE_SHARE = ("orders:0.001:clustered", "orders:0.001:scattered", "customer:0.001:scattered")


def batches_of(model: str) -> tuple[str, ...]:
    """The batches of a model where none is named."""
    return GRID if model == "wide" else ONE_SHARE
