"""Derived sources whose rows divide a line: each reaches from its value to that of its neighbour.

    (SELECT k, ts, lead(ts) OVER (PARTITION BY k ORDER BY ts) AS next FROM quotes) AS r
    ON l.k = r.k AND l.ts >= r.ts AND (l.ts < r.next OR r.next IS NULL)

Whatever the order of ties, a value lies between two neighbours once at most: of the rows of a
partition, such a condition finds one. The values have to be of one type, or a comparison might
order them otherwise than the window does. Of the two rows on either side of a value, one is nearer:

    (t > r.last OR r.last IS NULL) AND (t < r.next OR r.next IS NULL)
    AND (t - r.ts <= r.next - t OR r.next IS NULL) AND (r.ts - t < t - r.last OR r.last IS NULL)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from deltajoin.graph import JoinGraph, Predicate
from deltajoin.layers import INPUT
from deltajoin.sql.dialect import parse_expression, parsed, text
from deltajoin.sql.keys import TURNED, beside_null, comparisons
from deltajoin.sql.kinds import kind_of
from deltajoin.sql.nodes import column, function_name
from deltajoin.sql.predicates import relations_in


@dataclass(frozen=True)
class Lookup:
    """A relation that is looked up: the relations that are known before, predicates, types."""

    relation: str
    known: frozenset[str]
    predicates: tuple[Predicate, ...]
    type_of: Callable[[exp.Column], str]


@dataclass(frozen=True)
class Line:
    """Columns of a source: its partitions, a value, and that of the next row (`upward`) or of the
    one before."""

    partition: tuple[str, ...]
    at: str
    beside: str
    upward: bool

    def finds_one(self, asked: Lookup) -> bool:
        """True when predicates put a value of known relations between a row and its neighbour."""
        before, after = ("<", ">") if self.upward else (">", "<")
        beyond = self._beyond(asked)
        return any(
            (one, less[0]) == (self.at, before)
            and "=" not in (less[1:] and more[1:])
            and text(value) == text(other)
            for one, less, value in self._compared(asked)
            for more, other in beyond
            if more[0] == after
        )

    def finds_nearest(self, other: Line, asked: Lookup) -> bool:
        """True when predicates take the nearer of two neighbours: of this one, which looks upward,
        and of the other, which looks back."""
        if (self.partition, self.at) != (other.partition, other.at) or other.upward:
            return False
        columns = (column(c, asked.relation) for c in (self.at, self.beside, other.beside))
        at, after, before = columns
        below = other._beyond(asked)
        for t in (value for how, value in self._beyond(asked) if how == ">"):
            to_next = _holds(asked, self.beside, _apart(t, at), _apart(after, t))
            to_last = _holds(asked, other.beside, _apart(at, t), _apart(t, before))
            between = ("<", text(t)) in ((how, text(value)) for how, value in below)
            if between and to_next and to_last and "<" in to_next | to_last:
                return True
        return False

    def _beyond(self, asked: Lookup) -> list[tuple[str, exp.Expr]]:
        """How the neighbour compares with values of known relations, of the line's type."""
        kind = asked.type_of(column(self.at, asked.relation))
        return [
            (how, value)
            for name, how, value in self._compared(asked)
            if name == self.beside and kind and kind_of(value, asked.type_of) == kind
        ]

    def _compared(self, asked: Lookup) -> Iterator[tuple[str, str, exp.Expr]]:
        """(column of the relation, operator, value of known relations); a row without a neighbour
        may be let through."""
        for predicate in asked.predicates:
            node, last = _with_neighbour(predicate, asked.relation, self.beside)
            for one, operator, two in comparisons(node):
                for mine, how, value in ((one, operator, two), (two, TURNED[operator], one)):
                    mine, held = mine.unnest(), relations_in(value)
                    here = isinstance(mine, exp.Column) and mine.table == asked.relation
                    if here and held and held <= asked.known:
                        if not last or mine.name == self.beside:
                            yield mine.name, how, value


def lines_of(graph: JoinGraph) -> Iterator[Line]:
    """The lines of a query that gives out a value and its neighbour, by lead() or lag()."""
    windowing = graph.windowing
    outputs = windowing.outputs if windowing else ()
    given = {output.column: output.name for output in outputs if output.column}
    for name, sql in windowing.windows if windowing else ():
        beside = next((o.name for o in outputs if o.sql == f"`{INPUT}`.`{name}`"), None)
        window = parse_expression(sql)
        function, order = function_name(window.this), window.args.get("order")
        if beside is None or function not in ("lead", "lag") or order is None:
            continue
        first = order.expressions[0]
        values = [*window.this.expressions, first.this]
        partition = window.args.get("partition_by") or []
        if first.args.get("desc") or len(values) != 2:
            continue
        names = [given.get(v.name) for v in (*partition, *values) if isinstance(v, exp.Column)]
        *columns, at, by = names if len(names) == len(partition) + 2 else (None, None)
        if at is not None and at == by and None not in columns:
            yield Line(tuple(map(str, columns)), at, beside, function == "lead")


def _with_neighbour(predicate: Predicate, relation: str, beside: str) -> tuple[exp.Expr, bool]:
    """What a predicate asks of a row that has a neighbour; whether it lets others through."""
    node, missing = parsed(predicate.sql).unnest(), text(column(beside, relation))
    rest = [rest for rest, null in beside_null(node) if text(null) == missing]
    return (rest[0], True) if len(rest) == 1 else (node, False)


def _apart(one: exp.Expr, other: exp.Expr) -> exp.Expr:
    return _bare(exp.Sub(this=exp.Paren(this=one.copy()), expression=exp.Paren(this=other.copy())))


def _bare(node: exp.Expr) -> exp.Expr:
    """The expression without brackets, whose parts still say what belongs together."""
    return node.transform(lambda part: part.unnest() if isinstance(part, exp.Paren) else part)


def _holds(asked: Lookup, beside: str, less: exp.Expr, more: exp.Expr) -> set[str]:
    """The operators, < or <=, by which predicates compare two values."""
    found = set()
    for predicate in asked.predicates:
        for one, how, two in comparisons(_with_neighbour(predicate, asked.relation, beside)[0]):
            sides = (_bare(one), _bare(two))
            how = how if sides == (less, more) else TURNED[how]
            if sides in ((less, more), (more, less)) and how[0] == "<":
                found.add(how)
    return found
