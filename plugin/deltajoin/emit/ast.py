"""Small constructors of SQL trees; every emitted statement is built from these.

A tree that is given to one of them is copied, as sqlglot's own operators and clauses do: a node may
stand in several places.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, reduce

from sqlglot import exp

from deltajoin.catalog import zoned
from deltajoin.graph import ColumnRef
from deltajoin.names import WEIGHT
from deltajoin.sql.dialect import Verbatim, cast, parse_expression, parsed, with_columns

#: What stands before JOIN.
_JOINS = {
    "": {},
    "inner": {"kind": "INNER"},
    "left": {"side": "LEFT"},
    "right": {"side": "RIGHT"},
    "full": {"side": "FULL", "kind": "OUTER"},
    "semi": {"side": "LEFT", "kind": "SEMI"},
    "anti": {"side": "LEFT", "kind": "ANTI"},
}


def column(name: str, table: str | None = None) -> exp.Column:
    """A quoted column."""
    return exp.column(name, table=table or None, quoted=True)


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
    """All rows of one or more queries, whose trees are used up."""
    return reduce(lambda a, b: exp.union(a, b, distinct=False, copy=False), parts)


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
    """A query, whose tree is used up, in the place of a table."""
    return rows.subquery(exp.to_identifier(alias, quoted=True), copy=False)


def join(kind: str, right: exp.Expr, on: Sequence[exp.Expr]) -> exp.Join:
    """A join on all conjuncts; an inner one without any is a cross join. The trees are used up.

    Args:
        kind: inner (of which "" says nothing), cross, left, right, full, semi or anti.
    """
    if kind == "cross" or (kind in ("", "inner") and not on):
        return exp.Join(this=right, kind="CROSS")
    conjuncts = exp.and_(*(on or [exp.true()]), copy=False)
    return exp.Join(this=right, on=conjuncts, **_JOINS[kind])


def joined(
    select: exp.Select, kind: str, right: exp.Expr, on: Sequence[exp.Expr] = ()
) -> exp.Select:
    """The query itself with one more join."""
    select.append("joins", join(kind, right, on))
    return select


def weighted(
    names: Iterable[str], weight: exp.Expr, rows: exp.Expr, alias: str | None = None
) -> exp.Select:
    """Some columns of rows under an alias, with a weight."""
    columns = (column(name, alias) for name in names)
    return exp.select(*columns, named(weight, WEIGHT)).from_(rows)


def broadcast(select: exp.Select, *aliases: str) -> exp.Select:
    """The query with a hint to broadcast some of its relations."""
    names = (exp.to_identifier(alias, quoted=True) for alias in aliases)
    return select.hint(call("BROADCAST", *names), copy=False)


def fail(code: str) -> exp.Expr:
    """An expression of any type that stops the statement with one of our codes."""
    return call("raise_error", string(f"deltajoin:{code}"))


def null(kind: str) -> exp.Expr:
    """NULL of a Spark type; untyped for ""."""
    if not kind:
        return exp.Null()
    return cast(exp.Null(), zoned(kind))


def expression(sql: str, rename: Mapping[ColumnRef, exp.Expr] | None = None) -> exp.Expr:
    """Parse an expression of the graph; `rename`: what stands in the place of which columns."""
    return moved(parsed(sql), rename) if rename else parse_expression(sql)


def moved(node: exp.Expr, rename: Mapping[ColumnRef, exp.Expr]) -> exp.Expr:
    """A copy of an expression with other values in the places of some columns."""

    def value_of(part: exp.Column) -> exp.Expr | None:
        to = rename.get((part.table, part.name))
        return to and to.copy()

    return with_columns(node, value_of)


@lru_cache(maxsize=4096)
def refs_in(sql: str) -> frozenset[ColumnRef]:
    """The columns that an expression of the graph reads."""
    return frozenset((c.table, c.name) for c in parsed(sql).find_all(exp.Column))


def pretty(node: exp.Expr) -> str:
    """Spark SQL over several lines; the tree is used up."""
    return node.sql(
        dialect=Verbatim, identify=True, normalize_functions=False, pretty=True, copy=False
    )
