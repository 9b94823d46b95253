"""The SQL of plans: nesting, places of filters, odd names."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from sqlglot import exp

from deltajoin.emit.ast import column, named, pretty, table
from deltajoin.emit.nesting import Arms, add_from
from deltajoin.graph import JoinGraph
from deltajoin.planner.combine import Combiner, SubPlan
from deltajoin.planner.enumerate import exact_plan
from tests.property.join_queries import (
    COLUMNS,
    WrongSizes,
    combiner_of,
    database,
    draw,
    literal_rows,
    plan_rows,
    plan_sql,
    visible,
)
from tests.property.oracle import to_duckdb
from tests.unit.test_hypergraph import block, eq, join, query


def sql(combiner: Combiner, plan: SubPlan) -> str:
    text = pretty(
        add_from(exp.select("*"), combiner.graph, plan, lambda name: table(f"t_{name}", name))
    )
    return " ".join(text.split()).replace("`", "")


def only_sql(graph: JoinGraph) -> str:
    combiner = combiner_of(graph)
    return sql(combiner, exact_plan(combiner))


def nested(combiner: Combiner, names: list[str], deep_side: str) -> SubPlan:
    """The plan that joins one relation after the other, what is joined so far on one side."""
    first, *rest = (combiner.graph.bit[name].bit_length() - 1 for name in names)
    plan = combiner.leaf(first)
    for number in rest:
        leaf = combiner.leaf(number)
        joined = combiner.join(plan, leaf)
        assert joined is not None
        left, right = (plan, leaf) if deep_side == "left" else (leaf, plan)
        assert joined.left is left or joined.kind in ("inner", "full")
        plan = replace(joined, left=left, right=right)
    return plan


def test_one_relation() -> None:
    graph = query("a", on=("`a`.`k` > 1",))
    assert only_sql(graph) == "SELECT * FROM t_a AS a WHERE a.k > 1"


def test_semi_and_anti_joins_are_sparks() -> None:
    for kind in ("semi", "anti"):
        text = only_sql(query(join(kind, "a", "b", eq("a", "b"))))
        word = f"LEFT {kind.upper()} JOIN"
        assert text == f"SELECT * FROM t_a AS a {word} t_b AS b ON a.k = b.k"


def test_filters_of_a_right_side_are_in_its_on() -> None:
    text = only_sql(query(join("left", "a", "b", eq("a", "b"), "`b`.`v` = 1"), on=("`a`.`v` = 2",)))
    assert text == (
        "SELECT * FROM t_a AS a LEFT JOIN t_b AS b ON a.k = b.k AND b.v = 1 WHERE a.v = 2"
    )


def test_a_filter_that_waits_is_in_where_or_in_the_on_above() -> None:
    waits = query(join("left", "a", "b", eq("a", "b")), on=("`b`.`k` IS NULL",))
    assert only_sql(waits) == (
        "SELECT * FROM t_a AS a LEFT JOIN t_b AS b ON a.k = b.k WHERE b.k IS NULL"
    )
    below = block(join("left", "b", "c", eq("b", "c")), on=("`c`.`k` IS NULL",))
    assert only_sql(query(join("semi", "a", below, eq("a", "b")))) == (
        "SELECT * FROM t_a AS a LEFT SEMI JOIN ( t_b AS b LEFT JOIN t_c AS c ON b.k = c.k ) "
        "ON a.k = b.k AND c.k IS NULL"
    )


def test_filters_below_a_full_join_are_applied_first() -> None:
    table_filter = join("full", block("a", on=("`a`.`v` = 1",)), "b", eq("a", "b"))
    assert "( SELECT * FROM t_a AS a WHERE a.v = 1 ) AS a" in only_sql(query(table_filter))
    waiting = block(join("left", "a", "b", eq("a", "b")), on=("`b`.`v` IS NULL",))
    text = only_sql(query(join("full", waiting, "one_row", eq("a", "one_row"))))
    assert "INNER JOIN ( SELECT 1 AS one ) AS one_row_2 ON b.v IS NULL" in text


def test_a_cross_product_is_named() -> None:
    assert "CROSS JOIN" in only_sql(query("a", "b"))
    assert "CROSS JOIN" not in only_sql(query("a", "b", on=("`a`.`k` < `b`.`k`",)))


def test_an_implied_equality_is_added_where_no_written_one_connects() -> None:
    combiner = combiner_of(query("a", "b", "c", on=(eq("a", "b"), eq("b", "c"))))
    first = sql(combiner, nested(combiner, list("acb"), "left"))
    assert "t_c AS c ON a.k = c.k INNER JOIN t_b AS b ON a.k = b.k AND b.k = c.k" in first
    assert "a.k = c.k" not in sql(combiner, nested(combiner, list("abc"), "left"))


def test_an_empty_on_is_true() -> None:
    assert only_sql(query(join("left", "a", "b"))).endswith("LEFT JOIN t_b AS b ON TRUE")


def hinted(graph: JoinGraph, plan: SubPlan, *sides: str) -> str:
    """The SQL of a plan that broadcasts some right sides, each given by its relations."""
    columns = {relation.name: ("k", "v") for relation in graph.relations}
    bits = combiner_of(graph).graph
    arms = Arms(tuple(sum(bits.bit[name] for name in side) for side in sides), columns)
    visible_columns = [
        named(column("v", name), f"{name}.v") for name in sorted(visible(graph.root))
    ]
    select = exp.select(*visible_columns, column("k", sorted(visible(graph.root))[0]))
    return pretty(
        add_from(select, bits, plan, lambda name: table(graph.by_name[name].source, name), arms)
    )


def test_a_relation_is_broadcast_by_its_alias() -> None:
    graph = query(join("left", "a", "b", eq("a", "b"), "`b`.`v` = 1"))
    text = " ".join(hinted(graph, exact_plan(combiner_of(graph)), "b").split())
    assert text == (
        "SELECT /*+ BROADCAST(`b`) */ `a`.`v` AS `a.v`, `b`.`v` AS `b.v`, `a`.`k` "
        "FROM `t_a` AS `a` LEFT JOIN `t_b` AS `b` ON `a`.`k` = `b`.`k` AND `b`.`v` = 1"
    )


def test_a_join_is_broadcast_as_a_subquery_with_names_of_its_own() -> None:
    right = block(join("left", "b", "c", eq("b", "c")), on=("`c`.`v` IS NULL",))
    graph = query(join("left", "a", right, eq("a", "b")), on=("`c`.`k` > `a`.`k`",))
    text = hinted(graph, exact_plan(combiner_of(graph)), "bc", "c")
    flat = " ".join(text.split()).replace("`", "")
    assert flat.startswith("SELECT /*+ BROADCAST(arm) */ a.v AS a.v, arm.b.v AS b.v"), flat
    assert "( SELECT /*+ BROADCAST(c) */ b.k AS b.k, b.v AS b.v, c.k AS c.k, c.v AS c.v" in flat
    assert "WHERE c.v IS NULL ) AS arm ON a.k = arm.b.k" in flat


def test_hints_keep_the_rows() -> None:
    arms = 0
    for seed in range(50):
        graph = draw(seed)
        combiner = combiner_of(graph, WrongSizes(float(seed)))
        plan = exact_plan(combiner)
        wanted = plan_rows(graph, combiner.graph, plan)
        sides = tuple(
            node.right.relations for node in plan.joins() if node.right and node.kind != "full"
        )
        outputs = [
            named(column(c, name), f"{name}.{c}")
            for name in sorted(visible(graph.root))
            for c in COLUMNS
        ]
        arms_of = Arms(sides, {relation.name: COLUMNS for relation in graph.relations})
        select = add_from(
            exp.select(*outputs),
            combiner.graph,
            plan,
            lambda name, of=graph: table(of.by_name[name].source, name),  # type: ignore[misc]
            arms_of,
        )
        text = pretty(select)
        arms += text.count("AS `arm")
        assert Counter(database().execute(to_duckdb(text)).fetchall()) == wanted, text
    assert arms > 8


def test_names_with_every_odd_character_come_through() -> None:
    names = ("a.b", "c`d", 'e"f g')
    quoted = [name.replace("`", "``") for name in names]
    graph = query(*names)
    assert [r.name for r in graph.relations] == list(names)
    combiner = combiner_of(graph)
    text = pretty(
        add_from(exp.select("*"), combiner.graph, exact_plan(combiner), lambda n: table(n, n))
    )
    assert all(f"AS `{name}`" in text for name in quoted)


def deep(size: int, kind: str) -> JoinGraph:
    whole = block("r000")
    for i in range(1, size):
        one, other = f"r{i - 1:03}", f"r{i:03}"
        if kind == "inner":
            whole = block(
                *whole.items, other, on=(*(p.sql for p in whole.predicates), eq(one, other))
            )
        else:
            whole = block(join(kind, whole, other, eq(one, other)))
    return query(*whole.items, on=tuple(p.sql for p in whole.predicates))


def test_a_hundred_relations_nest_to_the_right() -> None:
    names = [f"r{i:03}" for i in range(100)]
    for kind in ("inner", "left"):
        combiner = combiner_of(deep(100, kind))
        text = sql(combiner, nested(combiner, names[::-1], "right"))
        assert text.count(" JOIN ") == 99
        assert text.count("(") < 20


def test_deep_brackets_that_are_turned_keep_their_rows() -> None:
    con, names = database(), [f"r{i:03}" for i in range(24)]
    con.execute("CREATE OR REPLACE TABLE few (k INTEGER, v INTEGER)")
    con.execute("INSERT INTO few VALUES (1, 2), (NULL, 3), (4, 4)")

    def rows(combiner: Combiner, plan: SubPlan) -> Counter[tuple[object, ...]]:
        outputs = [column("v", name) for name in names]
        text = pretty(
            add_from(exp.select(*outputs), combiner.graph, plan, lambda name: table("few", name))
        )
        return Counter(con.execute(to_duckdb(text)).fetchall())

    for kind in ("inner", "left", "full"):
        combiner = combiner_of(deep(24, kind))
        to_left, to_right = nested(combiner, names, "left"), nested(combiner, names[::-1], "right")
        assert rows(combiner, to_left) == rows(combiner, to_right), kind


def test_the_text_is_the_same_each_time() -> None:
    for seed in range(30):
        graph = draw(seed)
        one, other = (combiner_of(graph, WrongSizes(1.0)) for _ in range(2))
        text = plan_sql(graph, one.graph, exact_plan(one))
        assert text == plan_sql(graph, other.graph, exact_plan(other))
        assert plan_rows(graph, one.graph, exact_plan(one)) == literal_rows(graph)
