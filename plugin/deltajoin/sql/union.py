"""The columns of a union: what each stands for on either side, of one type.

Spark gives a column of a union the wider of its two types. Here both sides must come out as one
type without doubt: known and equal, numbers of which one is wider, a NULL beside anything, or the
same expression over columns of the same types. Else the union is not kept; a CAST settles it.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from deltajoin.sql.dialect import text, with_columns
from deltajoin.sql.kinds import TypeOf, common_kind, kind_of, typed
from deltajoin.sql.refuse import Unsupported

_REMEDY = "CAST the column to one type in each SELECT of the union."


@dataclass(frozen=True)
class Output:
    """One column of a union; `kind` is its type, empty where it is not known, only alike."""

    name: str
    left: exp.Expr
    right: exp.Expr
    kind: str


def is_distinct_set(query: exp.Query) -> bool:
    """True for UNION, INTERSECT and EXCEPT without ALL: rows that are grouped by all columns."""
    return isinstance(query, exp.SetOperation) and bool(query.args.get("distinct"))


def matched(
    name: str, left: exp.Expr, right: exp.Expr, type_of: TypeOf, origin: exp.Expr
) -> Output:
    """A column of a union from the expressions of both sides.

    Args:
        origin: the column as it is written on the left.

    Raises:
        Unsupported: SET_OPERATION when it isn't certain that both have one type.
    """
    one, other = kind_of(left, type_of), kind_of(right, type_of)
    if kind := common_kind(one, other):
        return Output(name, typed(left, kind, one), typed(right, kind, other), kind)
    if not one and not other and _shape(left, type_of) == _shape(right, type_of):
        return Output(name, left, right, "")
    shown = " and ".join(kind or "unknown" for kind in (one, other))
    message = f"a union whose column {text(origin)} has the types {shown}"
    raise Unsupported("SET_OPERATION", message, origin, _REMEDY)


def _shape(node: exp.Expr, type_of: TypeOf) -> str:
    """The expression with types for columns; one without them is like no other."""

    def typed(column: exp.Column) -> exp.Expr:
        return exp.column(type_of(column) or f"{column.table}.{column.name}", quoted=True)

    return text(with_columns(node, typed))
