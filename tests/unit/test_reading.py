"""What in a text depends on how a session reads it, and which columns may hold -0.0."""

from __future__ import annotations

import pytest

from deltajoin.runtime.settings import PARSING, SETTINGS, STRUCTURE
from deltajoin.sql.reading import depends_on_session

QUOTES = "spark.sql.ansi.doubleQuotedIdentifiers"
ESCAPES = "spark.sql.parser.escapedStringLiterals"
BESIDE = "spark.sql.legacy.consecutiveStringLiterals.enabled"
NAMES = "spark.sql.parser.quotedRegexColumnNames"
ORDINAL = "spark.sql.groupByOrdinal"
SETS = "spark.sql.legacy.setopsPrecedence.enabled"
CTES = "spark.sql.legacy.ctePrecedencePolicy"
COUNTS = "spark.sql.legacy.scalarSubqueryCountBugBehavior"
HAVING = "spark.sql.legacy.parser.havingWithoutGroupByAsWhere"
NESTED = (
    "WITH a AS (SELECT 1 AS x FROM t) SELECT x FROM (WITH a AS (SELECT 2 AS x) SELECT x FROM a)"
)


@pytest.mark.parametrize(
    ("sql", "settings"),
    [
        ("SELECT 'a', 1 FROM t", []),
        ('SELECT "a" FROM t', [QUOTES]),
        ('SELECT \'"\' FROM t -- "a"', []),
        (r"SELECT '\n' FROM t", [ESCAPES]),
        ("SELECT 'a' 'b' FROM t", [BESIDE]),
        ("SELECT 'it''s' FROM t", [BESIDE]),
        ("SELECT '' FROM t", []),
        ("SELECT `a` FROM t", [NAMES]),
        (r"""SELECT "\"" "b", `c` FROM t""", [QUOTES, BESIDE, ESCAPES, NAMES]),
        ("SELECT a FROM t GROUP BY 1", [ORDINAL]),
        ("SELECT a FROM t GROUP BY a, b + 1 ORDER BY 1", []),
        ("SELECT a FROM t UNION ALL SELECT b FROM u INTERSECT SELECT c FROM v", [SETS]),
        ("SELECT a FROM t UNION ALL SELECT b FROM u EXCEPT SELECT c FROM v", []),
        ("SELECT a FROM t INTERSECT SELECT b FROM u", []),
        (NESTED, [CTES]),
        ("WITH a AS (SELECT 1 AS x FROM t), b AS (SELECT x FROM a) SELECT x FROM b", []),
        ("SELECT sum(a) AS s FROM t HAVING sum(a) > 1", [HAVING]),
        ("SELECT sum(a) AS s FROM t GROUP BY b HAVING sum(a) > 1", []),
        ("SELECT (SELECT count(*) FROM u WHERE u.k = t.k) AS n FROM t", [COUNTS]),
        ("SELECT (SELECT max(a) FROM u) AS n FROM t JOIN (SELECT count(*) AS m FROM v) w", []),
    ],
)
def test_settings_that_a_text_depends_on(sql: str, settings: list[str]) -> None:
    assert sorted(depends_on_session(sql)) == sorted(settings)


def test_every_such_setting_has_its_default_and_is_not_recorded() -> None:
    found = set(depends_on_session(r"""SELECT "\"" "b", `c` FROM t"""))
    assert found == set(PARSING)
    assert not found & set(SETTINGS)
    assert set(STRUCTURE) <= set(SETTINGS)
    assert len(SETTINGS) == len(set(SETTINGS))
