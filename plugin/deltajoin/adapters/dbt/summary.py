"""One line for each delta_join model at the end of `dbt run` and `dbt build`.

dbt has no place for it: its own line of a model scrolls away, and a hook of the package would
count as a node of every run and connect to Spark. So the lines follow dbt's own event at the end.
Caller: the plugin, at each invocation; dbt forgets callbacks between two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltajoin.adapters.dbt.invocations import outcomes_of

_END_OF_RUN = "FinishedRunningStats"


def tell_at_the_end() -> None:
    """Let this invocation end with the lines of its delta_join models, if it has any."""
    from dbt_common.events.event_manager_client import add_callback_to_manager, get_event_manager

    if _tell not in get_event_manager().callbacks:
        add_callback_to_manager(_tell)


def _tell(message: Any) -> None:
    if message.info.name != _END_OF_RUN:
        return
    from dbt_common.events.functions import fire_event
    from dbt_common.events.types import Note
    from dbt_common.invocation import get_invocation_id

    for line in summary(outcomes_of(get_invocation_id())):
        fire_event(Note(msg=line))


def summary(outcomes: Mapping[str, tuple[str, ...]]) -> list[str]:
    """The lines for all models, by their unique ids; none without models.

    Example:
        >>> for line in summary({"model.p.wide": ("kept", "warning: w"), "model.p.b": ("built",)}):
        ...     print(line)
        deltajoin:
          b     built
          wide  kept
                warning: w
    """
    named = {name.split(".", 2)[-1]: lines for name, lines in sorted(outcomes.items())}
    width = max(map(len, named), default=0)
    lines = ["deltajoin:"] if named else []
    for name, (first, *more) in named.items():
        lines.append(f"  {name:<{width}}  {first}")
        lines += [f"  {'':<{width}}  {line}" for line in more]
    return lines
