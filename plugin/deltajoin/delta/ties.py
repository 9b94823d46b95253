"""Whether rows that tie in an order leave values open.

A window function such as `row_number`, and a sum over ROWS, gives rows that tie whatever Spark
happens to give them. Where its partition and order columns hold a key of the joined rows
(`delta.identity`), or fix a row of each relation, no rows tie, which the statements check at each
run. So it is of the last quote before each trade, as (l.id, r.ts) fix l, and with it r.k:

    row_number() OVER (PARTITION BY l.id ORDER BY r.ts DESC)  of  l LEFT JOIN r ON l.k = r.k AND ...

Elsewhere the statements look for rows that differ and tie, under windows in two such orders also
for copies of a row, which each order numbers in its own way. As long as there are none, the window
has one result, and is kept; from the first ones on the query is run as its own text.

In an aggregate over ordered rows, those of a group that tie must agree in what the value is made
of. They do where that

    is the order itself     sort_array(collect_list(x)): values that tie are the same, as of a plain
                            type (not of floats, where 0.0 ties with -0.0, nor under collations)
    is fixed by it          the order and the group's keys hold a declared key of the relation that
                            the value is read from, or a column that is equal to it; or this
                            relation is looked up by key from one that is so fixed
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from deltajoin.delta.identity import (
    Keys,
    Types,
    independent_relations,
    joined_columns,
    target_key,
)
from deltajoin.delta.signed_zeros import rows_apart
from deltajoin.errors import Refusal
from deltajoin.graph import ColumnRef, Core, JoinGraph, Predicate
from deltajoin.layers import INPUT, Order
from deltajoin.sql.dialect import parse_expression, text, with_columns
from deltajoin.sql.kinds import PLAIN, exact_type
from deltajoin.sql.nodes import column
from deltajoin.sql.ordered import Ordered, ordered_calls

_TEXTS = frozenset(
    """
    concat_ws date_format format_string hex initcap left lower lpad ltrim md5 regexp_replace replace
    right rpad rtrim sha1 sha2 substr substring to_json upper
    """.split()
)
_MAY_TIE = (
    "a window function depends on the order of rows that tie, and is not kept where the target "
    "stores its partition in a hidden column, under a view"
)
_TIED = "rows that differ tie in the order of a window function, which leaves its result open"
_REMEDY = (
    "Sort what is collected (sort_array, WITHIN GROUP (ORDER BY ...)) by the value itself or by a "
    "declared key; cast floats to decimals."
)


def with_ties_compared(graph: JoinGraph, keys: Keys, types: Types) -> JoinGraph:
    """The graph whose windows, at any depth, compare rows that tie where no key rules ties out."""
    derived = tuple(
        replace(d, graph=with_ties_compared(d.graph, keys, types)) for d in graph.derived
    )
    windowing = graph.windowing
    if windowing is not None:
        orders = []
        for order in windowing.orders:
            if _is_total(graph, order, keys, types):
                orders.append(order)
            elif compared := _beside(graph, order, types):
                orders.append(replace(order, compared=compared))
        windowing = replace(windowing, orders=tuple(orders))
    return replace(graph, derived=derived, windowing=windowing)


def _beside(graph: JoinGraph, order: Order, types: Types) -> tuple[str, ...]:
    """In what rows that tie in an order may differ."""
    names = [text(column(name, INPUT)) for name in graph.row_names if name not in order.columns]
    apart = (text(column(name, INPUT)) for name in rows_apart(graph, types))
    return (*names, *(f"CAST({name} AS STRING)" for name in apart))


def _is_total(graph: JoinGraph, order: Order, keys: Keys, types: Types) -> bool:
    """Whether keys rule out that rows tie in an order."""
    if graph.generation is not None:
        return False
    shown = tuple(p for p in graph.projections if p.name in order.columns)
    given = {p.column for p in shown if p.column is not None}
    identified = target_key(replace(graph, projections=shown), keys, types)
    return bool(identified) or Fixed(graph, keys, types, given).is_row


def open_windows(graph: JoinGraph, *, tied: bool) -> Refusal | None:
    """What stands against windows, at any depth, in whose order rows may tie, or are `tied`."""
    found = [
        _named(part, order)
        for part in graph.parts
        for order in (part.windowing.orders if part.windowing else ())
        if order.compared
    ]
    return (
        Refusal(
            "WINDOW_TIES",
            _TIED if tied else _MAY_TIE,
            "; ".join(dict.fromkeys(found)),
            "Declare keys of the tables, and add the columns of the row's key to ORDER BY.",
        )
        if found
        else None
    )


def _named(graph: JoinGraph, order: Order) -> str:
    """The columns of a window's partition and order, as the query has them."""
    below = {p.name: p.sql.replace("`", "") for p in graph.projections}
    return ", ".join(below.get(name, name) for name in order.columns) or "the window"


def _as_written(graph: JoinGraph, node: exp.Expr) -> exp.Expr:
    """An expression above the joined rows, over the tables' columns."""
    rows = {p.name: parse_expression(p.sql) for p in graph.projections}
    return with_columns(node, lambda c: rows[c.name].copy() if c.table == INPUT else None)


def ambiguous_aggregate(graph: JoinGraph, keys: Keys, types: Types) -> Refusal | None:
    """What stands against keeping aggregates whose order may leave rows tied."""
    for call in _calls(graph):
        if not _Rows(graph, keys, types, call).is_fixed:
            name = str(call.call.this).lower()
            return Refusal(
                "AGGREGATE_ORDER",
                f"{name}() depends on the order of rows that tie, and is not kept incrementally",
                text(_as_written(graph, call.call)).replace("`", ""),
                _REMEDY,
            )
    return None


def identifying_relations(
    graph: JoinGraph, keys: Keys, types: Types, keyed: bool
) -> tuple[str, ...]:
    """The relations whose keys must be unique, NULL included, for rows to be identified, or for
    values to be fixed."""
    if graph.grouping is not None:
        found = {name for call in _calls(graph) for name in _Rows(graph, keys, types, call).fixed}
        return tuple(sorted(found))
    if graph.windowing is not None:
        ordered = any(not order.compared for order in graph.windowing.orders)
        keyed = ordered or (keyed and not graph.windowing.first_of)
    return independent_relations(graph, keys, types) if keyed else ()


def _calls(graph: JoinGraph) -> Iterator[Ordered]:
    grouping = graph.grouping
    for sql in (*(sql for _, sql in grouping.outputs), grouping.having) if grouping else ():
        yield from ordered_calls(parse_expression(sql)) if sql else ()


class Fixed:
    """What given columns of the joined rows fix: further columns, and whole relations."""

    def __init__(self, graph: JoinGraph, keys: Keys, types: Types, given: set[ColumnRef]) -> None:
        self._graph, self._keys, self._types = graph, keys, types
        self.columns, self.fixed = given, set[str]()
        branches = graph.branches
        if len(branches) == 1 and not graph.has_union:
            self._grow(branches[0], branches[0].early)

    @property
    def is_row(self) -> bool:
        """True when one joined row at most has these values."""
        shown = [name for core in self._graph.branches for name in _shown(core)]
        return bool(shown) and self.fixed.issuperset(shown)

    def _has(self, ref: ColumnRef) -> bool:
        return ref in self.columns or ref[0] in self.fixed

    def _type_of(self, ref: ColumnRef) -> str:
        return self._types.get((self._graph.by_name[ref[0]].source, ref[1]), "")

    def _grow(self, core: Core, edges: tuple[Predicate, ...]) -> None:
        """Add what equalities and keys fix in a core, then in what is attached to it."""
        grew = True
        while grew:
            size = len(self.columns) + len(self.fixed)
            for edge in edges:
                self._equate(edge)
            for name in core.relations:
                key = self._keys.get(self._graph.by_name[name].source)
                if key and all(self._has((name, column)) for column in key):
                    self.fixed.add(name)
            grew = len(self.columns) + len(self.fixed) > size
        for attachment in core.attachments:
            inner = frozenset(attachment.core.everything)
            outer = [ref for p in attachment.on for ref in p.refs if ref[0] not in inner]
            if attachment.kind == "left" and all(self._has(ref) for ref in outer):
                self._grow(attachment.core, (*attachment.on, *attachment.core.early))

    def _equate(self, edge: Predicate) -> None:
        if edge.left is None or edge.right is None:
            return
        kind = self._type_of(edge.left)
        if kind == self._type_of(edge.right) and PLAIN.fullmatch(kind):
            for one, other in ((edge.left, edge.right), (edge.right, edge.left)):
                if self._has(one):
                    self.columns.add(other)


def _shown(core: Core) -> Iterator[str]:
    """The relations whose rows are in the joined rows."""
    yield from core.relations
    for attachment in core.attachments:
        if attachment.kind == "left":
            yield from _shown(attachment.core)


class _Rows(Fixed):
    """The rows of a group that tie in an order: what is the same in all of them."""

    def __init__(self, graph: JoinGraph, keys: Keys, types: Types, call: Ordered) -> None:
        self._graph, self._types, self._call = graph, types, call
        self._below = joined_columns(graph)
        grouping = graph.grouping
        given = [*call.by, *(exp.column(key) for key in (grouping.keys if grouping else ()))]
        columns = [e for e in given if isinstance(e, exp.Column) and self._is_plain(e)]
        self._given = {e.name for e in columns}
        read = map(self._read, columns)
        super().__init__(graph, keys, types, {ref for ref in read if ref is not None})

    @property
    def is_fixed(self) -> bool:
        """True when the value of the aggregate is one only."""
        by = {text(e) for e in self._call.by if self._is_plain(e)}
        return all(
            text(value) in by or all(map(self._is_same, value.find_all(exp.Column)))
            for value in self._call.values
        )

    def _is_same(self, column: exp.Column) -> bool:
        if column.name in self._given:
            return True
        ref = self._read(column)
        return ref is not None and self._has(ref)

    def _read(self, column: exp.Column) -> ColumnRef | None:
        """The relation's column that a column of the rows is; None where branches may differ."""
        if len(self._graph.branches) > 1:
            return None
        name = self._below.get(column.name)
        return next((p.column for p in self._graph.projections if p.name == name), None)

    def _type(self, column: exp.Column) -> str:
        """The type of a column of the rows, "" where branches differ or it is not known."""
        name, found = self._below.get(column.name), set()
        for core in self._graph.branches:
            ref = next((p.column for p in self._graph.outputs(core) if p.name == name), None)
            found.add(self._type_of(ref) if ref else "")
        return found.pop() if len(found) == 1 else ""

    def _is_plain(self, node: exp.Expr) -> bool:
        """True for values of which those that are equal are the same."""
        node = node.unnest()
        if isinstance(node, exp.Cast):
            return PLAIN.fullmatch(node.to.sql("spark").lower()) is not None
        if isinstance(node, exp.Column):
            return PLAIN.fullmatch(self._type(node)) is not None
        if exact_type(node, self._type) is not None:
            return True
        is_text = isinstance(node, exp.Anonymous) and str(node.this).lower() in _TEXTS
        return is_text and all(PLAIN.fullmatch(self._type(c)) for c in node.find_all(exp.Column))
