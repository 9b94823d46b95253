"""What in a text a session's settings could make Spark read otherwise than we do."""

from __future__ import annotations

from itertools import pairwise

from sqlglot.tokenizer_core import TokenType

from deltajoin.sql.dialect import tokens_of


def depends_on_session(sql: str) -> dict[str, str]:
    """Setting -> what the text has that depends on it.

    Example:
        >>> sorted(depends_on_session("SELECT 'a' FROM t"))
        []
        >>> list(depends_on_session("SELECT 'a' 'b' FROM t").values())
        ['string literals side by side']
    """
    tokens = tokens_of(sql)
    strings = [sql[t.start : t.end + 1] for t in tokens if t.token_type == TokenType.STRING]
    beside = any(a.token_type == b.token_type == TokenType.STRING for a, b in pairwise(tokens))
    double = any(text.startswith('"') for text in strings)
    escaped = any("\\" in text for text in strings)
    beside |= any("''" in text[1:-1] or '""' in text[1:-1] for text in strings)
    found = (
        (double, "ansi.doubleQuotedIdentifiers", "text in double quotes"),
        (escaped, "parser.escapedStringLiterals", "a backslash in a string"),
        (beside, "legacy.consecutiveStringLiterals.enabled", "string literals side by side"),
        ("`" in sql, "parser.quotedRegexColumnNames", "a name in backticks"),
    )
    return {f"spark.sql.{setting}": what for there, setting, what in found if there}
