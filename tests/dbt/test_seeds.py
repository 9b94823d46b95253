"""A seed that is loaded again: the same content is no change, another one gives its difference."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dbt.conftest import make_project, play_in

ROWS = "id,name,rate\n1,north,0.5\n2,south,\n3,west,2.5\n"
DISPATCH = [{"macro_namespace": "dbt", "search_order": ["shop", "deltajoin", "dbt"]}]
FILES = {
    "macros/start.sql": "{% macro start() %}{% do run_query('select 1') %}{% endmacro %}",
    "seeds/regions.csv": ROWS,
    "models/joined.sql": """
        {{ deltajoin.delta_join(keys={'orders': ['id'], 'regions': ['id']}) }}
        select o.id, r.name, r.rate from {{ source('raw', 'orders') }} o
        join {{ ref('regions') }} r on o.region = r.id
    """,
    "models/sources.yml": "sources: [{name: raw, tables: [{name: orders}]}]",
}
STATEMENTS = (
    "create schema raw",
    "create table raw.orders (id int, region bigint) using delta",
    "insert into raw.orders select id, id % 4 from range(40)",
)


def seeded(dispatch: Any, folder: Any) -> dict[str, Any]:
    """The outcomes by the names of the steps."""
    project = make_project(
        folder, FILES, project={"seeds": {"+file_format": "delta"}, "dispatch": dispatch}
    )
    steps: dict[str, dict[str, Any]] = {
        "deps": {"dbt": ["deps"]},
        "session": {"dbt": ["run-operation", "start"]},
        **{f"raw {i}": {"sql": statement} for i, statement in enumerate(STATEMENTS)},
        "first": {"dbt": ["build"]},
        "again": {"dbt": ["build"]},
    }
    if dispatch:
        steps |= {
            "write": {"write": ["seeds/regions.csv", ROWS.replace("west,2.5", "east,2.5")]},
            "changed": {"dbt": ["build"]},
            "difference": {"compare": "joined"},
            "widen": {"write": ["seeds/regions.csv", ROWS.replace("rate", "rates")]},
            "other columns": {"dbt": ["seed"]},
            "columns": {"sql": "select rates from dw.regions where id = 3"},
        }
    return dict(zip(steps, play_in(project, list(steps.values())), strict=True))


def audit(outcome: dict[str, Any]) -> dict[str, Any]:
    assert outcome["success"], outcome["output"]
    record: dict[str, Any] = outcome["results"]["joined"]["adapter_response"]["deltajoin"]
    return record


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return seeded(DISPATCH, tmp_path_factory.mktemp("seeds"))


def test_the_same_content_changes_no_row(story: dict[str, Any]) -> None:
    assert audit(story["first"])["reason"] == "FIRST_RUN"
    again = audit(story["again"])
    assert again["strategy"] in ("noop", "incremental")
    assert set(again["rows"].values()) == {0}


def test_another_content_gives_its_difference(story: dict[str, Any]) -> None:
    changed = audit(story["changed"])
    assert changed["strategy"] == "incremental"
    assert changed["rows"] == {"inserted": 0, "updated": 10, "deleted": 0}
    assert story["difference"]["rows"] == []


def test_a_seed_with_other_columns_is_created_anew(story: dict[str, Any]) -> None:
    assert story["other columns"]["success"], story["other columns"]["output"]
    assert story["columns"]["rows"] == [["2.5"]]


@pytest.mark.thorough
def test_a_seed_that_is_dropped_and_created_rebuilds_with_a_reason(tmp_path: Any) -> None:
    story = seeded([], tmp_path)
    record = audit(story["again"])
    assert (record["strategy"], record["reason"]) == ("full", "SOURCE_RECREATED")
