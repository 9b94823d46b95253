"""Ten daily loads of models with stamps, and of models whose rows the clock decides.

Rows are those of Spark on the user's own text without the stamp. A stamp is right when a row that
was there before keeps what it had, and one that was not has the clock of the run.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import deltajoin
from tests.spark.shop import KEYS, Shop, open_shop
from tests.spark.test_groups import quick_spark

__all__ = ["quick_spark"]

Row = tuple[Any, ...]
START = datetime(2026, 3, 1, 22, 30, tzinfo=UTC)
FROM = "FROM orders AS o JOIN customers AS c ON o.customer_id = c.customer_id"

#: The text without its stamp, the stamp, whether keys are declared.
MODELS = {
    "keyed": (f"SELECT o.order_id, /**/ o.amount, c.name {FROM}", "current_timestamp()", True),
    "bag": (f"SELECT c.name, o.amount % 30 AS part /**/ {FROM}", "now()", False),
    "groups with a state": (
        f"SELECT /**/ c.name, count(*) AS n, sum(o.amount) AS total {FROM} GROUP BY c.name",
        "date_format(current_timestamp, 'yyyy-MM-dd HH:mm')",
        True,
    ),
    "groups that HAVING hides": (
        f"SELECT c.name, sum(o.amount) AS total /**/ {FROM} GROUP BY 1 HAVING sum(o.amount) > 600",
        "CURRENT_DATE",
        True,
    ),
    "groups computed anew": (
        f"SELECT c.name, count(DISTINCT o.amount % 7) AS n /**/ {FROM} GROUP BY c.name",
        "localtimestamp() - INTERVAL 1 DAY",
        True,
    ),
    "distinct": (f"SELECT DISTINCT /**/ c.name, o.amount % 40 AS part {FROM}", "now()", True),
    "union": (
        f"SELECT o.order_id AS id, c.name /**/ {FROM} "
        "UNION ALL SELECT customer_id, name /**/ FROM customers",
        "current_timestamp()",
        True,
    ),
    "window": (
        "SELECT o.order_id, o.customer_id, /**/ o.amount, row_number() OVER (PARTITION BY "
        f"o.customer_id ORDER BY o.order_id) AS n {FROM}",
        "current_timestamp()",
        True,
    ),
    "generator": (f"SELECT o.order_id, e /**/ {FROM} LATERAL VIEW explode(array(1, c.customer_id))"
                  " x AS e", "now()", True),
    "through a CTE with groups": (
        f"WITH totals AS (SELECT c.customer_id, max(o.amount) AS most /**/ {FROM} GROUP BY 1), "
        "final AS (SELECT t.*, c.name FROM totals t JOIN customers c USING (customer_id)) "
        "SELECT * FROM final",
        "current_timestamp()",
        True,
    ),
}  # fmt: skip

#: These are compared with the whole query before each write.
SHADOW = ("bag", "groups with a state", "window")


def text(plain: str, stamp: str) -> str:
    """The user's text: the stamp stands where the mark is."""
    mark = f"{stamp} AS loaded_at"
    for before in (",", "DISTINCT", "SELECT"):
        plain = plain.replace(f"{before} /**/", f"{before} {mark},")
    return plain.replace(" /**/", f", {mark}")


def without(plain: str) -> str:
    return plain.replace("/**/", "")


def load(shop: Shop, day: int) -> None:
    """One day's changes: new orders, a corrected one, a cancelled one, a customer's new name."""
    shop.append("orders", (100 + day, day % 7, 10 * day), (200 + day, 3, 30))
    shop.update("orders", f"order_id = {day}", amount=f"amount + {day % 3}")
    if day % 3 == 0:
        shop.delete("orders", f"order_id = {20 + day}")
    if day % 4 == 0:
        shop.update("customers", f"customer_id = {day % 7}", name=f"'renamed {day}'")


def over_tables(spark: Any, shop: Shop, sql: str) -> Any:
    """A text over the tables as they are now, by Spark itself."""
    session = spark.newSession()
    for table in ("orders", "customers"):
        frame = session.read.format("delta").load(shop.path(table))
        frame.createOrReplaceTempView(table)
    return session.sql(sql)


def rows_of(spark: Any, shop: Shop, sql: str) -> Counter[Row]:
    return Counter(tuple(row) for row in over_tables(spark, shop, sql).collect())


def target_rows(spark: Any, model: deltajoin.Model) -> list[tuple[Row, str]]:
    """The rows of the target without the stamp, and each one's stamp as text."""
    frame = deltajoin.read(model, spark)
    names = [name for name in frame.columns if name != "loaded_at"]
    found = frame.selectExpr(*names, "CAST(loaded_at AS STRING) AS loaded_at").collect()
    return [(tuple(row)[:-1], row["loaded_at"]) for row in found]


def stamp_now(spark: Any, stamp: str, clock: datetime) -> str:
    """The stamp at a clock, computed by Spark from a literal that the test writes."""
    moment = f"TIMESTAMP '{clock:%Y-%m-%d %H:%M:%S.%f}+00:00'"
    for call in ("current_timestamp()", "current_timestamp", "now()"):
        stamp = stamp.replace(call, moment)
    stamp = stamp.replace("CURRENT_DATE", f"CAST({moment} AS DATE)")
    stamp = stamp.replace("localtimestamp()", f"CAST({moment} AS TIMESTAMP_NTZ)")
    return str(spark.sql(f"SELECT CAST({stamp} AS STRING)").collect()[0][0])


@pytest.mark.sampled
@pytest.mark.parametrize("name", list(MODELS))
def test_daily_loads(spark: Any, tmp_path: Path, name: str, thorough: bool) -> None:
    plain, stamp, keyed = MODELS[name]
    shop = open_shop(tmp_path)
    sql = text(plain, stamp)
    model = shop.model(sql=sql, keys=KEYS if keyed else {}, mode="incremental")
    model = replace(model, mode="shadow") if name in SHADOW else model
    before: dict[Row, tuple[int, str]] = {}
    for day in range(10) if thorough else (0, 3, 4):  # one of a cancelled order, one of a new name
        clock = START + timedelta(days=day, seconds=day)
        if day:
            load(shop, day)
        record = deltajoin.run(model, spark, clock=clock)
        assert record.strategy == ("incremental" if day else "full"), record.detail
        now = stamp_now(spark, stamp, clock)
        assert record.stamps == {"loaded_at": now}
        found = target_rows(spark, model)
        rows = rows_of(spark, shop, without(plain))
        assert Counter(row for row, _ in found) == rows
        after: dict[Row, tuple[int, str]] = {}
        for row, count in rows.items():
            times, old = before.get(row, (0, ""))
            after[row] = (count, now if count > times else old)
        assert {(row, stamp) for row, stamp in found} == {(r, s) for r, (_, s) in after.items()}
        before = after
    assert len({stamp for _, stamp in before.values()}) > 1, "rows of several days"
    assert deltajoin.read(model, spark).columns == over_tables(spark, shop, sql).columns
    later = START + timedelta(days=20)
    assert deltajoin.run(model, spark, clock=later).strategy == "noop"


@pytest.mark.parametrize("columns", ["o.order_id, o.amount", "o.amount % 30 AS part"])
def test_rows_of_a_text_that_is_rebuilt_keep_their_stamps(
    spark: Any, tmp_path: Path, columns: str
) -> None:
    """Copies of a row are no longer told apart: where some go, those that stay have the new one."""
    shop = open_shop(tmp_path)
    plain = f"SELECT /**/ {columns}, c.name {FROM} ORDER BY o.order_id LIMIT 1000"
    model = shop.model(sql=text(plain, "current_timestamp()"), keys={})
    before: dict[Row, list[str]] = {}
    for day in range(4):
        clock = START + timedelta(days=day)
        if day:
            load(shop, day)
        record = deltajoin.run(model, spark, clock=clock)
        assert (record.strategy, record.written) == ("full", "difference" if day else "overwrite")
        now, after = stamp_now(spark, "now()", clock), {}
        for row, count in rows_of(spark, shop, without(plain)).items():
            old = before.get(row, [])
            stay = old if count >= len(old) else [now] * count
            after[row] = sorted([*stay, *[now] * (count - len(stay))])
        found: dict[Row, list[str]] = {}
        for row, stamp in sorted(target_rows(spark, model)):
            found.setdefault(row, []).append(stamp)
        assert found == after
        before = after
    assert len({stamp for stamps in before.values() for stamp in stamps}) > 2
    assert deltajoin.run(model, spark, clock=clock + timedelta(days=9)).strategy == "noop"


def test_a_literal_that_is_rendered_anew(spark: Any, tmp_path: Path) -> None:
    """As of dbt's `run_started_at`: another text at each run, and no other model."""
    shop = open_shop(tmp_path)
    plain, _, _ = MODELS["groups with a state"]
    seen: dict[Row, str] = {}
    for day in range(5):
        at = f"2026-03-0{day + 1} 01:02:03"
        if day:
            load(shop, day)
        sql = text(plain, f"CAST('{at}' AS TIMESTAMP)")
        model = shop.model(sql=sql, stamps=("LOADED_AT",), mode="incremental")
        record = deltajoin.run(model, spark)
        assert record.strategy == ("incremental" if day else "full"), record.detail
        assert (record.stamps, record.clock) == ({"loaded_at": at}, None)
        found = dict(target_rows(spark, model))
        assert Counter(list(found)) == rows_of(spark, shop, without(plain))
        assert found == {row: seen.get(row, at) for row in found}
        seen = found
    assert len(set(seen.values())) > 2
    assert deltajoin.run(model, spark).strategy == "noop"


#: Conditions on the clock that are kept.
CLOCKED = {
    "where": f"SELECT o.order_id, c.name {FROM} WHERE o.order_id >= 3 * day(current_date())",
    "outer join, bare": "SELECT o.order_id, c.name, now() AS at FROM orders o "
    "LEFT JOIN customers c ON o.customer_id = c.customer_id AND c.customer_id <= day(Current_Date)",
    "both ends, in groups": f"SELECT c.name, count(*) AS n, sum(o.amount) AS s {FROM} WHERE "
    "o.order_id BETWEEN 4 * day(current_date()) AND 4 * day(curdate()) + 15 GROUP BY c.name",
    "below and above groups": "WITH t AS (SELECT customer_id, sum(amount) AS s FROM orders WHERE "
    "order_id > day(current_date()) GROUP BY 1) SELECT t.*, c.name FROM t JOIN customers c USING "
    "(customer_id) WHERE t.s > 90 * day(CAST(now() AS DATE))",
    "twice, exists": "SELECT o.order_id FROM orders o WHERE o.order_id > day(current_date()) AND "
    "EXISTS (SELECT 1 FROM orders p WHERE p.customer_id = o.customer_id + 1 AND p.order_id "
    "% 13 < day(current_date()))",
    "unknown": "SELECT o.order_id, c.name FROM orders o JOIN customers c USING (customer_id) "
    "WHERE nullif(o.order_id, 3 * day(current_date())) % 2 = day(current_date()) % 2",
    "having": f"SELECT c.name, sum(o.amount) AS s, now() AS at {FROM} GROUP BY 1 "
    "HAVING sum(o.amount) > 100 * day(CAST(now() AS DATE))",
    "qualify": "SELECT order_id, amount FROM orders QUALIFY row_number() OVER (PARTITION BY "
    "customer_id ORDER BY order_id DESC) = 1 AND order_id > 7 * day(current_date())",
    "several relations, union": f"SELECT o.order_id, c.name {FROM} WHERE o.order_id > "
    "c.customer_id * day(current_date()) UNION ALL SELECT customer_id, name FROM customers WHERE "
    "customer_id > day(current_date())",
    "calendar": "WITH days AS (SELECT explode(sequence(DATE '2026-02-27', current_date())) AS day) "
    "SELECT d.day, c.name, count(o.order_id) AS n, sum(o.amount) AS s FROM days d CROSS JOIN "
    "customers c LEFT JOIN orders o ON o.customer_id = c.customer_id AND o.order_id % 28 = "
    "day(d.day) GROUP BY d.day, c.name",
    "calendar, rows": "SELECT o.order_id, d.* FROM orders o JOIN (SELECT posexplode(sequence("
    "date_sub(current_date(), 2), current_date())) AS (pos, day)) d ON d.pos = o.order_id % 3",
    "calendar, values": "SELECT o.order_id, v.day FROM orders o LEFT JOIN (VALUES (current_date(), "
    "1), (date_sub(curdate(), 2), 2)) AS v(day, n) ON o.order_id % 3 = v.n",
}
#: These are kept within a day, and rebuilt when the date moves.
DAILY = {
    "outer join": "SELECT o.order_id, c.name FROM orders o LEFT JOIN customers c ON o.customer_id "
    "= c.customer_id AND o.order_id > c.customer_id * day(current_date())",
    "column": "SELECT o.order_id, c.name, date_sub(current_date(), CAST(o.amount AS INT)) AS d, "
    f"now() AS at {FROM}",
    "sums": "SELECT c.name, sum(CASE WHEN o.order_id > 9 * day(current_date()) THEN o.amount END) "
    f"AS s, count(*) AS n {FROM} GROUP BY c.name",
    "window": "SELECT order_id, amount > day(curdate()) AS b, sum(day(current_date()) * amount) "
    "OVER (PARTITION BY customer_id) AS s FROM orders",
    "columns without a name": f"SELECT o.order_id, day(current_date()) AS d {FROM} WHERE "
    "o.order_id % 40 NOT IN (SELECT customer_id + day(current_date()) FROM customers) UNION ALL "
    "SELECT customer_id, day(current_date()) + 1 FROM customers",
    "calendar from a table": "WITH b AS (SELECT min(order_id) AS low, current_date() AS high FROM "
    "orders), d AS (SELECT explode(sequence(date_sub(high, CAST(3 + low AS INT)), high)) AS day "
    "FROM b) SELECT d.day, c.customer_id, count(o.order_id) AS n FROM d CROSS JOIN customers c "
    "LEFT JOIN orders o ON o.customer_id = c.customer_id AND day(d.day) % 3 = o.order_id % 3 "
    "GROUP BY 1, 2",
}
#: The others are rebuilt.
REBUILT = {
    "column, limit": f"SELECT o.order_id, date_sub(curdate(), CAST(o.amount AS INT)) AS d {FROM} "
    "ORDER BY 1 LIMIT 30",
}


def on_day(sql: str, clock: datetime) -> str:
    """The text with literals that the test writes."""
    sql = sql.replace(", now() AS at", "")
    for call in ("current_date()", "Current_Date", "CAST(now() AS DATE)", "curdate()"):
        sql = sql.replace(call, f"DATE '{clock:%Y-%m-%d}'")
    return sql


@pytest.mark.sampled
@pytest.mark.parametrize("name", list(CLOCKED))
def test_rows_cross_as_the_clock_moves(spark: Any, tmp_path: Path, name: str) -> None:
    sql = CLOCKED[name]
    shop = open_shop(tmp_path)
    model = shop.model(sql=sql, mode="shadow" if name == "where" else "incremental_strict")
    written = []
    for day in range(10 if name == "where" else 4):
        clock = START + timedelta(days=day)
        if day % 3 == 2:
            load(shop, day)
        record = deltajoin.run(model, spark, clock=clock)
        assert record.strategy == ("incremental" if day else "full")
        assert record.clock == clock.isoformat()
        assert ("the clock" in record.detail) == bool(day)
        frame = deltajoin.read(model, spark)
        names = [column for column in frame.columns if column != "at"]
        found = Counter(tuple(row) for row in frame.select(*names).collect())
        assert found == rows_of(spark, shop, on_day(sql, clock))
        written.append(sum(record.rows.values()))
        if not day:
            again = deltajoin.run(model, spark, clock=clock + timedelta(minutes=89))
            assert again.strategy == "noop"
    assert any(written[1:])


@pytest.mark.sampled
@pytest.mark.parametrize("name", list(DAILY))
def test_what_the_date_decides_is_kept_within_a_day(spark: Any, tmp_path: Path, name: str) -> None:
    sql = DAILY[name]
    shop = open_shop(tmp_path)
    model = shop.model(sql=sql, mode="incremental")
    written = 0
    for turn, minutes in enumerate((0, 20, 89, 2 * 1440, 2 * 1440 + 80, 3 * 1440)):
        clock = START + timedelta(minutes=minutes)
        if turn != 5:
            load(shop, turn)
        record = deltajoin.run(model, spark, clock=clock)
        expected = {0: "FIRST_RUN", 3: "CLOCK_MOVED", 5: "CLOCK_MOVED"}.get(turn, "CHANGES")
        assert (record.reason, record.clock) == (expected, clock.isoformat())
        frame = deltajoin.read(model, spark)
        names = [column for column in frame.columns if column != "at"]
        found = Counter(tuple(row) for row in frame.select(*names).collect())
        assert found == rows_of(spark, shop, on_day(sql, clock))
        written += sum(record.rows.values()) if expected == "CHANGES" else 0
    assert written
    assert deltajoin.run(model, spark, clock=clock + timedelta(minutes=89)).strategy == "noop"
    with pytest.raises(deltajoin.DeltaJoinError, match="CLOCK"):
        deltajoin.plan(replace(model, mode="incremental_strict"), clock=clock)


@pytest.mark.sampled
@pytest.mark.parametrize("name", list(REBUILT))
def test_a_clock_that_decides_otherwise_is_rebuilt(spark: Any, tmp_path: Path, name: str) -> None:
    sql = REBUILT[name]
    shop = open_shop(tmp_path)
    model = shop.model(sql=sql)
    for day, reason in enumerate(("FIRST_RUN", "CLOCK_MOVED", "changed")):
        clock = START + timedelta(days=day)
        if reason == "changed":
            load(shop, day)
            reason = "LIMIT"
        record = deltajoin.run(model, spark, clock=clock)
        assert (record.strategy, record.reason) == ("full", reason)
        assert record.clock == clock.isoformat()
        found = Counter(tuple(row) for row in deltajoin.read(model, spark).collect())
        assert found == rows_of(spark, shop, on_day(sql, clock))
    again = deltajoin.run(model, spark, clock=clock + timedelta(minutes=89))
    assert again.strategy == "noop"
    with pytest.raises(deltajoin.DeltaJoinError, match="LIMIT"):
        deltajoin.plan(replace(model, mode="incremental_strict"))
