"""The example joins by more than equality: each plans and is kept incrementally."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import jinja2
import pyarrow as pa
import pytest
from deltalake import write_deltalake

import deltajoin
from deltajoin.model import load_model
from examples.flights.feed import KEYS, SCHEMAS

EXAMPLES = Path(__file__).parents[2] / "examples"
FEED = {"delta.enableChangeDataFeed": "true"}
AT = pa.timestamp("us", tz="UTC")
HISTORY = pa.schema(
    [*SCHEMAS["planes"], pa.field("dbt_valid_from", AT), pa.field("dbt_valid_to", AT)]
)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Empty tables: what a plan needs are their columns."""
    root = tmp_path_factory.mktemp("raw")
    for name, schema in {**SCHEMAS, "planes_history": HISTORY}.items():
        write_deltalake(str(root / name), schema.empty_table(), configuration=dict(FEED))
    return {path.name: str(path) for path in root.iterdir()}


def rendered(sql: str) -> str:
    """A dbt model's SQL, with tables by their last names."""
    options = SimpleNamespace(delta_join=lambda **_: "")
    names = {"source": lambda _, table: table, "ref": lambda model: model, "deltajoin": options}
    return jinja2.Environment(autoescape=False).from_string(sql).render(names)


@pytest.mark.parametrize(
    ("file", "tables"),
    [
        ("flights/flights_weather.sql", "flights weather"),
        ("flights/flights_alternates.sql", "flights airports"),
        ("flights_dbt/models/flights_planes.sql", "flights planes_history"),
    ],
)
def test_it_is_kept_incrementally(
    file: str, tables: str, sources: dict[str, str], tmp_path: Path
) -> None:
    sql = rendered((EXAMPLES / file).read_text(encoding="utf-8"))
    known = {**KEYS, "planes_history": ("tailnum", "dbt_valid_from")}
    model = deltajoin.Model(
        Path(file).stem,
        sql,
        {name: sources[name] for name in tables.split()},
        str(tmp_path / "target"),
        keys={name: known[name] for name in tables.split()},
        mode="incremental_strict",
    )
    plan = deltajoin.plan(model)
    assert plan.graph is not None
    assert plan.rebuilt_because is None
    assert plan.target.kind == "keyed"


def test_the_model_file_declares_the_keys_of_the_feed() -> None:
    model = load_model(EXAMPLES / "flights" / "flights_weather.yml")
    assert {name: tuple(columns) for name, columns in model.keys.items()} == {
        name: KEYS[name] for name in ("flights", "weather")
    }
