"""A query that our parser can't read, over pinned views: found by its tokens alone.

    FROM dw.orders o JOIN customers      ->   FROM `dw_orders_v3` o JOIN customers

A source of one name is a view of that very name in the run's own session, so that CTEs, aliases and
columns of the name mean what they meant. A dotted name stands for nothing but a table, or qualifies
a column: it is exchanged. Spark reads the result as a subquery, so that it can be nothing but one
query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlglot.tokenizer_core import Token, TokenType

from deltajoin.names import quote, split_dotted
from deltajoin.sql.dialect import edited, tokens_of

_BEGINS = frozenset({"select", "with", "from", "values", "table", "(", "map", "reduce"})
_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)


def may_be_a_query(sql: str) -> bool:
    """True for one statement that begins as a query does.

    Example:
        >>> may_be_a_query("SELECT a FROM t;"), may_be_a_query("DROP TABLE t")
        (True, False)
    """
    tokens = tokens_of(sql)
    ends = [i for i, token in enumerate(tokens) if token.token_type is TokenType.SEMICOLON]
    one = not ends or ends[0] >= len(tokens) - len(ends)
    return bool(tokens) and one and tokens[0].text.lower() in _BEGINS


def own_view(source: str) -> str | None:
    """The name that a source's view must have; None where the text is changed instead."""
    parts = split_dotted(source)
    return parts[0] if len(parts) == 1 else None


def names_in(sql: str) -> frozenset[str]:
    """All names in a text, in lower case: a view of the name of a CTE would stand for its rows."""
    return frozenset(token.text.lower() for token in tokens_of(sql) if token.token_type in _NAMES)


def over_views(sql: str, views: Mapping[str, str]) -> str:
    """The text as a subquery, dotted names of sources exchanged for their views.

    Example:
        >>> print(over_views("SELECT dw.t.a FROM dw.t", {"dw.t": "t_v1"}))
        SELECT * FROM (
        SELECT `t`.a FROM `t_v1` AS `t`
        <BLANKLINE>
        ) AS `query`
    """
    tokens = tokens_of(sql)
    end = next((t.start for t in tokens if t.token_type is TokenType.SEMICOLON), len(sql))
    places = {source: quote(view) for source, view in views.items()}
    # A comment that ends in a backslash goes on to the next line.
    return "\n".join(("SELECT * FROM (", redirected(sql[:end], places), "", ") AS `query`"))


def redirected(sql: str, places: Mapping[str, str]) -> str:
    """The text with something else in the place of each table of a dotted name.

    Example:
        >>> redirected("SELECT t.a FROM dw.t", {"dw.t": "(SELECT 1 AS a)"})
        'SELECT t.a FROM (SELECT 1 AS a) AS `t`'
    """
    tokens = tokens_of(sql)
    return edited(sql, (e for name, words in places.items() for e in _edits(tokens, name, words)))


def named_in(sql: str, names: Iterable[str]) -> list[str]:
    """Those dotted names that a text says somewhere.

    Example:
        >>> named_in("SELECT `DW`.t.a FROM dw.t, dw.u.v", ["dw.t", "dw.v", "t.a"])
        ['dw.t']
    """
    tokens = tokens_of(sql)
    return [name for name in names if any(_edits(tokens, name, ""))]


def _edits(tokens: Sequence[Token], source: str, place: str) -> Iterator[tuple[int, int, str]]:
    parts = [part.lower() for part in split_dotted(source)]
    size = 2 * len(parts) - 1
    for first in range(len(tokens) - size + 1 if len(parts) > 1 else 0):
        found = tokens[first : first + size]
        kinds = [token.token_type for token in tokens[first : first + size + 1]]
        before, after = tokens[first - 1].token_type if first else None, kinds[size:]
        dotted = all(kind is TokenType.DOT for kind in kinds[1:size:2])
        if [t.text.lower() for t in found[::2]] != parts or not dotted or before is TokenType.DOT:
            continue
        words = alias = quote(split_dotted(source)[-1])
        if after != [TokenType.DOT]:
            named = after and after[0] in (*_NAMES, TokenType.ALIAS)
            words = place if named else f"{place} AS {alias}"
        yield found[0].start, found[-1].end + 1, words
