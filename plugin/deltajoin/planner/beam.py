"""The rest of an order when the exact search would grow too large: a beam of states of each size.

A state hands its possible steps down sorted by fan-out; only steps that the new relation affects
are looked at again. The cheapest steps of all states are merged from a heap by their rows, which
give the least price, so a layer looks at few more steps than it keeps, also where each state has a
hundred. A layer looks at 8 steps for each state it keeps; it keeps 64, and fewer only where a model
has so many paths and relations that all of them together would take seconds (32 for 40 of 40).
"""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace, nsmallest
from typing import NamedTuple

from deltajoin.planner.classes import numbers
from deltajoin.planner.lookup import KEPT, KEYED, Pricing
from deltajoin.planner.steps import Steps

WIDEST, NARROWEST, LOOKS = 64, 8, 8
#: Steps that all paths of a model may look at, as far as the narrowest beam lets them.
MODEL_LOOKS = 400_000
#: Partners of relations, squared, that all steps of a model's paths may meet for each state kept.
MODEL_WORK = 10_000_000
_TIE = 1 - 1e-9


class State(NamedTuple):
    """A bound set, how it is placed, and the cheapest way there."""

    bound: int
    place: int
    cost: float
    order: tuple[int, ...]


def rank(state: State) -> tuple[float, tuple[int, ...]]:
    """Smaller is better; costs that differ by rounding only tie."""
    return (float(f"{state.cost:.9g}"), state.order)


def beam_width(paths: int, relations: int, partners: float = 2.0) -> int:
    """States to keep of each size, for so many paths over so many relations.

    `partners`: those that a relation has on average. What a step to it costs grows with them, and
    so does the number of steps to look at again; 0 where even one state a size would take seconds.

    Example:
        >>> beam_width(10, 100), beam_width(100, 100)
        (50, 8)
        >>> beam_width(30, 30, 29), beam_width(100, 100, 99)
        (13, 0)
    """
    model = max(1, paths * relations)
    fair = min(WIDEST, max(NARROWEST, MODEL_LOOKS // (LOOKS * model)))
    return min(fair, int(MODEL_WORK // (model * max(1.0, partners) ** 2)))


class _Step(NamedTuple):
    fan_out: float
    new: int
    key: int


class _Front(NamedTuple):
    """A state of the beam with its rows, its neighbours and its steps by ascending fan-out."""

    state: State
    rows: float
    reach: int
    steps: list[_Step]


def finish_by_beam(
    steps: Steps,
    pricing: Pricing,
    width: int,
    layer: list[State],
    rows_of: dict[int, float],
    within: int,
) -> tuple[list[State], dict[int, float]]:
    """The last layer, grown from this one; and the rows of every set on the way."""
    best = sorted(layer, key=rank)[:width]
    beam = [_front(steps, state, rows_of[state.bound], within) for state in best]
    known = dict(rows_of)
    while beam[0].steps:
        beam = _grown(steps, pricing, width, beam, within)
        known |= {front.state.bound: front.rows for front in beam}
    return [front.state for front in beam], known


def _front(steps: Steps, state: State, rows: float, within: int) -> _Front:
    reach = steps.neighbours(state.bound) & within
    return _Front(state, rows, reach, sorted(_steps(steps, state.bound, reach)))


def _steps(steps: Steps, bound: int, new: int) -> list[_Step]:
    sizes = ((steps.size(bound, i), i) for i in numbers(new))
    return [_Step(fan_out, i, key) for (fan_out, key), i in sizes]


def _grown(
    steps: Steps, pricing: Pricing, width: int, beam: list[_Front], within: int
) -> list[_Front]:
    """The best states that are one relation larger."""
    price, row = pricing.price, pricing.row
    heap = [(f.state.cost + row * f.rows * f.steps[0].fan_out, i, 0) for i, f in enumerate(beam)]
    heapify(heap)
    found: list[tuple[int, int, _Step]] = []
    rows_of: dict[int, float] = {}
    costs: dict[int, float] = {}
    limit = float("inf")
    for look in range(LOOKS * width):
        if not heap or heap[0][0] > limit:
            break
        _, number, position = heap[0]
        state, rows, _, candidates = beam[number]
        step = candidates[position]
        if position + 1 < len(candidates):
            least = state.cost + row * rows * candidates[position + 1].fan_out
            heapreplace(heap, (least, number, position + 1))
        else:
            heappop(heap)
        after, out = state.bound | 1 << step.new, rows * step.fan_out
        found.append((after, number, step))
        rows_of[after] = min(rows_of.get(after, out), out)
        placed = state.place != 0 and state.place == step.key
        total = state.cost + price(state.bound, step.new, rows, out, placed)[0]
        costs[after] = min(costs.get(after, total), total)
        if len(costs) >= width and look % 16 == 0:
            limit = nsmallest(width, costs.values())[-1]
    return _best(steps, pricing, width, beam, found, rows_of, within)


def _best(
    steps: Steps,
    pricing: Pricing,
    width: int,
    beam: list[_Front],
    found: list[tuple[int, int, _Step]],
    rows_of: dict[int, float],
    within: int,
) -> list[_Front]:
    """The cheapest way to each (set, place) found; of those the cheapest."""
    best: dict[tuple[int, int], tuple[float, int, _Step]] = {}
    for after, number, step in found:
        state, rows, _, _ = beam[number]
        placed = state.place != 0 and state.place == step.key
        cost, moved = pricing.price(state.bound, step.new, rows, rows_of[after], placed)
        place = state.place if moved == KEPT else step.key if moved == KEYED else 0
        if place and not steps.usable(place, after):
            place = 0
        known = best.get((after, place))
        if known is None or state.cost + cost < known[0] * _TIE:
            best[after, place] = (state.cost + cost, number, step)
    grown = [
        (State(after, place, cost, (*beam[n].state.order, step.new)), beam[n], step)
        for (after, place), (cost, n, step) in best.items()
    ]
    grown.sort(key=lambda entry: rank(entry[0]))
    return [
        _next(steps, state, parent, step, rows_of[state.bound], within)
        for state, parent, step in grown[:width]
    ]


def _next(
    steps: Steps, state: State, parent: _Front, step: _Step, rows: float, within: int
) -> _Front:
    again = steps.affected(parent.state.bound, step.new) | 1 << step.new
    reach = (parent.reach | steps.adjacent[step.new]) & within & ~state.bound
    kept = [s for s in parent.steps if not again >> s.new & 1]
    fresh = _steps(steps, state.bound, reach & again)
    return _Front(state, rows, reach, sorted(kept + fresh) if fresh else kept)
