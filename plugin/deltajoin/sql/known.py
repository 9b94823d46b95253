"""Only what is understood is analysed: an unknown clause makes a query opaque, never disappears.

Two checks on a parse, each sharp where the other is blind:
- what a node of a query says beside what is known of its kind (SORT BY, a window's
  EXCLUDE) is found by name;
- every name, number and string of the text must still be there when the parse is written again by
  sqlglot: a parser that drops or exchanges a part of an expression is found by what is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import Token, TokenType

from deltajoin.sql.dialect import Verbatim, tokens_of
from deltajoin.sql.refuse import Unsupported
from deltajoin.sql.tables import is_pinned, real_tables

_QUERY = "with_ joins where group having qualify windows order limit offset laterals pivots"
_SAID: dict[type[exp.Expr], str] = {
    exp.Select: f"{_QUERY} expressions hint distinct from_",
    exp.Subquery: f"{_QUERY} this alias",
    **dict.fromkeys(
        (exp.Union, exp.Except, exp.Intersect), f"{_QUERY} this expression distinct by_name"
    ),
    exp.Table: "this alias db catalog joins pivots version sample",
    exp.Pivot: "expressions fields unpivot include_nulls alias columns pivot_column_naming",
    exp.PivotAlias: "this alias",
    exp.Join: "this on side kind using method",
    exp.CTE: "this alias",
    exp.With: "expressions",
    exp.TableAlias: "this columns",
    **dict.fromkeys((exp.From, exp.Where, exp.Having, exp.Qualify, exp.Exists), "this"),
    exp.Lateral: "this view outer alias",
    exp.Group: "expressions grouping_sets cube rollup all",
    exp.Order: "expressions",
    exp.Ordered: "this desc nulls_first",
    exp.Window: "this partition_by order spec alias over",
    exp.WindowSpec: "kind start start_side end end_side",
    exp.Star: "except_ replace",
    exp.Distinct: "expressions on",
    exp.Values: "expressions alias",
    exp.In: "this expressions query",
}
_KNOWN = {kind: frozenset(names.split()) for kind, names in _SAID.items()}
_VALUES = (TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER)
_COMPARISONS = (
    exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.Like, exp.Between,
)  # fmt: skip
_TESTS = (
    exp.Is, exp.In, exp.Between, exp.Like, exp.ILike, exp.RegexpLike, exp.Not, exp.Escape,
)  # fmt: skip
#: Where the parser knows rows of literals; elsewhere it is a column that has the name.
_OF_ROWS = (exp.From, exp.Join, exp.Subquery, exp.CTE, exp.Lateral, exp.SetOperation)
#: Functions with a syntax of their own, which the parser calls otherwise, and a word in it.
_RENAMED = frozenset({"substr", "position", "trim"})
_SIDES = frozenset({"leading", "trailing", "both"})
#: What rows are called in our statements, where a parameter of the name would stand before them.
_OURS = frozenset({"input", "stream"})
_ENDS = (TokenType.COMMA, TokenType.R_PAREN)
#: Words of what is meant without them, too.
_DEFAULTS = frozenset({"nulls", "first", "last"})
_REMEDY = "It is rebuilt as it is written; to keep it incrementally, write it another way."


class _Common(Verbatim):
    """The same parser, and sqlglot's own writer: what it writes is what it has understood."""

    class Generator(Spark.Generator):  # type: ignore[misc, valid-type]
        TRANSFORMS = Verbatim.Generator.TRANSFORMS


def check_known(query: exp.Query, sql: str) -> None:
    """Stop at a part of a query that nothing here understands.

    Raises:
        Unsupported: UNKNOWN_CLAUSE, PIPE, TIME_TRAVEL.
    """
    tokens = tokens_of(sql)
    if any(token.token_type is TokenType.PIPE_GT for token in tokens):
        raise Unsupported("PIPE", "pipe syntax", query, _REMEDY)
    for table in filter(is_pinned, real_tables(query)):
        raise Unsupported("TIME_TRAVEL", "a table at a version of its own", table, _REMEDY)
    for node in query.walk():
        if type(node) not in _KNOWN:
            continue
        for name, value in node.args.items():
            if value and name not in _KNOWN[type(node)]:
                raise _unknown(f"{name.strip('_').upper()} of {type(node).__name__.upper()}", node)
    _check_operands(query)
    _check_columns(query)
    _check_distinct(tokens)
    _check_complete(query, tokens)


def _check_operands(query: exp.Query) -> None:
    """Stop at comparisons that Spark puts together otherwise than the parser."""
    for node in query.find_all(*_COMPARISONS):
        # `a = b IS NULL` is `(a = b) IS NULL` to Spark, and `a = (b IS NULL)` to the parser.
        if inner := next((e for e in node.iter_expressions() if isinstance(e, _TESTS)), None):
            raise _unknown("a comparison of a test without brackets", inner)
        # `a = b <= c` is `(a = b) <= c` to Spark, and `a = (b <= c)` to the parser.
        if isinstance(node.expression, _COMPARISONS):
            raise _unknown("a comparison of a comparison without brackets", node)


def _check_columns(query: exp.Query) -> None:
    """Stop at columns whose names the parser takes for something else."""
    for rows in query.find_all(exp.Values):
        if not isinstance(rows.parent, _OF_ROWS):
            raise _unknown("a column named values", rows)
    for parameter in (p for each in query.find_all(exp.Lambda) for p in each.expressions):
        if parameter.name.lower() in _OURS:
            raise _unknown(f"a parameter named {parameter.name}", parameter)
    for interval in query.find_all(exp.Interval):
        if not interval.args.get("unit") and not any(map(str.isalpha, interval.name)):
            raise _unknown("a column named interval", interval)
    for fetch in query.find_all(exp.Fetch):
        if fetch.arg_key != "limit":
            raise _unknown("a column named fetch", fetch)


def _check_distinct(tokens: Sequence[Token]) -> None:
    for token, after in pairwise(tokens):
        if token.token_type is TokenType.DISTINCT and after.token_type in _ENDS:
            where = exp.to_identifier(token.text).update_positions(token)
            raise _unknown("a column named distinct", where)


def _unknown(what: str, node: exp.Expr) -> Unsupported:
    return Unsupported("UNKNOWN_CLAUSE", what, node, _REMEDY)


def _check_complete(query: exp.Query, tokens: Sequence[Token]) -> None:
    written = query.sql(dialect=_Common, normalize_functions=False, comments=False)
    there = Counter(token.text.lower() for token in tokens_of(written))
    wanted = Counter(_words(tokens))
    missing = [word for word, n in wanted.items() if there[word] < n and word not in _DEFAULTS]
    if missing:
        token = next((t for t in tokens if t.text.lower() == missing[0]), tokens[0])
        where = exp.to_identifier(missing[0]).update_positions(token)
        raise _unknown(f"an expression of which '{missing[0]}' is not understood", where)


def _words(tokens: Sequence[Token]) -> Iterator[str]:
    """The names, numbers and strings of a text; of INTERVAL '30 days', the parser's two."""
    kinds = [None, *(token.token_type for token in tokens), None]
    for token, before, kind, after in zip(tokens, kinds, kinds[1:], kinds[2:], strict=False):
        word = token.text.lower()
        renamed = after is TokenType.L_PAREN and word in _RENAMED
        side = before is TokenType.L_PAREN and word in _SIDES
        column = kind is TokenType.ALL and after in _ENDS and before is not TokenType.GROUP_BY
        if (kind not in _VALUES and not column) or renamed or side:
            continue
        interval = before is TokenType.INTERVAL and kind is TokenType.STRING
        parts = word.split() if interval else []
        word = f"0.{word}" if before is TokenType.DOT and kind is TokenType.NUMBER else word
        yield parts[0] if len(parts) == 2 and parts[1].isalpha() else word
