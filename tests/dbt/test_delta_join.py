"""A dbt project with delta_join models over a story of changes, in two processes on one metastore.

The tables: orders (keyed by a unique test), customers (by a unique test), regions (a dbt model with
a primary key) and lines (without a key, so that `line_prices` is a bag).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.dbt.conftest import make_project, play_in

CHANGE_FEED = "tblproperties (delta.enableChangeDataFeed = true)"
WIDE = """
select o.id, o.amount, c.name, r.region, o.amount * 2 as twice
from {{ source('raw', 'orders') }} o
join {{ source('raw', 'customers') }} c on o.customer = c.id
join {{ ref('regions') }} r on c.region = r.id
"""
FILES = {
    "macros/make_raw.sql": """
        {% macro make_raw() %}{% for statement in [
          "create schema raw",
          "create table raw.orders (id int, customer int, amount int) using delta FEED",
          "create table raw.customers (id int, name string, region int) using delta FEED",
          "create table raw.lines (customer int, price int) using delta FEED",
          "create table raw.log (place int, entry string) using delta",
          "insert into raw.orders select id, id % 50, id from range(400)",
          "insert into raw.customers select id, concat('c', id), id % 3 from range(50)",
          "insert into raw.lines select id % 50, id % 3 from range(400)",
        ] %}{% do run_query(statement) %}{% endfor %}{% endmacro %}
    """.replace("FEED", CHANGE_FEED),
    "models/regions.sql": """
        {{ config(materialized='incremental', incremental_strategy='append', file_format='delta',
                  tblproperties={'delta.enableChangeDataFeed': 'true'}) }}
        select * from values (0, 'north'), (1, 'south'), (2, 'west') as t(id, region)
        {% if is_incremental() %} where false {% endif %}
    """,
    "models/wide.sql": """
        {{ deltajoin.delta_join(mode='auto') }}
        {{ config(
             pre_hook=["insert into raw.log select count(*), 'pre' from raw.log",
                       before_begin("insert into raw.log select count(*), 'before' from raw.log")],
             post_hook=[after_commit("insert into raw.log select count(*), 'after' from raw.log"),
                        "insert into raw.log select (select count(*) from raw.log), count(*)
                         from {{ this }}"])
        }}
    """
    + WIDE,
    "models/line_prices.sql": """
        {{ config(materialized='delta_join', deltajoin={'keys': {'customers': ['id']}},
                  partition_by='price', tblproperties={'my.own': true}) }}
        select c.name, l.price
        from {{ source('raw', 'lines') }} l join {{ source('raw', 'customers') }} c
          on l.customer = c.id
    """,
    "models/taken.sql": """
        {{ config(materialized='delta_join', tags='odd', liquid_clustered_by=['name']) }}
        select {{ 'o.amount % 2 as odd' if var('bag', false) else 'o.id' }}, c.name
        from {{ source('raw', 'orders') }} o
        join {{ source('raw', 'customers') }} c on o.customer = c.id
    """,
    "models/random.sql": """
        {{ config(materialized='delta_join', tags='odd') }}
        select o.id, rand() as r from {{ source('raw', 'orders') }} o
        join {{ source('raw', 'customers') }} c on o.customer = c.id
    """,
    "models/misspelt.sql": """
        {{ deltajoin.delta_join(mdoe='full') }} {{ config(tags='odd') }}
        select o.id, c.name from {{ source('raw', 'orders') }} o
        join {{ source('raw', 'customers') }} c on o.customer = c.id
    """,
    "models/schema.yml": """
        version: 2
        sources:
          - name: raw
            tables:
              - {name: orders, columns: [{name: id, data_tests: [unique]}]}
              - {name: customers, columns: [{name: id, data_tests: [unique]}]}
              - {name: lines}
        models:
          - name: regions
            constraints: [{type: primary_key, columns: [id]}]
            columns: [{name: id}]
          - name: wide
            description: "One row per order; that's all"
            config:
              contract: {enforced: true}
              persist_docs: {relation: true, columns: true}
            columns:
              - {name: id, data_type: int, data_tests: [unique, not_null]}
              - {name: amount, data_type: int, description: "what it's worth"}
              - {name: name, data_type: string}
              - {name: region, data_type: string}
              - {name: twice, data_type: int}
    """,
}
CHANGES = (
    "update raw.customers set region = 2, name = 'moved' where id = 7",
    "delete from raw.orders where id = 3",
    "insert into raw.orders values (1001, 7, 5), (1002, 8, 6)",
    "insert into raw.lines values (7, 1), (7, 1)",
    "delete from raw.lines where customer = 9 and price = 0",
)
BAG = ["--vars", "{bag: true}"]
MODELS = ["-s", "wide", "line_prices"]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All outcomes by the name of their step; steps after `again` ran in a second process."""
    project = make_project(tmp_path_factory.mktemp("shop"), FILES)
    first: dict[str, dict[str, Any]] = {
        "deps": {"dbt": ["deps"]},
        "raw": {"dbt": ["run-operation", "make_raw"]},
        "empty": {"dbt": ["run", "--empty", "--exclude", "tag:odd"]},
        "rows of empty": {"sql": "select count(*) from dw.wide"},
        "build": {"dbt": ["build", "--exclude", "tag:odd"]},
        "wide built": {"compare": "wide"},
        "line_prices built": {"compare": "line_prices"},
        "hooks": {"sql": "select entry from raw.log order by place"},
        "unchanged": {"dbt": ["run", "--exclude", "tag:odd"]},
        "comments": {"sql": "describe extended dw.wide"},
        "create foreign": {"sql": "create table dw.taken using delta as select 1 as x"},
        "odd": {"dbt": ["run", "-s", "tag:odd"]},
        "odd refreshed": {"dbt": ["run", "--full-refresh", "-s", "taken"]},
        "taken": {"compare": "taken"},
        "bag refused": {"dbt": ["run", "-s", "taken", *BAG]},
        "bag": {"dbt": ["run", "-s", "taken", "--full-refresh", *BAG]},
        "bag taken": {"compare": "taken"},
        "bag again": {"dbt": ["run", "-s", "taken", *BAG]},
        "keyed": {"dbt": ["run", "-s", "taken", "--full-refresh"]},
        "keyed taken": {"compare": "taken"},
        "partitions": {"sql": "describe detail dw.line_prices__deltajoin"},
        "clusters": {"sql": "describe detail dw.taken"},
        "docs": {"dbt": ["docs", "generate"]},
    }
    second: dict[str, dict[str, Any]] = {
        "again": {"dbt": ["run", *MODELS]},
        **{f"change {i}": {"sql": change} for i, change in enumerate(CHANGES)},
        "explain": {"dbt": ["run-operation", "deltajoin_explain", "--args", "{model: wide}"]},
        "changed": {"dbt": ["run", *MODELS]},
        "wide changed": {"compare": "wide"},
        "line_prices changed": {"compare": "line_prices"},
        "refresh": {"dbt": ["run", "--full-refresh", *MODELS]},
        "wide refreshed": {"compare": "wide"},
        "line_prices refreshed": {"compare": "line_prices"},
    }
    told: dict[str, Any] = {"project": project}
    for part in (first, second):
        told |= dict(zip(part, play_in(project, list(part.values())), strict=True))
    return told


def audit(outcome: dict[str, Any], name: str) -> dict[str, Any]:
    record: dict[str, Any] = outcome["results"][name]["adapter_response"]["deltajoin"]
    return record


def strategies(outcome: dict[str, Any]) -> list[str]:
    assert outcome["success"], outcome["output"]
    return [audit(outcome, name)["strategy"] for name in ("wide", "line_prices")]


def test_empty_builds_an_empty_table_that_the_next_run_replaces(story: dict[str, Any]) -> None:
    assert story["empty"]["success"], story["empty"]["output"]
    assert story["rows of empty"]["rows"] == [["0"]]
    assert strategies(story["build"]) == ["full", "full"]


def test_the_first_run_backfills_and_equals_the_query(story: dict[str, Any]) -> None:
    assert strategies(story["build"]) == ["full", "full"]
    assert story["wide built"]["rows"] == []
    assert story["line_prices built"]["rows"] == []
    assert audit(story["build"], "wide")["rows"]["inserted"] == 400


def test_tables_lie_as_configured(story: dict[str, Any]) -> None:
    (partitioned,), (clustered,) = story["partitions"]["rows"], story["clusters"]["rows"]
    assert any("price" in cell and "name" not in cell for cell in partitioned)
    assert any("my.own" in cell and "true" in cell for cell in partitioned)
    assert any("name" in cell and "[" in cell for cell in clustered)
    assert "ignores" not in story["build"]["output"]


def test_keys_come_from_tests_and_constraints(story: dict[str, Any]) -> None:
    explained = story["explain"]["output"]
    for key in ("dw.regions: id", "raw.customers: id", "raw.orders: id"):
        assert f"key of {key}" in explained
    assert audit(story["build"], "wide")["key"] == ["id"]
    assert audit(story["build"], "line_prices")["kind"] == "bag"


def test_data_tests_pass_and_nothing_runs_twice(story: dict[str, Any]) -> None:
    results = story["build"]["results"].values()
    assert {result["status"] for result in results} == {"success", "pass"}


def test_hooks_run_in_order(story: dict[str, Any]) -> None:
    entries = [row[0] for row in story["hooks"]["rows"]]
    assert entries == ["before", "pre", "0", "after", "before", "pre", "400", "after"]


def test_unchanged_sources_make_a_noop(story: dict[str, Any]) -> None:
    assert strategies(story["unchanged"]) == ["noop", "noop"]
    record = audit(story["unchanged"], "wide")
    assert record["reason"] == "NO_CHANGE"


def test_docs_are_persisted_and_generated(story: dict[str, Any]) -> None:
    rows = {row[0]: row for row in story["comments"]["rows"]}
    assert rows["Comment"][1] == "One row per order; that's all"
    assert rows["amount"][2] == "what it's worth"
    assert story["docs"]["success"], story["docs"]["output"]
    catalog = json.loads(Path(story["project"], "target", "catalog.json").read_text())
    columns = catalog["nodes"]["model.shop.wide"]["columns"]
    assert list(columns) == ["id", "amount", "name", "region", "twice"]
    assert catalog["nodes"]["model.shop.line_prices"]["metadata"]["type"] == "view"


def test_explain_prints_the_lookup_paths(story: dict[str, Any]) -> None:
    explained = story["explain"]["output"]
    assert "model.shop.wide  epoch 2  incremental  CHANGES" in explained
    assert "Δo → c" in explained
    assert "Δc → " in explained


def test_refusals_show_code_and_remedy(story: dict[str, Any]) -> None:
    odd = story["odd"]["results"]
    assert {odd[name]["status"] for name in ("misspelt", "taken")} == {"error"}
    assert "UNKNOWN_OPTION: 'mdoe'" in odd["misspelt"]["message"]
    assert "Did you mean 'mode'?" in odd["misspelt"]["message"]
    assert "TARGET_NOT_OURS" in odd["taken"]["message"]
    assert "--full-refresh" in odd["taken"]["message"]


def test_a_model_that_changes_by_itself_is_built_and_warns(story: dict[str, Any]) -> None:
    assert story["odd"]["results"]["random"]["status"] == "success"
    assert "warning: rand(), which gives another result at each run" in story["odd"]["output"]


def test_full_refresh_replaces_a_foreign_table(story: dict[str, Any]) -> None:
    assert audit(story["odd refreshed"], "taken")["strategy"] == "full"
    assert story["taken"]["rows"] == []


def test_full_refresh_turns_a_table_into_a_view_and_back(story: dict[str, Any]) -> None:
    refused = story["bag refused"]["results"]["taken"]["message"]
    assert "TARGET_KIND_CHANGED" in refused
    assert "--full-refresh" in refused
    assert [audit(story[step], "taken")["kind"] for step in ("bag", "keyed")] == ["bag", "keyed"]
    assert audit(story["bag again"], "taken")["strategy"] == "noop"
    assert story["bag taken"]["rows"] == []
    assert story["keyed taken"]["rows"] == []


def test_another_process_continues_and_reads_only_changes(story: dict[str, Any]) -> None:
    assert strategies(story["again"]) == ["noop", "noop"]
    assert strategies(story["changed"]) == ["incremental", "incremental"]
    assert story["wide changed"]["rows"] == []
    assert story["line_prices changed"]["rows"] == []
    response = story["changed"]["results"]["wide"]["adapter_response"]
    assert response["_message"] == "OK kept, epoch 2: +2 ~8 -1 rows"
    assert response["rows_affected"] == 11
    assert len(response["deltajoin"]["paths"]) == 2


def test_full_refresh_rebuilds(story: dict[str, Any]) -> None:
    assert strategies(story["refresh"]) == ["full", "full"]
    assert audit(story["refresh"], "wide")["reason"] == "FULL_REQUESTED"
    assert story["wide refreshed"]["rows"] == []
    assert story["line_prices refreshed"]["rows"] == []
