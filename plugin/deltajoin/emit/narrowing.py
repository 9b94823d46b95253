"""Scans of large tables that are cut down to what a change asks for.

A lookup by `o.id = s.order_id` can only meet rows whose id lies within the values that the stream
has. Where these are of a change, or of the touched keys, the runtime summarises them as a few
ranges (`runtime/narrowing.py`) and reads the table with these as literals, by which Delta leaves
out files and Parquet leaves out pages.

    Within     column of a relation in the stream -> the materialised columns that hold its values

Values go on from column to column by equality only where both have one known type: of others, what
is equal is not the same, and may lie outside of the range ('007' = 7 = '7').
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from deltajoin.catalog.statistics import IntegerBounds
from deltajoin.emit.ast import column, expression, is_null, pretty, union_all
from deltajoin.emit.ast import table as named_table
from deltajoin.graph import ColumnRef
from deltajoin.sql.keys import TURNED, comparisons
from deltajoin.sql.predicates import relations_in

#: A column of a view that is materialised when a scan within its values is opened.
Held = tuple[str, str]
Within = Mapping[ColumnRef, frozenset[Held]]
#: The type of a column of a relation, empty where it is not known.
TypeOf = Callable[[ColumnRef], str]


@dataclass(frozen=True)
class NarrowedKey:
    """Rows are asked for whose `column` is one of the values that some columns hold; or, with a
    `bound`, `from` the least of them on or up `to` the greatest."""

    column: str
    held: tuple[Held, ...]
    bound: str = ""


@dataclass(frozen=True)
class ListedFiles:
    """The Parquet files that hold a scan's rows: columns as Spark DDL; each file with the bounds of
    its values of some columns, None where they are not known."""

    schema: str
    columns: tuple[str, ...]
    files: tuple[tuple[str, tuple[IntegerBounds | None, ...]], ...]


@dataclass(frozen=True)
class NarrowedScan:
    """The rows of the view `of` within the ranges of all keys, or more of them; rows without a
    value of a key only where a NULL is among its values. `table` is what they are of, for people.
    Where its `files` are listed, few of them are read without Delta.
    """

    view: str
    of: str
    keys: tuple[NarrowedKey, ...]
    table: str
    files: ListedFiles | None = None

    @property
    def sql(self) -> str:
        """The scan within one range a key, for people and for engines that take it as text."""
        rows = exp.select("*").from_(named_table(self.of))
        return pretty(rows.where(*(_within(key) for key in self.keys)))


def _within(key: NarrowedKey) -> exp.Expr:
    def of_values(value: exp.Expr) -> exp.Expr:
        held = (exp.select(exp.alias_(column(n), "k")).from_(named_table(v)) for v, n in key.held)
        return exp.select(value).from_(union_all(*held).subquery("held")).subquery()

    mine, value = column(key.column), exp.column("k")
    low, high = (of_values(exp.func(name, value)) for name in ("min", "max"))
    if key.bound:
        return mine >= low if key.bound == "from" else mine <= high
    has_null = exp.case().when(is_null(value), "1").else_("0")
    missing = exp.and_(is_null(mine), of_values(exp.Max(this=has_null)).eq(1))
    return exp.or_(exp.Between(this=mine, low=low, high=high), missing)


def asked(pairs: Iterable[tuple[str, ColumnRef]], within: Within) -> tuple[NarrowedKey, ...]:
    """Keys of a looked-up relation, of its columns in pairs with columns of the stream."""
    held: dict[str, frozenset[Held]] = {}
    for name, ref in pairs:
        if ref in within:
            held.setdefault(name, within[ref])
    return tuple(NarrowedKey(name, tuple(sorted(values))) for name, values in sorted(held.items()))


def bounded(conditions: Iterable[str], relation: str, within: Within) -> tuple[NarrowedKey, ...]:
    """Keys of a looked-up relation, of its columns that conditions compare with the stream's."""
    found = set()
    for sql in conditions:
        for one, how, two in comparisons(expression(sql)):
            one, two = one.unnest(), two.unnest()
            for mine, other, turned in ((one, two, how), (two, one, TURNED[how])):
                if not (isinstance(mine, exp.Column) and isinstance(other, exp.Column)):
                    continue
                held = within.get((other.table, other.name))
                if mine.table == relation and held:
                    bound = "from" if turned.startswith(">") else "to"
                    found.add(NarrowedKey(mine.name, tuple(sorted(held)), bound))
    return tuple(sorted(found, key=lambda key: (key.column, key.bound, key.held)))


def equalities(conditions: Iterable[str], relation: str) -> list[tuple[str, exp.Expr]]:
    """Columns of a relation, each with what a condition holds it equal to: an expression over
    columns of others."""
    found = []
    for sql in conditions:
        node = expression(sql)
        if isinstance(node, exp.EQ):
            for mine, other in ((node.this, node.expression), (node.expression, node.this)):
                tables = relations_in(other)
                if isinstance(mine, exp.Column) and mine.table == relation and tables:
                    found += [(mine.name, other)] if relation not in tables else []
    return found


def equal_columns(conditions: Iterable[str], relation: str) -> list[tuple[str, ColumnRef]]:
    """Columns of a relation, each with a column of another that a condition holds it equal to."""
    pairs = equalities(conditions, relation)
    return [(n, (other.table, other.name)) for n, other in pairs if isinstance(other, exp.Column)]


def handed_on(
    within: Within, pairs: Iterable[tuple[str, ColumnRef]], relation: str, type_of: TypeOf
) -> Within:
    """What bounds columns of a relation that are equal to columns of the stream."""
    return {
        (relation, name): within[ref]
        for name, ref in pairs
        if ref in within and type_of(ref) and type_of(ref) == type_of((relation, name))
    }


def carried_on(within: Within, conditions: Iterable[str], relation: str, type_of: TypeOf) -> Within:
    """What bounds the stream's columns once a relation is joined inner under some conditions.

    Columns of another join are not bounded: they may be NULL where no value is, and `<=>` asks.
    """
    pairs = equal_columns(conditions, relation)
    return {**within, **handed_on(within, pairs, relation, type_of)}


def of_all(streams: Iterable[Within]) -> Within:
    """What bounds the columns of a union of streams."""
    first, *rest = streams
    return {
        ref: held.union(*(other[ref] for other in rest))
        for ref, held in first.items()
        if all(ref in other for other in rest)
    }


def placed(
    statements: Iterable[tuple[str, str]], narrowed: Iterable[NarrowedScan]
) -> Iterator[tuple[str, str]]:
    """Views with their texts in order, each narrowed scan among them once its values are held."""
    waiting, seen = list(narrowed), set[str]()
    for view, sql in statements:
        yield view, sql
        seen.add(view)
        ready = [scan for scan in waiting if seen >= {v for key in scan.keys for v, _ in key.held}]
        yield from ((scan.view, scan.sql) for scan in ready)
        waiting = [scan for scan in waiting if scan not in ready]
