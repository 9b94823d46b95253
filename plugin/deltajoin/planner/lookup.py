"""What one lookup of a path costs, and how its sides meet: for search, explain and job alike.

    table below LARGE_TABLE_ROWS           broadcast the table; the stream stays where it is
    stream of at most `most_sent`          broadcast the change to the table
    else                                   exchange both, or the table where the stream lies by the
                                           lookup's key already; sort, merge

The size of a table is no cost by itself: the bytes touched are, and the fan-out. Seconds by the
weights of `planner.cost`. Caller: `lookup_pricing` for a search, which leaves out what every order
pays alike; `lookup_cost` over an `arrangement` for a lookup by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from deltajoin.catalog.statistics import Surviving
from deltajoin.graph import JoinGraph
from deltajoin.planner.classes import numbers
from deltajoin.planner.cost import (
    BROADCAST,
    BROADCAST_ROW,
    FILE,
    PROBE,
    SCAN,
    SHUFFLE,
    SORT_MERGE,
)
from deltajoin.planner.prune import pruned
from deltajoin.planner.statistics import Statistics
from deltajoin.planner.steps import Steps
from deltajoin.planner.widths import INFLATION, UNKNOWN_ROW, row_bytes, used_bytes

#: A travelling change of at most so many rows and bytes, as expected, is broadcast to a table of at
#: least so many rows; a smaller table is broadcast itself. All paths of a run are one query, which
#: holds what each of their lookups broadcasts, and several times over: ten lookups have to fit.
BROADCAST_ROWS, BROADCAST_BYTES, LARGE_TABLE_ROWS = 1_000_000, 32 * 2**20, 200_000
#: Seconds of a lookup that nothing passes: its plan, its start, and the other side's read. All
#: orders have as many of them; they decide only where lookups can be shared.
LOOKUP = 0.05
#: Ranges that keep more of the files than this are of no use.
USEFUL = 0.95
#: Where the stream lies after a lookup: where it lay, by the lookup's key, anywhere.
KEPT, KEYED, LOST = 0, 1, 2

#: (bound set, new relation's number, rows in, rows out, key by which the stream lies, the step's
#: key) -> (price, key by which the stream lies after); a key is 0 where it is of no use.
Price = Callable[[int, int, float, float, int, int], tuple[float, int]]


@dataclass(frozen=True)
class Arrangement:
    """What a lookup reads of its table: in words, the seconds to read it, rows, bytes of rows;
    whether the whole table is so large that a change is brought to it."""

    text: str
    seconds: float
    rows: float
    bytes: float
    large: bool


def arrange(
    name: str,
    rows: float,
    width: float = UNKNOWN_ROW,
    files: Surviving | None = None,
    column: str = "",
    unique: bool = False,
) -> Arrangement:
    """How a table is looked up.

    Args:
        name: the table, for people.
        rows: all its rows; `width`: bytes of one in memory (`row_bytes`).
        files: those left by the literal ranges pushed on `column`, or all of them with no column;
            None when the log can't tell.
        unique: the lookup is by a declared key.

    Example:
        >>> arrange("orders", 1.5e6, 120.0, Surviving(3, 812, 220_000), "o_orderkey").text
        'orders: 3 of 812 files by o_orderkey ranges'
        >>> arrange("orders", 1.5e6, 120.0, Surviving(800, 812, 59_000_000), "o_orderkey").text
        'orders: all 812 files'
    """
    useful = files is not None and column != "" and files.files < USEFUL * files.of
    size, opened, text = rows * width / INFLATION, 1, "whole table"
    touched = rows
    if files is not None:
        opened = files.files if useful else files.of
        text = "the only file" if opened == 1 else f"all {opened:,} files"
    if files is not None and useful:
        text = f"{files.files:,} of {files.of:,} files by {column} ranges"
        touched *= min(1.0, files.bytes / max(size, 1.0))
        size = float(files.bytes)
    text = f"{name}: {text}" + (", unique" if unique else "")
    large = rows >= LARGE_TABLE_ROWS
    return Arrangement(text, SCAN * size + FILE * opened, touched, touched * width, large)


def arrangement(
    statistics: Statistics, source: str, own: Iterable[str], unique: bool = False
) -> Arrangement:
    """How a source is looked up, by what its log says.

    Args:
        own: the query's predicates on this relation alone.
    """
    rows, log = statistics.table_rows(source), statistics.log.get(source)
    size, width = statistics.bytes.get(source), row_bytes(statistics, source)
    if log is None or size is None:
        found = arrange(source, rows, width, unique=unique)
    else:
        column, files = pruned(log, own) or ("", Surviving(log.files, log.files, size))
        found = arrange(source, rows, width, files, column, unique)
    return replace(found, large=is_large(statistics, source))


def is_large(statistics: Statistics, source: str) -> bool:
    """True for a table that a change is brought to: of many rows, or of nobody knows how many."""
    rows = statistics.rows_of(source)
    return rows.source == "guess" or rows.value >= LARGE_TABLE_ROWS


def most_sent(width: float) -> float:
    """Up to how many rows, of so many bytes each, a stream is broadcast to a large table.

    Example:
        >>> most_sent(8.0), most_sent(128.0)
        (1000000, 262144.0)
    """
    return min(BROADCAST_ROWS, BROADCAST_BYTES / max(width, 1.0))


def stream_bytes(graph: JoinGraph, statistics: Statistics, bound: Iterable[str]) -> float:
    """Bytes of a row of the stream once some relations are bound."""
    relations = (graph.by_name[name] for name in bound)
    return sum(used_bytes(statistics, r.source, r.columns) for r in relations)


class LookupCost(NamedTuple):
    """Seconds, how the sides meet, and where the stream lies after: KEPT, KEYED or LOST."""

    seconds: float
    exchange: str
    place: int


def lookup_cost(
    table: Arrangement, rows_in: float, rows_out: float, width: float, placed: bool
) -> LookupCost:
    """What one lookup costs and how it is made.

    Args:
        rows_in: rows of the stream before it, `rows_out` after it; `width`: bytes of one before.
        placed: the stream already lies by the lookup's key.

    Example:
        >>> orders = arrange("orders", 1.5e6, 120.0, Surviving(3, 812, 220_000), "o_orderkey")
        >>> lookup_cost(orders, 90.0, 90.0, 100.0, False).exchange
        'broadcast the change'
        >>> lookup_cost(orders, 1e9, 1e9, 100.0, False).exchange
        'exchange both'
    """
    seconds, place = _price(table, rows_in, rows_out, rows_in * width, placed)
    if place == KEPT:
        seconds += BROADCAST * table.bytes + BROADCAST_ROW * table.rows
        exchange = "broadcast the table"
    else:
        seconds += PROBE * table.rows
        exchange = "exchange the table" if placed else "exchange both"
    exchange = "broadcast the change" if place == LOST else exchange
    return LookupCost(table.seconds + seconds, exchange, place)


def _price(
    table: Arrangement, rows_in: float, rows_out: float, size: float, placed: bool
) -> tuple[float, int]:
    """A lookup's seconds beyond those for a stream without a row, and where the stream lies after;
    `size`: bytes of the stream."""
    if not table.large:
        return PROBE * (rows_in + rows_out), KEPT
    if rows_in <= BROADCAST_ROWS and size <= BROADCAST_BYTES:
        return BROADCAST * size + BROADCAST_ROW * rows_in + PROBE * rows_out, LOST
    seconds = SHUFFLE * table.bytes + (SORT_MERGE - PROBE) * table.rows
    seconds += SORT_MERGE * rows_in + PROBE * rows_out
    return (seconds if placed else seconds + SHUFFLE * size), KEYED


def lookup_pricing(steps: Steps) -> Price:
    """Steps priced by `lookup_cost`, less what it is for a stream without a row."""
    graph, statistics = steps.graph, steps.statistics
    own: dict[str, list[str]] = {name: [] for name in steps.names}
    for predicate in graph.predicates:
        if len(predicate.relations) == 1:
            own[min(predicate.relations)].append(predicate.sql)
    relations = [graph.by_name[name] for name in steps.names]
    tables = [arrangement(statistics, r.source, own[r.name]) for r in relations]
    widths = [used_bytes(statistics, r.source, r.columns) for r in relations]

    @cache
    def width(bound: int) -> float:
        return sum(widths[number] for number in numbers(bound))

    def price(
        bound: int, new: int, rows_in: float, rows_out: float, place: int, key: int
    ) -> tuple[float, int]:
        near, size = place != 0 and place == key, rows_in * width(bound)
        seconds, moved = _price(tables[new], rows_in, rows_out, size, near)
        after = place if moved == KEPT else key if moved == KEYED else 0
        return seconds, after if after and steps.usable(after, bound | 1 << new) else 0

    return price
