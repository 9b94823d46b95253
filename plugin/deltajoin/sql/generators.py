"""Generators over bound rows -> the joined rows that they read, and what is made of them.

A generator's column is bound as a column of a relation that no table has (`View`). What reads none
of them is given out by the joined rows as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from deltajoin.layers import INPUT, Generation, Generator, Output
from deltajoin.sql import functions
from deltajoin.sql.below import Below
from deltajoin.sql.columns import bound
from deltajoin.sql.dialect import text, with_columns
from deltajoin.sql.nodes import Named, column, function_name
from deltajoin.sql.refuse import Unsupported, check_expression, downstream, join_kind
from deltajoin.sql.scope import Block, Scope
from deltajoin.sql.spans import span_of


@dataclass(frozen=True)
class View:
    """A generator: `relation` is what its columns are bound to."""

    relation: str
    call: exp.Expr
    outer: bool
    columns: tuple[str, ...]

    def column(self, name: str) -> exp.Expr:
        """One of its columns, as bound expressions have it."""
        return column(name, self.relation)

    @property
    def shown(self) -> dict[str, Named]:
        """All of them, as an entry of FROM has its columns."""
        return {name.lower(): (name, self.column(name)) for name in self.columns}


def generator_of(node: exp.Expr) -> exp.Anonymous | None:
    """The generator that a projection is a call of; json_tuple of one field gives a value."""
    value = node.this if isinstance(node, (exp.Alias, exp.Aliases)) else node
    name = function_name(value)
    known = name in functions.GENERATORS - functions.TIME_GROUPS
    field = name == "json_tuple" and not isinstance(node, exp.Alias)
    return value if isinstance(value, exp.Anonymous) and (known or field) else None


def as_views(query: exp.Query) -> None:
    """Turn LATERAL of a generator into the LATERAL VIEW that it is, where nothing is joined to it.

        FROM t LEFT JOIN LATERAL explode(t.a) AS e(x) ON true
    ->  FROM t LATERAL VIEW OUTER explode(t.a) e AS x
    """
    for select in query.find_all(exp.Select):
        joins, views = select.args.get("joins") or [], select.args.get("laterals") or []
        while joins and (view := lateral_of(joins[-1])):
            joins.pop()
            views = [view, *views]
        if views:
            select.set("laterals", views)


def lateral_of(join: exp.Join) -> exp.Lateral | None:
    """The LATERAL VIEW that a join with LATERAL of a generator is.

    Raises:
        Unsupported: GENERATOR for LEFT JOIN without ON, which Spark 4.2 makes as an inner join.
    """
    lateral, on = join.this, join.args.get("on")
    if not isinstance(lateral, exp.Lateral) or generator_of(lateral.this) is None:
        return None
    kind, named = join_kind(join), join.method or join.args.get("using")
    if kind not in ("inner", "left") or named or on not in (None, exp.true()):
        return None
    if kind == "left" and (on is None or span_of(on) is None):
        what = "LEFT JOIN LATERAL of a generator without ON, from which Spark leaves out rows,"
        raise Unsupported("GENERATOR", what, join, "Write ON true.")
    lateral.set("view", True)
    lateral.set("outer", kind == "left")
    return lateral


def lateral_view(node: exp.Lateral, scope: Scope, relation: str) -> View:
    """A LATERAL VIEW over the rows of a scope; `relation` is what its columns are bound to.

    Raises:
        Unsupported: GENERATOR.
    """
    names = node.alias_column_names
    if not node.args.get("view") or generator_of(node.this) is None or not names:
        raise not_kept("LATERAL VIEW without names for its columns", node)
    return make_view(node.this, bool(node.args.get("outer")), names, scope, relation)


def make_view(
    call: exp.Expr, outer: bool, names: Sequence[str], scope: Scope, relation: str
) -> View:
    """A generator over the rows of a scope, as `lateral_view`."""
    for argument in call.expressions:
        check_expression(argument)
    if len({name.lower() for name in names}) < len(names):
        raise not_kept("a generator with two columns of one name", call)
    return View(relation, bound(call, scope), outer, tuple(names))


def not_kept(what: str, node: exp.Expr) -> Unsupported:
    """GENERATOR, at a node."""
    return Unsupported("GENERATOR", what, node, downstream("the generator"))


def make_generation(block: Block, views: list[View], conditions: list[exp.Expr]) -> Generation:
    """Put the rows that the generators read into the block's outputs; give what is made of them.

    Args:
        conditions: filters that read generated columns.
    """
    names = {
        (view.relation, name): (f"v{i}", f"v{i}_{j}")
        for i, view in enumerate(views)
        for j, name in enumerate(view.columns)
    }
    below = Below(INPUT, "r")

    def generated(part: exp.Column) -> exp.Expr:
        found = names.get((part.table, part.name))
        return column(found[1], found[0]) if found else below.read(part)

    def over(node: exp.Expr) -> str:
        return text(with_columns(node, generated))

    def output(name: str, node: exp.Expr) -> Output:
        if any((c.table, c.name) in names for c in node.find_all(exp.Column)):
            return Output(name, over(node))
        row = below.read(node)
        return Output(name, text(row), row.name)

    outputs = tuple(output(name, node) for name, node, _ in block.outputs)
    generators = tuple(
        Generator(
            over(view.call),
            view.outer,
            f"v{i}",
            tuple(f"v{i}_{j}" for j in range(len(view.columns))),
        )
        for i, view in enumerate(views)
    )
    late = tuple(over(exp.paren(condition)) for condition in conditions)
    rows = below.values or [(below.read(exp.true()).name, exp.true())]  # one column at least
    block.outputs = [(name, value, value) for name, value in rows]
    return Generation(generators, outputs, late)
