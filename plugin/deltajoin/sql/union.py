"""Set operations: the columns of both sides, of one type; rows that are compared, or counted.

Spark gives a column of a union the wider of its two types. Here both sides must come out as one
type without doubt: known and equal, numbers of which one is wider, a NULL beside anything, or the
same expression over columns of the same types. Else the union is not kept; a CAST settles it.
"""

from __future__ import annotations

from typing import TypeGuard

from sqlglot import exp

from deltajoin.graph import JoinGraph
from deltajoin.layers import Generation
from deltajoin.sql.clock import moves
from deltajoin.sql.dialect import closed, parse_expression, text, with_columns
from deltajoin.sql.generators import View, make_generation
from deltajoin.sql.group import Groups, check_names
from deltajoin.sql.kinds import TypeOf, common_kind, kind_of, typed
from deltajoin.sql.nodes import Given, Named, call, column, number
from deltajoin.sql.refuse import Unsupported
from deltajoin.sql.scope import Block, Outer, Output, Union

REMEDY = "CAST the column to one type in each SELECT of the union."


def is_distinct_set(query: exp.Query) -> bool:
    """True for UNION, INTERSECT and EXCEPT without ALL: rows that are grouped by all columns."""
    return isinstance(query, exp.SetOperation) and bool(query.args.get("distinct"))


def is_counted_set(query: exp.Expr) -> TypeGuard[exp.SetOperation]:
    """True for EXCEPT ALL and INTERSECT ALL."""
    return isinstance(query, (exp.Except, exp.Intersect)) and not query.args.get("distinct")


def matched(place: str, left: Given, right: exp.Expr, type_of: TypeOf) -> Output:
    """A column of a union, which has a name by its place, from what both sides give out.

    Raises:
        Unsupported: SET_OPERATION when it isn't certain that both have one type.
    """
    name, value, origin = left
    one, other = kind_of(value, type_of), kind_of(right, type_of)
    if kind := common_kind(one, other):
        return Output(place, typed(value, kind, one), typed(right, kind, other), kind)
    if not one and not other and _shape(value, type_of) == _shape(right, type_of):
        return Output(place, value, right, "")
    shown = " and ".join(kind or "unknown" for kind in (one, other))
    message = f"a union whose column {name or text(origin)} has the types {shown}"
    raise Unsupported("SET_OPERATION", message, origin, REMEDY)


def literals_of(graph: JoinGraph) -> list[tuple[str, exp.Expr]]:
    """The columns of groups that are one literal in each, and that."""
    if graph.grouping is None or graph.windowing is not None:
        return []
    made = ((name, parse_expression(sql)) for name, sql in graph.grouping.outputs)
    return [(name, value) for name, value in made if isinstance(value, exp.Literal)]


def _shape(node: exp.Expr, type_of: TypeOf) -> str:
    """The expression with types for columns; one without them is like no other."""

    def typed(column: exp.Column) -> exp.Expr:
        return exp.column(type_of(column) or f"{column.table}.{column.name}", quoted=True)

    return text(with_columns(node, typed))


def compared(query: exp.SetOperation, arms: list[Block], outputs: list[Output]) -> Outer:
    """INTERSECT and EXCEPT: rows of the left side that are, or are not, on the right side. A stamp
    that is the same on both sides is not compared."""
    kind = "semi" if isinstance(query, exp.Intersect) else "anti"
    on: list[exp.Expr] = [
        exp.NullSafeEQ(this=closed(o.left), expression=closed(o.right))
        for o in outputs
        if o.left != o.right or not moves(o.left) or o.left.find(exp.Column)
    ]
    return Outer(kind, arms[0], arms[1], on)


# EXCEPT ALL and INTERSECT ALL --------------------------------------------------------------------
#
#     SELECT k FROM a EXCEPT ALL SELECT k FROM b
#     ->  SELECT c0 AS k FROM (
#           SELECT c0, count(l) - count(r) AS copies FROM (
#             SELECT k AS c0, 1 AS l, NULL AS r FROM a UNION ALL SELECT k, NULL, 1 FROM b
#           ) GROUP BY c0 HAVING count(l) - count(r) > 0
#         ) LATERAL VIEW explode(sequence(1, copies))
#
# INTERSECT ALL takes the lesser of both counts. The binder makes a source of what is counted.

_LEFT, _RIGHT, _COPIES = "l", "r", "copies"


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
    check_names(block.outputs)
    numbers = call("sequence", typed(number(1), "bigint"), column(_COPIES, relation))
    return make_generation(block, [View(view, call("explode", numbers), False, ("copy",))], [])
