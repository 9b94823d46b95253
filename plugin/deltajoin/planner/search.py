"""The best left-deep order from a given start: exact within a budget of states, a beam beyond.

    cost(order) = sum of the prices of its steps
    rows(S)     = min over the last relation j of rows(S - j) x fan-out(S - j -> j)

The price of a step depends on the bound set, the next relation and how the stream is placed, so
dynamic programming over (connected set, place) is exact (Held-Karp). Beyond `EXACT_RELATIONS` it is
a beam. In graphs so dense that a beam would take seconds, all paths follow the order of the first.
Steps follow predicates. Ties go to the first order by canonical numbers, whatever the graph was
written and named like.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from deltajoin.planner.beam import NARROWEST, Beam, RowsOf, State, beam_width, considered, rank
from deltajoin.planner.cost import PROBE
from deltajoin.planner.lookup import Price, lookup_pricing
from deltajoin.planner.steps import Move, Steps
from deltajoin.planner.trace import Considered, Trace

#: Up to so many relations every path is exact.
EXACT_RELATIONS = 12
#: States of each size in the search whose cost no exact state may pass.
_NARROW = 4
#: An order is better if its cost is less by so much: in six digits, or by more than rounding.
_BETTER, _TIE = 1 - 1e-6, 1 - 1e-9


@dataclass(frozen=True)
class JoinOrder:
    """Relations in join order with the estimated rows after each step, and the summed cost."""

    relations: tuple[str, ...]
    rows: tuple[float, ...]
    cost: float


def _rounded(value: float) -> float:
    """Six digits: estimates that differ only by the order of multiplication are equal."""
    return float(f"{value:.6g}")


class Search:
    """Searches of one model, which share fan-outs."""

    def __init__(
        self,
        steps: Steps,
        paths: int,
        price: Price | None = None,
        trace: Trace | None = None,
    ) -> None:
        self.steps = steps
        self._trace = trace
        self.price = price or lookup_pricing(steps)
        partners = sum(near.bit_count() for near in steps.adjacent) / len(steps.names)
        self._width = beam_width(paths, len(steps.names), partners)
        self._common: tuple[str, ...] = ()

    def order(self, start: tuple[str, ...], rows: float, within: int | None = None) -> JoinOrder:
        """The cheapest order that begins with `start`, all of them bound at `rows` rows.

        Args:
            within: the relations to bind; all by default.
        """
        within = self.steps.everything if within is None else within
        bound = self.steps.set_of(frozenset(start))
        first = State(bound, 0, 0.0, tuple(self.steps.number(name) for name in start))
        if (within & ~bound).bit_count() < EXACT_RELATIONS:
            layer, rows_of = self._exact(first, rows, within)
        elif self._width:
            beam = Beam(self.steps, self.price, self._width, within, self._trace)
            layer, rows_of = beam.grown(first, rows)
        else:
            return self._followed(start, rows, within)
        return self._described(min(layer, key=rank), len(start), rows_of)

    def _exact(self, first: State, rows: float, within: int) -> tuple[list[State], RowsOf]:
        """The best ways to bind everything, and the rows of every set.

        A narrow search goes first: its way holds unless another is better. States that can't be are
        left out, but not from a trace: each step to come costs at least the rows into it and out of
        it, of the smallest sets.
        """
        rows_of, fewest = self._rows(first.bound, rows, within)
        least = [PROBE * rows for rows in fewest]
        sizes = range(1, len(least))
        rest = [2 * sum(least[number + 1 :]) - least[-1] for number in range(len(least))]
        rest[-1] = 0.0
        layer = [first]
        for _ in sizes:
            layer = nsmallest(_NARROW, self._grow(layer, rows_of, within), key=rank)
        narrow, layer, enough = layer[0], [first], layer[0].cost * _BETTER
        limit = enough if self._trace is None else math.inf
        for number in sizes:
            grown = self._grow(layer, rows_of, within, limit - rest[number])
            if self._trace is not None:
                self._trace.steps += self._considered(layer, grown, rows_of, within)
            layer = grown
        return [state for state in layer if state.cost < enough] or [narrow], rows_of

    def _followed(self, start: tuple[str, ...], rows: float, within: int) -> JoinOrder:
        """The order of the first path, each relation as soon as it is linked."""
        if not self._common:
            alone = Search(self.steps, 1, self.price, self._trace)
            alone._width = min(max(1, alone._width), NARROWEST)

            self._common = alone.order(start[:1], rows).relations
        order, bound = start, self.steps.set_of(frozenset(start))
        while near := self.steps.neighbours(bound) & within:
            bits = self.steps.bit
            order += (next(name for name in self._common if bits[name] & near),)
            bound |= bits[order[-1]]
        return self.along(order, rows, len(start))

    def along(self, order: tuple[str, ...], rows: float, start: int = 1) -> JoinOrder:
        """A given order, with the rows and the cost that it has here; each step must be linked.

        Args:
            start: how many of the first are bound at `rows` rows.
        """
        numbers = tuple(self.steps.number(name) for name in order)
        bound, place, cost = self.steps.set_of(frozenset(order[:start])), 0, 0.0
        rows_of = {bound: rows}
        for new in numbers[start:]:
            fan_out, key = self.steps.size(bound, new)
            after = bound | 1 << new
            rows_of[after] = rows_of[bound] * fan_out
            step, place = self.price(bound, new, rows_of[bound], rows_of[after], place, key)
            bound, cost = after, cost + step
        return self._described(State(bound, place, cost, numbers), start, rows_of)

    def _moves(self, within: int) -> Callable[[int], Sequence[Move]]:
        """The steps from a set that stay within another."""
        moves, outside = self.steps.moves, self.steps.everything & ~within
        if not outside:
            return moves
        return lambda bound: [move for move in moves(bound) if not move[0] & outside]

    def _rows(self, bound: int, rows: float, within: int) -> tuple[RowsOf, Sequence[float]]:
        """Rows of the sets from `bound` on, and the fewest of each size."""
        grown, fewest, moves = {bound: rows}, [rows], self._moves(within)
        rows_of = grown.copy()
        for _ in range((within & ~bound).bit_count()):
            smaller, grown = grown, {}
            for one, rows_in in smaller.items():
                for after, _, fan_out, _ in moves(one):
                    estimate = rows_in * fan_out
                    if estimate < grown.get(after, math.inf):
                        grown[after] = estimate
            rows_of |= grown
            fewest.append(min(grown.values()))
        return rows_of, fewest

    def _grow(
        self,
        layer: list[State],
        rows_of: RowsOf,
        within: int,
        limit: float = math.inf,
    ) -> list[State]:
        """The cheapest way to every (set, place) that is one relation larger, by order.

        Ways that pass the limit are left out.
        """
        best: dict[tuple[int, int], tuple[float, int, int, float]] = {}
        price, moves = self.price, self._moves(within)
        for number, (bound, place, cost, _) in enumerate(layer):
            rows, most = rows_of[bound], limit - cost
            rows_most = most / PROBE - rows
            for after, new, _, key in moves(bound):
                out = rows_of[after]
                if out > rows_most:
                    continue
                step, placed = price(bound, new, rows, out, place, key)
                if step > most:
                    continue
                total, known = cost + step, best.get((after, placed))
                if known is None or total < known[0]:
                    best[after, placed] = (total * _TIE, number, new, total)
        grown = sorted((way[1], way[2], at, way[3]) for at, way in best.items())
        return [
            State(at[0], at[1], cost, (*layer[number].order, new))
            for number, new, at, cost in grown
        ]

    def _considered(
        self, layer: list[State], grown: list[State], rows_of: RowsOf, within: int
    ) -> Iterator[Considered]:
        """Every step from a layer, cheap to tell again; kept if a state of the next begins so."""
        kept = {state.order for state in grown}
        for state in layer:
            rows = rows_of[state.bound]
            for after, new, _, key in self._moves(within)(state.bound):
                step, _ = self.price(state.bound, new, rows, rows_of[after], state.place, key)
                yield considered(self.steps, state, new, rows_of[after], state.cost + step, kept)

    def _described(self, state: State, start: int, rows_of: RowsOf) -> JoinOrder:
        bound, rows = 0, []
        for position, new in enumerate(state.order, start=1):
            bound |= 1 << new
            if position >= start:
                rows.append(_rounded(rows_of[bound]))
        names = tuple(self.steps.names[new] for new in state.order)
        return JoinOrder(names, tuple(rows), _rounded(state.cost))
