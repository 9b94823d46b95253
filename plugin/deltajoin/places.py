"""Where a model's tables are: folders, catalog names, and which of these mean the same table.

Rule: a path is its folder; a catalog name is located by a function that a Spark session stands
behind, so it costs a session, and a model of paths costs none. What planning reads of a log is
opened once (`Logs`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from deltajoin.catalog import TableState, TargetState, load_source, load_target, normalise
from deltajoin.catalog.files import real
from deltajoin.catalog.table import Opened, open_version
from deltajoin.contract import BACKING_SUFFIX
from deltajoin.errors import DeltaJoinError
from deltajoin.model import Model, is_path
from deltajoin.names import quote_dotted, split_dotted
from deltajoin.runtime.failures import explained
from deltajoin.runtime.stopwatch import Stopwatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Locate = Callable[[str], str | None]


def sources_read(model: Model) -> tuple[str, ...]:
    """The sources that the model's query reads, sorted; all where only Spark can read it."""
    from deltajoin.sql.dialect import Unreadable, parse
    from deltajoin.sql.tables import resolve_tables

    try:
        return resolve_tables(parse(model.sql), model.sources)
    except Unreadable:
        return tuple(sorted(model.sources))


def source_place(model: Model, name: str, locate: Locate | None) -> str:
    """The Delta folder of a source; of a view over one of our targets that of the table under it.

    Raises:
        DeltaJoinError: CATALOG_NAME, SOURCE_MISSING, NOT_DELTA.
    """
    written = model.sources[name]
    if is_path(written):
        return written
    try:
        found = locate_name(written, locate)
    except DeltaJoinError as error:
        *schema, last = split_dotted(written)
        backing = quote_dotted((*schema, last + BACKING_SUFFIX))
        found = locate_name(backing, locate) if error.code == "NOT_DELTA" else None
        if found is None:
            raise
    if found is None:
        raise DeltaJoinError(
            "SOURCE_MISSING",
            f"the catalog has no table '{written}'",
            where=f"source {name}",
            remedy="Create it, or correct its name in sources.",
        )
    return found


def find_target(target: str, locate: Locate | None) -> tuple[str | None, bool]:
    """The Delta folder of a target, if there is one, and whether it is one under a view."""
    if is_path(target):
        return normalise(target), False
    *schema, last = split_dotted(target)
    location = locate_name(quote_dotted((*schema, last + BACKING_SUFFIX)), locate)
    if location is not None:
        return location, True
    return locate_name(target, locate), False


def locate_name(name: str, locate: Locate | None) -> str | None:
    """The folder of a catalog table, if there is one; CATALOG_NAME without a way to look."""
    if locate is None:
        raise not_located(name, name, "Give the table's path, or run with a Spark session.")
    return locate(quote_dotted(split_dotted(name)))


def not_located(name: str, where: str, remedy: str) -> DeltaJoinError:
    """The refusal of a catalog name where there is no Spark session."""
    message = f"'{name}' is a catalog name, which only a Spark session can locate"
    return DeltaJoinError("CATALOG_NAME", message, where=where, remedy=remedy)


def known_as(place: str, sessions: Sessions, *, target: bool = False) -> frozenset[str]:
    """All by which a source or `target` can be known: its folder, its full catalog name, of a
    target also the table under a bag's view."""
    if is_path(place):
        return frozenset({real(place)})
    name = _full_name(place, sessions)
    names = {name, name + BACKING_SUFFIX} if target else {name}
    try:
        locate = sessions.locate
        folder = find_target(place, locate)[0] if target else locate_name(place, locate)
    except Exception:  # what stands in the way is said when the model is planned
        folder = None
    return frozenset(names | ({real(folder)} if folder else set()))


def _full_name(name: str, sessions: Sessions) -> str:
    """The catalog, schema and name that Spark finds a name by: the first of several parts is a
    catalog where there is one of that name, else they are in the current one."""
    from deltajoin.runtime.port import place_of

    parts, spark = split_dotted(name), sessions.get()
    with explained(f"the catalog's table {name}"):
        here = split_dotted(place_of(spark))
        if len(parts) == 1:
            parts = (*here, *parts)
        elif parts[0].lower() != "spark_catalog" and not spark.conf.get(
            f"spark.sql.catalog.{parts[0]}", None
        ):
            parts = (here[0], *parts)
    return "catalog " + "\x00".join(parts).lower()


class Logs:
    """The logs that planning a model reads, each looked for and opened once, when first asked."""

    def __init__(self, model: Model, locate: Locate | None) -> None:
        self.model = model
        self._locate = locate
        self._places: dict[str, str] = {}
        self._opened: dict[str, Opened] = {}

    @cached_property
    def target(self) -> tuple[str | None, bool]:
        """The target's folder, if it has one, and whether it is a backing table under a view."""
        return find_target(self.model.target, self._locate)

    @cached_property
    def state(self) -> TargetState | None:
        """The target's state; None before the first run."""
        location, _ = self.target
        return load_target(location) if location else None

    def place(self, name: str) -> str:
        """The folder of a source."""
        if name not in self._places:
            self._places[name] = source_place(self.model, name, self._locate)
        return self._places[name]

    def newest(self, name: str) -> tuple[str, int, str | None]:
        """The id of a source's table, its newest version, and what tells its commit."""
        location = normalise(self.place(name))
        opened = self._opened[name] = open_version(location)
        return str(opened.table.metadata().id), opened.table.version(), opened.commit

    def source(self, name: str) -> TableState:
        """A source as it was when it was opened, by default now."""
        return load_source(name, self.place(name), self._opened.get(name))


class Sessions:
    """A session that is started at its first use."""

    def __init__(
        self, spark: SparkSession | Callable[[], SparkSession], watch: Stopwatch | None = None
    ) -> None:
        self._spark = spark
        self._watch = watch or Stopwatch()
        self._started: SparkSession | None = None

    def get(self) -> SparkSession:
        """The session."""
        if self._started is None:
            with self._watch.during("start"):
                self._started = self._spark() if callable(self._spark) else self._spark
        return self._started

    def locate(self, name: str) -> str | None:
        """The Delta folder of a catalog name, None if there is no such table."""
        from deltajoin.runtime.target import locate

        return locate(self.get(), name)
