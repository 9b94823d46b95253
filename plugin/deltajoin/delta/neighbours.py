"""Derived sources whose rows divide a line: each reaches from its value to that of its neighbour.

    (SELECT k, ts, lead(ts) OVER (PARTITION BY k ORDER BY ts) AS next FROM quotes) AS r
    ON l.k = r.k AND l.ts >= r.ts AND (l.ts < r.next OR r.next IS NULL)

Whatever the order of ties, a value lies between two neighbours once at most: of the rows of a
partition, such a condition finds one. The values have to be of one type, or a comparison might
order them otherwise than the window does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from deltajoin.graph import JoinGraph, Predicate
from deltajoin.layers import INPUT
from deltajoin.sql.dialect import parse_expression, parsed, text
from deltajoin.sql.keys import TURNED, comparisons
from deltajoin.sql.kinds import kind_of
from deltajoin.sql.nodes import column, function_name
from deltajoin.sql.predicates import relations_in


@dataclass(frozen=True)
class Line:
    """Columns of a source: its partitions, a value, and that of the next row (`upward`) or of the
    one before."""

    partition: tuple[str, ...]
    at: str
    beside: str
    upward: bool

    def finds_one(
        self,
        relation: str,
        known: frozenset[str],
        predicates: Iterable[Predicate],
        type_of: Callable[[exp.Column], str],
    ) -> bool:
        """True when predicates put a value of known relations between a row and its neighbour."""
        found = [each for p in predicates for each in _compared(p, relation, known, self.beside)]
        before, after = ("<", ">") if self.upward else (">", "<")
        kind = type_of(column(self.at, relation))
        return bool(kind) and any(
            (one, two) == (self.at, self.beside)
            and (less[0], more[0]) == (before, after)
            and "=" not in (less[1:] and more[1:])
            and text(value) == text(other)
            and kind_of(value, type_of) == kind
            for one, less, value in found
            for two, more, other in found
        )


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


def _compared(
    predicate: Predicate, relation: str, known: frozenset[str], beside: str
) -> Iterator[tuple[str, str, exp.Expr]]:
    """(column of the relation, operator, value of known relations); a row without a neighbour may
    be let through."""
    node = parsed(predicate.sql).unnest()
    last = isinstance(node, exp.Or)
    if last:
        missing = text(column(beside, relation))
        sides = (node.this.unnest(), node.expression.unnest())
        rest = [each for each in sides if not _is_null(each, missing)]
        if len(rest) != 1:
            return
        node = rest[0]
    for one, operator, two in comparisons(node):
        for mine, how, value in ((one, operator, two), (two, TURNED[operator], one)):
            mine, held = mine.unnest(), relations_in(value)
            here = isinstance(mine, exp.Column) and mine.table == relation and bool(held)
            if here and held <= known and (not last or mine.name == beside):
                yield mine.name, how, value


def _is_null(node: exp.Expr, column: str) -> bool:
    here = isinstance(node, exp.Is) and isinstance(node.expression, exp.Null)
    return here and text(node.this) == column
