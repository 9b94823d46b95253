"""Orders of too many relations for the exact search: a beam of states of each size.

A state hands its possible steps down sorted by fan-out; only steps that the new relation affects
are estimated again. Of each state the 8 steps with the least fan-outs are priced, also where it has
a hundred. A layer keeps 64 states, and fewer only where a model has so many paths and relations
that all of them together would take seconds (32 for 40 of 40).
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import NamedTuple

from deltajoin.planner.classes import numbers
from deltajoin.planner.lookup import Price
from deltajoin.planner.steps import Steps
from deltajoin.planner.trace import Considered, Trace

WIDEST, NARROWEST, LOOKS = 64, 8, 8
#: Steps that all paths of a model may look at, as far as the narrowest beam lets them.
MODEL_LOOKS = 400_000
#: Partners of relations, squared, that all steps of a model's paths may meet for each state kept.
MODEL_WORK = 5_000_000
_TIE = 1 - 1e-9
#: Rows by set.
RowsOf = dict[int, float]


class State(NamedTuple):
    """A bound set, how it is placed, and the cheapest way there."""

    bound: int
    place: int
    cost: float
    order: tuple[int, ...]


def rank(state: State) -> tuple[float, tuple[int, ...]]:
    """Smaller is better; costs that differ by rounding only tie."""
    return (float(f"{state.cost:.9g}"), state.order)


def considered(
    steps: Steps, state: State, new: int, rows: float, cost: float, kept: Container[tuple[int, ...]]
) -> Considered:
    """A step from a state, for a trace; kept if an order that is begins so."""
    bound = tuple(steps.names[number] for number in state.order)
    return Considered(bound, steps.names[new], rows, cost, (*state.order, new) in kept)


def beam_width(paths: int, relations: int, partners: float = 2.0) -> int:
    """States to keep of each size, for so many paths over so many relations.

    `partners`: those that a relation has on average. What a step to it costs grows with them, and
    so does the number of steps to look at again; 0 where even one state a size would take seconds.

    Example:
        >>> beam_width(10, 100), beam_width(100, 100)
        (50, 8)
        >>> beam_width(30, 30, 29), beam_width(100, 100, 99)
        (6, 0)
    """
    model = max(1, paths * relations)
    fair = min(WIDEST, max(NARROWEST, MODEL_LOOKS // (LOOKS * model)))
    return min(fair, int(MODEL_WORK // (model * max(1.0, partners) ** 2)))


class _Step(NamedTuple):
    fan_out: float
    new: int
    key: int


class _Front(NamedTuple):
    """A state of the beam with its rows and its steps by ascending fan-out."""

    state: State
    rows: float
    steps: list[_Step]


@dataclass(frozen=True)
class Beam:
    """A beam over some relations, those of `within`; `width` states of each size."""

    steps: Steps
    price: Price
    width: int
    within: int
    trace: Trace | None = None

    def grown(self, first: State, rows: float) -> tuple[list[State], RowsOf]:
        """The last layer, grown from one state of so many rows; the rows of all sets on the way."""
        beam, rows_of = [_Front(first, rows, self._steps(first.bound, self.within))], RowsOf()
        while True:
            rows_of |= {front.state.bound: front.rows for front in beam}
            if not beam[0].steps:
                return [front.state for front in beam], rows_of
            beam = self._grown(beam)

    def _steps(self, bound: int, among: int) -> list[_Step]:
        """The steps from a set to its neighbours among some relations."""
        near = numbers(self.steps.neighbours(bound) & among)
        sizes = ((self.steps.size(bound, new), new) for new in near)
        return sorted(_Step(fan_out, new, key) for (fan_out, key), new in sizes)

    def _grown(self, beam: list[_Front]) -> list[_Front]:
        """The best states that are one relation larger: the cheapest way to each (set, place)."""
        found = [(front, step) for front in beam for step in front.steps[:LOOKS]]
        rows_of: RowsOf = {}
        for (state, rows, _), step in found:
            after, out = state.bound | 1 << step.new, rows * step.fan_out
            rows_of[after] = min(rows_of.get(after, out), out)
        best: dict[tuple[int, int], tuple[float, _Front, int]] = {}
        tried = list[tuple[State, int, float, float]]()
        for front, (_, new, key) in found:
            state, after = front.state, front.state.bound | 1 << new
            out = rows_of[after]
            cost, place = self.price(state.bound, new, front.rows, out, state.place, key)
            cost += state.cost
            tried.append((state, new, out, cost))
            known = best.get((after, place))
            if known is None or cost < known[0] * _TIE:
                best[after, place] = (cost, front, new)
        grown = [
            (State(after, place, cost, (*front.state.order, new)), front, new)
            for (after, place), (cost, front, new) in best.items()
        ]
        grown.sort(key=lambda entry: rank(entry[0]))
        del grown[self.width :]
        if self.trace is not None:
            kept = {state.order for state, _, _ in grown}
            self.trace.steps += (considered(self.steps, *each, kept) for each in tried)
        return [
            _Front(state, rows_of[state.bound], self._handed_down(front, new))
            for state, front, new in grown
        ]

    def _handed_down(self, front: _Front, new: int) -> list[_Step]:
        """The steps of a state once `new` is bound: those of before, anew where it affects them."""
        bound = front.state.bound
        affected = self.steps.affected(bound, new)
        old = [step for step in front.steps if step.new != new and not affected >> step.new & 1]
        fresh = self._steps(bound | 1 << new, affected & self.within)
        return sorted(old + fresh) if fresh else old
