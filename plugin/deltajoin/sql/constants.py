"""Rows that no table holds: VALUES, range(), generators over literals, SELECT without FROM.

They change with the clock at most. One stands as a relation over a derived source with a text of
its own; a SELECT without FROM needs none where it is joined inner: it has one row of expressions.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from deltajoin.graph import Derived, JoinGraph, Projection
from deltajoin.names import quote
from deltajoin.sql import functions
from deltajoin.sql.clock import reads_clock
from deltajoin.sql.dialect import clauses_of, parse, text
from deltajoin.sql.exact import derived_outputs
from deltajoin.sql.kinds import kind_of
from deltajoin.sql.nodes import Named, function_name
from deltajoin.sql.refuse import Unsupported, check_expression

#: Rows that a generator is taken to give where they aren't counted.
GUESSED_ROWS = 1_000
_MAKERS = functions.GENERATORS - functions.TIME_GROUPS | {"range"}
_REMEDY = "Use literals and name the columns: AS t(a, b); or put the rows into a table."


def is_constant(node: exp.Expr) -> bool:
    """True for an item of FROM that is made of literals: VALUES, or a function that makes rows."""
    return isinstance(node, exp.Values) or (
        isinstance(node, exp.Table) and isinstance(node.this, exp.Anonymous)
    )


def constant_source(name: str, node: exp.Expr) -> Derived:
    """The source of such an item; `Unsupported` where it reads a column, or gives no names."""
    names = names_of(node)
    rows = node.expressions if isinstance(node, exp.Values) else []
    for value in rows or node.this.expressions:
        check_expression(value)
    holder = exp.Paren(this=node.copy())
    if not names or any(True for _ in holder.find_all(exp.Column, exp.Query, exp.Lambda)):
        raise Unsupported("TABLE_FUNCTION", "a FROM item that is no table", node, _REMEDY)
    tuples = [list(row.expressions) if isinstance(row, exp.Tuple) else [row] for row in rows]
    kinds = [_kind([row[i] for row in tuples if i < len(row)]) for i in range(len(names))]
    sql = " ".join(("SELECT * FROM", text(node)))
    return _source(name, sql, names, kinds, len(rows) or GUESSED_ROWS)


def one_row(name: str, values: list[Named]) -> Derived:
    """A source of one row with these values."""
    shown = ", ".join(f"{text(value)} AS {quote(column)}" for column, value in values)
    names = [column for column, _ in values]
    return _source(name, f"SELECT {shown}", names, [_kind([v]) for _, v in values], 1)


def by_clock(select: exp.Query, made: Derived) -> Derived:
    """What a SELECT made, as a source with a text where that makes rows out of the clock alone: a
    calendar up to today."""
    names, known = list(made.graph.output_names), {"kind", "expressions", "from_"}
    simple = isinstance(select, exp.Select) and clauses_of(select) <= known
    simple = simple and all(is_constant(table) for table in select.find_all(exp.Table))
    if not simple or made.graph.sources or made.graph.stamps or not reads_clock(select):
        return made
    kinds = [kind for kind, _ in derived_outputs(made, {}).values()]
    return query_source(made.name, select, names, kinds)


def query_source(
    name: str, query: exp.Query, names: list[str], kinds: list[str], around: Sequence[exp.CTE] = ()
) -> Derived:
    """A source that is a query over no table; `around` are CTEs outside it that it reads."""
    before = ("WITH", ", ".join(map(text, around))) if around else ()
    columns = ", ".join(map(quote, names))
    sql = " ".join((*before, "SELECT * FROM", f"({text(query)})", f"AS made({columns})"))
    return _source(name, sql, names, kinds, GUESSED_ROWS)


def _source(name: str, sql: str, names: list[str], kinds: list[str], rows: int) -> Derived:
    projections = tuple(Projection(column, "NULL", ()) for column in names)
    types = tuple(zip(names, kinds, strict=True))
    clocked = reads_clock(parse(sql))
    return Derived(name, JoinGraph((), (), projections), sql, types, rows, clocked=clocked)


def names_of(node: exp.Expr) -> list[str]:
    """The columns of an item of FROM that is made of literals; none where it gives no names."""
    if given := node.alias_column_names:
        return given
    if not isinstance(node, exp.Values):
        return ["id"] if function_name(node.this) == "range" else []
    first = node.expressions[0]
    size = len(first.expressions) if isinstance(first, exp.Tuple) else 1
    return [f"col{i + 1}" for i in range(size)]


def _kind(values: list[exp.Expr]) -> str:
    """The type of all values, empty where it is not certain."""
    kinds = {kind_of(value, lambda _: "") for value in values} - {"null"}
    return kinds.pop() if len(kinds) == 1 else ""
