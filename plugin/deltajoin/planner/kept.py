"""Orders that hold: an earlier order is kept until the best is clearly cheaper.

An order is kept while its cost under today's statistics is at most `KEEP` times the best that is
found. Every order is exact, so this is about stability alone. A figure that halves can make the
best order half as dear, hence 2; growing by half does less.

What a join of the whole query costs leaps where a side grows past what may be broadcast. So while
every table has half to twice the rows that it had when the order was chosen, it is also kept if it
holds over those: then only what is declared or measured anew can make another one clearly cheaper.

Caller: says which order was the last, and the rows then; `delta.pinning` for paths.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from deltajoin.planner.combine import Combiner, SubPlan

Rows = Mapping[str, int | None]

#: How many times dearer than the best an order may be that is kept.
KEEP = 2.0

#: How a nesting writes its joins.
SIGNS = {"inner": "⨝", "left": "⟕", "full": "⟗", "semi": "⋉", "anti": "▷"}


@dataclass(frozen=True)
class LastOrder:
    """An earlier order of a whole query, as `FullQuery.nesting` writes it.

    `rows`: source -> rows when it was chosen.
    """

    nesting: str
    rows: Rows = field(default_factory=dict)

    def is_near(self, rows: Rows) -> bool:
        """True when every table has half to twice the rows that it had then.

        Example:
            >>> then = LastOrder("(a ⨝ b)", {"a": 10, "b": 1000})
            >>> then.is_near({"a": 15, "b": 500}), then.is_near({"a": 15, "b": 10_000})
            (True, False)
        """
        return all(_near(self.rows.get(source), now) for source, now in rows.items())


def _near(then: int | None, now: int | None) -> bool:
    if then is None or now is None:
        return False
    return max(then, 1) <= KEEP * max(now, 1) and max(now, 1) <= KEEP * max(then, 1)


def holds(old: float, new: float) -> bool:
    """True when an order of cost `old` is kept though `new` is the best."""
    return old <= KEEP * new


def replanned(what: str, old: float, new: float) -> str:
    """The note on an order that was given up.

    Example:
        >>> replanned("Δorders", 1234567.0, 400000.0)
        'Δorders: old cost 1.2e+06, new cost 4.0e+05'
    """
    return f"{what}: old cost {old:.1e}, new cost {new:.1e}"


def nested_plan(combiner: Combiner, nesting: str) -> SubPlan | None:
    """The plan that a nesting writes, costed anew; None when it is none of these relations, or when
    a join of it would change the rows."""
    return next(
        (
            plan
            for plan, end in _parsed(combiner, nesting, 0)
            if end == len(nesting) and plan.relations == combiner.graph.everything
        ),
        None,
    )


def _parsed(combiner: Combiner, text: str, at: int) -> Iterator[tuple[SubPlan, int]]:
    """Every plan that is written from a place on, and where it ends."""
    for number, name in enumerate(combiner.graph.names):
        if text.startswith(name, at):
            yield combiner.leaf(number), at + len(name)
    if not text.startswith("(", at):
        return
    for left, middle in _parsed(combiner, text, at + 1):
        if text[middle : middle + 1] != " " or text[middle + 2 : middle + 3] != " ":
            continue
        for right, end in _parsed(combiner, text, middle + 3):
            plan = combiner.join_as(left, right) if text.startswith(")", end) else None
            if plan is not None and SIGNS[plan.kind] == text[middle + 1]:
                yield plan, end + 1
