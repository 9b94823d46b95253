"""Views written out in a query: it binds to their tables and returns the same rows on DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import deltajoin
from deltajoin.errors import DeltaJoinError
from deltajoin.sql.bind import bind
from deltajoin.sql.tables import source_names
from deltajoin.sql.views import (
    column_origin,
    gather_views,
    inline_views,
    qualify_tables,
    tables_named,
    write_out,
)
from tests.spark.shop import open_shop

COLUMNS = {"raw.o": ("id", "cust", "amt"), "raw.c": ("id", "nm"), "dw.o": ("id", "x")}
VIEWS = {
    "dw.stg_o": """
        with source as (select * from raw.o), renamed as (
          select id as order_id, cust as customer_id, amt / 100 as amount from source
        )
        select * from renamed -- all of them""",
    "dw.stg_c": "with source as (select * from raw.c) select id as customer_id, nm from source;",
    "dw.named": "select o.order_id, o.amount, c.nm from dw.stg_o o left join dw.stg_c c "
    "on o.customer_id = c.customer_id",
    "dw.total": "select customer_id, sum(amount) as total from dw.stg_o group by customer_id",
}
QUERIES = [
    "select order_id, amount from dw.stg_o",
    "select stg_o.order_id, DW.Stg_C.nm from dw.stg_o join dw.stg_c "
    "on dw.stg_o.customer_id = stg_c.customer_id",
    "select a.order_id, b.order_id as other from dw.stg_o a join dw.stg_o as b "
    "on a.customer_id = b.customer_id",
    "with renamed as (select * from dw.named), source as (select * from raw.c) "
    "select r.order_id, r.nm, s.id from renamed r join source s on r.nm = s.nm",
    "select nm, count(*) as n, max(amount) as m from dw.named group by nm",
    "select c.nm from dw.stg_c c where not exists "
    "(select 1 from dw.stg_o o where o.customer_id = c.customer_id)",
    "select x.i, x.j from dw.stg_c as x(i, j)",
    "with stg_o as (select 1 as order_id) select order_id from stg_o",
]


@pytest.fixture(scope="module")
def database() -> Any:
    connection = duckdb.connect()
    connection.execute("create schema raw; create schema dw")
    connection.execute("create table raw.o (id int, cust int, amt int)")
    connection.execute("insert into raw.o values (1,1,500),(2,1,500),(3,null,70),(4,9,1),(4,9,1)")
    connection.execute("create table raw.c (id int, nm text)")
    connection.execute("insert into raw.c values (1,'a'),(2,'b'),(3,null)")
    for name, sql in VIEWS.items():
        connection.execute(f"create view {name} as {sql.rstrip(';')}")
    return connection


@pytest.mark.parametrize("query", QUERIES)
def test_only_tables_remain_and_the_rows_are_the_same(database: Any, query: str) -> None:
    inlined = inline_views(query, VIEWS)
    assert not set(source_names(inlined)) & set(VIEWS)
    rows = [
        sorted(database.execute(sql.replace("`", '"')).fetchall(), key=repr)
        for sql in (query, inlined)
    ]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("query", QUERIES[:-1])
def test_the_written_out_query_binds_to_a_graph(query: str) -> None:
    bound = bind(inline_views(query, VIEWS), COLUMNS)
    assert bound.reason is None
    assert bound.graph is not None


def test_an_aggregate_in_a_view_is_a_derived_source() -> None:
    query = "select c.nm, t.total from dw.stg_c c join dw.total t on c.customer_id = t.customer_id"
    bound = bind(inline_views(query, VIEWS), COLUMNS)
    assert bound.tables == ("raw.c", "raw.o")
    assert bound.graph is not None
    assert [derived.name for derived in bound.graph.derived] == ["t"]


def test_case_and_backticks_do_not_matter() -> None:
    inlined = inline_views("select 1 as a from `DW`.`Stg_C`", {"`dw`.`stg_c`": "select 2 as b"})
    assert inlined == "select 1 as a from (\nselect 2 as b\n) AS `Stg_C`"


def test_without_views_nothing_changes() -> None:
    query = "select  * from dw.o -- as it was"
    assert inline_views(query, VIEWS) == query


def test_an_alias_of_the_schema_name_keeps_struct_fields() -> None:
    query = "select dw.stg_c.nm from raw.s as dw join dw.stg_c on true"
    assert inline_views(query, {"dw.stg_c": "select 1 as a"}).startswith("select dw.stg_c.nm from")


def test_a_view_that_the_query_pins_is_refused() -> None:
    with pytest.raises(DeltaJoinError, match="TIME_TRAVEL"):
        inline_views("select * from dw.stg_c version as of 3", VIEWS)


#: `GROUP BY limit` is read by Spark alone.
UNREAD = {
    "dw.w": "select o.limit, dw.v.id from dw.v join raw.o on dw.v.id = o.id group by limit",
    "dw.v": "select id from raw.c;",
}


def test_dotted_names_are_found_in_a_text_that_spark_alone_reads() -> None:
    written = write_out("select w.id\nfrom dw.w join dw.v on true", UNREAD)
    assert written.sql == (
        "select w.id\nfrom (\nselect o.limit, `v`.id from (\nselect id from raw.c\n) AS `v` join "
        "raw.o on `v`.id = o.id group by limit\n) AS `w` join (\nselect id from raw.c\n) AS `v` "
        "on true"
    )
    assert written.lines == ()
    assert write_out(UNREAD["dw.w"], UNREAD).sql in written.sql
    assert column_origin(written.sql, ["id"]) is None


def test_views_are_gathered_in_a_text_that_spark_alone_reads() -> None:
    known = ["`raw`.`o`", "`raw`.`c`", "`dw`.`v`", "`dw`.`w`", "`dw`.`other`"]

    def read(parts: tuple[str, ...]) -> str | None:
        return UNREAD.get(".".join(parts))

    for query in ("select * from dw.w", UNREAD["dw.w"]):
        views = gather_views(query, read, known)
        assert set(views) - {"`dw`.`w`"} == {"`dw`.`v`"}
        assert tables_named(write_out(query, views).sql, known) == ["`raw`.`o`", "`raw`.`c`"]


def test_views_in_a_circle_and_views_that_grow_are_refused() -> None:
    with pytest.raises(DeltaJoinError, match="VIEW_TOO_LARGE: the view 'a.v' refers to itself"):
        inline_views("select * from a.v", {"a.v": "select * from a.w", "a.w": "select * from a.v"})
    grown = {
        f"a.v{i}": f"select * from a.v{i - 1} x cross join a.v{i - 1} y cross join a.v{i - 1} z"
        for i in range(1, 20)
    }
    with pytest.raises(DeltaJoinError, match="VIEW_TOO_LARGE: .* 1 MB"):
        inline_views("select * from a.v19", grown)


def test_views_are_gathered_through_views_and_each_is_asked_once() -> None:
    asked: list[str] = []

    def read(parts: tuple[str, ...]) -> str | None:
        asked.append(".".join(parts))
        return VIEWS.get(".".join(parts))

    found = gather_views(
        "select * from dw.named n join dw.stg_o o on n.order_id = o.order_id", read
    )
    assert sorted(found) == ["`dw`.`named`", "`dw`.`stg_c`", "`dw`.`stg_o`"]
    assert sorted(asked) == ["dw.named", "dw.stg_c", "dw.stg_o", "raw.c", "raw.o"]


def test_bare_names_of_a_view_are_safe_from_the_ctes_of_the_query() -> None:
    view = qualify_tables("with c as (select * from o) select c.x from c", ("dw",))
    inlined = inline_views(
        "with o as (select 1 as x) select v.x from v join o on true", {"v": view}
    )
    assert source_names(inlined) == ("dw.o",)


@pytest.mark.parametrize(
    ("sql", "origin"),
    [
        ("select id as k, x from raw.o", ("raw.o", ("id",))),
        ("select t.id as k from raw.o as t", ("raw.o", ("id",))),
        ("select * from (select id as k from raw.o) as s", ("raw.o", ("id",))),
        ("with a as (select * from raw.o), b as (select id as k from a) select * from b",
         ("raw.o", ("id",))),
        ("select k from raw.o where k > 0", None),
        ("select distinct k from raw.o", None),
        ("select k from raw.o limit 3", None),
        ("select k, count(*) as n from raw.o group by k", None),
        ("select o.k from raw.o join raw.c using (k)", None),
        ("select k from raw.o, raw.c", None),
        ("select abs(id) as k from raw.o", None),
        ("select s.k from raw.o", None),
        ("select id as k, * from raw.o", None),
        ("select * except (k) from raw.o", None),
        ("select k from raw.o union all select k from raw.o", None),
        ("with a(k) as (select id from raw.o) select k from a", None),
        ("select k from raw.o lateral view explode(x) as y", None),
        ("select k from raw.o tablesample (5 rows)", None),
        ("select k from (select k from raw.o) as s(k)", None),
        ("select explode(x) as y, id as k from raw.o", None),
        ("select k from (select explode(x) as y, id as k from raw.o) as s", None),
    ],
)  # fmt: skip
def test_the_origin_of_a_column_is_known_where_a_query_only_renames(
    sql: str, origin: tuple[str, tuple[str, ...]] | None
) -> None:
    assert column_origin(sql, ["k"]) == origin


SPREAD = {
    "dw.base": "select order_id,\n  customer_id\nfrom orders\nLIMIT 3",
    "dw.v": "-- a comment\nselect *\nfrom dw.base",
}
SPREAD_QUERY = "select v.order_id, c.name\nfrom dw.v v\njoin customers c\n  on c.customer_id = {}"


def test_each_line_knows_where_it_was_written() -> None:
    written = write_out(SPREAD_QUERY.format("v.customer_id"), SPREAD)
    assert len(written.lines) == len(written.sql.splitlines())
    places = dict(zip(written.sql.splitlines(), written.lines, strict=True))
    assert places["  customer_id"] == "view dw.base, line 2"
    assert places["select *"] == "view dw.v, line 2"
    assert places["join customers c"] == "line 3"
    assert places["  on c.customer_id = v.customer_id"] == "line 4"


def test_a_reason_in_a_view_names_view_line_and_remedy(tmp_path: Path) -> None:
    written = write_out(SPREAD_QUERY.format("v.customer_id"), SPREAD)
    model = open_shop(tmp_path).model(sql=written.sql, lines=written.lines)
    planned = deltajoin.plan(model)
    because = planned.rebuilt_because
    assert because is not None
    assert (because.code, because.where) == ("LIMIT", "view dw.base, line 4")
    assert because.remedy.endswith("Or make the view a table.")
    assert "view dw.base, line 4" in deltajoin.explain(planned)


def test_an_error_after_a_view_names_the_querys_own_line(tmp_path: Path) -> None:
    written = write_out(SPREAD_QUERY.format("v.no"), {"dw.v": "select *\nfrom orders\n"})
    model = open_shop(tmp_path).model(sql=written.sql, lines=written.lines)
    with pytest.raises(DeltaJoinError, match=r"UNKNOWN_COLUMN: .* \(at line 4\)"):
        deltajoin.plan(model)
