"""Generators over bound rows -> the joined rows that they read, and what is made of them.

A generator's column is bound as a column of a relation that no table has (`View`). What reads none
of them is given out by the joined rows as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from deltajoin.layers import Generation, Generator, Output
from deltajoin.sql import functions
from deltajoin.sql.dialect import text, with_columns
from deltajoin.sql.group import input_column, plain
from deltajoin.sql.scope import Block

Named = tuple[str, exp.Expr, exp.Expr]


@dataclass(frozen=True)
class View:
    """A generator: `relation` is what its columns are bound to."""

    relation: str
    call: exp.Expr
    outer: bool
    columns: tuple[str, ...]

    def column(self, name: str) -> exp.Expr:
        """One of its columns, as bound expressions have it."""
        return exp.column(name, table=self.relation, quoted=True)


def generator_of(node: exp.Expr) -> exp.Anonymous | None:
    """The generator that a projection is a call of; json_tuple of one field gives a value."""
    value = node.this if isinstance(node, (exp.Alias, exp.Aliases)) else node
    if not isinstance(value, exp.Anonymous):
        return None
    name = str(value.this).lower()
    known = name in functions.GENERATORS - functions.TIME_GROUPS
    return value if known or (name == "json_tuple" and not isinstance(node, exp.Alias)) else None


def make_generation(block: Block, views: list[View], conditions: list[exp.Expr]) -> Generation:
    """Put the rows that the generators read into the block's outputs; give what is made of them.

    Args:
        conditions: filters that read generated columns.
    """
    maker = _Maker(views)
    outputs = tuple(maker.output(name, node) for name, node, _ in block.outputs)
    generators = tuple(
        Generator(text(maker.over(view.call)), view.outer, f"v{i}", maker.names(i))
        for i, view in enumerate(views)
    )
    late = tuple(text(exp.paren(maker.over(c))) for c in conditions)
    block.outputs = maker.projections()
    return Generation(generators, outputs, late)


class _Maker:
    """Rewrites expressions over relations and generators to such over the joined rows."""

    def __init__(self, views: list[View]) -> None:
        self._views = views
        self._generated = {
            (view.relation, name): (f"v{i}", f"v{i}_{j}")
            for i, view in enumerate(views)
            for j, name in enumerate(view.columns)
        }
        self._rows: dict[str, tuple[str, exp.Expr]] = {}

    def names(self, number: int) -> tuple[str, ...]:
        return tuple(f"v{number}_{j}" for j in range(len(self._views[number].columns)))

    def projections(self) -> list[Named]:
        """What is read of the joined rows; at least one column."""
        if not self._rows:
            self._row(exp.true())
        return [(name, value, value) for name, value in self._rows.values()]

    def output(self, name: str, node: exp.Expr) -> Output:
        if any((c.table, c.name) in self._generated for c in node.find_all(exp.Column)):
            return Output(name, text(self.over(node)))
        row = self._row(node)
        return Output(name, text(input_column(row)), row)

    def over(self, node: exp.Expr) -> exp.Expr:
        return with_columns(node, self._column)

    def _column(self, column: exp.Column) -> exp.Expr:
        made = self._generated.get((column.table, column.name))
        if made is None:
            return input_column(self._row(column))
        return exp.column(made[1], table=made[0], quoted=True)

    def _row(self, node: exp.Expr) -> str:
        name, _ = self._rows.setdefault(plain(node), (f"r{len(self._rows)}", node.copy()))
        return name
