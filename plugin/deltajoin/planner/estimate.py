"""Expected rows of a joined set of relations, whatever the order in which it was joined.

The query's tree of blocks and joins, cut down to the set, is estimated from below:

    block       product of its items' rows x share of the pairs that match
    L left R    at least L           = matches + L without a match
    L full R    at least L and R     = matches + L without a match + R without a match
    L semi R    at most L            = L with a match
    L anti R    never below a floor  = L without a match

A row of L has a match with the share of its values that R holds, times the chance that one of its
matches passes the rest of ON. Items of a block are multiplied in an order by their figures, so
that names and writing order don't matter; predicates and kinds are the hypergraph's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import or_

from deltajoin.graph import Block, Join, JoinGraph, Predicate
from deltajoin.planner.classes import LEAST, numbers
from deltajoin.planner.hypergraph import Edge, Hypergraph, union
from deltajoin.planner.matching import Matching
from deltajoin.planner.statistics import TRUST, Statistics

_MOST = 1e100
_UNMATCHED = 0.02


@dataclass(frozen=True)
class _Node:
    """A relation (`number`), a block (`items` in canonical order), or a join of two blocks."""

    mask: int
    kind: str
    number: int = -1
    items: tuple[_Node, ...] = ()
    on: Matching | None = None
    kept: float = 1.0
    known: dict[int, float] = field(default_factory=dict)


class SetEstimator:
    """The rows of any joined set of a hypergraph; those of parts are kept."""

    def __init__(self, graph: JoinGraph, hypergraph: Hypergraph, statistics: Statistics) -> None:
        self._graph = graph
        self._hypergraph = hypergraph
        self._statistics = statistics
        self._relations = [graph.by_name[name] for name in hypergraph.names]
        inner = [p for e in hypergraph.edges if e.kind == "inner" for p in e.predicates]
        own = [f.predicate for f in hypergraph.filters if f.needs & (f.needs - 1) == 0]
        self._matching = Matching(self._relations, (*inner, *own), statistics)
        self._later = [
            (f.needs, self._matching.kept_by(f.predicate.sql))
            for f in hypergraph.filters
            if f.needs & (f.needs - 1)
        ]
        self._rank = _ranks(self._matching, hypergraph.size)
        self._tree = self._block(graph.root)

    def rows(self, joined: int) -> float:
        """Expected rows of a set with all that is decidable on it applied.

        Never below one millionth and never infinite, whatever the statistics say.
        """
        found = self._rows(self._tree, joined)
        for needs, kept in self._later:
            if needs & joined == needs:
                found *= kept
        return _clamped(found)

    def source(self, joined: int) -> str:
        """The least trusted source (`statistics.TRUST`) that the rows of a set stand on."""
        return max(self._sources(self._tree, joined & self._tree.mask), key=TRUST.index)

    def _sources(self, node: _Node, part: int) -> Iterator[str]:
        if node.number >= 0:
            yield self._statistics.rows_of(self._relations[node.number].source).source
            return
        matching, done = node.on or self._matching, 0
        for item in node.items:
            if within := item.mask & part:
                yield from self._sources(item, within)
                if done:
                    yield matching.source(done, within)
                done |= within

    def _rows(self, node: _Node, joined: int) -> float:
        """Rows of the part of a node that lies in the set; the part is not empty."""
        part = node.mask & joined
        found = node.known.get(part)
        if found is None:
            if node.number >= 0:
                found = self._matching.rows(self._hypergraph.names[node.number])
            elif node.on is None:
                found = self._product(node, part)
            else:
                found = self._join(node, node.on, part)
            node.known[part] = found = _clamped(found)
        return found

    def _product(self, node: _Node, part: int) -> float:
        """Rows of some items of a block, from the longest beginning that is known."""
        placed = [item for item in node.items if item.mask & part]
        parts = list(accumulate((item.mask & part for item in placed), or_))
        first, known = len(placed) - 1, node.known
        while first and parts[first] not in known:
            first -= 1
        rows = known[parts[first]] if first else self._rows(placed[0], part)
        for at in range(first + 1, len(placed)):
            item, done = placed[at], parts[at - 1]
            share = self._share(done, item, part & item.mask)
            known[parts[at]] = rows = _clamped(rows * self._rows(item, part) * share)
        return rows

    def _share(self, done: int, item: _Node, part: int) -> float:
        """Share of the pairs that match between a set and an item, or a part of it."""
        if item.number < 0:
            return self._matching.pairs(done, part).share
        return self._matching.lookup(done, item.number).share

    def _join(self, node: _Node, on: Matching, part: int) -> float:
        left, right = node.items
        here, there = left.mask & part, right.mask & part
        if not there:
            return self._rows(left, here)
        if not here:
            return self._rows(right, there)
        rows, other = self._rows(left, here), self._rows(right, there)
        pairs = on.pairs(here, there)
        equal = pairs.present / max(pairs.one, pairs.other, 1.0) / pairs.apart
        rest = pairs.residual * node.kept
        matches = _clamped(rows * other * equal * rest)
        with_match = rows * _matched(min(pairs.other, other) * equal, other * equal, rest)
        if node.kind == "semi":
            return with_match
        if node.kind == "anti":
            return max(rows - with_match, rows * _UNMATCHED)
        if node.kind == "left":
            return max(rows, matches + rows - with_match)
        if node.kind == "full":
            back = other * _matched(min(pairs.one, rows) * equal, rows * equal, rest)
            return max(rows, other, matches + rows - with_match + other - back)
        return matches

    # the tree -----------------------------------------------------------------------------------

    def _block(self, block: Block) -> _Node:
        items = [
            self._relation(item) if isinstance(item, str) else self._joined(item)
            for item in block.items
        ]
        if len(items) == 1:
            return items[0]
        return _Node(sum(item.mask for item in items), "block", items=self._linked(items))

    def _linked(self, items: list[_Node]) -> tuple[_Node, ...]:
        """Items by rank, each as soon as something links it to those before.

        So a connected set is multiplied up without cross products: in a tree always.
        """
        left = sorted(items, key=lambda item: self._order(item.mask))
        placed = [left.pop(0)]
        reached = self._reach(placed[0].mask)
        while left:
            following = next((item for item in left if item.mask & reached), left[0])
            left.remove(following)
            placed.append(following)
            reached |= self._reach(following.mask)
        return tuple(placed)

    def _reach(self, mask: int) -> int:
        return union(self._matching.relevant(number) for number in numbers(mask))

    def _relation(self, name: str) -> _Node:
        bit = self._hypergraph.bit[name]
        return _Node(bit, "relation", number=bit.bit_length() - 1)

    def _joined(self, join: Join) -> _Node:
        left, right = self._block(join.left), self._block(join.right)
        edge = self._edge(join, left.mask, right.mask)
        predicates: Sequence[Predicate] = edge.predicates if edge else join.on
        on = Matching(self._relations, predicates, self._statistics)
        kept = 1.0
        for name in sorted(join.relations):
            kept *= on.kept(name)
        return _Node(left.mask | right.mask, join.kind, -1, (left, right), on, kept)

    def _edge(self, join: Join, left: int, right: int) -> Edge | None:
        """The hypergraph's edge of a join: of its kind, within its sides, over its predicates."""
        written = set(join.on)
        found = [
            edge
            for edge in self._hypergraph.edges
            if edge.kind == join.kind
            and edge.left | left == left
            and edge.right | right == right
            and written.issuperset(edge.predicates)
        ]
        return max(found, key=lambda edge: len(edge.predicates), default=None)

    def _order(self, mask: int) -> tuple[tuple[int, ...], int]:
        """By figures; what they leave alike, by canonical number."""
        return tuple(sorted(self._rank[number] for number in numbers(mask))), mask


def _matched(values: float, matches: float, rest: float) -> float:
    """Share of one side's rows with a match.

    `values` is the share of its values that the other side holds, `matches` the equal rows that
    each has there, on average over all, `rest` the share of those that pass the rest of ON.
    """
    values = min(values, 1.0)
    if rest >= 1.0:
        return values
    each = min(max(matches / max(values, LEAST), 1.0), 1e9)
    return float(values * (1.0 - (1.0 - rest) ** each))


def _ranks(matching: Matching, size: int) -> list[int]:
    """A number for each relation by its figures and its partners' figures: large tables first."""
    keys: list[tuple[object, ...]] = [matching.signature(i) for i in range(size)]
    ranks = _numbered(keys)
    for _ in range(3):
        keys = [
            (ranks[i], tuple(sorted(ranks[j] for j in matching.partners(i)))) for i in range(size)
        ]
        ranks = _numbered(keys)
    return ranks


def _numbered(keys: Sequence[tuple[object, ...]]) -> list[int]:
    order = {key: number for number, key in enumerate(sorted(set(keys)))}
    return [order[key] for key in keys]


def _clamped(rows: float) -> float:
    return min(max(rows, LEAST), _MOST)
