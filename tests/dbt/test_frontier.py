"""All delta_join models of one dbt invocation read one version of each table."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from deltajoin.adapters.dbt.invocations import KEPT, invocation
from tests.dbt.conftest import make_project, play_in
from tests.spark.shop import open_shop

FILES = {
    "macros/make_raw.sql": """
        {% macro make_raw() %}{% for statement in [
          "create schema raw",
          "create table raw.orders (id int, customer int, amount int) using delta FEED",
          "create table raw.customers (id int, name string) using delta FEED",
          "insert into raw.orders select id, id % 5, id from range(40)",
          "insert into raw.customers select id, concat('c', id) from range(5)",
        ] %}{% do run_query(statement) %}{% endfor %}{% endmacro %}
    """.replace("FEED", "tblproperties (delta.enableChangeDataFeed = true)"),
    "models/named.sql": """
        {{ deltajoin.delta_join(mode='shadow') }}
        {{ config(post_hook="insert into raw.orders
                             select count(*), 0, 7 from raw.orders") }}
        select o.id, o.amount, c.name from {{ source('raw', 'orders') }} o
        join {{ source('raw', 'customers') }} c on o.customer = c.id
    """,
    "models/doubled.sql": """
        -- depends_on: {{ ref('named') }}
        {{ deltajoin.delta_join() }}
        select o.id, o.amount * 2 as twice, c.id as customer from {{ source('raw', 'orders') }} o
        join {{ source('raw', 'customers') }} c on o.customer = c.id
    """,
    "models/both.sql": """
        {{ deltajoin.delta_join() }}
        select n.id, n.amount, n.name, d.twice, c.name as again from {{ ref('named') }} n
        join {{ ref('doubled') }} d on n.id = d.id
        join {{ source('raw', 'customers') }} c on d.customer = c.id
    """,
    "models/schema.yml": """
        version: 2
        sources:
          - name: raw
            tables:
              - {name: orders, columns: [{name: id, data_tests: [unique]}]}
              - {name: customers, columns: [{name: id, data_tests: [unique]}]}
        models:
          - {name: named, columns: [{name: id, data_tests: [unique]}]}
          - {name: doubled, columns: [{name: id, data_tests: [unique]}]}
    """,
}


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    project = make_project(tmp_path_factory.mktemp("diamond"), FILES)
    counts = "select (select count(*) from dw.{}), (select sum(twice) from dw.{})"
    steps: dict[str, dict[str, Any]] = {
        "deps": {"dbt": ["deps"]},
        "raw": {"dbt": ["run-operation", "make_raw"]},
        "first": {"dbt": ["run"]},
        "after first": {"sql": counts.format("named", "both")},
        "customer": {"sql": "update raw.customers set name = 'moved' where id = 3"},
        "second": {"dbt": ["run"]},
        "after second": {"sql": counts.format("named", "both")},
        "both": {"compare": "both"},
    }
    played = play_in(project, list(steps.values()))
    return dict(zip(steps, played, strict=True))


def audit(outcome: dict[str, Any], name: str) -> dict[str, Any]:
    assert outcome["success"], outcome["output"]
    record: dict[str, Any] = outcome["results"][name]["adapter_response"]["deltajoin"]
    return record


def version(record: dict[str, Any], table: str) -> int:
    (found,) = (at["version"] for name, at in record["frontier"].items() if name.endswith(table))
    return int(found)


def test_models_of_an_invocation_read_one_version(story: dict[str, Any]) -> None:
    """A hook of `named` adds an order before `doubled` runs: the next invocation consumes it."""
    for step, rows, version_of_orders in (("first", 40, 1), ("second", 41, 2)):
        named, doubled, both = (audit(story[step], n) for n in ("named", "doubled", "both"))
        assert version(named, "orders") == version(doubled, "orders") == version_of_orders
        assert version(both, "named") == named["target_version"]
        assert version(both, "doubled") == doubled["target_version"]
        assert version(both, "customers") == version(named, "customers")
        assert story[f"after {step}"]["rows"][0][0] == str(rows)
    assert [story[f"after {s}"]["rows"][0][1] for s in ("first", "second")] == ["1560", "1574"]
    assert story["both"]["rows"] == []


def test_shadow_is_a_mode_of_dbt(story: dict[str, Any]) -> None:
    record = audit(story["second"], "named")
    assert (record["strategy"], record["mode"]) == ("incremental", "shadow")
    assert record["shadow"] == {"rows": 41, "differing": 0, "tolerances": {}}


def test_threads_pin_a_table_once(tmp_path: Path) -> None:
    """However many threads meet a table first, while another one writes to it."""
    shop = open_shop(tmp_path)
    frontier = invocation("threads").frontier

    def read(number: int) -> int:
        if number % 3 == 0:
            shop.append("orders", (100 + number, 1, 5))
        return invocation("threads").frontier.table("orders", shop.path("orders")).version

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(read, range(24)))) == 1
    for number in range(2 * KEPT):
        invocation(f"other {number}")
    assert invocation("threads").frontier is not frontier
