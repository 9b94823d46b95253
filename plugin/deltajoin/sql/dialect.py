"""Spark SQL that comes out as it went in: text -> tree -> the same text, columns exchanged.

sqlglot knows many functions and rewrites them to a common form; a planner that promises equal rows
must not. `Verbatim` parses every function call except the few with a syntax of their own as an
anonymous call, so that its text survives. Spark's doubled quote inside a string is honoured.
Whatever makes another expression of one goes through `exchanged` or `with_columns`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from deltajoin.errors import DeltaJoinError
from deltajoin.sql.grammar import SparkGrammar, UnsignedShift, name_words
from deltajoin.sql.spans import SpanGenerator, SpanParser, Tokens, note_slots

_CORRECT = "Correct the SQL; where Spark reads it as it is, use a mode that rebuilds."
_SYNONYMS = {
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
}
#: A comment between two tokens; one of several within one another is read apart.
_COMMENT = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
#: Queries of which sqlglot makes something else.
_BARE = ("values", "table")
#: What may stand behind VALUES where it begins rows; else it is a name.
_ROWS = Spark.Parser.TYPE_TOKENS | {
    *(TokenType.L_PAREN, TokenType.NUMBER, TokenType.STRING, TokenType.HEX_STRING, TokenType.DASH),
    *(TokenType.TRUE, TokenType.FALSE, TokenType.VAR, TokenType.IDENTIFIER, TokenType.CASE),
    *(TokenType.CURRENT_DATE, TokenType.CURRENT_TIMESTAMP),
}
_OWN_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "POSITION", "OVERLAY")


class Verbatim(Spark):
    """Spark's dialect without sqlglot's function rewriting."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']

    class Parser(SpanParser, SparkGrammar, Spark.Parser):  # type: ignore[misc, valid-type]
        FUNCTIONS: ClassVar[dict] = {}  # type: ignore[type-arg]
        NO_PAREN_FUNCTIONS: ClassVar[dict] = {}  # type: ignore[type-arg]
        #: `any(x) + 1` is a call and a sum.
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict] = {  # type: ignore[type-arg]
            name: parse
            for name, parse in Spark.Parser.NO_PAREN_FUNCTION_PARSERS.items()
            if name != "ANY"
        }
        FUNCTION_PARSERS: ClassVar[dict] = {  # type: ignore[type-arg]
            name: parse
            for name, parse in Spark.Parser.FUNCTION_PARSERS.items()
            if name in _OWN_SYNTAX
        }
        FUNCTION_PARSERS["SUBSTR"] = FUNCTION_PARSERS["SUBSTRING"]
        TERM: ClassVar[dict] = {**Spark.Parser.TERM, TokenType.DPIPE: exp.DPipe}  # type: ignore[type-arg]

    class Generator(SpanGenerator, Spark.Generator):  # type: ignore[misc, valid-type]
        #: What has no transform of its own comes out clause by clause: QUALIFY, for one, stays.
        TRANSFORMS: ClassVar[dict] = {  # type: ignore[type-arg]
            kind: write
            for kind, write in Spark.Generator.TRANSFORMS.items()
            if kind not in (exp.Select, exp.With, exp.From, exp.Pivot)
        } | {UnsignedShift: lambda self, node: self.binary(node, ">>>")}
        #: A WITH stays where it stands: two may name different rows alike.
        EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar[set[type[exp.Expr]]] = set()


def parse(sql: str) -> exp.Query:
    """Parse exactly one query.

    Raises:
        DeltaJoinError: SQL_PARSE_ERROR with line and column, as `Unreadable` where the tokens are
            good; NOT_A_QUERY for anything but a query; SQLGLOT_COMPILED.
    """
    try:
        tokens = tokens_of(sql)
        statements = _statements(sql, tokens)
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        where = f"line {first.get('line')}, column {first.get('col')}" if first else None
        message = str(first.get("description") or "the SQL can't be parsed")
        raise Unreadable(message, where) from error
    except RecursionError as error:
        raise Unreadable("the SQL is nested too deeply", None) from error
    except TokenError as error:
        message = str(error).splitlines()[0]
        raise DeltaJoinError("SQL_PARSE_ERROR", message, remedy=_CORRECT) from error
    except TypeError as error:
        if "inherit from compiled" not in str(error):
            raise
        message = "the compiled build of sqlglot (sqlglotc) can't be given a dialect of its own"
        remedy = "Uninstall sqlglotc; sqlglot without it works."
        raise DeltaJoinError("SQLGLOT_COMPILED", message, remedy=remedy) from error
    words = (token.text for token in tokens if token.token_type is not TokenType.L_PAREN)
    if len(statements) == 1 and next(words, "").lower() in _BARE:
        raise Unreadable("a query without SELECT", "line 1")
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        message, remedy = "a model is exactly one SELECT", "Remove other statements."
        raise DeltaJoinError("NOT_A_QUERY", message, where="line 1", remedy=remedy)
    return _with_bare_columns(unwrapped(statements[0]))


def _with_bare_columns(query: exp.Query) -> exp.Query:
    """The query, columns of its SELECT lists without brackets: `(k)` has the name k."""
    for select in query.find_all(exp.Select):
        for value in [entry.unalias() for entry in select.expressions]:
            if isinstance(value, exp.Paren) and isinstance(value.unnest(), (exp.Column, exp.Dot)):
                value.replace(value.unnest())
    return query


@lru_cache(maxsize=16)
def tokens_of(sql: str) -> tuple[Token, ...]:
    """The tokens of a text, for all who read it; TokenError."""
    tokens = Verbatim().tokenize(sql)
    kinds = [*(token.token_type for token in tokens), None, None]
    for number, token in enumerate(tokens):
        after, then = kinds[number + 1 : number + 3]
        window = token.token_type is TokenType.WINDOW and then is not TokenType.ALIAS
        if window or (token.token_type is TokenType.VALUES and after not in _ROWS):
            token.token_type = TokenType.VAR  # a name: a clause goes on otherwise
    return tuple(tokens)


def _statements(sql: str, tokens: Sequence[Token]) -> list[exp.Expr]:
    """Parsed statements whose nodes know where they stand in the text."""
    if _continued(sql, tokens):
        raise Unreadable("a comment that ends in a backslash, so that it goes on,", None)
    for token in tokens:
        if token.token_type is TokenType.VAR and not token.text.isascii():
            where = f"line {token.line}, column {token.col}"
            raise Unreadable(f"'{token.text}' must stand in backticks", where)
    parsed = Verbatim().parser().parse(list(tokens), sql)
    found = [s for s in parsed if s is not None and not isinstance(s, exp.Semicolon)]
    if len(found) == 1:
        name_words(found[0])
        note_slots(found[0], sql, tokens)
    return found


def _continued(sql: str, tokens: Sequence[Token]) -> bool:
    """True where a backslash at the end of a comment's line takes it on to the next, in Spark."""
    if "\\\n" not in sql:
        return False
    ends = [0, *(token.end + 1 for token in tokens)]
    starts = [*(token.start for token in tokens), len(sql)]
    between = (sql[a:b] for a, b in zip(ends, starts, strict=True) if a < b)
    return any(one.endswith("\\") for gap in between for one in _COMMENT.findall(gap))


class Unreadable(DeltaJoinError):
    """A text of tokens that our parser can't make a query of; Spark's perhaps can."""

    def __init__(self, message: str, where: str | None) -> None:
        super().__init__("SQL_PARSE_ERROR", message, where=where, remedy=_CORRECT)


def is_readable(sql: str) -> bool:
    """False for a text of tokens that our parser can't make a query of."""
    try:
        parse(sql)
    except Unreadable:
        return False
    return True


def unwrapped(query: exp.Query) -> exp.Query:
    """A query without the brackets around it, where nothing but an order stands after them."""
    while isinstance(query, exp.Subquery) and isinstance(query.this, exp.Query):
        if clauses_of(query) - {"this", "alias", "order"}:
            break
        query = query.this
    return query


def clauses_of(node: exp.Expr) -> set[str]:
    """What a node says: the names of its parts that are there."""
    return {name for name, value in node.args.items() if value}


def parse_expression(sql: str) -> exp.Expr:
    """An expression over `relation`.`column`; what follows these two names are fields of a struct.

    Example:
        >>> found = parse_expression("`a`.`b`.`c` + `d`.`e`").find_all(exp.Column)
        >>> sorted((c.table, c.name) for c in found)
        [('a', 'b'), ('d', 'e')]
    """
    return parsed(sql).copy()


@lru_cache(maxsize=4096)
def parsed(sql: str) -> exp.Expr:
    """The same tree for all, which nobody may change: paths speak of the same few predicates."""
    (expression,) = _statements(sql, tokens_of(sql))
    return with_columns(expression, _fields_apart)


def _fields_apart(column: exp.Column) -> exp.Expr | None:
    if len(column.parts) <= 2:
        return None
    relation, name, *fields = (part.copy() for part in column.parts)
    return with_fields(exp.Column(this=name, table=relation), fields)


def with_fields(value: exp.Expr, fields: Iterable[exp.Expr]) -> exp.Expr:
    """A field of a struct, at any depth; the value itself without fields."""
    for field in fields:
        value = exp.Dot(this=value, expression=field)
    return value


def text(node: exp.Expr) -> str:
    """Spark SQL of a node on one line, every identifier in backticks."""
    return node.sql(dialect=Verbatim, identify=True, normalize_functions=False, comments=False)


def exchanged(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr | None]) -> exp.Expr:
    """A copy with other nodes in some places; where `change` gives None, the node stays and its
    parts are asked.

    Example:
        >>> sum_of = parse_expression("a.x + f(a.x)")
        >>> text(exchanged(sum_of, lambda e: exp.Null() if isinstance(e, exp.Column) else None))
        'NULL + f(NULL)'
    """
    return node.transform(lambda part: change(part) or part)


def with_columns(node: exp.Expr, value: Callable[[exp.Column], exp.Expr | None]) -> exp.Expr:
    """A copy with values in the places of columns; a column for which there is None stays."""
    return exchanged(node, lambda part: value(part) if isinstance(part, exp.Column) else None)


def closed(node: exp.Expr) -> exp.Expr:
    """A copy that binds as tightly as a name.

    Example:
        >>> text(closed(parse_expression("a.x::int"))), text(closed(parse_expression("f(a.x)")))
        ('(`a`.`x`::int)', 'f(`a`.`x`)')
    """
    plain = (exp.Column, exp.Dot, exp.Paren, exp.Literal, exp.Null, exp.Anonymous)
    call = isinstance(node, exp.Cast) and text(node)[:5].lower() == "cast("
    return node.copy() if call or isinstance(node, plain) else exp.Paren(this=node.copy())


def cast(node: exp.Expr, kind: str) -> exp.Cast:
    """An expression cast to a type, whose text stays as it is (sqlglot writes TIME another way).

    Example:
        >>> text(cast(exp.column("x", table="a"), "time(3)"))
        'CAST(`a`.`x` AS time(3))'
    """
    whole = parse_expression(f"CAST(NULL AS {kind})")
    assert isinstance(whole, exp.Cast)  # noqa: S101 - what was written
    whole.this.replace(node)
    return whole


def type_of_cast(node: exp.Cast) -> str:
    """The type that a cast gives, as it is written; empty where the parser may have taken the parts
    of `DATE '2026-01-03'::STRING` in another order than Spark.

    Example:
        >>> casts = ("a::Integer", "DATE '2026-01-03'", "TIME '1:2'", "CAST(a AS dec(5))")
        >>> [type_of_cast(parse_expression(written)) for written in casts]
        ['int', 'date', 'time', 'decimal(5,0)']
        >>> type_of_cast(parse_expression("DATE '2026-01-03'::STRING"))
        ''
    """
    kind = text(node.to).lower().replace(" ", "")
    whole = text(node).lower().replace(" ", "")
    function = whole.startswith(("cast(", "try_cast(")) or whole.endswith("::" + kind)
    literal = isinstance(node.this, exp.Literal) and whole.startswith(kind) and "::" not in whole
    return _own_name(kind) if function or literal else ""


def _own_name(kind: str) -> str:
    """Spark's own name of a type that has several."""
    name, _, size = kind.partition("(")
    name = _SYNONYMS.get(name, name)
    if name == "decimal":
        digits = size.rstrip(")") or "10"
        return f"decimal({digits if ',' in digits else digits + ',0'})"
    if name in ("varchar", "char", "character"):
        return "string"
    return f"{name}({size}" if size else name


@lru_cache(maxsize=4096)
def spelled(sql: str) -> str:
    """What two texts share that differ in white space, comments, and case of words alone; but that
    of an alias, of a name beside a struct, which may name a field, and of a path into a variant.

    Example:
        >>> spelled("Sum( `a`.`X`)  -- all") == spelled("sum(`a`.`X`)"), spelled("'It' = X AS Y")
        (True, "'It' = x as Y")
        >>> spelled("To_Json(Struct(X))"), spelled("CAST(a AS STRUCT<X: INT>)")
        ('to_json ( struct ( X ) )', 'cast ( a as struct < X : int > )')
    """
    try:
        tokens = tokens_of(sql)
    except TokenError:  # a name, not SQL
        return sql
    if _continued(sql, tokens):
        return sql
    kinds = [None, *(token.token_type for token in tokens), None]
    kept = {TokenType.ALIAS, TokenType.COLON}
    kept |= {TokenType.DOT} if TokenType.COLON in kinds else set()
    in_struct = TokenType.STRUCT in kinds or "arrays_zip" in sql.lower()
    named = {
        token.start
        for before, token, after in zip(kinds, tokens, kinds[2:], strict=False)
        if token.token_type is TokenType.VAR
        and (before in kept or (in_struct and after is not TokenType.L_PAREN))
    }
    words = ((start, sql[start:end]) for start, end in Tokens(sql, tokens).places)
    return " ".join(
        word if start in named or word[-1] in "'\"`" else word.lower() for start, word in words
    )


def place(node: exp.Expr) -> str | None:
    """`line N` of the first token known under a node, for error messages."""
    lines = [int(n.meta["line"]) for n in node.walk() if n.meta.get("line") is not None]
    return f"line {min(lines)}" if lines else None


def refused(code: str, message: str, node: exp.Expr, remedy: str) -> DeltaJoinError:
    """The error about a part of a query, with its line."""
    return DeltaJoinError(code, message, where=place(node), remedy=remedy)


def edited(sql: str, edits: Iterable[tuple[int, int, str]]) -> str:
    """A text with other words from one offset to another; an edit that is told twice counts once.

    Example:
        >>> edited("SELECT a FROM t", [(14, 15, "u"), (7, 8, "b"), (7, 8, "b")])
        'SELECT b FROM u'
    """
    for start, end, words in sorted(set(edits), reverse=True):
        sql = sql[:start] + words + sql[end:]
    return sql
