"""One version of every table for all models of a run: the frontier, frozen once.

A table is read at the version at which the run saw it first, whatever is committed meanwhile; one
that the run itself wrote, at the version that it wrote. A pin also holds the table's id, because a
recreated table counts its versions from 0 again. A model that has consumed a later version than the
pin is refused: epochs never go back, and the rows of one run never mix two versions of a table.

Caller: `plan(model, at=frontier)`, then `produced` with what the run left in its target. An open
frontier pins a table at its first use, a closed one refuses a table that it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from threading import RLock
from typing import Any

from deltajoin.catalog import TableState, TargetState, load_source, load_table, normalise
from deltajoin.catalog.files import real
from deltajoin.catalog.history import metadata_at
from deltajoin.catalog.static import STATIC
from deltajoin.delta.history import epochs_of
from deltajoin.errors import DeltaJoinError


@dataclass(frozen=True)
class Pin:
    """A table's frozen version; `table_id` is None where only a version was given."""

    location: str
    version: int
    table_id: str | None


class Frontier:
    """Frozen versions by folder; threads may share one."""

    def __init__(self, pins: Iterable[Pin] = (), *, closed: bool = False) -> None:
        self._pins = {real(pin.location): pin for pin in pins}
        self._closed = closed
        self._lock = RLock()

    @classmethod
    def read(cls, given: Any) -> Frontier:
        """A closed frontier from `to_dict()`, its JSON, {folder: version}, or several of them.

        Raises:
            DeltaJoinError: INVALID_FRONTIER; FRONTIER_CONFLICT when two pin one table differently.

        Example:
            >>> Frontier.read({"/lake/a": 4, "/lake/b": {"version": 7, "id": "x"}}).to_dict()
            {'/lake/a': {'id': None, 'version': 4}, '/lake/b': {'id': 'x', 'version': 7}}
        """
        pins: dict[str, Pin] = {}
        for pin in _pins(given):
            known = pins.setdefault(real(pin.location), pin)
            if known.table_id is None:
                pins[real(pin.location)] = pin
            others = {known.table_id, pin.table_id} - {None}
            if known.version != pin.version or len(others) > 1:
                raise DeltaJoinError(
                    "FRONTIER_CONFLICT",
                    f"versions {known.version} and {pin.version} are both named",
                    where=pin.location,
                    remedy="Let all models of a run take over one frontier.",
                )
        return cls(pins.values(), closed=True)

    def close(self) -> None:
        """From now on, refuse a table that is not pinned."""
        self._closed = True

    def table(self, name: str, location: str) -> TableState:
        """The source at its pinned version; an open frontier pins one that it did not know.

        Raises:
            DeltaJoinError: those of `load_table`, NOT_IN_FRONTIER, FRONTIER_LOST.
        """
        location = normalise(location)
        with self._lock:
            pin = self._pins.get(real(location))
            if pin is None:
                if self._closed:
                    raise _unknown(name, location)
                table = load_source(name, location)
                self._pins[real(location)] = Pin(location, table.version, table.table_id)
                return table
        static = (pin.table_id or "").endswith(STATIC)
        table = load_source(name, location) if static else load_table(name, location, pin.version)
        if pin.table_id not in (None, table.table_id) or pin.version != table.version:
            raise DeltaJoinError(
                "FRONTIER_LOST",
                f"{pin.table_id} version {pin.version} was frozen; now {table.table_id} version "
                f"{table.version} stands here",
                where=f"{name}: {location}",
                remedy="Freeze a new frontier: start the whole run again.",
            )
        return table

    def produced(self, location: str, version: int) -> None:
        """Pin a target at the version that a model of this run left in it."""
        table = load_table("target", location, version)
        with self._lock:
            self._pins[real(location)] = Pin(table.location, version, table.table_id)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Folder -> version and table id, as plain values."""
        with self._lock:
            pins = sorted(self._pins.values(), key=lambda pin: pin.location)
        return {pin.location: {"id": pin.table_id, "version": pin.version} for pin in pins}


def refuse_behind(tables: Mapping[str, TableState], target: TargetState | None) -> None:
    """Refuse pins that are older than what the target's last epoch consumed.

    Raises:
        DeltaJoinError: FRONTIER_BEHIND.
    """
    _, last = next(epochs_of(target), (None, None))
    for name, entry in sorted(last["frontier"].items()) if last else ():
        table, consumed = tables.get(name), int(entry["version"])
        if table is None or table.version >= consumed:
            continue
        then = metadata_at(table.location, consumed)
        if then is not None and then.table_id == entry["id"]:
            raise DeltaJoinError(
                "FRONTIER_BEHIND",
                f"version {consumed} was consumed, the frontier names version {table.version}",
                where=f"{name}: {table.location}",
                remedy="Another run went ahead; start the whole run again with a new frontier.",
            )


def _unknown(name: str, location: str) -> DeltaJoinError:
    return DeltaJoinError(
        "NOT_IN_FRONTIER",
        f"the run's frontier names no version of the source '{name}'",
        where=location,
        remedy="Freeze it with the other tables, or hand over what the task that writes it gives.",
    )


def _pins(given: Any) -> list[Pin]:
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError as error:
            raise _invalid("it is text, but no JSON") from error
    if isinstance(given, Mapping):
        return [_pin(location, entry) for location, entry in given.items()]
    if isinstance(given, Iterable):
        return [pin for part in given for pin in _pins(part)]
    raise _invalid(f"it is {type(given).__name__}, not a mapping")


def _pin(location: Any, entry: Any) -> Pin:
    version, table_id = entry, None
    if isinstance(entry, Mapping):
        version, table_id = entry.get("version"), entry.get("id")
    fits = (
        isinstance(location, str) and isinstance(version, int) and isinstance(table_id, str | None)
    )
    if not fits or isinstance(version, bool) or version < 0:
        raise _invalid(f"{location!r} has {entry!r}")
    return Pin(normalise(location), version, table_id)


def _invalid(message: str) -> DeltaJoinError:
    return DeltaJoinError(
        "INVALID_FRONTIER",
        f"the frontier can't be read: {message}",
        where="frontier",
        remedy="Give {folder: version}, or what a task before it has returned.",
    )
