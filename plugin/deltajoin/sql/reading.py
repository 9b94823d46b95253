"""What in a text a session's settings could make Spark read otherwise than we do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from deltajoin.sql.dialect import parse, tokens_of
from deltajoin.sql.nodes import function_name

_IN_FROM = (exp.From, exp.Join, exp.Lateral)


def depends_on_session(sql: str) -> dict[str, str]:
    """Setting -> what the text has that depends on it.

    Example:
        >>> sorted(depends_on_session("SELECT 'a' FROM t"))
        []
        >>> list(depends_on_session("SELECT 'a' 'b' FROM t").values())
        ['string literals side by side']
    """
    found = (*_of_tokens(sql), *_of_structure(parse(sql)))
    return {f"spark.sql.{setting}": what for there, setting, what in found if there}


def _of_tokens(sql: str) -> Iterator[tuple[bool, str, str]]:
    tokens = tokens_of(sql)
    strings = [sql[t.start : t.end + 1] for t in tokens if t.token_type == TokenType.STRING]
    beside = any(a.token_type == b.token_type == TokenType.STRING for a, b in pairwise(tokens))
    double = any(text.startswith('"') for text in strings)
    escaped = any("\\" in text for text in strings)
    beside |= any("''" in text[1:-1] or '""' in text[1:-1] for text in strings)
    yield double, "ansi.doubleQuotedIdentifiers", "text in double quotes"
    yield escaped, "parser.escapedStringLiterals", "a backslash in a string"
    yield beside, "legacy.consecutiveStringLiterals.enabled", "string literals side by side"
    yield "`" in sql, "parser.quotedRegexColumnNames", "a name in backticks"


def _of_structure(query: exp.Query) -> Iterator[tuple[bool, str, str]]:
    """The same of settings by which the parts of a text belong together."""
    groups = query.find_all(exp.Group)
    ordinal = any(isinstance(key, exp.Literal) for group in groups for key in group.expressions)
    sets = query.find_all(exp.SetOperation)
    nested = any(isinstance(s.unnest(), exp.SetOperation) for n in sets for s in (n.left, n.right))
    nested &= query.find(exp.Intersect) is not None
    names = Counter(cte.alias.lower() for cte in query.find_all(exp.CTE))
    selects = query.find_all(exp.Select)
    having = any(s.args.get("having") and not s.args.get("group") for s in selects)
    values = (q for q in query.find_all(exp.Subquery) if not isinstance(q.parent, _IN_FROM))
    counted = any(function_name(node).startswith("count") for q in values for node in q.walk())
    comma = any(map(_joins_after_a_comma, query.find_all(exp.Select)))
    yield comma, "ansi.relationPrecedence", "a comma before JOIN"
    yield ordinal, "groupByOrdinal", "GROUP BY a number"
    yield nested, "legacy.setopsPrecedence.enabled", "INTERSECT beside another set operation"
    yield any(n > 1 for n in names.values()), "legacy.ctePrecedencePolicy", "two CTEs of one name"
    yield having, "legacy.parser.havingWithoutGroupByAsWhere", "HAVING without GROUP BY"
    yield counted, "legacy.scalarSubqueryCountBugBehavior", "a count in a subquery"


def _joins_after_a_comma(select: exp.Select) -> bool:
    """The parser has no other join for a comma than CROSS JOIN."""
    crossed = [join.args.get("kind") == "CROSS" for join in select.args.get("joins") or []]
    return True in crossed and not all(crossed[crossed.index(True) :])
