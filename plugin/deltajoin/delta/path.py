"""A lookup path as a value: the driver, and each lookup with the version it is read at."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class SourceVersion:
    """One source in the frontier: what the last epoch consumed and what this one will.

    `previous` equals `version` for a source without change; None before the first epoch.
    `change_rows` is the estimate from the log, None when it doesn't say; `change_kind` is none,
    insert_only or mutating.
    """

    source: str
    location: str
    table_id: str
    version: int
    previous: int | None
    columns: tuple[tuple[str, str], ...]
    rows: int | None
    change_rows: int | None = None
    change_kind: str = "mutating"

    @property
    def changed(self) -> bool:
        """True when rows may differ between the previous epoch and this one."""
        return self.previous is not None and self.previous != self.version


@dataclass(frozen=True)
class LookupStep:
    """One lookup: the relation, the version it is read at, what it is matched on.

    `shared_with`: other drivers whose changes take this lookup together with this path's.
    """

    relation: str
    source: str
    version: int
    epoch: str
    on: tuple[str, ...]
    unique: bool
    estimated_rows: int
    shared_with: tuple[str, ...] = ()


@dataclass(frozen=True)
class LookupPath:
    """A driver's change and the ordered lookups it travels.

    `expected_empty`: why it should give no row, as far as declared references hold; "" when it may.
    """

    driver: str
    source: str
    first_version: int
    last_version: int
    estimated_rows: int
    steps: tuple[LookupStep, ...]
    expected_empty: str = ""

    def rows_before(self, position: int) -> int:
        """Estimated rows before a step, counted from 0."""
        return self.steps[position - 1].estimated_rows if position else self.estimated_rows

    @property
    def text(self) -> str:
        """The path for people.

        Example: `Δweather → flights → planes* → airlines*`; a star is a read at this epoch.
        """
        lookups = (s.relation + ("*" if s.epoch == "this" else "") for s in self.steps)
        return " → ".join((f"Δ{self.driver}", *lookups))

    def to_dict(self) -> dict[str, Any]:
        """The path as plain values."""
        return {**asdict(self), "text": self.text}
