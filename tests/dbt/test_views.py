"""A view that dbt didn't make as a source: renamed columns, bare names, a table that grew since."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dbt.conftest import make_project, play_in

FEED = "using delta tblproperties (delta.enableChangeDataFeed = true)"
FILES = {
    "macros/start.sql": "{% macro start() %}{% do run_query('select 1') %}{% endmacro %}",
    "models/joined.sql": """
        {{ deltajoin.delta_join(mode='incremental_strict', order=['orders', 'c'],
                                keys={'shown': ['number'], 'customers': ['id']}) }}
        select o.*, c.name from {{ source('raw', 'shown') }} o
        join {{ source('raw', 'customers') }} c on o.`the buyer` = c.id
    """,
    "models/staged.sql": """
        {{ config(materialized='view') }}
        select customer as `limit`, id from {{ source('raw', 'orders') }}
    """,
    "models/words.sql": """
        {{ deltajoin.delta_join() }}
        select s.limit, count(id) as n from {{ ref('staged') }} s group by limit
    """,
    "models/sources.yml": """
        sources: [{name: raw, tables: [{name: shown}, {name: customers}, {name: orders}]}]
    """,
}
STATEMENTS = (
    "create schema raw",
    f"create table raw.orders (id int, customer int) {FEED}",
    f"create table raw.customers (id int, name string) {FEED}",
    "insert into raw.orders select id, id % 5 from range(100)",
    "insert into raw.customers select id, 'c' from range(5)",
    "use raw",
    "create view shown (number, `the buyer`, buyer) as "
    "select *, customer + 0 as again from orders -- as they are",
    "use default",
    "alter table raw.orders add columns (note string)",
)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    project = make_project(tmp_path_factory.mktemp("views"), FILES)
    steps: dict[str, dict[str, Any]] = {
        "deps": {"dbt": ["deps"]},
        "session": {"dbt": ["run-operation", "start"]},
        **{f"raw {i}": {"sql": statement} for i, statement in enumerate(STATEMENTS)},
        "first": {"dbt": ["run"]},
        "update": {"sql": "update raw.orders set customer = 4 where id = 3"},
        "insert": {"sql": "insert into raw.orders values (100, 2, 'new')"},
        "changed": {"dbt": ["run"]},
        "difference": {"compare": "joined"},
        "words": {"compare": "words"},
        "columns": {"sql": "select * from dw.joined where number = 100"},
    }
    return dict(zip(steps, play_in(project, list(steps.values())), strict=True))


def audit(outcome: dict[str, Any], model: str = "joined") -> dict[str, Any]:
    assert outcome["success"], outcome["output"]
    record: dict[str, Any] = outcome["results"][model]["adapter_response"]["deltajoin"]
    return record


def test_the_view_is_written_out_with_the_columns_that_it_has(story: dict[str, Any]) -> None:
    assert sorted(audit(story["first"])["frontier"]) == ["raw.customers", "raw.orders"]
    assert story["columns"]["rows"] == [["100", "2", "2", "c"]]


def test_a_key_of_the_view_is_one_of_its_table(story: dict[str, Any]) -> None:
    assert audit(story["first"])["key"] == ["number"]


def test_changes_below_the_view_are_followed(story: dict[str, Any]) -> None:
    assert audit(story["changed"])["strategy"] == "incremental"
    assert story["difference"]["rows"] == []


def test_what_spark_alone_reads_is_rebuilt_from_the_tables_below_its_views(
    story: dict[str, Any],
) -> None:
    for step in ("first", "changed"):
        record = audit(story[step], "words")
        assert (record["strategy"], sorted(record["frontier"])) == ("full", ["raw.orders"])
    assert story["words"]["rows"] == []
