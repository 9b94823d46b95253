"""Rows of each path at each lookup: with shared lookups the same as with every path on its own."""

from __future__ import annotations

from collections import Counter

import pytest

from deltajoin.emit import paths as emitted
from deltajoin.emit.narrowing import placed
from deltajoin.emit.sql import Program, build_program
from deltajoin.names import PATH
from deltajoin.sql.bind import bind
from tests.property.cases import render_sql
from tests.property.oracle import _kinds, _load, _PlanMaker, connection, draw, history, to_duckdb

Counts = Counter[tuple[str, str]]


def test_shared_lookups_count_the_rows_of_each_path(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = 0
    for seed in range(100):
        case = draw(seed)
        sql = render_sql(case)
        query = bind(sql, {t.name: t.names for t in sorted(case.tables, key=lambda t: t.name)})
        assert query.graph is not None
        maker = _PlanMaker(case, sql, query.graph)
        for number, (before, state, feeds) in enumerate(history(case, query.tables)):
            plan = maker.plan(number, _kinds(feeds))
            program = build_program(plan)
            if not program.shared:
                continue
            shared += len(program.shared)
            with monkeypatch.context() as patch:
                patch.setattr(emitted, "shared_ends", lambda paths: ())
                apart = build_program(plan)
            assert not apart.shared
            _load(case, program, {1: before, 2: state}, feeds)
            assert counts(program) == counts(apart), seed
    assert shared > 50


def counts(program: Program) -> Counts:
    """(driver, relation looked up) -> rows."""
    views: dict[str, str] = {feed.view: feed.sql for feed in program.feeds}
    asked: list[tuple[str, str, str]] = []
    for path in program.paths:
        views |= {s.view: s.sql for s in path.statements}
        asked += [
            (path.driver, s.relation, f"SELECT count(*) FROM {quoted(s.view)}")
            for s in path.statements
            if s.relation
        ]
    numbers = {path.driver: path.number for path in program.paths}
    for part in program.shared:
        views |= {part.view: part.sql}
        views |= {s.view: s.sql for s in part.statements}
        for driver in part.drivers:
            which = f"count(*) FILTER ({PATH} = {numbers[driver]})"
            asked += [
                (driver, s.relation, f"SELECT {which} FROM {quoted(s.view)}")
                for s in part.statements
                if s.relation
            ]
    every = placed(views.items(), program.narrowed)
    head = ", ".join(f"{quoted(view)} AS ({to_duckdb(sql)})" for view, sql in every)
    figures = ", ".join(f"({query})" for _, _, query in asked)
    (rows,) = connection().execute(f"WITH {head} SELECT {figures}").fetchall()
    found: Counts = Counter()
    for (driver, relation, _), count in zip(asked, rows, strict=True):
        found[driver, relation] = count
    return found


def quoted(view: str) -> str:
    return '"' + view.replace('"', '""') + '"'
