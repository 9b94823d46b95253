"""Which outputs are stamps, what the fingerprint holds, when the clock is work; without Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import deltajoin
from deltajoin.delta.clock import clock_moved, day_gone, micros, stamp_columns_at
from deltajoin.delta.derived import describe, order_dependent
from deltajoin.emit.sql import build_program
from deltajoin.errors import DeltaJoinError, Refusal
from deltajoin.graph import JoinGraph
from deltajoin.sql.bind import BoundQuery, bind
from deltajoin.sql.clock import frozen, frozen_query
from deltajoin.sql.stamps import masked
from tests.spark.shop import KEYS, Shop, open_shop

COLUMNS = {"f": ("id", "k", "x", "day"), "w": ("k", "y")}
TYPES = {(table, name): "bigint" for table, names in COLUMNS.items() for name in names}
JOIN = "FROM f JOIN w ON f.k = w.k"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def bound(sql: str, *stamps: str) -> BoundQuery:
    return bind(sql, COLUMNS, TYPES, stamps=stamps)


def graph(sql: str, *stamps: str) -> JoinGraph:
    found = bound(sql, *stamps)
    assert found.graph is not None, found.reason
    return found.graph


STAMPS = [
    "current_timestamp()",
    "current_timestamp",
    "CURRENT_DATE",
    "`current_date`",
    "now() - INTERVAL 1 DAY 12 HOURS",
    "CAST(current_timestamp() AS DATE)",
    "current_date()::STRING",
    "date_format(localtimestamp(), 'yyyy')",
    "unix_timestamp()",
    "curdate()",
    "current_user",
    "concat(session_user(), ' at ', now())",
    "CASE WHEN hour(now()) < 12 THEN 'early' ELSE 'late' END",
]


@pytest.mark.parametrize("stamp", STAMPS)
def test_a_column_of_the_clock_or_the_run_alone_is_a_stamp(stamp: str) -> None:
    for sql in (
        f"SELECT f.id, {stamp} AS at, w.y {JOIN}",
        f"SELECT f.k AS id, {stamp} AS at, count(*) AS y {JOIN} GROUP BY f.k",
        f"SELECT f.k AS id, {stamp} AS at, sum(f.x) AS y {JOIN} GROUP BY 1, 2",
        f"SELECT DISTINCT f.k AS id, {stamp} AS at, w.y {JOIN}",
        f"SELECT f.k AS id, {stamp} AS at, rank() OVER (PARTITION BY f.k ORDER BY f.x) AS y {JOIN}",
        f"SELECT f.id, {stamp} AS at, e AS y {JOIN} LATERAL VIEW explode(array(1, f.x)) AS e",
        f"SELECT id, {stamp} AS at, x AS y FROM f UNION ALL SELECT k, {stamp}, y FROM w",
        f"SELECT id, {stamp} AS at, x AS y FROM f UNION SELECT k, {stamp}, y FROM w",
        f"WITH a AS (SELECT f.id, {stamp} AS at, w.y {JOIN}) SELECT * FROM a",
        f"WITH a AS (SELECT k, {stamp} AS at, count(*) AS n FROM f GROUP BY k) "
        "SELECT a.k AS id, a.at, w.y FROM a JOIN w ON a.k = w.k",
        f"SELECT z.id, z.at, z.y FROM (SELECT f.id, w.y, {stamp} AS at {JOIN}) z",
    ):
        found = graph(sql)
        assert found.output_names == ("id", "y"), sql
        assert [(s.name, s.position) for s in found.stamps] == [("at", 1)], sql


def test_a_stamp_of_a_stamp_is_one() -> None:
    found = graph(f"SELECT f.id, now() AS at, date_add(at, 1) AS tomorrow {JOIN}")
    assert [stamp.name for stamp in found.stamps] == ["at", "tomorrow"]


KEPT = {
    f"SELECT f.id {JOIN} WHERE f.day >= current_date() - 7": "day",
    f"SELECT f.id {JOIN} WHERE f.day >= CAST(now() AS DATE) AND f.x > 1": "day",
    f"SELECT f.id {JOIN} WHERE f.day >= date_trunc('MONTH', current_timestamp())": "day",
    f"SELECT f.id {JOIN} WHERE f.day >= now() - INTERVAL 7 DAYS": "instant",
    f"SELECT f.id {JOIN} AND f.day >= current_timestamp": "instant",
    f"SELECT f.id, now() AS at {JOIN} WHERE f.day < current_date()": "day",
    "SELECT f.id, w.y FROM f LEFT JOIN w ON f.k = w.k AND w.y > day(current_date())": "day",
    f"SELECT f.id {JOIN} WHERE datediff(now(), f.day) < 7 AND f.x < year((now()))": "day",
    f"SELECT f.id {JOIN} WHERE date_add(f.day, unix_timestamp()) < f.x": "instant",
    f"SELECT f.id {JOIN} WHERE datediff(HOUR, f.day, now()) < 7": "instant",
    "SELECT f.id FROM f WHERE NOT EXISTS (SELECT 1 FROM w WHERE w.k = f.k AND w.y > now())": (
        "instant"
    ),
}


@pytest.mark.parametrize("sql", KEPT)
def test_a_condition_on_the_clock_over_one_relation_makes_a_source(sql: str) -> None:
    found = bound(sql)
    assert found.graph is not None, found.reason
    assert found.clock == KEPT[sql]
    (derived,) = found.graph.derived
    assert derived.clocked
    (relation,) = derived.graph.relations
    assert found.graph.by_name[relation.name].source == derived.name
    assert not any("current" in p.sql or "now" in p.sql for p in found.graph.predicates)


#: Conditions with what they judge: the sources by the clock, and those below these.
OVER = {
    f"SELECT f.id {JOIN} WHERE current_date() > DATE '2026-01-01'": "f_by_clock f",
    f"SELECT f.id {JOIN} WHERE f.x + w.y > unix_timestamp()": "joined_by_clock joined",
    "SELECT f.id FROM f LEFT JOIN w ON f.k = w.k WHERE coalesce(w.y, 1) < now()": (
        "joined_by_clock joined"
    ),
    "SELECT f.x, w.y FROM f FULL JOIN w ON f.k = w.k WHERE coalesce(f.x, w.y) < now()": (
        "joined_by_clock joined"
    ),
    "SELECT w.k, z.id FROM w LEFT JOIN (SELECT a.id, a.k FROM f a JOIN f b ON a.k = b.x WHERE "
    "a.day > now() - b.day) z ON z.k = w.k": "joined_by_clock joined",
    "SELECT k, now() AS at FROM f WHERE day > now() UNION ALL SELECT k, now() FROM w WHERE y < now("
    ")": "f_by_clock f, w_by_clock w",
    "SELECT k FROM (SELECT k, day FROM f UNION SELECT k, y FROM w) WHERE day > now()": (
        "union_by_clock union"
    ),
    "WITH a AS (SELECT k, now() AS at FROM f) SELECT * FROM a WHERE at > '2026-01-01'": (
        "f_by_clock f"
    ),
    f"SELECT f.k, now() AS at, count(*) AS n {JOIN} GROUP BY f.k, now() HAVING max(f.day) > now() "
    "AND count(*) > 1": "groups_by_clock groups",
    "SELECT max(x) AS x FROM f HAVING max(day) > now()": "groups_by_clock groups",
    "SELECT id FROM f QUALIFY rank() OVER (PARTITION BY k ORDER BY x) = 1 AND day > now()": (
        "windows_by_clock windows"
    ),
    "SELECT id, e FROM f LATERAL VIEW explode(array(x, day)) AS e WHERE e > now()": (
        "generated_by_clock generated"
    ),
}


@pytest.mark.parametrize("sql", OVER)
def test_what_a_condition_on_the_clock_judges_is_a_source_below(sql: str) -> None:
    found = graph(sql)
    clocked = [derived for derived in found.all_derived if derived.clocked]
    below = [(d.name, r.source) for d in clocked for r in d.graph.relations]
    assert ", ".join(f"{name} {source}" for name, source in below) == OVER[sql]
    assert all(stamp.name == "at" for stamp in found.stamps)
    assert bool(found.stamps) == ("AS at" in sql)


def test_one_moment_on_both_sides_of_a_set_decides_nothing() -> None:
    found = bound("SELECT id, now() AS at FROM f INTERSECT SELECT k, now() FROM w")
    assert found.graph is not None
    assert (found.clock, [stamp.name for stamp in found.graph.stamps]) == ("", ["at"])


def test_a_condition_above_an_outer_join_stays_above_what_is_said_below() -> None:
    """The same text on rows of `f`, and on those that lack a match."""
    sql = "coalesce(f.day, 5) > day(now())"
    found = graph(
        f"SELECT w.k FROM w LEFT JOIN (SELECT * FROM f WHERE {sql}) f ON f.k = w.k WHERE {sql}"
    )
    clocked = [derived.name for derived in found.all_derived if derived.clocked]
    assert clocked == ["f_by_clock", "joined_by_clock"]


DECIDING = {
    f"SELECT f.id, datediff(DAY, f.day, now()) AS age {JOIN}": "instant",
    f"SELECT f.id, datediff(current_date, f.day) {JOIN}": "day",
    "SELECT f.id FROM f FULL JOIN w ON f.k = w.k AND f.day > now()": "instant",
    "SELECT f.id FROM f LEFT JOIN w ON f.k = w.k AND f.day > now()": "instant",
    "SELECT f.id FROM f LEFT JOIN w ON f.k = w.k AND f.day > now() - w.y": "instant",
    "SELECT f.id FROM f LEFT ANTI JOIN w ON f.k = w.k AND f.day > now() - w.y": "instant",
    f"SELECT f.k, max(months_between(now(), f.day)) AS age {JOIN} GROUP BY f.k": "instant",
    "SELECT f.k, z.at FROM f LEFT JOIN (SELECT k, now() AS at FROM w) z ON f.k = z.k": "instant",
    "SELECT k, current_date AS at FROM f UNION ALL SELECT k, date_sub(now(), 1) FROM w": "day",
    "SELECT id, now() AS at, CASE WHEN at > f.day THEN 1 END AS late FROM f LIMIT 3": "instant",
    "WITH a AS (SELECT k, now() AS at FROM f LIMIT 3) SELECT a.k FROM a JOIN f ON f.day < at": (
        "instant"
    ),
    # These move no row: what stands in the target stays until a source changes.
    "SELECT id, now() AS at FROM f LIMIT 3": "",
    "WITH a AS (SELECT id, current_date AS at FROM f LIMIT 3) SELECT * FROM a": "",
    "SELECT current_date AS at FROM f": "",
    "SELECT current_date AS at, count(*) AS n FROM f GROUP BY 1": "",
}


@pytest.mark.parametrize("sql", DECIDING)
def test_the_clock_that_decides_rows_is_rebuilt(sql: str) -> None:
    found = bound(sql)
    assert found.graph is None
    assert found.reason is not None
    assert found.clock == DECIDING[sql]
    named = " AS " in sql or "LEFT" in sql
    if named and found.clock and not any(word in sql for word in ("LIMIT", "UNION", "FULL")):
        assert found.reason.code == "CLOCK"
        assert found.reason.where == "line 1"


def test_a_declared_literal_is_a_stamp_where_it_is_constant() -> None:
    sql = f"SELECT f.id, CAST('2026-03-01' AS DATE) AS Loaded, w.y {JOIN}"
    assert graph(sql).output_names == ("id", "Loaded", "y")
    assert graph(sql, "loaded").output_names == ("id", "y")
    grouped = f"WITH a AS (SELECT f.k, 'run 7' AS loaded, count(*) AS n {JOIN} GROUP BY f.k) "
    assert graph(grouped + "SELECT * FROM a", "LOADED").output_names == ("k", "n")
    for wrong in ("y", "nothing"):
        with pytest.raises(DeltaJoinError, match="NOT_A_STAMP"):
            bound(sql, wrong)


def test_literals_of_stamps_are_masked() -> None:
    assert masked("TIMESTAMP '2026-03-01 04:05:06'") == "TIMESTAMP '?'"
    assert masked("concat('it''s ', \"x\", 12)") == "concat('?', '?', 0)"
    assert masked("9") == masked("123456789")
    assert masked("1.5") != masked("1.55"), "another type"


APART = {
    "SELECT *, now() AS At FROM f LIMIT 3": ["at"],
    "WITH a AS (SELECT id, now() AS at FROM f LIMIT 3) SELECT * FROM a": ["at"],
    "SELECT k, now() AS at, 'x' AS run FROM f UNION SELECT k, now() AS k, 'x' AS run FROM w": [
        "at",
        "run",
    ],
    "SELECT k, now() AS at FROM f UNION ALL SELECT k, date_sub(now(), 1) FROM w": [],
    "SELECT *, now() AS at, k FROM f UNION ALL SELECT *, now(), k FROM w": [],
    "WITH a(at, id) AS (SELECT id, now() AS at FROM f) SELECT * FROM a LIMIT 3": [],
    "SELECT * FROM (SELECT id, now() AS at FROM f) z(at, id) LIMIT 3": [],
    "SELECT k, current_date AS at, count(*) AS n FROM f GROUP BY CUBE (1, 2)": [],
    "SELECT k, current_date AS at, count(*) AS n FROM f GROUP BY 1, 2 LIMIT 3": ["at"],
    "SELECT id, now() FROM f LIMIT 3": [],
    "SELECT a.id, z.at FROM f a LEFT JOIN (SELECT id, now() AS at FROM f LIMIT 1) z USING (id)": [],
    "SELECT id, now() AS at, datediff(at, day) AS age FROM f LIMIT 3": [],
    "SELECT x, rand() AS run, CASE WHEN hour(now()) < 12 THEN 'early' END AS at FROM f": ["at"],
}


@pytest.mark.parametrize("sql", APART)
def test_the_stamps_of_a_text_that_stand_certainly_under_their_names(sql: str) -> None:
    found = stamp_columns_at(sql, ("RUN",), NOON, {"id", "k", "day"})
    assert list(found) == APART[sql]
    assert not any("now" in value or "current" in value for value in found.values())
    assert stamp_columns_at(sql, ("run",), NOON, {"current_date", "now"}) in (found, {})


def test_the_clock_in_a_text() -> None:
    assert frozen("now()", 1_500_000) == "timestamp_micros(1500000)"
    assert frozen("unix_timestamp ( )", 1_500_000) == "1L"
    moved = frozen_query("SELECT x AS y FROM t -- now()\nWHERE d > CURRENT_DATE - 1", 5, {"d"})
    assert moved is not None
    assert moved.endswith("-- now()\nWHERE d > CAST(timestamp_micros(5) AS DATE) - 1")
    for unsure in (
        "SELECT now() FROM t",  # its name is the call
        "SELECT x AS y FROM t WHERE d > current_date",  # a column may have this name
        "SELECT system.builtin.now() AS y FROM t",
    ):
        assert frozen_query(unsure, 5, {"current_date"}) is None


@pytest.mark.parametrize("condition", ["abs(w.now) > 1", "f.x + w.now > abs(f.current_date)"])
def test_a_column_may_have_the_name_of_the_clock(condition: str) -> None:
    columns = {"f": ("id", "k", "x", "current_date"), "w": ("k", "now")}
    types = {(table, name): "bigint" for table, names in columns.items() for name in names}
    found = bind(f"SELECT f.id, abs(w.now) AS y {JOIN} WHERE {condition}", columns, types)
    assert found.graph is not None, found.reason
    assert (found.clock, found.graph.derived, found.graph.stamps) == ("", (), ())
    both = frozen("`w`.`now` > abs(now())", 5)
    assert both == "`w`.`now` > abs(timestamp_micros(5))"


def test_when_the_clock_has_moved() -> None:
    last = {"clock": NOON.isoformat(), "settings": {"spark.sql.session.timeZone": "Asia/Tokyo"}}
    tokyo_midnight = NOON.replace(hour=15)
    assert clock_moved("", NOON + timedelta(days=9), last) is None
    assert clock_moved("day", NOON, None) is None
    assert clock_moved("day", tokyo_midnight - timedelta(microseconds=1), last) is None
    assert clock_moved("day", tokyo_midnight, last) == "the date went from 2026-03-01 to 2026-03-02"
    assert clock_moved("instant", NOON, last) is None
    assert clock_moved("instant", NOON + timedelta(microseconds=1), last)
    unknown = {**last, "settings": {"spark.sql.session.timeZone": "GMT+3:30"}}
    assert clock_moved("day", NOON + timedelta(seconds=1), unknown)


SQL = """SELECT o.order_id, c.name, {} AS loaded_at
FROM orders AS o JOIN customers AS c ON o.customer_id = c.customer_id"""


def marks(shop: Shop, *texts: str, stamps: tuple[str, ...] = ()) -> set[str]:
    models = (shop.model(sql=SQL.format(text), stamps=stamps) for text in texts)
    return {deltajoin.plan(model).fingerprint for model in models}


def test_what_the_date_decides_is_bound_for_a_day() -> None:
    found = bound(f"SELECT f.id, datediff(current_date, f.day) AS age, now() AS at {JOIN}")
    assert found.graph is not None
    assert found.daily is not None
    assert (found.daily.code, found.clock) == ("CLOCK", "day")
    assert [stamp.sql for stamp in found.graph.stamps] == ["now()"]


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT k FROM f UNION ALL SELECT day(now()) FROM w", True),
        ("SELECT day(now()) FROM f UNION ALL SELECT k FROM w", False),
        ("(SELECT k FROM f) EXCEPT (SELECT day(now()) FROM w UNION SELECT y FROM w)", True),
        ("SELECT k FROM f WHERE k NOT IN (SELECT y + day(now()) FROM w)", True),
        ("SELECT k FROM f WHERE EXISTS (SELECT y + day(now()) FROM w WHERE w.k = f.k)", True),
        ("SELECT k FROM f JOIN (SELECT day(now()) FROM w)", False),
        ("WITH w2 AS (SELECT day(now()) FROM w) SELECT * FROM w2", False),
    ],
)
def test_a_call_of_the_clock_is_exchanged_where_nobody_sees_its_name(sql: str, told: bool) -> None:
    assert (frozen_query(sql, 5, ("k", "y")) is not None) == told


def test_a_plan_for_a_day_has_its_date_and_a_fingerprint_without(tmp_path: Path) -> None:
    sql = "SELECT order_id, datediff(current_date(), DATE '2020-01-01') * amount AS x FROM orders"
    model = open_shop(tmp_path).model(sql=sql)
    plans = [deltajoin.plan(model, clock=NOON + timedelta(days=n)).to_dict() for n in (0, 1)]
    assert plans[0]["fingerprint"] == plans[1]["fingerprint"]
    for plan, day in zip(plans, (NOON, NOON + timedelta(days=1)), strict=True):
        assert f"timestamp_micros({micros(day)})" in plan["graph"]["projections"][1]["sql"]
    with pytest.raises(deltajoin.DeltaJoinError, match="CLOCK"):
        deltajoin.plan(replace(model, mode="incremental_strict"))


def test_the_fingerprint_holds_the_stamps_name_and_not_its_value(tmp_path: Path) -> None:
    shop = open_shop(tmp_path)
    days = ["TIMESTAMP '2026-03-01 10:00:00'", "TIMESTAMP '2026-03-02 11:30:00.5'"]
    assert len(marks(shop, *days)) == 2
    assert len(marks(shop, *days, stamps=("loaded_at",))) == 1
    assert len(marks(shop, days[0], "'2026-03-01'", stamps=("loaded_at",))) == 2
    limited = [f"{day} AS loaded_at, 1" for day in days]
    rebuilt = [SQL.format(text) + " LIMIT 5" for text in limited]
    found = {deltajoin.plan(shop.model(sql=s, stamps=("loaded_at",))).fingerprint for s in rebuilt}
    assert len(found) == 1


TIED = (
    "SELECT o.customer_id, max_by(o.order_id, o.amount) AS last, {} AS loaded_at FROM orders o "
    "GROUP BY o.customer_id"
)


def test_a_query_that_is_rebuilt_for_its_keys_or_types_has_its_stamps_too(tmp_path: Path) -> None:
    """What stands against keeping it is found after it is bound."""
    shop = open_shop(tmp_path)
    literals = [TIED.format(f"'2026-03-0{day}'") for day in (1, 2)]
    plans = [deltajoin.plan(shop.model(sql=s, stamps=("loaded_at",))) for s in literals]
    assert plans[0].rebuilt_because is not None
    assert plans[0].rebuilt_because.code == "AGGREGATE_ORDER"
    assert plans[0].rebuilt_because.where == "max_by(o.order_id, o.amount)"
    assert plans[0].fingerprint == plans[1].fingerprint
    clocked = deltajoin.plan(shop.model(sql=TIED.format("now()")), clock=NOON)
    assert clocked.to_dict()["clock"] == "2026-03-01T12:00:00+00:00"


def test_a_day_that_is_over_is_rebuilt() -> None:
    why = Refusal("CLOCK", "the clock", "line 1", "Leave it.")
    assert day_gone(why, None, "auto") == ()
    assert [found.code for found in day_gone(why, "the date went", "auto")] == ["CLOCK_MOVED"]
    assert day_gone(why, None, "incremental_strict") == (why,)


def test_the_plan_names_the_clock_only_where_it_is_read(tmp_path: Path) -> None:
    shop = open_shop(tmp_path)
    plain = [deltajoin.plan(shop.model(), clock=NOON + timedelta(days=n)) for n in (0, 1)]
    assert plain[0].hash == plain[1].hash
    stamped = shop.model(sql=SQL.format("now()"), keys=KEYS)
    planned = deltajoin.plan(stamped, clock=NOON)
    assert planned.to_dict()["clock"] == "2026-03-01T12:00:00+00:00"
    assert planned.target.columns == ("order_id", "name")
    assert planned.target.visible == ("order_id", "name", "loaded_at")
    assert planned.hash == deltajoin.plan(stamped, clock=NOON).hash


CONDITIONS = ("o.order_id > day(now())", "o.order_id > c.customer_id * day(now())")


@pytest.mark.parametrize("condition", CONDITIONS)
def test_keys_are_checked_below_a_condition_on_the_clock(tmp_path: Path, condition: str) -> None:
    shop = open_shop(tmp_path)
    plain = SQL.format("1")
    plans = [deltajoin.plan(shop.model(sql=s)) for s in (plain, f"{plain} WHERE {condition}")]
    assert [plan.target.key for plan in plans] == [("order_id",)] * 2
    checks = [build_program(plan).key_check for plan in plans]
    assert checks[0] == checks[1]


@pytest.mark.parametrize("above", ["", "HAVING max(day) > now()"])
def test_sums_of_floats_stay_unsure_through_a_condition_on_the_clock(above: str) -> None:
    sql = f"SELECT g.s FROM (SELECT k, sum(x) AS s FROM f GROUP BY k {above}) g JOIN w ON g.k = w.k"
    types = {**TYPES, ("f", "x"): "double"}
    found = bind(sql, COLUMNS, types).graph
    described = describe(found, {}, types)
    against = order_dependent(found, described, "bag")
    assert against is not None
    assert against.code == "ORDER_DEPENDENT"
    assert order_dependent(found, described, "keyed") is None
