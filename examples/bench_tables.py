"""Tables for `bench_spark_orders.py`: TPC-H by tpchgen-cli, and a TPC-DS-like snowflake by numpy.

Each table is written once as a Delta table of one version; the same files are linked into a second
folder, which Spark reads as a plain Parquet table. The snowflake has what makes estimates hard:
skewed foreign keys, NULL foreign keys, a calendar of 200 years of which five are used, correlated
columns, sub-dimensions that hold the filters, and two facts that share a composite key.
The same scale and seed give the same rows.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import write_deltalake

SEED = 20
FILE_BYTES = 16 * 2**20
FIRST_DAY, DAYS = 2_415_022, 73_049  # 1900-01-02 to 2100-01-01, as TPC-DS has it
SALES_FROM, SALES_DAYS = FIRST_DAY + 35_793, 1_826  # 1998-01-01 to 2002-12-31

TPCH_KEYS = {
    "region": ("r_regionkey",),
    "nation": ("n_nationkey",),
    "supplier": ("s_suppkey",),
    "customer": ("c_custkey",),
    "part": ("p_partkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
SNOWFLAKE_KEYS = {
    "date_dim": ("d_date_sk",),
    "sales_region": ("rg_region_sk",),
    "state": ("st_state_sk",),
    "store": ("s_store_sk",),
    "category": ("cg_category_sk",),
    "brand": ("b_brand_sk",),
    "manufacturer": ("mf_manufact_sk",),
    "item": ("i_item_sk",),
    "income_band": ("ib_income_band_sk",),
    "household_demographics": ("hd_demo_sk",),
    "customer_demographics": ("cd_demo_sk",),
    "customer_address": ("ca_address_sk",),
    "customer": ("c_customer_sk",),
    "promotion": ("p_promo_sk",),
    "reason": ("r_reason_sk",),
    "store_sales": ("ss_item_sk", "ss_ticket_number"),
    "store_returns": ("sr_item_sk", "sr_ticket_number"),
    "inventory": ("inv_date_sk", "inv_item_sk", "inv_warehouse_sk"),
}
KEYS = {"tpch": TPCH_KEYS, "snowflake": SNOWFLAKE_KEYS}


def make_tables(home: Path, schema: str, scale: float) -> None:
    """Write the tables of a schema (tpch, snowflake) below `home` unless they are all there."""
    folder = home / schema
    if (folder / "done").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    tables = _tpch(folder / "raw", scale) if schema == "tpch" else snowflake(scale)
    for name, table in tables:
        print(f"  {schema}.{name}: {table.num_rows:,} rows", flush=True)
        place = folder / "delta" / name
        write_deltalake(str(place), table, target_file_size=FILE_BYTES)
        linked = folder / "parquet" / name
        linked.mkdir(parents=True)
        for file in sorted(place.glob("*.parquet")):
            os.link(file, linked / file.name)
    shutil.rmtree(folder / "raw", ignore_errors=True)
    (folder / "done").touch()


def _tpch(raw: Path, scale: float) -> Iterator[tuple[str, pa.Table]]:
    program = Path(sys.executable).with_name("tpchgen-cli")
    command = str(program) if program.exists() else "tpchgen-cli"
    raw.mkdir(parents=True)
    options = ["-s", f"{scale:g}", "--no-progress", "--output-dir", str(raw)]
    subprocess.run([command, "parquet", *options], check=True)
    for name in TPCH_KEYS:
        table = ds.dataset(raw / f"{name}.parquet").to_table()
        plain = [
            f.with_type(pa.string()) if f.type == pa.string_view() else f for f in table.schema
        ]
        yield name, table.cast(pa.schema(plain))


def snowflake(scale: float) -> Iterator[tuple[str, pa.Table]]:
    """The tables of the snowflake; 1 gives 3 million sales."""
    random = np.random.default_rng(SEED)
    size = _Sizes(scale)
    yield "date_dim", _calendar()
    yield from _places(random, size)
    yield from _products(random, size)
    yield from _people(random, size)
    yield from _facts(random, size)


class _Sizes:
    def __init__(self, scale: float) -> None:
        self.sales = max(10_000, int(3_000_000 * scale))
        self.items = max(300, int(18_000 * scale))
        self.brands = max(60, int(1_000 * scale**0.5))
        self.makers = max(50, int(500 * scale**0.5))
        self.customers = max(1_000, int(100_000 * scale))
        self.addresses = self.customers // 2
        self.demographics = max(9_600, int(960_000 * scale))
        self.households = 7_200
        self.stores = max(12, int(120 * scale**0.5))
        self.promotions = 300
        self.states, self.categories, self.reasons = 50, 12, 35


def _calendar() -> pa.Table:
    number = np.arange(DAYS)
    day = np.datetime64("1900-01-02") + number
    month = day.astype("datetime64[M]").astype(int)
    return pa.table(
        {
            "d_date_sk": FIRST_DAY + number,
            "d_date": pa.array(day.astype("datetime64[D]")),
            "d_week_seq": (number + 1) // 7 + 1,
            "d_year": 1970 + month // 12,
            "d_moy": month % 12 + 1,
            "d_qoy": month % 12 // 3 + 1,
            "d_dow": (number + 2) % 7,
        }
    )


def _places(random: np.random.Generator, size: _Sizes) -> Iterator[tuple[str, pa.Table]]:
    regions = ["Northeast", "Midwest", "South", "West", "Islands"]
    yield "sales_region", pa.table({"rg_region_sk": np.arange(1, 6), "rg_name": regions})
    states = np.arange(1, size.states + 1)
    yield (
        "state",
        pa.table(
            {
                "st_state_sk": states,
                "st_code": [f"S{number:02d}" for number in states],
                "st_region_sk": states % 5 + 1,
            }
        ),
    )
    yield (
        "store",
        pa.table(
            {
                "s_store_sk": np.arange(1, size.stores + 1),
                "s_state_sk": _skewed(random, size.states, size.stores, 1.2),
                "s_size": _pick(random, ["small", "medium", "large"], size.stores),
                "s_market_id": random.integers(1, 11, size.stores),
            }
        ),
    )


def _products(random: np.random.Generator, size: _Sizes) -> Iterator[tuple[str, pa.Table]]:
    names = ["Books", "Children", "Electronics", "Home", "Jewelry", "Men"]
    names += ["Music", "Shoes", "Sports", "Women", "Garden", "Toys"]
    yield "category", pa.table({"cg_category_sk": np.arange(1, 13), "cg_name": names})
    brands = size.brands
    yield (
        "brand",
        pa.table(
            {
                "b_brand_sk": np.arange(1, brands + 1),
                "b_category_sk": random.integers(1, size.categories + 1, brands),
                "b_name": [f"brand {number}" for number in range(1, brands + 1)],
            }
        ),
    )
    countries = ["US", "CN", "DE", "IN", "MX", "VN", "IT", "BR"]
    yield (
        "manufacturer",
        pa.table(
            {
                "mf_manufact_sk": np.arange(1, size.makers + 1),
                "mf_country": _pick(random, countries, size.makers),
            }
        ),
    )
    items = size.items
    brand = _skewed(random, brands, items, 0.8)
    price = (random.lognormal(3, 1, items) * 100).astype(np.int64) + 9
    yield (
        "item",
        pa.table(
            {
                "i_item_sk": np.arange(1, items + 1),
                "i_brand_sk": brand,
                # A brand buys from few makers: the two columns are correlated.
                "i_manufact_sk": (brand * 7 + random.integers(0, 3, items)) % size.makers + 1,
                "i_color": _pick(random, [f"color {n}" for n in range(90)], items),
                "i_size": _pick(random, ["small", "medium", "large", "extra", "N/A"], items),
                "i_current_price": _money(price),
            }
        ),
    )


def _people(random: np.random.Generator, size: _Sizes) -> Iterator[tuple[str, pa.Table]]:
    bands = np.arange(1, 21)
    band = {
        "ib_income_band_sk": bands,
        "ib_lower_bound": (bands - 1) * 10_000,
        "ib_upper_bound": bands * 10_000,
    }
    yield "income_band", pa.table(band)
    potential = ["0-500", "501-1000", "1001-5000", "5001-10000", ">10000", "Unknown"]
    number = np.arange(size.households)
    yield (
        "household_demographics",
        pa.table(
            {
                "hd_demo_sk": number + 1,
                "hd_income_band_sk": number % 20 + 1,
                "hd_buy_potential": pa.array(potential).take(pa.array(number // 20 % 6)),
                "hd_dep_count": number // 120 % 10,
                "hd_vehicle_count": number // 1200 % 6 - 1,
            }
        ),
    )
    number = np.arange(size.demographics)
    education = ["Primary", "Secondary", "College", "2 yr Degree", "4 yr Degree"]
    education += ["Advanced Degree", "Unknown"]
    yield (
        "customer_demographics",
        pa.table(
            {
                "cd_demo_sk": number + 1,
                "cd_gender": pa.array(["M", "F"]).take(pa.array(number % 2)),
                "cd_marital_status": pa.array([*"MSDWU"]).take(pa.array(number // 2 % 5)),
                "cd_education_status": pa.array(education).take(pa.array(number // 10 % 7)),
                "cd_dep_count": number // 70 % 7,
            }
        ),
    )
    addresses = size.addresses
    state = _skewed(random, size.states, addresses, 1.0)
    yield (
        "customer_address",
        pa.table(
            {
                "ca_address_sk": np.arange(1, addresses + 1),
                "ca_state_sk": state,
                # A city lies in one state: city decides state.
                "ca_city": [
                    f"city {s}-{c}"
                    for s, c in zip(state, random.integers(0, 15, addresses), strict=True)
                ],
                "ca_gmt_offset": -5 - state % 5,
            }
        ),
    )
    people = size.customers
    yield (
        "customer",
        pa.table(
            {
                "c_customer_sk": np.arange(1, people + 1),
                "c_current_addr_sk": random.integers(1, addresses + 1, people),
                "c_current_cdemo_sk": _nulls(
                    random, random.integers(1, size.demographics + 1, people), 0.03
                ),
                "c_current_hdemo_sk": _nulls(
                    random, random.integers(1, size.households + 1, people), 0.03
                ),
                "c_birth_year": random.integers(1924, 1993, people),
                "c_preferred": _pick(random, ["Y", "N", "N", "N"], people),
            }
        ),
    )


def _facts(random: np.random.Generator, size: _Sizes) -> Iterator[tuple[str, pa.Table]]:
    channels = _pick(random, ["Y", *"NNNNNNNNN"], size.promotions)
    yield (
        "promotion",
        pa.table(
            {
                "p_promo_sk": np.arange(1, size.promotions + 1),
                "p_channel_email": channels,
                "p_channel_event": _pick(random, ["Y", "N"], size.promotions),
            }
        ),
    )
    reasons = np.arange(1, size.reasons + 1)
    names = [f"reason {number}" for number in reasons]
    yield "reason", pa.table({"r_reason_sk": reasons, "r_name": names})
    sales = _sales(random, size)
    yield "store_sales", pa.table(sales)
    yield "store_returns", _returns(random, size, sales)
    yield "inventory", _inventory(random, size)


def _sales(random: np.random.Generator, size: _Sizes) -> dict[str, pa.Array]:
    """Lines of tickets of one to nine lines, by date; the last quarter of a year sells double."""
    rows = size.sales
    tickets = rows // 5
    season = np.where(np.arange(SALES_DAYS) % 365 >= 273, 2.0, 1.0)
    sold = np.sort(random.choice(SALES_DAYS, tickets, p=season / season.sum()))
    ticket = np.sort(random.integers(0, tickets, rows))
    # Lines of a ticket walk through the items by one stride: no item comes twice in a ticket.
    first = np.concatenate(([0], np.flatnonzero(np.diff(ticket)) + 1))
    line = np.arange(rows) - np.repeat(first, np.diff(np.concatenate((first, [rows]))))
    start = _skewed(random, size.items, tickets, 0.7)
    item = (start[ticket] - 1 + line * 17) % size.items + 1
    customer = _skewed(random, size.customers, tickets, 0.6)
    store = _skewed(random, size.stores, tickets, 0.8)
    quantity = random.integers(1, 101, rows)
    price = (random.lognormal(3, 1, rows) * 100).astype(np.int64) + 9
    address = random.integers(1, size.addresses + 1, tickets)
    household = random.integers(1, size.households + 1, tickets)
    demographics = random.integers(1, size.demographics + 1, tickets)
    return {
        "ss_sold_date_sk": _nulls(random, SALES_FROM + sold[ticket], 0.02),
        "ss_item_sk": pa.array(item),
        "ss_customer_sk": _nulls(random, customer[ticket], 0.04),
        "ss_cdemo_sk": _nulls(random, demographics[ticket], 0.04),
        "ss_hdemo_sk": _nulls(random, household[ticket], 0.04),
        "ss_addr_sk": _nulls(random, address[ticket], 0.04),
        "ss_store_sk": _nulls(random, store[ticket], 0.02),
        "ss_promo_sk": _nulls(random, _skewed(random, size.promotions, rows, 1.0), 0.5),
        "ss_ticket_number": pa.array(ticket + 1),
        "ss_quantity": pa.array(quantity),
        "ss_sales_price": _money(price),
        "ss_net_profit": _money(quantity * price // 10 - random.integers(0, 90_000, rows)),
    }


def _returns(random: np.random.Generator, size: _Sizes, sales: dict[str, pa.Array]) -> pa.Table:
    """A tenth of the sales, some weeks later."""
    rows = np.sort(random.choice(size.sales, size.sales // 10, replace=False))
    line = pa.table(sales).take(pa.array(rows))
    sold = np.nan_to_num(line["ss_sold_date_sk"].to_numpy(), nan=SALES_FROM).astype(np.int64)
    return pa.table(
        {
            "sr_returned_date_sk": sold + random.integers(1, 90, len(rows)),
            "sr_item_sk": line["ss_item_sk"],
            "sr_ticket_number": line["ss_ticket_number"],
            "sr_customer_sk": line["ss_customer_sk"],
            "sr_reason_sk": _skewed(random, size.reasons, len(rows), 0.9),
            "sr_return_quantity": random.integers(1, 51, len(rows)),
        }
    )


def _inventory(random: np.random.Generator, size: _Sizes) -> pa.Table:
    """A third of the items, in five warehouses, each week of the last year."""
    stocked = np.sort(random.choice(size.items, size.items // 3, replace=False)) + 1
    weeks = SALES_FROM + SALES_DAYS - 365 + 7 * np.arange(52)
    week, item, house = (a.ravel() for a in np.meshgrid(weeks, stocked, [1, 2, 3, 4, 5]))
    order = np.lexsort((house, item, week))
    return pa.table(
        {
            "inv_date_sk": week[order],
            "inv_item_sk": item[order],
            "inv_warehouse_sk": house[order],
            "inv_quantity_on_hand": random.integers(0, 1_000, len(order)),
        }
    )


def _skewed(random: np.random.Generator, values: int, rows: int, power: float) -> np.ndarray:
    """Keys 1..values; the share of the n-th most frequent is like n ** -power."""
    weights = np.arange(1, values + 1, dtype=float) ** -power
    frequent = random.permutation(values) + 1
    drawn: np.ndarray = frequent[random.choice(values, rows, p=weights / weights.sum())]
    return drawn


def _pick(random: np.random.Generator, values: list[str], rows: int) -> pa.Array:
    return pa.array(values).take(pa.array(random.integers(0, len(values), rows)))


def _nulls(random: np.random.Generator, values: np.ndarray, share: float) -> pa.Array:
    return pa.array(values, mask=random.random(len(values)) < share)


def _money(cents: np.ndarray) -> pa.Array:
    """Exact decimals from whole cents."""
    words = np.stack([cents, cents >> 63], axis=1).astype("<i8")
    return pa.Array.from_buffers(
        pa.decimal128(12, 2), len(cents), [None, pa.py_buffer(words.tobytes())]
    )
