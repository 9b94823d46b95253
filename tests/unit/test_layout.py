"""What a run alters of a table that is there, told from its log alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deltajoin.catalog import TargetCommit, TargetState
from deltajoin.catalog.log import parse_commit
from deltajoin.catalog.schema import Column, columns_of
from deltajoin.delta.layout import plan_layout
from deltajoin.model import Model

FEED = {"delta.enableChangeDataFeed": "true"}
COLUMNS = (Column("Day", "int", True), Column("a name", "string", True, physical="col-1"))


def model(**layout: Any) -> Model:
    return Model("m", "SELECT * FROM o", {"o": "/o"}, "/t", **layout)


def altered(
    wanted: Model,
    before: Model,
    *clusters: tuple[str, ...] | None,
    properties: dict[str, str] = FEED,
    partition_by: tuple[str, ...] = (),
) -> dict[str, Any]:
    """What a run of `wanted` alters of a table that `before` made; `clusters` as the commits say,
    newest first, the last one of them that of the epoch."""
    names = tuple(column.name for column in COLUMNS)
    last = {"epoch": 1, "layout": plan_layout(before, names, None, None).to_dict()}
    own = json.dumps({"deltajoin": last})
    given = clusters or (None,)
    commits = [
        TargetCommit(9 - i, 0, "", {}, own if i == len(given) - 1 else None, False, None, each)
        for i, each in enumerate(given)
    ]
    commits.append(TargetCommit(0, 0, "", {}, None, False, None, ("earlier",)))
    found = tuple(properties.items())
    state = TargetState("/t", "id", 9, COLUMNS, found, commits, partition_by)
    layout = plan_layout(wanted, names, state, last).to_dict()
    return {name: layout[name] for name in ("recluster", "to_set", "to_unset") if name in layout}


CLUSTERED = model(clustered_by=("day", "a name"))
OTHER = {"recluster": True}


@pytest.mark.parametrize(
    ("clusters", "found"),
    [
        ((), {}),
        ((None, None), {}),
        ((("Day", "col-1"), ()), {}),
        ((None, ("Day", "col-1"), None), {}),
        (((),), OTHER),
        (((), ("Day", "col-1"), ()), OTHER),
        ((("col-1", "Day"), None), OTHER),
        ((("Day", "a name"), None), OTHER),
    ],
)
def test_clusters_as_the_log_has_them(clusters: Any, found: dict[str, Any]) -> None:
    """An overwrite takes them away, others may give the table other ones."""
    assert altered(CLUSTERED, CLUSTERED, *clusters) == found


def test_clusters_that_are_declared_anew() -> None:
    assert altered(CLUSTERED, model()) == OTHER
    assert altered(model(), CLUSTERED) == OTHER
    assert altered(CLUSTERED, model(), ("Day", "col-1"), None) == {}
    assert altered(CLUSTERED, model(), partition_by=("Day",)) == {}


def test_clusters_that_no_model_declared() -> None:
    assert altered(model(), model(), ("Day",), None) == {}


OWN = model(tblproperties={"my.own": "1", "delta.appendonly": "true"})
MADE = {**FEED, "my.own": "1", "delta.appendOnly": "true"}


@pytest.mark.parametrize(
    ("properties", "found"),
    [
        (MADE, {}),
        (MADE | {"other.own": "2", "delta.enableDeletionVectors": "false"}, {}),
        (MADE | {"my.own": "2"}, {"to_set": {"my.own": "1"}}),
        (FEED | {"my.own": "1"}, {"to_set": {"delta.appendonly": "true"}}),
        (MADE | {"delta.enableChangeDataFeed": "false"}, {"to_set": FEED}),
    ],
)
def test_properties_that_others_set(properties: dict[str, str], found: dict[str, Any]) -> None:
    assert altered(OWN, OWN, properties=properties) == found


def test_properties_that_are_declared_no_longer() -> None:
    gone = {"to_unset": ["delta.appendonly", "my.own"]}
    assert altered(model(), OWN, properties=MADE | {"other.own": "2"}) == gone
    assert altered(model(), OWN) == {}
    ours = {"delta.enableDeletionVectors": "false", "delta.enableChangeDataFeed": "false"}
    back = {"to_set": dict.fromkeys(sorted(ours), "true")}
    assert altered(model(), model(tblproperties=ours), properties=ours) == back
    assert altered(model(tblproperties=ours), model(tblproperties=ours), properties=ours) == {}


def test_properties_that_a_table_does_not_list() -> None:
    """Delta keeps features in the protocol, Spark the comment elsewhere."""
    hidden = {"delta.feature.rowTracking": "supported", "comment": "of days"}
    assert altered(model(tblproperties=hidden), model(tblproperties=hidden)) == {}
    assert altered(model(tblproperties=hidden), model()) == {"to_set": hidden}
    assert altered(model(), model(tblproperties=hidden)) == {}


def test_the_clusters_of_a_commit() -> None:
    def commit(**domain: Any) -> Any:
        return parse_commit(1, json.dumps({"domainMetadata": domain})).clusters

    columns = json.dumps({"clusteringColumns": [["Day"], ["a", "b"]]})
    assert commit(domain="delta.clustering", configuration=columns, removed=False) == ("Day", "a.b")
    assert commit(domain="delta.clustering", configuration=columns, removed=True) == ()
    assert commit(domain="delta.rowTracking", configuration="{}", removed=False) is None
    assert parse_commit(1, '{"commitInfo": {}}').clusters is None
    field = {"name": "a name", "type": "long", "metadata": {}}
    mapped = field | {"metadata": {"delta.columnMapping.physicalName": "col-1"}}
    schema = json.dumps({"type": "struct", "fields": [field, mapped]})
    assert [column.physical for column in columns_of(schema)] == ["", "col-1"]
