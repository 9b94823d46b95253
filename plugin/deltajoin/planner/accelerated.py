"""Which joins of a plan an accelerator serves, by the sizes that are expected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from deltajoin.accelerate import choose
from deltajoin.accelerate.choose import Sizes, accelerated, joined_by
from deltajoin.accelerate.protocol import Candidates, Sides
from deltajoin.graph import JoinGraph
from deltajoin.planner.combine import SubPlan
from deltajoin.planner.hypergraph import Hypergraph
from deltajoin.planner.statistics import Statistics
from deltajoin.sql.dialect import parse_expression
from deltajoin.sql.predicates import relations_in


def candidates(
    graph: JoinGraph,
    statistics: Statistics,
    on: Sequence[str],
    right: Iterable[str],
    kind: str,
    rows: tuple[float, float],
) -> Candidates | None:
    """What serves a join under some conditions; None where Spark makes it as it is.

    Args:
        right: the relations of its right side.
        rows: of its left and its right side.
    """
    if rows[0] * rows[1] < choose.FEW_PAIRS:  # most joins: nothing is parsed for them
        return None
    return accelerated(on, *join_of(graph, statistics, on, right, kind, rows))


def join_of(
    graph: JoinGraph,
    statistics: Statistics,
    on: Sequence[str],
    right: Iterable[str],
    kind: str,
    rows: tuple[float, float],
) -> tuple[Sides, Sizes]:
    """A join's sides and sizes, of the same arguments as `candidates`."""

    def source(column: exp.Column) -> tuple[str, str]:
        relation = graph.by_name.get(column.table)
        return (relation.source if relation else "", column.name)

    sides = Sides(frozenset(right), lambda column: statistics.types.get(source(column), ""), kind)
    per_key = rows[1]
    for left, key in joined_by(map(parse_expression, on), sides):
        known = (statistics.distinct(*source(c)) for c in (key, left) if isinstance(c, exp.Column))
        found = next((each.value for each in known if each.source != "guess"), None)
        if found is None:
            # Nobody knows: a key with many rows is dearer than candidates in vain.
            found = rows[1] ** 0.5 if isinstance(key, exp.Column) else rows[1]
        per_key /= max(1.0, found)
    return sides, Sizes(*rows, per_key)


def accelerated_joins(
    graph: JoinGraph, hypergraph: Hypergraph, plan: SubPlan, statistics: Statistics
) -> tuple[tuple[tuple[int, Candidates], ...], float]:
    """How the joins of a plan find their pairs.

    The joins whose right side is one relation, as the set of that, with what serves them by values
    of one relation on their left; and the pairs of rows that the join with most of them compares.
    """
    served: list[tuple[int, Candidates]] = []
    compared = 0.0
    for join in plan.joins():
        if join.left is None or join.right is None:
            continue
        right = [n for n, bit in hypergraph.bit.items() if bit & join.right.relations]
        written = [p for e in join.edges if not e.implied for p in e.predicates]
        rows = join.left.rows, join.right.rows
        if rows[0] * rows[1] > compared:
            on = [p.sql for p in written]
            compared = max(
                compared, join_of(graph, statistics, on, right, join.kind, rows)[1].pairs
            )
        if len(right) == 1:
            on = [p.sql for p in written if right[0] in p.relations]
            rows = rows[0], statistics.table_rows(graph.by_name[right[0]].source)
            found = candidates(graph, statistics, on, right, join.kind, rows)
            if found and len({name for sql in found.left for name in _relations(sql)}) == 1:
                served.append((join.right.relations, found))
    return tuple(served), compared


def _relations(sql: str) -> frozenset[str]:
    return relations_in(parse_expression(sql)) - {""}
