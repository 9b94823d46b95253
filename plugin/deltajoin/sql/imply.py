"""What a disjunction over several relations says more plainly, as conjuncts beside it.

    (a.x = 1 AND b.y = 2) OR (a.x = 2 AND b.y = 1)   also   a.x = 1 OR a.x = 2,  b.y = 2 OR b.y = 1
    (a.k = b.k AND a.x = 1) OR (a.k = b.k AND b.y)   is     a.k = b.k AND (a.x = 1 OR b.y)

Where it is TRUE, one of its disjuncts is, and with it what that disjunct says of one relation
alone; so the disjunction of these is TRUE too. NULL and FALSE both turn a row away, in ON as in
WHERE, so a conjunct that follows changes no row. The second line is the law of distribution, which
holds with NULLs. A filter moves to where it meets rows that the disjunction never met: only
comparisons of columns with literals are taken, which can't fail on them. Source of the idea:
PostgreSQL's `orclauses.c`. Caller: takes all for conjuncts of one condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from sqlglot import exp

from deltajoin.sql.dialect import parse_expression, text
from deltajoin.sql.nodes import connected
from deltajoin.sql.predicates import relations_in

#: A disjunction of more parts than this is left as it is.
MOST_PARTS = 64
_COMPARISONS = (
    exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ,
    exp.Like, exp.Is, exp.In, exp.Between,
)  # fmt: skip
_PLAIN = (
    *_COMPARISONS, exp.And, exp.Or, exp.Not, exp.Paren, exp.Column, exp.Literal, exp.Boolean,
    exp.Null, exp.Neg, exp.Identifier,
)  # fmt: skip


def with_implied(conjuncts: Iterable[exp.Expr]) -> Iterator[exp.Expr]:
    """The conjuncts, disjunctions without what their parts share, and the filters that follow."""
    for conjunct in conjuncts:
        for each in factored(conjunct):
            yield each
            yield from _filters(each)


@lru_cache(maxsize=4096)
def implied_filters(sql: str) -> tuple[str, ...]:
    """The filters, one a relation, that follow from a conjunct over several; sorted.

    >>> implied_filters("(`a`.`x` = 1 AND `b`.`y` = 2) OR (`a`.`x` = 3 AND `b`.`y` IS NULL)")
    ('(`a`.`x` = 1 OR `a`.`x` = 3)', '(`b`.`y` = 2 OR `b`.`y` IS NULL)')
    >>> implied_filters("(`a`.`x` = 1 AND `b`.`y` = 2) OR `b`.`y` = `a`.`x`")
    ()
    """
    node = parse_expression(sql)
    return tuple(text(exp.paren(found)) for found in _filters(node))


def _filters(conjunct: exp.Expr) -> Iterator[exp.Expr]:
    node = conjunct.unnest()
    if not isinstance(node, exp.Or) or len(connected(node, exp.Or)) > MOST_PARTS:
        return
    touched = sorted(relations_in(node))
    for relation in touched if len(touched) > 1 else ():
        found = _about(node, relation)
        if found is not None:
            yield found


def _about(node: exp.Expr, relation: str) -> exp.Expr | None:
    """What holds of one relation alone wherever the node is TRUE; None for nothing."""
    node = node.unnest()
    if relations_in(node) == {relation}:
        return node.copy() if all(isinstance(n, _PLAIN) for n in _values(node)) else None
    if isinstance(node, exp.And):
        some = [found for part in connected(node, exp.And) if (found := _about(part, relation))]
        return _joined(some, exp.and_) if some else None
    if isinstance(node, exp.Or):
        each = dict.fromkeys(_about(part, relation) for part in connected(node, exp.Or))
        return None if None in each else _joined([part for part in each if part], exp.or_)
    return None


def factored(conjunct: exp.Expr) -> Iterator[exp.Expr]:
    """A disjunction as the conjuncts that all its parts share, and the rest."""
    node = conjunct.unnest()
    disjuncts = connected(node, exp.Or)
    if not 1 < len(disjuncts) <= MOST_PARTS:
        yield conjunct
        return
    parts = [{_spelled(c.unnest()): c for c in connected(d, exp.And)} for d in disjuncts]
    shared = [key for key in parts[0] if all(key in others for others in parts[1:])]
    if not shared:
        yield conjunct
        return
    yield from (parts[0][key].unnest() for key in shared)
    rest = [[c for key, c in part.items() if key not in shared] for part in parts]
    if all(rest):
        yield _joined([_joined(each, exp.and_) for each in rest], exp.or_)


def _spelled(node: exp.Expr) -> str:
    """The text of a conjunct; of an equality, whichever side stands first."""
    if isinstance(node, exp.EQ):
        return " = ".join(sorted(text(side.unnest()) for side in (node.this, node.expression)))
    return text(node)


def _joined(parts: list[exp.Expr], connect: Callable[..., exp.Expr]) -> exp.Expr:
    """Parts under one connector, in brackets where they are connectors themselves."""
    return connect(*parts) if len(parts) > 1 else parts[0].unnest().copy()


def _values(node: exp.Expr) -> Iterator[exp.Expr]:
    """The nodes of an expression; a literal under a cast, as a date is, is one of them."""
    for found in node.walk(prune=lambda n: isinstance(n, exp.Cast)):
        literal = isinstance(found, exp.Cast) and isinstance(found.this, exp.Literal)
        yield found.this if literal else found
