"""What the session would have Spark read otherwise than we do is refused, never misread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

import deltajoin
from deltajoin import DeltaJoinError
from deltajoin.adapters.dbt.views import view_sql
from tests.spark.shop import SQL, as_rows, expected, open_shop

READ_OTHERWISE = {
    "spark.sql.ansi.doubleQuotedIdentifiers": SQL.replace("c.name", 'c."name" AS name'),
    "spark.sql.parser.escapedStringLiterals": SQL.replace("c.name", "c.name || '\\n' AS name"),
    "spark.sql.legacy.consecutiveStringLiterals.enabled": SQL.replace(
        "c.name", "c.name || 'it''s' AS name"
    ),
    "spark.sql.parser.quotedRegexColumnNames": SQL.replace("c.name", "c.`na.*`"),
}

#: Setting -> another value than Spark's default, and a text that it changes.
ASSEMBLED_OTHERWISE = {
    "spark.sql.groupByOrdinal": ("false", f"SELECT n.name FROM ({SQL}) AS n GROUP BY 1"),
    "spark.sql.legacy.setopsPrecedence.enabled": (
        "true",
        "SELECT customer_id FROM orders UNION ALL SELECT customer_id FROM customers INTERSECT "
        "SELECT order_id FROM orders",
    ),
    "spark.sql.legacy.ctePrecedencePolicy": (
        "LEGACY",
        "WITH a AS (SELECT order_id FROM orders) SELECT z.order_id FROM (WITH a AS "
        "(SELECT customer_id AS order_id FROM customers) SELECT order_id FROM a) z",
    ),
    "spark.sql.legacy.parser.havingWithoutGroupByAsWhere": (
        "true",
        "SELECT count(*) AS n FROM orders HAVING count(*) > 1",
    ),
    "spark.sql.legacy.scalarSubqueryCountBugBehavior": (
        "true",
        "SELECT customer_id, (SELECT count(*) FROM orders o WHERE o.customer_id = c.customer_id)"
        " AS n FROM customers c",
    ),
}

#: A name that only the session's reading knows may be refused as unknown before that.
CODES = ("SESSION_SYNTAX", "SQL_PARSE_ERROR", "UNKNOWN_COLUMN")


@pytest.mark.parametrize("setting", READ_OTHERWISE)
def test_a_text_that_the_session_reads_otherwise(spark: Any, tmp_path: Path, setting: str) -> None:
    shop = open_shop(tmp_path)
    session = spark.newSession()
    session.conf.set(setting, "true")
    for mode in ("auto", "incremental_strict"):
        model = shop.model(sql=READ_OTHERWISE[setting], mode=mode)
        with pytest.raises(deltajoin.DeltaJoinError) as caught:
            deltajoin.run(model, session)
        assert caught.value.code in CODES
        assert not DeltaTable.is_deltatable(shop.path("target"))


@pytest.mark.parametrize("setting", ASSEMBLED_OTHERWISE)
def test_a_text_whose_parts_the_session_puts_together_otherwise(
    spark: Any, tmp_path: Path, setting: str
) -> None:
    shop = open_shop(tmp_path)
    value, sql = ASSEMBLED_OTHERWISE[setting]
    session = spark.newSession()
    session.conf.set(setting, value)
    with pytest.raises(deltajoin.DeltaJoinError) as caught:
        deltajoin.run(shop.model(sql=sql), session)
    assert caught.value.code == "SESSION_SYNTAX"


def test_a_text_without_such_parts_runs(spark: Any, tmp_path: Path) -> None:
    """Our own statements quote names and texts in ways that these settings change."""
    shop = open_shop(tmp_path)
    session = spark.newSession()
    for setting in READ_OTHERWISE:
        session.conf.set(setting, "true")
    for setting, (value, _) in ASSEMBLED_OTHERWISE.items():
        session.conf.set(setting, value)
    model = shop.model()
    assert deltajoin.run(model, session).kind == "keyed"
    shop.append("orders", (100, 1, 5))
    assert deltajoin.run(model, session).strategy == "incremental"
    assert as_rows(deltajoin.read(model, spark).toArrow()) == expected(shop)


@pytest.mark.parametrize(
    ("key", "made", "now"),
    [
        ("spark.sql.session.timeZone", "Asia/Tokyo", "UTC"),
        ("spark.sql.ansi.enabled", "false", "true"),
        ("spark.sql.legacy.timeParserPolicy", "LEGACY", "CORRECTED"),
    ],
)
def test_a_view_made_under_other_settings_is_not_written_out(
    spark: Any, tmp_path: Path, key: str, made: str, now: str
) -> None:
    own = spark.newSession()
    own.conf.set("spark.sql.session.timeZone", "Etc/UTC")
    own.sql(f"CREATE TABLE moments (id INT, at TIMESTAMP) USING delta LOCATION '{tmp_path}/at'")
    try:
        own.conf.set(key, made)
        own.sql("CREATE VIEW days AS SELECT id, CAST(at AS DATE) AS day FROM moments")
        assert view_sql(own, ("default", "days")) is not None
        own.conf.set(key, now)
        with pytest.raises(DeltaJoinError, match=f"VIEW_SETTINGS.*{key} {made}"):
            view_sql(own, ("default", "days"))
        own.conf.set(key, made)
        own.sql("CREATE OR REPLACE VIEW days AS SELECT id FROM moments")
        if "timeZone" not in key:
            own.conf.set("spark.sql.session.timeZone", "UTC")
        assert view_sql(own, ("default", "days")) is not None
    finally:
        own.sql("DROP VIEW IF EXISTS days")
        own.sql("DROP TABLE moments")
