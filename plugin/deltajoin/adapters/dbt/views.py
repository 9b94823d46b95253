"""The query of a catalog's view, as it reads the view's columns today.

A view keeps the names of the columns that its query gave when it was made, and binds bare table
names in the schema of that time; both are written out. Spark reads a view by the settings under
which it was made: where these differ from the session's, its query means something else written
out. The view over a target's backing table is no view to be inlined: the table under it is the
source.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from deltajoin.adapters.dbt.place import is_view
from deltajoin.contract import BACKING_SUFFIX
from deltajoin.errors import DeltaJoinError
from deltajoin.names import quote, quote_dotted, split_dotted
from deltajoin.runtime.settings import PARSING, SETTINGS, value_of
from deltajoin.runtime.target import facts_of
from deltajoin.sql.dialect import Unreadable
from deltajoin.sql.views import qualify_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OURS = BACKING_SUFFIX + "`"
_UTC = {"utc", "etc/utc", "gmt", "z", "+00:00"}


def view_sql(spark: SparkSession, parts: tuple[str, ...], *, dotted: bool = False) -> str | None:
    """The query of the view of this name; None for a table, a target's view, or no such name. Only
    where its names of tables are `dotted`, Spark alone may be able to read it.

    Raises:
        DeltaJoinError: VIEW_SETTINGS.
    """
    name = quote_dotted(parts)
    if not is_view(spark, name):
        return None
    found = query_of(facts_of(spark, name), spark.table(name).columns, dotted=dotted)
    if found is not None:
        _check_settings(spark, name)
    return found


def _check_settings(spark: SparkSession, name: str) -> None:
    (row,) = spark.sql(f"DESCRIBE EXTENDED {name} AS JSON").collect()
    made = json.loads(row[0]).get("view_creation_spark_configuration", {})
    for key in sorted(made.keys() & {*SETTINGS, *PARSING}):
        now = value_of(spark, key)
        if now is not None and not _alike(made[key], now):
            raise DeltaJoinError(
                "VIEW_SETTINGS",
                f"the view was made with {key} {made[key]}, by which Spark reads it; this session "
                f"has {now}",
                where=f"view {name}",
                remedy="Set it alike, make the view anew in such a session, or a table of it.",
            )


def _alike(one: str, other: str) -> bool:
    one, other = one.lower(), other.lower()
    return one == other or {one, other} <= _UTC


def query_of(
    facts: Mapping[str, str | None], columns: Sequence[str], *, dotted: bool = False
) -> str | None:
    """The query of a view from what DESCRIBE EXTENDED says of it and the view's own columns.

    Its lines keep their numbers.

    Example:
        >>> facts = {"View Text": "SELECT * FROM t", "View Query Output Columns": "[`a`, b]"}
        >>> facts["View Catalog and Namespace"] = "spark_catalog.dw"
        >>> print(query_of(facts, ["a", "x"]))
        SELECT `a` AS `a`, `b` AS `x` FROM (SELECT * FROM `dw`.`t` AS `t`
        ) AS `view`
    """
    text = facts.get("View Text")
    if not text or _OURS in text:
        return None
    schema = split_dotted(facts.get("View Catalog and Namespace") or "")
    schema = schema[1:] if schema[:1] == ("spark_catalog",) else schema
    try:
        text = qualify_tables(text, schema) if schema else text
    except Unreadable:
        if not dotted:
            raise
    given = (facts.get("View Query Output Columns") or "").strip("[]")
    queried = [split_dotted(column.strip())[0] for column in given.split(", ") if column.strip()]
    if len(queried) != len(columns):
        return text
    pairs = zip(queried, columns, strict=True)
    listed = ", ".join(f"{quote(old)} AS {quote(new)}" for old, new in pairs)
    return f"SELECT {listed} FROM ({text.rstrip().rstrip(';')}\n) AS `view`"  # noqa: S608
