"""A plan by pairs alone, for graphs so dense that to estimate a set takes longer than to plan it.

    rows(S) = product of the relations' rows x product of the shares of its pairs

Pairs of one class count too often this way: sets look smaller than they are, the more the larger.
What is cheap early is told apart all the same, and the plan is costed anew by the real estimates.
Caller: a plan for a graph whose relations have dozens of partners each; see `full`.
"""

from __future__ import annotations

import math

from deltajoin.planner.combine import Combiner, SubPlan
from deltajoin.planner.greedy import SCORES, greedy_plan
from deltajoin.planner.hypergraph import bits
from deltajoin.planner.linearise import best_bushy
from deltajoin.planner.windows import Windows

#: A linear order of more relations has more intervals than there is time for.
_LARGEST = 80
_MOST = 200.0


def rough_plan(combiner: Combiner, work: int) -> SubPlan | None:
    """The best plan found over pairs, costed by the combiner; None where one of its joins is none.

    Args:
        work: pairs that windows may try.
    """
    rough = Combiner(combiner.graph, PairRows(combiner), combiner.cost)
    plan = greedy_plan(rough, SCORES[0])
    if plan is None:
        return None
    if combiner.graph.size <= _LARGEST:
        plan = best_bushy(rough, tuple(plan.leaves()), plan.cost)[0] or plan
    return _again(combiner, Windows(rough, work).improve(plan))


class PairRows:
    """Rows of sets by the shares of their pairs, which a combiner estimates once each."""

    def __init__(self, combiner: Combiner) -> None:
        size = combiner.graph.size
        own = [math.log(combiner.rows(1 << number)) for number in range(size)]
        #: Relation -> bit of each relation before it -> logarithm of the share of pairs that match.
        self._shares = [
            {
                1 << other: math.log(combiner.rows(1 << number | 1 << other)) - mine - own[other]
                for other in range(number)
            }
            for number, mine in enumerate(own)
        ]
        self._known = {1 << number: mine for number, mine in enumerate(own)} | {0: 0.0}

    def rows(self, joined: int) -> float:
        """Expected rows of a set."""
        return math.exp(max(-_MOST, min(self._log(joined), _MOST)))

    def _log(self, joined: int) -> float:
        found = self._known.get(joined)
        if found is None:
            last = joined.bit_length() - 1
            rest, shares = joined ^ 1 << last, self._shares[last]
            found = self._log(rest) + self._known[1 << last] + sum(shares[b] for b in bits(rest))
            self._known[joined] = found
        return found


def _again(combiner: Combiner, plan: SubPlan) -> SubPlan | None:
    """The same joins under another combiner."""
    if plan.left is None or plan.right is None:
        return combiner.leaf(plan.relations.bit_length() - 1)
    left, right = _again(combiner, plan.left), _again(combiner, plan.right)
    return combiner.join(left, right) if left and right else None
