"""A correlated subquery that takes the last row before each, or the first after, and what every
such ASOF join is made of.

    (SELECT r.price FROM r WHERE r.k = l.k AND r.ts <= l.ts ORDER BY r.ts DESC LIMIT 1)
    (SELECT max_by(r.price, r.ts) FROM r WHERE r.k = l.k AND r.ts <= l.ts)
    LATERAL (SELECT r.price FROM r WHERE ... ORDER BY r.ts DESC LIMIT 1) AS x

The candidates with each one's neighbour are a source, and what is taken is the row whose neighbour
is beyond the value that bounds them (`delta.neighbours`):

    LEFT JOIN (SELECT *, lead(ts) OVER (PARTITION BY k ORDER BY ts) AS next_ts FROM r) AS r
    ON r.k = l.k AND r.ts <= l.ts AND (l.ts < r.next_ts OR r.next_ts IS NULL)

A declared key of the table must say that no two candidates tie. Everything else is none of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from deltajoin.graph import Derived
from deltajoin.names import SHOWN, UniqueNames, quote
from deltajoin.sql.bounds import Bounds
from deltajoin.sql.clock import moves
from deltajoin.sql.columns import bound, flattened
from deltajoin.sql.dialect import clauses_of, closed, exchanged, text, unwrapped
from deltajoin.sql.group_keys import is_aggregate
from deltajoin.sql.keys import comparisons
from deltajoin.sql.nodes import column, function_name, is_not_null, is_null, is_star, own_name
from deltajoin.sql.nulls import is_null_without
from deltajoin.sql.predicates import predicate_of, relations_in
from deltajoin.sql.refuse import check_expression
from deltajoin.sql.scope import Block, Scope
from deltajoin.sql.tables import find_cte

if TYPE_CHECKING:
    from deltajoin.sql.binder import Binder

#: Aggregates of the row that is last in an order, and of the one that is first.
_LAST, _FIRST = frozenset({"max", "max_by"}), frozenset({"min", "min_by"})


@dataclass(frozen=True)
class Taken:
    """The candidate that is taken: the last by `at`, or the first; `ties` decide among equals."""

    at: exp.Column
    last: bool
    ties: tuple[exp.Expr, ...] = ()

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.at.table}, the {'last' if self.last else 'first'} by {self.at.name}"

    def order(self, bounds: Bounds) -> set[str] | None:
        """The columns by which candidates differ; None where others decide, or nothing leads to
        them."""
        ties = [tie.this for tie in self.ties]
        if not bounds.partition or bounds.value is None:
            return None
        if not all(isinstance(tie, exp.Column) and tie.table == self.at.table for tie in ties):
            return None
        return {*bounds.partition, self.at.name, *(tie.name for tie in ties)}

    def beside(self, columns: Iterable[str]) -> str:
        """A name for the neighbour's value, beside columns."""
        which = "next" if self.last else "previous"
        return UniqueNames(tuple(columns)).take(f"{which}_{self.at.name}")

    def neighbours(self, columns: Sequence[str], bounds: Bounds) -> str:
        """The candidates' table, called r, with each row's neighbour."""
        here = quote(self.at.table)
        ties = (text(_turned(tie) if self.last else tie) for tie in self.ties)
        order = ", ".join((text(self.at), *ties))
        by = ", ".join(f"{here}.{quote(name)}" for name in bounds.partition)
        function = "lead" if self.last else "lag"
        window = f"{function}({text(self.at)}) OVER (PARTITION BY {by} ORDER BY {order})"
        given = ", ".join(f"{here}.{quote(name)}" for name in columns)
        where = " AND ".join(f"({predicate.sql})" for predicate in bounds.own) or "TRUE"
        select = f"SELECT {given}, {window} AS {quote(self.beside(columns))}"
        return f"{select} FROM r AS {here} WHERE {where}"  # noqa: S608 - the query's own parts

    def until(self, columns: Iterable[str], bounds: Bounds) -> exp.Expr:
        """The condition that the neighbour lies on the other side of the value."""
        assert bounds.value is not None  # noqa: S101 - the caller's promise
        value, strict = bounds.value
        kinds: dict[tuple[bool, bool], type[exp.Binary]]
        kinds = {(True, False): exp.LT, (True, True): exp.LTE}
        kinds |= {(False, False): exp.GT, (False, True): exp.GTE}
        neighbour = column(self.beside(columns), self.at.table)
        within = kinds[self.last, strict](this=closed(value), expression=neighbour)
        return exp.Or(this=within, expression=is_null(neighbour.copy()))


def taken_by_aggregates(nodes: Iterable[exp.Expr]) -> Taken | None:
    """The row whose values all aggregates in bound expressions give; None where there is no one."""
    found: dict[tuple[str, bool], Taken] = {}
    for call in (part for node in nodes for part in node.walk() if is_aggregate(part)):
        name = function_name(call)
        values = [part.unnest() for part in call.expressions]
        by = values.pop() if values else None
        plain = not isinstance(call.parent, (exp.Filter, exp.WithinGroup, exp.Window))
        if name not in _LAST | _FIRST or len(values) != name.endswith("_by") or not plain:
            return None
        if not isinstance(by, exp.Column):
            return None
        found[text(by), name in _LAST] = Taken(by, name in _LAST)
    return found.popitem()[1] if len(found) == 1 else None


def without_aggregates(node: exp.Expr, at: exp.Column) -> exp.Expr:
    """The expression over the row that is taken; an aggregate is NULL where there is none, whatever
    it makes of one."""

    def value(part: exp.Expr) -> exp.Expr | None:
        return present(part.expressions[0], at) if is_aggregate(part) else None

    return exchanged(node, value)


def present(value: exp.Expr, at: exp.Column) -> exp.Expr:
    """A value of the row that is taken; NULL where there is none."""
    if is_null_without(value, frozenset({at.table})):
        return closed(value)
    there = is_not_null(at.copy())
    return exp.Paren(this=exp.case().when(there, closed(value)))


def _turned(tie: exp.Expr) -> exp.Expr:
    """A part of ORDER BY the other way round."""
    made = tie.copy()
    made.set("desc", not tie.args.get("desc"))
    made.set("nulls_first", not tie.args.get("nulls_first"))
    return made


# correlated subqueries ----------------------------------------------------------------------------

_PARTS = frozenset({"expressions", "from_", "where"})


@dataclass(frozen=True)
class Nearest:
    """A source of candidates, as a block that gives out what the subquery does, the conditions that
    find one of them, and the column of their order."""

    block: Block
    on: list[exp.Expr]
    at: exp.Column


def nearest(binder: Binder, query: exp.Query, scope: Scope) -> Nearest | None:
    """What a correlated subquery takes, once its candidates are a source; None for any other."""
    select = unwrapped(query)
    if not isinstance(select, exp.Select) or not _may_take_one(select):
        return None
    inner = binder.inner()
    inner.names = binder.names.copy()
    rows, inside = inner.rows(select, scope)
    ((relation, source),) = inner.relations
    if any(map(moves, rows.conjuncts)):
        return None
    outputs = list(_outputs(select, inside))
    values = [value for _, value, _ in outputs]
    taken = _by_order(select, inside) or taken_by_aggregates(values)
    columns = binder.columns[source]
    if taken is None or taken.at.table != relation or SHOWN in columns:
        return None

    def type_of(node: exp.Column) -> str:
        return (inner if node.table == relation else binder).type_of(node)

    around = frozenset().union(*map(relations_in, rows.conjuncts)) - {relation}
    bounds = Bounds(taken.at, taken.last, around, type_of)
    if not all(bounds.add(predicate_of(conjunct)) for conjunct in rows.conjuncts):
        return None
    order, key = taken.order(bounds), binder.sources.keys.get(source)
    if order is None or not key or not order.issuperset(key):
        return None
    parts = (*values, *rows.conjuncts, taken.at, *(tie.this for tie in taken.ties))
    read = {(c.table, c.name) for node in parts for c in node.find_all(exp.Column)}
    used = [name for name in columns if (relation, name) in read]
    graph = binder.over_table(source, used, taken.neighbours(used, bounds))
    derived = Derived(binder.sources.names.take(f"{relation}_neighbours"), graph, asof=taken.text)
    binder.derived[derived.name] = derived
    binder.relations.append((binder.names.take(relation), derived.name))
    if not select.args.get("limit"):
        outputs = [(name, without_aggregates(v, taken.at), at) for name, v, at in outputs]
    block = Block(items=[relation], outputs=outputs)
    return Nearest(block, [*rows.conjuncts, taken.until(used, bounds)], taken.at)


def _may_take_one(select: exp.Select) -> bool:
    """True for a SELECT from one table under comparisons: of its first row, or a total."""
    said = clauses_of(select)
    source, where, limit = (select.args.get(name) for name in ("from_", "where", "limit"))
    if source is None or where is None:
        return False
    if any(node.find(exp.Query) for node in (where, *select.expressions)):
        return False
    plain = isinstance(source.this, exp.Table) and isinstance(source.this.this, exp.Identifier)
    if not plain or source.this.args.get("pivots") or find_cte(source.this):
        return False
    if limit is not None:
        one = said == _PARTS | {"order", "limit"} and text(limit.expression) == "1"
    else:
        one = said == _PARTS and _takes_one(select)
    return one and any(map(comparisons, flattened(where.this)))


def _takes_one(select: exp.Select) -> bool:
    """True for aggregates that give values of one row."""
    calls = [p for node in select.expressions for p in node.walk() if is_aggregate(p)]
    return bool(calls) and all(function_name(call) in _LAST | _FIRST for call in calls)


def _outputs(select: exp.Select, scope: Scope) -> Iterator[tuple[str, exp.Expr, exp.Expr]]:
    for node in select.expressions:
        if is_star(node):
            yield from ((name, value, node) for name, value in scope.expand_star(node))
            continue
        check_expression(node, grouped=not select.args.get("limit"))
        yield own_name(node), bound(node.unalias(), scope), node


def _by_order(select: exp.Select, scope: Scope) -> Taken | None:
    """The first row by ORDER BY, which may also speak of what is given out."""
    order = select.args.get("order")
    if order is None:
        return None
    given = {node.alias.lower() for node in select.expressions if isinstance(node, exp.Alias)}
    parts = [part.copy() for part in order.expressions]
    for part in parts:
        bare = [c.name.lower() for c in part.find_all(exp.Column) if not c.table]
        if not given.isdisjoint(bare):
            return None
        part.set("this", bound(part.this, scope).unnest())
    first, *ties = parts
    if not isinstance(first.this, exp.Column):
        return None
    return Taken(first.this, bool(first.args.get("desc")), tuple(ties))
