"""Which queries are ASOF joins, and are written by neighbours; which only look like some."""

from __future__ import annotations

import pytest

from deltajoin.delta.asof import with_neighbours
from deltajoin.graph import JoinGraph
from deltajoin.sql.bind import bind

COLUMNS = {
    "l": ("id", "k", "at", "ntz", "d", "n", "x"),
    "r": ("k", "at", "ntz", "d", "n", "v", "s"),
    "e": ("k", "z"),
    "q": ("id", "k", "n"),
}
KEYS = {"l": ("id",), "r": ("k", "n"), "e": ("k",), "q": ("id",)}
KINDS = {"id": "bigint", "k": "string", "at": "timestamp", "ntz": "timestamp_ntz", "d": "date"}
TYPES = {(t, c): KINDS.get(c, "int") for t, columns in COLUMNS.items() for c in columns}
TYPES |= {("r", "s"): "string", ("e", "z"): "string"}
JOIN = "FROM l LEFT JOIN r ON l.k = r.k AND r.n <= l.n"
LAST = "row_number() OVER (PARTITION BY l.id ORDER BY r.n DESC) = 1"
EXISTS = "EXISTS (SELECT 1 FROM e WHERE e.k = r.s)"


def graph(sql: str, functions: tuple[str, ...] = ()) -> JoinGraph:
    found = bind(sql, COLUMNS, TYPES, functions=functions, keys=KEYS).graph
    assert found is not None
    return found


def written(
    sql: str, keys: dict[str, tuple[str, ...]] | None = None, functions: tuple[str, ...] = ()
) -> list[str]:
    """The conditions that neighbours added to a query; none where it stayed as it is."""
    found = graph(sql, functions)
    made = with_neighbours(found, KEYS if keys is None else keys, TYPES)
    if not any(derived.asof for derived in made.all_derived):
        assert made == found
    return [
        p.sql.replace("`", "")
        for part in made.parts
        for core in part.branches
        for p in core.all_predicates()
        if "next_" in p.sql or "previous_" in p.sql
    ]


def test_the_last_row_before_is_found_by_the_next_one() -> None:
    made = with_neighbours(graph(f"SELECT l.id, r.v {JOIN} QUALIFY {LAST}"), KEYS, TYPES)
    (derived,) = made.derived
    assert made.windowing is None
    assert derived.asof == "r, the last by n"
    assert derived.graph.windowing is not None
    assert derived.graph.windowing.key_outputs == ("k",)
    assert [o.name for o in derived.graph.windowing.outputs] == ["k", "n", "v", "next_n"]
    (join,) = made.joins
    assert [p.sql.replace("`", "") for p in join.on] == [
        "l.k = r.k",
        "r.n <= l.n",
        "(l.n < r.next_n OR r.next_n IS NULL)",
    ]


@pytest.mark.parametrize(
    ("operator", "order", "condition"),
    [
        ("r.n <= l.n", "DESC", "l.n < r.next_n"),
        ("r.n < l.n", "DESC", "l.n <= r.next_n"),
        ("l.n >= r.n", "DESC NULLS FIRST", "l.n < r.next_n"),
        ("r.n >= l.n", "", "l.n > r.previous_n"),
        ("l.n < r.n", "ASC NULLS LAST", "l.n >= r.previous_n"),
    ],
)
def test_neighbours_lie_on_the_other_side(operator: str, order: str, condition: str) -> None:
    call = f"row_number() OVER (PARTITION BY l.id ORDER BY r.n {order})"
    for tail in (f"QUALIFY {call} = 1", f"QUALIFY 1 = {call}", f"QUALIFY {call} <= 1"):
        sql = f"SELECT l.id, r.v FROM l JOIN r ON l.k = r.k AND {operator} {tail}"
        (found,) = written(sql)
        assert found == f"({condition} OR {condition.split()[-1]} IS NULL)"


@pytest.mark.parametrize(
    ("sql", "kept"),
    [
        (f"SELECT l.id, r.v {JOIN} AND r.n > l.n - 5 QUALIFY {LAST}", True),
        (f"SELECT l.id, r.v {JOIN} AND l.x > 3 AND r.v > 3 QUALIFY {LAST}", True),
        (f"SELECT l.id, r.v {JOIN} WHERE l.x > 3 QUALIFY {LAST}", True),
        (f"SELECT l.id, e.z {JOIN} LEFT JOIN e ON e.k = r.s QUALIFY {LAST}", True),
        (f"SELECT l.id, max_by(r.v, r.n) AS v {JOIN} GROUP BY l.id", True),
        (f"SELECT l.id, max(r.n) AS v {JOIN} GROUP BY l.id, l.x", True),
        # A condition that the last of all candidates may not meet where another one does.
        (f"SELECT l.id, r.v {JOIN} AND r.v > l.x QUALIFY {LAST}", False),
        (f"SELECT l.id, r.v {JOIN} AND r.n + l.x > l.n QUALIFY {LAST}", False),
        (f"SELECT l.id, r.v {JOIN} AND r.n + 1 > l.x QUALIFY {LAST}", False),
        (f"SELECT l.id, r.v {JOIN} AND r.n <> l.x QUALIFY {LAST}", False),
        (f"SELECT l.id, r.v {JOIN} AND r.n <= l.x QUALIFY {LAST}", False),
        (f"SELECT l.id, r.v {JOIN} AND (r.v = 1 OR l.x = 1) QUALIFY {LAST}", False),
        (f"SELECT l.id, r.v {JOIN} WHERE r.v IS NULL QUALIFY {LAST}", False),
        (
            f"SELECT l.id, e.z {JOIN} LEFT JOIN e ON e.k = r.s WHERE e.z IS NULL QUALIFY {LAST}",
            False,
        ),
        (f"SELECT l.id, r.v {JOIN} JOIN e ON e.k = r.s QUALIFY {LAST}", False),
        (
            f"SELECT l.id, r.v {JOIN} WHERE {EXISTS} QUALIFY {LAST}",
            False,
        ),
        # Rows that nothing tells apart, or that stand for several.
        (f"SELECT r.v {JOIN} QUALIFY {LAST}", False),
        (f"SELECT l.id, r.v {JOIN} LEFT JOIN q ON q.k = l.k QUALIFY {LAST}", False),
        (f"SELECT l.id, q.id AS q, r.v {JOIN} LEFT JOIN q ON q.k = l.k QUALIFY {LAST}", False),
        (f"SELECT l.id, r.v {JOIN} QUALIFY {LAST.replace('l.id', 'l.id, r.v')}", False),
        (f"SELECT l.id, r.v {JOIN} GROUP BY l.id, r.v", False),
        # Another row than the last one, or more than one.
        (f"SELECT l.id, r.v {JOIN} QUALIFY {LAST.replace('= 1', '<= 2')}", False),
        (f"SELECT l.id, r.v {JOIN} QUALIFY {LAST.replace('= 1', '= 2')}", False),
        (f"SELECT l.id, r.v {JOIN} QUALIFY {LAST.replace('= 1', '< 3')}", False),
        (f"SELECT l.id, r.v {JOIN} QUALIFY {LAST} AND {LAST.replace('= 1', '< l.x')}", False),
        (f"SELECT l.id, r.v {JOIN} QUALIFY {LAST.replace('= 1', '> 1')}", False),
        (f"SELECT l.id, r.v {JOIN} QUALIFY {LAST.replace('DESC', 'ASC')}", False),
        (f"SELECT l.id, r.v {JOIN} QUALIFY {LAST} OR l.x = 1", False),
        (f"SELECT l.id, r.v, count(*) OVER (PARTITION BY l.id) AS c {JOIN} QUALIFY {LAST}", False),
        (f"SELECT l.id, r.v, {LAST.removesuffix(' = 1')} AS c {JOIN}", False),
        (f"SELECT l.id, min_by(r.v, r.n) AS v {JOIN} GROUP BY l.id", False),
        (f"SELECT l.id, max_by(r.v, r.n) AS v, count(*) AS c {JOIN} GROUP BY l.id", False),
        (f"SELECT l.id, max_by(r.v, r.n) AS v, min(r.n) AS c {JOIN} GROUP BY l.id", False),
        (f"SELECT l.id, max(r.n) FILTER (WHERE r.v > 1) AS v {JOIN} GROUP BY l.id", False),
        (f"SELECT l.id, max_by(r.v, r.n) AS v {JOIN} GROUP BY l.id HAVING max(r.n) > 1", False),
        (f"SELECT DISTINCT l.id, r.n {JOIN}", False),
        # No equality, or one of other types.
        (f"SELECT l.id, r.v FROM l LEFT JOIN r ON r.n <= l.n QUALIFY {LAST}", False),
        (f"SELECT l.id, r.v FROM l LEFT JOIN r ON r.v = l.x AND r.n <= l.n QUALIFY {LAST}", False),
        (
            f"SELECT l.id, r.v FROM l LEFT JOIN r ON r.k <=> l.k AND r.n <= l.n QUALIFY {LAST}",
            False,
        ),
        (f"SELECT l.id, r.v FROM l LEFT JOIN r ON l.k = r.k AND r.n <= l.id QUALIFY {LAST}", False),
    ],
)
def test_what_is_an_asof_join(sql: str, kept: bool) -> None:
    assert len(written(sql)) == kept


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("r.at >= l.at - INTERVAL 2 DAYS", True),
        ("r.at > l.d", True),
        ("l.at <= r.at + INTERVAL 5 MINUTES", True),
        ("l.at BETWEEN r.at AND r.at + INTERVAL '90' MINUTES", True),
        # Clocks that are put forward or back change the order of these.
        ("l.at <= r.at + INTERVAL 1 DAY", False),
        ("l.at <= r.at + INTERVAL 24 HOURS", False),
        ("l.at <= r.at + INTERVAL 1 MONTH", False),
        ("l.at - r.at <= INTERVAL 5 MINUTES", False),
        ("date(r.at) = l.d", False),
        ("r.at + make_dt_interval(0, l.x) >= l.at", False),
    ],
)
def test_tolerances_of_moments(condition: str, kept: bool) -> None:
    last = LAST.replace("r.n", "r.at")
    keys = {**KEYS, "r": ("k", "at")}
    join = "FROM l LEFT JOIN r ON l.k = r.k AND r.at <= l.at"
    sql = f"SELECT l.id, r.v {join} AND {condition} QUALIFY {last}"
    assert len(written(sql, keys)) == kept


@pytest.mark.parametrize(
    ("name", "condition", "kept"),
    [
        ("ntz", "l.ntz <= r.ntz + INTERVAL 1 DAY", True),
        ("ntz", "l.ntz - r.ntz <= INTERVAL 5 MINUTES", True),
        ("ntz", "r.ntz >= l.ntz - INTERVAL 1 DAY - INTERVAL 5 MINUTES", True),
        ("ntz", "r.ntz >= l.at", False),
        ("ntz", "l.ntz <= r.ntz + INTERVAL 1 MONTH", False),
        ("ntz", "l.at - r.ntz <= INTERVAL 5 MINUTES", False),
        ("d", "l.d <= r.d + INTERVAL 1 WEEK", True),
        ("d", "l.d - r.d <= INTERVAL 3 DAYS", True),
        ("d", "l.d <= r.d + INTERVAL 3 HOURS", False),
        ("d", "l.d <= r.d + 3", False),
        ("d", "datediff(l.d, r.d) <= 3", False),
    ],
)
def test_tolerances_of_local_times_and_dates(name: str, condition: str, kept: bool) -> None:
    last = LAST.replace("r.n", f"r.{name}")
    join = f"FROM l LEFT JOIN r ON l.k = r.k AND r.{name} <= l.{name}"
    sql = f"SELECT l.id, r.v {join} AND {condition} QUALIFY {last}"
    assert len(written(sql, {**KEYS, "r": ("k", name)})) == kept


@pytest.mark.parametrize(
    ("order", "turned"),
    [
        ("r.s DESC, r.v", "s ASC, v DESC"),
        ("r.s NULLS LAST, r.v DESC NULLS FIRST", "s DESC NULLS FIRST, v ASC NULLS LAST"),
    ],
)
def test_ties_are_decided_as_they_were(order: str, turned: str) -> None:
    sql = f"SELECT l.id, r.s {JOIN} QUALIFY {LAST.replace('DESC', 'DESC, ' + order)}"
    (derived,) = with_neighbours(graph(sql), {**KEYS, "r": ("v",)}, TYPES).derived
    assert derived.graph.windowing is not None
    ((_, call),) = derived.graph.windowing.windows
    for projection in derived.graph.projections:
        call = call.replace(f"`input`.`{projection.name}`", projection.name)
        assert projection.column is not None
        call = call.replace(projection.name, projection.column[1])
    assert call == f"lead(n) OVER (PARTITION BY k ORDER BY n, {turned})"
    tied = f"SELECT l.id, r.s {JOIN} QUALIFY {LAST.replace('DESC', 'DESC, r.s')}"
    assert not written(tied, {**KEYS, "r": ("v",)})


def test_equal_values_are_of_one_type() -> None:
    """`lead` sees the rows of one value, where an int meets all bigints that are equal to it."""
    sql = f"SELECT l.id, r.s FROM l LEFT JOIN r ON r.v = l.x AND r.n <= l.n QUALIFY {LAST}"
    keys = {**KEYS, "r": ("v", "n")}
    assert written(sql, keys)
    assert not written(sql.replace("l.x", "l.id"), keys)


def test_candidates_are_of_a_table_with_a_key() -> None:
    sql = f"SELECT l.id, r.v {JOIN} QUALIFY {LAST}"
    assert written(sql)
    for lost in ("l", "r"):
        assert not written(sql, {t: key for t, key in KEYS.items() if t != lost})
    below = "(SELECT k, n, count(*) AS v FROM r GROUP BY k, n) AS r"
    assert not written(sql.replace("JOIN r", f"JOIN {below}"))


def test_values_that_a_missing_row_would_have_are_null() -> None:
    sql = f"SELECT l.id, max_by(coalesce(r.v, l.x), r.n) AS v {JOIN} GROUP BY l.id"
    made = with_neighbours(graph(sql), KEYS, TYPES)
    text = made.projections[1].sql.replace("`", "")
    assert text == "(CASE WHEN NOT r.n IS NULL THEN coalesce(r.v, l.x) END)"


def test_each_query_below_is_written_by_neighbours() -> None:
    one = f"(SELECT l.id, l.k, r.v {JOIN} QUALIFY {LAST})"
    sql = f"SELECT a.id, a.v, b.v AS w FROM {one} AS a JOIN {one} AS b ON a.id = b.id"
    made = with_neighbours(graph(sql), KEYS, TYPES)
    names = [derived.name for derived in made.all_derived if derived.asof]
    assert len(names) == len(set(names)) == 2


def test_a_condition_by_a_function_of_the_users_keeps_the_query_as_it_is() -> None:
    sql = f"SELECT l.id, r.v {JOIN} AND is_good(r.v) QUALIFY {LAST}"
    assert not written(sql, functions=("is_good",))
