"""Windows and generators bound: what is read below, what is made above, what is refused."""

from __future__ import annotations

import pytest

from deltajoin.audit.explain import explanation
from deltajoin.delta.derived import describe
from deltajoin.delta.identity import row_key
from deltajoin.delta.state import hidden_columns
from deltajoin.delta.ties import identifying_relations, open_windows, with_ties_compared
from deltajoin.emit.ast import column, expression
from deltajoin.errors import Refusal
from deltajoin.graph import JoinGraph
from deltajoin.sql.bind import bind
from deltajoin.sql.dialect import text
from deltajoin.sql.keys import join_keys
from tests.unit import flights

COLUMNS = {"f": ("id", "k", "x", "day", "items", "at"), "w": ("k", "y", "at")}
KEYS = {"f": ("id",), "w": ("k",)}
TYPES = {(table, name): "bigint" for table, names in COLUMNS.items() for name in names}
JOIN = "FROM f LEFT JOIN w ON w.k = f.k"
INNER = "FROM f JOIN w ON w.k = f.k"


def graph(sql: str) -> JoinGraph:
    bound = bind(sql, COLUMNS)
    assert bound.graph is not None, bound.reason
    return bound.graph


def refusal(sql: str) -> tuple[str, str]:
    bound = bind(sql, COLUMNS)
    assert bound.reason is not None
    return bound.reason.code, bound.reason.message


def ties(
    found: JoinGraph, keys: dict[str, tuple[str, ...]], types: dict[tuple[str, str], str]
) -> Refusal | None:
    return open_windows(with_ties_compared(found, keys, types), tied=False)


def test_a_window_reads_columns_below_and_gives_out_its_partition() -> None:
    found = graph(f"SELECT f.k AS part, f.id, sum(w.y) OVER (PARTITION BY f.k) + 1 AS s {JOIN}")
    assert [(p.name, p.sql) for p in found.projections] == [
        ("g0", "`f`.`k`"),
        ("c0", "`f`.`id`"),
        ("c1", "`w`.`y`"),
    ]
    windowing = found.windowing
    assert windowing is not None
    assert windowing.windows == (("w0", "sum(`input`.`c1`) OVER (PARTITION BY `input`.`g0`)"),)
    assert [(o.name, o.sql) for o in windowing.outputs] == [
        ("part", "`input`.`g0`"),
        ("id", "`input`.`c0`"),
        ("s", "`input`.`w0` + 1"),
    ]
    assert (windowing.key_outputs, windowing.orders) == (("part",), ())
    assert found.output_names == ("part", "id", "s")


def test_a_named_window_is_written_out() -> None:
    one = graph(f"SELECT f.k, count(*) OVER w AS n {JOIN} WINDOW v AS (PARTITION BY f.k), w AS v")
    other = graph(f"SELECT f.k, count(1) OVER (PARTITION BY f.k) AS n {JOIN}")
    assert one == other


def test_a_partition_that_is_not_given_out_is_stored_hidden() -> None:
    found = graph(f"SELECT f.x, rank() OVER (PARTITION BY f.k + 1 ORDER BY f.x) AS r {JOIN}")
    assert found.windowing is not None
    assert found.windowing.key_outputs == ("__deltajoin_key_0",)
    assert hidden_columns(found, None) == ("__deltajoin_key_0",)
    assert row_key(found, KEYS, TYPES) == ()
    first = graph(
        f"SELECT f.x {JOIN} QUALIFY row_number() OVER (PARTITION BY f.k ORDER BY f.id) = 1"
    )
    assert row_key(first, KEYS, TYPES) == ("__deltajoin_key_0",)


def test_a_partition_that_is_given_out_needs_no_other() -> None:
    found = graph(f"SELECT f.k, sum(f.x) OVER (PARTITION BY f.day, f.k) AS s {JOIN}")
    assert found.windowing is not None
    assert (found.windowing.key_outputs, found.windowing.hidden) == (("k",), ())


SUBQUERY = (
    "SELECT f.k, f.x, row_number() OVER (PARTITION BY f.k ORDER BY f.x DESC, f.id) AS rn "
    f"{INNER} WHERE w.y > 1"
)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT k, x FROM ({SUBQUERY}) AS q WHERE q.rn = 1",
        f"SELECT * EXCEPT (rn) FROM ({SUBQUERY}) WHERE 1 = rn",
        f"WITH q AS ({SUBQUERY}), r AS (SELECT * FROM q WHERE rn = 1) SELECT k, x FROM r",
        f"SELECT f.k, f.x {INNER} WHERE w.y > 1 "
        "QUALIFY row_number() OVER (PARTITION BY f.k ORDER BY f.x DESC, f.id) = 1",
    ],
)
def test_the_first_row_of_a_partition_has_its_key(sql: str) -> None:
    found = graph(sql)
    assert [p.sql for p in found.predicates] == ["`w`.`k` = `f`.`k`", "`w`.`y` > 1"]
    assert found.windowing is not None
    assert len(found.windowing.conditions) == 1
    assert row_key(found, KEYS, TYPES) == ("k",)


def test_filters_stay_above_a_window_and_the_row_key_is_given_out() -> None:
    inner = f"SELECT f.id AS n, f.k, f.x, rank() OVER (PARTITION BY f.k ORDER BY f.x) AS r {JOIN}"
    found = graph(f"SELECT n, k, r FROM ({inner}) AS q WHERE x > 3 AND r < 9")
    assert [p.sql for p in found.predicates] == []
    assert found.windowing is not None
    assert found.windowing.conditions == ("(`input`.`c1` > 3)", "((`input`.`w0`) < 9)")
    assert row_key(found, KEYS, TYPES) == ("n",)
    without = graph(f"SELECT k, r FROM ({inner}) AS q")
    assert row_key(without, KEYS, TYPES) == ()


def test_a_window_that_nothing_reads_leaves_no_trace() -> None:
    assert graph(f"SELECT k FROM ({SUBQUERY}) AS q WHERE x > 3") == graph(
        f"SELECT f.k {INNER} WHERE w.y > 1 AND f.x > 3"
    )


@pytest.mark.parametrize(
    ("call", "unique"),
    [
        ("rank() OVER (PARTITION BY f.k ORDER BY f.x)", True),
        ("sum(f.x) OVER (PARTITION BY f.k ORDER BY f.x)", True),
        ("sum(f.x) OVER (PARTITION BY f.k ORDER BY f.x RANGE 3 PRECEDING)", True),
        ("count(*) OVER (PARTITION BY f.k)", True),
        (
            "max(f.x) OVER (PARTITION BY f.k ORDER BY f.x ROWS BETWEEN UNBOUNDED PRECEDING "
            "AND UNBOUNDED FOLLOWING)",
            True,
        ),
        ("row_number() OVER (PARTITION BY f.k ORDER BY f.x)", False),
        ("row_number() OVER (PARTITION BY f.k ORDER BY f.x, f.id DESC)", True),
        ("row_number() OVER (PARTITION BY f.k, f.id ORDER BY f.x)", True),
        ("row_number() OVER (PARTITION BY f.k ORDER BY f.x, f.id + 1)", False),
        ("lag(f.x) OVER (PARTITION BY f.k ORDER BY f.x)", False),
        ("first_value(f.x) IGNORE NULLS OVER (PARTITION BY f.k ORDER BY f.day)", False),
        ("collect_list(f.x) OVER (PARTITION BY f.k)", False),
        ("sum(f.x) OVER (PARTITION BY f.k ORDER BY f.x ROWS 3 PRECEDING)", False),
        ("sum(f.x) FILTER (WHERE f.x > 1) OVER (PARTITION BY f.k ORDER BY f.x)", True),
    ],
)
def test_what_depends_on_ties_needs_an_order_by_the_key(call: str, unique: bool) -> None:
    found = graph(f"SELECT f.k, f.items, {call} AS v {JOIN}")
    stop = ties(found, KEYS, TYPES)
    assert (stop is None) == unique
    if stop is not None:
        assert (stop.code, bool(stop.remedy)) == ("WINDOW_TIES", True)
    one_more = found.windowing is not None and bool(found.windowing.orders)
    assert bool(ties(found, {"w": ("k",)}, TYPES)) == one_more


@pytest.mark.parametrize(
    ("sql", "compared", "within"),
    [
        ("SELECT f.k, f.x, {} AS n FROM f", (), ()),
        ("SELECT f.k, f.day, {} AS n FROM f", ("c0",), ()),
        ("SELECT f.k, f.day, {} AS n FROM f QUALIFY n = 1", ("c0",), ("((`input`.`w0`) = 1)",)),
        (
            "SELECT f.k, f.day, {} AS n FROM f QUALIFY n <= 2 AND day > 3",
            ("c0",),
            ("((`input`.`w0`) <= 2)",),
        ),
        ("SELECT f.k, f.day, {} AS n FROM f QUALIFY n <= f.day", ("c0",), ()),
        (
            "SELECT f.k, f.day, {} AS n, {} + 1 AS m FROM f QUALIFY m = 2",
            ("c0",),
            ("((`input`.`w0` + 1) = 2)",),
        ),
        ("SELECT f.k, {} AS n, lag(f.day) OVER ({w}) AS b FROM f QUALIFY n = 1", ("c1",), ()),
    ],
)
def test_rows_that_tie_must_agree_where_the_result_could_tell(
    sql: str, compared: tuple[str, ...], within: tuple[str, ...]
) -> None:
    order = "PARTITION BY f.k ORDER BY f.x"
    found = graph(sql.replace("{}", f"row_number() OVER ({order})").replace("{w}", order))
    windowing = with_ties_compared(found, {}, TYPES).windowing
    assert windowing is not None
    seen = [(order.compared, order.within) for order in windowing.orders]
    assert seen == ([(tuple(f"`input`.`{name}`" for name in compared), within)] if compared else [])


def test_values_that_tie_and_are_not_the_same_are_told_apart() -> None:
    found = graph("SELECT f.k, row_number() OVER (PARTITION BY f.k ORDER BY f.x) AS n FROM f")
    windowing = with_ties_compared(found, {}, {**TYPES, ("f", "x"): "double"}).windowing
    assert windowing is not None
    assert [order.compared for order in windowing.orders] == [("CAST(`input`.`c0` AS STRING)",)]


LAST = "row_number() OVER (PARTITION BY f.id ORDER BY w.at DESC)"
TIMED = {"f": ("id",), "w": ("k", "at")}


@pytest.mark.parametrize(
    ("rows", "call", "fixed"),
    [
        ("f LEFT JOIN w ON w.k = f.k AND w.at <= f.at", LAST, True),
        ("f JOIN w ON w.k = f.k AND w.at <= f.at", LAST, True),
        ("f JOIN w ON w.at <= f.at WHERE w.k = f.k", LAST, True),
        ("f LEFT JOIN w ON w.k = 3 AND w.at <= f.at", LAST, False),
        ("f LEFT JOIN w ON w.k <= f.k AND w.at <= f.at", LAST, False),
        ("f LEFT JOIN w ON w.k = f.k + 1", LAST, False),
        ("f LEFT JOIN w ON w.y = f.k", LAST, False),
        ("f RIGHT JOIN w ON w.k = f.k", LAST, False),
        ("f FULL JOIN w ON w.k = f.k", LAST, False),
        ("f LEFT JOIN w ON w.k = f.k", LAST.replace("w.at", "w.y"), False),
        ("f LEFT JOIN w ON w.k = f.k", LAST.replace("w.at", "w.at + 1"), False),
        ("f LEFT JOIN w ON w.k = f.k", LAST.replace("f.id", "f.k"), False),
        ("f LEFT JOIN w ON w.k = f.k", LAST.replace("f.id", "f.k").replace("DESC", ", f.id"), True),
        ("f LEFT JOIN w ON w.k = f.k LEFT JOIN w w2 ON w2.k = w.k AND w2.at = f.at", LAST, True),
        ("f LEFT JOIN w ON w.k = f.k LEFT JOIN w w2 ON w2.k = w.k", LAST, False),
        ("f LEFT SEMI JOIN w w2 ON w2.k = f.k LEFT JOIN w ON w.k = f.k", LAST, True),
    ],
)
def test_an_order_may_fix_a_row_by_keys_and_equalities(rows: str, call: str, fixed: bool) -> None:
    found = graph(f"SELECT f.id, f.items, {call} AS n FROM {rows}")
    assert (ties(found, TIMED, TYPES) is None) == fixed
    other_types = {**TYPES, ("w", "k"): "string"}
    assert ties(found, TIMED, other_types) is not None
    assert ties(found, {**TIMED, "w": ("k", "at", "y")}, TYPES) is not None


NEXT = "(SELECT k, at, y, lead(at) OVER (PARTITION BY k ORDER BY at) AS n FROM w) AS w"
BEFORE = NEXT.replace("lead", "lag")


@pytest.mark.parametrize(
    ("rows", "condition", "one"),
    [
        (NEXT, "f.at >= w.at AND (f.at < w.n OR w.n IS NULL)", True),
        (NEXT, "w.at <= f.at AND (w.n IS NULL OR w.n > f.at)", True),
        (NEXT, "f.at > w.at AND f.at <= w.n", True),
        (NEXT, "f.at > w.at AND f.at < w.n AND w.y > 3", True),
        (NEXT, "f.x + 1 >= w.at AND f.x + 1 < w.n", True),
        (BEFORE, "f.at <= w.at AND (f.at > w.n OR w.n IS NULL)", True),
        (BEFORE, "f.at < w.at AND f.at >= w.n", True),
        (NEXT, "f.at >= w.at AND f.at <= w.n", False),
        (NEXT, "f.at BETWEEN w.at AND w.n", False),
        (NEXT, "f.at >= w.at AND (f.at < w.n OR w.y IS NULL)", False),
        (NEXT, "(f.at >= w.at OR w.at IS NULL) AND (f.at < w.n OR w.n IS NULL)", False),
        (NEXT, "(f.at >= w.at OR w.n IS NULL) AND (f.at < w.n OR w.n IS NULL)", False),
        (NEXT, "f.at >= w.at AND (f.at < w.n OR w.n IS NOT NULL)", False),
        (NEXT, "f.at >= w.at AND (f.at < w.n OR w.n IS NULL OR w.y = 1)", False),
        (NEXT, "f.at >= w.at AND (f.at < w.n OR f.at IS NULL)", False),
        (NEXT, "f.at >= w.at AND f.x < w.n", False),
        (NEXT, "f.at >= w.at", False),
        (NEXT, "f.at <= w.at AND (f.at > w.n OR w.n IS NULL)", False),
        (BEFORE, "f.at >= w.at AND (f.at < w.n OR w.n IS NULL)", False),
        (NEXT.replace("BY at", "BY at DESC"), "f.at >= w.at AND f.at < w.n", False),
        (NEXT.replace("BY at", "BY y"), "f.at >= w.at AND f.at < w.n", False),
        (NEXT.replace("BY at", "BY at, y DESC"), "f.at >= w.at AND f.at < w.n", True),
        (NEXT.replace("lead(at)", "lead(at, 2)"), "f.at >= w.at AND f.at < w.n", False),
        (NEXT.replace("lead(at)", "lead(y)"), "f.at >= w.at AND f.at < w.n", False),
        (NEXT.replace("lead(at)", "min(at)"), "f.at >= w.at AND f.at < w.n", False),
        (NEXT.replace("BY k ", "BY k, y "), "f.at >= w.at AND f.at < w.n", False),
    ],
)
@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN"])
def test_a_value_between_neighbours_finds_one_row(
    join: str, rows: str, condition: str, one: bool
) -> None:
    found = graph(f"SELECT f.id, w.y FROM f {join} {rows} ON w.k = f.k AND {condition}")
    assert row_key_of(found, TYPES) == (("id",) if one else ())
    other = {**TYPES, ("f", "at"): "string", ("f", "x"): "string"}
    assert row_key_of(found, other) == ()


BOTH = NEXT.replace(" AS n ", " AS n, lag(at) OVER (PARTITION BY k ORDER BY at) AS p ")
NEAREST = (
    "(f.at > w.p OR w.p IS NULL) AND (f.at < w.n OR w.n IS NULL)"
    " AND (f.at - w.at <= w.n - f.at OR w.n IS NULL) AND (w.at - f.at < f.at - w.p OR w.p IS NULL)"
)


@pytest.mark.parametrize(
    ("rows", "condition", "one"),
    [
        (BOTH, NEAREST, True),
        (BOTH, NEAREST.replace("f.at", "(f.x + 1)"), True),
        (BOTH, NEAREST.replace("w.n - f.at", "w.n - (f.at)"), True),
        (BOTH, NEAREST.replace("f.at - w.at <= w.n - f.at", "w.n - f.at > f.at - w.at"), True),
        (BOTH, NEAREST.replace("w.at - f.at <", "w.at - f.at <="), False),
        (BOTH, NEAREST.replace("f.at - w.at <= w.n", "f.at - w.at >= w.n"), False),
        (BOTH, NEAREST.replace("f.at < w.n", "f.x < w.n"), False),
        (BOTH, NEAREST.replace("f.at < w.n", "f.at > w.n"), False),
        (BOTH, NEAREST.replace("f.at > w.p", "f.at < w.p"), False),
        (BOTH, NEAREST.replace("f.at > w.p", "f.at > w.y"), False),
        (BOTH, NEAREST.replace("f.at - w.p", "f.x - w.p"), False),
        (BOTH, NEAREST.partition(" AND (w.at")[0], False),
        (BOTH, NEAREST.partition(" AND (f.at -")[0], False),
        (
            BOTH.replace("lag(at) OVER (PARTITION BY k", "lag(at) OVER (PARTITION BY k, y"),
            NEAREST,
            False,
        ),
    ],
)
def test_the_nearer_of_two_neighbours_is_one_row(rows: str, condition: str, one: bool) -> None:
    found = graph(f"SELECT f.id, w.y FROM f LEFT JOIN {rows} ON w.k = f.k AND {condition}")
    assert row_key_of(found, TYPES) == (("id",) if one else ())
    other = {**TYPES, ("f", "at"): "string", ("f", "x"): "string"}
    assert row_key_of(found, other) == ()


def row_key_of(found: JoinGraph, types: dict[tuple[str, str], str]) -> tuple[str, ...]:
    known = describe(found, TIMED, types)
    return row_key(found, known.keys, known.types)


def test_the_last_row_of_a_join_identifies_it() -> None:
    found = graph(
        f"SELECT f.id, w.y FROM f LEFT JOIN w ON w.k = f.k AND w.at <= f.at QUALIFY {LAST} = 1"
    )
    assert row_key(found, TIMED, TYPES) == ("id",)
    assert identifying_relations(found, TIMED, TYPES, keyed=True) == ("f", "w")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (f"SELECT f.id, rank() OVER (ORDER BY f.x) AS r {JOIN}", "without a common"),
        (f"SELECT f.id, rank() OVER (PARTITION BY 1 ORDER BY f.x) AS r {JOIN}", "without a common"),
        (f"SELECT f.k, count(*) OVER nowhere AS r {JOIN}", "the window nowhere"),
        (f"SELECT f.k, upper(f.x) OVER (PARTITION BY f.k) AS r {JOIN}", "upper over a window"),
        (
            "SELECT k, rank() OVER (ORDER BY count(*)) AS r FROM f GROUP BY k",
            "without a common",
        ),
    ],
)
def test_windows_that_are_rebuilt(sql: str, message: str) -> None:
    code, text = refusal(sql)
    assert code == "WINDOW"
    assert message in text


@pytest.mark.parametrize(
    ("sql", "below"),
    [
        (
            "SELECT k, count(*) OVER (PARTITION BY k) AS n FROM (SELECT k, rank() OVER "
            "(PARTITION BY k ORDER BY x) AS r FROM f) AS q WHERE r = 1",
            "windowing",
        ),
        (
            "SELECT k FROM (SELECT k, x FROM f QUALIFY rank() OVER (PARTITION BY k ORDER BY x) = 1)"
            " AS q QUALIFY count(*) OVER (PARTITION BY k) = 1",
            "windowing",
        ),
        (
            "SELECT k, sum(r) OVER (PARTITION BY k) AS n FROM (SELECT k, rank() OVER "
            "(PARTITION BY k ORDER BY x) AS r FROM f) AS q",
            "windowing",
        ),
        (
            "SELECT k, max(r) AS n FROM (SELECT k, rank() OVER (PARTITION BY k ORDER BY x) AS r "
            "FROM f) AS q GROUP BY k",
            "windowing",
        ),
        (
            "SELECT k, i FROM (SELECT k, items, rank() OVER (PARTITION BY k ORDER BY x) AS r "
            "FROM f) AS q LATERAL VIEW explode(items) e AS i",
            "windowing",
        ),
        ("SELECT DISTINCT k, count(*) OVER (PARTITION BY k) AS n FROM f", "windowing"),
        (
            "SELECT k, rank() OVER (PARTITION BY k ORDER BY sum(x)) AS r FROM f GROUP BY ALL",
            "grouping",
        ),
    ],
)
def test_a_layer_over_windows_or_groups_has_them_as_its_source(sql: str, below: str) -> None:
    (derived,) = graph(sql).derived
    assert getattr(derived.graph, below) is not None


def test_windows_over_groups_read_keys_and_aggregates() -> None:
    found = graph(
        "SELECT f.k + 1 AS p, sum(sum(w.y) FILTER (WHERE w.y > 1)) OVER v AS s, count(*) AS n "
        f"{INNER} GROUP BY p, f.day HAVING count(*) > 1 QUALIFY n > 2 AND row_number() OVER v = 1 "
        "WINDOW v AS (PARTITION BY f.k + 1 ORDER BY f.day)"
    )
    (below,) = found.derived
    assert below.graph.grouping is not None
    assert below.graph.grouping.outputs == (
        ("g0", "`input`.`g0`"),
        ("g1", "`input`.`g1`"),
        ("a0", "sum(`input`.`c0`) FILTER (WHERE `input`.`c0` > 1)"),
        ("a1", "count(1)"),
    )
    assert below.graph.grouping.having == "count(1) > 1"
    assert found.windowing is not None
    assert found.windowing.conditions == ("((`input`.`c0`) > 2)", "(`input`.`w1` = 1)")
    known = describe(found, KEYS, TYPES)
    assert ties(found, known.keys, known.types) is None
    assert row_key(found, known.keys, known.types) == ("p",)


def test_a_column_of_no_group_is_left_to_spark() -> None:
    sql = f"SELECT f.x, rank() OVER (PARTITION BY f.k ORDER BY count(*)) AS r {JOIN} GROUP BY f.k"
    assert "neither grouped nor aggregated" in refusal(sql)[1]


# generators ---------------------------------------------------------------------------------------


def test_a_view_reads_joined_rows_and_filters_go_where_they_can() -> None:
    found = graph(
        f"SELECT f.id, i.sku, i.n * w.y AS total {JOIN} LATERAL VIEW OUTER explode(f.items) e AS i "
        "WHERE w.y > 1 AND i.n > 2"
    )
    assert [(p.name, p.sql) for p in found.projections] == [
        ("r0", "`f`.`id`"),
        ("r1", "`w`.`y`"),
        ("r2", "`f`.`items`"),
    ]
    made = found.generation
    assert made is not None
    assert [(g.call, g.outer) for g in made.generators] == [("explode(`input`.`r2`)", True)]
    assert [o.sql for o in made.outputs] == [
        "`input`.`r0`",
        "`v0`.`v0_0`.`sku`",
        "`v0`.`v0_0`.`n` * `input`.`r1`",
    ]
    assert made.conditions == ("(`v0`.`v0_0`.`n` > 2)",)
    assert "`w`.`y` > 1" in [p.sql for p in found.predicates]
    assert row_key(found, KEYS, TYPES) == ()


def test_explode_in_select_is_a_view() -> None:
    one = graph(f"SELECT f.id, explode(f.items) AS i {JOIN}")
    other = graph(f"SELECT f.id, i {JOIN} LATERAL VIEW explode(f.items) e AS i")
    assert one == other
    both = graph(f"SELECT posexplode(f.items) AS (p, i), f.* {JOIN}")
    assert both.output_names == ("p", "i", "id", "k", "x", "day", "items", "at")


@pytest.mark.parametrize(
    ("joins", "views"),
    [
        (", LATERAL explode(f.items) AS e(i)", "LATERAL VIEW explode(f.items) e AS i"),
        ("JOIN LATERAL explode(f.items) AS e(i) ON true", "LATERAL VIEW explode(f.items) e AS i"),
        (
            "LEFT JOIN LATERAL explode(f.items) e(i) ON true",
            "LATERAL VIEW OUTER explode(f.items) e AS i",
        ),
        (
            "CROSS JOIN LATERAL posexplode(f.items) a(p, x), LATERAL explode(array(p, 1)) AS e(i)",
            "LATERAL VIEW posexplode(f.items) a AS p, x LATERAL VIEW explode(array(p, 1)) e AS i",
        ),
    ],
)
def test_lateral_of_a_generator_is_a_view(joins: str, views: str) -> None:
    assert graph(f"SELECT f.id, i {JOIN} {joins}") == graph(f"SELECT f.id, i {JOIN} {views}")


@pytest.mark.parametrize(
    ("joins", "code"),
    [
        (
            "JOIN w AS u USING (k), LATERAL explode(f.items) e(i) JOIN w AS v ON v.k = i",
            "GENERATOR",
        ),
        (", LATERAL explode(f.items) AS e(i) RIGHT JOIN w AS v ON v.k = e.i", "OUTER_JOIN"),
        ("JOIN LATERAL explode(f.items) AS e(i) ON i > 1", "TABLE_FUNCTION"),
        ("RIGHT JOIN LATERAL explode(f.items) AS e(i)", "TABLE_FUNCTION"),
        ("NATURAL JOIN LATERAL explode(f.items) AS e(i)", "TABLE_FUNCTION"),
        ("JOIN LATERAL explode(f.items) AS e(x) USING (x)", "TABLE_FUNCTION"),
        (", LATERAL range(f.x) AS e(i)", "TABLE_FUNCTION"),
        ("LEFT JOIN LATERAL explode(f.items) AS e(i)", "GENERATOR"),  # an inner join to Spark 4.2
        (", LATERAL explode(f.items)", "GENERATOR"),
    ],
)
def test_what_more_is_said_of_lateral_is_rebuilt(joins: str, code: str) -> None:
    assert refusal(f"SELECT f.id {JOIN} {joins}")[0] == code


def test_joins_behind_lateral_of_a_generator_are_joins_of_a_source() -> None:
    found = graph(
        f"SELECT f.id, w.y, i, v.k {JOIN} LEFT JOIN LATERAL explode(f.items) AS e(i) ON true "
        "LEFT JOIN w AS v ON v.k = e.i, LATERAL explode(array(v.y)) AS g(z) WHERE z > w.y"
    )
    assert found.generation is not None  # the last one is a view over all joins
    (below,) = found.derived
    assert below.graph.generation is not None
    assert [(r.name, r.source) for r in found.relations] == [("e", below.name), ("v", "w")]
    assert [r.name for r in below.graph.relations] == ["f", "w"]
    assert len(below.graph.output_names) == 5  # id, the k of both, y, i
    behind = f"{JOIN}, LATERAL explode(f.items) AS e(i) JOIN w AS v ON v.k = e.i"
    for shown, columns in (("v.*, e.*", 3), ("w.*, e.i", 5), ("f.*, w.y, e.i", 9)):
        (below,) = graph(f"SELECT {shown} {behind}").derived
        assert len(below.graph.output_names) == columns
    correlated = "SELECT f.id FROM f, LATERAL explode(f.items) AS e(i) JOIN w ON w.k = i"
    assert refusal(f"SELECT k FROM w AS u WHERE EXISTS ({correlated} WHERE f.k = u.k)")[0] == (
        "GENERATOR"
    )


def test_groups_over_a_view_enter_by_their_plain_keys() -> None:
    found = graph(
        "WITH lines AS (SELECT f.k, upper(w.y) AS y, i "
        f"{JOIN} LATERAL VIEW explode(f.items) e AS i) "
        "SELECT k, i, y, count(*) AS n FROM lines WHERE i > 0 GROUP BY k, i, y"
    )
    assert found.part_keys == ("g0", "g1", "g2")
    assert [(key, p.sql) for key, p in found.part_entries(found.branches[0])] == [
        ("g0", "`f`.`k`"),
        ("g2", "upper(`w`.`y`)"),
    ]
    assert row_key(found, KEYS, TYPES) == ("k", "i", "y")


def test_windows_over_a_view_must_not_depend_on_ties() -> None:
    inner = f"SELECT f.id, f.k, i {JOIN} LATERAL VIEW explode(f.items) e AS i"
    ranks = graph(f"SELECT k, i, rank() OVER (PARTITION BY k ORDER BY i) AS r FROM ({inner}) AS q")
    assert ties(ranks, KEYS, TYPES) is None
    numbers = graph(
        f"SELECT k, i, row_number() OVER (PARTITION BY k ORDER BY id) AS r FROM ({inner}) AS q"
    )
    stop = ties(numbers, KEYS, TYPES)
    assert stop is not None
    assert stop.code == "WINDOW_TIES"


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        (f"SELECT f.id {JOIN} LATERAL VIEW explode(f.items) e", "GENERATOR"),
        (f"SELECT f.id, explode(f.items) {JOIN}", "GENERATOR"),
        (f"SELECT f.id, posexplode(f.items) AS (null, null) {JOIN}", "GENERATOR"),
        (f"SELECT f.id, e.p {JOIN} LATERAL VIEW posexplode(f.items) e AS p, P", "GENERATOR"),
        (f"SELECT explode(f.items) AS a, explode(f.items) AS b {JOIN}", "GENERATOR"),
        (f"SELECT size(explode(f.items)) AS a {JOIN}", "GENERATOR"),
        (f"SELECT f.id, i.* {JOIN} LATERAL VIEW explode(f.items) e AS i", "STAR"),
        (
            f"SELECT f.id, i {JOIN} LATERAL VIEW explode(f.items) e AS i "
            "WHERE EXISTS (SELECT 1 FROM w AS v WHERE v.k = i)",
            "GENERATOR",
        ),
    ],
)
def test_generators_that_are_rebuilt(sql: str, code: str) -> None:
    assert refusal(sql)[0] == code


def test_one_field_of_json_is_a_value() -> None:
    found = graph(f"SELECT f.id, json_tuple(f.x, 'a') AS a {JOIN}")
    assert found.generation is None
    assert row_key(found, KEYS, TYPES) == ("id",)


def test_columns_without_a_name_are_rebuilt() -> None:
    sql = f"SELECT f.k, rank() OVER (PARTITION BY f.k ORDER BY f.x) {JOIN}"
    assert refusal(sql)[0] == "UNNAMED_COLUMN"


# fields and elements --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("f.items[0].sku", "`f`.`items`[0].sku"),
        ("items[f.x]", "`f`.`items`[`f`.`x`]"),
        ("f.day.start.hour", "`f`.`day`.`start`.`hour`"),
        ("day.start", "`f`.`day`.`start`"),
        ("element_at(items, 1).sku", "element_at(`f`.`items`, 1).sku"),
        (
            "CASE WHEN day.a > 1 THEN CAST(x AS int) ELSE items[0].n END",
            "CASE WHEN `f`.`day`.`a` > 1 THEN CAST(`f`.`x` AS int) ELSE `f`.`items`[0].n END",
        ),
        (
            "size(filter(items, i -> i.n > x))",
            "size(filter(`f`.`items`, i -> i.n > `f`.`x`))",
        ),
    ],
)
def test_fields_elements_and_cases_are_expressions_like_others(written: str, meant: str) -> None:
    found = graph(f"SELECT f.id, {written} AS v {INNER} WHERE {written} IS NOT NULL")
    assert found.projections[1].sql == meant
    (predicate,) = [p for p in found.predicates if p.kind == "filter"]
    assert predicate.sql == f"{meant} IS NOT NULL"


def test_fields_travel_with_their_column() -> None:
    """`relation`.`column`.`field` is no column of a table in a schema."""
    moved = expression("`f`.`at`.`x`.`y` + `f`.`at`", {("f", "at"): column("f.at", "stream")})
    assert text(moved) == "`stream`.`f.at`.`x`.`y` + `stream`.`f.at`"
    found = graph(f"SELECT f.id {INNER} AND f.at.x = w.at.x.y")
    (residual,) = [p for p in found.predicates if p.kind == "residual"]
    (key,) = join_keys(residual, "w", frozenset("f"))
    assert (key.mine, key.other) == ("`w`.`at`.`x`.`y`", "`f`.`at`.`x`")


def test_explain_says_how_layers_are_kept() -> None:
    sql = "SELECT origin, rank() OVER (PARTITION BY origin ORDER BY d) AS r FROM (SELECT f.origin, "
    sql += "explode(split(f.dest, '')) AS d FROM flights AS f JOIN planes USING (tailnum)) AS q"
    plan = flights.first_plan(flights.model(sql))
    found = [
        (o["operator"], o["over"], o["kept"].split(":")[0]) for o in explanation(plan)["operators"]
    ]
    assert found == [
        ("inner join", "f, planes", "by lookup paths"),
        ("generator", "explode", "row by row"),
        ("window", "origin", "by touched partitions"),
    ]


@pytest.mark.parametrize(
    "below",
    [
        "SELECT id, i AS k FROM f LATERAL VIEW explode(items) e AS i",
        "SELECT * FROM (SELECT id, k, row_number() OVER (PARTITION BY k ORDER BY id) AS n FROM f) "
        "AS r WHERE n = 1",
    ],
)
def test_a_layer_below_a_join_is_a_derived_source(below: str) -> None:
    bound = bind(f"SELECT q.id, w.y FROM ({below}) AS q JOIN w ON w.k = q.k", COLUMNS)
    assert bound.graph is not None
    (derived,) = bound.graph.derived
    assert derived.name == "q"
    assert derived.graph.generation or derived.graph.windowing


def test_groups_over_a_view_are_joined_as_a_source() -> None:
    found = graph(
        "SELECT w.y, g.n FROM w JOIN (SELECT f.k, count(i) AS n FROM f "
        "LATERAL VIEW explode(f.items) e AS i GROUP BY f.k) AS g ON g.k = w.k"
    )
    (derived,) = found.derived
    assert derived.graph.generation is not None
    assert derived.graph.output_names == ("k", "n")


def test_groups_over_a_view_are_filtered_as_a_source() -> None:
    found = graph(
        "WITH lines AS (SELECT k, i, count(*) AS n FROM f LATERAL VIEW explode(items) e AS i "
        "GROUP BY k, i) SELECT k, i FROM lines WHERE n > 1"
    )
    assert (found.generation, len(found.derived)) == (None, 1)


def test_windows_over_groups_of_a_subquery_are_kept() -> None:
    found = graph(
        "SELECT k, day, rank() OVER (PARTITION BY k ORDER BY n DESC) AS r FROM "
        "(SELECT k, day, count(*) AS n FROM f GROUP BY k, day) AS g"
    )
    known = describe(found, KEYS, TYPES)
    assert row_key(found, known.keys, known.types) == ("k", "day")
