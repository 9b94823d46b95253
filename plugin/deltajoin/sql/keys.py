"""The comparisons of a join condition by which one relation's rows are found from other sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from deltajoin.graph import Predicate
from deltajoin.sql.dialect import parsed, text
from deltajoin.sql.nodes import is_null
from deltajoin.sql.predicates import relations_in

#: Equal, or one of both NULL: what NOT IN takes for a match.
NOT_IN = "not in"
_EQUALITIES: dict[type[exp.Expr], str] = {exp.EQ: "=", exp.NullSafeEQ: "<=>"}
_ORDERS: dict[type[exp.Expr], str] = {exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_UNLIKE: dict[type[exp.Expr], str] = {exp.NEQ: "<>"}
_COMPARISONS = {operator: kind for kind, operator in (_EQUALITIES | _ORDERS | _UNLIKE).items()}
#: What a comparison is with its sides exchanged.
TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


Comparison = tuple[exp.Expr, str, exp.Expr]


@dataclass(frozen=True)
class JoinKey:
    """`mine` (an expression of `relation` alone) stands in a comparison before `other`.

    `operator` is = or <=>; where these are not asked for alone also <, <=, >, >=, <> and NOT_IN.
    """

    predicate: Predicate
    relation: str
    mine: str
    other: str
    other_relations: frozenset[str]
    operator: str


def join_keys(
    predicate: Predicate, relation: str, others: frozenset[str], *, equal: bool = True
) -> list[JoinKey]:
    """The key that a conjunct gives: one side is of `relation`, the other of `others`; else none.

    Args:
        equal: equalities, or the other comparisons.

    Example:
        >>> p = Predicate("`a`.`x` = upper(`b`.`y`)", "residual", (("a", "x"), ("b", "y")))
        >>> [(k.mine, k.other) for k in join_keys(p, "a", frozenset("b"))]
        [('`a`.`x`', 'upper(`b`.`y`)')]
        >>> p = Predicate("`a`.`x` < `b`.`y`", "residual", (("a", "x"), ("b", "y")))
        >>> [(k.mine, k.operator) for k in join_keys(p, "b", frozenset("a"), equal=False)]
        [('`b`.`y`', '>')]
    """
    node = parsed(predicate.sql).unnest()
    if equal:
        parts = _sides(node, _EQUALITIES)
    else:
        parts = comparisons(node) or _sides(node, _UNLIKE)
        if match := matched_by_not_in(node):
            parts = [(match.this, NOT_IN, match.expression)]
    keys = []
    for one, how, two in parts:
        for mine, other, operator in ((one, two, how), (two, one, TURNED.get(how, how))):
            here, there = relations_in(mine), relations_in(other)
            if here == {relation} and there and there <= others:
                key = JoinKey(predicate, relation, text(mine), text(other), there, operator)
                keys.append(key)
                break
    return keys


def _sides(node: exp.Expr, operators: Mapping[type[exp.Expr], str]) -> list[Comparison]:
    operator = operators.get(type(node))
    return [(node.this, operator, node.expression)] if operator else []


def beside_null(node: exp.Expr) -> list[tuple[exp.Expr, exp.Expr]]:
    """Of `rest OR x IS NULL`, either way round: the rest and x; both ways where both are IS NULL.

    Example:
        >>> [(text(a), text(b)) for a, b in beside_null(parsed("a.x < b.y OR b.y IS NULL"))]
        [('`a`.`x` < `b`.`y`', '`b`.`y`')]
    """
    if not isinstance(node, exp.Or):
        return []
    sides = node.this.unnest(), node.expression.unnest()
    return [
        (rest, null.this)
        for rest, null in (sides, sides[::-1])
        if isinstance(null, exp.Is) and isinstance(null.expression, exp.Null)
    ]


def comparisons(node: exp.Expr) -> list[Comparison]:
    """The comparisons of order that a conjunct is: one, or the two of BETWEEN; else none.

    Example:
        >>> parts = comparisons(parsed("(a.x BETWEEN b.y AND b.z)"))
        >>> [(text(one), operator, text(two)) for one, operator, two in parts]
        [('`a`.`x`', '>=', '`b`.`y`'), ('`a`.`x`', '<=', '`b`.`z`')]
    """
    node = node.unnest()
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        return [(node.this, ">=", node.args["low"]), (node.this, "<=", node.args["high"])]
    return _sides(node, _ORDERS)


def compared(mine: exp.Expr, operator: str, other: exp.Expr) -> exp.Expr:
    """The comparison that a key's operator stands for.

    Example:
        >>> text(compared(exp.column("x", table="a"), "<", exp.column("k")))
        '(`a`.`x`) < `k`'
    """
    mine = exp.Paren(this=mine)
    if operator == NOT_IN:
        return not_in_match(mine, other)
    return _COMPARISONS[operator](this=mine, expression=other)


def not_in_match(member: exp.Expr, value: exp.Expr) -> exp.Expr:
    """The condition of the anti join that NOT IN is; in the form that Spark knows it by.

    Example:
        >>> text(not_in_match(exp.column("x", table="a"), exp.column("y", table="b")))
        '(`a`.`x` = `b`.`y` OR (`a`.`x` = `b`.`y`) IS NULL)'
    """
    equal = exp.EQ(this=member.copy(), expression=value.copy())
    unknown = is_null(exp.Paren(this=equal.copy()))
    return exp.Paren(this=exp.Or(this=equal, expression=unknown))


def matched_by_not_in(node: exp.Expr) -> exp.Expr | None:
    """The equality inside such a condition; None for any other."""
    node = node.unnest()
    if not isinstance(node, exp.Or) or not isinstance(node.expression, exp.Is):
        return None
    equal, unknown = node.this.unnest(), node.expression
    same = unknown.this.unnest() == equal and isinstance(unknown.expression, exp.Null)
    return equal if same and isinstance(equal, exp.EQ) else None
