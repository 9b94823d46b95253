"""What Spark did to run a query, in figures that a busy machine does not change.

After a query was collected, its final physical plan (as adaptive execution left it) holds counters:
bytes that were exchanged, rows that were broadcast (a hash table has 64 MB whatever is in it) and
that joins gave, and how many exchanges there were.
Two runs of one plan give the same figures, so orders can be compared on any machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Work:
    """Exchanges and their bytes, broadcasts and their rows, rows that all joins gave in sum."""

    exchanges: int
    exchanged: int
    broadcasts: int
    broadcast: int
    joined: int

    def __str__(self) -> str:
        return (
            f"{self.joined / 1e6:>9.2f} M rows joined, {self.exchanges:>2} exchanges of"
            f" {self.exchanged / 1e6:>7.1f} MB, {self.broadcasts:>2} broadcasts of"
            f" {self.broadcast:>7,} rows"
        )


def work_of(frame: Any) -> Work:
    """The work of a data frame that was collected."""
    nodes = list(_nodes(frame._jdf.queryExecution().executedPlan()))
    moved = [node for node in nodes if node.nodeName() == "Exchange"]
    sent = [node for node in nodes if node.nodeName() == "BroadcastExchange"]
    joins = [node for node in nodes if "Join" in node.nodeName()]
    return Work(
        len(moved),
        sum(_metric(node, "dataSize") for node in moved),
        len(sent),
        sum(_metric(node, "numOutputRows") for node in sent),
        sum(_metric(node, "numOutputRows") for node in joins),
    )


def joins_of(frame: Any) -> str:
    """A line per join in the order of the final plan: how it was made and the rows it gave."""
    return "\n".join(_lines(frame._jdf.queryExecution().executedPlan(), 2))


def _lines(node: Any, depth: int) -> Iterator[str]:
    name = node.nodeName()
    metrics = {
        "Exchange": ("shuffleRecordsWritten", "dataSize"),
        "BroadcastExchange": ("numOutputRows",),
    }.get(name, ("numOutputRows",) if "Join" in name or "Scan" in name else ())
    if metrics:
        figures = ", ".join(f"{key} {_metric(node, key):,}" for key in metrics)
        yield f"{'  ' * depth}{name} {figures}"
        depth += 1
    for child in _below(node):
        yield from _lines(child, depth)


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    for child in _below(node):
        yield from _nodes(child)


def _below(node: Any) -> list[Any]:
    """Children; of a stage or an adaptive plan, what it ran; of a reused exchange, none."""
    name = node.nodeName()
    if name == "AdaptiveSparkPlan":
        return [node.executedPlan()]
    if name.endswith("QueryStage"):
        return [node.plan()]
    if name == "ReusedExchange":
        return []
    children = node.children()
    return [children.apply(number) for number in range(children.size())]


def _metric(node: Any, name: str) -> int:
    found = node.metrics().get(name)
    return int(found.get().value()) if found.isDefined() else 0
