"""How the target lies in its files, as the user declares it: partitions, clusters, properties.

A table is made, and overwritten, as declared. One that is there is given other clusters and
properties by the next run, whoever changed them: what its log says is compared with what is
declared. Other partitions are given by an overwrite alone: else a run warns. A property that is no
longer declared is taken away; what no model declared stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from deltajoin.catalog import TargetState
from deltajoin.contract import FEED_PROPERTY, PROPERTIES, committed_record
from deltajoin.delta.format import SELDOM, fields_of
from deltajoin.errors import DeltaJoinError
from deltajoin.model import Model

#: Properties that Delta and Spark keep elsewhere than among a table's others, or
#: that can't be taken away: they are given again where their declaration changes.
_ELSEWHERE = re.compile(
    r"delta\.(feature\.|columnmapping\.|min(reader|writer)version$|ignoreprotocoldefaults$)|"
    r"(comment|collation|location|owner|provider|external|is_managed_location)$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Layout:
    """Columns by which a table is partitioned or clustered (liquid), and its own properties; and in
    what the table that is there has to be altered."""

    partition_by: tuple[str, ...] = ()
    clustered_by: tuple[str, ...] = ()
    tblproperties: tuple[tuple[str, str], ...] = ()
    recluster: bool = field(default=False, metadata=SELDOM)
    to_set: tuple[tuple[str, str], ...] = field(default=(), metadata=SELDOM)
    to_unset: tuple[str, ...] = field(default=(), metadata=SELDOM)

    def to_dict(self) -> dict[str, Any]:
        """The layout as plain values."""
        pairs = {"tblproperties": dict(self.tblproperties)}
        if self.to_set:
            pairs["to_set"] = dict(self.to_set)
        return fields_of(self) | pairs

    def without_work(self) -> Layout | None:
        """What a run that writes no epoch alters, if anything: what the log then tells, so that the
        next such run has nothing to do."""
        to_set = tuple(pair for pair in self.to_set if not _ELSEWHERE.match(_key(pair[0])))
        altered = self.recluster or to_set or self.to_unset
        return replace(self, to_set=to_set) if altered else None


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
    if state is None:
        return declared
    before = (last or {}).get("layout") or {}
    to_set, to_unset = _properties(declared, state, before.get("tblproperties", {}))
    recluster = last is not None and not state.partition_by and _differ(declared, state, before)
    return replace(declared, recluster=recluster, to_set=to_set, to_unset=to_unset)


def _differ(declared: Layout, state: TargetState, before: Mapping[str, Any]) -> bool:
    """Whether the table has other clusters: those that the newest commit since the last epoch says,
    or the epoch itself, which loses them where it overwrites; else those that it was given."""
    names = {column.name.lower(): column.physical or column.name for column in state.columns}

    def physical(clusters: Sequence[str]) -> list[str]:
        return [names.get(name.lower(), name) for name in clusters]

    there = physical(before.get("clustered_by", ()))
    if not there and not declared.clustered_by:
        return False
    for commit in state.commits:
        if commit.clusters is not None:
            there = list(commit.clusters)
            break
        if committed_record(commit.user_metadata) is not None:
            break
    return there != physical(declared.clustered_by)


def _properties(
    declared: Layout, state: TargetState, before: Mapping[str, str]
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Properties to set, and to unset, by what was declared before."""
    earlier = {_key(name): (name, value) for name, value in before.items()}
    wanted = {_key(name): (name, value) for name, value in declared.tblproperties}
    for name, value in PROPERTIES.items():
        if name == FEED_PROPERTY or _key(name) in earlier:
            wanted.setdefault(_key(name), (name, value))
    there = {_key(name): value for name, value in state.properties}
    there |= {key: value for key, (_, value) in earlier.items() if _ELSEWHERE.match(key)}
    to_set = (pair for key, pair in wanted.items() if there.get(key) != pair[1])
    gone = (
        name
        for key, (name, _) in earlier.items()
        if key in there and key not in wanted and not _ELSEWHERE.match(key)
    )
    return tuple(sorted(to_set)), tuple(sorted(gone))


def _key(name: str) -> str:
    """A property's name as it is compared: Delta spells its own in its own way."""
    return name.lower() if name.lower().startswith("delta.") else name


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
