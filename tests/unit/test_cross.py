"""Relations that no condition connects: linked, priced as all pairs, said so, refused by rule; what
is mostly joined so: totals, scalar subqueries, rows of literals."""

from __future__ import annotations

import pytest

from deltajoin.audit.explain import explanation
from deltajoin.delta.derived import describe
from deltajoin.delta.identity import row_key
from deltajoin.delta.lookup_paths import lookup_paths
from deltajoin.delta.path import SourceVersion
from deltajoin.emit.sql import build_program
from deltajoin.errors import DeltaJoinError
from deltajoin.graph import JoinGraph, Predicate
from deltajoin.planner.build_graph import build_hypergraph
from deltajoin.planner.full_query import plan_full_query
from deltajoin.planner.solver import STRATEGIES
from deltajoin.planner.statistics import Statistics
from deltajoin.sql.bind import bind
from deltajoin.sql.constant_queries import rows_of
from deltajoin.sql.dialect import parse
from tests.unit import flights
from tests.unit.test_search import best_order

COLUMNS = {name: ("k", "v") for name in "abce"}
TYPES = {(name, column): "int" for name in COLUMNS for column in "kv"}
ROWS = {"a": 1_000, "b": 20, "c": 3, "e": 50}


def graph_of(sql: str, *, typed: bool = False) -> JoinGraph:
    query = bind(sql, COLUMNS, TYPES if typed else None)
    assert query.graph is not None, query.reason
    return query.graph


def is_crossed(graph: JoinGraph) -> bool:
    cores = (core for part in graph.parts for core in part.branches)
    return any(p.kind == "cross" for core in cores for p in core.all_predicates())


def links(predicates: tuple[Predicate, ...]) -> list[tuple[str, ...]]:
    return sorted(p.linked for p in predicates if p.kind == "cross")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.k, b.v FROM a, b",
        "SELECT a.k, b.v FROM a CROSS JOIN b",
        "SELECT a.k, b.v FROM a JOIN b ON TRUE",
        "SELECT a.k, b.v FROM a JOIN b ON a.k = 1 AND b.k = 1",
    ],
)
def test_two_relations_that_nothing_connects_are_linked(sql: str) -> None:
    graph = graph_of(sql)
    assert links(graph.predicates) == [("a", "b")]
    assert is_crossed(graph)


def test_each_relation_of_a_part_is_linked_with_each_of_another() -> None:
    graph = graph_of("SELECT a.k, b.v, c.v AS cv FROM a JOIN b ON a.k = b.k CROSS JOIN c")
    assert links(graph.predicates) == [("a", "c"), ("b", "c")]
    assert not is_crossed(graph_of("SELECT a.k, b.v FROM a JOIN b ON a.k = b.k"))


def test_an_unconnected_side_of_an_outer_join_is_linked_within() -> None:
    graph = graph_of("SELECT a.k, b.v FROM a LEFT JOIN (b CROSS JOIN c) ON b.k = a.k")
    (core,) = graph.cores
    assert links(core.predicates) == []
    assert links(core.attachments[0].core.predicates) == [("b", "c")]


def test_an_outer_join_on_true_needs_no_link() -> None:
    (core,) = graph_of("SELECT a.k, b.v FROM a LEFT JOIN b ON TRUE").cores
    assert links(tuple(core.all_predicates())) == []


def test_all_pairs_are_expected() -> None:
    graph = graph_of("SELECT a.k, b.v FROM a CROSS JOIN b")
    statistics = Statistics(ROWS, {})
    assert best_order(graph, statistics, "a", 10.0).rows == (10.0, 200.0)
    plan = plan_full_query(graph, statistics, {})
    assert plan.plan.rows == 20_000
    assert plan.to_dict()["joins"][0]["kind"] == "cross"


def test_links_are_no_conditions() -> None:
    graph = graph_of("SELECT a.k, b.v FROM a CROSS JOIN b")
    assert graph.decidable(frozenset("a"), "b") == ()
    assert graph.judged_columns("a") == ()
    (edge,) = build_hypergraph(graph).edges
    assert edge.cross


def test_what_is_connected_is_joined_before_it_is_crossed() -> None:
    graph = graph_of("SELECT a.k FROM a CROSS JOIN c JOIN b ON a.k = b.k JOIN e ON b.v = e.v")
    statistics = Statistics(ROWS, {"b": ("k",), "e": ("v",)})
    assert best_order(graph, statistics, "a", 10.0).relations == ("a", "b", "e", "c")


def test_a_rule_refuses_what_is_not_connected() -> None:
    graph = graph_of("SELECT a.k, b.v FROM a CROSS JOIN b")
    versions = {name: SourceVersion(name, "", "", 2, 1, (), 100, 10) for name in ROWS}
    for strategy in STRATEGIES[1:]:
        with pytest.raises(DeltaJoinError) as caught:
            lookup_paths(graph, Statistics(ROWS, {}), ("a", "b"), versions, strategy)
        assert caught.value.code == "UNCONNECTED_RELATIONS"
    assert lookup_paths(graph, Statistics(ROWS, {}), ("a", "b"), versions)


def test_explain_names_the_cross_join_and_what_it_costs() -> None:
    sql = "SELECT f.flight, f.dep_delay, a.name FROM flights f CROSS JOIN airlines a"
    plan = flights.first_plan(flights.model(sql))
    crossed = explanation(plan)["operators"][0]
    assert crossed["operator"] == "cross join"
    assert crossed["over"] in ("f with a", "a with f")
    assert "every row with every row; 432,100 rows, cost " in crossed["kept"]
    assert "CROSS JOIN" in (build_program(plan).full or "")


# one row, and rows of literals -------------------------------------------------------------------


def test_a_total_in_a_subquery_is_one_row_beside_every_other() -> None:
    graph = graph_of("SELECT a.k, t.n FROM a CROSS JOIN (SELECT count(*) AS n FROM b) AS t")
    (total,) = graph.derived
    assert total.exactly_one_row
    assert links(graph.predicates) == [("a", "t")]


def test_one_row_more_identifies_nothing_more() -> None:
    graph = graph_of("SELECT a.k, a.v, (SELECT max(v) FROM b) AS m FROM a")
    described = describe(graph, {"a": ("k",)}, TYPES)
    assert row_key(graph, described.keys, described.types) == ("k",)


def test_a_total_that_having_may_turn_away_is_joined_left() -> None:
    graph = graph_of("SELECT a.k, (SELECT max(v) FROM b HAVING count(*) > 1) AS m FROM a")
    (core,) = graph.cores
    assert [attachment.kind for attachment in core.attachments] == ["left"]


def test_a_correlated_count_is_zero_without_rows() -> None:
    graph = graph_of("SELECT a.k, (SELECT count(*) FROM b WHERE b.k = a.k) AS n FROM a", typed=True)
    (groups,) = graph.derived
    assert groups.graph.grouping is not None
    assert groups.graph.grouping.keys == ("g0",)
    assert graph.projections[1].sql == "(coalesce(`scalar`.`a0`, CAST(0 AS bigint)))"


BY_KEY = {
    "SELECT a.k, (SELECT b.v FROM b WHERE b.k = a.v) AS w FROM a": True,
    "SELECT a.k, (SELECT v FROM b AS z WHERE a.v = k AND z.v > 1) AS w FROM a": True,
    "SELECT a.k FROM a WHERE v > (SELECT c.v FROM c WHERE c.v = 1 AND (a.k = c.k))": True,
    "SELECT a.k, (SELECT c.v FROM c WHERE c.k = a.v) AS w FROM a": False,
    "SELECT a.k, (SELECT b.v FROM b WHERE b.k > a.v) AS w FROM a": False,
    "SELECT a.k, (SELECT b.v FROM b WHERE b.k = b.v AND b.v = a.v) AS w FROM a": False,
    "SELECT a.k, (SELECT b.v FROM b WHERE b.k = a.v OR b.k = 1) AS w FROM a": False,
    "SELECT a.k, (SELECT e.v FROM e WHERE e.k = a.v) AS w FROM a": False,
    "SELECT a.k, size((SELECT map(1, b.v) FROM b WHERE b.k = a.v)) AS w FROM a": False,
    "SELECT a.k, (SELECT CAST(b.v AS MAP<INT, INT>) FROM b WHERE b.k = a.v)[1] AS w FROM a": False,
}


@pytest.mark.parametrize("sql", BY_KEY)
def test_a_row_by_its_declared_key_is_a_group_that_stops_at_two(sql: str) -> None:
    query = bind(sql, COLUMNS, TYPES, keys={"b": ("k",), "c": ("k", "v")})
    assert (query.graph is not None) == BY_KEY[sql]
    if query.graph is None:
        assert query.reason is not None
        assert query.reason.code == "SUBQUERY"
        return
    (groups,) = query.graph.derived
    assert [sql for _, sql in groups.graph.grouping.outputs][:2] == [
        "max(`input`.`c0`)",
        "count(1)",
    ]
    assert "raise_error" in str(query.graph)


def test_one_row_of_a_table_stops_at_two() -> None:
    graph = graph_of("WITH p AS (SELECT v FROM b) SELECT a.k, (SELECT v FROM p) AS low FROM a")
    (total,) = graph.derived
    assert total.exactly_one_row
    assert "raise_error" in str(total.graph.grouping)
    assert [relation.source for relation in graph.relations] == ["a", "scalar"]


def test_a_select_without_from_is_its_values() -> None:
    graph = graph_of("SELECT a.k FROM a CROSS JOIN (SELECT 2 AS low) AS p WHERE a.v > p.low")
    assert [relation.name for relation in graph.relations] == ["a"]
    assert [predicate.sql for predicate in graph.predicates] == ["`a`.`v` > 2"]


def test_values_are_a_source_of_their_own_text() -> None:
    graph = graph_of(
        "SELECT a.k, t.n FROM a JOIN VALUES (1, 'x'), (2, 'y') AS t(k, n) ON a.k = t.k"
    )
    (source,) = graph.derived
    assert source.text == "SELECT * FROM VALUES (1, 'x'), (2, 'y') AS t(k, n)"
    assert (source.types, source.rows) == ((("k", "int"), ("n", "string")), 2)
    assert graph.sources == ("a",)


SPINE = (
    "WITH p AS (SELECT 0 AS n UNION ALL SELECT 1), numbers AS (SELECT p0.n + p1.n * 2 + p2.n * 4 + "
    "p3.n * 8 + p4.n * 16 AS n FROM p p0, p p1, p p2, p p3, p p4), days AS (SELECT {} AS day FROM "
    "(SELECT * FROM numbers WHERE n <= 6 ORDER BY n)) SELECT d.day, b.v FROM days d LEFT JOIN b ON "
    "b.k = d.day"
)


@pytest.mark.parametrize(
    "day",
    [
        "row_number() OVER (ORDER BY n)",
        "date_add(DATE '2026-01-01', row_number() OVER (ORDER BY 1) - 1)",
        "rank() OVER (ORDER BY n) + n",
    ],
)
def test_a_date_spine_is_a_source_of_its_own_text(day: str) -> None:
    graph = graph_of(SPINE.format(day), typed=True)
    assert graph.sources == ("b",)
    assert any("OVER" in derived.text.upper() for derived in graph.derived)


@pytest.mark.parametrize("how", ["NATURAL JOIN b", "JOIN b USING (n)", "LEFT SEMI JOIN b ON true"])
def test_columns_that_a_join_merges_or_leaves_out_are_not_guessed(how: str) -> None:
    rows = "WITH b AS (SELECT 1 AS n, 2 AS m) SELECT * FROM (VALUES (1)) AS a(n) {}"
    assert rows_of("rows", parse(rows.format(how))) is None
    found = rows_of("rows", parse(rows.format("CROSS JOIN (SELECT m FROM b) c")))
    assert found is not None
    assert found.types == (("n", ""), ("m", ""))


@pytest.mark.parametrize(
    ("day", "code"),
    [
        ("n, row_number() OVER (ORDER BY n)", "WINDOW"),
        ("sum(n) OVER (ORDER BY n)", "WINDOW"),
        ("row_number() OVER (ORDER BY 1) + (SELECT n)", "SUBQUERY"),
    ],
)
def test_rows_that_an_order_may_decide_are_no_spine(day: str, code: str) -> None:
    query = bind(SPINE.format(day), COLUMNS, TYPES)
    assert query.reason is not None
    assert query.reason.code == code


def test_other_literals_are_another_model() -> None:
    sql = "SELECT f.flight, t.n FROM flights f JOIN VALUES ('AA', {}) AS t(c, n) ON f.carrier = t.c"
    one, other = (flights.first_plan(flights.model(sql.format(n))) for n in (1, 2))
    assert one.fingerprint != other.fingerprint


def test_a_total_below_a_join_changes_as_a_whole() -> None:
    sql = "SELECT f.flight, t.n FROM flights f CROSS JOIN (SELECT count(*) AS n FROM planes) AS t"
    plan = flights.first_plan(flights.model(sql))
    (total,) = plan.derived
    assert total.source.rows == 1
    full = build_program(plan).full or ""
    assert "CROSS JOIN" in full
