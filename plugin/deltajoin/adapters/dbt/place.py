"""Where a delta_join table lies: where the catalog puts it, or under dbt-spark's `location_root`.

With `location_root` the target is the folder `<location_root>/<alias>` and the catalog only points
to it: by a table, or for bags and groups with hidden columns by a view over their table. A catalog
that forgets (in memory, or a new one) is then no loss: the next run finds the epochs in the folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from deltajoin.catalog.files import normalise
from deltajoin.contract import UNDER_A_VIEW
from deltajoin.errors import DeltaJoinError
from deltajoin.names import quote, quote_dotted
from deltajoin.runtime import target as targets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PLAIN = re.compile(r"\w+")


def place_of(node: Mapping[str, Any], relation: Any) -> str:
    """The target of a node's model: the relation's dotted name, or its folder."""
    root = (node.get("config") or {}).get("location_root")
    if root:
        return f"{str(root).rstrip('/')}/{relation.identifier}"
    return ".".join(p if _PLAIN.fullmatch(p) else quote(p) for p in name_parts(relation))


def name_parts(relation: Any) -> tuple[str, ...]:
    """The relation's name as Spark's catalog knows it."""
    return tuple(part for part in (relation.schema, relation.identifier) if part)


def check_free(spark: SparkSession, relation: Any, folder: str) -> None:
    """Refuse to put the folder's table where the catalog has another one.

    Raises:
        DeltaJoinError: TARGET_NOT_OURS.
    """
    for kind in ("keyed", "bag"):
        name = targets.backing_name({"name_parts": name_parts(relation), "kind": kind})
        found = None if is_view(spark, name) else targets.locate(spark, name)
        if found is not None and normalise(found) != normalise(folder):
            raise DeltaJoinError(
                "TARGET_NOT_OURS",
                f"'{name}' is a table in {found}, not in the model's location_root",
                where=folder,
                remedy="Drop it, or run once with --full-refresh, which drops it.",
            )


def enter(spark: SparkSession, relation: Any, audit: Mapping[str, Any]) -> None:
    """Make the folder's table known to the catalog under the relation's name."""
    parts, kind = name_parts(relation), str(audit["kind"])
    name, under = quote_dotted(parts), kind in UNDER_A_VIEW
    backing = targets.backing_name({"name_parts": parts, "kind": kind})
    if spark.catalog.tableExists(name) and is_view(spark, name) != under:
        spark.sql(f"drop {'table' if under else 'view'} {name}")
    folder = targets.literal(audit["location"])
    spark.sql(f"create table if not exists {backing} using delta location {folder}")
    shown = {"name_parts": parts, "kind": kind, "place": name, "columns": list(audit["columns"])}
    targets.show(spark, {**shown, "hidden": list(audit["hidden"] or ())})


def is_view(spark: SparkSession, name: str) -> bool:
    """Whether the catalog has a view of this name."""
    there = spark.catalog.tableExists(name)
    return there and spark.catalog.getTable(name).tableType == "VIEW"
