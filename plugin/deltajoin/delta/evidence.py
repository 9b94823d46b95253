"""What a rebuild is held against: the query as it was written, run by Spark itself.

Before a rebuild is written, our form of the query must have the columns of the user's own text, and
where the target is built for the first time after something changed its meaning, its rows as well.
A query that fails this is run as its own text from then on, until its definition or our rules
change.
"""

from __future__ import annotations

from deltajoin.delta.format import RULES
from deltajoin.delta.history import Record
from deltajoin.delta.plan import DeltaPlan
from deltajoin.errors import Refusal

#: Reasons of a rebuild that nothing has vouched for yet.
_UNPROVEN = ("FIRST_RUN", "HISTORY_LOST", "MODEL_CHANGED", "RULES_CHANGED")
#: Pairs of rows that Spark may compare for the text: about a minute.
MOST_PAIRS = 1e9


def compares_rows(plan: DeltaPlan) -> bool:
    """True where a rebuild's rows are compared too. Those that may depend on the order in which
    floats are added can't be: such a query is never kept."""
    return plan.reason in _UNPROVEN and plan.rebuilt_because is None


def compares_too_many(plan: DeltaPlan) -> bool:
    """Whether Spark, which knows no accelerators, would compare very many pairs of rows."""
    queries = (plan.full_query, *(derived.full_query for derived in plan.derived))
    return any(arm.compared > MOST_PAIRS for query in queries if query for arm in query.arms)


def found_tied(last: Record | None, mark: str) -> bool:
    """Whether rows were found to tie in the order of a window of the query."""
    return bool(_found(last, mark, "tied"))


def found_to_differ(last: Record | None, mark: str) -> Refusal | None:
    """What stands against keeping a query whose form of ours was found to differ from its text."""
    found = _found(last, mark, "differs")
    if last is None or not found:
        return None
    return Refusal(
        "MEANING_DIFFERS",
        found,
        str(last["model"]),
        "Report the query: it is rebuilt from its own text until it or deltajoin's rules change.",
    )


def _found(last: Record | None, mark: str, what: str) -> str:
    if last is None or last["fingerprint"] != mark or last.get("rules") != RULES:
        return ""
    return str((last.get("evidence") or {}).get(what) or "")
