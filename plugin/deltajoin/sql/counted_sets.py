"""EXCEPT ALL and INTERSECT ALL -> the rows of both sides, counted, and made as often as is left.

    SELECT k FROM a EXCEPT ALL SELECT k FROM b
    ->  SELECT c0 AS k FROM (
          SELECT c0, count(l) - count(r) AS copies FROM (
            SELECT k AS c0, 1 AS l, NULL AS r FROM a UNION ALL SELECT k, NULL, 1 FROM b
          ) GROUP BY c0 HAVING count(l) - count(r) > 0
        ) LATERAL VIEW explode(sequence(1, copies))

INTERSECT ALL takes the lesser of both counts. Caller: binds the sides, and makes a source of what
is counted.
"""

from __future__ import annotations

from typing import TypeGuard

from sqlglot import exp

from deltajoin.layers import Generation
from deltajoin.sql.generators import View, make_generation
from deltajoin.sql.group import Groups
from deltajoin.sql.kinds import typed
from deltajoin.sql.nodes import Named, call, column, number
from deltajoin.sql.scope import Block, Union
from deltajoin.sql.union import Output

_LEFT, _RIGHT, _COPIES = "l", "r", "copies"


def is_counted_set(query: exp.Expr) -> TypeGuard[exp.SetOperation]:
    """True for EXCEPT ALL and INTERSECT ALL."""
    return isinstance(query, (exp.Except, exp.Intersect)) and not query.args.get("distinct")


def counted_rows(
    query: exp.SetOperation, arms: list[Block], outputs: list[Output], name: str
) -> tuple[Block, Groups]:
    """The rows of both sides, and their groups with the number of copies that are left."""
    one, none = number(1), typed(exp.Null(), "int")
    sides = [Output(_LEFT, one, none, "int"), Output(_RIGHT, none, one, "int")]
    block = Block(items=[Union(name, arms[0], arms[1], [*outputs, *sides])])
    keys: list[exp.Expr] = [column(output.name, name) for output in outputs]
    left, right = (call("count", column(side, name)) for side in (_LEFT, _RIGHT))
    copies: exp.Expr = call("least", left, right)
    if isinstance(query, exp.Except):
        copies = exp.paren(exp.Sub(this=left, expression=right))
    named = [(o.name, key) for o, key in zip(outputs, keys, strict=True)]
    having = exp.GT(this=copies.copy(), expression=number(0))
    return block, Groups(keys, [*named, (_COPIES, copies)], having)


def repeated(block: Block, shown: list[Named], view: str) -> Generation:
    """What makes each counted row as often as it is to be; gives it out under the names shown."""
    (relation,) = block.relations
    block.outputs = [
        (name, column(f"c{i}", relation), origin) for i, (name, origin) in enumerate(shown)
    ]
    numbers = call("sequence", typed(number(1), "bigint"), column(_COPIES, relation))
    return make_generation(block, [View(view, call("explode", numbers), False, ("copy",))], [])
