"""Sums of normal forms: full joins anywhere, unions; conditions without an equality, NOT IN."""

from __future__ import annotations

import pytest

from deltajoin.graph import Core, JoinGraph
from deltajoin.sql.bind import bind

COLUMNS = {name: ("k", "v", "s") for name in "abcdefghijklmnopqr"}
TYPES = {(t, c): {"k": "int", "v": "bigint", "s": "string"}[c] for t in COLUMNS for c in "kvs"}


def graph(sql: str) -> JoinGraph:
    bound = bind(sql, COLUMNS, TYPES)
    assert bound.graph is not None, bound.reason
    return bound.graph


def shape(core: Core) -> str:
    """Example: `a b left(c)`."""
    below = (f"{a.kind}({shape(a.core)})" for a in core.attachments)
    return " ".join((*core.relations, *below))


def shapes(sql: str) -> list[str]:
    return [shape(core) for core in graph(sql).branches]


FULL = "(a FULL JOIN b ON a.k = b.k)"


@pytest.mark.parametrize(
    ("sql", "branches"),
    [
        ("c LEFT JOIN {} ON a.v = c.v", ["c a left(b)", "c anti(a left(b))"]),
        (
            "c LEFT JOIN {} ON coalesce(a.v, b.v) = c.v",
            [
                "c a b",
                "c a anti(b)",
                "c b anti(a)",
                "c anti(a left(b)) anti(b_2 anti(a_2))",
            ],
        ),
        ("c LEFT SEMI JOIN {} ON a.v = c.v", ["c semi(a left(b))"]),
        ("c LEFT ANTI JOIN {} ON a.v <=> c.v", ["c anti(a left(b)) anti(b_2 anti(a_2))"]),
        (
            "{} FULL JOIN c ON c.k = b.k",
            ["a left(b) left(c)", "b anti(a) left(c)", "c anti(a b) anti(b_2 anti(a_2))"],
        ),
        ("a LEFT JOIN b ON a.k = b.k JOIN c ON coalesce(b.v, a.v) = c.k", ["a c b", "a c anti(b)"]),
    ],
)
def test_sums(sql: str, branches: list[str]) -> None:
    text = f"SELECT c.k FROM {sql.format(FULL)}"
    assert sorted(shapes(text)) == sorted(branches)


def test_copies_are_occurrences_of_the_same_source() -> None:
    found = graph(f"SELECT c.k FROM c LEFT ANTI JOIN {FULL} ON a.v <=> c.v")
    assert {(c.name, c.source) for c in found.copies} == {("a_2", "a"), ("b_2", "b")}
    assert [r.name for r in found.relations] == ["c", "a", "b"]


def test_more_branches_than_are_kept() -> None:
    chain = "SELECT a.k FROM a"
    for before, name in zip("abcdefghijklmnop", "bcdefghijklmnopq", strict=True):
        chain += f" FULL JOIN {name} ON {before}.k = {name}.k"
    bound = bind(chain, COLUMNS)
    assert bound.graph is None
    assert bound.reason is not None
    assert bound.reason.code == "BRANCHES"


@pytest.mark.parametrize(
    ("where", "condition"),
    [
        ("a.k NOT IN (SELECT k FROM b)", "(a.k = b.k OR (a.k = b.k) IS NULL)"),
        ("a.k NOT IN (SELECT k FROM b WHERE k > 1)", "(a.k = b.k OR (a.k = b.k) IS NULL)"),
        ("a.k NOT IN (SELECT k FROM b WHERE k > 1) AND a.k < 9", "a.k = b.k"),
        ("a.k < 9 AND a.k NOT IN (SELECT k FROM b WHERE k IS NOT NULL)", "a.k = b.k"),
        ("NOT (a.k IN (SELECT k FROM b WHERE b.k = a.v)) AND a.k = a.v", "a.k = b.k"),
        ("7 NOT IN (SELECT k FROM b WHERE k IS NULL OR k > 2)", "(7 = b.k OR (7 = b.k) IS NULL)"),
    ],
)
def test_not_in_takes_an_unknown_comparison_for_a_match(where: str, condition: str) -> None:
    (core,) = graph(f"SELECT a.v FROM a WHERE {where}").branches
    (attachment,) = core.attachments
    assert attachment.kind == "anti"
    below = [*attachment.on, *attachment.core.predicates]
    assert condition in [p.sql.replace("`", "") for p in below]


# unions -------------------------------------------------------------------------------------------


def outputs(sql: str) -> list[list[str]]:
    return [[p.sql.replace("`", "") for p in core.projections] for core in graph(sql).branches]


ARMS = """(
    SELECT k, sum(v) AS v, 'a' AS arm FROM a GROUP BY k UNION ALL
    SELECT k, v, 'b' FROM b UNION ALL
    SELECT k, v, 'c' FROM c
)"""


@pytest.mark.parametrize(
    ("sql", "branches"),
    [
        (f"SELECT x.k FROM {ARMS} x WHERE x.arm = 'b'", ["b"]),
        (f"SELECT x.k FROM {ARMS} x WHERE x.arm NOT IN ('a', 'b')", ["c"]),
        (
            f"SELECT x.k FROM {ARMS} x JOIN {ARMS} y ON x.k = y.k AND x.arm = 'a' AND y.arm = 'b' "
            f"JOIN {ARMS} z ON z.k = x.k AND z.arm = 'c'",
            ["groups b_2 c_3"],
        ),
        (
            f"SELECT x.k FROM {ARMS} x JOIN d ON x.k = d.k LEFT JOIN {ARMS} y "
            "ON x.k = y.k AND y.arm = 'b' WHERE x.arm = 'a' AND x.v > 0",
            ["groups d b_2", "groups d anti(b_2)"],
        ),
    ],
)
def test_arms_whose_literals_are_not_asked_for_are_left_out(sql: str, branches: list[str]) -> None:
    assert shapes(sql) == branches


def test_a_union_is_a_sum_whose_branches_have_outputs_of_their_own() -> None:
    sql = "SELECT k AS x, s FROM a UNION ALL SELECT b.v, 'b' FROM b JOIN c USING (k)"
    assert shapes(sql) == ["a", "b c"]
    assert outputs(sql) == [["CAST(a.k AS bigint)", "a.s"], ["b.v", "'b'"]]
    found = graph(sql)
    assert found.output_names == ("x", "s")
    assert found.grouping is None
    assert {r.name: r.columns for r in found.relations} == {
        "a": ("k", "s"),
        "b": ("k", "v"),
        "c": ("k",),
    }


def test_union_without_all_groups_by_every_column() -> None:
    found = graph("SELECT k FROM a UNION ALL SELECT DISTINCT k FROM b UNION SELECT k FROM c")
    assert found.grouping is not None
    assert found.grouping.key_outputs == ("k",)
    assert [p.sql for core in found.branches for p in core.projections] == [
        "`a`.`k`",
        "`b`.`k`",
        "`c`.`k`",
    ]


def test_union_without_all_below_is_a_derived_source() -> None:
    found = graph("SELECT c.k FROM c JOIN (SELECT k FROM a UNION SELECT k FROM b) u USING (k)")
    (derived,) = found.derived
    assert derived.graph.grouping is not None
    assert len(derived.graph.branches) == 2
    one = graph("SELECT k FROM a UNION SELECT k FROM b UNION ALL SELECT k FROM c")
    assert [shape(core) for core in one.branches] == ["union", "c"]


def test_groups_are_united_by_the_types_of_their_columns() -> None:
    found = graph("SELECT k, v, s FROM a UNION ALL SELECT k, count(*), max(s) FROM b GROUP BY k")
    assert [d.name for d in found.derived] == ["groups"]


UNION = "(SELECT k, s FROM a UNION ALL SELECT k, 'x' FROM b WHERE v > 1) AS u"


@pytest.mark.parametrize(
    ("sql", "branches"),
    [
        (f"c JOIN {UNION} ON u.k = c.k", ["c a", "c b"]),
        (f"c LEFT JOIN {UNION} ON u.k = c.k", ["c a", "c b", "c anti(a) anti(b)"]),
        (f"c LEFT SEMI JOIN {UNION} ON u.k = c.k", ["c semi(a)", "c anti(a) semi(b)"]),
        (f"c LEFT ANTI JOIN {UNION} ON u.k = c.k", ["c anti(a) anti(b)"]),
        (f"{UNION} LEFT JOIN c ON u.k = c.k", ["a left(c)", "b left(c)"]),
        ("c WHERE k NOT IN (SELECT k FROM a UNION ALL SELECT k FROM b)", ["c anti(a) anti(b)"]),
    ],
)
def test_joins_of_a_union(sql: str, branches: list[str]) -> None:
    assert shapes(f"SELECT c.k FROM {sql}") == branches


def test_a_missing_union_is_null_of_its_type() -> None:
    sql = f"SELECT c.k, u.s, coalesce(u.k, 0) AS n FROM c LEFT JOIN {UNION} ON u.k = c.k"
    assert outputs(sql)[-1] == ["c.k", "CAST(NULL AS string)", "coalesce(CAST(NULL AS int), 0)"]
    assert outputs(sql)[1] == ["c.k", "'x'", "coalesce(b.k, 0)"]


def test_a_predicate_over_a_union_becomes_an_edge_of_each_branch() -> None:
    cores = graph(f"SELECT c.k FROM c JOIN {UNION} ON u.k = c.k WHERE u.s = c.s").branches
    assert [[p.kind for p in core.predicates] for core in cores] == [
        ["edge", "edge"],
        ["filter", "edge", "filter"],
    ]


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT k FROM a UNION ALL SELECT s FROM b", "SET_OPERATION"),
        ("SELECT k FROM a UNION ALL SELECT k, s FROM b", "SET_OPERATION"),
        ("SELECT k FROM a UNION ALL SELECT elt(1, k) FROM b", "SET_OPERATION"),
        ("SELECT k FROM a INTERSECT ALL SELECT s FROM b", "SET_OPERATION"),
        ("SELECT k FROM a EXCEPT ALL SELECT k FROM b LIMIT 3", "LIMIT"),
        ("SELECT k FROM a UNION BY NAME SELECT k FROM b", "SET_OPERATION"),
        ("SELECT k FROM a UNION ALL SELECT k FROM b LIMIT 3", "LIMIT"),
        ("SELECT k FROM a UNION ALL (SELECT k FROM b LIMIT 3)", "LIMIT"),
        ("SELECT k FROM a UNION ALL SELECT max(elt(1, v)) AS k FROM b GROUP BY k", "SET_OPERATION"),
        ("(SELECT k FROM a) LIMIT 3", "NOT_A_SELECT"),
        ("SELECT k FROM a UNION ALL (SELECT k FROM b) LIMIT 3", "LIMIT"),
    ],
)
def test_what_of_set_operations_is_not_kept(sql: str, code: str) -> None:
    bound = bind(sql, COLUMNS, TYPES)
    assert bound.graph is None
    assert bound.reason is not None
    assert bound.reason.code == code


@pytest.mark.parametrize(
    ("left", "right", "kept"),
    [
        ("upper(s)", "'x'", True),
        ("k + 1", "v", True),
        ("k / 2", "v / 2", True),
        ("NULL", "k / 2", True),
        ("round(k / 2, 1)", "v", True),
        ("round(k * 1.25, 1)", "round(2 * 1.25 * k, 1)", True),
        ("round(k * 1.25, 1)", "round(1.25 * k, 1)", True),
        ("k / 2.5", "k / 2.5", True),
        ("k / 2.5", "v / 2.5", True),
        ("elt(1, k)", "elt(1, v)", False),
        ("CAST(k AS DECIMAL(38, 4))", "CAST(v AS DECIMAL(38, 2))", False),
        ("NULL", "k / 2.5", True),
        ("NULL", "elt(1, k)", False),
        ("CAST(v AS float)", "k", False),
        ("CAST(v AS float)", "CAST(k AS double)", True),
        ("k", "CAST(v AS double)", True),
        ("NULL", "s", True),
        ("1.5", "k", True),
        ("CAST(k AS DECIMAL(10, 2))", "CAST(v AS decimal(10,2))", True),
        ("CASE WHEN k > 1 THEN s END", "s", True),
        ("coalesce(k, 0)", "v", True),
        ("k IS NULL", "s = 'x' OR k > 1", True),
    ],
)
def test_a_union_is_kept_where_its_types_are_certain(left: str, right: str, kept: bool) -> None:
    bound = bind(f"SELECT {left} AS x FROM a UNION ALL SELECT {right} FROM b", COLUMNS, TYPES)
    assert (bound.graph is not None) == kept
