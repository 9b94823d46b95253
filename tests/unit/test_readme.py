"""The README's tables of constructs: each example is kept, or rebuilt with the code beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import deltajoin

README = Path(__file__).parents[2] / "README.md"
FEED = {"delta.enableChangeDataFeed": "true"}
NUMBERS: list[int] = [1, 2]
TABLES: dict[str, dict[str, Any]] = {
    "o": {"id": NUMBERS, "k": NUMBERS, "v": NUMBERS, "items": [NUMBERS, NUMBERS]},
    "c": {"k": NUMBERS, "name": ["a", "b"]},
    "p": {"k": NUMBERS, "v": NUMBERS, "x": NUMBERS},
    "t": {
        "id": NUMBERS,
        "at": pa.array(NUMBERS, pa.timestamp("us", "UTC")),
        "tags": pa.array([[("x", 1)], []], pa.map_(pa.string(), pa.int64())),
    },
}


def table_after(heading: str) -> list[list[str]]:
    """The cells of the table whose head begins so, row by row."""
    lines = README.read_text(encoding="utf-8").splitlines()
    start = lines.index(heading) + 2
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def quoted(cell: str) -> str:
    return cell.strip("`")


KEPT = table_after("| construct | kept by | example |")
REBUILT = table_after("| construct | code | write instead | example |")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("readme")
    for name, columns in TABLES.items():
        write_deltalake(str(root / name), pa.table(columns), configuration=dict(FEED))
    return {name: str(root / name) for name in TABLES}


def planned(sql: str, sources: dict[str, str], target: Path) -> Any:
    keys = {"o": ["id"], "c": ["k"], "p": ["k", "v"]}
    return deltajoin.plan(deltajoin.Model("m", sql, sources, str(target), keys=keys))


@pytest.mark.parametrize("row", KEPT, ids=[row[0] for row in KEPT])
def test_what_is_said_to_be_kept_is(
    row: list[str], sources: dict[str, str], tmp_path: Path
) -> None:
    plan = planned(quoted(row[-1]), sources, tmp_path / "target")
    assert plan.graph is not None
    assert plan.rebuilt_because is None


@pytest.mark.parametrize("row", REBUILT, ids=[row[0] for row in REBUILT])
def test_what_is_said_to_be_rebuilt_has_the_code(
    row: list[str], sources: dict[str, str], tmp_path: Path
) -> None:
    plan = planned(quoted(row[-1]), sources, tmp_path / "target")
    assert plan.rebuilt_because is not None
    assert plan.rebuilt_because.code == quoted(row[1])


def test_lines_are_within_140_characters_and_links_lead_somewhere() -> None:
    text = README.read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if len(line) > 140] == []
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (README.parent / link).exists(), link
