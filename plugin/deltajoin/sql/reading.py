"""What in a text a session's settings could make Spark read otherwise than we do."""

from __future__ import annotations

from itertools import pairwise

from sqlglot.tokenizer_core import TokenType

from deltajoin.sql.dialect import Verbatim


def depends_on_session(sql: str) -> dict[str, str]:
    """Setting -> what the text has that depends on it.

    Example:
        >>> sorted(depends_on_session("SELECT 'a' FROM t"))
        []
        >>> list(depends_on_session("SELECT 'a' 'b' FROM t").values())
        ['string literals side by side']
    """
    tokens = Verbatim().tokenize(sql)
    strings = [sql[t.start : t.end + 1] for t in tokens if t.token_type == TokenType.STRING]
    beside = any(a.token_type == b.token_type == TokenType.STRING for a, b in pairwise(tokens))
    found = {
        "spark.sql.ansi.doubleQuotedIdentifiers": (
            any(text.startswith('"') for text in strings),
            "text in double quotes",
        ),
        "spark.sql.parser.escapedStringLiterals": (
            any("\\" in text for text in strings),
            "a backslash in a string",
        ),
        "spark.sql.legacy.consecutiveStringLiterals.enabled": (
            beside or any("''" in text[1:-1] or '""' in text[1:-1] for text in strings),
            "string literals side by side",
        ),
        "spark.sql.parser.quotedRegexColumnNames": ("`" in sql, "a name in backticks"),
    }
    return {setting: what for setting, (there, what) in found.items() if there}
