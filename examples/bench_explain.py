"""How good an order is, and how good the estimates behind it are: rows estimated and true.

The true rows of a set of relations are counted by DuckDB over the same files, with every predicate
that the set decides. From the true rows of all connected sets follows the best nesting there is (by
the sum of rows of all joins), which shows what wrong estimates cost, apart from any engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import sqlglot
from sqlglot import exp

if TYPE_CHECKING:
    from deltajoin import Plan
    from deltajoin.graph import JoinGraph
    from deltajoin.planner.combine import SubPlan

Tree = Any  # a relation's name, or a pair of trees
Names = frozenset[str]


def explain_query(name: str, planned: Plan, folder: Path, with_best: bool) -> str:
    """A table: per filtered relation and per join of our order, estimated and true rows.

    Args:
        with_best: also count all connected sets and show the best order; minutes at scale 1.
    """
    count = TrueRows(planned.graph, folder)
    graph = count.graph
    ours, estimated = our_tree(planned), our_estimates(planned)
    lines = ["", f"{name}: {tree_text(ours)}", f"    {'':<44}{'estimated':>14}{'true':>14}{'q':>8}"]
    for rows_of in (*(frozenset({r.name}) for r in graph.relations), *joined_sets(ours)):
        true = count(rows_of)
        label = " ".join(sorted(rows_of)) if len(rows_of) < 3 else f"... {len(rows_of)} relations"
        if len(rows_of) > 1:
            label = "+ " + (_newest(ours, rows_of) if len(rows_of) > 2 else label)
        guess = estimated.get(rows_of)
        shown = f"{guess:>14,.0f}" if guess is not None else f"{'':>14}"
        error = f"{_error(guess, true):>8.1f}" if guess is not None else ""
        lines.append(f"    {label:<44}{shown}{true:>14,}{error}")
    chosen = sum(map(count, joined_sets(ours)))
    lines.append(f"    sum of joined rows: {chosen:,}")
    if with_best:
        cost, best = best_tree(graph, count)
        lines.append(
            f"    best by true rows: {cost:,}, {chosen / cost:.2f}x less: {tree_text(best)}"
        )
    return "\n".join(lines)


def our_tree(planned: Plan) -> Tree:
    """The nesting of our plan's joins."""
    query = planned.full_query
    if query is None:
        raise ValueError("the query is no plain join")

    def nested(plan: SubPlan) -> Tree:
        if plan.left is None or plan.right is None:
            return query.hypergraph.names[plan.relations.bit_length() - 1]
        return (nested(plan.left), nested(plan.right))

    return nested(query.plan)


def our_estimates(planned: Plan) -> dict[Names, float]:
    """Rows that our planner expects: of relations after their filters, and of its joins."""
    query = planned.full_query
    nodes = query.plan.nodes() if query is not None else ()
    names = query.hypergraph.names if query is not None else ()
    return {
        frozenset(name for i, name in enumerate(names) if node.relations >> i & 1): node.rows
        for node in nodes
    }


def leaves(tree: Tree) -> tuple[str, ...]:
    """The relations of a nesting, left to right."""
    return (tree,) if isinstance(tree, str) else leaves(tree[0]) + leaves(tree[1])


def joined_sets(tree: Tree) -> Iterator[Names]:
    """The set of every join of a nesting, inner ones first."""
    if not isinstance(tree, str):
        yield from joined_sets(tree[0])
        yield from joined_sets(tree[1])
        yield frozenset(leaves(tree))


def tree_text(tree: Tree) -> str:
    """A nesting in words: left-deep chains without parentheses.

    Example:
        >>> tree_text(((("a", "b"), ("c", "d")), "e"))
        'a b (c d) e'
    """
    if isinstance(tree, str):
        return tree
    left, right = tree
    shown = tree_text(right)
    return f"{tree_text(left)} {shown if isinstance(right, str) else f'({shown})'}"


def _newest(tree: Tree, joined: Names) -> str:
    """What the join of this set brings in."""
    while not isinstance(tree, str):
        if frozenset(leaves(tree)) == joined:
            return tree_text(tree[1])
        tree = tree[0] if joined <= frozenset(leaves(tree[0])) else tree[1]
    return tree


def _error(guess: float, true: int) -> float:
    guess, rows = max(guess, 1.0), max(true, 1)
    return max(guess / rows, rows / guess)


class TrueRows:
    """Counts the rows of a set of relations under all predicates that it decides, each set once."""

    def __init__(self, graph: JoinGraph | None, folder: Path) -> None:
        if graph is None:
            raise ValueError("the query is no plain join")
        self.graph = graph
        self._engine = duckdb.connect()
        self._counted: dict[Names, int] = {}
        for source in graph.sources:
            files = folder / "parquet" / source / "*.parquet"
            self._engine.execute(f"CREATE VIEW \"{source}\" AS FROM read_parquet('{files}')")

    def __call__(self, names: Names) -> int:
        if names not in self._counted:
            tables = [f'"{self.graph.by_name[n].source}" AS "{n}"' for n in sorted(names)]
            decided = [_duckdb(p.sql) for p in self.graph.predicates if p.relations <= names]
            decided += self._implied(names)
            where = " AND ".join(f"({sql})" for sql in decided) or "true"
            sql = f"SELECT count(*) FROM {', '.join(tables)} WHERE {where}"
            ((rows,),) = self._engine.execute(sql).fetchall()
            self._counted[names] = rows
        return self._counted[names]

    def _implied(self, names: Names) -> Iterator[str]:
        """What follows from equalities over relations outside the set, too: a = b, b = c: a = c."""
        for members in sorted(map(sorted, set(self.graph.equivalence.values()))):
            within = [f'"{name}"."{column}"' for name, column in members if name in names]
            yield from (f"{one} = {other}" for one, other in pairwise(within))


def _duckdb(sql: str) -> str:
    parsed: exp.Expr = sqlglot.parse_one(sql, dialect="spark")
    return parsed.sql(dialect="duckdb")


def best_tree(graph: JoinGraph, count: TrueRows) -> tuple[int, Tree]:
    """The nesting with the fewest joined rows in sum, over all bushy ones without cross product."""
    best: dict[Names, tuple[tuple[int, int, str], Tree]] = {
        frozenset({r.name}): ((0, 0, r.name), r.name) for r in graph.relations
    }
    for joined in sorted(_connected_sets(graph), key=lambda names: (len(names), sorted(names))):
        for left, right in _splits(graph, joined):
            if left not in best or right not in best:
                continue
            cost = best[left][0][0] + best[right][0][0] + count(joined)
            tree = (best[left][1], best[right][1])
            rank = (cost, len(right), tree_text(tree))  # of equal ones, the most left-deep
            if joined not in best or rank < best[joined][0]:
                best[joined] = (rank, tree)
    (cost, _, _), tree = best[frozenset(r.name for r in graph.relations)]
    return cost, tree


def _connected_sets(graph: JoinGraph) -> set[Names]:
    found = {frozenset({r.name}) for r in graph.relations}
    layer = found
    while layer:
        layer = {names | {new} for names in layer for new in _neighbours(graph, names)} - found
        found = found | layer
    return {names for names in found if len(names) > 1}


def _splits(graph: JoinGraph, joined: Names) -> Iterator[tuple[Names, Names]]:
    """Ordered splits of a set into two that share a predicate; both orders of each come up."""
    names = sorted(joined)
    for bits in range(1, 2 ** len(names) - 1):
        left = frozenset(name for i, name in enumerate(names) if bits >> i & 1)
        right = joined - left
        if _neighbours(graph, left) & right:
            yield left, right


def _neighbours(graph: JoinGraph, names: Names) -> Names:
    """Relations that a predicate links with the set, written or implied by equalities."""
    linked = set(graph.neighbours(names))
    for members in graph.equivalence.values():
        relations = {name for name, _ in members}
        linked |= relations if relations & names else set()
    return frozenset(linked - names)


def spark_tree(frame: Any, relations: set[str]) -> Tree:
    """The nesting of a query's joins in Spark's optimized plan, by the names of its relations."""
    execution = frame._jdf.queryExecution()
    aliases: dict[int, str] = {}
    _find_aliases(execution.analyzed(), None, relations, aliases)
    return _join_tree(execution.optimizedPlan(), aliases)


def _children(node: Any) -> list[Any]:
    below = node.children()
    return [below.apply(number) for number in range(below.size())]


def _find_aliases(node: Any, alias: str | None, relations: set[str], found: dict[int, str]) -> None:
    if node.nodeName() == "SubqueryAlias" and alias is None and node.alias() in relations:
        alias = node.alias()
    below = _children(node)
    if not below:
        found[_identity(node)] = alias or node.nodeName()
    for child in below:
        _find_aliases(child, alias, relations, found)


def _identity(leaf: Any) -> int:
    identity: int = leaf.output().apply(0).exprId().id()
    return identity


def _join_tree(node: Any, aliases: dict[int, str]) -> Tree:
    below = _children(node)
    if not below:
        return aliases.get(_identity(node), node.nodeName())
    if len(below) == 1:
        return _join_tree(below[0], aliases)
    return (_join_tree(below[0], aliases), _join_tree(below[1], aliases))
