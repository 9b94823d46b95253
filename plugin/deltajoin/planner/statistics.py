"""What is known of the sources, in order of trust, as one frozen value.

    measured   rows in and out of the lookups of earlier runs
    key, reference   declared keys and foreign keys
    sketch     distinct values as the last rebuild counted them, grown with the table
    log        rows, bytes, bounds and nulls of the Delta log's files
    hint       what the user says; fills what the log leaves open
    guess      rows to the power of 3/4 as distinct values, 1,000 as rows

Every estimate names the least trusted of what it stands on. Figures are kept between 1 and 10^18,
so that a wrong one can change an order but never silence a path or overflow.

Caller: asks `known(graph)` before it orders. A graph with a table of unknown size keeps the order
in which it was written (`planner.cardinality.written_order`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from deltajoin.catalog.statistics import ColumnStatistics, FileStatistics
from deltajoin.graph import JoinGraph

if TYPE_CHECKING:
    from deltajoin.planner.matching import Matching

Columns = tuple[str, tuple[str, ...]]
Reference = tuple[Columns, Columns]
Step = tuple[str, frozenset[str], str]
#: Source -> {"rows": n, "columns": {column: distinct values}}, as a rebuild counted them.
Sketches = Mapping[str, Mapping[str, Any]]

TRUST = ("measured", "key", "reference", "sketch", "log", "hint", "guess")
_ASSUMED_ROWS = 1000.0
_MOST = 1e18
_FADE = 0.7
_NOTHING = ColumnStatistics(None, None, None, None)


class Estimate(NamedTuple):
    """A figure and the least trusted source that it stands on, one of `TRUST`."""

    value: float
    source: str


@dataclass(frozen=True)
class Measured:
    """Rows into and out of one lookup, summed over runs; older runs count less."""

    rows_in: float
    rows_out: float
    runs: int


def measured_steps(runs: Iterable[Sequence[Mapping[str, Any]]]) -> dict[Step, Measured]:
    """The lookups of earlier runs by driver, relations bound before, and relation looked up.

    Args:
        runs: the `paths` of audit records, newest first. A lookup without rows in, or one that
            Spark never reached (no rows counted), was not measured.
    """
    found: dict[Step, Measured] = {}
    weight = 1.0
    for paths in runs:
        for path in paths:
            bound, rows = frozenset({str(path["driver"])}), path.get("change_rows")
            for step in path["steps"]:
                relation, out = str(step["relation"]), step.get("rows_out")
                if rows and out is not None:
                    old = found.get((str(path["driver"]), bound, relation), Measured(0.0, 0.0, 0))
                    found[str(path["driver"]), bound, relation] = Measured(
                        old.rows_in + weight * rows, old.rows_out + weight * out, old.runs + 1
                    )
                bound, rows = bound | {relation}, out
        weight *= _FADE
    return found


@dataclass(frozen=True)
class Statistics:
    """What is known of the sources.

    Args:
        rows: source -> rows by its log, None when that doesn't say.
        keys: source -> columns that are unique in it.
        bytes: source -> bytes of its data files.
        log: source -> what its files say of columns.
        references: ((source, columns), (source, key columns)): a foreign key and what it refers to.
        hints: {"rows": {source: n}, "distinct": {"source.column": n}}.
        sketches: "source.column" -> distinct values (`grown`).
        measured: the lookups of earlier runs (`measured_steps`).
        types: (source, column) -> type, of all columns of a table or of none.
        driver: whose path is being ordered (`driven_by`); measured rows are used for it alone.
    """

    rows: Mapping[str, int | None]
    keys: Mapping[str, tuple[str, ...]]
    bytes: Mapping[str, int | None] = field(default_factory=dict)
    log: Mapping[str, FileStatistics] = field(default_factory=dict)
    references: tuple[Reference, ...] = ()
    hints: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    sketches: Mapping[str, float] = field(default_factory=dict)
    measured: Mapping[Step, Measured] = field(default_factory=dict)
    types: Mapping[tuple[str, str], str] = field(default_factory=dict)
    driver: str | None = None
    _matchings: dict[int, tuple[JoinGraph, Matching]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def table_rows(self, source: str) -> float:
        """Rows of a source table by its log, else by the user's hint, else 1,000."""
        return self.rows_of(source).value

    def rows_of(self, source: str) -> Estimate:
        """Rows of a source table and where the figure comes from."""
        rows = self.rows.get(source)
        if rows is not None:
            return Estimate(_sane(rows), "log")
        hint = self.hints.get("rows", {}).get(source)
        if hint is not None:
            return Estimate(_sane(hint), "hint")
        return Estimate(_ASSUMED_ROWS, "guess")

    def unknown(self, graph: JoinGraph) -> tuple[str, ...]:
        """Sources of a graph that have neither a row count nor a hint, sorted."""
        return tuple(s for s in graph.sources if self.rows_of(s).source == "guess")

    def known(self, graph: JoinGraph) -> bool:
        """True when every table's size is known; else a graph keeps its written order."""
        return not self.unknown(graph)

    def driven_by(self, driver: str) -> Statistics:
        """The same, for ordering the path of one driver: its measured lookups count."""
        if not any(step[0] == driver for step in self.measured):
            return self
        found = replace(self, driver=driver)
        object.__setattr__(found, "_matchings", self._matchings)  # does not depend on the driver
        return found

    def column(self, source: str, column: str) -> ColumnStatistics:
        """What the log says of a column."""
        log = self.log.get(source)
        return log.column(column) if log else _NOTHING

    def distinct(self, source: str, column: str) -> Estimate:
        """Distinct values of a column that are not null."""
        rows = self.rows_of(source)
        if self.keys.get(source) == (column,):
            return Estimate(rows.value, "key" if rows.source == "log" else rows.source)
        about = self.column(source, column)
        most = max(1.0, rows.value * (1 - (about.null_share or 0.0)))
        referred = [
            self.table_rows(key)
            for (name, columns), (key, _) in self.references
            if name == source and columns == (column,)
        ]
        bound = min([most, *referred, *([] if about.domain is None else [_sane(about.domain)])])
        sketch = self.sketches.get(f"{source}.{column}")
        if sketch is not None:
            return Estimate(min(_sane(sketch), bound), "sketch")
        hint = self.hints.get("distinct", {}).get(f"{source}.{column}")
        if hint is not None:
            return Estimate(min(_sane(hint), bound), "hint")
        if about.domain is not None and about.domain <= bound:
            return Estimate(bound, "log")
        return Estimate(min(most**0.75, bound), "reference" if bound in referred else "guess")

    def matching(self, graph: JoinGraph) -> Matching:
        """How the relations of a graph, in canonical order, match under its inner predicates; made
        once, whoever drives."""
        from deltajoin.planner.canonical import canonical_names
        from deltajoin.planner.matching import Matching

        if id(graph) not in self._matchings:
            relations = [graph.by_name[name] for name in canonical_names(graph)]
            self._matchings[id(graph)] = (graph, Matching(relations, graph.predicates, self))
        return self._matchings[id(graph)][1]


def grown(distinct: float, then: float, now: float) -> float:
    """Distinct values of a table that had `then` rows with so many, and has `now`.

    A column of few values gains few, a unique one gains as many as the table has rows more.

    Example:
        >>> grown(1000, 1000, 8000), round(grown(10, 1000, 8000)), grown(7, 1000, 1000)
        (8000.0, 20, 7.0)
    """
    if min(distinct, then, now) <= 1 or then == now:
        return float(distinct)
    return float(now ** min(math.log(distinct) / math.log(then), 1.0))


def _sane(figure: float) -> float:
    """A count as a usable number: not below 1, not above 10^18, 1 for what is none."""
    value = float(figure)
    return 1.0 if math.isnan(value) else min(max(value, 1.0), _MOST)
