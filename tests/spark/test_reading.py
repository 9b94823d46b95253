"""What the session would have Spark read otherwise than we do is refused, never misread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

import deltajoin
from tests.spark.shop import SQL, as_rows, expected, open_shop

READ_OTHERWISE = {
    "spark.sql.ansi.doubleQuotedIdentifiers": SQL.replace("c.name", 'c."name" AS name'),
    "spark.sql.parser.escapedStringLiterals": SQL.replace("c.name", "c.name || '\\n' AS name"),
    "spark.sql.legacy.consecutiveStringLiterals.enabled": SQL.replace(
        "c.name", "c.name || 'it''s' AS name"
    ),
    "spark.sql.parser.quotedRegexColumnNames": SQL.replace("c.name", "c.`na.*`"),
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


def test_a_text_without_such_parts_runs(spark: Any, tmp_path: Path) -> None:
    """Our own statements quote names and texts in ways that these settings change."""
    shop = open_shop(tmp_path)
    session = spark.newSession()
    for setting in READ_OTHERWISE:
        session.conf.set(setting, "true")
    model = shop.model()
    assert deltajoin.run(model, session).kind == "keyed"
    shop.append("orders", (100, 1, 5))
    assert deltajoin.run(model, session).strategy == "incremental"
    assert as_rows(deltajoin.read(model, spark).toArrow()) == expected(shop)
