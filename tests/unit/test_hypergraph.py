"""Edges, implied edges, filters and cross products of single queries."""

from __future__ import annotations

import random
import re
from dataclasses import replace

from deltajoin.graph import Block, Join, JoinGraph, Predicate, Relation
from deltajoin.planner.build_graph import build_hypergraph
from deltajoin.planner.enumerate import count_pairs
from deltajoin.planner.hypergraph import Edge, Hypergraph
from deltajoin.planner.push_down import push_down
from tests.property.join_queries import COLUMNS, combiner_of, draw, predicate


def query(*items: str | Join, on: tuple[str, ...] = ()) -> JoinGraph:
    root = Block(items, tuple(predicate(sql) for sql in on))
    relations = tuple(Relation(name, f"t_{name}", COLUMNS) for name in root.relations)
    return JoinGraph(relations, root.predicates, (), tuple(i for i in items if isinstance(i, Join)))


def block(*items: str | Join, on: tuple[str, ...] = ()) -> Block:
    return Block(items, tuple(predicate(sql) for sql in on))


def join(kind: str, left: Block | str, right: Block | str, *on: str) -> Join:
    sides = (block(side) if isinstance(side, str) else side for side in (left, right))
    return Join(kind, *sides, tuple(predicate(sql) for sql in on))


def types(graph: JoinGraph, kind: str = "int") -> dict[tuple[str, str], str]:
    return {(r.source, column): kind for r in graph.relations for column in r.columns}


def named(graph: Hypergraph, joined: int) -> str:
    return "".join(name for name in sorted(graph.names) if graph.bit[name] & joined)


def shown(graph: Hypergraph) -> list[str]:
    """Edges as `a-b`, in the order of names."""
    marks = {"inner": "-", "left": ">", "full": "=", "semi": "+", "anti": "!"}
    return sorted(
        f"{named(graph, e.left)}{marks[e.kind]}{named(graph, e.right)}"
        if e.kind != "inner"
        else marks["inner"].join(sorted((named(graph, e.left), named(graph, e.right))))
        for e in graph.edges
    )


def edge_of(graph: Hypergraph, sql: str) -> Edge:
    return next(e for e in graph.edges if any(p.sql == sql for p in e.predicates))


def eq(a: str, b: str, column: str = "k") -> str:
    return f"`{a}`.`{column}` = `{b}`.`{column}`"


def test_every_inner_conjunct_is_an_edge_of_its_own() -> None:
    graph = build_hypergraph(
        query("a", "b", "c", on=(eq("a", "b"), eq("a", "b", "v"), "`b`.`k` < `c`.`k`"))
    )
    assert shown(graph) == ["a-b", "a-b", "b-c"]
    assert all(len(edge.predicates) == 1 and not edge.implied for edge in graph.edges)


def test_a_conjunct_over_three_relations_joins_them_in_any_split() -> None:
    sql = "`a`.`k` + `b`.`k` = `c`.`k`"
    graph = build_hypergraph(query("a", "b", "c", on=(eq("a", "b"), eq("b", "c"), sql)))
    edge, bit = edge_of(graph, sql), graph.bit
    assert edge.connects(bit["a"], bit["b"] | bit["c"])
    assert edge.connects(bit["a"] | bit["b"], bit["c"])
    assert not edge.connects(bit["a"], bit["b"])


def test_equal_columns_of_one_type_are_equal_to_each_other() -> None:
    graph = query("a", "b", "c", "d", on=(eq("a", "b"), eq("b", "c"), "`c`.`k` = `d`.`v`"))
    implied = [e for e in build_hypergraph(graph, types(graph)).edges if e.implied]
    assert sorted(p.sql for e in implied for p in e.predicates) == [
        "`a`.`k` = `c`.`k`",
        "`a`.`k` = `d`.`v`",
        "`b`.`k` = `d`.`v`",
    ]
    assert not [e for e in build_hypergraph(graph).edges if e.implied]
    mixed = types(graph) | {("t_b", "k"): "string"}
    assert not [
        p.sql for e in build_hypergraph(graph, mixed).edges if e.implied for p in e.predicates
    ]


def test_equalities_are_not_closed_across_an_outer_join() -> None:
    graph = query(join("left", block("a", "b", on=(eq("a", "b"),)), "c", eq("b", "c")))
    assert shown(build_hypergraph(graph, types(graph))) == ["a-b", "b>c"]


def test_equalities_of_a_preserved_side_hold_above_it() -> None:
    left = join("left", block("a", "b", on=(eq("a", "b"),)), "c", "`b`.`v` = `c`.`v`")
    graph = query("d", left, on=(eq("a", "d"),))
    assert shown(build_hypergraph(graph, types(graph))) == ["a-b", "a-d", "b-d", "b>c"]


def test_a_filter_on_the_null_supplied_side_waits_for_its_join() -> None:
    graph = build_hypergraph(
        query(join("left", "a", "b", eq("a", "b")), on=("`b`.`v` IS NULL", "`a`.`v` = 1"))
    )
    needs = {f.predicate.sql: named(graph, f.needs) for f in graph.filters}
    assert needs == {"`b`.`v` IS NULL": "ab", "`a`.`v` = 1": "a"}


def test_it_waits_for_all_joins_that_may_supply_the_nulls() -> None:
    chain = join("left", block(join("left", "a", "b", eq("a", "b"))), "c", eq("b", "c"))
    graph = build_hypergraph(query(chain, on=("`c`.`v` IS NULL",)))
    assert [named(graph, f.needs) for f in graph.filters] == ["abc"]


def test_a_filter_of_both_sides_of_a_full_join_waits() -> None:
    graph = build_hypergraph(query(join("full", "a", "b", eq("a", "b")), on=("`a`.`v` = 1",)))
    assert [named(graph, f.needs) for f in graph.filters] == ["ab"]


def test_a_conjunct_over_the_null_supplied_side_takes_the_whole_join() -> None:
    sql = "coalesce(`b`.`v`, 1) = `d`.`v`"
    graph = build_hypergraph(query("d", join("left", "a", "b", eq("a", "b")), on=(sql,)))
    edge = edge_of(graph, sql)
    assert {named(graph, edge.left), named(graph, edge.right)} == {"ab", "d"}


def test_a_delayed_filter_stays_below_the_outer_join_above_it() -> None:
    inner = block(join("left", "b", "c", eq("b", "c")), on=("`c`.`v` IS NULL",))
    graph = build_hypergraph(query(join("left", "a", inner, eq("a", "b"))))
    assert shown(graph) == ["a>bc", "b>c"]


def test_a_predicate_of_one_side_takes_the_other_side_whole() -> None:
    right = block("b", "c", on=(eq("b", "c"),))
    graph = build_hypergraph(query(join("left", "a", right, "`a`.`v` = 1")))
    assert shown(graph) == ["a>bc", "b-c"]


def test_a_predicate_of_the_right_side_sinks_below() -> None:
    graph = build_hypergraph(query(join("left", "a", "b", eq("a", "b"), "`b`.`v` = 1")))
    assert [named(graph, f.needs) for f in graph.filters] == ["b"]
    assert [p.sql for e in graph.edges for p in e.predicates] == [eq("a", "b")]


def test_a_predicate_of_the_left_side_stays_in_an_outer_on() -> None:
    for kind, expected in (("left", []), ("anti", []), ("full", []), ("semi", ["a"])):
        graph = build_hypergraph(query(join(kind, "a", "b", eq("a", "b"), "`a`.`v` = 1")))
        assert [named(graph, f.needs) for f in graph.filters] == expected, kind


def test_a_constant_is_judged_in_its_block() -> None:
    below = join("left", "b", "c", eq("b", "c"))
    graph = build_hypergraph(query(join("left", "a", block(below, on=("1 = 0",)), eq("a", "b"))))
    assert [(f.predicate.sql, named(graph, f.needs)) for f in graph.filters] == [("1 = 0", "b")]
    full = join("full", "b", "c", eq("b", "c"))
    graph = build_hypergraph(query(join("left", "a", block(full, on=("1 = 0",)), eq("a", "b"))))
    assert [named(graph, f.needs) for f in graph.filters] == ["bc"]


def test_a_cross_product_stands_only_where_nothing_connects() -> None:
    graph = build_hypergraph(query("a", "b", "c", "d", on=(eq("a", "b"), "`c`.`k` < `d`.`k`")))
    assert [named(graph, e.relations) for e in graph.edges if e.cross] == ["abcd"]
    assert not any(e.cross for e in build_hypergraph(query("a", "b", on=(eq("a", "b"),))).edges)
    sum_of_two = build_hypergraph(query("a", "b", "c", on=("`a`.`k` + `b`.`k` = `c`.`k`",)))
    assert sum(e.cross for e in sum_of_two.edges) == 3
    alone = build_hypergraph(query("a"))
    assert (alone.edges, count_pairs(alone, 10)) == ((), 0)


def test_left_joins_of_a_chain_move_as_freely_as_inner_ones() -> None:
    chain = block("r0")
    for i in range(1, 6):
        chain = block(join("left", chain, f"r{i}", eq(f"r{i - 1}", f"r{i}")))
    graph = build_hypergraph(query(*chain.items))
    assert count_pairs(graph, 100) == (6**3 - 6) // 6
    assert not any(edge.rules for edge in graph.edges)


def test_nothing_is_lost_on_the_way_down() -> None:
    for seed in range(200):
        root = draw(seed).root
        assert set(written(push_down(root))) == set(written(root)), seed


def written(block: Block) -> list[Predicate]:
    found = list(block.predicates)
    for item in block.items:
        if isinstance(item, Join):
            found += [*item.on, *written(item.left), *written(item.right)]
    return found


def test_each_conjunct_is_in_one_edge_or_one_filter() -> None:
    for seed in range(200):
        graph = draw(seed, most=6)
        hypergraph = build_hypergraph(graph, types(graph))
        placed = [p for e in hypergraph.edges if not e.implied for p in e.predicates]
        placed += [f.predicate for f in hypergraph.filters]
        assert set(placed) == set(written(graph.root)), seed


def renamed(graph: JoinGraph, seed: int) -> JoinGraph:
    """The same query under other names, its parts in another order."""
    rng = random.Random(seed)
    names = [r.name for r in graph.relations]
    new = dict(
        zip(names, rng.sample([f"x{i}" for i in range(len(names))], len(names)), strict=True)
    )

    def moved(p: Predicate) -> Predicate:
        return predicate(re.sub(r"`(r\d)`\.", lambda found: f"`{new[found[1]]}`.", p.sql))

    def turned(b: Block) -> Block:
        items = [new[i] if isinstance(i, str) else turned_join(i) for i in b.items]
        return Block(
            tuple(rng.sample(items, len(items))),
            tuple(rng.sample([moved(p) for p in b.predicates], len(b.predicates))),
        )

    def turned_join(j: Join) -> Join:
        return Join(j.kind, turned(j.left), turned(j.right), tuple(moved(p) for p in j.on))

    root = turned(graph.root)
    relations = [replace(r, name=new[r.name]) for r in graph.relations]
    return JoinGraph(
        tuple(rng.sample(relations, len(relations))),
        root.predicates,
        (),
        tuple(item for item in root.items if isinstance(item, Join)),
    )


def structure(graph: Hypergraph) -> list[tuple[object, ...]]:
    edges = [(e.kind, e.left, e.right, e.rules, e.parts, e.implied) for e in graph.edges]
    return [*edges, *((f.needs,) for f in graph.filters)]


def test_numbers_do_not_depend_on_names_or_writing_order() -> None:
    for seed in range(150):
        graph = draw(seed, most=7)
        one, other = combiner_of(graph).graph, combiner_of(renamed(graph, seed)).graph
        assert structure(one) == structure(other), seed
