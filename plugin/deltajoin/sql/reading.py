"""What in a text a session's settings could make Spark read otherwise than we do."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from deltajoin.sql.dialect import Verbatim, parse


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
        **_of_structure(parse(sql)),
    }
    return {setting: what for setting, (there, what) in found.items() if there}


def _of_structure(query: exp.Query) -> dict[str, tuple[bool, str]]:
    """The same of settings by which the parts of a text belong together."""
    names = Counter(cte.alias.lower() for cte in query.find_all(exp.CTE))
    groups = list(query.find_all(exp.Group))
    sides = [side for node in query.find_all(exp.SetOperation) for side in (node.left, node.right)]
    selects = query.find_all(exp.Select)
    return {
        "spark.sql.groupByOrdinal": (
            any(isinstance(key, exp.Literal) for group in groups for key in group.expressions),
            "GROUP BY a number",
        ),
        "spark.sql.legacy.setopsPrecedence.enabled": (
            query.find(exp.Intersect) is not None
            and any(isinstance(side.unnest(), exp.SetOperation) for side in sides),
            "INTERSECT beside another set operation",
        ),
        "spark.sql.legacy.ctePrecedencePolicy": (
            any(number > 1 for number in names.values()),
            "two CTEs of one name",
        ),
        "spark.sql.legacy.parser.havingWithoutGroupByAsWhere": (
            any(s.args.get("having") and not s.args.get("group") for s in selects),
            "HAVING without GROUP BY",
        ),
    }
