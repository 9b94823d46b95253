"""Ranges of values that are at hand, as literals in the reads that ask for them.

A column of a change is summarised as at most RANGES closed ranges that hold all its values: those
between its largest gaps, where these leave out more than they cost, else the one from its least to
its greatest value; few values are listed besides. A read within them lets Delta leave out files,
and Parquet pages, by the bounds that it knows; what is read beyond them is left to the join.

Rule: only values that compare alike on both sides are used: integers, dates, timestamps, strings
without a collation, of one type. Texts of values are literals for Spark, so that they are known
when it plans.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from deltajoin.contract import FEW_FILES
from deltajoin.names import ROW_HASH, quote
from deltajoin.runtime.failures import explained
from deltajoin.runtime.port import carry
from deltajoin.runtime.settings import value_of
from deltajoin.runtime.target import literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Ranges of a column at most: with 32, the code that Spark writes for a MERGE is so long that Java
#: doesn't compile it. Several are used only where the gaps between them are more than this share of
#: the way from the least value to the greatest.
RANGES, WORTH = 8, 0.5
#: Values are counted into so many parts of that way; a gap within a part is not seen.
_PARTS = 1024
#: Of a view with at most so many rows, all values are taken to see its gaps.
_TAKEN = 20_000
#: Characters that a list of values has at most.
_LISTED = 1_000_000
#: Of at most so many values, Parquet leaves out pages by each of them; it looks for each one in the
#: dictionary of every file, and compares them in a recursion as deep as they are many.
FEW_VALUES = 64
#: Of a target with so many rows, keys of several columns are listed by their hashes.
_MANY = 100_000
#: Columns of a target without a key whose ranges are looked at.
_COMPARED = 8
_EPOCH = datetime(1970, 1, 1)
_ZONED = "TIMESTAMP_LTZ"
_INTEGERS = {"tinyint": "Y", "smallint": "S", "int": "", "bigint": "L"}
#: Type -> an integer for each value, in their order.
_AS_INTEGER = {
    **dict.fromkeys(_INTEGERS, "CAST({} AS BIGINT)"),
    "date": "CAST(unix_date({}) AS BIGINT)",
    "timestamp": "unix_micros({})",
}
#: Types of which equal values have the same bytes, and so the same hash.
_HASHED = re.compile(r"(tiny|small|big)?int|boolean|string|date|timestamp(_ntz)?|decimal\(.*\)")
#: Bytes that are no text become U+FFFD here, as Spark Connect hands on texts alone.
_AS_TEXT = "make_valid_utf8({})"


@dataclass(frozen=True)
class Ranges:
    """Closed ranges of literals that hold all values of a column; `nulls`: it has NULLs too.

    `values` are the values themselves, where they are known and too many for a range each, and
    `share` about what they are of all that may lie between the least and the greatest of them.
    `integers` are the ranges, or few values, as integers, as the job has the bounds of files; None
    of texts.
    """

    ranges: tuple[tuple[str, str], ...]
    nulls: bool
    values: tuple[str, ...] = ()
    share: float = 1.0
    integers: tuple[tuple[int, int], ...] | None = None

    @property
    def order(self) -> tuple[float, int, int]:
        """Less where the values leave out more."""
        return self.share, -len(self.values), -len(self.ranges)

    def condition(self, column: str) -> str:
        """True for every row whose column is one of the values; as Spark SQL."""
        parts = [f"({column} >= {low} AND {column} <= {high})" for low, high in self.ranges]
        parts += [f"{column} IS NULL"] if self.nulls else []
        return f"({' OR '.join(parts)})" if parts else "FALSE"

    def around(self) -> Ranges:
        """The one range from the least value to the greatest."""
        ends = ((self.ranges[0][0], self.ranges[-1][1]),) if self.ranges else ()
        return Ranges(ends, self.nulls)

    def bounded(self, column: str, bound: str) -> str:
        """True for every row whose column is at least the least value (`from`), or at most the
        greatest (`to`)."""
        ends = [low if bound == "from" else high for low, high in self.ranges]
        if not ends:
            return "FALSE"
        function = "least" if bound == "from" else "greatest"
        end = ends[0] if len(ends) == 1 else f"{function}({', '.join(ends)})"
        return f"{column} {'>=' if bound == 'from' else '<='} {end}"

    def meets(self, file: tuple[int, int, bool] | None, bound: str) -> bool:
        """Whether a file with such values may hold a row for which `condition`, or `bounded`, is
        true."""
        if file is None or self.integers is None:
            return True
        least, greatest, nulls = file
        within = any(
            (bound == "to" or low <= greatest) and (bound == "from" or least <= high)
            for low, high in self.integers
        )
        return within or not bound and self.nulls and nulls

    def listed(self, column: str) -> str:
        """The same, by the values themselves where they are known."""
        if not self.values:
            return self.condition(column)
        among = f"{column} IN ({', '.join(self.values)})"
        among = f"({among} OR {column} IS NULL)" if self.nulls else among
        return f"{self.condition(column)} AND {among}"


class Narrowing:
    """The scans of a run, in its own session, that wait for the values they are narrowed by."""

    def __init__(self, spark: SparkSession, scans: list[dict[str, Any]]) -> None:
        carry(spark, "spark.sql.parquet.pushdown.inFilterThreshold", str(FEW_VALUES))
        self._spark, self._waiting = spark, scans
        self._held: dict[str, int] = {}
        self._ranges: dict[tuple[str, str], Ranges] = {}
        #: Table -> column -> how many ranges, and how many values where these were listed; columns
        #: of a key -> how many hashes.
        self.used: dict[str, dict[str, dict[str, int]]] = {}

    def hold(self, rows: dict[str, int]) -> None:
        """Some views are materialised, with so many rows: open the scans that waited for them.

        A view without a row need not be there.
        """
        self._held |= rows
        ready = [scan for scan in self._waiting if _views(scan) <= self._held.keys()]
        self._waiting = [scan for scan in self._waiting if scan not in ready]
        if not ready:
            return
        with explained("ranges of the change"):
            keys = [self._comparable(scan) for scan in ready]
            asked = {each: kind for of in keys for _, values, kind in of for each in values}
            asked = {each: kind for each, kind in asked.items() if each not in self._ranges}
            self._ranges |= ranges_of(self._spark, asked, self._held)
            for scan, of in zip(ready, keys, strict=True):
                self._open(scan, of)

    def of_target(
        self, view: str, rows: int, stored: DataFrame, key: list[str], records: int | None
    ) -> str:
        """The condition that rows of the target `t` have keys of a materialised view of so many
        rows, or without a key some columns alike; empty where none can be told. The column whose
        values leave out most is told by them, the others from the least to the greatest; where it
        has few values for so many keys, these are told by their hashes besides, if the target has
        many `records`."""
        held = self._spark.table(quote(view))
        both = [name for name in stored.columns if name in held.columns]
        both.sort(key=lambda name: name != ROW_HASH)
        kinds = {name: _kind(stored, name) for name in key or both}
        wanted = [name for name, kind in kinds.items() if kind and kind == _kind(held, name)]
        if not key:
            wanted = [name for name in wanted if kinds[name] in _AS_INTEGER][:_COMPARED]
        asked = {(view, name): kinds[name] for name in wanted}
        ranges = ranges_of(self._spark, asked, {view: rows})
        telling = min(ranges, key=lambda each: ranges[each].order, default=None)
        conditions: list[str] = []
        used: dict[str, dict[str, int]] = {}
        for (_, name), each in ranges.items():
            told = each if (view, name) == telling else each.around()
            used[name] = _told(told)
            conditions.append(told.listed(f"`t`.{quote(name)}"))
        many = rows <= _TAKEN and (records is None or records >= _MANY)
        few_values = telling is None or 10 * len(ranges[telling].values) < rows
        if len(key) > 1 and many and few_values and _hash_alike(stored, held, key):
            found = held.selectExpr(f"{_hash(key)} AS hash").distinct().collect()
            used[", ".join(key)] = {"hashes": len(found)}
            hashes = ", ".join(f"{row['hash']}L" for row in found)
            conditions.append(f"{_hash(key, 't')} IN ({hashes})")
        self.used |= {"target": used} if used else {}
        return " AND ".join(conditions)

    def _comparable(self, scan: dict[str, Any]) -> list[_ComparedKey]:
        """The keys of a scan whose values are of the column's type, with the columns that hold
        them, and that type."""
        found = []
        for key in scan["keys"]:
            values = [(view, name) for view, name in key["held"] if self._held[view]]
            columns = [(scan["of"], key["column"]), *values]
            kinds = {_kind(self._spark.table(quote(view)), name) for view, name in columns}
            if values and len(kinds) == 1 and (kind := kinds.pop()):
                found.append((key, values, kind))
        return found

    def _open(self, scan: dict[str, Any], keys: list[_ComparedKey]) -> None:
        asked = []
        for key, values, _ in keys:
            if not all(each in self._ranges for each in values):
                continue
            together = _together([self._ranges[each] for each in values])
            asked.append((key["column"], key["bound"], together))
            used = self.used.setdefault(scan["table"], {})
            used[key["column"]] = _told(together.around() if key["bound"] else together)
        rows = self._rows_of(scan, asked)
        for column, bound, ranges in asked:
            name = quote(column)
            rows = rows.where(ranges.bounded(name, bound) if bound else ranges.listed(name))
        rows.createOrReplaceTempView(quote(scan["view"]))

    def _rows_of(self, scan: dict[str, Any], asked: list[tuple[str, str, Ranges]]) -> DataFrame:
        """At least all rows within some ranges: those of the files that may hold any, where these
        are few, else the whole table's."""
        if listed := scan.get("files"):
            at = {name: place for place, name in enumerate(listed["columns"])}
            files = [
                path
                for path, bounds in listed["files"]
                if all(ranges.meets(bounds[at[name]], bound) for name, bound, ranges in asked)
            ]
            if len(files) <= FEW_FILES:
                counts = {"files": len(files), "of_files": len(listed["files"])}
                for name, _, _ in asked:
                    self.used[scan["table"]][name] |= counts
                files = files or [listed["files"][0][0]]
                return self._spark.read.schema(listed["schema"]).parquet(*files)
        return self._spark.table(quote(scan["of"]))


#: A key of a scan, the columns (view, name) that hold its values, the type of all.
_ComparedKey = tuple[dict[str, Any], list[tuple[str, str]], str]


def ranges_of(
    spark: SparkSession, wanted: dict[tuple[str, str], str], rows: dict[str, int]
) -> dict[tuple[str, str], Ranges]:
    """The ranges of some columns of materialised views, each (view, column) with its type.

    Returns:
        Nothing for a column with bytes that are no text.

    Args:
        rows: view -> rows. Of few rows all values are taken here, in one job a view; of the others
            Spark tells the parts, in one query.
    """
    found = {}
    for view in sorted({view for view, _ in wanted if rows[view] <= _TAKEN}):
        names = [name for of, name in wanted if of == view]
        values = [_value(name, wanted[view, name]) for name in names]
        taken = spark.table(quote(view)).selectExpr(*values).collect()
        for at, name in enumerate(names):
            known = {row[at] for row in taken}
            parts = [(value, value) for value in known if value is not None]
            found[view, name] = _ranges(wanted[view, name], parts, None in known)
    large = [(view, name) for view, name in wanted if rows[view] > _TAKEN]
    texts = [_summary(at, *each, wanted[each]) for at, each in enumerate(large)]
    summaries = spark.sql(" UNION ALL ".join(texts)).collect() if texts else []
    for at, each in enumerate(large):
        mine = [row for row in summaries if row["at"] == at]
        parts = [(row["low"], row["high"]) for row in mine if row["low"] is not None]
        found[each] = _ranges(wanted[each], parts, any(row["nulls"] for row in mine))
    return {each: ranges for each, ranges in found.items() if ranges is not None}


def _told(ranges: Ranges) -> dict[str, int]:
    """In how many ranges a table is read, and among how many values where these are listed."""
    listed = {"values": len(ranges.values)} if ranges.values else {}
    return {"ranges": len(ranges.ranges)} | listed


def _together(held: list[Ranges]) -> Ranges:
    """The values of several columns; themselves where they are few."""
    ranges = tuple(one for each in held for one in each.ranges)
    values = [
        each.values or tuple(low for low, high in each.ranges if low == high) for each in held
    ]
    known = all(len(of) >= len(each.ranges) for of, each in zip(values, held, strict=True))
    listed = tuple(dict.fromkeys(value for of in values for value in of))
    few = known and any(each.values for each in held) and len(listed) <= FEW_VALUES
    integers = None
    if all(each.integers is not None for each in held):
        integers = tuple(one for each in held for one in each.integers or ())
    nulls = any(each.nulls for each in held)
    return Ranges(ranges, nulls, listed if few else (), integers=integers)


def _ranges(kind: str, parts: list[tuple[Any, Any]], nulls: bool) -> Ranges | None:
    """The ranges of parts (least, greatest); None for bytes that are no text: no literal is."""
    if kind == "string":
        if any("\ufffd" in text for part in parts for text in part):
            return None
        merged = [(min(low for low, _ in parts), max(high for _, high in parts))] if parts else []
        integers = None
    else:
        parts = [(int(low), int(high)) for low, high in parts]
        integers = tuple(merged := merged_ranges(parts))
    single = len(parts) > RANGES and all(low == high for low, high in parts)
    values = tuple(_literal(kind, low) for low, _ in sorted(parts)) if single else ()
    values = values if sum(map(len, values)) <= _LISTED else ()
    literals = tuple((_literal(kind, low), _literal(kind, high)) for low, high in merged)
    share = share_of([low for low, _ in parts]) if values else 1.0
    if integers is not None and 0 < len(values) <= FEW_VALUES:
        integers = tuple(sorted(parts))
    return Ranges(literals, nulls, values, share, integers)


def share_of(values: list[Any]) -> float:
    """What distinct values are of all between the least and the greatest, in steps that they all
    take; of texts nothing is known but their number.

    Example:
        >>> share_of([10, 20, 40])  # 30 is not among them
        0.75
        >>> share_of(["a", "b"])
        0.5
    """
    if isinstance(values[0], str):
        return 1 / len(values)
    least = min(values)
    step = math.gcd(*(value - least for value in values)) or 1
    possible: int = (max(values) - least) // step + 1
    return len(values) / possible


def _value(name: str, kind: str) -> str:
    return _AS_INTEGER.get(kind, _AS_TEXT).format(quote(name))


def _summary(at: int, view: str, name: str, kind: str) -> str:
    """Rows (at, low, high, nulls) of a column: its least and greatest value in each part."""
    column, rows = quote(name), quote(view)
    if kind == "string":
        low, high = (_AS_TEXT.format(f"{end}({column})") for end in ("min", "max"))
        return (
            f"SELECT {at} AS `at`, {low} AS `low`, {high} AS `high`, "
            f"count_if({column} IS NULL) > 0 AS `nulls` FROM {rows}"
        )
    value = _value(name, kind)
    return (
        f"SELECT {at} AS `at`, CAST(min(n) AS STRING) AS `low`, CAST(max(n) AS STRING) AS `high`, "
        f"count_if(n IS NULL) > 0 AS `nulls` FROM (SELECT n, "
        f"CASE WHEN try_subtract(most, least) IS NULL THEN 0 "
        f"ELSE (n - least) DIV ((most - least) DIV {_PARTS} + 1) END AS part "
        f"FROM (SELECT {value} AS n FROM {rows}) CROSS JOIN "
        f"(SELECT min({value}) AS least, max({value}) AS most FROM {rows})) GROUP BY part"
    )


def merged_ranges(parts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """At most RANGES closed ranges that hold all parts; one where the gaps are worth little.

    Example:
        >>> merged_ranges([(1, 5), (900, 905), (6, 9)])
        [(1, 9), (900, 905)]
        >>> merged_ranges([(1, 5), (7, 9)])
        [(1, 9)]
    """
    parts = sorted(parts)
    if not parts:
        return []
    gaps = sorted(
        ((after[0] - before[1] - 1, at) for at, (before, after) in enumerate(pairwise(parts), 1)),
        reverse=True,
    )[: RANGES - 1]
    way = parts[-1][1] - parts[0][0] + 1
    if sum(gap for gap, _ in gaps) < WORTH * way:
        return [(parts[0][0], parts[-1][1])]
    cuts = [0, *sorted(at for gap, at in gaps if gap > 0), len(parts)]
    return [(parts[start][0], parts[end - 1][1]) for start, end in pairwise(cuts)]


def _literal(kind: str, value: Any) -> str:
    """A value, or the integer for one, as a literal of its type; a MERGE leaves out files by plain
    literals only."""
    if kind == "string":
        return literal(str(value))
    if kind in _INTEGERS:
        return f"{value}{_INTEGERS[kind]}"
    try:
        if kind == "date":
            return f"DATE'{(_EPOCH + timedelta(days=value)).date().isoformat()}'"
        return f"TIMESTAMP'{(_EPOCH + timedelta(microseconds=value)).isoformat()}Z'"
    except OverflowError:  # years that Python doesn't know
        return f"{'date_from_unix_date' if kind == 'date' else 'timestamp_micros'}({value})"


def _kind(frame: DataFrame, name: str) -> str:
    """The type of a column; empty for one whose values are not compared by ranges."""
    kind = _types(frame)[name.lower()]
    if kind == "timestamp" and value_of(frame.sparkSession, "spark.sql.timestampType") != _ZONED:
        return ""  # Delta fails to leave out files by such a literal then
    return kind if kind in _AS_INTEGER or kind == "string" else ""


def _types(frame: DataFrame) -> dict[str, str]:
    return {field.name.lower(): field.dataType.simpleString() for field in frame.schema}


def _hash_alike(one: DataFrame, other: DataFrame, key: list[str]) -> bool:
    """Whether keys that are equal have the same hash on both sides."""
    kinds, others = _types(one), _types(other)
    names = [name.lower() for name in key]
    return all(kinds[n] == others[n] and _HASHED.fullmatch(kinds[n]) for n in names)


def _hash(key: list[str], of: str = "") -> str:
    """The hash of a key's columns; of NULL as of any value."""
    start = f"{quote(of)}." if of else ""
    return f"xxhash64({', '.join(start + quote(name) for name in key)})"


def _views(scan: dict[str, Any]) -> set[str]:
    return {view for key in scan["keys"] for view, _ in key["held"]}
