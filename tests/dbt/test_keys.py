"""Keys and options as read from dbt's graph and config; no dbt and no Spark needed."""

from __future__ import annotations

from typing import Any

import pytest

from deltajoin.adapters.dbt.keys import Relations, keys_of
from deltajoin.adapters.dbt.options import read_options
from deltajoin.errors import DeltaJoinError

WHERE = "model.p.m"


def model(name: str, table: str, **more: Any) -> dict[str, Any]:
    return {"unique_id": f"model.p.{name}", "name": name, "relation_name": table, **more}


def unique(of: str, column: str, **config: Any) -> dict[str, Any]:
    return {
        "resource_type": "test",
        "test_metadata": {"name": "unique", "kwargs": {"column_name": column}},
        "attached_node": of,
        "depends_on": {"nodes": [of]},
        "config": {"severity": "ERROR", "error_if": "!= 0", **config},
    }


def generic(of: str, name: str, **kwargs: Any) -> dict[str, Any]:
    """A test as dbt's graph has it; a name with a dot is that of a package."""
    package, _, name = name.rpartition(".")
    return {
        "resource_type": "test",
        "package_name": "shop",
        "test_metadata": {"name": name, "kwargs": kwargs, "namespace": package or None},
        "depends_on": {"nodes": [of], "macros": []},
        "config": {},
    }


def combination(of: str, **kwargs: Any) -> dict[str, Any]:
    return generic(of, "dbt_utils.unique_combination_of_columns", **kwargs)


def found(*nodes: dict[str, Any], tests: tuple[dict[str, Any], ...] = ()) -> Any:
    graph = {
        "nodes": {
            **{node["unique_id"]: node for node in nodes},
            **{f"test.{i}": test for i, test in enumerate(tests)},
        },
        "sources": {},
    }
    return keys_of({}, Relations([node["relation_name"] for node in nodes], graph, WHERE))


def test_unique_tests_give_keys_also_of_quoted_columns() -> None:
    a, b = model("a", "dw.a"), model("b", "`dw`.`b`")
    tests = (unique("model.p.a", "id"), unique("model.p.b", "`The Id`"))
    assert found(a, b, tests=tests) == {"dw.a": ("id",), "`dw`.`b`": ("The Id",)}


def test_combination_tests_of_sources_give_composite_keys() -> None:
    weather = model("weather", "raw.weather") | {"unique_id": "source.p.raw.weather"}
    test = combination("source.p.raw.weather", combination_of_columns=["origin", "time_hour"])
    assert found(weather, tests=(test,)) == {"raw.weather": ("origin", "time_hour")}


def test_a_primary_key_goes_before_a_shorter_unique_key() -> None:
    constraint = {"type": "primary_key", "columns": ["x", "y"]}
    a = model("a", "dw.a", constraints=[constraint])
    assert found(a, tests=(unique("model.p.a", "id"),)) == {"dw.a": ("x", "y")}


def test_column_constraints_count() -> None:
    a = model("a", "dw.a", columns={"id": {"constraints": [{"type": "unique"}]}})
    assert found(a) == {"dw.a": ("id",)}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("unique", {"column_name": "x"}),
        ("dbt.unique", {"column_name": "x", "model": "{{ get_where_subquery(ref('a')) }}"}),
        ("unique_combination_of_columns", {"combination_of_columns": ["x"]}),
        ("shop.unique_combination_of_columns", {"combination_of_columns": ["x"]}),
        ("dbt_utils.unique_combination_of_columns", {"combination_of_columns": ["x"]}),
        ("dbt_expectations.expect_column_values_to_be_unique", {"column_name": "x"}),
        ("dbt_expectations.expect_compound_columns_to_be_unique", {"column_list": ["x"]}),
    ],
)
def test_these_tests_give_keys(name: str, arguments: dict[str, Any]) -> None:
    test = generic("model.p.a", name, **arguments)
    assert found(model("a", "dw.a"), tests=(test,)) == {"dw.a": ("x",)}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("uniqueness", {"column_name": "x"}),
        ("mostly_unique", {"combination_of_columns": ["x"]}),
        ("not_unique_combination_of_columns", {"combination_of_columns": ["x"]}),
        ("unique_combination_of_columns", {"column_list": ["x"]}),
        ("other.unique", {"column_name": "x"}),
        ("other.unique_combination_of_columns", {"combination_of_columns": ["x"]}),
        ("expect_compound_columns_to_be_unique", {"column_list": ["x"]}),
        ("dbt_expectations.expect_column_distinct_count_to_be_unique", {"column_name": "x"}),
        (
            "dbt_expectations.expect_select_column_values_to_be_unique_within_record",
            {"column_list": ["x", "y"]},
        ),
        (
            "dbt_expectations.expect_compound_columns_to_be_unique",
            {"column_list": ["x"], "ignore_row_if": "any_value_is_missing"},
        ),
        ("dbt_utils.unique_combination_of_columns", {"combination_of_columns": ["x"], "n": 2}),
    ],
)
def test_no_other_test_gives_one(name: str, arguments: dict[str, Any]) -> None:
    test = generic("model.p.a", name, **arguments)
    assert found(model("a", "dw.a"), tests=(test,)) == {}


def test_a_projects_own_unique_test_in_place_of_dbts_gives_none() -> None:
    a, test = model("a", "dw.a"), unique("model.p.a", "id")
    for macro, keys in (("dbt", {"dw.a": ("id",)}), ("shop", {})):
        depends = test["depends_on"] | {"macros": [f"macro.{macro}.test_unique"]}
        assert found(a, tests=(test | {"depends_on": depends},)) == keys


@pytest.mark.parametrize(
    "weak",
    [
        unique("model.p.a", "id", where="id > 3"),
        unique("model.p.a", "id", severity="warn"),
        unique("model.p.a", "id", error_if=">10"),
        unique("model.p.a", "id", fail_calc="count(*) - 1"),
        unique("model.p.a", "id", enabled=False),
        unique("model.p.a", "concat(x, y)"),
        generic(
            "model.p.a",
            "dbt_expectations.expect_compound_columns_to_be_unique",
            column_list=["x", "y"],
            row_condition="x > 1",
        ),
    ],
)
def test_a_test_that_proves_no_key_gives_none(weak: dict[str, Any]) -> None:
    assert found(model("a", "dw.a"), tests=(weak,)) == {}


def test_config_names_relations_as_dbt_or_as_sql_does_and_wins() -> None:
    graph = {
        "nodes": {"model.p.a": model("a", "dw.a_v2"), "t": unique("model.p.a", "id")},
        "sources": {
            "source.p.raw.f": {
                "unique_id": "source.p.raw.f",
                "name": "f",
                "source_name": "raw",
                "relation_name": "lake.F",
            }
        },
    }
    tables = ["dw.a_v2", "lake.f", "other.g"]
    declared = {"a": ("k",), "raw.f": ("x",), "g": ("y",)}
    assert keys_of(declared, Relations(tables, graph, WHERE)) == {
        "dw.a_v2": ("k",),
        "lake.f": ("x",),
        "other.g": ("y",),
    }


def test_an_ambiguous_name_in_config_is_refused() -> None:
    with pytest.raises(DeltaJoinError, match="AMBIGUOUS_KEYS: keys of 'f' fit a.f and b.f"):
        keys_of({"f": ("x",)}, Relations(["a.f", "b.f"], {}, WHERE))


def test_options_are_read() -> None:
    config = {"keys": {"f": "id", "g": ["a", "b"]}, "mode": "full"}
    keys = {"f": ("id",), "g": ("a", "b")}
    assert read_options(config, WHERE) == {"keys": keys, "mode": "full"}
    assert read_options(None, WHERE) == {}
    assert read_options({"mode": None, "order": None}, WHERE) == {}


def test_orders_and_estimates_are_read() -> None:
    config = {
        "references": {"f.a": "d.a"},
        "hints": {"rows": {"f": 7}, "distinct": {"f.a": 2.5}},
        "strategy": "right_first, left_this_epoch",
        "reorder": False,
        "order": ["f", "d"],
    }
    assert read_options(config, WHERE) == {
        "references": {"f.a": "d.a"},
        "hints": {"rows": {"f": 7}, "distinct": {"f.a": 2.5}},
        "strategy": "right_first,left_this_epoch",
        "reorder": False,
        "order": ("f", "d"),
    }


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"mdoe": "full"}, "UNKNOWN_OPTION: 'mdoe' .*Did you mean 'mode'"),
        ({"mode": "fast"}, "INVALID_OPTION: mode is 'fast' .*incremental_strict"),
        ({"keys": ["id"]}, "INVALID_OPTION: keys is a list"),
        ({"keys": {"f": [1]}}, "INVALID_OPTION: keys of 'f'"),
        ("full", "INVALID_OPTION: the config 'deltajoin' is a str"),
        ({"references": {"f.a": ["d.a"]}}, "INVALID_OPTION: references: 'f.a'"),
        ({"references": ["f.a"]}, "INVALID_OPTION: references is a list"),
        ({"hints": {"row": {"f": 1}}}, "INVALID_OPTION: hints: 'row'"),
        ({"hints": {"rows": {"f": "1"}}}, "INVALID_OPTION: hints: 'f' has '1'"),
        ({"hints": {"rows": {"f": True}}}, "INVALID_OPTION: hints: 'f' has True"),
        ({"strategy": "fastest"}, "INVALID_OPTION: strategy is 'fastest'.*left_first"),
        ({"strategy": 1}, "INVALID_OPTION: strategy is a int"),
        ({"reorder": "off"}, "INVALID_OPTION: reorder is 'off'"),
        ({"order": "a, b"}, "INVALID_OPTION: order is 'a, b'"),
        ({"order": ["a", 1]}, "INVALID_OPTION: order is"),
    ],
)
def test_bad_options_are_refused(config: Any, message: str) -> None:
    with pytest.raises(DeltaJoinError, match=message):
        read_options(config, WHERE)
