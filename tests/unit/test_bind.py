"""SQL text -> JoinGraph: what dissolves, what is classified how, what becomes opaque."""

from __future__ import annotations

import pytest

from deltajoin.errors import DeltaJoinError
from deltajoin.graph import JoinGraph
from deltajoin.names import SHOWN
from deltajoin.sql.bind import bind
from deltajoin.sql.dialect import parse, text
from deltajoin.sql.tables import replace_tables, source_names

COLUMNS = {
    "f": ("id", "k", "x", "s"),
    "w": ("k", "y", "s"),
    "my.db.t": ("a`b", "k", "Dot.Ted"),
    "p": ("k", "z"),
}


def graph(sql: str) -> JoinGraph:
    bound = bind(sql, COLUMNS)
    assert bound.graph is not None, bound.reason
    return bound.graph


def predicates(sql: str) -> list[tuple[str, str]]:
    return [(p.kind, p.sql.replace("`", "")) for p in graph(sql).predicates]


def outputs(sql: str) -> list[tuple[str, str]]:
    return [(p.name, p.sql) for p in graph(sql).projections]


def test_conjuncts_are_classified_by_the_relations_they_touch() -> None:
    sql = """SELECT f.id FROM f JOIN w ON f.k = w.k AND w.y > 3
             WHERE 1 = 1 AND (f.x <= w.y OR f.x IS NULL) AND f.id + w.y > 3"""
    assert predicates(sql) == [
        ("edge", "f.k = w.k"),
        ("filter", "w.y > 3"),
        ("constant", "1 = 1"),
        ("residual", "(f.x <= w.y OR f.x IS NULL)"),
        ("residual", "f.id + w.y > 3"),
    ]


def test_comma_joins_using_and_natural_give_the_same_edges() -> None:
    edge = [("edge", "p.k = w.k")]
    assert predicates("SELECT y FROM p, w WHERE p.k = w.k") == edge
    assert predicates("SELECT y FROM p JOIN w USING (k)") == edge
    assert predicates("SELECT y FROM p NATURAL JOIN w") == edge
    assert predicates("SELECT y FROM p CROSS JOIN w WHERE p.k = w.k") == edge


def test_using_shows_its_column_once_and_first() -> None:
    assert [name for name, _ in outputs("SELECT * FROM p JOIN w USING (k)")] == ["k", "z", "y", "s"]
    assert outputs("SELECT K FROM p JOIN w USING (k)") == [("K", "`p`.`k`")]


def test_what_using_hides_of_a_table_is_no_more_than_a_field() -> None:
    """Of a table `k`, that is: `k.k` is a field then of the column that USING shows."""
    assert outputs("SELECT k.k AS x FROM p JOIN w AS k USING (k)") == [("x", "`p`.`k`.`k`")]
    assert outputs("SELECT k.k FROM p RIGHT JOIN w AS k USING (k)") == [("k", "`k`.`k`")]
    assert outputs("SELECT k.k, k.y FROM p AS k JOIN w USING (k)")[0] == ("k", "`k`.`k`")


def test_a_table_used_several_times_is_several_relations() -> None:
    bound = graph("SELECT a.id, b.id AS other FROM f a JOIN f b ON a.k = b.k JOIN f ON f.k = b.x")
    assert [(r.name, r.source) for r in bound.relations] == [("a", "f"), ("b", "f"), ("f", "f")]


def test_each_reference_to_a_cte_is_an_occurrence_of_its_own() -> None:
    sql = """WITH c AS (SELECT k, y * 2 AS y2 FROM w WHERE y > 0)
             SELECT f.id, c1.y2, c2.y2 AS q
             FROM f JOIN c c1 ON f.k = c1.k JOIN c c2 ON c2.k = c1.k"""
    bound = graph(sql)
    assert [(r.name, r.source) for r in bound.relations] == [("f", "f"), ("w", "w"), ("w_2", "w")]
    assert outputs(sql) == [("id", "`f`.`id`"), ("y2", "(`w`.`y` * 2)"), ("q", "(`w_2`.`y` * 2)")]
    assert ("filter", "w_2.y > 0") in predicates(sql)


def test_derived_tables_parentheses_and_column_aliases_dissolve() -> None:
    assert outputs("SELECT q.i FROM (SELECT id, k FROM f) AS q(i, kk) JOIN w ON w.k = q.kk") == [
        ("i", "`f`.`id`")
    ]
    sql = "SELECT f.id FROM f JOIN (p JOIN w USING (k)) ON f.k = p.k AND f.x + w.y > p.z"
    assert predicates(sql) == [
        ("edge", "p.k = w.k"),
        ("edge", "f.k = p.k"),
        ("residual", "f.x + w.y > p.z"),
    ]


def test_names_are_found_in_any_case_and_emitted_in_the_schema_s() -> None:
    sql = "SELECT F.ID AS `I d`, t.`a``b`, t.`dot.ted` FROM f JOIN `my.db`.T t ON t.K = f.k"
    assert outputs(sql) == [
        ("I d", "`f`.`id`"),
        ("a`b", "`t`.`a``b`"),
        ("dot.ted", "`t`.`Dot.Ted`"),
    ]


def test_struct_fields_and_lambda_variables_are_no_columns() -> None:
    assert outputs("SELECT f.s.a.b, s.c FROM f") == [("b", "`f`.`s`.`a`.`b`"), ("c", "`f`.`s`.`c`")]
    (projection,) = graph("SELECT transform(s, e -> e + x) AS t FROM f").projections
    assert projection.refs == (("f", "s"), ("f", "x"))


def test_an_alias_of_the_select_list_can_be_used_after_it() -> None:
    assert outputs("SELECT x + 1 AS y1, y1 * 2 AS y2 FROM f") == [
        ("y1", "`f`.`x` + 1"),
        ("y2", "(`f`.`x` + 1) * 2"),
    ]


@pytest.mark.parametrize(
    "value",
    [
        "substr(a, 1, 5)",
        "SUBSTR(a FROM 2 FOR 3)",
        "position('x' IN a)",
        "position('x', a)",
        "trim(LEADING 'x' FROM a)",
        "trim(BOTH FROM a)",
        "overlay(a PLACING 'x' FROM 2)",
        "extract(YEAR FROM d)",
        "d + INTERVAL '30 days'",
        "a * .5",
        "-.25e1 + a",
        "d - interval '1' month",
        "d + INTERVAL '1 02:03:04' DAY TO SECOND",
    ],
)
def test_what_the_parser_calls_otherwise_is_kept(value: str) -> None:
    for sql in (f"SELECT {value} AS x FROM t", f"SELECT a FROM t WHERE {value} IS NOT NULL"):
        found = bind(sql, {"t": ("a", "d")})
        assert found.graph is not None, found.reason
    lost = bind("SELECT a, substr AS s, trim AS t FROM t", {"t": ("a", "substr", "trim")})
    assert lost.graph is not None
    assert lost.graph.output_names == ("a", "s", "t")


def test_a_scalar_subquery_that_makes_something_else_of_a_map_is_kept() -> None:
    for value in ("map_keys(map('a', y))", "map('a', y)['a']", "from_json(y, 'a INT').a"):
        found = bind(f"SELECT id, (SELECT {value} FROM w WHERE k = 1) AS v FROM f", COLUMNS)
        assert found.graph is not None, found.reason


def test_remarks_behind_the_end_are_no_statement() -> None:
    for end in (";", "; -- done", ";\n/* done */ ;", " -- done"):
        assert bind(f"SELECT a FROM t{end}", {"t": ("a",)}).graph is not None
    for sql in ("SELECT a FROM t; SELECT a FROM t", "SELECT a FROM t; -- done\nSELECT 1"):
        with pytest.raises(DeltaJoinError, match="NOT_A_QUERY"):
            bind(sql, {"t": ("a",)})
    table = bind("(TABLE t)", {"t": ("a",)})
    assert table.reason is not None
    assert table.reason.code == "SQL_PARSE_ERROR"


def test_units_of_date_functions_are_keywords() -> None:
    assert outputs("SELECT date_diff(day, x, s) AS d FROM f") == [
        ("d", "date_diff(day, `f`.`x`, `f`.`s`)")
    ]


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        (
            "SELECT f.id FROM f LEFT JOIN (SELECT k, coalesce(y, 0) AS z FROM w) v ON f.k < v.k",
            "OUTER_JOIN",
        ),
        ("SELECT row_number() OVER (ORDER BY id) AS n FROM f", "WINDOW"),
        ("SELECT id FROM f WHERE k = (SELECT DISTINCT parse_json(y) FROM w)", "SUBQUERY"),
        ("SELECT id FROM f WHERE k = (SELECT map('a', y) FROM w WHERE w.k = 1)", "SUBQUERY"),
        ("SELECT id, (SELECT parse_json(y) FROM w WHERE w.k = 1) AS x FROM f", "SUBQUERY"),
        ("SELECT id, (SELECT x FROM w WHERE w.k = f.id) AS x FROM f", "SUBQUERY"),
        ("SELECT id, (SELECT max(x) FROM w WHERE w.k < f.id) AS x FROM f", "SUBQUERY"),
        ("SELECT id, (SELECT max(x) FROM w WHERE concat(w.k) = f.id) AS x FROM f", "SUBQUERY"),
        ("SELECT id, (SELECT collect_set(x) FROM w WHERE w.k = f.id) AS x FROM f", "SUBQUERY"),
        ("SELECT id, (SELECT max(x) FROM w WHERE w.k = f.id) AS x FROM f GROUP BY id", "SUBQUERY"),
        ("SELECT id FROM f LEFT JOIN w ON f.k = w.k AND w.x > (SELECT max(x) FROM w)", "SUBQUERY"),
        ("SELECT id FROM f ORDER BY id LIMIT 3", "LIMIT"),
        ("SELECT explode(s) AS e, rank() OVER (PARTITION BY id ORDER BY x) FROM f", "GENERATOR"),
        ("SELECT id, e FROM f LATERAL VIEW explode(s) v", "GENERATOR"),
        ("SELECT id FROM range(5)", "NO_FROM"),
        ("SELECT f.k, 1 AS n FROM f JOIN w USING (s) GROUP BY f.k HAVING k > 1", "AGGREGATE"),
        ("SELECT k, grouping__id AS g FROM f GROUP BY k WITH ROLLUP", "UNKNOWN_COLUMN"),
        ("SELECT f.id, e.x FROM f JOIN explode(array(1)) AS e ON f.id = 1", "TABLE_FUNCTION"),
    ],
)
def test_what_is_not_kept_makes_the_query_opaque_with_its_line(sql: str, code: str) -> None:
    bound = bind("\n\n" + sql, COLUMNS)
    assert bound.graph is None
    assert bound.reason is not None
    assert bound.reason.code == code
    assert bound.reason.where == "line 3"
    assert bound.reason.remedy


def test_rows_that_a_target_hides_are_filtered_where_it_is_read() -> None:
    columns = {**COLUMNS, "h": ("k", "n", SHOWN)}
    bound = bind("SELECT f.id, h.* FROM f LEFT JOIN h ON f.k = h.k", columns).graph
    assert bound is not None
    assert bound.output_names == ("id", "k", "n")
    (core,) = bound.cores
    (attachment,) = core.attachments
    assert [p.sql for p in attachment.core.predicates] == [f"`h`.`{SHOWN}`"]
    assert bound.by_name["h"].columns == ("k", "n", SHOWN)
    with pytest.raises(DeltaJoinError, match="UNKNOWN_COLUMN"):
        bind(f"SELECT h.{SHOWN} AS x FROM h", columns)


def test_cosmetic_edits_leave_the_graph_as_it_is() -> None:
    tidy = graph("SELECT f.id, w.y FROM f JOIN w ON f.k = w.k WHERE f.x > 1")
    wild = graph(
        "select F.Id -- the id\n , W.y from f inner join w /* all */ on (F.K = w.k) "
        "where ((f.X > 1))"
    )
    assert [p.sql for p in wild.predicates] == [p.sql for p in tidy.predicates]
    assert [p.sql for p in wild.projections] == [p.sql for p in tidy.projections]


def test_functions_come_out_as_they_went_in() -> None:
    for call in (
        "to_date(a, 'D yyyy')",
        "decode(a, 1, 'x', 2, 'y')",
        "date_add(a, 1)",
        "nvl(a, b)",
        "TRY_CAST(a AS INT)",
        "CAST(a AS DECIMAL(10, 2))",
        "split(a, ',')[0]",
        "a RLIKE '\\\\d+'",
        "CASE WHEN a THEN 1 ELSE 2 END",
    ):
        shown = text(parse(f"SELECT {call} AS q FROM t"))
        assert shown.replace("`", "") == f"SELECT {call} AS q FROM t"


def test_qualify_stays_as_it_is_written() -> None:
    sql = "SELECT a.b AS c FROM t AS a QUALIFY rank() OVER (PARTITION BY a.c ORDER BY a.b) = 1"
    assert text(parse(sql)).replace("`", "") == sql


@pytest.mark.parametrize(
    "condition",
    [
        "k IN (SELECT max(k) FROM w GROUP BY y)",
        "EXISTS (SELECT 1, 1 FROM w GROUP BY y HAVING count(*) > 1)",
        "k NOT IN (SELECT k + 1 FROM w GROUP BY k)",
    ],
)
def test_nobody_sees_the_names_of_a_subquery_in_where(condition: str) -> None:
    assert bind(f"SELECT k FROM f WHERE {condition}", COLUMNS).graph is not None


def test_a_doubled_quote_is_one_quote() -> None:
    (projection,) = graph("SELECT 'it''s' AS q, id FROM f").projections[:1]
    assert projection.sql == "'it''s'"


def test_source_names_leave_ctes_out_and_respect_their_scope() -> None:
    sql = """WITH c AS (SELECT * FROM db.t), d AS (SELECT * FROM c) SELECT *
             FROM d JOIN u USING (k) JOIN (WITH u AS (SELECT 1 AS k) SELECT * FROM u) q USING (k)"""
    assert source_names(sql) == ("db.t", "u")


def test_replacing_tables_leaves_every_other_character() -> None:
    sql = (
        "with c as (select * from `my.db`.t) -- t\n"
        "select f.id from f left join c as f2 on f.k=f2.k, F g"
    )
    views = {"f": "f_v1", "my.db.t": "t_v3"}
    assert replace_tables("select * from f", views, {"f": "(SELECT 1)"}) == (
        "select * from (SELECT 1) AS `f`"
    )
    assert replace_tables(sql, views) == (
        "with c as (select * from `t_v3` AS `t`) -- t\n"
        "select f.id from `f_v1` AS `f` left join c as f2 on f.k=f2.k, `f_v1` g"
    )


def test_a_version_that_the_text_names_is_read_from_the_table() -> None:
    first, second = "version as of 3 tablesample (5 rows)", "version as of '4' as x"
    third = "timestamp as of '2026-01-01' as y"
    sql = f"select f.id from f {first}, f {second}, f {third}, f"
    tables = {"f": "/lake/f`s"}
    table = "delta.`/lake/f``s`"
    assert replace_tables(sql, {"f": "f_v9"}, paths=tables) == (
        f"select f.id from {table} {first} AS `f`, {table} {second}, {table} {third}, `f_v9` AS `f`"
    )
    with pytest.raises(DeltaJoinError, match="TIME_TRAVEL"):
        replace_tables(sql, {"f": "f_v9"})
    with pytest.raises(DeltaJoinError, match="TIME_TRAVEL"):
        bind("select f.id from f timestamp as of current_timestamp() - interval 1 day", COLUMNS)
    for each in ("version as of 3", "timestamp as of timestamp '2026-01-01'"):
        found = bind(f"select f.id from f {each}", COLUMNS)
        assert found.graph is None
        assert found.reason is not None
        assert found.reason.code == "TIME_TRAVEL"
    assert bind("select f.id from f version as of 3", COLUMNS).canonical != (
        bind("select f.id from f version as of 4", COLUMNS).canonical
    )


def test_fields_of_structs_are_read_through_a_union() -> None:
    columns = {"a": ("id", "s"), "b": ("id", "s"), "c": ("id",)}
    types = {("a", "s"): "struct<x:int>", ("b", "s"): "struct<x:int>"}
    types |= {(table, "id"): "int" for table in columns}
    both = "SELECT id, s FROM a UNION ALL SELECT id, s FROM b"
    sql = f"SELECT u.s.x AS x FROM ({both}) AS u JOIN c ON c.id = u.id AND u.s.x > 1"
    found = bind(sql, columns, types).graph
    assert found is not None
    shown = [(p.sql, p.refs) for core in found.branches for p in found.outputs(core)]
    assert shown == [("`a`.`s`.`x`", (("a", "s"),)), ("`b`.`s`.`x`", (("b", "s"),))]
    assert {r.name: r.columns for r in found.relations}["a"] == ("id", "s")


def chain(levels: int) -> str:
    """Each subquery names the column of the one before it three times."""
    step = "SELECT k, CASE WHEN x > {n} THEN x + 1 WHEN k > 0 THEN {n} ELSE x END AS x FROM ({one})"
    sql = "SELECT f.k, f.x FROM f JOIN w ON f.k = w.k"
    for n in range(levels):
        sql = step.format(n=n, one=sql)
    return sql


def test_what_doubles_at_every_step_ends() -> None:
    assert bind(chain(3), COLUMNS).graph is not None
    reason = bind(chain(30), COLUMNS).reason
    assert reason is not None
    assert reason.code == "EXPRESSION_TOO_LARGE"
    names = ", ".join(f"f.x + {n} AS c{n}" for n in range(600))
    long = (
        "SELECT CASE " + " ".join(f"WHEN f.x = {n} THEN 'n{n}'" for n in range(600)) + " END AS c"
    )
    assert len(graph(f"SELECT {names} FROM f JOIN w ON f.k = w.k").projections) == 600
    assert graph(f"{long} FROM f JOIN w ON f.k = w.k").projections
