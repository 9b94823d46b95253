"""What a user of dbt sees: a line per model at the end of a run, explain, errors in views."""

from __future__ import annotations

import re
from typing import Any

import pytest

from deltajoin.adapters.dbt.summary import summary
from tests.dbt.conftest import make_project, play_in

FEED = "using delta tblproperties (delta.enableChangeDataFeed = true)"
FILES = {
    "macros/start.sql": "{% macro start() %}{% do run_query('select 1') %}{% endmacro %}",
    "models/recent.sql": """
        {{ config(materialized='ephemeral') }}
        select id, customer, dateadd(day, 1, placed) as placed from {{ source('raw', 'orders') }}
    """,
    "models/joined.sql": """
        {{ deltajoin.delta_join(mode='incremental', keys={'orders': ['id'], 'customers': ['id']}) }}
        select o.id, c.name, datediff(day, date '2020-01-01', o.placed) as days
        from {{ ref('recent') }} o join {{ source('raw', 'customers') }} c on o.customer = c.id
    """,
    "models/first_ten.sql": """
        {{ deltajoin.delta_join(mode='incremental') }}
        select id, customer from {{ source('raw', 'orders') }} order by id limit 10
    """,
    "models/stg.sql": """
        select id,
          customer
        from {{ source('raw', 'orders') }}
        limit 10
    """,
    "models/broken.sql": """
        {{ deltajoin.delta_join(mode='incremental_strict') }} {{ config(tags='broken') }}
        select c.name, s.id from {{ source('raw', 'customers') }} c
        join {{ ref('stg') }} s on s.customer = c.id
    """,
    "models/sources.yml": """
        sources: [{name: raw, tables: [{name: orders}, {name: customers}]}]
    """,
}
STATEMENTS = (
    "create schema raw",
    f"create table raw.orders (id int, customer int, placed date) {FEED}",
    f"create table raw.customers (id int, name string) {FEED}",
    "insert into raw.orders select id, id % 5, date '2026-01-01' from range(100)",
    "insert into raw.customers select id, concat('c', id) from range(5)",
)
EXPLAIN = ["run-operation", "deltajoin_explain", "--args"]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    project = make_project(tmp_path_factory.mktemp("screen"), FILES)
    steps: dict[str, dict[str, Any]] = {
        "deps": {"dbt": ["deps"]},
        "session": {"dbt": ["run-operation", "start"]},
        **{f"raw {i}": {"sql": statement} for i, statement in enumerate(STATEMENTS)},
        "explain first": {"dbt": [*EXPLAIN, "{model: joined}"]},
        "built": {"dbt": ["run", "--exclude", "tag:broken"]},
        "again": {"dbt": ["run", "--exclude", "tag:broken"]},
        "update": {"sql": "update raw.orders set customer = 4 where id = 3"},
        "explain": {"dbt": [*EXPLAIN, "{model: joined}"]},
        "changed": {"dbt": ["run", "--exclude", "tag:broken"]},
        "difference": {"compare": "joined"},
        "broken": {"dbt": ["run", "-s", "tag:broken"]},
        "explain broken": {"dbt": [*EXPLAIN, "{model: broken}"]},
        "views only": {"dbt": ["run", "-s", "stg"]},
    }
    return dict(zip(steps, play_in(project, list(steps.values())), strict=True))


def last_lines(outcome: dict[str, Any]) -> list[str]:
    """The lines about models, without times; the head first."""
    lines = [line.partition("  ")[2] for line in outcome["output"].splitlines()]
    assert "deltajoin:" in lines, outcome["output"]
    head = lines.index("deltajoin:")
    return lines[head + 1 : head + 3]


def test_each_model_ends_with_its_line(story: dict[str, Any]) -> None:
    assert last_lines(story["built"]) == [
        "  first_ten  built, epoch 1: 10 rows",
        "  joined     built, epoch 1: 100 rows",
    ]
    assert last_lines(story["again"]) == [
        "  first_ten  nothing to do, epoch 1",
        "  joined     nothing to do, epoch 1",
    ]
    first_ten, joined = last_lines(story["changed"])
    assert joined == "  joined     kept, epoch 2: +0 ~1 -0 rows"
    assert first_ten.startswith("  first_ten  rebuilt because LIMIT, epoch 2: ")
    assert "LIMIT is not kept incrementally (line " in first_ten


def test_the_models_own_line_says_it_too(story: dict[str, Any]) -> None:
    assert re.search(r"first_ten \.* \[OK rebuilt because LIMIT, epoch 2: .* in", flat(story))
    assert re.search(r"joined \.* \[OK kept, epoch 2: \+0 ~1 -0 rows in", flat(story))


def flat(story: dict[str, Any]) -> str:
    return " ".join(story["changed"]["output"].split())


def test_a_failure_is_among_the_lines(story: dict[str, Any]) -> None:
    assert last_lines(story["broken"])[0].startswith("  broken  failed: LIMIT: ")


def test_a_run_without_delta_join_models_has_no_line(story: dict[str, Any]) -> None:
    assert story["views only"]["success"]
    assert "deltajoin:" not in story["views only"]["output"]


def test_explain_follows_ephemeral_models(story: dict[str, Any]) -> None:
    for step, head in (
        ("explain first", "model.shop.joined  epoch 1  full  FIRST_RUN"),
        ("explain", "model.shop.joined  epoch 2  incremental  CHANGES"),
    ):
        assert story[step]["success"], story[step]["output"]
        assert head in story[step]["output"]
    assert story["difference"]["rows"] == []


@pytest.mark.parametrize("step", ["broken", "explain broken"])
def test_an_error_in_a_view_names_view_line_and_remedy(story: dict[str, Any], step: str) -> None:
    output = story[step]["output"]
    assert not story[step]["success"]
    assert "LIMIT: LIMIT is not kept incrementally (at view dw.stg, line 4)" in output
    assert "make the view a table" in output


def test_no_models_no_lines() -> None:
    assert summary({}) == []
