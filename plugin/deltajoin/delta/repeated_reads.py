"""How often a run reads tables once every view in its statements is written out.

A step that joins the stream with what other steps make of it names the stream at least twice: in
the join, and for the keys that enter there. Spark has no view that is computed once, so that each
outer join within another one multiplies what it has to plan:

    t LEFT JOIN (u LEFT JOIN v)                             some 40 reads
    t LEFT JOIN (u LEFT JOIN (v LEFT JOIN (w LEFT JOIN x))) some 1,700
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from deltajoin.delta.path import LookupPath, LookupStep
from deltajoin.errors import Refusal

#: Reads that Spark still plans within a minute.
MOST_READS = 1000
_REMEDY = "Put the inner joins into a model of their own, and join that."


def too_many_reads(groups: Iterable[Sequence[LookupPath]]) -> Refusal | None:
    """Why a rebuild is planned sooner than these paths, those of each statement together; None
    where Spark can plan them."""
    found = max(sum(reads_written_out(path.steps) for path in paths) for paths in groups)
    if found <= MOST_READS:
        return None
    message = (
        f"outer joins within each other would read tables {found:,} times to follow these changes, "
        f"over {MOST_READS:,}"
    )
    return Refusal("REPEATED_READS", message, "its joins", _REMEDY)


def reads_written_out(steps: Sequence[LookupStep], stream: int = 1) -> int:
    """Reads in what some steps make of a stream that itself takes `stream` of them.

    Example:
        >>> step = LookupStep("u", "u", 1, "this", ("`t`.`k` = `u`.`k`",), False, 1)
        >>> reads_written_out([step, step])
        3
    """
    for step in steps:
        if step.kind == "enter":
            stream += 1
        elif step.kind == "scan":
            stream = 1
        elif step.inside:
            chains = [chain for chain in (step.inside, step.previous) if chain]
            stream += sum(reads_written_out(chain, stream) for chain in chains)
        elif step.kind != "filter":
            stream += 1
    return stream
