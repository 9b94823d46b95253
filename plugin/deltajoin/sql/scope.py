"""What one SELECT is while it is bound: its block of joins, and the names in its FROM clause.

An item is a base table (its columns are themselves) or an inlined subquery (its columns stand for
expressions over base relations). Resolution follows Spark: case-insensitive; a qualified name wins
over a struct field; a name that several items have is ambiguous. A join with USING puts its columns
first; those of the other side remain, but only under the name of their table:

    a(x, k) JOIN b(k, y) USING (k)      *: k, x, y      a.*: k, x      b.*: k, y      k: a.k
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from deltajoin.errors import DeltaJoinError, Refusal
from deltajoin.graph import Grouping
from deltajoin.layers import Generation, Windowing
from deltajoin.sql import functions
from deltajoin.sql.dialect import refused, with_fields
from deltajoin.sql.grammar import is_word
from deltajoin.sql.nodes import Given, Named, own_name
from deltajoin.sql.refuse import Unsupported, changing, is_bare

#: The hidden column of every table that Spark reads from files.
OF_FILES = "_metadata"


#: A column that Spark has beside grouping sets.
_OF_SETS = "grouping__id"


class UnknownColumn(DeltaJoinError):
    """No table of a FROM has a column of this name.

    `name` is its first part, empty for a table of this FROM; `parts`: how many it has.
    """

    def __init__(self, refusal: Refusal, name: str, parts: int) -> None:
        super().__init__(refusal.code, refusal.message, where=refusal.where, remedy=refusal.remedy)
        self.name, self.parts = name, parts

    def is_known(self, query: exp.Query, columns: Mapping[str, tuple[str, ...]]) -> bool:
        """True where the query knows the name elsewhere: as an alias, as what Spark calls a column
        without a name or, where a subquery may speak of rows around it, as a table or a column of
        one. Spark tells then."""
        selects = [*query.find_all(exp.Select)]
        entries = (e for select in selects for e in select.expressions)
        names = {own_name(e).lower() for e in entries if not is_word(e)}
        if "" in names and not self.name.isidentifier():
            return bool(self.name)
        if any(map(_may_be_correlated, selects)):
            tables = query.find_all(exp.Table, exp.Subquery)
            aliases = {table.alias_or_name.lower() for table in tables}
            inside = {name.lower() for names in columns.values() for name in names}
            names |= aliases if self.parts > 1 else inside
        return self.name in names - {""} or self.name == _OF_SETS


def _may_be_correlated(select: exp.Select) -> bool:
    """True in an expression or in LATERAL."""
    around = select.parent
    while isinstance(around, (exp.Subquery, exp.SetOperation)):
        around = around.parent
    return around is not None and not isinstance(around, (exp.From, exp.Join, exp.CTE))


@dataclass
class Block:
    """A select: relations and outer joins under conjuncts, and what it gives out.

    `crossed`: a comma stands before, which binds less tightly than a right or full join.
    """

    items: list[str | Outer | Union] = field(default_factory=list)
    conjuncts: list[exp.Expr] = field(default_factory=list)
    outputs: list[Given] = field(default_factory=list)
    crossed: bool = False

    @property
    def parts(self) -> Iterator[Block]:
        """The blocks below and itself, innermost first."""
        for item in self.items:
            if not isinstance(item, str):
                yield from item.left.parts
                yield from item.right.parts
        yield self

    @property
    def relations(self) -> frozenset[str]:
        """All relations below."""
        items = (item for part in self.parts for item in part.items)
        names = (item.name if isinstance(item, Union) else item for item in items)
        return frozenset(name for name in names if isinstance(name, str))

    @property
    def columns(self) -> list[Named]:
        """What it gives out, without where it is written."""
        return [(name, value) for name, value, _ in self.outputs]

    def add(self, other: Block) -> None:
        """Join another block inner."""
        self.items += other.items
        self.conjuncts += other.conjuncts

    def all_conjuncts(self) -> list[exp.Expr]:
        """Its own conjuncts and all below."""
        found: list[exp.Expr] = []
        for part in self.parts:
            joins = (item for item in part.items if isinstance(item, Outer))
            found += (*part.conjuncts, *(c for join in joins for c in join.on))
        return found


@dataclass
class Outer:
    """A left, full, semi or anti join of two blocks."""

    kind: str
    left: Block
    right: Block
    on: list[exp.Expr]


@dataclass(frozen=True)
class Output:
    """One column of a union; `kind` is its type, empty where it is not known, only alike."""

    name: str
    left: exp.Expr
    right: exp.Expr
    kind: str


@dataclass
class Union:
    """All rows of two blocks, as columns of the relation `name`."""

    name: str
    left: Block
    right: Block
    outputs: list[Output]


@dataclass
class Item:
    """One entry of FROM: its qualifiers (longest first) and its columns in order.

    `hidden` are those that USING took from it, `several` the names that more than one column has,
    `unlike` those of them for unlike values; `unnamed`: a column has no name of its own.
    """

    qualifiers: tuple[tuple[str, ...], ...]
    columns: dict[str, Named]
    hidden: set[str] = field(default_factory=set)
    several: frozenset[str] = frozenset()
    unlike: frozenset[str] = frozenset()
    unnamed: bool = False


@dataclass(frozen=True)
class Shown:
    """A column of a star: its name, what it stands for, and the item that it belongs to."""

    name: str
    value: exp.Expr
    item: Item | None


@dataclass
class Scope:
    """The items of one SELECT, and the columns that USING merged, the latest join's first.

    `owners`: merged column -> the item whose column it is, None for one made of both sides.
    `apart`: columns that only a qualified name reaches, the latest join's first.
    """

    items: list[Item] = field(default_factory=list)
    merged: dict[str, Named] = field(default_factory=dict)
    aliases: dict[str, exp.Expr] = field(default_factory=dict)
    outer: Scope | None = None
    owners: dict[str, Item | None] = field(default_factory=dict)
    apart: list[tuple[Item, str]] = field(default_factory=list)

    @property
    def names(self) -> set[str]:
        """The names of all columns, in lower case."""
        return {key for item in self.items for key in item.columns} | set(self.merged)

    def resolve(self, node: exp.Column) -> exp.Expr:
        """The expression over base relations that a column name stands for.

        Raises:
            DeltaJoinError: UNKNOWN_COLUMN, AMBIGUOUS_COLUMN.
            Unsupported: NON_DETERMINISTIC (`current_date` without parentheses), UNNAMED_COLUMN.
        """
        parts = [part.name for part in node.parts]
        for size in range(len(parts) - 1, 0, -1):
            items = self._qualified(parts[:size])
            found = _found(items, parts[size])
            if found and not self._is_a_field(items, parts, size):
                return _single(found, parts[size + 1 :], node)
        return self._unqualified(parts, node)

    def _is_a_field(self, items: list[Item], parts: list[str], size: int) -> bool:
        """Whether `k.k`, which USING hides of a table `k`, is a field of the visible column `k`."""
        first, name = parts[0].lower(), parts[size].lower()
        apart = [item for item, column in self.apart if column == name]
        hides = all(any(item is one for one in apart) for item in items if name in item.columns)
        return hides and (first in self.merged or bool(_found(self._showing(first), first)))

    def _showing(self, name: str) -> list[Item]:
        """The items of which a column is not hidden."""
        return [item for item in self.items if name not in item.hidden]

    def _qualified(self, parts: list[str]) -> list[Item]:
        qualifier = tuple(part.lower() for part in parts)
        return [item for item in self.items if qualifier in item.qualifiers]

    def _unqualified(self, parts: list[str], node: exp.Column) -> exp.Expr:
        name = parts[0].lower()
        found = [self.merged[name][1].copy()] if name in self.merged else []
        found += _found(self._showing(name), name)
        if found:
            return _single(found, parts[1:], node)
        if len(parts) == 1 and name in functions.BARE:
            return exp.Anonymous(this=name)
        if name in self.aliases:
            return _single([self.aliases[name].copy()], parts[1:], node)
        if self.outer is not None:
            return self.outer.resolve(node)
        if is_bare(node):
            raise changing(name, node)
        if OF_FILES in map(str.lower, parts):
            what = f"{OF_FILES}, which changes when OPTIMIZE exchanges a table's files,"
            raise Unsupported("FILE_METADATA", what, node, "Copy it into a column when loading.")
        shown = ".".join(parts)
        if any(item.unnamed for item in self.items):
            what = f"'{shown}', perhaps the name that Spark gives a column without a name,"
            raise Unsupported("UNNAMED_COLUMN", what, node, "Give the column a name.")
        names = [name for item in self.items for name, _ in item.columns.values()]
        known = ", ".join(names[:40]) + (" ..." if len(names) > 40 else "")
        what = f"no table of this FROM has the column '{shown}'"
        error = refused("UNKNOWN_COLUMN", what, node, f"Columns here: {known}.")
        raise UnknownColumn(error.refusal, "" if self._qualified(parts[:1]) else name, len(parts))

    def first(self, name: str) -> Shown | None:
        """The first visible column of a name: the one that USING means."""
        return next((column for column in self.shown() if column.name.lower() == name), None)

    def shown(self) -> list[Shown]:
        """All visible columns in Spark's order."""
        found = [Shown(n, e, self.owners.get(key)) for key, (n, e) in self.merged.items()]
        for item in self.items:
            found += [Shown(*c, item) for key, c in item.columns.items() if key not in item.hidden]
        return found

    def expand_star(self, star: exp.Expr) -> list[Named]:
        """Output columns of `*`, `t.*` and `* EXCEPT (...)`, in Spark's order.

        Raises:
            Unsupported: STAR, for fields of structs; UNNAMED_COLUMN, DUPLICATE_COLUMN.
            DeltaJoinError: UNKNOWN_TABLE.
        """
        node = star.this if isinstance(star, exp.Column) else star
        if node.args.get("replace") or node.args.get("rename"):
            raise Unsupported("STAR", "* REPLACE", star, "List the columns.")
        if isinstance(star, exp.Column):
            columns = self._of_table(star)
            items = self._qualified([part.name for part in star.parts[:-1]])
        else:
            columns, items = self.shown(), self.items
        if any(item.unnamed or item.several for item in items):
            what = "* over columns without a name or with the same"
            raise Unsupported("UNNAMED_COLUMN", what, star, "Give each column its own name.")
        dropped = [self._dropped(e, columns, star) for e in node.args.get("except_") or []]
        return [(c.name, c.value.copy()) for c in columns if not any(c is d for d in dropped)]

    def _of_table(self, star: exp.Column) -> list[Shown]:
        """The columns of `t.*`: what USING left to the table, what it put first, the rest."""
        parts = [part.name for part in star.parts[:-1]]
        table = ".".join(parts)
        found: list[Shown] = []
        items = self._qualified(parts)
        for item in items:
            first = [name for owner, name in self.apart if owner is item]
            first += [name for name in self.merged if self.owners.get(name) is item]
            order = [*first, *(name for name in item.columns if name not in first)]
            found += [Shown(*item.columns[name], item) for name in order]
        around = not items and self.outer is not None and self.outer._qualified(parts)
        if around or not items and self._is_column(parts):
            what = "a table around it" if around else "a struct"
            raise Unsupported("STAR", f"{table}.* over {what}", star, "List the columns.")
        if not items:
            what = f"no table '{table}' in FROM"
            raise refused("UNKNOWN_TABLE", what, star, "Use an alias of this FROM.")
        return found

    def _is_column(self, parts: list[str]) -> bool:
        try:
            self.resolve(exp.column(*reversed(parts)))
        except DeltaJoinError as error:
            return error.code == "AMBIGUOUS_COLUMN"
        return True

    def _dropped(self, name: exp.Expr, columns: list[Shown], star: exp.Expr) -> Shown:
        """The one column that an EXCEPT names, whole."""
        parts = [p.name.lower() for p in (name.parts if isinstance(name, exp.Column) else [name])]
        *qualifier, last = parts
        named = [column for column in columns if column.name.lower() == last]
        if qualifier:
            items = self._qualified(qualifier)
            named = [c for c in named if any(c.item is item for item in items)]
        if len(named) != 1:
            what = f"* EXCEPT ({'.'.join(parts)}), which is not one of its columns,"
            raise Unsupported("STAR", what, star, "List the columns.")
        return named[0]


def _found(items: list[Item], name: str) -> list[exp.Expr]:
    """The columns of a name, twice what stands for unlike values in one item."""
    key, found = name.lower(), []
    for item in items:
        if key in item.columns:
            found += [item.columns[key][1].copy()] * (2 if key in item.unlike else 1)
    return found


def _single(found: list[exp.Expr], fields: list[str], node: exp.Column) -> exp.Expr:
    """The one column that is meant, or a field of it."""
    if len(found) > 1:
        what = f"'{node.name}' is a column of several tables"
        raise refused("AMBIGUOUS_COLUMN", what, node, "Write the table's alias before it.")
    return with_fields(found[0], (exp.to_identifier(name, quoted=True) for name in fields))


@dataclass(frozen=True)
class Layered:
    """A bound query with layers: the joins, and what is made of their rows."""

    block: Block
    grouping: Grouping | None = None
    generation: Generation | None = None
    windowing: Windowing | None = None
