"""Small constructors of SQL trees; every emitted statement is built from these.

A tree that is given to one of them is copied, as sqlglot's own operators and clauses do: a node may
stand in several places.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce

from sqlglot import exp

from deltajoin.graph import ColumnRef
from deltajoin.names import WEIGHT
from deltajoin.sql.dialect import Verbatim, cast, parse_expression, with_columns


def column(name: str, table: str | None = None) -> exp.Column:
    """A quoted column."""
    return exp.column(
        exp.to_identifier(name, quoted=True),
        table=exp.to_identifier(table, quoted=True) if table else None,
    )


def star(table: str) -> exp.Column:
    """All columns of a relation."""
    return exp.Column(this=exp.Star(), table=exp.to_identifier(table, quoted=True))


def call(name: str, *args: exp.Expr) -> exp.Anonymous:
    """A function call whose name is kept."""
    return exp.Anonymous(this=name, expressions=[arg.copy() for arg in args])


def coalesce(*values: exp.Expr) -> exp.Anonymous:
    """The first value that is not NULL."""
    return call("coalesce", *values)


def same(one: exp.Expr, other: exp.Expr) -> exp.NullSafeEQ:
    """True also where both are NULL."""
    return exp.NullSafeEQ(this=one.copy(), expression=other.copy())


def same_columns(names: Iterable[str], left: str, right: str) -> list[exp.Expr]:
    """What two relations must have in common in these columns."""
    return [same(column(name, left), column(name, right)) for name in names]


def is_null(node: exp.Expr) -> exp.Is:
    """`node IS NULL`."""
    return node.is_(exp.Null())


def as_text(value: exp.Expr) -> exp.Expr:
    """A value's text, which tells -0.0 from 0.0."""
    return exp.cast(value, "string")


def union_all(*parts: exp.Query) -> exp.Query:
    """All rows of one or more queries."""
    return reduce(lambda a, b: exp.union(a, b, distinct=False), parts)


def string(value: str) -> exp.Literal:
    """A string literal."""
    return exp.Literal.string(value)


def number(value: int) -> exp.Expr:
    """A number literal."""
    return exp.Literal.number(value)


def named(node: exp.Expr, name: str) -> exp.Expr:
    """`node AS name`, quoted."""
    return exp.alias_(node, name, quoted=True)


def table(view: str, alias: str | None = None) -> exp.Table:
    """A view under an alias."""
    node = exp.Table(this=exp.to_identifier(view, quoted=True))
    if alias:
        node.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    return node


def aliased(rows: exp.Query, alias: str) -> exp.Subquery:
    """A query in the place of a table, under a quoted alias."""
    return rows.subquery(exp.to_identifier(alias, quoted=True))


def weighted(
    names: Iterable[str], weight: exp.Expr, rows: exp.Expr, alias: str | None = None
) -> exp.Select:
    """Some columns of rows under an alias, with a weight."""
    columns = (column(name, alias) for name in names)
    return exp.select(*columns, named(weight, WEIGHT)).from_(rows)


def broadcast(select: exp.Select, *aliases: str) -> exp.Select:
    """The query with a hint to broadcast some of its relations."""
    names = (exp.to_identifier(alias, quoted=True) for alias in aliases)
    return select.hint(call("BROADCAST", *names))


def fail(code: str) -> exp.Expr:
    """An expression of any type that stops the statement with one of our codes."""
    return call("raise_error", string(f"deltajoin:{code}"))


def null(kind: str) -> exp.Expr:
    """NULL of a Spark type; untyped for ""."""
    if not kind:
        return exp.Null()
    return cast(exp.Null(), kind)


def expression(
    sql: str, rename: Mapping[ColumnRef, tuple[str, str] | exp.Expr] | None = None
) -> exp.Expr:
    """Parse an expression of the graph; `rename` moves columns to (table, column) or a value."""
    if not rename:
        return parse_expression(sql)

    def moved(node: exp.Column) -> exp.Expr | None:
        to = rename.get((node.table, node.name))
        return column(to[1], to[0]) if isinstance(to, tuple) else to and to.copy()

    return with_columns(parse_expression(sql), moved)


def pretty(node: exp.Expr) -> str:
    """Spark SQL over several lines; the tree is used up."""
    return node.sql(
        dialect=Verbatim, identify=True, normalize_functions=False, pretty=True, copy=False
    )
