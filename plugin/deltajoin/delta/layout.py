"""How the target lies in its files, as the user declares it: partitions, clusters, properties.

A table is made, and overwritten, as declared. One that is there is given other clusters and
properties before the next write, other partitions by an overwrite alone: else a run warns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deltajoin.catalog import TargetState
from deltajoin.delta.format import fields_of
from deltajoin.errors import DeltaJoinError
from deltajoin.model import Model


@dataclass(frozen=True)
class Layout:
    """Columns by which a table is partitioned or clustered (liquid), and its own properties;
    `altered`: the table that is there was declared otherwise."""

    partition_by: tuple[str, ...] = ()
    clustered_by: tuple[str, ...] = ()
    tblproperties: tuple[tuple[str, str], ...] = ()
    altered: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The layout as plain values."""
        return {**fields_of(self), "tblproperties": dict(self.tblproperties)}


def plan_layout(
    model: Model, columns: Sequence[str], state: TargetState | None, last: Mapping[str, Any] | None
) -> Layout:
    """The declared layout, its columns as the target's `columns` spell them; where only Spark knows
    these, as they are written.

    Raises:
        DeltaJoinError: UNKNOWN_COLUMN.
    """
    declared = Layout(
        _spelled(model, "partition_by", columns),
        _spelled(model, "clustered_by", columns),
        tuple(sorted(model.tblproperties.items())),
    )
    if state is None or last is None:
        return declared
    before = last.get("layout") or Layout().to_dict()
    now = declared.to_dict()
    altered = any(now[name] != before[name] for name in ("clustered_by", "tblproperties"))
    return replace(declared, altered=altered)


def layout_warnings(layout: Layout, state: TargetState | None) -> tuple[str, ...]:
    """What a table that is there keeps until it is overwritten."""
    if state is None or state.partition_by == layout.partition_by:
        return ()
    there, wanted = (", ".join(p) or "nothing" for p in (state.partition_by, layout.partition_by))
    return (
        f"the target is partitioned by {there}, and not by {wanted}, until it is overwritten: run "
        "once with mode full",
    )


def _spelled(model: Model, option: str, columns: Sequence[str]) -> tuple[str, ...]:
    spelling = {column.lower(): column for column in columns}
    for name in getattr(model, option):
        if spelling and name.lower() not in spelling:
            raise DeltaJoinError(
                "UNKNOWN_COLUMN",
                f"{option} names '{name}', which is no column of the target",
                where=model.name,
                remedy=f"Its columns are: {', '.join(columns)}.",
            )
    return tuple(spelling.get(name.lower(), name) for name in getattr(model, option))
