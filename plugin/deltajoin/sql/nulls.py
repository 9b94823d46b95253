"""Which predicates turn rows away that an outer join filled with NULL.

A predicate rejects NULLs of some relations when it can't be TRUE while every column of them is
NULL. The test runs the predicate over sets of outcomes: each node gives the outcomes that it may
have, out of TRUE, FALSE and NULL (a value that is no boolean counts as TRUE or FALSE when present).

    `b`.`x` = `a`.`x`            b all NULL: {NULL}                rejects
    coalesce(`b`.`x`, 0) = 0     b all NULL: {TRUE, FALSE}         does not
    `b`.`x` = 1 OR `a`.`y` = 2   b all NULL: {TRUE, FALSE, NULL}   does not

Operators and functions outside the whitelists may give anything, so an unknown one never rejects.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from deltajoin.sql.dialect import parsed, with_columns

Outcomes = frozenset[str]

_TRUE, _FALSE, _NULL = frozenset({"true"}), frozenset({"false"}), frozenset({"null"})
_PRESENT: Outcomes = _TRUE | _FALSE
_ANY: Outcomes = _PRESENT | _NULL

#: NULL whenever an operand is.
_STRICT = (
    exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Like, exp.ILike, exp.RegexpLike,
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.DPipe,
    exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot, exp.Cast, exp.TryCast,
    exp.Dot, exp.Bracket, exp.Extract, exp.Escape, exp.Trim, exp.Substring,
)  # fmt: skip
_STRICT_FUNCTIONS = frozenset(
    """
    abs acos ascii asin atan bin bit_length cbrt ceil ceiling char_length character_length cos
    date_add date_diff date_format date_sub date_trunc dateadd datediff day dayofmonth dayofweek
    dayofyear degrees exp floor hex hour initcap instr last_day lcase left len length ln log10
    lower ltrim md5 minute mod month negative pmod pow power quarter radians repeat replace
    reverse right round rtrim second sha1 sign sin sqrt substr substring tan to_date trim trunc
    ucase unhex upper weekday weekofyear year
    """.split()
)
_FIRST_PRESENT = frozenset({"coalesce", "ifnull", "nvl"})


def rejects_nulls(sql: str | exp.Expr, relations: frozenset[str]) -> bool:
    """True only if the predicate can't be TRUE when every column of the relations is NULL.

    >>> rejects_nulls("`a`.`x` < `b`.`x`", frozenset({"b"}))
    True
    >>> rejects_nulls("`b`.`x` IS NULL", frozenset({"b"}))
    False
    """
    node = parsed(sql) if isinstance(sql, str) else sql
    return "true" not in _outcomes(node, relations)


def is_null_without(node: exp.Expr, relations: frozenset[str]) -> bool:
    """True only if the expression is NULL when every column of the relations is NULL."""
    return _outcomes(node, relations) == _NULL


def is_never_null(node: exp.Expr, facts: Iterable[exp.Expr]) -> bool:
    """True only if a value can't be NULL in rows for which all facts are TRUE.

    >>> x = parsed("`a`.`x`")
    >>> is_never_null(x, [parsed("`a`.`x` > 1")]), is_never_null(x, [parsed("`a`.`y` > 1")])
    (True, False)
    """
    node = node.unnest()
    if not isinstance(node, exp.Column):
        return isinstance(node, exp.Literal)
    column = (node.table, node.name)

    def null(other: exp.Column) -> exp.Expr | None:
        return exp.Null() if (other.table, other.name) == column else None

    return any(rejects_nulls(with_columns(fact, null), frozenset()) for fact in facts)


def _outcomes(node: exp.Expr, nulls: frozenset[str]) -> Outcomes:  # noqa: C901 - one case a kind
    def of(part: exp.Expr | None) -> Outcomes:
        return _NULL if part is None else _outcomes(part, nulls)

    match node:
        case exp.Column():
            return _NULL if node.table in nulls else _ANY
        case exp.Paren() | exp.Alias():
            return of(node.this)
        case exp.Null():
            return _NULL
        case exp.Boolean():
            return _TRUE if node.this else _FALSE
        case exp.Literal():
            return _PRESENT
        case exp.And():
            return _and(of(node.this), of(node.expression))
        case exp.Or():
            return _not(_and(_not(of(node.this)), _not(of(node.expression))))
        case exp.Not():
            return _not(of(node.this))
        case exp.Is(expression=exp.Null()):
            return _is(of(node.this), _NULL)
        case exp.Is(expression=exp.Boolean()):
            return _is(of(node.this), of(node.expression))
        case exp.Is():
            return _PRESENT
        case exp.NullSafeEQ():
            return _same(of(node.this), of(node.expression))
        case exp.NullSafeNEQ():
            return _not(_same(of(node.this), of(node.expression)))
        case exp.Between():
            low, high = of(node.args["low"]), of(node.args["high"])
            return _and(_strict((of(node.this), low)), _strict((of(node.this), high)))
        case exp.In():
            return _in(node, nulls)
        case exp.EQ() | exp.NEQ() if (
            same := _same_literal(node.this, node.expression)
        ) is not None:
            return _TRUE if same == isinstance(node, exp.EQ) else _FALSE
        case exp.Case():
            return _case(node, nulls)
        case exp.Anonymous():
            return _function(node.name.lower(), tuple(of(part) for part in node.expressions))
        case _ if isinstance(node, _STRICT):
            operands = (part for part in node.iter_expressions() if not _is_name(part))
            return _strict(tuple(of(part) for part in operands))
        case _:
            return _ANY


def _same_literal(one: exp.Expr, other: exp.Expr) -> bool | None:
    """Whether two texts, or two integers, that are written out are the same; None for all else."""
    left, right = _literal(one.unnest()), _literal(other.unnest())
    return left == right if left is not None and type(left) is type(right) else None


def _literal(node: exp.Expr) -> str | int | None:
    """What is written, where nothing else means the same: no escapes, no fractions."""
    if not isinstance(node, exp.Literal) or "\\" in node.name:
        return None
    if node.is_string:
        return node.name
    return int(node.name) if node.is_int else None


def _is_name(node: exp.Expr) -> bool:
    """True for a part of an operator that is no value: a type, a field, a unit."""
    return isinstance(node, (exp.DataType, exp.Identifier, exp.Var))


def _strict(operands: tuple[Outcomes, ...]) -> Outcomes:
    return _NULL if _NULL in operands else _ANY


def _and(one: Outcomes, other: Outcomes) -> Outcomes:
    nulls = _NULL if one | other >= _NULL and _FALSE not in (one, other) else frozenset()
    return (one & other & _TRUE) | ((one | other) & _FALSE) | nulls


def _not(outcomes: Outcomes) -> Outcomes:
    turned = {"true": "false", "false": "true", "null": "null"}
    return frozenset(turned[outcome] for outcome in outcomes)


def _is(tested: Outcomes, wanted: Outcomes) -> Outcomes:
    found = _TRUE if tested & wanted else frozenset()
    return found | (_FALSE if tested - wanted else frozenset())


def _same(one: Outcomes, other: Outcomes) -> Outcomes:
    if one == _NULL:
        return _is(other, _NULL)
    return _is(one, _NULL) if other == _NULL else _PRESENT


def _in(node: exp.In, nulls: frozenset[str]) -> Outcomes:
    values = node.expressions
    if not values:
        return _ANY
    if _outcomes(node.this, nulls) == _NULL:
        return _NULL
    same = {_same_literal(node.this, value) for value in values}
    if True in same:
        return _TRUE
    if same == {False}:
        return _FALSE
    return _NULL if all(_outcomes(value, nulls) == _NULL for value in values) else _ANY


def _case(node: exp.Case, nulls: frozenset[str]) -> Outcomes:
    found: Outcomes = frozenset()
    for branch in node.args["ifs"]:
        condition = _ANY if node.this is not None else _outcomes(branch.this, nulls)
        if "true" in condition:
            found |= _outcomes(branch.args["true"], nulls)
        if condition == _TRUE:
            return found
    default = node.args.get("default")
    return found | (_NULL if default is None else _outcomes(default, nulls))


def _function(name: str, arguments: tuple[Outcomes, ...]) -> Outcomes:
    if name in _FIRST_PRESENT and arguments:
        found: Outcomes = frozenset()
        for outcomes in arguments:
            found |= outcomes - _NULL
            if "null" not in outcomes:
                return found
        return found | _NULL
    if name in ("isnull", "isnotnull") and len(arguments) == 1:
        is_null = _is(arguments[0], _NULL)
        return is_null if name == "isnull" else _not(is_null)
    if name == "equal_null" and len(arguments) == 2:
        return _same(*arguments)
    if name == "nullif" and arguments and arguments[0] == _NULL:
        return _NULL
    return _strict(arguments) if name in _STRICT_FUNCTIONS else _ANY
