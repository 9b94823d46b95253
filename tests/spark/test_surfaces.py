"""Two surfaces run one model at once, each in a process of its own: command line, Airflow, dbt.

Both start when the sources have changed, and meet somewhere. Whoever loses is told so by
CONCURRENT_RUN (Airflow tries again), or finds nothing to do. In `make test` two command lines meet,
with `--thorough` all pairs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from deltalake import DeltaTable, write_deltalake

import deltajoin
from deltajoin.model import load_model
from tests.airflow.conftest import environment
from tests.airflow.conftest import play_in as play_airflow
from tests.dbt.conftest import environment as dbt_environment
from tests.dbt.conftest import make_project, play_in
from tests.dbt.test_location import FILES
from tests.spark.shop import FEED, assert_whole, never, rows_at

SQL = """select o.id, c.name from raw.orders o
join raw.customers c on o.customer = c.id"""


class Place:
    """Orders and customers, and a target that is the dbt model's `keyed`; a model file for it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.table("orders", id=list(range(40)), customer=[n % 7 for n in range(40)])
        self.table("customers", id=list(range(8)), name=[f"name {n}" for n in range(8)])
        raw = {f"raw.{name}": str(root / "raw" / name) for name in ("orders", "customers")}
        model = {
            "name": "model.shop.keyed",
            "sql": SQL,
            "sources": raw,
            "keys": {name: ["id"] for name in raw},
            "target": str(root / "targets" / "keyed"),
        }
        self.file = root / "keyed.yml"
        self.file.write_text(yaml.safe_dump(model))

    def table(self, table: str, /, **columns: Any) -> None:
        ints = {key: pa.array(values) for key, values in columns.items()}
        rows = pa.table({k: v.cast("int32") if v.type == "int64" else v for k, v in ints.items()})
        place = str(self.root / "raw" / table)
        write_deltalake(place, rows, mode="append", configuration=FEED)

    def change(self) -> None:
        self.table("orders", id=[100, 101], customer=[1, 2])
        customers = DeltaTable(str(self.root / "raw" / "customers"))
        customers.update(predicate="id = 3", updates={"name": "'changed'"})
        DeltaTable(str(self.root / "raw" / "orders")).delete("id = 4")

    def expected(self) -> dict[int, str]:
        names = {row[0]: row[1] for row in rows_at(str(self.root / "raw" / "customers"))}
        orders = rows_at(str(self.root / "raw" / "orders"))
        return {row[0]: names[row[1]] for row in orders if row[1] in names}


def by_command_line(place: Place, who: str) -> str:
    command = [sys.executable, "-m", "deltajoin.adapters.cli", "run", "--json", "--master"]
    done = subprocess.run(
        [*command, "local[1]", "--model", str(place.file)],
        env=dbt_environment(),
        capture_output=True,
        text=True,
        timeout=400,
    )
    found = json.loads(done.stdout)
    return str(found["strategy"] if done.returncode == 0 else found["error"]["code"])


def by_airflow(place: Place, who: str) -> str:
    home = place.root / f"airflow-{who}"
    home.mkdir()
    env = {**environment(home, place.root), "RACED_MODEL": str(place.file)}
    (outcome,) = play_airflow(env, [{"dag": "raced"}])
    return str(outcome["audit"]["strategy"] if outcome["state"] == "success" else outcome["log"])


def by_dbt(place: Place, who: str) -> str:
    project = make_project(
        place.root / f"dbt-{who}",
        {name: text for name, text in FILES.items() if name != "models/bag.sql"},
        models={"+location_root": str(place.root / "targets")},
        conf={"spark.sql.catalogImplementation": "in-memory"},
    )
    raw = ["run-operation", "raw", "--args", f"{{folder: {place.root / 'raw'}}}"]
    steps = [{"dbt": ["deps"]}, {"dbt": raw}, {"dbt": ["run"]}]
    *_, outcome = play_in(project, steps)
    if outcome["success"]:
        return str(outcome["results"]["keyed"]["adapter_response"]["deltajoin"]["strategy"])
    return "CONCURRENT_RUN" if "CONCURRENT_RUN" in outcome["output"] else outcome["output"]


SURFACES: dict[str, Callable[[Place, str], str]] = {
    "command line": by_command_line,
    "Airflow": by_airflow,
    "dbt": by_dbt,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    pairs = list(combinations_with_replacement(SURFACES, 2))
    thorough = metafunc.config.getoption("--thorough")
    metafunc.parametrize("pair", pairs if thorough else pairs[:1], ids=" and ".join)


def test_both_at_once(pair: tuple[str, str], tmp_path: Path, spark: Any) -> None:
    place = Place(tmp_path)
    assert deltajoin.run(load_model(place.file), spark).epoch == 1
    place.change()
    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(lambda name, who: SURFACES[name](place, who), pair, "AB"))
    print(pair, ends)  # noqa: T201
    assert "incremental" in ends, ends
    assert {*ends} <= {"incremental", "noop", "CONCURRENT_RUN"}, ends
    assert deltajoin.run(load_model(place.file), never).strategy == "noop"
    target = str(tmp_path / "targets" / "keyed")
    assert_whole(target, 2)
    assert dict(rows_at(target).elements()) == place.expected()
