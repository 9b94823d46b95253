"""Rows of each path at each step: with shared steps the same as with every path on its own."""

from __future__ import annotations

from collections import Counter

import pytest

from deltajoin.emit import paths as emitted
from deltajoin.emit.narrowing import placed
from deltajoin.emit.sql import Program, build_program
from deltajoin.errors import DeltaJoinError
from deltajoin.names import PATH
from tests.property.generate import generate
from tests.property.oracle import (
    Make,
    _kinds,
    _load,
    connection,
    draw,
    history,
    maker_of,
    to_duckdb,
)
from tests.property.trees import generate_tree

Counts = Counter[tuple[int, str]]


@pytest.mark.parametrize(("make", "least"), [(generate, 50), (generate_tree, 25)])
def test_shared_steps_count_the_rows_of_each_path(
    make: Make, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = 0
    for seed in range(100):
        case = draw(seed, make=make)
        try:
            maker = maker_of(case)
        except DeltaJoinError:
            continue
        if maker is None or maker.graph.derived:
            continue
        for number, (before, state, feeds) in enumerate(history(case, maker.tables)):
            plan = maker.plan_or_none(number, _kinds(feeds))
            program = build_program(plan) if plan else None
            if plan is None or program is None or not program.shared:
                continue
            shared += len(program.shared)
            with monkeypatch.context() as patch:
                patch.setattr(emitted, "shared_ends", lambda paths: ())
                apart = build_program(plan)
            assert not apart.shared
            _load(case, program, {1: before, 2: state}, feeds)
            assert counts(program) == counts(apart), seed
    assert shared > least


def counts(program: Program) -> Counts:
    """(path, relation looked up) -> rows."""
    views: dict[str, str] = {feed.view: feed.sql for feed in program.feeds}
    asked: list[tuple[int, str, str]] = []
    for path in program.paths:
        views |= {s.view: s.sql for s in path.statements}
        asked += [
            (path.number, s.relation, f"SELECT count(*) FROM {quoted(s.view)}")
            for s in path.statements
            if s.relation
        ]
    for part in program.shared:
        views |= {part.view: part.sql}
        views |= {s.view: s.sql for s in part.statements}
        for number in part.paths:
            which = f"count(*) FILTER ({PATH} = {number})"
            asked += [
                (number, s.relation, f"SELECT {which} FROM {quoted(s.view)}")
                for s in part.statements
                if s.relation
            ]
    every = placed(views.items(), program.narrowed)
    head = ", ".join(f"{quoted(view)} AS ({to_duckdb(sql)})" for view, sql in every)
    figures = ", ".join(f"({query})" for _, _, query in asked)
    (rows,) = connection().execute(f"WITH {head} SELECT {figures}").fetchall()
    found: Counts = Counter()
    for (number, relation, _), count in zip(asked, rows, strict=True):
        found[number, relation] = count
    return found


def quoted(view: str) -> str:
    return '"' + view.replace('"', '""') + '"'
