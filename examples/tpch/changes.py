"""A batch of changes, as text such as `orders:0.001:clustered`, and the MERGEs that apply it.

A batch takes a share of a table's keys: `clustered` a contiguous range of them, `scattered` those
that a hash chooses. In a batch of `orders`, the lines of the chosen orders change with them: of ten
chosen orders about eight are updated, one is deleted, one is inserted under a key between theirs.
In a batch of a dimension nine of ten are updated and one is inserted at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

SHAPES = ("clustered", "scattered")
#: Table -> its key, and the column that an update increases by one.
COLUMNS = {
    "orders": ("o_orderkey", "o_totalprice"),
    "lineitem": ("l_orderkey", "l_quantity"),
    "customer": ("c_custkey", "c_acctbal"),
    "part": ("p_partkey", "p_retailprice"),
    "supplier": ("s_suppkey", "s_acctbal"),
}
_PARTS = 10_000_000


@dataclass(frozen=True)
class Batch:
    """A share of the keys of a table, and how they lie."""

    table: str
    share: float
    shape: str

    def __str__(self) -> str:
        return f"{self.table}:{self.share:g}:{self.shape}"


def parse_batch(text: str) -> Batch:
    """A batch from its text.

    Example:
        >>> parse_batch("orders:0.001:clustered")
        Batch(table='orders', share=0.001, shape='clustered')
    """
    table, share, shape = (text + "::").split(":")[:3]
    if table not in COLUMNS or table == "lineitem" or shape not in SHAPES:
        raise ValueError(f"{text}: want orders, customer, part or supplier : share : {SHAPES}")
    if not 0 < float(share) <= 1:
        raise ValueError(f"{text}: the share lies above 0 and is at most 1")
    return Batch(table, float(share), shape)


def order_key(number: int) -> int:
    """The key of an order by its place from 0: TPC-H uses the first 8 of each 32 keys.

    Example:
        >>> [order_key(number) for number in (0, 6, 7, 8)]
        [1, 7, 32, 33]
    """
    return (number + 1) // 8 * 32 + (number + 1) % 8


def merges(batch: Batch, keys: int, seed: int, columns: dict[str, list[str]]) -> dict[str, str]:
    """Table -> the MERGE into it, over views of the tables' names.

    Args:
        keys: how many the table of the batch has.
        columns: table -> its columns.
    """
    tables = ("lineitem", "orders") if batch.table == "orders" else (batch.table,)
    return {table: _merge(table, batch, keys, seed, columns[table]) for table in tables}


def _merge(table: str, batch: Batch, keys: int, seed: int, columns: list[str]) -> str:
    key, increased = COLUMNS[table]
    of_orders = batch.table == "orders"
    chosen, pruned = _chosen(key, batch, keys, seed, of_orders)
    kind = f"pmod(xxhash64({key}, {seed}, 'kind'), 10)"
    fresh = f"{kind} = 1"
    values = {
        key: f"IF({fresh}, {key} + {8 if of_orders else keys}, {key})",
        increased: f"CAST({increased} + 1 AS DECIMAL(15, 2))",
    }
    selected = ", ".join(f"{values.get(name, name)} AS {name}" for name in columns)
    same = [key, "l_linenumber"] if table == "lineitem" else [key]
    condition = " AND ".join([f"t.{name} = s.{name}" for name in same] + pruned)
    removed = f"{kind} = 0" if of_orders else "false"
    return f"""
        MERGE INTO {{{table}}} AS t
        USING (SELECT {selected}, {removed} AS removed FROM {table} WHERE {chosen}) AS s
        ON {condition}
        WHEN MATCHED AND s.removed THEN DELETE
        WHEN MATCHED THEN UPDATE SET *
        WHEN NOT MATCHED THEN INSERT *"""


def _chosen(key: str, batch: Batch, keys: int, seed: int, of_orders: bool) -> tuple[str, list[str]]:
    """The condition on a row to be chosen, and the one on the target that follows from it."""
    if batch.shape == "scattered":
        parts = max(1, round(batch.share * _PARTS))
        return f"pmod(xxhash64({key}, {seed}), {_PARTS}) < {parts}", []
    size = max(1, round(batch.share * keys))
    first = (seed * 2_654_435_761) % max(1, keys - size)
    last = first + size - 1
    low, high = (order_key(first), order_key(last)) if of_orders else (first + 1, last + 1)
    return (
        f"{key} BETWEEN {low} AND {high}",
        [f"t.{key} BETWEEN {low} AND {high + 8 if of_orders else high}"],
    )
