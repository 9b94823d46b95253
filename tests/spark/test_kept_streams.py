"""Streams that a run computes once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import deltajoin
from deltajoin.emit import paths
from deltajoin.emit.sql import build_program

NAMES = ("t", "s", "u", "v", "w")
#: Two paths go on together through a side that is made by lookups, whose keys are computed once.
SQL = (
    "SELECT t.k, t.m, s.m AS sm, u.m AS um, v.m AS vm, w.m AS wm FROM t JOIN s ON t.k = s.k "
    "LEFT JOIN (u LEFT JOIN (v LEFT JOIN w ON v.m = w.k) ON u.m = v.k) ON t.m = u.k"
)


def test_keys_of_shared_lookups_carry_no_number_of_a_path(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "_WRITTEN_OUT", 1)
    sources = {name: str(tmp_path / name) for name in NAMES}
    model = deltajoin.Model("kept", SQL, sources, str(tmp_path / "out"), mode="incremental")
    feed = {"delta.enableChangeDataFeed": "true"}
    for at, place in enumerate(sources.values()):
        rows = {"k": [i % (5 + at) for i in range(12)], "m": [i * 7 % (6 + at) for i in range(12)]}
        write_deltalake(place, pa.table(rows), configuration=feed)
    deltajoin.run(model, spark)
    for at, place in enumerate(sources.values()):
        write_deltalake(place, pa.table({"k": [0, 1], "m": [at, 0]}), mode="append")
    shared = build_program(deltajoin.plan(model)).shared
    assert any(each.kept and each.relation is None for part in shared for each in part.statements)
    assert deltajoin.run(model, spark).strategy == "incremental"
    session = spark.newSession()
    for name, place in sources.items():
        session.read.format("delta").load(place).createOrReplaceTempView(name)
    found = Counter(map(tuple, deltajoin.read(model, spark).collect()))
    assert found == Counter(map(tuple, session.sql(SQL).collect()))
