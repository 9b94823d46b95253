"""examples/accelerator: a package of another registers a kind of join, and plans take it."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import write_deltalake

import deltajoin
from deltajoin.accelerate.choose import ENTRY_POINTS, accelerators, recognised
from deltajoin.accelerate.protocol import Candidates, Sides
from deltajoin.runtime.execute import _Run
from deltajoin.sql.dialect import parse_expression

EXAMPLE = Path(__file__).parents[2] / "examples" / "accelerator"
NEAR = "levenshtein(`a`.`s`, `b`.`s`) <= 2"
ROWS = 5_000


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example as if pip had installed it: its folder on the path, its entry points beside."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = project["entry-points"][ENTRY_POINTS]
    folder = tmp_path / "site" / "deltajoin_edit_distance-0.1.0.dist-info"
    folder.mkdir(parents=True)
    head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (folder / "METADATA").write_text(head, encoding="utf-8")
    points = "".join(f"{name} = {value}\n" for name, value in declared.items())
    (folder / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\n{points}", encoding="utf-8")
    monkeypatch.syspath_prepend(folder.parent)
    monkeypatch.syspath_prepend(EXAMPLE)
    accelerators.cache_clear()
    yield
    accelerators.cache_clear()
    sys.modules.pop("edit_distance", None)


def found(sql: str) -> Candidates | None:
    sides = Sides(frozenset({"b"}), lambda column: "string")
    return recognised([parse_expression(sql)], sides)


def planned(tmp_path: Path, join: str = "JOIN", rows: int = ROWS) -> Any:
    sources = {name: str(tmp_path / name) for name in "ab"}
    for path in sources.values():
        ids = list(range(rows))
        table = pa.table({"id": ids, "s": [f"{number:x}" for number in ids]})
        write_deltalake(path, table, configuration={"delta.enableChangeDataFeed": "true"})
    sql = f"SELECT a.id, b.id AS other FROM a {join} b ON levenshtein(a.s, b.s) <= 2"
    keys = {"a": ["id"], "b": ["id"]}
    return deltajoin.plan(deltajoin.Model("m", sql, sources, str(tmp_path / "t"), keys=keys))


def test_the_package_registers_its_kind() -> None:
    assert [point.name for point in entry_points(group=ENTRY_POINTS)] == ["edit-distance"]
    assert [kind.name for kind in accelerators()][-1] == "edit distance"


@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN"])
def test_a_plan_takes_it(tmp_path: Path, join: str) -> None:
    plan = planned(tmp_path, join)
    served = {"kind": "edit distance", "serves": [NEAR]}
    assert plan.full_query.to_dict()["joins"][0]["accelerated"] == served
    said = "accelerated by edit distance: levenshtein(a.s, b.s) <= 2"
    assert said in deltajoin.explain(plan)


def test_a_plan_of_few_rows_does_without(tmp_path: Path) -> None:
    plan = planned(tmp_path, rows=100)
    assert "accelerated" not in plan.full_query.to_dict()["joins"][0]
    assert "about 10,000 pairs are compared, few enough" in deltajoin.explain(plan)
    assert "compared" not in plan.full_query.to_dict()


def test_few_rows_that_are_compared_often_are_told(tmp_path: Path) -> None:
    """So that the run compiles its plan, which it would interpret for so few rows."""
    plan = planned(tmp_path, rows=1_000)
    assert plan.full_query.to_dict()["compared"] == 1_000_000
    run = SimpleNamespace(plan=plan.to_dict())
    assert _Run._compares_many(run)
    run.plan["full_query"] = {"further": [run.plan["full_query"]]}
    assert _Run._compares_many(run)
    run.plan["strategy"] = "incremental"
    assert not _Run._compares_many(run)


@pytest.mark.parametrize(
    "sql",
    [
        "levenshtein(a.s, b.s) >= 2",
        "levenshtein(a.s, b.s) <= b.n",
        "levenshtein(a.s, b.s, 2) <= 2",
        "levenshtein(a.s, a.t) <= 2",
        "soundex(a.s, b.s) <= 2",
    ],
)
def test_other_conditions_are_not_recognised(sql: str) -> None:
    assert found(sql) is None


def test_no_match_is_lost() -> None:
    words = ["", "a", "ab", "abc", "xbc", "abcd", "dcba", "abcdef", "\u00e9t\u00e9", None]
    for sql in (NEAR, "levenshtein(b.s, a.s) < 3"):
        candidates = found(sql)
        assert candidates
        (span,) = candidates.spans
        with duckdb.connect() as engine:
            engine.execute("CREATE TABLE w (s VARCHAR)")
            engine.executemany("INSERT INTO w VALUES (?)", [[word] for word in words])
            meet = f"{span.left[0]} BETWEEN {span.right[0]} AND {span.right[1]}"
            query = f"SELECT * FROM w a, w b WHERE {sql} AND ({meet}) IS NOT TRUE"
            query = query.replace("`", "").replace("2D", "2").replace("3D", "3")
            assert engine.execute(query).fetchall() == []
