"""DeltaPlan -> the source of a PySpark job, and the zip it needs.

The job is readable and deterministic: a header, the plan as one literal, every statement as its own
named constant, one `main` of `deltajoin.runtime` (shipped by `--py-files`). In-process runs execute
the same description. No text is pasted into code: names come from `slug`, and every value is a
literal that is proven to evaluate back to itself.
"""

from __future__ import annotations

import ast
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from pprint import pformat
from typing import Any

from deltajoin.delta.plan import DeltaPlan
from deltajoin.emit.sql import build_program
from deltajoin.names import UniqueNames, slug

_STATEMENTS = tuple("sql fold into by_hash whens full key_check compare sketch text stamps".split())
_IMPORT = "from deltajoin.runtime.job import main"
_MAIN = "if __name__ == '__main__':\n    main(PLAN, PROGRAM)"
_SHIPPED = ("__init__.py", "contract.py", "errors.py", "names.py", "storage.py", "runtime")
#: Left out of the program where they are empty.
_SELDOM = frozenset(
    "by_hash shadow derived crossing sketch evidence syntax stamps narrowed apart measured "
    "sent kept files candidates".split()
)
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class JobFiles:
    """What `spark-submit --py-files <py_files> <job>` needs."""

    job: Path
    py_files: Path


def describe_job(plan: DeltaPlan) -> dict[str, Any]:
    """What the runtime executes: the plan's values and its statements, as plain values."""
    program = asdict(build_program(plan), dict_factory=_without_unset)
    return {"plan": plan.to_dict(), "program": program}


def _without_unset(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in pairs if value or name not in _SELDOM}


def job_source(plan: DeltaPlan) -> str:
    """The source text of the job; the same plan gives the same bytes."""
    job = describe_job(plan)
    names = UniqueNames(("PLAN", "PROGRAM"))
    constants: list[tuple[str, str]] = []

    def constant(wanted: str, sql: str) -> ast.expr:
        name = names.take(slug(wanted).upper())
        constants.append((name, sql))
        return ast.Name(name, ast.Load())

    program = _expression(job["program"], constant)
    parts = [
        _literal_text(_header(plan)),
        _IMPORT,
        *(f"{name} = {_literal_text(sql)}" for name, sql in constants),
        f"PLAN = {_proven(pformat(job['plan'], width=100, sort_dicts=True), job['plan'])}",
        "PROGRAM = " + ast.unparse(program),
        _MAIN,
    ]
    return "\n\n".join(parts) + "\n"


def write_job(plan: DeltaPlan, folder: Path) -> JobFiles:
    """Write `job.py` and `deltajoin.zip` into a folder, readable by the owner only."""
    folder.mkdir(parents=True, exist_ok=True)
    files = JobFiles(folder / "job.py", folder / "deltajoin.zip")
    write_private(files.job, job_source(plan))
    _write_zip(files.py_files)
    return files


def write_private(path: Path, text: str) -> None:
    """Write a file that its owner alone may read, from its creation on."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")


def _write_zip(path: Path) -> None:
    package = Path(__file__).resolve().parent.parent
    shipped = [p for name in _SHIPPED for p in (package / name).rglob("*.py")]
    shipped += [package / name for name in _SHIPPED if name.endswith(".py")]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(shipped):
            info = zipfile.ZipInfo(str(Path("deltajoin") / file.relative_to(package)), _EPOCH)
            archive.writestr(info, file.read_bytes())


def _header(plan: DeltaPlan) -> str:
    lines = [
        f"deltajoin job: {_one_line(plan.model)}, epoch {plan.epoch}, {plan.strategy}.",
        "",
        f"Reason: {plan.reason} ({_one_line(plan.detail)}).",
        f"Plan:   {plan.hash}",
        *(f"Path:   {_one_line(path.text)}" for path in plan.paths),
        "",
        "Run: spark-submit --py-files deltajoin.zip job.py",
    ]
    return "\n".join(lines)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _literal_text(text: str) -> str:
    """A string literal, over several lines where that is safe."""
    if '"""' in text or "\r" in text or text.endswith('"'):
        return repr(text)
    doubled = text.replace("\\", "\\\\")
    return _proven(f'"""{doubled}"""', text)


def _proven(literal: str, value: Any) -> str:
    if ast.literal_eval(literal) != value:
        raise AssertionError("a literal must evaluate back to its value")
    return literal


def _expression(value: Any, constant: Any, name: str = "") -> ast.expr:
    """A value as a syntax tree, with every statement's text lifted into a named constant."""
    if isinstance(value, dict):
        label = str(value.get("view") or name)
        return ast.Dict(
            [ast.Constant(key) for key in value],
            [
                constant(label if key == "sql" else key, item)
                if key in _STATEMENTS and item is not None
                else _expression(item, constant, key)
                for key, item in value.items()
            ],
        )
    if isinstance(value, (list, tuple)):
        return ast.List([_expression(item, constant, name) for item in value], ast.Load())
    return ast.Constant(value)
