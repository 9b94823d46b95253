"""Which joins of a plan an accelerator serves, by the sizes that are expected."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from math import prod

from sqlglot import exp

from deltajoin.accelerate import choose
from deltajoin.accelerate.choose import Sizes, accelerated, joined_by, recognised
from deltajoin.accelerate.protocol import Candidates, Sides
from deltajoin.graph import JoinGraph, Projection
from deltajoin.planner.combine import SubPlan
from deltajoin.planner.hypergraph import Hypergraph
from deltajoin.planner.statistics import Statistics
from deltajoin.sql.dialect import parse_expression


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
    sides = _sides(graph, statistics, right, kind)
    per_key = rows[1]
    for left, key in joined_by(map(parse_expression, on), sides):
        columns = (c for c in (key, left) if isinstance(c, exp.Column))
        known = (statistics.distinct(*_source(graph, c)) for c in columns)
        found = next((each.value for each in known if each.source != "guess"), None)
        if found is None:
            # Nobody knows: a key with many rows is dearer than candidates in vain.
            found = rows[1] ** 0.5 if isinstance(key, exp.Column) else rows[1]
        per_key /= max(1.0, found)
    return sides, Sizes(*rows, per_key)


def _sides(graph: JoinGraph, statistics: Statistics, right: Iterable[str], kind: str) -> Sides:
    types = statistics.types
    return Sides(frozenset(right), lambda column: types.get(_source(graph, column), ""), kind)


def _source(graph: JoinGraph, column: exp.Column) -> tuple[str, str]:
    relation = graph.by_name.get(column.table)
    return (relation.source if relation else "", column.name)


def served_sides(
    graph: JoinGraph, hypergraph: Hypergraph, statistics: Statistics
) -> tuple[tuple[int, int], ...]:
    """Sets of relations that no equality joins, but an accelerator does, whatever joins them."""
    written: dict[tuple[int, int], list[str]] = {}
    for edge in hypergraph.edges:
        if edge.predicates and not edge.implied and all(p.left is None for p in edge.predicates):
            for split in edge.splits:
                written.setdefault(split, []).extend(p.sql for p in edge.predicates)
    found = []
    for (left, right), on in written.items():
        joined = [name for name, bit in hypergraph.bit.items() if bit & (left | right)]
        names = [name for name in joined if hypergraph.bit[name] & right]
        if prod(statistics.table_rows(graph.by_name[n].source) for n in joined) < choose.FEW_PAIRS:
            continue  # most joins: nothing is parsed for them
        nodes = [parse_expression(sql).unnest() for sql in on]
        if recognised(nodes, _sides(graph, statistics, names, "inner")):
            found.append((left, right))
    return tuple(found)


def accelerated_joins(
    graph: JoinGraph, hypergraph: Hypergraph, plan: SubPlan, statistics: Statistics
) -> tuple[tuple[tuple[int, Candidates], ...], float]:
    """How the joins of a plan find their pairs.

    The right sides that an accelerator serves, as sets of relations, with what serves them; and the
    pairs of rows that the join with most of them compares.
    """
    served: list[tuple[int, Candidates]] = []
    compared = 0.0
    for join in plan.joins():
        if join.left is None or join.right is None:
            continue
        rows = join.left.rows, join.right.rows
        if rows[0] * rows[1] <= min(compared, choose.FEW_PAIRS):
            continue
        right = [n for n, bit in hypergraph.bit.items() if bit & join.right.relations]
        on = [p.sql for e in join.edges if not e.implied for p in e.predicates]
        sides, sizes = join_of(graph, statistics, on, right, join.kind, rows)
        compared = max(compared, sizes.pairs)
        if found := accelerated(on, sides, sizes):
            served.append((join.right.relations, found))
    return tuple(served), compared


def running_join(
    graph: JoinGraph,
    hypergraph: Hypergraph,
    plan: SubPlan,
    statistics: Statistics,
    aggregated: Collection[str],
) -> tuple[tuple[int, Candidates], ...]:
    """The side of the last join whose rows are only aggregated, with what serves it by running
    aggregates, if anything; `aggregated` are the columns of the joined rows that are."""
    left, right = plan.left, plan.right
    if plan.kind not in ("inner", "left") or left is None or right is None:
        return ()
    within = (left.relations, right.relations)
    if any(all(f.needs & ~side for side in within) for f in hypergraph.filters):
        return ()
    on = [p.sql for e in plan.edges if not e.implied for p in e.predicates]
    for mine, other in ((left, right), (right, left))[: 2 if plan.kind == "inner" else 1]:
        names = {name for name, bit in hypergraph.bit.items() if bit & other.relations}
        rows = mine.rows, other.rows
        found = running_aggregates(graph, statistics, on, names, plan.kind, rows, aggregated)
        if found is not None:
            return ((other.relations, found),)
    return ()


def running_aggregates(
    graph: JoinGraph,
    statistics: Statistics,
    on: Sequence[str],
    right: Collection[str],
    kind: str,
    rows: tuple[float, float],
    aggregated: Collection[str],
) -> Candidates | None:
    """What serves a join below groups by running aggregates of its right side, if anything;
    arguments as those of `candidates` and `running_join`. With few rows of the right side, pairs
    take less time than to sort the left one."""
    if not all(_apart(p, right, aggregated) for p in graph.projections):
        return None
    if rows[0] * rows[1] < choose.FEW_PAIRS:
        return None
    sides, sizes = join_of(graph, statistics, on, right, kind, rows)
    if sizes.per_key < choose.FEW_PER_KEY:
        return None
    found = accelerated(on, replace(sides, aggregated=True), sizes)
    return found if found is not None and found.running is not None else None


def _apart(output: Projection, right: Collection[str], aggregated: Collection[str]) -> bool:
    """True for a column that is aggregated and of the right side alone, and for any of the left."""
    reads = {relation for relation, _ in output.refs}
    if output.name in aggregated:
        return bool(reads) and reads <= {*right}
    return reads.isdisjoint(right)
