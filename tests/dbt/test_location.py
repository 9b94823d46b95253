"""`location_root`: the target is a folder, and a catalog that forgets it loses nothing.

Each process has a catalog in memory. The second one starts with an empty catalog and continues from
the epochs in the folders.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.dbt.conftest import make_project, play_in

pytestmark = pytest.mark.thorough

JOIN = """
select o.id, c.name from {{ source('raw', 'orders') }} o
join {{ source('raw', 'customers') }} c on o.customer = c.id
"""
FILES = {
    "macros/raw.sql": """
        {% macro raw(folder) %}{% for statement in [
          "create schema if not exists raw",
          "create table if not exists raw.orders (id int, customer int) using delta location
           '" ~ folder ~ "/orders' tblproperties (delta.enableChangeDataFeed = true)",
          "create table if not exists raw.customers (id int, name string) using delta location
           '" ~ folder ~ "/customers' tblproperties (delta.enableChangeDataFeed = true)",
        ] %}{% do run_query(statement) %}{% endfor %}{% endmacro %}
    """,
    "models/keyed.sql": "{{ deltajoin.delta_join(keys={'orders': ['id'], 'customers': ['id']}) }}"
    + JOIN,
    "models/bag.sql": "{{ deltajoin.delta_join() }}" + JOIN,
    "models/sources.yml": "sources: [{name: raw, tables: [{name: orders}, {name: customers}]}]",
}


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    project = make_project(
        tmp_path_factory.mktemp("located"),
        FILES,
        models={"+location_root": str(tmp_path_factory.mktemp("targets"))},
        conf={"spark.sql.catalogImplementation": "in-memory"},
    )
    register = {"dbt": ["run-operation", "raw", "--args", f"{{folder: {project / 'raw'}}}"]}
    first: dict[str, dict[str, Any]] = {
        "deps": {"dbt": ["deps"]},
        "raw": register,
        "orders": {"sql": "insert into raw.orders select id, id % 5 from range(100)"},
        "customers": {"sql": "insert into raw.customers select id, 'c' from range(5)"},
        "first": {"dbt": ["run"]},
    }
    second: dict[str, dict[str, Any]] = {
        "raw again": register,
        "again": {"dbt": ["run"]},
        "change": {"sql": "update raw.customers set name = 'd' where id = 3"},
        "changed": {"dbt": ["run"]},
        "keyed": {"compare": "keyed"},
        "bag": {"compare": "bag"},
        "types": {"sql": "show views in dw"},
    }
    told: dict[str, Any] = {}
    for part in (first, second):
        told |= dict(zip(part, play_in(project, list(part.values())), strict=True))
    return told


def strategies(outcome: dict[str, Any]) -> list[str]:
    assert outcome["success"], outcome["output"]
    responses = [outcome["results"][name]["adapter_response"] for name in ("keyed", "bag")]
    return [response["deltajoin"]["strategy"] for response in responses]


def test_the_epochs_outlive_the_catalog(story: dict[str, Any]) -> None:
    assert strategies(story["first"]) == ["full", "full"]
    assert strategies(story["again"]) == ["noop", "noop"]
    assert strategies(story["changed"]) == ["incremental", "incremental"]


def test_the_catalog_shows_the_rows(story: dict[str, Any]) -> None:
    assert story["keyed"]["rows"] == []
    assert story["bag"]["rows"] == []
    assert [row[1] for row in story["types"]["rows"]] == ["bag"]
