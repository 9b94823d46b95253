"""Model + table states -> what the planner knows of the sources (`planner.statistics`).

Declarations are found in the spelling of the schemas, measured lookups in the records of earlier
epochs of the same definition. What is declared and can't be found is refused: a typing error would
plan worse, unseen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from deltajoin.catalog import TableState, TargetState
from deltajoin.delta.history import recent_epochs
from deltajoin.delta.identity import Keys
from deltajoin.errors import DeltaJoinError
from deltajoin.model import Model
from deltajoin.planner.kept import LastOrder
from deltajoin.planner.statistics import (
    Columns,
    Reference,
    Sketches,
    Statistics,
    grown,
    measured_steps,
)

Hints = Mapping[str, Mapping[str, float]]
Tables = Mapping[str, TableState]

#: Epochs looked back for measured rows.
RUNS = 20
_FIELDS = {"UNKNOWN_KEY": "keys", "UNKNOWN_REFERENCE": "references", "UNKNOWN_HINT": "hints"}


def gather_statistics(
    tables: Tables,
    keys: Keys,
    model: Model,
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
        references=resolve_references(model, tables),
        hints=resolve_hints(model, tables),
        types={(n, c.name): c.type for n, table in sorted(tables.items()) for c in table.columns},
        sketches=dict(_today(sketches or {}, tables)),
        measured=measured_steps(runs),
    )


def _today(sketches: Sketches, tables: Tables) -> Iterator[tuple[str, float]]:
    for source, sketch in sorted(sketches.items()):
        table = tables.get(source)
        if table is not None and table.rows is not None:
            for column, distinct in sketch["columns"].items():
                yield f"{source}.{column}", grown(distinct, sketch["rows"], table.rows)


def earlier_paths(state: TargetState | None, mark: str) -> tuple[Sequence[Mapping[str, Any]], ...]:
    """The paths of the last epochs of one definition (`mark`: its fingerprint), newest first."""
    found = (paths for record in _recorded(state, mark) if (paths := record.get("paths")))
    return tuple(islice(found, RUNS))


def earlier_within(
    state: TargetState | None, mark: str
) -> dict[str, list[Sequence[Mapping[str, Any]]]]:
    """The same within each derived source."""
    found: dict[str, list[Sequence[Mapping[str, Any]]]] = {}
    for record in islice(_recorded(state, mark), RUNS):
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


def resolve_keys(model: Model, tables: Tables) -> dict[str, tuple[str, ...]]:
    """Declared keys in schema spelling, for the sources that the query reads.

    Raises:
        DeltaJoinError: UNKNOWN_KEY for a table or column that is not there.
    """
    found: dict[str, tuple[str, ...]] = {}
    for table, columns in sorted(model.keys.items()):
        source = _source(table, table, model, "UNKNOWN_KEY")
        if not columns:
            raise _unknown("UNKNOWN_KEY", table, "has a key without a column")
        if source in tables:
            spelled = _spelled(source, columns, tables, "UNKNOWN_KEY")
            found[source] = tuple(dict.fromkeys(spelled))
    return found


def resolve_references(model: Model, tables: Tables) -> tuple[Reference, ...]:
    """Declared foreign keys in schema spelling, sorted; those of tables not read are left out."""
    code = "UNKNOWN_REFERENCE"
    found: list[Reference] = []
    for one, other in sorted(model.references.items()):
        (source, columns), (referred, key) = (_split(text, model, code) for text in (one, other))
        if len(columns) != len(key):
            raise _unknown(code, one, f"has not as many columns as '{other}'")
        if source in tables and referred in tables:
            reference = source, _spelled(source, columns, tables, code)
            found.append((reference, (referred, _spelled(referred, key, tables, code))))
    return tuple(found)


def resolve_hints(model: Model, tables: Tables) -> Hints:
    """The user's figures in schema spelling; those of tables not read are left out."""
    code = "UNKNOWN_HINT"
    found: dict[str, dict[str, float]] = {"distinct": {}, "rows": {}}
    for kind, figures in sorted(model.hints.items()):
        if kind not in found:
            raise _unknown(code, kind, "is neither 'rows' nor 'distinct'")
        for name, figure in sorted(figures.items()):
            if isinstance(figure, bool) or not isinstance(figure, int | float) or not figure >= 0:
                raise _unknown(code, name, f"has '{figure}', which is no count")
            if kind == "rows":
                found[kind][_source(name, name, model, code)] = figure
                continue
            source, columns = _split(name, model, code)
            if source in tables:
                column, *_ = _spelled(source, columns, tables, code)
                found[kind][f"{source}.{column}"] = figure
    return found


def _split(text: str, model: Model, code: str) -> Columns:
    """`table.a, b` as the source and the columns as written."""
    first, *more = (part.strip() for part in text.split(","))
    table, _, column = first.rpartition(".")
    if not table or not column or not all(more):
        raise _unknown(code, text, "is not 'table.column'")
    return _source(table, text, model, code), (column, *more)


def _source(table: str, text: str, model: Model, code: str) -> str:
    found = {name.lower(): name for name in sorted(model.sources)}.get(table.lower())
    if found is None:
        raise _unknown(code, text, "names a table that is not among the sources")
    return found


def _spelled(source: str, columns: Iterable[str], tables: Tables, code: str) -> tuple[str, ...]:
    schema = {column.name.lower(): column.name for column in tables[source].columns}
    missing = [column for column in columns if column.lower() not in schema]
    if missing:
        raise _unknown(code, source, f"has no column {', '.join(missing)}")
    return tuple(schema[column.lower()] for column in columns)


def _unknown(code: str, name: str, message: str) -> DeltaJoinError:
    declared = _FIELDS[code]
    return DeltaJoinError(
        code,
        f"{declared}: '{name}' {message}",
        where=name,
        remedy=f"Correct the {declared} of the model.",
    )
