"""Where Spark's grammar differs from that of sqlglot's parser, and words that it takes for columns.

    a | b ^ c & d << e + f || g     binds from right to left, weakest first; `>>>` is one operator
    array(t.x)[0]                   a call and its element, no constructor
    struct(date, price)             a call, no type with parts
    substr(x FROM 2 FOR 3)          as `substring`
    v:a.b[0]::int                   a path into a variant
    SELECT a, FROM t                Spark refuses it, and so must we
    date_diff(DAY, a, b)            a unit where a function has its first argument
    STRING COLLATE UTF8_LCASE       the collation of a type
    X -> upper(x)                   a parameter in any case

Caller: mixes `SparkGrammar` into a dialect's parser before sqlglot's own, and calls `name_words`
after each parse, so that nothing that is parsed again ever binds such a word as a column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

#: What may begin an element of GROUP BY that is no expression.
_GROUPS = (TokenType.CUBE, TokenType.ROLLUP, TokenType.GROUPING_SETS)
#: Operators of bits, the weakest first; shifts bind before them.
_BITWISE = (
    (TokenType.PIPE, exp.BitwiseOr),
    (TokenType.CARET, exp.BitwiseXor),
    (TokenType.AMP, exp.BitwiseAnd),
)
#: Functions that a unit may begin, with two more arguments; and all units.
_OF_UNITS = frozenset(
    "date_add dateadd date_diff datediff timestampadd timestampdiff timediff".split()
)
_UNITS = frozenset(
    "year quarter month week day dayofyear hour minute second millisecond microsecond".split()
)


class UnsignedShift(exp.Expression, exp.Binary):
    """`a >>> b`: zeros come in from the left."""


class SparkGrammar:
    """The rules of a parser that are Spark's own."""

    COLON_IS_VARIANT_EXTRACT: ClassVar[bool] = True
    WINDOW_EXCLUDE_OPTIONS: ClassVar[dict[str, Any]] = {}
    ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {}

    def _parse_bitwise(self: Any, level: int = 0) -> Any:
        if level == len(_BITWISE):
            return self._parse_shift()
        token, kind = _BITWISE[level]
        this = self._parse_bitwise(level + 1)
        while self._match(token):
            this = self.expression(kind(this=this, expression=self._parse_bitwise(level + 1)))
        return this

    def _parse_shift(self: Any) -> Any:
        this = self._parse_term()
        while True:
            if self._match_pair(TokenType.LT, TokenType.LT):
                kind: type[exp.Binary] = exp.BitwiseLeftShift
            elif self._match_pair(TokenType.GT, TokenType.GT):
                kind = UnsignedShift if self._match(TokenType.GT) else exp.BitwiseRightShift
            else:
                return this
            this = self.expression(kind(this=this, expression=self._parse_term()))

    def _parse_csv(
        self: Any, parse_method: Callable[[], Any], sep: TokenType = TokenType.COMMA
    ) -> list[Any]:
        found = [parse_method()]
        while self._match(sep):
            found.append(parse_method())
            if found[-1] is None and not self._match_set(_GROUPS, advance=False):
                self.raise_error("Nothing stands after a comma")
        return [item for item in found if item is not None]

    def _parse_join(self: Any, *args: Any, **more: Any) -> Any:
        comma = self._match(TokenType.COMMA, advance=False)
        join = super()._parse_join(*args, **more)  # type: ignore[misc]
        if comma and join is None:
            self.raise_error("Nothing stands after a comma")
        return join

    def _parse_table(self: Any, *args: Any, **more: Any) -> Any:
        named = self._next and self._next.token_type in (TokenType.VAR, TokenType.IDENTIFIER)
        if self._match_text_seq("TABLE", advance=False) and named:
            self.raise_error("TABLE before a name is a query")
        return super()._parse_table(*args, **more)  # type: ignore[misc]

    def _parse_types(self: Any, *args: Any, **more: Any) -> Any:
        nested = self._curr and self._curr.token_type in self.NESTED_TYPE_TOKENS
        if nested and self._next and self._next.token_type is TokenType.L_PAREN:
            return None  # a call: `array(date, price)`
        return super()._parse_types(*args, **more)  # type: ignore[misc]

    def _replace_lambda(self: Any, node: Any, expressions: list[Any]) -> Any:
        """The body with its parameters as bare names, which columns are not: `X -> upper(x)`."""
        names = {parameter.name.lower(): parameter.name for parameter in expressions}
        for part in [*node.find_all(exp.Column)] if node else ():
            first = part.parts[0]
            first.set("this", names.get(first.name.lower(), first.name))
        return super()._replace_lambda(node, expressions)  # type: ignore[misc]

    def _parse_locks(self) -> list[exp.Expr]:
        return []


def name_words(tree: exp.Expr) -> None:
    """Turn units of calls with three arguments, and collations, from columns into keywords."""
    words = [kind.args.get("collate") for kind in tree.find_all(exp.DataType)]
    for call in tree.find_all(exp.Anonymous):
        if str(call.this).lower() in _OF_UNITS and len(call.expressions) == 3:
            unit = call.expressions[0]
            words += [unit] if is_word(unit) and unit.name.lower() in _UNITS else []
    for word in words:
        if isinstance(word, exp.Column):
            word.replace(exp.Var(this=word.name))


def is_word(node: exp.Expr) -> bool:
    """True for a column's name alone, without backticks."""
    alone = isinstance(node, exp.Column) and len(node.parts) == 1
    return alone and not node.this.args.get("quoted")
