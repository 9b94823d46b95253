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
        (f"SELECT l.id, sum(r.n) AS v {JOIN.replace('<=', '>=')} GROUP BY l.id", False),
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


def test_a_condition_by_a_function_of_the_users_filters_candidates() -> None:
    sql = f"SELECT l.id, r.v {JOIN} AND is_good(r.v) QUALIFY {LAST}"
    assert written(sql, functions=("is_good",))


# correlated subqueries ----------------------------------------------------------------------------

BEFORE = "FROM r WHERE r.k = l.k AND r.n <= l.n"
FIRST = f"(SELECT r.v {BEFORE} ORDER BY r.n DESC LIMIT 1)"


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT l.id, {FIRST} AS v FROM l",
        f"SELECT l.x, {FIRST} AS v FROM l",
        f"SELECT l.id, 1 + {FIRST} AS v FROM l",
        f"SELECT l.id FROM l WHERE {FIRST} > l.x",
        f"SELECT l.k, max({FIRST}) AS v FROM l GROUP BY l.k",
        f"SELECT l.id, v.v FROM l, LATERAL {FIRST} AS v",
        f"SELECT l.id, v.w FROM l JOIN LATERAL {FIRST} AS v(w) ON v.w > l.x",
        f"SELECT l.id, v.v, v.s FROM l LEFT JOIN LATERAL {FIRST.replace('r.v', '*')} AS v ON TRUE",
        f"SELECT l.id, (SELECT max_by(r.v, r.n) {BEFORE}) AS v FROM l",
        f"SELECT l.id, (SELECT coalesce(max_by(v, r.n), l.x) {BEFORE} AND v > 3) AS v FROM l",
        f"SELECT l.id, (SELECT max(r.n) - l.n {BEFORE}) AS v FROM l",
        f"SELECT l.id, (SELECT min(n) {BEFORE.replace('<=', '>')}) AS v FROM l",
    ],
)
def test_a_correlated_subquery_may_be_an_asof_join(sql: str) -> None:
    found = graph(sql)
    assert [d.asof[:7] for d in found.all_derived if d.asof] == ["r, the "]
    without_keys = bind(sql, COLUMNS, TYPES, keys={"l": ("id",)})
    assert without_keys.reason is not None


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT l.id, {FIRST.replace('LIMIT 1', 'LIMIT 2')} AS v FROM l",
        f"SELECT l.id, {FIRST.replace('LIMIT 1', 'LIMIT 1 OFFSET 1')} AS v FROM l",
        f"SELECT l.id, {FIRST.replace('DESC', 'ASC')} AS v FROM l",
        f"SELECT l.id, {FIRST.replace('ORDER BY r.n', 'ORDER BY r.v')} AS v FROM l",
        f"SELECT l.id, {FIRST.replace('ORDER BY r.n', 'ORDER BY -r.n')} AS v FROM l",
        f"SELECT l.id, {FIRST.replace('r.v', '-v AS n').replace('BY r.n', 'BY n')} AS v FROM l",
        f"SELECT l.id, {FIRST.replace('r.v', 'DISTINCT r.v')} AS v FROM l",
        f"SELECT l.id, {FIRST.replace('r.v', 'max(r.v)')} AS v FROM l",
        f"SELECT l.id, {FIRST.replace('FROM r', 'FROM r JOIN e ON e.k = r.s')} AS v FROM l",
        f"SELECT l.id, {FIRST.replace('<= l.n', '<= l.n AND r.v > l.x')} AS v FROM l",
        f"SELECT l.id, {FIRST.replace('r.k = l.k AND', '')} AS v FROM l",
        f"SELECT l.id, {FIRST.replace('r.k = l.k', 'r.k = l.k AND r.n <= l.x')} AS v FROM l",
        f"SELECT l.id, v.v FROM l RIGHT JOIN LATERAL {FIRST} AS v ON TRUE",
        f"SELECT l.id, v.v FROM l, LATERAL (SELECT max_by(r.v, r.n) AS v {BEFORE}) AS v",
        f"SELECT l.id, (SELECT max_by(r.v, r.n) + count(*) {BEFORE}) AS v FROM l",
        f"SELECT l.id, (SELECT max_by(r.v, r.s) {BEFORE}) AS v FROM l",
        f"SELECT l.id, (SELECT max(r.v) {BEFORE.replace('r.n', 'r.v')}) AS v FROM l",
        f"SELECT l.id, {FIRST.replace('r.n', 'r.v')} AS v FROM l",
        f"SELECT l.id, (SELECT sum(r.v) {BEFORE}) AS v FROM l",
    ],
)
def test_other_correlated_subqueries_are_as_they_were(sql: str) -> None:
    found = bind(sql, COLUMNS, TYPES, keys=KEYS)
    assert found.graph is None
    assert found.reason is not None


def test_a_subquery_within_one_is_kept_as_it_was() -> None:
    below = "(SELECT max(r.n + (SELECT max(q.n) FROM q)) FROM r WHERE r.k = l.k AND r.v > 1)"
    found = graph(f"SELECT l.id, {below} AS v FROM l")
    assert not any(derived.asof for derived in found.all_derived)


def test_a_subquery_that_is_none_leaves_names_as_they_were() -> None:
    """Names of relations are part of the fingerprint: no target may be rebuilt for nothing."""
    found = graph("SELECT l.id, (SELECT max(r.n) FROM r WHERE r.v > 1 AND r.k = l.k) AS v FROM l")
    assert not any(derived.asof for derived in found.all_derived)
    assert {relation.name for relation in found.relations} == {"l", "scalar"}
    (derived,) = found.derived
    assert [relation.name for relation in derived.graph.relations] == ["r"]
