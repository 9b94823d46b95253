"""What one SELECT is while it is bound: its block of joins, and the names in its FROM clause.

An item is a base table (its columns are themselves) or an inlined subquery (its columns stand for
expressions over base relations). Resolution follows Spark: case-insensitive; a qualified name wins
over a struct field; a name that several items have is ambiguous, unless USING merged it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from deltajoin.errors import DeltaJoinError
from deltajoin.sql import functions
from deltajoin.sql.dialect import place
from deltajoin.sql.refuse import Unsupported, changing
from deltajoin.sql.union import Output


@dataclass
class Block:
    """A select: relations and outer joins under conjuncts, and what it gives out.

    `crossed`: a comma stands before, which binds less tightly than a right or full join.
    """

    items: list[str | Outer | Union] = field(default_factory=list)
    conjuncts: list[exp.Expr] = field(default_factory=list)
    outputs: list[tuple[str, exp.Expr, exp.Expr]] = field(default_factory=list)
    crossed: bool = False

    @property
    def relations(self) -> list[str]:
        """All relations below."""
        found: list[str] = []
        for item in self.items:
            if isinstance(item, str):
                found.append(item)
                continue
            found += item.left.relations + item.right.relations
            found += [item.name] if isinstance(item, Union) else []
        return found

    def add(self, other: Block) -> None:
        """Join another block inner."""
        self.items += other.items
        self.conjuncts += other.conjuncts

    def all_conjuncts(self) -> list[exp.Expr]:
        """Its own conjuncts and all below."""
        found = list(self.conjuncts)
        for item in self.items:
            if not isinstance(item, str):
                found += item.on if isinstance(item, Outer) else []
                found += [*item.left.all_conjuncts(), *item.right.all_conjuncts()]
        return found


@dataclass
class Outer:
    """A left, full, semi or anti join of two blocks."""

    kind: str
    left: Block
    right: Block
    on: list[exp.Expr]


@dataclass
class Union:
    """All rows of two blocks, as columns of the relation `name`."""

    name: str
    left: Block
    right: Block
    outputs: list[Output]


@dataclass
class Item:
    """One entry of FROM: its qualifiers (longest first) and its columns in order."""

    qualifiers: tuple[tuple[str, ...], ...]
    columns: dict[str, tuple[str, exp.Expr]]
    hidden: set[str] = field(default_factory=set)

    def column(self, name: str) -> exp.Expr | None:
        """The expression of a column, None when the item lacks it."""
        found = self.columns.get(name.lower())
        return found[1].copy() if found else None


@dataclass
class Scope:
    """The items of one SELECT, and the columns that USING merged."""

    items: list[Item] = field(default_factory=list)
    merged: dict[str, tuple[str, exp.Expr]] = field(default_factory=dict)
    aliases: dict[str, exp.Expr] = field(default_factory=dict)
    outer: Scope | None = None

    def resolve(self, node: exp.Column) -> exp.Expr:
        """The expression over base relations that a column name stands for.

        Raises:
            DeltaJoinError: UNKNOWN_COLUMN, AMBIGUOUS_COLUMN.
            Unsupported: NON_DETERMINISTIC (`current_date` without parentheses).
        """
        parts = [part.name for part in node.parts]
        for size in range(len(parts) - 1, 0, -1):
            qualifier = tuple(part.lower() for part in parts[:size])
            matching = [item for item in self.items if qualifier in item.qualifiers]
            found = [e for item in matching if (e := item.column(parts[size])) is not None]
            if found:
                return self._single(found, parts[size + 1 :], node)
        return self._unqualified(parts, node)

    def _unqualified(self, parts: list[str], node: exp.Column) -> exp.Expr:
        name = parts[0].lower()
        if name in self.merged:
            return _with_fields(self.merged[name][1].copy(), parts[1:])
        found = [e for item in self.items if (e := item.column(name)) is not None]
        if found:
            return self._single(found, parts[1:], node)
        if len(parts) == 1 and name in functions.BARE:
            return exp.Anonymous(this=name)
        if name in self.aliases:
            return _with_fields(self.aliases[name].copy(), parts[1:])
        if self.outer is not None:
            return self.outer.resolve(node)
        if len(parts) == 1 and name in functions.BARE_NON_DETERMINISTIC and not node.this.quoted:
            raise changing(name, node)
        shown = ".".join(parts)
        raise DeltaJoinError(
            "UNKNOWN_COLUMN",
            f"no table of this FROM has the column '{shown}'",
            where=place(node),
            remedy="Columns here: " + self._known() + ".",
        )

    def _single(self, found: list[exp.Expr], fields: list[str], node: exp.Column) -> exp.Expr:
        if len(found) > 1:
            raise DeltaJoinError(
                "AMBIGUOUS_COLUMN",
                f"'{node.name}' is a column of several tables",
                where=place(node),
                remedy="Write the table's alias before it.",
            )
        return _with_fields(found[0], fields)

    def _known(self) -> str:
        names = [shown for item in self.items for shown, _ in item.columns.values()]
        return ", ".join(names[:40]) + (" ..." if len(names) > 40 else "")

    def expand_star(self, star: exp.Expr) -> list[tuple[str, exp.Expr]]:
        """Output columns of `*`, `t.*` and `* EXCEPT (...)`, in Spark's order."""
        node = star.this if isinstance(star, exp.Column) else star
        if node.args.get("replace") or node.args.get("rename"):
            raise Unsupported("STAR", "* REPLACE", star, "List the columns.")
        dropped = {e.name.lower() for e in node.args.get("except_") or []}
        columns: list[tuple[str, exp.Expr]] = []
        if isinstance(star, exp.Column):
            qualifier = tuple(part.name.lower() for part in star.parts[:-1])
            items = [item for item in self.items if qualifier in item.qualifiers]
            if not items:
                raise DeltaJoinError(
                    "UNKNOWN_TABLE",
                    f"no table '{'.'.join(qualifier)}' in FROM",
                    where=place(star),
                    remedy="Use an alias of this FROM.",
                )
            columns = [column for item in items for column in item.columns.values()]
        else:
            columns = list(self.merged.values())
            for item in self.items:
                columns += [c for key, c in item.columns.items() if key not in item.hidden]
        return [(name, e.copy()) for name, e in columns if name.lower() not in dropped]


def _with_fields(expression: exp.Expr, fields: list[str]) -> exp.Expr:
    for name in fields:
        expression = exp.Dot(this=expression, expression=exp.to_identifier(name, quoted=True))
    return expression
