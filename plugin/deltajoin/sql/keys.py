"""The equalities of a join condition by which one relation's rows are found from other sides."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from deltajoin.graph import Predicate
from deltajoin.sql.dialect import parse_expression, text


@dataclass(frozen=True)
class JoinKey:
    """`mine` (an expression of `relation` alone) equals `other`; `operator` is = or <=>."""

    predicate: Predicate
    relation: str
    mine: str
    other: str
    other_relations: frozenset[str]
    operator: str


def join_keys(predicate: Predicate, relation: str, others: frozenset[str]) -> list[JoinKey]:
    """The key that a conjunct gives: one side is of `relation`, the other of `others`; else none.

    Example:
        >>> p = Predicate("`a`.`x` = upper(`b`.`y`)", "residual", (("a", "x"), ("b", "y")))
        >>> [(k.mine, k.other) for k in join_keys(p, "a", frozenset("b"))]
        [('`a`.`x`', 'upper(`b`.`y`)')]
    """
    node = parse_expression(predicate.sql)
    if not isinstance(node, (exp.EQ, exp.NullSafeEQ)):
        return []
    for mine, other in ((node.this, node.expression), (node.expression, node.this)):
        here, there = _relations(mine), _relations(other)
        if here == {relation} and there and there <= others:
            operator = "=" if isinstance(node, exp.EQ) else "<=>"
            return [JoinKey(predicate, relation, text(mine), text(other), there, operator)]
    return []


def _relations(node: exp.Expr) -> frozenset[str]:
    return frozenset(column.table for column in node.find_all(exp.Column))
