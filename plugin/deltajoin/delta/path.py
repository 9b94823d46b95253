"""A lookup path as a value: the driver, and each lookup with the version it is read at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from deltajoin.accelerate.protocol import Candidates
from deltajoin.catalog import ChangedFiles, PlainFiles, StaticFiles
from deltajoin.delta.format import SELDOM, digest, fields_of

#: What the type of a derived source's column begins with, where it is not certain.
UNKNOWN = "unknown type of "


def schema_of(columns: Iterable[tuple[str, str]]) -> str:
    """The digest by which a frontier tells columns, each a name and a type."""
    return digest(list(columns))[:16]


@dataclass(frozen=True)
class SourceVersion:
    """One source in the frontier: what the last epoch consumed and what this one will.

    `previous` equals `version` for a source without change; None before the first epoch.
    `change_rows` is the estimate from the log, None when it says none. `change_kind` is what came
    (noop, insert_only, mutating, replaced), `method` how the change is read (feed, files,
    difference), `why` what stands against the feed. `static` is None for a Delta table; a `bag` is
    a target of ours whose rows have a multiplicity. `plain` are the files of the versions
    where they hold the rows as they are. `commit` tells the version from another one of the same
    number.
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
    method: str = "feed"
    why: str = ""
    files: ChangedFiles | None = None
    bytes: int | None = None
    static: StaticFiles | None = None
    bag: bool = False
    plain: tuple[tuple[int, PlainFiles], ...] = ()
    commit: str | None = None

    @property
    def read_whole(self) -> bool:
        """True when both versions are read to find the change, whatever its size."""
        named = self.files is not None and self.files.names and not self.files.partitions
        return self.changed and (self.method == "difference" or bool(named))

    @property
    def changed(self) -> bool:
        """True when rows may differ between the previous epoch and this one."""
        return self.previous is not None and self.previous != self.version

    @property
    def text(self) -> str:
        """A changed source for people, with the method where it is not the feed."""
        if self.method == "feed":
            return self.source
        count = f"{self.files.count} " if self.files else ""
        how = f"by {count}changed files" if self.method == "files" else "by its two versions"
        return f"{self.source} ({how}; {self.why})"

    def at(self, epoch: str) -> int:
        """The version that a read at `previous` or `this` epoch takes; before the first, this."""
        before = self.previous if epoch == "previous" else None
        return self.version if before is None else before

    @property
    def estimated_change(self) -> int:
        """Changed rows, a hundredth of the table when the log doesn't say; at least one."""
        guess = (self.rows or 1000) // 100
        return max(1, guess if self.change_rows is None else self.change_rows)


@dataclass(frozen=True)
class LookupStep:
    """One lookup: the relation, the version it is read at, what it is matched on.

    `kind` is inner, left, semi or anti for a join with the stream; enter and scan for one that
    starts a new stream, from distinct `keys` (stream side, new side, operator) of the old one and
    what else a `match` must fulfil, or from nothing; filter for predicates alone. `inside` are the
    lookups that make up the other side of a join, `previous` the same before the change: then the
    step gives both, with opposite signs.
    `shared_with`: other drivers whose changes take this lookup together with this path's.
    `accelerated`: the pairs that can match, where no equality finds them.
    """

    relation: str
    source: str
    version: int
    epoch: str
    on: tuple[str, ...]
    unique: bool
    estimated_rows: int
    kind: str = "inner"
    keys: tuple[tuple[str, str, str], ...] = field(default=(), metadata=SELDOM)
    inside: tuple[LookupStep, ...] = field(default=(), metadata=SELDOM)
    previous: tuple[LookupStep, ...] = field(default=(), metadata=SELDOM)
    shared_with: tuple[str, ...] = field(default=(), metadata=SELDOM)
    accelerated: Candidates | None = field(default=None, metadata=SELDOM)
    match: tuple[str, ...] = field(default=(), metadata=SELDOM)

    @property
    def text(self) -> str:
        """The step for people: a star is a read at this epoch, a question mark may be missing."""
        entered = " by keys" if self.keys else " by match"
        mark = {"left": "?", "semi": " exists", "anti": " not exists", "enter": entered}
        return self.relation + ("*" if self.epoch == "this" else "") + mark.get(self.kind, "")


@dataclass(frozen=True)
class LookupPath:
    """A driver's change and the ordered lookups it travels.

    `expected_empty`: why it should give no row, as far as declared references hold; "" when it may.
    `replanned`: old and new cost when the order differs from that of the last like epoch.
    """

    driver: str
    source: str
    first_version: int
    last_version: int
    estimated_rows: int
    steps: tuple[LookupStep, ...]
    method: str = "feed"
    branch: int = 0
    expected_empty: str = ""
    replanned: str = ""

    def rows_before(self, position: int) -> int:
        """Estimated rows before a step, counted from 0."""
        steps = ((step.kind, step.estimated_rows) for step in self.steps[:position])
        return rows_after(self.estimated_rows, steps)

    @property
    def given_rows(self) -> int:
        """Estimated rows after all steps."""
        return self.rows_before(len(self.steps))

    @property
    def text(self) -> str:
        """The path for people.

        Example: `Δweather → flights → planes* → airlines*`; a star is a read at this epoch.
        """
        lookups = (step.text for step in self.steps if step.kind != "filter")
        return " → ".join((f"Δ{self.driver}", *lookups))

    def to_dict(self) -> dict[str, Any]:
        """The path as plain values."""
        return {**fields_of(self), "text": self.text}


def rows_after(rows: int, steps: Iterable[tuple[str, int]]) -> int:
    """Estimated rows after steps, given by kind and rows: as inner lookups left them."""
    return [rows, *(estimated for kind, estimated in steps if kind == "inner")][-1]


def reads(steps: tuple[LookupStep, ...]) -> Iterator[tuple[str, int]]:
    """Every (source, version) that steps read, those inside them too."""
    for step in steps:
        if step.source and not step.inside:
            yield step.source, step.version
        yield from reads(step.inside)
        yield from reads(step.previous)


def types_of(sources: Iterable[SourceVersion]) -> dict[tuple[str, str], str]:
    """(source, column) -> type, of the columns that are used."""
    return {(s.source, name): kind for s in sources for name, kind in s.columns}


def known_types(sources: Iterable[SourceVersion]) -> dict[tuple[str, str], str]:
    """The same, of the columns whose type is certain."""
    return {ref: kind for ref, kind in types_of(sources).items() if not kind.startswith(UNKNOWN)}
