"""The rest of an order when the exact search would grow too large: a beam of states of each size.

A state hands its possible steps down sorted by fan-out; only steps that the new relation affects
are estimated again. Of each state the 8 steps with the least fan-outs are priced, also where it has
a hundred. A layer keeps 64 states, and fewer only where a model has so many paths and relations
that all of them together would take seconds (32 for 40 of 40).
"""

from __future__ import annotations

from typing import NamedTuple

from deltajoin.planner.classes import numbers
from deltajoin.planner.lookup import Price
from deltajoin.planner.steps import Steps

WIDEST, NARROWEST, LOOKS = 64, 8, 8
#: Steps that all paths of a model may look at, as far as the narrowest beam lets them.
MODEL_LOOKS = 400_000
#: Partners of relations, squared, that all steps of a model's paths may meet for each state kept.
MODEL_WORK = 5_000_000
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


def finish_by_beam(
    steps: Steps,
    price: Price,
    width: int,
    layer: list[State],
    rows_of: dict[int, float],
    within: int,
) -> tuple[list[State], dict[int, float]]:
    """The last layer, grown from this one; and the rows of every set on the way."""
    beam = [
        _Front(s, rows_of[s.bound], _steps(steps, s.bound, within))
        for s in sorted(layer, key=rank)[:width]
    ]
    known = dict(rows_of)
    while beam[0].steps:
        beam = _grown(steps, price, width, beam, within)
        known |= {front.state.bound: front.rows for front in beam}
    return [front.state for front in beam], known


def _steps(steps: Steps, bound: int, within: int) -> list[_Step]:
    """The steps from a set to its neighbours among some relations."""
    near = numbers(steps.neighbours(bound) & within)
    sizes = ((steps.size(bound, new), new) for new in near)
    return sorted(_Step(fan_out, new, key) for (fan_out, key), new in sizes)


def _grown(steps: Steps, price: Price, width: int, beam: list[_Front], within: int) -> list[_Front]:
    """The best states that are one relation larger: the cheapest way to each (set, place)."""
    found = [(front, step) for front in beam for step in front.steps[:LOOKS]]
    rows_of: dict[int, float] = {}
    for (state, rows, _), step in found:
        after, out = state.bound | 1 << step.new, rows * step.fan_out
        rows_of[after] = min(rows_of.get(after, out), out)
    best: dict[tuple[int, int], tuple[float, _Front, _Step]] = {}
    for front, step in found:
        state, after = front.state, front.state.bound | 1 << step.new
        rows, place = front.rows, state.place
        cost, place = price(state.bound, step.new, rows, rows_of[after], place, step.key)
        known = best.get((after, place))
        if known is None or state.cost + cost < known[0] * _TIE:
            best[after, place] = (state.cost + cost, front, step)
    grown = [
        (State(after, place, cost, (*front.state.order, step.new)), front, step)
        for (after, place), (cost, front, step) in best.items()
    ]
    grown.sort(key=lambda entry: rank(entry[0]))
    return [
        _Front(state, rows_of[state.bound], _handed_down(steps, front, step.new, within))
        for state, front, step in grown[:width]
    ]


def _handed_down(steps: Steps, front: _Front, new: int, within: int) -> list[_Step]:
    """The steps of a state once `new` is bound: those of before, anew where it affects them."""
    bound = front.state.bound
    affected = steps.affected(bound, new)
    old = [step for step in front.steps if step.new != new and not affected >> step.new & 1]
    fresh = _steps(steps, bound | 1 << new, affected & within)
    return sorted(old + fresh) if fresh else old
