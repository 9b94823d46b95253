"""Generators over bound rows -> the joined rows that they read, and what is made of them.

A generator's column is bound as a column of a relation that no table has (`View`). What reads none
of them is given out by the joined rows as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from deltajoin.layers import INPUT, Generation, Generator, Output
from deltajoin.sql import functions
from deltajoin.sql.below import Below
from deltajoin.sql.dialect import text, with_columns
from deltajoin.sql.nodes import column, function_name
from deltajoin.sql.refuse import join_kind
from deltajoin.sql.scope import Block


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


def generator_of(node: exp.Expr) -> exp.Anonymous | None:
    """The generator that a projection is a call of; json_tuple of one field gives a value."""
    value = node.this if isinstance(node, (exp.Alias, exp.Aliases)) else node
    name = function_name(value)
    known = name in functions.GENERATORS - functions.TIME_GROUPS
    field = name == "json_tuple" and not isinstance(node, exp.Alias)
    return value if isinstance(value, exp.Anonymous) and (known or field) else None


def as_views(query: exp.Query) -> None:
    """Turn LATERAL of a generator into the LATERAL VIEW that it is, where nothing is joined to it.

        FROM t LEFT JOIN LATERAL explode(t.a) AS e(x)
    ->  FROM t LATERAL VIEW OUTER explode(t.a) e AS x
    """
    for select in query.find_all(exp.Select):
        joins, views = select.args.get("joins") or [], select.args.get("laterals") or []
        while joins and _is_generator(joins[-1]):
            join = joins.pop()
            join.this.set("view", True)
            join.this.set("outer", join_kind(join) == "left")
            views = [join.this, *views]
        if views:
            select.set("laterals", views)


def _is_generator(join: exp.Join) -> bool:
    lateral = join.this
    return (
        isinstance(lateral, exp.Lateral)
        and generator_of(lateral.this) is not None
        and join_kind(join) in ("inner", "left")
        and not (join.method or join.args.get("using"))
        and join.args.get("on") in (None, exp.true())
    )


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
