"""plugin/docs/codes.md lists every code of the package, each once, and nothing else."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PLUGIN = Path(__file__).parents[2] / "plugin"
CODE = re.compile(r"[A-Z]+(_[A-Z]+)*")
NO_CODE = re.compile(
    r"(DELTAJOIN|SC|AIRFLOW|AWS|DBT)_.*|DELTA_PACKAGE|JAVA_HOME|SPARK_HOME|PYSPARK_PYTHON|TRY_CAST|NO_CODEGEN|TIMESTAMP_LTZ|PATH_NOT_FOUND|MISSING_CATALOG_ABILITY"
)
ONE_WORD = ("Unsupported", "Decision")


def codes_in(source: str) -> set[str]:
    """Constants in upper case with an underscore; single words where a code is meant."""
    found: set[str] = set()
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ONE_WORD:
                found |= {text for arg in node.args[:2] for text in strings(arg)}
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_CLAUSES":
            assert isinstance(node.value, ast.Tuple)
            for row in node.value.elts:
                assert isinstance(row, ast.Tuple)
                found |= set(strings(row.elts[1]))
    words = {text for text in strings(tree) if "_" in text}
    return found | {text for text in words if not NO_CODE.fullmatch(text)}


def strings(tree: ast.AST) -> list[str]:
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and CODE.fullmatch(node.value)
    ]


def documented() -> list[tuple[str, ...]]:
    text = (PLUGIN / "docs" / "codes.md").read_text(encoding="utf-8")
    rows = (line for line in text.splitlines() if line.startswith("| `"))
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in rows]


def test_every_code_is_listed_once_and_none_is_stale() -> None:
    used: set[str] = set()
    for file in PLUGIN.rglob("*.py"):
        used |= codes_in(file.read_text(encoding="utf-8"))
    listed = [row[0].strip("`") for row in documented()]
    assert sorted(used - set(listed)) == []
    assert sorted(set(listed) - used) == []
    assert len(listed) == len(set(listed))


def test_every_row_says_what_it_means_and_what_to_do() -> None:
    for row in documented():
        assert len(row) == 3, row
        assert all(row), row


def test_every_refusal_names_a_remedy() -> None:
    """In the source: no `DeltaJoinError` with a code of its own is raised without one."""
    silent = []
    for file in sorted(PLUGIN.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            if node.func.id != "DeltaJoinError" or not node.args or file.name == "errors.py":
                continue
            if "remedy" not in {keyword.arg for keyword in node.keywords}:
                silent.append(f"{file.relative_to(PLUGIN)}:{node.lineno}")
    assert silent == []
