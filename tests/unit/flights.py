"""The flights model with made-up table states: plans without a disk."""

from __future__ import annotations

from dataclasses import replace

from deltajoin.catalog import Column, TableState
from deltajoin.delta.build import Inputs, build_plan
from deltajoin.delta.epoch_order import epoch_order
from deltajoin.delta.lookup_paths import lookup_paths
from deltajoin.delta.plan import DeltaPlan
from deltajoin.model import Model
from deltajoin.planner.statistics import Statistics

SQL = """
SELECT f.time_hour, f.carrier, f.flight, f.origin, f.dest, f.dep_delay,
       w.temp, p.manufacturer, a.name AS airline, o.name AS origin_name, d.name AS dest_name
FROM flights f
JOIN weather w ON f.origin = w.origin AND f.time_hour = w.time_hour
JOIN planes p USING (tailnum)
JOIN airlines a ON f.carrier = a.carrier
JOIN airports o ON f.origin = o.faa
JOIN airports d ON f.dest = d.faa
"""
COLUMNS = {
    "flights": "time_hour:timestamp carrier:string flight:int origin:string dest:string "
    "tailnum:string dep_delay:double",
    "weather": "origin:string time_hour:timestamp temp:double",
    "planes": "tailnum:string manufacturer:string year:int",
    "airlines": "carrier:string name:string",
    "airports": "faa:string name:string",
}
ROWS = {"flights": 27004, "weather": 2226, "planes": 3322, "airlines": 16, "airports": 1458}
KEYS = {
    "flights": ["time_hour", "carrier", "flight"],
    "weather": ["origin", "time_hour"],
    "planes": ["tailnum"],
    "airlines": ["carrier"],
    "airports": ["faa"],
}


def table(name: str) -> TableState:
    """A made-up state of one source."""
    pairs = [entry.split(":") for entry in COLUMNS[name].split()]
    return TableState(
        name=name,
        location=f"/data/{name}",
        table_id=f"id-of-{name}",
        version=8,
        columns=tuple(Column(column, kind, True) for column, kind in pairs),
        rows=ROWS[name],
        bytes=ROWS[name] * 100,
        files=1,
        change_feed=True,
        properties=(("delta.enableChangeDataFeed", "true"),),
    )


def model(sql: str = SQL, **options: object) -> Model:
    """The flights model."""
    keys = options.pop("keys", KEYS)
    places = {name: f"/data/{name}" for name in COLUMNS}
    return Model("flights_enriched", sql, places, "/data/out", keys, **options)  # type: ignore[arg-type]


def first_plan(model_: Model | None = None) -> DeltaPlan:
    """The plan of the first run."""
    names = {name: table(name) for name in COLUMNS}
    return build_plan(model_ or model(), Inputs(names, "/data/out", None, False))


def daily_plan(changed: dict[str, int], plan: DeltaPlan | None = None) -> DeltaPlan:
    """The plan of a day on which some sources changed: source -> estimated changed rows."""
    plan = plan or first_plan()
    assert plan.graph is not None
    sources = tuple(
        replace(s, previous=6 if s.source in changed else 8, change_rows=changed.get(s.source, 0))
        for s in plan.sources
    )
    statistics = Statistics({s.source: s.rows for s in sources}, dict(plan.keys))
    versions = {s.source: s for s in sources}
    order, _ = epoch_order(plan.graph, statistics, versions)
    paths = lookup_paths(plan.graph, statistics, order, versions)
    return replace(
        plan,
        strategy="incremental",
        reason="CHANGES",
        detail="changed: " + ", ".join(sorted(changed)),
        epoch=2,
        sources=sources,
        epoch_order=order,
        paths=paths,
        target=replace(plan.target, exists=True),
        rebuild=None,
        settings=(
            ("spark.sql.ansi.enabled", "true"),
            ("spark.sql.session.timeZone", "UTC"),
        ),
    )
