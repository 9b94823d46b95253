"""The comparisons of a join condition by which one relation's rows are found from other sides."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from deltajoin.graph import Predicate
from deltajoin.sql.dialect import parse_expression, text
from deltajoin.sql.predicates import relations_in

#: Equal, or one of both NULL: what NOT IN takes for a match.
NOT_IN = "not in"
_EQUALITIES: dict[type[exp.Expr], str] = {exp.EQ: "=", exp.NullSafeEQ: "<=>"}
_OTHERS: dict[type[exp.Expr], str] = {
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NEQ: "<>",
}
_COMPARISONS = {operator: kind for kind, operator in (_EQUALITIES | _OTHERS).items()}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


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
    node = _open(parse_expression(predicate.sql))
    if not equal and isinstance(node, exp.Between):
        ends = (exp.GTE, node.args["low"]), (exp.LTE, node.args["high"])
        parts = [text(kind(this=node.this.copy(), expression=end.copy())) for kind, end in ends]
        halves = (replace(predicate, sql=sql) for sql in parts)
        keys = [key for half in halves for key in join_keys(half, relation, others, equal=False)]
        return [replace(key, predicate=predicate) for key in keys]
    operator = (_EQUALITIES if equal else _OTHERS).get(type(node))
    if not equal and operator is None and (found := matched_by_not_in(node)):
        node, operator = found, NOT_IN
    if operator is None:
        return []
    sides = ((node.this, node.expression), (node.expression, node.this))
    for (mine, other), turned in zip(
        sides, (operator, _TURNED.get(operator, operator)), strict=True
    ):
        here, there = relations_in(mine), relations_in(other)
        if here == {relation} and there and there <= others:
            return [JoinKey(predicate, relation, text(mine), text(other), there, turned)]
    return []


def compared(mine: exp.Expr, operator: str, other: exp.Expr) -> exp.Expr:
    """The comparison that a key's operator stands for.

    Example:
        >>> text(compared(exp.column("x", table="a"), "<", exp.column("k")))
        '(`a`.`x`) < `k`'
    """
    closed = exp.Paren(this=mine)
    if operator == NOT_IN:
        return not_in_match(closed, other)
    return _COMPARISONS[operator](this=closed, expression=other)


def not_in_match(member: exp.Expr, value: exp.Expr) -> exp.Expr:
    """The condition of the anti join that NOT IN is; in the form that Spark knows it by.

    Example:
        >>> text(not_in_match(exp.column("x", table="a"), exp.column("y", table="b")))
        '(`a`.`x` = `b`.`y` OR (`a`.`x` = `b`.`y`) IS NULL)'
    """
    equal = exp.EQ(this=member.copy(), expression=value.copy())
    unknown = exp.Is(this=exp.Paren(this=equal.copy()), expression=exp.Null())
    return exp.Paren(this=exp.Or(this=equal, expression=unknown))


def matched_by_not_in(node: exp.Expr) -> exp.Expr | None:
    """The equality inside such a condition; None for any other."""
    node = _open(node)
    if not isinstance(node, exp.Or) or not isinstance(node.expression, exp.Is):
        return None
    equal, unknown = _open(node.this), node.expression
    same = _open(unknown.this) == equal and isinstance(unknown.expression, exp.Null)
    return equal if same and isinstance(equal, exp.EQ) else None


def _open(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node
