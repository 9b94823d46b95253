"""Foreign keys and figures as read from dbt's graph and config; no dbt and no Spark needed."""

from __future__ import annotations

from typing import Any

import pytest

from deltajoin.adapters.dbt.build import model_of
from deltajoin.adapters.dbt.keys import Relations
from deltajoin.adapters.dbt.references import hints_of, references_of
from deltajoin.errors import DeltaJoinError
from deltajoin.model import Model

WHERE = "model.p.m"
ORDERS = {
    "unique_id": "source.p.raw.orders",
    "name": "orders",
    "source_name": "raw",
    "relation_name": "raw.orders",
}
CUSTOMERS = {"unique_id": "model.p.customers", "name": "customers", "relation_name": "`dw`.`c`"}
TABLES = ["dw.c", "raw.orders"]


class Relation:
    """Where the model's table goes."""

    schema, identifier = "dw", "m"


def relationship(column: str = "customer", field: str = "id", **config: Any) -> dict[str, Any]:
    arguments = {"column_name": column, "to": "ref('customers')", "field": field}
    return {
        "resource_type": "test",
        "test_metadata": {"name": "relationships", "kwargs": arguments},
        "attached_node": "source.p.raw.orders",
        "depends_on": {"nodes": ["model.p.customers", "source.p.raw.orders"]},
        "config": {"severity": "ERROR", "error_if": "!= 0", **config},
    }


def graph(*tests: dict[str, Any]) -> dict[str, Any]:
    nodes = {"model.p.customers": CUSTOMERS}
    return {
        "nodes": {**nodes, **{f"test.{i}": test for i, test in enumerate(tests)}},
        "sources": {"source.p.raw.orders": ORDERS},
    }


def test_a_relationships_test_is_a_reference_by_the_names_of_the_sql() -> None:
    known = graph(relationship(), relationship("`The C`", "`The Id`"))
    assert references_of({}, Relations(TABLES, known, WHERE)) == {
        "raw.orders.The C": "dw.c.The Id",
        "raw.orders.customer": "dw.c.id",
    }


def test_a_table_that_refers_to_itself() -> None:
    test = relationship("parent", "id") | {"depends_on": {"nodes": ["source.p.raw.orders"]}}
    found = references_of({}, Relations(TABLES, graph(test), WHERE))
    assert found == {"raw.orders.parent": "raw.orders.id"}


@pytest.mark.parametrize(
    "weak",
    [
        relationship(where="id > 3"),
        relationship(severity="warn"),
        relationship("coalesce(customer, 0)"),
        relationship() | {"depends_on": {"nodes": ["model.p.a", "model.p.b", "model.p.c"]}},
        relationship() | {"test_metadata": {"name": "unique", "kwargs": {}}},
    ],
)
def test_other_tests_give_none(weak: dict[str, Any]) -> None:
    assert references_of({}, Relations(TABLES, graph(weak), WHERE)) == {}


def test_tables_that_the_sql_does_not_read_give_none() -> None:
    assert references_of({}, Relations(["raw.orders"], graph(relationship()), WHERE)) == {}


def test_the_config_wins_and_may_name_several_columns() -> None:
    declared = {"orders.customer": "raw.orders.id", "raw.orders.a, b": "customers.x, y"}
    assert references_of(declared, Relations(TABLES, graph(relationship()), WHERE)) == {
        "raw.orders.a, b": "dw.c.x, y",
        "raw.orders.customer": "raw.orders.id",
    }


def test_a_reference_without_a_column_is_refused() -> None:
    with pytest.raises(DeltaJoinError, match="INVALID_OPTION: references: 'orders' is not"):
        references_of({"orders": "customers.id"}, Relations(TABLES, graph(), WHERE))


def test_an_ambiguous_relation_is_refused() -> None:
    with pytest.raises(DeltaJoinError, match="AMBIGUOUS_KEYS: hints of 't' fit a.t and b.t"):
        hints_of({"rows": {"t": 1}}, Relations(["a.t", "b.t"], {}, WHERE))


def test_a_node_becomes_a_model_with_all_of_it() -> None:
    options = {
        "hints": {"rows": {"orders": 9}, "distinct": {"orders.customer": 4}},
        "strategy": "left_first,right_this_epoch",
        "reorder": False,
        "order": ["o", "c"],
    }
    node = {"unique_id": WHERE, "config": {"deltajoin": options}}
    sql = "select o.id, c.name from raw.orders o join `dw`.`c` c on o.customer = c.id"
    model = model_of(node, sql, Relation(), graph(relationship()))
    assert model.references == {"raw.orders.customer": "dw.c.id"}
    assert model.hints == {"distinct": {"raw.orders.customer": 4}, "rows": {"raw.orders": 9}}
    assert (model.strategy, model.reorder) == ("left_first,right_this_epoch", False)
    assert model.order == ("o", "c")


STAGED = {
    "`dw`.`stg`": "with s as (select * from raw.orders) select id as order_id, customer c from s",
    "`dw`.`kept`": "select order_id, c from dw.stg where c > 0",
}
STG = {"unique_id": "model.p.stg", "name": "stg", "relation_name": "dw.stg"}


def unique(of: str, column: str) -> dict[str, Any]:
    metadata = {"name": "unique", "kwargs": {"column_name": column}}
    return relationship() | {"attached_node": of, "test_metadata": metadata}


def staged(options: dict[str, Any], view: str = "stg") -> Model:
    """A model over a staging view whose tests know its keys and references."""
    of_stg = relationship("c") | {"attached_node": "model.p.stg"}
    of_stg["depends_on"] = {"nodes": ["model.p.customers", "model.p.stg"]}
    kept = STG | {"unique_id": "model.p.kept", "name": "kept", "relation_name": "dw.kept"}
    known = graph(of_stg, unique("model.p.stg" if view == "stg" else "model.p.kept", "order_id"))
    known["nodes"] |= {"model.p.stg": STG, "model.p.kept": kept}
    sql = f"select v.order_id, c.name from dw.{view} v join dw.c on v.c = c.id"
    node = {"unique_id": WHERE, "config": {"deltajoin": options}}
    views = STAGED if view == "kept" else {"`dw`.`stg`": STAGED["`dw`.`stg`"]}
    return model_of(node, sql, Relation(), known, views=views)


def test_tests_of_a_view_that_renames_hold_for_its_table() -> None:
    model = staged({})
    assert sorted(model.sources) == ["dw.c", "raw.orders"]
    assert model.keys == {"raw.orders": ("id",)}
    assert model.references == {"raw.orders.customer": "dw.c.id"}


def test_a_unique_test_of_a_filtered_view_is_no_key_of_the_table() -> None:
    assert staged({}, "kept").keys == {}


def test_the_config_may_name_the_view() -> None:
    model = staged({"keys": {"stg": ["order_id", "c"]}, "references": {"stg.c": "customers.k"}})
    assert model.keys == {"raw.orders": ("id", "customer")}
    assert model.references == {"raw.orders.customer": "dw.c.k"}


def test_the_config_may_not_name_a_view_with_a_filter() -> None:
    with pytest.raises(DeltaJoinError, match="INVALID_OPTION: keys: 'kept' is a view"):
        staged({"keys": {"kept": ["order_id"]}}, "kept")


def test_a_text_that_spark_alone_reads_has_the_tables_that_dbt_knows() -> None:
    above = ["model.p.a", "source.p.raw.o"]
    node = {"unique_id": WHERE, "config": {}, "depends_on": {"nodes": above}}
    known = {
        "nodes": {"model.p.a": {"unique_id": "model.p.a", "relation_name": "`dw`.`a`"}},
        "sources": {"source.p.raw.o": {"relation_name": "raw.o"}},
    }
    sql = "select a.id as, from dw.a join raw.o"
    model = model_of(node, sql, Relation(), known)
    assert (model.sql, set(model.sources)) == (sql, {"dw.a", "raw.o"})
