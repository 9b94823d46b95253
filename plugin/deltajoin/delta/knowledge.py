"""Model + table states -> what the planner knows of the sources (`planner.statistics`).

Sizes, file statistics and keys come from the states, foreign keys and hints from the model in the
spelling of the schemas, measured lookups from the records of earlier epochs that had the same
definition. What is declared and can't be found is refused: a typing error would plan worse, unseen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltajoin.catalog import TableState, TargetState
from deltajoin.delta.history import recent_epochs
from deltajoin.errors import DeltaJoinError
from deltajoin.planner.kept import LastOrder
from deltajoin.planner.statistics import (
    Columns,
    Reference,
    Sketches,
    Statistics,
    grown,
    measured_steps,
)

Keys = Mapping[str, tuple[str, ...]]
Hints = Mapping[str, Mapping[str, float]]

#: Epochs looked back for measured rows.
RUNS = 20


@dataclass(frozen=True)
class Declared:
    """What a model says of its sources.

    Args:
        sources: names of all its tables, also those that the query doesn't read.
        references: "table.column" or "table.column, column" of a foreign key -> the same of the key
            that it refers to.
        hints: {"rows": {table: n}, "distinct": {"table.column": n}}.
    """

    sources: tuple[str, ...]
    references: Mapping[str, str] = field(default_factory=dict)
    hints: Hints = field(default_factory=dict)


def gather_statistics(
    tables: Mapping[str, TableState],
    keys: Keys,
    declared: Declared,
    runs: Sequence[Sequence[Mapping[str, Any]]] = (),
    sketches: Sketches | None = None,
) -> Statistics:
    """What is known of the sources; `runs`: paths of earlier runs, newest first (`earlier_paths`);
    `sketches`: as of `last_sketches`.

    Raises:
        DeltaJoinError: UNKNOWN_REFERENCE, UNKNOWN_HINT for a table or column that is not there, a
            number of columns that differs, or a figure that is no count.
    """
    return Statistics(
        rows={name: table.rows for name, table in sorted(tables.items())},
        keys=keys,
        bytes={name: table.bytes for name, table in sorted(tables.items())},
        log={name: table.log for name, table in sorted(tables.items()) if table.log},
        references=resolve_references(declared, tables),
        hints=resolve_hints(declared, tables),
        types={(n, c.name): c.type for n, table in sorted(tables.items()) for c in table.columns},
        sketches=dict(_today(sketches or {}, tables)),
        measured=measured_steps(runs),
    )


def _today(sketches: Sketches, tables: Mapping[str, TableState]) -> Iterator[tuple[str, float]]:
    for source, sketch in sorted(sketches.items()):
        table = tables.get(source)
        if table is not None and table.rows is not None:
            for column, distinct in sketch["columns"].items():
                yield f"{source}.{column}", grown(distinct, sketch["rows"], table.rows)


def earlier_paths(state: TargetState | None, mark: str) -> tuple[Sequence[Mapping[str, Any]], ...]:
    """The paths of the last epochs of one definition (`mark`: its fingerprint), newest first."""
    found = (paths for record in _recorded(state, mark) if (paths := record.get("paths")))
    return tuple(paths for paths, _ in zip(found, range(RUNS), strict=False))


def earlier_within(
    state: TargetState | None, mark: str
) -> dict[str, list[Sequence[Mapping[str, Any]]]]:
    """The same within each derived source."""
    found: dict[str, list[Sequence[Mapping[str, Any]]]] = {}
    for record, _ in zip(_recorded(state, mark), range(RUNS), strict=False):
        for derived in record.get("derived", ()):
            if derived["paths"]:
                found.setdefault(str(derived["source"]), []).append(derived["paths"])
    return found


def last_order(state: TargetState | None, mark: str) -> LastOrder | None:
    """The order of the whole query in the last epoch of one definition; None when none tells."""
    orders = (order for record in _recorded(state, mark) if (order := record.get("order")))
    found = next(orders, None)
    return LastOrder(str(found["nesting"]), found["rows"]) if found else None


def last_sketches(state: TargetState | None, mark: str) -> Sketches:
    """The distinct values that the last rebuild of one definition counted; nothing if it didn't."""
    found: Sketches = next(_recorded(state, mark), {}).get("sketches", {})
    return found


def _recorded(state: TargetState | None, mark: str) -> Iterator[Mapping[str, Any]]:
    return (record for _, record in recent_epochs(state, mark))


def resolve_references(
    declared: Declared, tables: Mapping[str, TableState]
) -> tuple[Reference, ...]:
    """Declared foreign keys in schema spelling, sorted; those of tables not read are left out."""
    found: list[Reference] = []
    for one, other in sorted(declared.references.items()):
        names = [_split(text, declared, "UNKNOWN_REFERENCE") for text in (one, other)]
        if len(names[0][1]) != len(names[1][1]):
            message = f"has not as many columns as '{other}'"
            raise _unknown("UNKNOWN_REFERENCE", one, message)
        if all(source in tables for source, _ in names):
            found.append((_spelled(names[0], tables), _spelled(names[1], tables)))
    return tuple(found)


def resolve_hints(declared: Declared, tables: Mapping[str, TableState]) -> Hints:
    """The user's figures in schema spelling; those of tables not read are left out."""
    rows: dict[str, float] = {}
    distinct: dict[str, float] = {}
    for kind, figures in sorted(declared.hints.items()):
        if kind not in ("rows", "distinct"):
            raise _unknown("UNKNOWN_HINT", kind, "is neither 'rows' nor 'distinct'")
        for name, figure in sorted(figures.items()):
            if isinstance(figure, bool) or not isinstance(figure, int | float) or not figure >= 0:
                raise _unknown("UNKNOWN_HINT", name, f"has '{figure}', which is no count")
            if kind == "rows":
                rows[_source(name, name, declared, "UNKNOWN_HINT")] = figure
                continue
            names = _split(name, declared, "UNKNOWN_HINT")
            if names[0] in tables:
                source, columns = _spelled(names, tables, "UNKNOWN_HINT")
                distinct[f"{source}.{columns[0]}"] = figure
    return {"distinct": distinct, "rows": rows}


def _split(text: str, declared: Declared, code: str) -> Columns:
    """`table.a, b` as the source and the columns as written."""
    first, *more = (part.strip() for part in text.split(","))
    table, _, column = first.rpartition(".")
    if not table or not column or not all(more):
        raise _unknown(code, text, "is not 'table.column'")
    return _source(table, text, declared, code), (column, *more)


def _source(table: str, text: str, declared: Declared, code: str) -> str:
    found = {known.lower(): known for known in declared.sources}.get(table.lower())
    if found is None:
        raise _unknown(code, text, "names a table that is not among the sources")
    return found


def _spelled(
    names: Columns, tables: Mapping[str, TableState], code: str = "UNKNOWN_REFERENCE"
) -> Columns:
    source, columns = names
    schema = {column.name.lower(): column.name for column in tables[source].columns}
    missing = [column for column in columns if column.lower() not in schema]
    if missing:
        raise _unknown(code, source, f"has no column {', '.join(missing)}")
    return source, tuple(schema[column.lower()] for column in columns)


def _unknown(code: str, name: str, message: str) -> DeltaJoinError:
    field_ = "references" if code == "UNKNOWN_REFERENCE" else "hints"
    return DeltaJoinError(
        code,
        f"{field_}: '{name}' {message}",
        where=name,
        remedy=f"Correct the {field_} of the model.",
    )
