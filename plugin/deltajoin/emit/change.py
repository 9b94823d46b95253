"""How the change of a source is read and consolidated: by its feed, by files, by two versions.

All three give the same rows: used columns and a weight that is not 0. Of files and versions, rows
that left have -1 and those that came +1: one that is on both sides cancels, whatever file it is in.
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

    `raw_view` is the change feed over (first..last) for the method feed, `reads` are for the method
    files; the method difference reads the pinned versions.
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
    rows: exp.Expr
    if source.method == "feed":
        raw_view = f"{view}_feed"
        rows, weight = table(raw_view), _times(_sign_of_event(), source.bag)
    else:
        by_version = {source.previous: versions[0], source.version: versions[1]}
        if source.method == "files":
            by_version = {read.version: read.view for read in reads}
        counted = source.bag and source.method == "files"
        sides = [
            weighted(used, _times(number(sign), counted), table(by_version[version]))
            for version, sign in ((source.previous, -1), (source.version, 1))
            if version in by_version
        ]
        rows, weight = union_all(*sides).subquery("sides"), column(WEIGHT)
    return Feed(
        view=view,
        raw_view=raw_view,
        source=source.source,
        location=source.location,
        first=(source.previous or 0) + 1,
        last=source.version,
        sql=pretty(net(used, rows, exactly, weight)),
        method=source.method,
        reads=reads,
    )


def _times(sign: exp.Expr, counted: bool) -> exp.Expr:
    return sign * column(COUNT) if counted else sign


def _sign_of_event() -> exp.Expr:
    return (
        exp.case(column("_change_type"))
        .when(string("insert"), number(1))
        .when(string("update_postimage"), number(1))
        .else_(number(-1))
    )


def _file_reads(source: SourceVersion, used: tuple[str, ...], view: str) -> tuple[FileRead, ...]:
    files = source.files
    if files is None or source.previous is None:
        return ()
    types = dict(source.columns)
    read = [f"{quote(name)} {zoned(types[name])}" for name in used]
    schema = ", ".join([*read, f"{quote(COUNT)} bigint"] if source.bag else read)
    partitions = _partition_filter(files.partitions)
    left = FileRead(f"{view}_left", source.previous, files.left, schema, files.names, partitions)
    came = FileRead(f"{view}_came", source.version, files.came, schema, files.names, partitions)
    return tuple(read for read in (left, came) if read.paths or read.names)


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
