"""How the change of a source is read and consolidated: by its feed, by files, by two versions.

All three give the same rows: used columns and a weight that is not 0. Of files and versions, rows
that left have -1 and those that came +1: one that is on both sides cancels, whatever file it is in.
A feed that can be read without Delta is files, too.
A row of a bag counts as often as its table says: where a scan has not done so, its multiplicity is
a factor.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from deltajoin.catalog import zoned
from deltajoin.delta.path import SourceVersion
from deltajoin.delta.signed_zeros import holds_floats
from deltajoin.emit.ast import column, number, pretty, same, string, table, union_all, weighted
from deltajoin.emit.write import net
from deltajoin.graph import JoinGraph
from deltajoin.names import COUNT, WEIGHT, quote
from deltajoin.sql.dialect import cast

#: What became of a row of a change feed: insert, delete, update_preimage or update_postimage.
_EVENT = "_change_type"


@dataclass(frozen=True)
class FileRead:
    """Rows of some files of a version, under a view name.

    The files at `paths`, read as Parquet with `schema`; else those that Delta reads of the version
    and whose names are in `names`, looked for where the filter `partitions` holds.
    """

    view: str
    version: int
    paths: tuple[str, ...]
    schema: str
    names: tuple[str, ...]
    partitions: str | None


@dataclass(frozen=True)
class Feed:
    """A source's change from version `first` - 1 to `last`, and the SQL that consolidates it.

    `raw_view` is the change feed over (first..last), "" where it is no feed or read by its files;
    `reads` are files to read. The method difference reads the pinned versions.
    """

    view: str
    raw_view: str
    source: str
    location: str
    first: int
    last: int
    sql: str
    method: str = "feed"
    reads: tuple[FileRead, ...] = ()


def feed_of(graph: JoinGraph, source: SourceVersion, view: str, versions: tuple[str, str]) -> Feed:
    """The change of a source under `view`; `versions` are the views of its two versions."""
    used = graph.used_columns(source.source)
    types = dict(source.columns)
    exactly = tuple(name for name in used if holds_floats(types[name]))
    raw_view, reads = "", _file_reads(source, used, view)
    sides = [(sign, read.view) for sign, read in reads]
    if source.method == "difference":
        sides = [(number(-1), versions[0]), (number(1), versions[1])]
    elif not reads:
        raw_view = f"{view}_feed"
        sides = [(_sign_of_event(), raw_view)]
    counted = source.bag and source.method != "difference"
    weights = [sign * column(COUNT) if counted else sign for sign, _ in sides]
    rows: exp.Expr = table(sides[0][1])
    weight = weights[0]
    if len(sides) > 1:
        whole = (
            weighted(used, w, table(name)) for w, (_, name) in zip(weights, sides, strict=True)
        )
        rows, weight = union_all(*whole).subquery("sides"), column(WEIGHT)
    return Feed(
        view=view,
        raw_view=raw_view,
        source=source.source,
        location=source.location,
        first=(source.previous or 0) + 1,
        last=source.version,
        sql=pretty(net(used, rows, exactly, weight)),
        method=source.method,
        reads=tuple(read for _, read in reads),
    )


def _sign_of_event() -> exp.Expr:
    return (
        exp.case(column(_EVENT))
        .when(string("insert"), number(1))
        .when(string("update_postimage"), number(1))
        .else_(number(-1))
    )


def _file_reads(
    source: SourceVersion, used: tuple[str, ...], view: str
) -> list[tuple[exp.Expr, FileRead]]:
    """The files to read, each with the sign of its rows."""
    files = source.files
    if files is None or source.previous is None:
        return []
    types = dict(source.columns)
    read = [f"{quote(name)} {zoned(types[name])}" for name in used]
    schema = ", ".join([*read, f"{quote(COUNT)} bigint"] if source.bag else read)
    with_event = f"{schema}, {quote(_EVENT)} string"
    names, partitions = files.names, _partition_filter(files.partitions)
    before, this = source.previous, source.version
    found = [
        (number(-1), FileRead(f"{view}_left", before, files.left, schema, names, partitions)),
        (number(1), FileRead(f"{view}_came", this, files.came, schema, names, partitions)),
        (_sign_of_event(), FileRead(f"{view}_events", this, files.events, with_event, (), None)),
    ]
    return [(sign, read) for sign, read in found if read.paths or read.names]


def _partition_filter(
    partitions: tuple[tuple[tuple[str, str, str | None], ...], ...],
) -> str | None:
    """One conjunction of null-safe equalities for each folder of the table."""
    folders = [
        exp.and_(
            *(
                same(column(name), cast(exp.Null() if text is None else string(text), kind))
                for name, kind, text in values
            )
        )
        for values in partitions
    ]
    return pretty(exp.or_(*folders)) if folders else None
