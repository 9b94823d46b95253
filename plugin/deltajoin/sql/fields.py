"""Fields that Spark names by the columns written in a call, as fields that are named in the text.

    struct(t.x, u.w + 1)    ->  struct(t.x AS x, u.w + 1 AS col2)
    (t.x, u.w)              ->  struct(t.x AS x, u.w AS w), where it is no side of a comparison
    arrays_zip(t.x, u.w)    ->  transform(arrays_zip(concat(t.x), concat(u.w)),
                                          e -> named_struct('x', e['0'], 'w', e['1']))

For columns are exchanged later, in a subquery's place, over groups and in what travels.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from deltajoin.sql.dialect import parsed, with_columns
from deltajoin.sql.nodes import function_name


def name_fields(node: exp.Expr) -> None:
    """Name the fields under a node that has a parent, in place; columns are still as written."""
    for maker in list(_makers(node)):
        if isinstance(maker, exp.Tuple):
            maker.replace(_named(exp.Anonymous(this="struct", expressions=maker.expressions)))
        elif function_name(maker) == "struct":
            _named(maker)
        elif any(_written_name(argument) for argument in maker.expressions):
            maker.replace(_zipped(maker))


def _makers(node: exp.Expr) -> Iterator[exp.Expr]:
    """What makes fields, the innermost first."""
    for child in node.iter_expressions():
        yield from _makers(child)
    row = isinstance(node, exp.Tuple) and _is_value(node)
    if row or function_name(node) in ("struct", "arrays_zip"):
        yield node


def _is_value(row: exp.Tuple) -> bool:
    """True for a row that a function takes or a query gives out."""
    parent = row.parent
    while isinstance(parent, (exp.Paren, exp.If, exp.Case)):
        parent = parent.parent
    return parent is None or isinstance(parent, (exp.Anonymous, exp.Dot))


def _named(call: exp.Expr) -> exp.Expr:
    for number, argument in enumerate(list(call.expressions), start=1):
        if name := _written_name(argument) or _number_name(argument, number):
            argument.replace(exp.alias_(argument.copy(), name, quoted=True))
    return call


def _number_name(node: exp.Expr, number: int) -> str:
    """The name of an expression, which may be exchanged for a column as a whole; else empty."""
    node = node.unnest()
    named = (exp.Alias, exp.Dot, exp.Identifier, exp.Literal, exp.Star)
    field = isinstance(node, exp.Bracket) and any(e.is_string for e in node.expressions)
    return "" if field or isinstance(node, named) else f"col{number}"


def _written_name(node: exp.Expr) -> str:
    """The name of a column as it is written, brackets around it or not; else empty."""
    node = node.unnest()
    return node.name if isinstance(node, exp.Column) else ""


def _zipped(call: exp.Expr) -> exp.Expr:
    """An array of structs with named fields, of one whose fields are numbered."""
    names = [_written_name(argument) or str(i) for i, argument in enumerate(call.expressions)]
    arrays = [exp.Anonymous(this="concat", expressions=[a.copy()]) for a in call.expressions]
    fields = ", ".join(f"{_string(name)}, e['{i}']" for i, name in enumerate(names))
    zipped = exp.Anonymous(this=call.this, expressions=arrays)
    structs = parsed(f"transform(rows, e -> named_struct({fields}))")
    return with_columns(structs, lambda column: zipped if column.name == "rows" else None)


def _string(name: str) -> str:
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"
